"""Predictions of rows that follow different kinds of distributions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed


class GroupedPrediction(Prediction):
    """Rows of several groups, each with a prediction of its own.

    Parameters
    ----------
    groups : sequence of (rows, Prediction)
        Each row is in one of them.

    Examples
    --------
    >>> from cavity.likelihoods import Gaussian, Poisson
    >>> from cavity.prediction import GroupedPrediction
    >>> counts, numbers = Poisson().predictive([0.0], [0.0]), Gaussian(0.5).predictive([2.0], [0.0])
    >>> GroupedPrediction([([1], counts), ([0], numbers)]).mean.round(3)
    array([2., 1.])
    """

    def __init__(self, groups: Sequence[tuple[ArrayLike, Prediction]]) -> None:
        self.groups: list[tuple[NDArray[np.intp], Prediction]] = [
            (np.asarray(rows, dtype=np.intp), part) for rows, part in groups
        ]
        self._n = sum(len(rows) for rows, _ in self.groups)

    def __len__(self) -> int:
        return self._n

    def _joined(self, answer: Callable[[Prediction, NDArray[np.intp]], Array]) -> Array:
        """Answers of all groups, rows along the last axis."""
        out: Array | None = None
        for rows, part in self.groups:
            found = np.asarray(answer(part, rows), dtype=float)
            if out is None:
                out = np.empty((*found.shape[:-1], self._n))
            out[..., rows] = found
        return np.zeros(0) if out is None else out

    @property
    def mean(self) -> Array:
        """Those of the groups."""
        return self._joined(lambda part, _: part.mean)

    @property
    def variance(self) -> Array:
        """Those of the groups."""
        return self._joined(lambda part, _: part.variance)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log densities, or log probabilities of a group of discrete targets."""
        given = np.broadcast_to(np.asarray(y, dtype=float), (*np.shape(y)[:-1], self._n))
        return self._joined(lambda part, rows: part.log_prob(given[..., rows]))

    def cdf(self, y: ArrayLike) -> Array:
        """Probability of a value <= y."""
        given = np.broadcast_to(np.asarray(y, dtype=float), (*np.shape(y)[:-1], self._n))
        return self._joined(lambda part, rows: part.cdf(given[..., rows]))

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles by group."""
        return self._joined(lambda part, _: part.quantile(q))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws by group."""
        generator = np.random.default_rng(rng)
        return self._joined(lambda part, _: part.sample(size, generator))
