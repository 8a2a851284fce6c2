"""Passes of Gaussian densities over rows: which implementation, and the one by matrix products.

`compiled_gaussian` has the same functions with the same arguments and results. Its loops are faster up to some
`MANY_FEATURES` features; beyond, matrix products and triangular solves are. A small pass takes about a millisecond
either way, less than it takes to load the compiled code.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from cavity.em.transforms import lower_indices
from cavity.numerics.arrays import Array

SMALL_PASS = 100_000
"""Multiply-adds per pass below which compiled code is not loaded."""

MANY_FEATURES = 32
"""Features beyond which matrix products are faster than the compiled loops (measured)."""

BLOCK = 1024

FEW_FEATURES = 16
"""Features up to which a triangular solve goes row by row: BLAS would spend its time waking threads."""


def gaussian_passes(n_rows: int, n_components: int, n_features: int) -> Any:
    """The module with the passes for data of this size: `compiled_gaussian` or this one."""
    work = n_rows * n_components * n_features * n_features
    if work < SMALL_PASS or n_features > MANY_FEATURES:
        return sys.modules[__name__]
    from cavity.em import compiled_gaussian

    return compiled_gaussian


def _unpack_factor(packed: Array, n_features: int) -> Array:
    """Lower Cholesky factor from its packed rows with reciprocal diagonal."""
    lower = np.zeros((n_features, n_features))
    lower[lower_indices(n_features)] = packed
    diagonal = np.arange(n_features)
    lower[diagonal, diagonal] = 1.0 / lower[diagonal, diagonal]
    return lower


def _block_logs(rows: Array, means: Array, factors: list[Array], log_norm: Array, full: bool) -> Array:
    """log_norm - |L^-1 (x - mean)|^2 / 2 of a block of rows, shape (n, K)."""
    out = np.empty((len(rows), len(means)))
    for k, mean in enumerate(means):
        d = (rows - mean).T
        z = _forward_substitution(factors[k], d) if full else d * factors[k][:, None]
        out[:, k] = log_norm[k] - 0.5 * np.einsum("ij,ij->j", z, z)
    return out


def _forward_substitution(lower: Array, columns: Array) -> Array:
    """L^-1 times columns (D, n)."""
    d = len(lower)
    if d > FEW_FEATURES:
        return np.asarray(solve_triangular(lower, columns, lower=True, check_finite=False))
    z = columns.copy()
    for j in range(d):
        z[j] -= lower[j, :j] @ z[:j]
        z[j] /= lower[j, j]
    return z


def _factor_list(factors: Array, n_features: int, full: bool) -> list[Array]:
    return [_unpack_factor(f, n_features) if full else f for f in factors]


def gaussian_log_density(
    x: Array, means: Array, factors: Array, log_norm: Array, full: bool, start: int, stop: int, out: Array
) -> None:
    """See `compiled_gaussian.gaussian_log_density`."""
    unpacked = _factor_list(factors, x.shape[1], full)
    for row in range(start, stop, BLOCK):
        last = min(row + BLOCK, stop)
        out[row:last] = _block_logs(x[row:last], means, unpacked, log_norm, full)


def gaussian_moments(
    x: Array,
    resp: Array,
    references: Array,
    full: bool,
    start: int,
    stop: int,
    counts: Array,
    first: Array,
    second: Array,
) -> None:
    """See `compiled_gaussian.gaussian_moments`."""
    lower = lower_indices(x.shape[1])
    for row in range(start, stop, BLOCK):
        last = min(row + BLOCK, stop)
        r = resp[row:last]
        counts += r.sum(axis=0)
        for k, reference in enumerate(references):
            d = x[row:last] - reference
            rd = r[:, k, None] * d
            first[k] += rd.sum(axis=0)
            second[k] += (rd.T @ d)[lower] if full else np.einsum("ij,ij->j", rd, d)


def gaussian_mixture_pass(
    x: Array,
    weight: Array,
    means: Array,
    factors: Array,
    log_norm: Array,
    full: bool,
    start: int,
    stop: int,
    counts: Array,
    first: Array,
    second: Array,
) -> float:
    """See `compiled_gaussian.gaussian_mixture_pass`."""
    unpacked = _factor_list(factors, x.shape[1], full)
    loglik = 0.0
    for row in range(start, stop, BLOCK):
        last = min(row + BLOCK, stop)
        logs = _block_logs(x[row:last], means, unpacked, log_norm, full)
        highest = logs.max(axis=1, keepdims=True)
        r = np.exp(logs - highest)
        total = r.sum(axis=1, keepdims=True)
        w = weight[row:last, None]
        loglik += float(np.sum(w * (highest + np.log(total))))
        r *= w / total
        gaussian_moments(x[row:last], r, means, full, 0, last - row, counts, first, second)
    return loglik
