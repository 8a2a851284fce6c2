"""Student-t marginals: what is known of a normal variable whose scale was integrated out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, stdtr, stdtrit

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed, check_levels


class StudentTPrediction(Prediction):
    """t distributions with a common number of degrees of freedom.

    Parameters
    ----------
    df : float
    mean : array (n,)
        Locations; means from df > 1 on.
    scale : array (n,)

    Examples
    --------
    >>> from cavity.prediction import StudentTPrediction
    >>> StudentTPrediction(4.0, [0.0], [1.0]).quantile(0.975).round(3)
    array([2.776])
    """

    def __init__(self, df: float, mean: ArrayLike, scale: ArrayLike) -> None:
        self.df = float(df)
        self._mean: Array = np.asarray(mean, dtype=float)
        self.scale: Array = np.broadcast_to(np.asarray(scale, dtype=float), self._mean.shape)
        if not self.df > 0 or np.any(self.scale < 0):
            raise ValueError(f"df must be positive and scales not negative, got df={df!r}")

    @property
    def mean(self) -> Array:
        """Locations, shape (n,)."""
        return self._mean

    @property
    def variance(self) -> Array:
        """scale^2 df / (df - 2); inf for df <= 2."""
        return np.asarray(self.scale**2 * (self.df / (self.df - 2) if self.df > 2 else np.inf))

    def _standardized(self, y: ArrayLike) -> Array:
        return (np.asarray(y, dtype=float) - self._mean) / self.scale

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density."""
        nu = self.df
        constant = gammaln(0.5 * (nu + 1)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu)
        return np.asarray(
            constant - np.log(self.scale) - 0.5 * (nu + 1) * np.log1p(self._standardized(y) ** 2 / nu)
        )

    def cdf(self, y: ArrayLike) -> Array:
        """Distribution function."""
        return np.asarray(stdtr(self.df, self._standardized(y)))

    def survival(self, y: ArrayLike) -> Array:
        """Probability above y, accurate far in the tail."""
        return np.asarray(stdtr(self.df, -self._standardized(y)))

    def quantile(self, q: ArrayLike) -> Array:
        """Shape (n,), or (k, n) for k levels."""
        levels = check_levels(q)
        z = np.asarray(stdtrit(self.df, levels)).reshape(levels.shape + (1,))
        return np.asarray(self._mean + self.scale * z)

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Independent draws, shape (size, n)."""
        draws = np.random.default_rng(rng).standard_t(self.df, (size, *self._mean.shape))
        return np.asarray(self._mean + self.scale * draws)
