"""The precision matrix that neighbors make, Q = sum_i w_i w_i' / v_i, w_i = (1, -b_i) on row i and its neighbors."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cavity.latent.neighbors.graph import Graph
from cavity.numerics.arrays import Array
from cavity.numerics.multifrontal import Pattern
from cavity.runtime.errors import InputError

MOST_FILL = 2**28
"""Entries of a factor (2 GB) beyond which the representation is the wrong one."""


class PrecisionPattern:
    """Where Q has entries, and which of them each pair of a clique adds to.

    Attributes
    ----------
    rows, columns : arrays (N,)
        Entries of the lower triangle, each once.
    diagonal : array (n,)
        Which of them are on the diagonal, by row.
    pairs : array (n, m (m + 1) / 2)
        The entry of each pair of a clique, row by row of its triangle; N if a neighbor is missing.
    """

    def __init__(self, graph: Graph) -> None:
        n, k = graph.neighbors.shape
        self._places = graph.scaled
        members = np.hstack([graph.neighbors, graph.points[:, None]])
        a, b = np.tril_indices(k + 1)
        first, second = members[:, a], members[:, b]
        key = np.maximum(first, second) * n + np.minimum(first, second)
        known = (first >= 0) & (second >= 0)
        found, inverse = np.unique(key[known], return_inverse=True)
        self.rows, self.columns = np.divmod(found, n)
        self.pairs = np.full(known.shape, len(found), dtype=np.int64)
        self.pairs[known] = inverse
        self.diagonal = np.empty(n, dtype=np.int64)
        on = np.flatnonzero(self.rows == self.columns)
        self.diagonal[self.rows[on]] = on

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def factors(self) -> Pattern:
        """How matrices with these entries are factorized."""
        found = Pattern(self.rows, self.columns, self._places)
        if found.fill > MOST_FILL:
            raise InputError(
                f"the factor of the precision matrix would have {found.fill:.3g} entries: these rows are not near each "
                "other along few columns. Use representation='inducing', or fewer neighbors"
            )
        return found

    def values(self, weights: Array, v: Array) -> Array:
        """Entries of Q (N,) for weights (n, k) of neighbors and variances (n,), both in the order of the graph."""
        from cavity.latent.latent_neighbors.loops import add_cliques

        out = np.zeros(len(self) + 1)
        add_cliques(self.pairs, weights, v, out)
        return out[:-1]

    def local(self, weights: Array, P: Array) -> Array:
        """P w of each clique, (n, k + 1), for entries (N,) of a symmetric matrix P."""
        from cavity.latent.latent_neighbors.loops import clique_products

        out = np.empty((len(weights), weights.shape[1] + 1))
        clique_products(self.pairs, weights, np.append(P, 0.0), out)
        return out

    def outer(self, left: Array, right: Array) -> Array:
        """Entries (N,) of left right' (n, c), symmetrized."""
        out = np.zeros(len(self))
        for x, y in zip(left.T, right.T):
            out += 0.5 * (x[self.rows] * y[self.columns] + y[self.rows] * x[self.columns])
        return out

    def row_sums(self, entries: Array) -> Array:
        """Sums (n,) over the rows of a symmetric matrix with these entries."""
        n, off = len(self.diagonal), self.rows != self.columns
        below = np.bincount(self.columns[off], entries[off], n)
        return np.asarray(np.bincount(self.rows, entries, n) + below, dtype=float)
