"""Walks that two graphs share, by conjugate gradients on their product graph, which is never formed; compiled.

With S = M * (P . P') on matrices R over pairs of nodes, M the pairs of equal label and P the adjacency D^-1/2 A D^-1/2,

    k = sum_t decay^t 1' S^t 1 = 1' r,   (I - decay S) r = 1 (on pairs of equal label),   dk/d decay = r' S r.

The spectrum of P lies in [-1, 1], so that every decay below 1 serves for all graphs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array

TOLERANCE = 1e-15
"""Of the residual, relative to the right-hand side."""


@njit(cache=True, nogil=True)
def _step(M: Array, P: Array, R: Array, Q: Array) -> Array:
    """S R: one more step of both walks, to nodes of equal label."""
    return M * (P @ R @ Q)


@njit(cache=True, nogil=True)
def _one(x: Array, P: Array, y: Array, Q: Array, decay: float) -> tuple[float, float]:
    """Weight of the shared walks, and its derivative in the decay."""
    M = np.zeros((len(x), len(y)))
    for i in range(len(x)):
        for j in range(len(y)):
            if x[i] == y[j]:
                M[i, j] = 1.0
    start = M.sum()
    if start == 0.0:
        return 0.0, 0.0
    R, residual = np.zeros_like(M), M.copy()
    direction, square = residual.copy(), start
    for _ in range(2 * M.size + 20):
        if square <= TOLERANCE * TOLERANCE * start:
            break
        image = direction - decay * _step(M, P, direction, Q)
        alpha = square / np.sum(direction * image)
        R += alpha * direction
        residual -= alpha * image
        after = np.sum(residual * residual)
        direction = residual + (after / square) * direction
        square = after
    return R.sum(), np.sum(R * _step(M, P, R, Q))


@njit(cache=True, nogil=True)
def walk_pairs(X: Array, P: Array, Y: Array, Q: Array, decay: float, own: bool) -> Array:
    """Value and derivative for all pairs of graphs (labels X, Y; adjacencies P, Q), (2, n, m); with `own` of each graph
    of X with itself, (2, n, 1)."""
    out = np.zeros((2, len(X), 1 if own else len(Y)))
    sizes, others = (X >= 0).sum(axis=1), (Y >= 0).sum(axis=1)
    for i in range(len(X)):
        a = sizes[i]
        x, p = X[i, :a], np.ascontiguousarray(P[i, :a, :a])
        for j in range(out.shape[2]):
            k = i if own else j
            b = others[k]
            out[0, i, j], out[1, i, j] = _one(x, p, Y[k, :b], np.ascontiguousarray(Q[k, :b, :b]), decay)
    return out
