# mypy: disable-error-code="untyped-decorator,no-untyped-call"
"""Products and solutions with B, the sparse factor of R = B' D^-1 B: (B u)_i = u_i - sum_j b_ij u_c(i,j).

Rows are in the order of the graph: `points` lists them, row p of `neighbors` (-1 if missing) and `weights` belongs to
points[p]. All are O(n k) for a column; U is (n, p) in the order of the training rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.numerics.scalar import jit


@jit
def times(points: Any, neighbors: Any, weights: Any, U: Any) -> Any:
    """B U."""
    out = U.copy()
    for p in range(len(points)):
        for j in range(neighbors.shape[1]):
            other = neighbors[p, j]
            if other >= 0:
                for c in range(U.shape[1]):
                    out[points[p], c] -= weights[p, j] * U[other, c]
    return out


@jit
def times_transposed(points: Any, neighbors: Any, weights: Any, U: Any) -> Any:
    """B' U."""
    out = U.copy()
    for p in range(len(points)):
        for j in range(neighbors.shape[1]):
            other = neighbors[p, j]
            if other >= 0:
                for c in range(U.shape[1]):
                    out[other, c] -= weights[p, j] * U[points[p], c]
    return out


@jit
def solve(points: Any, neighbors: Any, weights: Any, U: Any) -> Any:
    """B^-1 U, first rows first."""
    out = U.copy()
    for p in range(len(points)):
        for j in range(neighbors.shape[1]):
            other = neighbors[p, j]
            if other >= 0:
                for c in range(U.shape[1]):
                    out[points[p], c] += weights[p, j] * out[other, c]
    return out


@jit
def solve_transposed(points: Any, neighbors: Any, weights: Any, U: Any) -> Any:
    """B'^-1 U, last rows first."""
    out = U.copy()
    for p in range(len(points) - 1, -1, -1):
        for j in range(neighbors.shape[1]):
            other = neighbors[p, j]
            if other >= 0:
                for c in range(U.shape[1]):
                    out[other, c] += weights[p, j] * out[points[p], c]
    return out


@jit
def squared_columns(points: Any, neighbors: Any, weights: Any, precision: Any) -> Any:
    """The diagonal of B' diag(precision) B."""
    out = np.zeros(len(points))
    for p in range(len(points)):
        own = precision[points[p]]
        out[points[p]] += own
        for j in range(neighbors.shape[1]):
            other = neighbors[p, j]
            if other >= 0:
                out[other] += weights[p, j] ** 2 * own
    return out
