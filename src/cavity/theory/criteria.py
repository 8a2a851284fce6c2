"""Criteria for models: AIC, BIC and cross-validation by effective degrees of freedom, integrated evidence."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.bayes.laplace_method import LaplaceApproximation, laplace
from cavity.likelihoods.gaussian import Gaussian
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.runtime.errors import InputError
from cavity.sampling.hyperparameter_target import HyperparameterTarget


def generalized_cross_validation(posterior: Any) -> float:
    """n |y - m|^2 / (n - degrees of freedom)^2 of a regression with Gaussian noise: what `objective="gcv"` makes small.

    m is the posterior mean at the rows; the squared error of left-out rows, if all had the same leverage (Craven and
    Wahba, 1979).

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> from cavity.theory import generalized_cross_validation
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition([[0.0], [1.0], [2.0]], [0.1, 0.8, 0.9])
    >>> round(generalized_cross_validation(posterior), 4)
    0.0971
    """
    residual, dof, _ = _smoothed(posterior)
    return float(len(residual) * (residual @ residual) / (len(residual) - dof) ** 2)


def integrated_evidence(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    most_draws: int = 1024,
    rng: int | np.random.Generator | None = 0,
) -> LaplaceApproximation:
    """Log evidence with the hyperparameters integrated over, by Laplace's method at their mode (section 5.2).

    Their density is evidence times prior, in unconstrained coordinates; parameters without a prior get the weak one
    that sampling uses, on which the result then depends. `k_hat` says whether a Gaussian covers them.

    Parameters
    ----------
    model : GP
        Start it at learned values (`GP.learn(X, y).model`).
    most_draws : int
        Draws for the check.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> from cavity.theory import integrated_evidence
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> best = GP(1.0 * SE(1.0), Gaussian(0.1)).learn(x, y, rng=0)
    >>> integrated_evidence(best.model, x, y).log_integral < best.posterior.log_evidence
    True
    """
    target = HyperparameterTarget(model, X, y)

    def log_density(theta: Array) -> float:
        return float(target.log_density(theta[None])[0])

    def gradient(theta: Array) -> Array:
        return np.asarray(target.value_and_gradient(theta[None])[1][0])

    return laplace(log_density, target.model.theta, gradient, most_draws=most_draws, rng=rng)


class InformationCriteria(NamedTuple):
    """In units of minus two log likelihoods; smaller is better."""

    aic: float
    bic: float
    degrees_of_freedom: float
    log_likelihood: float


def information_criteria(posterior: Any) -> InformationCriteria:
    """Of a regression with Gaussian noise, at its hyperparameters.

    The log likelihood is that of the noise around the posterior mean; degrees of freedom are the trace of
    K (K + v I)^-1, the matrix that smooths the targets. Both are for comparison with models that have no evidence:
    if all have one, it is the better criterion.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> from cavity.theory import information_criteria
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition([[0.0], [1.0], [2.0]], [0.1, 0.8, 0.9])
    >>> round(information_criteria(posterior).degrees_of_freedom, 4)
    2.5215
    """
    residual, dof, v = _smoothed(posterior)
    n = len(residual)
    log_likelihood = -0.5 * (n * (LOG_2PI + np.log(v)) + float(residual @ residual) / v)
    return InformationCriteria(
        -2 * log_likelihood + 2 * dof, -2 * log_likelihood + np.log(n) * dof, dof, log_likelihood
    )


def _smoothed(posterior: Any) -> tuple[Array, float, float]:
    """Residuals at the rows, degrees of freedom and noise variance."""
    likelihood, data = posterior.model.likelihood, posterior.data
    if type(likelihood) is not Gaussian or np.ndim(data.y) != 1:
        raise InputError(
            "must be of one target with Gaussian noise",
            parameter="posterior",
            value=posterior,
            remedy="use WAIC for others",
        )
    v = float(likelihood.variance)
    residual = np.asarray(data.y, dtype=float) - posterior.mean(data.X)
    # diag(K - K (K + vI)^-1 K) / v is that of the smoother
    return residual, float(np.sum(posterior.variance(data.X)) / v), v
