"""Conjugate priors for MAP estimates.

NormalInverseWishart: mu | Sigma ~ N(mean, Sigma / kappa), Sigma ~ IW(dof, scale). Only the kernel of the
density enters the objective, for any covariance structure:

    log p = -(dof + D + 1)/2 log|Sigma| - tr(scale Sigma^-1)/2
            - [kappa > 0] (log|Sigma| + kappa (mu - mean)' Sigma^-1 (mu - mean)) / 2
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cavity.em.checks import is_number
from cavity.numerics.arrays import Array


@dataclass(frozen=True)
class NormalInverseWishart:
    """Prior of a component's mean and covariance.

    Parameters
    ----------
    scale : float, (D,) or (D, D)
        Scale matrix: the prior sum of squares. A number or vector stands for a diagonal matrix.
    dof : float
        Degrees of freedom, > D - 1: how many observations `scale` is worth.
    mean : None or (D,)
        Prior mean; None takes the mean of the data.
    kappa : float
        How many observations the prior mean is worth; 0 leaves the mean free.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture, NormalInverseWishart
    >>> X = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])  # the second feature is constant
    >>> prior = NormalInverseWishart(scale=[1.0, 1.0], dof=4.0)
    >>> GaussianMixture(1, prior=prior).fit(X).covariances_[0].round(2)
    array([[0.9, 0. ],
           [0. , 0.1]])
    """

    scale: ArrayLike
    dof: float
    mean: ArrayLike | None = None
    kappa: float = 0.0

    def scale_matrix(self, n_features: int) -> Array:
        """The scale as a (D, D) matrix, checked."""
        try:
            scale = np.asarray(self.scale, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError(f"scale={self.scale!r} must be a number, a vector or a matrix") from error
        if scale.ndim == 0:
            scale = np.full(n_features, float(scale))
        if scale.ndim == 1:
            scale = np.diag(scale)
        if scale.shape != (n_features, n_features):
            raise ValueError(
                f"scale has shape {np.shape(self.scale)} but the data have {n_features} features: give a "
                f"number, a vector of {n_features} or a {n_features} x {n_features} matrix"
            )
        if not np.allclose(scale, scale.T) or np.linalg.eigvalsh(scale)[0] <= 0:
            raise ValueError("scale must be symmetric and positive definite")
        if not (is_number(self.dof) and self.dof > n_features - 1):
            raise ValueError(f"dof={self.dof!r} must exceed D - 1 = {n_features - 1} for a proper prior")
        if not (is_number(self.kappa) and 0 <= self.kappa < np.inf):
            raise ValueError(f"kappa={self.kappa!r} must be a finite number and must not be negative")
        return scale


def check_concentration(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    """Dirichlet concentrations broadcast to `shape`; MAP estimates need them at least 1."""
    try:
        c = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r} must be a number or an array of numbers, at least 1") from error
    try:
        c = np.broadcast_to(c, shape)
    except ValueError as error:
        raise ValueError(f"{name} has shape {np.shape(value)}, which does not fit {shape}") from error
    if not np.all(c >= 1.0):
        raise ValueError(
            f"{name}={value!r} must be at least 1 (1 is no prior): below 1 the posterior has no interior mode"
        )
    return np.asarray(c)


def dirichlet_log_prior(p: Array, concentration: Array) -> float:
    """Sum of (c - 1) log p over the entries that are not structurally zero."""
    extra = concentration - 1.0
    use = (extra > 0) & (p > 0)
    return float(np.sum(extra[use] * np.log(p[use])))
