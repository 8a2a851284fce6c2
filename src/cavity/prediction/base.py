"""The contract of a prediction: n marginals, each with mean, variance, quantiles, log density and draws.

Arrays have one entry per case, shape (n,). A quantile at k levels and k draws have shape (k, n). A variance that
does not exist is infinite (Student-t noise with two degrees of freedom or fewer), never an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_between, require_inside

Seed = int | np.random.Generator | None

LEVEL_ROUNDING = 1e-14
"""How far a sum of probabilities may fall short of a level by rounding."""


def check_levels(q: ArrayLike) -> Array:
    """Quantile levels, checked."""
    levels: Array = np.asarray(q, dtype=float)
    require_between(levels, "quantile levels")
    return levels


class Prediction(ABC):
    """A distribution for each of n cases.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import StudentT
    >>> posterior = GP(1.0 * SE(1.0), StudentT(0.1, 4.0)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> prediction = posterior.predict_y([[0.0], [5.0]])  # Student-t noise around an uncertain f
    >>> len(prediction), prediction.quantile([0.1, 0.9]).shape
    (2, (2, 2))
    >>> prediction.cdf(prediction.median).round(6)
    array([0.5, 0.5])
    """

    _mean: Array
    _variance: Array
    """Moments, if they are known from the start; else a prediction computes `mean` and `variance`."""

    @property
    def mean(self) -> Array:
        """Means, shape (n,)."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variances, shape (n,); inf where there is none."""
        return self._variance

    @property
    def sd(self) -> Array:
        """Standard deviations."""
        return np.sqrt(self.variance)

    def __len__(self) -> int:
        return len(self.mean)

    @abstractmethod
    def log_prob(self, y: ArrayLike) -> Array:
        """Log density (log probability for discrete y) of y, case by case."""

    @abstractmethod
    def cdf(self, y: ArrayLike) -> Array:
        """Probability of a value <= y, case by case."""

    def survival(self, y: ArrayLike) -> Array:
        """Probability of a value > y, case by case."""
        return 1.0 - self.cdf(y)

    def surprise(self, y: ArrayLike, *, discrete: bool = False) -> Array:
        """1 - 2 min(P(Y <= y), P(Y >= y)), at least 0: above 0.99 if y is outside the central 99 %, case by case."""
        above = self.survival(y)
        if discrete:  # y itself is not beyond y
            above = above + np.exp(self.log_prob(y))
        return np.asarray(np.clip(1.0 - 2.0 * np.minimum(self.cdf(y), above), 0.0, 1.0))

    @abstractmethod
    def quantile(self, q: ArrayLike) -> Array:
        """Smallest value with probability >= q to its left: shape (n,), or (k, n) for k levels."""

    @abstractmethod
    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws, shape (size, number of cases); `rng` is a Generator or a seed."""

    @property
    def median(self) -> Array:
        """The quantile at one half."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[Array, Array]:
        """Central interval that holds a fraction `level`: (low, high)."""
        require_inside(level, "level")
        low, high = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return low, high


def integer_quantile(cdf: Callable[[Array], Array], p: float, start: Array) -> Array:
    """Smallest count whose cumulative probability reaches p: doubling from `start`, then bisection over the integers.

    `cdf` is called with arrays of the shape of `start`. At p = 1 the answer is infinite.
    """
    if p == 1.0:
        return np.full(len(start), np.inf)
    low, high = np.full(len(start), -1.0), np.maximum(np.ceil(np.minimum(start, 1e15)), 1.0)
    while (short := cdf(high) < p - LEVEL_ROUNDING).any():
        low, high = np.where(short, high, low), np.where(short, 2.0 * high, high)
    while True:
        middle = np.floor(0.5 * (low + high))
        wide = (high - low > 1) & (middle > low) & (middle < high)  # beyond 2^53 neighbors merge
        if not wide.any():
            return np.asarray(high)
        short = cdf(middle) < p - LEVEL_ROUNDING
        low, high = np.where(wide & short, middle, low), np.where(wide & ~short, middle, high)
