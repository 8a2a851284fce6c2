"""Walks that two graphs share, by conjugate gradients on their product graph, which is never formed; compiled.

With S = M * (P . P') on matrices R over pairs of nodes, M the pairs of equal label and P the adjacency D^-1/2 A D^-1/2,

    k = sum_t decay^t 1' S^t 1 = 1' r,   (I - decay S) r = 1 (on pairs of equal label),   dk/d decay = r' S r.

The spectrum of P lies in [-1, 1], so that every decay below 1 serves for all graphs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array
from cavity.numerics.compiled_helpers import helper

TOLERANCE = 1e-15
"""Of the residual, relative to the right-hand side."""


@helper()
def _step(M: Array, P: Array, R: Array, Q: Array, out: Array) -> None:
    """S R: one more step of both walks, to nodes of equal label."""
    moved = P @ R @ Q
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            out[i, j] = M[i, j] * moved[i, j]


@helper()
def _dot(X: Array, Y: Array) -> float:
    total = 0.0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            total += X[i, j] * Y[i, j]
    return total


@helper()
def _one(x: Array, P: Array, y: Array, Q: Array, decay: float) -> tuple[float, float]:
    """Weight of the shared walks, and its derivative in the decay."""
    n, m = len(x), len(y)
    room = np.zeros((5, n, m))
    M, R, residual, direction, image = room[0], room[1], room[2], room[3], room[4]
    start = 0.0
    for i in range(n):
        for j in range(m):
            if x[i] == y[j]:
                M[i, j], residual[i, j], direction[i, j] = 1.0, 1.0, 1.0
                start += 1.0
    if start == 0.0:
        return 0.0, 0.0
    square = start
    for _ in range(2 * M.size + 20):
        if square <= TOLERANCE * TOLERANCE * start:
            break
        _step(M, P, direction, Q, image)
        alpha = square / (_dot(direction, direction) - decay * _dot(direction, image))
        after = 0.0
        for i in range(n):
            for j in range(m):
                R[i, j] += alpha * direction[i, j]
                residual[i, j] -= alpha * (direction[i, j] - decay * image[i, j])
                after += residual[i, j] * residual[i, j]
        for i in range(n):
            for j in range(m):
                direction[i, j] = residual[i, j] + (after / square) * direction[i, j]
        square = after
    _step(M, P, R, Q, image)
    return _dot(M, R), _dot(R, image)


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
