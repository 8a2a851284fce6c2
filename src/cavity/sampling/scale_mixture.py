"""Hamiltonian Monte Carlo on noise variances: Student-t and Laplace noise as scale mixtures of normals.

Each observation has a noise variance v_i of its own, with the mixing density as its prior; given all of them the
function f is integrated out exactly (thesis section 5.4.2, eq. 5.47). Variances and hyperparameters are sampled
together, the variances in coordinates e_i that have about unit scale under the prior whatever the hyperparameters, so
that scale and degrees of freedom can move without all variances having to follow (`scale_mixing`).

The gradient is that of the exact evidence in v (`point_noise`), d log p / d log v_i = v_i (b_i^2 - R_ii) / 2, and the
chain rule. An evaluation costs one factorization per chain.

After each trajectory the variances and the noise parameters are drawn together given a draw of f (`refresh`), which
lets the degrees of freedom go where the variances would have held them. Where several modes of the hyperparameters are
known, a draw of f is also what chains jump with (`jumps`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import UnsupportedPairError
from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM
from cavity.numerics.arrays import Array
from cavity.numerics.tiles import Workspace
from cavity.sampling.affine import Turned, at_mode, sample_turned
from cavity.sampling.default_priors import unit_steps, with_proper_priors
from cavity.sampling.hmc import QUARTER_PERIOD
from cavity.sampling.mode_jumping import Jumps
from cavity.sampling.modes import Modes, told
from cavity.sampling.noise_given_f import draw_noise_parameters, draw_residuals, noise_entries
from cavity.sampling.point_noise import noise_evidence
from cavity.sampling.scale_mixing import SCALE_MIXINGS
from cavity.sampling.targets import defined
from cavity.sampling.trace import ProgressLike, Trace, Until

LENGTH = 1.5 * QUARTER_PERIOD
"""Length of trajectories, in units of the scales that warm-up learns."""

ROUNDS = 2
"""Times that noise variances and the mode of the hyperparameters are found in turn before sampling."""


def is_scale_mixture(likelihood: Any) -> bool:
    """Whether this sampler can handle the noise model."""
    return type(likelihood) in SCALE_MIXINGS


class ScaleMixtureTarget:
    """Posterior of white noise coordinates e (n) and hyperparameters theta (p), f integrated out; d = n + p.

    Parameters
    ----------
    model : GP
        With `StudentT` or `Laplace` noise. Parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    hyperparameters : bool
        Whether theta is part of the position; otherwise p = 0.
    """

    def __init__(self, model: Any, X: ArrayLike, y: ArrayLike, hyperparameters: bool = True) -> None:
        if not is_scale_mixture(model.likelihood):
            raise UnsupportedPairError(
                "sampling of noise variances needs StudentT or Laplace noise, got "
                f'{type(model.likelihood).__name__}; use inference="mcmc" with method="auto"'
            )
        bound, self.X, self.y, _ = model._given(X, y, None)
        self.model = with_proper_priors(bound, self.X, self.y) if hyperparameters else bound.freeze()
        self._noise_model = SCALE_MIXINGS[type(model.likelihood)]
        self.n, self.p = len(self.y), len(self.model.names)
        self.dim = self.n + self.p
        self.names = tuple(f"e[{i}]" for i in range(self.n)) + tuple(self.model.names)
        self._bounds = np.array(self.model.theta_bounds).reshape(-1, 2)
        self._noise = noise_entries(self.model)
        self._workspace = Workspace()

    def log_density(self, U: Array) -> Array:
        """Log density (C,)."""
        return self.value_and_gradient(U)[0]

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, n + p), chain by chain: each has a covariance matrix of its own."""
        value, gradient = np.full(len(U), -np.inf), np.zeros(U.shape)
        for c, position in enumerate(U):
            value[c], gradient[c] = self._one(position[: self.n], position[self.n :])
        return defined(value, gradient)

    def _one(self, e: Array, theta: Array) -> tuple[float, Array]:
        nothing = -np.inf, np.zeros(self.dim)
        low, high = self._bounds.T
        if not np.all((theta >= low) & (theta <= high)):
            return nothing
        try:
            with np.errstate(all="ignore"):
                model = self.model.replace(theta)
                mixing = self._noise_model.mixing(model.likelihood, e)
                variances = np.exp(mixing.log_variance)
                if not (np.isfinite(variances).all() and np.all(variances > 0)):
                    return nothing
                found = noise_evidence(model, self.X, self.y, variances, self._workspace)
                prior, d_prior = model.log_prior(jacobian=True)
        except (
            ValueError,
            np.linalg.LinAlgError,
        ):  # a value that overflows, or a matrix that is singular there
            return nothing
        slope = variances * found.variances  # in log v
        flat = np.concatenate([found.kernel, found.mean, mixing.by_flat @ slope + mixing.d_flat])
        gradient = np.concatenate([slope * mixing.by_white + mixing.d_white, model.to_theta(flat) + d_prior])
        return found.value + mixing.log_prior + prior, gradient

    def refresh(self, U: Array, rng: np.random.Generator) -> Array:
        """Positions (C, d) with noise parameters and variances drawn anew, each given a draw of f."""
        return np.array([self._refreshed(position, rng) for position in U])

    def _refreshed(self, position: Array, rng: np.random.Generator) -> Array:
        model = self.model.replace(position[self.n :])
        residuals = self._residuals(model, position[: self.n], rng)
        if self._noise.any():
            model = model.replace(draw_noise_parameters(model, self._noise, residuals, rng))
        return self._with_variances(model, residuals, rng)

    def jump(self, U: Array, jumps: Jumps, rng: np.random.Generator) -> Array:
        """Positions (C, d) after jumps to other modes, attempted now and then."""
        return np.array([self._jumped(position, jumps, rng) for position in U])

    def _jumped(self, position: Array, jumps: Jumps, rng: np.random.Generator) -> Array:
        e, theta = position[: self.n], position[self.n :]
        found = jumps.sometimes(
            theta, lambda: self.y - self._residuals(self.model.replace(theta), e, rng), rng
        )
        if found is None:
            return position
        there, f = found
        return self._with_variances(self.model.replace(there), self.y - f, rng)

    def _residuals(self, model: Any, e: Array, rng: np.random.Generator) -> Array:
        """y - f (n,) for a draw of f given the noise variances."""
        variances = np.exp(self._noise_model.mixing(model.likelihood, e).log_variance)
        return draw_residuals(model, self.X, self.y, variances, rng)

    def _with_variances(self, model: Any, residuals: Array, rng: np.random.Generator) -> Array:
        """The position (d,) of a model and of noise variances drawn given the residuals."""
        log_variances = self._noise_model.given(model.likelihood, residuals, rng)
        return np.concatenate([self._noise_model.white(model.likelihood, log_variances), model.theta])

    def variances(self, U: Array) -> Array:
        """Noise variances (S, n) of positions (S, d)."""
        out = np.empty((len(U), self.n))
        for s, position in enumerate(U):
            likelihood = self.model.replace(position[self.n :]).likelihood
            out[s] = np.exp(self._noise_model.mixing(likelihood, position[: self.n]).log_variance)
        return out

    def turned(self) -> Turned:
        """In coordinates in which the hyperparameters are nearly round, at noise variances that suit the data.

        These and the mode of the hyperparameters are found in turn, from the model's hyperparameters on.
        """
        position = np.concatenate([np.zeros(self.n), self.model.theta])
        unit = unit_steps(self.model, self.X, self.y)
        for _ in range(ROUNDS):
            position[: self.n] = self._typical(position[self.n :])
            found = at_mode(self, position, unit, self._bounds, slice(self.n, None))
            position[self.n :] = found.origin
        return found

    def _typical(self, theta: Array) -> Array:
        """Coordinates of the noise variances that variational EM finds at these hyperparameters; zeros if it fails."""
        model = self.model.replace(theta)
        try:
            found = ScaleMixtureEM().infer(model.prior(self.X), model.likelihood, self.y)
        except np.linalg.LinAlgError:
            return np.zeros(self.n)
        assert found.sites is not None
        return self._noise_model.white(model.likelihood, -np.log(found.sites.precision))

    def start(
        self, turned: Turned, chains: int, rng: np.random.Generator, modes: Modes | None = None
    ) -> Array:
        """Positions to begin from, (C, d): hyperparameters around their modes, variances near their typical size."""
        if modes is not None:
            typical = {tuple(place): self._typical(place) for place in modes.places}

            def at(place: Array) -> Array:
                e = typical[tuple(place)] + 0.5 * rng.standard_normal(self.n)
                return np.concatenate([e, place])

            return modes.starts(turned, at, chains, rng, self._bounds)
        base = np.zeros((chains, self.dim))
        base[:, : self.n] = self._typical(turned.origin) + 0.5 * rng.standard_normal((chains, self.n))
        return turned.start(base, rng, self._bounds)


