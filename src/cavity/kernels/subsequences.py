"""Subsequences with gaps, by dynamic programming over pairs of strings (Lodhi et al. 2002), compiled.

With K'_l[i, j] the weight of common subsequences of l letters in the first i and j letters, counted to the ends i, j,

    K''_l[i, j] = decay K''_l[i, j - 1] + [x_i = y_j] decay^2 K'_(l-1)[i - 1, j - 1]
    K'_l[i, j] = decay K'_l[i - 1, j] + K''_l[i, j]
    K_l = sum over i, j with x_i = y_j of decay^2 K'_(l-1)[i - 1, j - 1]

in O(k |x| |y|); the derivative in the decay runs along.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cavity.numerics.arrays import Array


@njit(cache=True, nogil=True)
def _one(x: Array, y: Array, k: int, decay: float) -> tuple[float, float]:
    """Weight of the common subsequences of k letters, and its derivative in the decay."""
    n, m = 0, 0
    while n < len(x) and x[n] >= 0:
        n += 1
    while m < len(y) and y[m] >= 0:
        m += 1
    before, d_before = np.ones((n + 1, m + 1)), np.zeros((n + 1, m + 1))
    square, d_square = decay * decay, 2.0 * decay
    total, d_total = 0.0, 0.0
    for _ in range(k):
        now, d_now = np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1))
        total, d_total = 0.0, 0.0
        for i in range(1, n + 1):
            run, d_run = 0.0, 0.0
            for j in range(1, m + 1):
                d_run = run + decay * d_run
                run = decay * run
                if x[i - 1] == y[j - 1]:
                    gain = square * before[i - 1, j - 1]
                    d_gain = d_square * before[i - 1, j - 1] + square * d_before[i - 1, j - 1]
                    run += gain
                    d_run += d_gain
                    total += gain
                    d_total += d_gain
                now[i, j] = decay * now[i - 1, j] + run
                d_now[i, j] = now[i - 1, j] + decay * d_now[i - 1, j] + d_run
        before, d_before = now, d_now
    return total, d_total


@njit(cache=True, nogil=True)
def gappy_pairs(A: Array, B: Array, k: int, decay: float, own: bool) -> Array:
    """Value and derivative for all pairs of rows, (2, n, m); with `own` of each row of A with itself, (2, n, 1)."""
    out = np.zeros((2, len(A), 1 if own else len(B)))
    for i in range(len(A)):
        for j in range(out.shape[2]):
            out[0, i, j], out[1, i, j] = _one(A[i], A[i] if own else B[j], k, decay)
    return out
