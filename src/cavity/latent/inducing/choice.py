"""Which inputs to induce from.

Where the kernel measures distances, k-means in inputs divided by its length scales: at 21 inputs and 500 inducing ones
it left half the variance that greedy choices leave, and a third of what random rows do. Otherwise (categories, or any
kernel of unknown inputs) rows are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2022): the next
one with a probability proportional to the variance that is left given those before.
"""

from __future__ import annotations

import numpy as np

from cavity.kernels.base import Kernel, row_blocks
from cavity.kernels.input_scales import input_scales
from cavity.numerics.arrays import Array
from cavity.rows.base import RowSource, as_rows

CANDIDATES, PER_INPUT = 10_000, 10
"""Rows that are looked at: so many, or so many for each inducing input if that is more."""

PASSES = 3
"""Rounds of k-means after its seeds; more gain next to nothing."""

NOTHING_LEFT = 1e-12
"""Share of the variance at which rows say no more."""


def choose(kernel: Kernel, X: Array | RowSource, m: int, rng: np.random.Generator) -> Array:
    """Inducing inputs (at most m, D) for rows X (n, D)."""
    size, source = max(CANDIDATES, PER_INPUT * m), as_rows(X)
    some = np.arange(len(X)) if len(X) <= size else np.sort(rng.choice(len(X), size, replace=False))
    rows = source.take(some)
    rows = np.unique(rows, axis=0)
    if len(rows) <= m:
        return rows
    scale = input_scales(kernel, rows)
    return pivots(kernel, rows, m, rng) if scale is None else k_means(rows / scale, m, rng) * scale


# --- distances ---------------------------------------------------------------------------------------------


def k_means(X: Array, m: int, rng: np.random.Generator) -> Array:
    """Centers (m, D) of m clusters of the rows of X (n, D), n > m: k-means++ seeds, then a few rounds."""
    middle = X.mean(axis=0)
    X = X - middle
    norms = np.einsum("ij,ij->i", X, X)
    first = int(rng.integers(len(X)))
    chosen, near = [first], _distances_to(X, norms, first)
    for _ in range(m - 1):
        total = float(near.sum())
        if not total > 0.0:
            break
        new = int(np.searchsorted(np.cumsum(near), rng.random() * total, side="right"))
        chosen.append(min(new, len(X) - 1))
        np.minimum(near, _distances_to(X, norms, chosen[-1]), out=near)
    centers = X[chosen]
    for _ in range(PASSES):
        sums, counts = np.zeros_like(centers), np.zeros(len(centers))
        half = 0.5 * np.einsum("ij,ij->i", centers, centers)
        for block in row_blocks(len(X), 1024):
            nearest = np.argmax(X[block] @ centers.T - half, axis=1)
            counts += np.bincount(nearest, minlength=len(centers))
            np.add.at(sums, nearest, X[block])
        full = counts > 0
        centers[full] = sums[full] / counts[full, None]
    return np.asarray(centers + middle)


def _distances_to(X: Array, norms: Array, i: int) -> Array:
    out = norms + norms[i] - 2.0 * (X @ X[i])
    out[i] = 0.0
    return np.asarray(np.maximum(out, 0.0))


# --- any inputs ---------------------------------------------------------------------------------------------


def pivots(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Array:
    """At most m rows of X (n, D), by randomly pivoted Cholesky."""
    rows = kernel._prepare(X, np.full(len(X), -1))
    own = kernel._diag(rows)
    left, enough = own.copy(), NOTHING_LEFT * float(own.sum())
    F, chosen = np.empty((m, len(X))), list[int]()
    while len(chosen) < m and (total := float(left.sum())) > enough:
        k = len(chosen)
        i = min(int(np.searchsorted(np.cumsum(left), rng.random() * total, side="right")), len(X) - 1)
        column = kernel._block(kernel._prepare(X[i : i + 1], np.array([-2])), rows)[0]
        column -= F[:k, i] @ F[:k]
        if column[i] > NOTHING_LEFT * own[i]:
            F[k] = column / np.sqrt(column[i])
            left = np.maximum(left - F[k] ** 2, 0.0)
            chosen.append(i)
        left[i] = 0.0
    return np.asarray(X[np.sort(chosen)])
