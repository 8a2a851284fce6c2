"""Posterior of the hyperparameters with f integrated out, through an evidence and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.targets import DifferentiableTarget, chain_by_chain, inside


class HyperparameterTarget(DifferentiableTarget):
    """Posterior of the hyperparameters `theta` of a model, latent values integrated out.

    The density over theta is that of the evidence (exact for Gaussian noise, the rule's approximation otherwise)
    times the prior of the natural values times |d natural / d theta|; the Jacobian belongs here although a MAP
    estimate leaves it out. Parameters without a prior get a weak proper one (`with_proper_priors`).

    Parameters
    ----------
    model : GP
    X, y : arrays (n, D), (n,)
    sample_weight : array (n,), optional
    proper : bool
        Whether to give parameters without a prior a weak proper one; otherwise they are flat in natural units.

    Attributes
    ----------
    model : GP
        Bound to the columns of X, with the priors that are used.
    evaluations, failures : int
        Evaluations of the evidence so far, and those that failed (they count as density zero).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> from cavity.sampling import HyperparameterTarget, hamiltonian
    >>> x = np.linspace(0, 6, 20)
    >>> target = HyperparameterTarget(GP(1.0 * SE(1.0), Gaussian(0.1)), x[:, None], np.sin(x))
    >>> target.names
    ('se.variance', 'se.lengthscale', 'gaussian.variance')
    >>> hamiltonian(target, target.model.theta, n_draws=20, warmup=20, rng=0, progress=False).positions.shape
    (1, 20, 3)
    """

    def __init__(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        proper: bool = True,
    ) -> None:
        self.model, self._data = model.training(X, y, sample_weight, basis_in_kernel=True)
        self.X, self.y, self.weight = self._data.X, self._data.y, self._data.weight
        if proper:
            self.model = with_proper_priors(self.model, self.X, self.y, self.weight)
        self.names = tuple(self.model.names)
        self.dim = len(self.names)
        self.evaluations, self.failures = 0, 0
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log evidence plus log prior density of theta (C,), and its gradient (C, p)."""
        return chain_by_chain(self._one, U)

    def natural(self, U: Array) -> Array:
        """Natural values of the free parameters, of the shape of U."""
        flat = U.reshape(-1, self.dim)
        return np.array([self.model.layout.to_natural(u) for u in flat]).reshape(U.shape)

    def draw_prior(self, chains: int, rng: np.random.Generator) -> Array:
        """Positions drawn from the prior, (C, p)."""
        return np.array([self.model.draw_from_priors(rng).theta for _ in range(chains)])

    def _one(self, theta: Array) -> tuple[float, Array]:
        nothing = -np.inf, np.zeros(self.dim)
        if not (np.isfinite(theta).all() and inside(theta, self._bounds)):
            return nothing
        self.evaluations += 1
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                prior, d_prior = model.log_prior(jacobian=True)
                # from nothing: a density must not depend on where the chain was before
                evidence, d_evidence, _ = model.evidence_of(self._data)
        except (ValueError, np.linalg.LinAlgError):  # a value that overflows, or inference that fails there
            self.failures += 1
            return nothing
        return evidence + prior, d_evidence + d_prior