def sample_noise_variances(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    draws: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    rng: np.random.Generator | int | None = None,
    hyperparameters: bool = True,
    modes: Modes | None = None,
    progress: ProgressLike = None,
    until: Until | None = None,
) -> Trace:
    """Sample the noise variances and hyperparameters of a model with Student-t or Laplace noise.

    With `modes` chains start at all of them and jump between them.

    Returns
    -------
    Trace
        Positions are `theta`; `info["variances"]` (C, T, n) holds the noise variances and `info["model"]` the model
        with the priors used.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> X = np.linspace(0, 6, 12)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[5] += 5.0
    >>> model = GP(1.0 * SE(1.0), StudentT(0.1, 3.0))
    >>> trace = sample_noise_variances(
    ...     model, X, y, draws=50, warmup=50, chains=2, rng=0, hyperparameters=False, progress=False
    ... )
    >>> int(np.argmax(np.median(trace.info["variances"], axis=(0, 1))))
    5
    """
    rng = np.random.default_rng(rng)
    target = ScaleMixtureTarget(model, X, y, hyperparameters)
    turned = target.turned()
    start = target.start(turned, chains, rng, modes)
    jumps = None if modes is None else Jumps(modes, target.model, target.X, target.y)

    def between(U: Array, rng: np.random.Generator) -> Array:
        return target.refresh(U if jumps is None else target.jump(U, jumps, rng), rng)

    def without_noise(trace: Trace) -> Trace:
        variances = target.variances(trace.pooled).reshape(trace.chains, trace.draws, target.n)
        return replace(
            trace,
            positions=trace.positions[:, :, target.n :],
            names=tuple(target.model.names),
            info={**trace.info, "variances": variances, "model": target.model, **told([jumps])},
        )

    # Coordinates have about unit scale already: a trajectory of one and a half quarter periods is long enough.
    return without_noise(
        sample_turned(
            turned,
            start,
            draws=draws,
            warmup=warmup,
            rng=rng,
            length=LENGTH,
            between=between,
            progress=progress,
            until=None if until is None else until.seen_as(without_noise),
        )
    )
