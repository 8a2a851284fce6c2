"""Finitely many values with probabilities: classes, ordered categories, labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed, check_levels


class CategoricalPrediction(Prediction):
    """Finitely many values with probabilities: classes, ordered categories, labels -1 and +1.

    Parameters
    ----------
    probabilities : array (n, C)
    values : array (C,)
        The values of y, increasing.
    log_probabilities : array (n, C), optional
        Where small probabilities are known more accurately than their difference from one.

    Examples
    --------
    >>> from cavity.prediction import CategoricalPrediction
    >>> prediction = CategoricalPrediction([[0.2, 0.8], [0.9, 0.1]], values=[-1.0, 1.0])
    >>> prediction.mode, prediction.mean.round(2)
    (array([ 1., -1.]), array([ 0.6, -0.8]))
    """

    def __init__(
        self, probabilities: ArrayLike, values: ArrayLike, log_probabilities: ArrayLike | None = None
    ) -> None:
        self.probabilities: Array = np.asarray(probabilities, dtype=float)
        self.values: Array = np.asarray(values, dtype=float)
        if self.probabilities.ndim != 2 or self.probabilities.shape[1] != len(self.values):
            raise ValueError(
                f"probabilities must have shape (n, {len(self.values)}), one column per value, "
                f"got {self.probabilities.shape}"
            )
        if log_probabilities is None:
            with np.errstate(divide="ignore"):
                self._log_p: Array = np.log(self.probabilities)
        else:
            self._log_p = np.asarray(log_probabilities, dtype=float)

    @property
    def mean(self) -> Array:
        """Expected value of y."""
        return np.asarray(self.probabilities @ self.values)

    @property
    def variance(self) -> Array:
        """Variance of y."""
        return np.asarray(np.sum(self.probabilities * (self.values - self.mean[:, None]) ** 2, axis=1))

    @property
    def mode(self) -> Array:
        """Most probable value."""
        return np.asarray(self.values[np.argmax(self.probabilities, axis=1)])

    def log_prob(self, y: ArrayLike) -> Array:
        """Log probability of y; -inf for a value that cannot occur."""
        y = np.broadcast_to(np.asarray(y, dtype=float), (len(self),))
        index = np.clip(np.searchsorted(self.values, y), 0, len(self.values) - 1)
        found = self.values[index] == y
        return np.where(found, self._log_p[np.arange(len(self)), index], -np.inf)

    def cdf(self, y: ArrayLike) -> Array:
        """Sum of the probabilities of values <= y."""
        y = np.broadcast_to(np.asarray(y, dtype=float), (len(self),))
        return np.asarray(
            np.minimum(np.sum(self.probabilities * (self.values[None] <= y[:, None]), axis=1), 1.0)
        )

    def quantile(self, q: ArrayLike) -> Array:
        """Smallest value whose cumulative probability reaches q."""
        levels = check_levels(q)
        cumulative = np.cumsum(self.probabilities, axis=1)
        short = cumulative[None] < (levels.ravel()[:, None, None] - 1e-15)
        index = np.minimum(short.sum(axis=2), len(self.values) - 1)
        return np.asarray(self.values[index]).reshape(levels.shape + (len(self),))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Independent draws."""
        generator = np.random.default_rng(rng)
        u = generator.random((size, len(self)))
        cumulative = np.cumsum(self.probabilities, axis=1)
        index = np.sum(cumulative[None, :, :-1] < u[:, :, None], axis=2)
        return np.asarray(self.values[index])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} cases, {len(self.values)} values)"
