"""Which inputs to induce from.

Where the kernel measures distances, k-means in inputs divided by its length scales: at 21 inputs and 500 inducing ones
it left half the variance that greedy choices leave, and a third of what random rows do. Otherwise (categories, or any
kernel of unknown inputs) rows are drawn by randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber 2022): the next
one with a probability proportional to the variance that is left given those before.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel, row_blocks
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.constant import OneVariance
from cavity.kernels.inner_product import InnerProduct
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array

CANDIDATES, PER_INPUT = 10_000, 10
"""Rows that are looked at: so many, or so many for each inducing input if that is more."""

PASSES = 3
"""Rounds of k-means after its seeds; more gain next to nothing."""

NOTHING_LEFT = 1e-12
"""Share of the variance at which rows say no more."""


def choose(kernel: Kernel, X: Array, m: int, rng: np.random.Generator) -> Array:
    """Inducing inputs (at most m, D) for rows X (n, D)."""
    size = max(CANDIDATES, PER_INPUT * m)
    rows = X if len(X) <= size else X[np.sort(rng.choice(len(X), size, replace=False))]
    rows = np.unique(rows, axis=0)
    if len(rows) <= m:
        return rows
    scale = input_scales(kernel, rows)
    return pivots(kernel, rows, m, rng) if scale is None else k_means(rows / scale, m, rng) * scale


# --- scaled inputs ------------------------------------------------------------------------------------------


def input_scales(kernel: Kernel, X: Array) -> Array | None:
    """How far to go in each column for the function to change, shape (D,); None if distances mean nothing.

    Columns without a length scale of their own count by their spread.
    """
    found = np.zeros(X.shape[1])
    spread = X.std(axis=0)
    spread[spread == 0.0] = 1.0
    for leaf, columns in _leaves(kernel, np.arange(X.shape[1])):
        if isinstance(leaf, Stationary):
            lengths = np.broadcast_to(np.asarray(leaf.lengthscale, dtype=float), len(columns))
            if np.ndim(leaf.lengthscale) and np.ptp(lengths) == 0.0:
                lengths = lengths * spread[columns]  # one value per column, none of them learned yet
            found[columns] += lengths**-2
        elif not isinstance(leaf, OneVariance | InnerProduct | FeatureKernel):
            return None
    if not found.any():
        return np.asarray(spread)
    return np.where(found > 0, 1.0 / np.sqrt(np.where(found > 0, found, 1.0)), spread)


def _leaves(kernel: Kernel, columns: NDArray[np.intp]) -> Iterator[tuple[Kernel, NDArray[np.intp]]]:
    """Kernels that are not made of others, with the columns they see."""
    if isinstance(kernel, On):
        yield from _leaves(kernel.kernel, columns[list(kernel.dims)])
    elif isinstance(kernel, Sum | Product | Scaled | Power):
        for part in kernel.parts:
            assert isinstance(part, Kernel)
            yield from _leaves(part, columns)
    else:
        yield kernel, columns


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
