"""Normal marginals, with or without their joint covariance.

Notation: Phi is the distribution function of the standard normal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.numerics.special import LOG_2PI
from cavity.prediction.base import Prediction, Seed, check_levels


class GaussianPrediction(Prediction):
    """Normal marginals, with their joint covariance where it was asked for.

    Parameters
    ----------
    mean : array (n,) or (n, T)
        T targets may share a variance.
    variance : array (n,) or (n, T)
    covariance : array (n, n), optional
        Joint covariance of the cases (shared by all targets); `sample` then draws jointly.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> posterior = GP(1.0 * SE(1.0), Gaussian(0.1)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> prediction = posterior.predict_f([[0.0], [5.0]])
    >>> prediction.sd.round(2), prediction.interval(0.9)[1].round(2)
    (array([0.29, 1.  ]), array([0.88, 1.64]))
    """

    def __init__(self, mean: ArrayLike, variance: ArrayLike, covariance: ArrayLike | None = None) -> None:
        self._mean: Array = np.asarray(mean, dtype=float)
        var: Array = np.asarray(variance, dtype=float)
        self._target_variance = var
        if self._mean.ndim > 1 and var.ndim == self._mean.ndim - 1:
            var = var[..., None]
        self._variance: Array = np.broadcast_to(var, self._mean.shape)
        if np.any(self._variance < 0):
            raise ValueError(f"variance must not be negative, got {float(np.min(self._variance))!r}")
        self.covariance: Array | None = None if covariance is None else np.asarray(covariance, dtype=float)
        n = len(self._mean)
        if self.covariance is not None and self.covariance.shape != (n, n):
            raise ValueError(f"covariance must have shape ({n}, {n}), got {self.covariance.shape}")

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density; +inf or -inf where the variance is zero."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            e = np.asarray(y, dtype=float) - self._mean
            quad = np.where(e == 0, 0.0, e * e / self._variance)
            out: Array = -0.5 * (LOG_2PI + np.log(self._variance) + quad)
            return np.where((self._variance == 0) & (e != 0), -np.inf, out)

    def _standardized(self, y: ArrayLike) -> Array:
        e = np.asarray(y, dtype=float) - self._mean
        with np.errstate(divide="ignore", invalid="ignore"):
            # A point mass at the mean: everything from there on lies to its right.
            return np.where(self._variance > 0, e / self.sd, np.where(e >= 0, np.inf, -np.inf))

    def cdf(self, y: ArrayLike) -> Array:
        """Phi((y - mean) / sd)."""
        return np.asarray(ndtr(self._standardized(y)))

    def survival(self, y: ArrayLike) -> Array:
        """Phi((mean - y) / sd), accurate far in the tail."""
        return np.asarray(ndtr(-self._standardized(y)))

    def quantile(self, q: ArrayLike) -> Array:
        """Mean + sd Phi^-1(q)."""
        levels = check_levels(q)
        z = np.asarray(ndtri(levels)).reshape(levels.shape + (1,) * self._mean.ndim)
        with np.errstate(invalid="ignore"):
            return np.asarray(self._mean + np.where(self.sd > 0, self.sd * z, 0.0))

    def _root(self) -> Array:
        """A matrix square root of the covariance; eigenvalues below zero by rounding count as zero."""
        assert self.covariance is not None
        values, vectors = np.linalg.eigh(self.covariance)
        worst = float(values.min(initial=0.0))
        if worst < -1e-6 * max(float(values.max(initial=0.0)), np.finfo(float).tiny):
            raise ValueError(
                f"covariance must be positive semi-definite, its smallest eigenvalue is {worst!r}"
            )
        return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws (size, cases[, T]): joint when the covariance is known, else independent."""
        generator = np.random.default_rng(rng)
        z = generator.standard_normal((size, *self._mean.shape))
        if self.covariance is None:
            return np.asarray(self._mean + self.sd * z)
        return np.asarray(self._mean + np.einsum("ij,sj...->si...", self._root(), z))

    def log_prob_joint(self, y: ArrayLike) -> float | Array:
        """Joint log density of all cases, one number (or one per target); needs the covariance."""
        if self.covariance is None:
            raise ValueError("log_prob_joint needs the joint covariance; predict with the full covariance")
        e = np.asarray(y, dtype=float) - self._mean
        factor = try_factorize(np.array(self.covariance, order="C"))
        if factor is None:
            raise ValueError("the joint covariance is singular, so there is no joint density; add noise")
        quad = np.sum(factor.half_solve(e) ** 2, axis=0)
        out = -0.5 * (len(e) * LOG_2PI + factor.log_det + quad)
        return float(out) if np.ndim(out) == 0 else np.asarray(out)

    def __repr__(self) -> str:
        joint = "" if self.covariance is None else ", joint covariance"
        return f"GaussianPrediction({len(self)} cases{joint})"
