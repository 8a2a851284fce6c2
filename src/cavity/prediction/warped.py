"""Predictions of y, where z = T(y) is predicted: quantiles go through the inverse of T, moments need quadrature."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed
from cavity.prediction.gaussian import GaussianPrediction

NODES = np.arange(-32, 33) / 4.0
"""Normal scores of the quantiles that moments are summed over. The trapezoid rule converges exponentially; this step
leaves less than 1e-12 of a function that varies on the scale of the distribution."""

WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()


class TargetMap(Protocol):
    """An increasing function z = T(y) of targets within a range."""

    lower: float
    upper: float

    def forward(self, y: Array) -> Array:
        """z."""
        ...

    def inverse(self, z: Array) -> Array:
        """y, within the range."""
        ...

    def log_slope(self, y: Array) -> Array:
        """log dz/dy."""
        ...


class WarpedPrediction(Prediction):
    """The distribution of y with z = T(y) distributed as `base`.

    Parameters
    ----------
    base : Prediction
        Of z.
    warp : TargetMap

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import PositiveWarp
    >>> from cavity.prediction import GaussianPrediction, WarpedPrediction
    >>> z = GaussianPrediction(np.array([1.0]), np.array([0.25]))
    >>> lognormal = WarpedPrediction(z, PositiveWarp(bend=1e-6))  # z = 1 + log y
    >>> bool(np.isclose(lognormal.mean[0], np.exp(0.125), rtol=1e-5)), lognormal.median.round(4)
    (True, array([1.]))
    """

    def __init__(self, base: Prediction, warp: TargetMap) -> None:
        self.base, self.warp = base, warp

    def __len__(self) -> int:
        return len(self.base)

    @cached_property
    def _values(self) -> Array:
        """y at the quantiles of the nodes, (nodes, n)."""
        if isinstance(self.base, GaussianPrediction):
            z = self.base.mean + np.sqrt(self.base.variance) * NODES[:, None]
        else:
            z = self.base.quantile(ndtr(NODES))
        with np.errstate(over="ignore"):
            return self.warp.inverse(z)

    @property
    def mean(self) -> Array:
        """By quadrature over the quantiles; the median if z is not normal, because tails may leave y without a mean."""
        if not isinstance(self.base, GaussianPrediction):
            return self.median
        return np.asarray(WEIGHTS @ self._values)

    @property
    def variance(self) -> Array:
        """By quadrature over the quantiles, around `mean`; infinite if that of z is."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(WEIGHTS @ (self._values - self.mean) ** 2)
        return np.where(np.isfinite(self.base.variance), found, np.inf)

    def _targets(self, y: ArrayLike) -> tuple[Array, NDArray[np.bool_], NDArray[np.bool_]]:
        """y, whether it is below the range, whether above."""
        y = np.broadcast_to(np.asarray(y, dtype=float), np.shape(self.base.mean))
        return y, y < self.warp.lower, y > self.warp.upper

    def log_prob(self, y: ArrayLike) -> Array:
        """log p(z) + log dz/dy; minus infinity outside the range."""
        y, below, above = self._targets(y)
        outside = below | above
        inside = np.where(outside, self._values[len(NODES) // 2], y)
        density = self.base.log_prob(self.warp.forward(inside)) + self.warp.log_slope(inside)
        return np.where(outside, -np.inf, density)

    def cdf(self, y: ArrayLike) -> Array:
        """F(T(y))."""
        y, below, _ = self._targets(y)
        end = y >= self.warp.upper
        inside = np.where(below | end, self._values[len(NODES) // 2], y)
        return np.where(below, 0.0, np.where(end, 1.0, self.base.cdf(self.warp.forward(inside))))

    def survival(self, y: ArrayLike) -> Array:
        """1 - F(T(y))."""
        y, below, _ = self._targets(y)
        end = y >= self.warp.upper
        inside = np.where(below | end, self._values[len(NODES) // 2], y)
        return np.where(below, 1.0, np.where(end, 0.0, self.base.survival(self.warp.forward(inside))))

    def quantile(self, q: ArrayLike) -> Array:
        """T^-1 of the quantiles of z."""
        with np.errstate(over="ignore"):
            return self.warp.inverse(self.base.quantile(q))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """T^-1 of draws of z."""
        with np.errstate(over="ignore"):
            return self.warp.inverse(self.base.sample(size, rng))
