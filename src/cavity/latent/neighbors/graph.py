"""Who is whose neighbor: the graph of one set of training rows, for one choice of scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.latent.base import Inputs
from cavity.numerics.arrays import Array
from cavity.rows.base import RowSource

if TYPE_CHECKING:
    from cavity.latent.latent_neighbors.precision import PrecisionPattern

Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """Rows in an order, each with its nearest ones among those before it.

    Attributes
    ----------
    points : array (n,)
        The rows in this order.
    neighbors : array (n, k)
        Those of each of `points`, by their numbers as rows; -1 if there are fewer.
    scaled : array (n, D)
        Inputs in which distances are measured.
    """

    points: Index
    neighbors: Index
    scaled: Array

    @cached_property
    def precision_pattern(self) -> PrecisionPattern:
        """Where the precision matrix of latent values has entries."""
        from cavity.latent.latent_neighbors.precision import PrecisionPattern

        return PrecisionPattern(self)

    @classmethod
    def of(cls, X: Array, scales: Array, k: int, seed: int) -> Graph:
        """For k neighbors, at most, in inputs divided by the scales (D,)."""
        from cavity.latent.neighbors.search import earlier_neighbors, far_apart_first

        scaled = X / scales
        order = far_apart_first(scaled, np.random.default_rng(seed))
        found = earlier_neighbors(scaled[order], max(1, min(k, len(X) - 1)))
        return cls(order, np.where(found >= 0, order[found], -1), scaled)

    def nearest(self, X: Array, k: int) -> Index:
        """The k nearest rows, at most, to each row of scaled inputs (m, D), shape (m, k)."""
        from cavity.latent.neighbors.search import nearest

        return nearest(X, self.scaled, min(k, len(self.scaled)))

    def others(self, k: int) -> Index:
        """The k nearest other rows, at most, to each row, shape (n, k)."""
        from cavity.latent.neighbors.search import other_neighbors

        return other_neighbors(self.scaled, max(1, min(k, len(self.scaled) - 1)))


class NeighborInputs(Inputs):
    """Training inputs with the graph that was last asked for."""

    def __init__(self, X: ArrayLike | RowSource) -> None:
        super().__init__(X)
        self._graph: tuple[tuple[bytes, int, int], Graph] | None = None

    def graph(self, scales: Array, k: int, seed: int) -> Graph:
        """The graph of these settings."""
        key = (scales.tobytes(), k, seed)
        if self._graph is None or self._graph[0] != key:
            self._graph = key, Graph.of(self.X, scales, k, seed)
        return self._graph[1]
