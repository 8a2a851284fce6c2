"""Conditional densities of the hyperparameters in the Gibbs sampler for a mixture of two normals (`outlier_gibbs`).

- `GivenIndicators`: all but the fraction, given which points are outliers, f integrated out;
- `GivenFunction`: the noise parameters given f, indicators summed out;
- `whitening_at_mode`: origin and metric for the first of these.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM
from cavity.latent.base import Inputs
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.sampling.affine import whitened_at_mode
from cavity.sampling.default_priors import unit_steps
from cavity.sampling.evidence_given_noise import evidence_given_noise
from cavity.sampling.indicators import Flags
from cavity.sampling.targets import DifferentiableTarget, defined, inside

MODE_ROUNDS = 2
"""Times that indicators and the mode of the hyperparameters are found in turn before sampling."""


class ConditionalTarget(DifferentiableTarget):
    """A density of some entries of theta, the others as in `model`: one chain at a time.

    Parameters
    ----------
    model : GP
        Bound to the data, with proper priors and `MixtureOfGaussians` noise.
    moves : array of bool (p,)
        The entries that Hamiltonian Monte Carlo moves.
    """

    def __init__(self, model: Any, moves: Flags) -> None:
        self.model, self.moves = model, moves
        self.names = tuple(name for name, moved in zip(model.names, moves) if moved)
        self.dim = len(self.names)
        self._bounds = np.array(model.theta_bounds).reshape(-1, 2)[moves]

    def at(self, position: Array) -> Any:
        """The model with these entries of theta (d,), the others as they are; ValueError if a value overflows."""
        theta = self.model.theta.copy()
        theta[self.moves] = position
        return self.model.replace(theta)

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (1,) and its gradient (1, d); -inf outside the bounds and if it cannot be evaluated."""
        if inside(U[0], self._bounds):
            try:
                with np.errstate(all="ignore"):
                    value, gradient = self._evaluate(self.at(U[0]))
                return defined(np.array([value]), gradient[None, self.moves])
            except (ValueError, np.linalg.LinAlgError):  # a value that overflows, or a singular matrix
                pass
        return np.array([-np.inf]), np.zeros((1, self.dim))

    @abstractmethod
    def _evaluate(self, model: Any) -> tuple[float, Array]:
        """Log density of a model, and its gradient in all of theta (p,)."""


class GivenIndicators(ConditionalTarget):
    """Hyperparameters other than the fraction, given the indicators; f is integrated out.

    Parameters
    ----------
    model, moves : see `ConditionalTarget`
    X, y : arrays (n, D), (n,)
    """

    def __init__(self, model: Any, X: Array, y: Array, moves: Flags) -> None:
        super().__init__(model, moves)
        self.X, self.y = X, y
        self.indicators: Flags = np.zeros(len(y), dtype=bool)
        self._inputs = Inputs(self.X)

    def _evaluate(self, model: Any) -> tuple[float, Array]:
        variances = noise_variances(model.likelihood, self.indicators)
        found = evidence_given_noise(model, self._inputs, self.y, variances)
        prior, d_prior = model.log_prior(jacobian=True)
        slopes = 2.0 * variances * found.variances
        scale, inflation = float(model.likelihood.scale), float(model.likelihood.inflation)
        noise = [0.0, slopes.sum() / scale, slopes[self.indicators].sum() / inflation]
        gradient = model.to_theta(np.concatenate([found.kernel, found.mean, noise])) + d_prior
        return found.value + prior + self._log_indicators(), gradient

    def _log_indicators(self) -> float:
        """log p(c | pi)."""
        pi, count = float(self.model.likelihood.fraction), int(self.indicators.sum())
        return float(count * np.log(pi) + (len(self.y) - count) * np.log1p(-pi))


class GivenFunction(ConditionalTarget):
    """Noise parameters given f; indicators are summed out.

    Parameters
    ----------
    model, moves : see `ConditionalTarget`
        Entries that belong to the noise alone.
    y : array (n,)
    """

    def __init__(self, model: Any, y: Array, moves: Flags) -> None:
        super().__init__(model, moves)
        self.y, self.f = y, np.zeros(len(y))

    def _evaluate(self, model: Any) -> tuple[float, Array]:
        prior, d_prior = model.log_prior(jacobian=True)
        slopes = model.likelihood.parameter_slopes(self.y, self.f).sum(axis=1)
        flat = np.concatenate([np.zeros(model.flat.size - len(slopes)), slopes])
        value = float(np.sum(model.likelihood.log_prob(self.y, self.f))) + prior
        return value, model.to_theta(flat) + d_prior


def noise_variances(likelihood: Any, indicators: Flags) -> Array:
    """Noise variance of each point, shape (n,)."""
    sd: Array = np.where(indicators, likelihood.outlier_scale, likelihood.scale)
    return sd**2


def whitening_at_mode(model: Any, X: Array, y: Array, moves: Flags) -> tuple[Array, Array]:
    """Mode (k,) of the hyperparameters other than the fraction, and their metric F (k, k), given typical indicators.

    The indicators are those of variational EM. They and the mode are found in turn, starting from the model's values.
    """
    if not moves.any():
        return np.zeros(0), np.zeros((0, 0))
    target = GivenIndicators(model, X, y, moves)
    bounds, unit = np.array(model.theta_bounds).reshape(-1, 2)[moves], unit_steps(model, X, y)[moves]
    for _ in range(MODE_ROUNDS):
        target.indicators = _likely_outliers(target.model, X, y)
        found = whitened_at_mode(target, np.asarray(target.model.theta)[moves], unit, bounds)
        target.model = target.at(found.origin)
    return found.origin, found.factor


def _likely_outliers(model: Any, X: Array, y: Array) -> Flags:
    """Points whose noise variance is nearer to that of outliers, by variational EM; none if that fails."""
    noise = model.likelihood
    try:
        found = ScaleMixtureEM().infer(model.prior(X), Observations(noise, y))
    except np.linalg.LinAlgError:
        return np.zeros(len(y), dtype=bool)
    assert found.sites is not None
    return np.asarray(found.sites.precision < 1.0 / (float(noise.scale) * noise.outlier_scale))
