"""AIC, BIC and generalized cross-validation of a Gaussian process, by its effective degrees of freedom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.likelihoods.gaussian import Gaussian
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.runtime.errors import InputError


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
