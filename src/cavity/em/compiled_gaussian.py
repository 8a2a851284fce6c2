# mypy: disable-error-code=untyped-decorator
"""Compiled passes of Gaussian densities over rows: log densities, moments, and the fused E-step of a mixture.

Compiled by Numba on first use, cached on disk, run without the global interpreter lock. Rows are taken `BLOCK` at a
time and transposed, so that every inner loop runs over `BLOCK` contiguous numbers and all work of a block stays in
the first- and second-level caches. A covariance factor is packed by rows: for a full covariance L[0,0], L[1,0],
L[1,1], ... and for a diagonal one its D standard deviations; diagonal entries are stored as reciprocals because the
solve divides by them.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from cavity.numerics.exponential import exponential

BLOCK = 256

_FAST = {"contract", "reassoc", "nsz"}
_exp: Any = exponential()
_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)


@_jit
def _whitened_norm(xt: Any, count: int, mean: Any, factor: Any, full: bool, z: Any, out: Any) -> None:
    """out[b] = |L^-1 (x_b - mean)|^2 for a block of columns xt (D, BLOCK)."""
    n_features = mean.shape[0]
    for b in range(count):
        out[b] = 0.0
    position = 0
    for j in range(n_features):
        m = mean[j]
        for b in range(count):
            z[j, b] = xt[j, b] - m
        if full:
            for i in range(j):
                lower = factor[position]
                position += 1
                for b in range(count):
                    z[j, b] -= lower * z[i, b]
        reciprocal = factor[position]
        position += 1
        for b in range(count):
            v = z[j, b] * reciprocal
            z[j, b] = v
            out[b] += v * v


@_jit
def _add_moments(
    xt: Any, count: int, reference: Any, r: Any, full: bool, d: Any, rd: Any, first: Any, second: Any
) -> float:
    """Add a block's weighted moments about `reference`; its total weight is returned."""
    n_features = reference.shape[0]
    total = 0.0
    for b in range(count):
        total += r[b]
    position = 0
    for j in range(n_features):
        m = reference[j]
        acc = 0.0
        for b in range(count):
            v = xt[j, b] - m
            d[j, b] = v
            v = v * r[b]
            rd[b] = v
            acc += v
        first[j] += acc
        if full:
            for i in range(j + 1):
                acc = 0.0
                for b in range(count):
                    acc += rd[b] * d[i, b]
                second[position] += acc
                position += 1
        else:
            acc = 0.0
            for b in range(count):
                acc += rd[b] * d[j, b]
            second[position] += acc
            position += 1
    return total


@_jit
def _transpose_block(x: Any, start: int, count: int, xt: Any) -> None:
    for j in range(x.shape[1]):
        for b in range(count):
            xt[j, b] = x[start + b, j]


@_jit
def gaussian_log_density(
    x: Any, means: Any, factors: Any, log_norm: Any, full: bool, start: int, stop: int, out: Any
) -> None:
    """out[start:stop, k] = log_norm[k] - |L_k^-1 (x - mean_k)|^2 / 2."""
    n_components, n_features = means.shape
    xt = np.empty((n_features, BLOCK))
    z = np.empty((n_features, BLOCK))
    norm = np.empty(BLOCK)
    for row in range(start, stop, BLOCK):
        count = min(BLOCK, stop - row)
        _transpose_block(x, row, count, xt)
        for k in range(n_components):
            _whitened_norm(xt, count, means[k], factors[k], full, z, norm)
            c = log_norm[k]
            for b in range(count):
                out[row + b, k] = c - 0.5 * norm[b]


@_jit
def gaussian_moments(
    x: Any,
    resp: Any,
    references: Any,
    full: bool,
    start: int,
    stop: int,
    counts: Any,
    first: Any,
    second: Any,
) -> None:
    """Add to counts (K,), first (K, D), second (K, P) the moments of rows start:stop under resp (n, K)."""
    n_components, n_features = references.shape
    xt = np.empty((n_features, BLOCK))
    d = np.empty((n_features, BLOCK))
    rd = np.empty(BLOCK)
    r = np.empty(BLOCK)
    for row in range(start, stop, BLOCK):
        count = min(BLOCK, stop - row)
        _transpose_block(x, row, count, xt)
        for k in range(n_components):
            for b in range(count):
                r[b] = resp[row + b, k]
            counts[k] += _add_moments(xt, count, references[k], r, full, d, rd, first[k], second[k])


@_jit
def gaussian_mixture_pass(
    x: Any,
    weight: Any,
    means: Any,
    factors: Any,
    log_norm: Any,
    full: bool,
    start: int,
    stop: int,
    counts: Any,
    first: Any,
    second: Any,
) -> float:
    """One E-step over rows start:stop fused with the M-step's sums; log_norm includes the log mixing weights.

    Responsibilities live for one block only. Returns the weighted log-likelihood of the rows.
    """
    n_components, n_features = means.shape
    xt = np.empty((n_features, BLOCK))
    z = np.empty((n_features, BLOCK))
    rd = np.empty(BLOCK)
    norm = np.empty(BLOCK)
    logs = np.empty((n_components, BLOCK))
    highest = np.empty(BLOCK)
    total = np.empty(BLOCK)
    loglik = 0.0
    for row in range(start, stop, BLOCK):
        count = min(BLOCK, stop - row)
        _transpose_block(x, row, count, xt)
        for b in range(count):
            highest[b] = -np.inf
            total[b] = 0.0
        for k in range(n_components):
            _whitened_norm(xt, count, means[k], factors[k], full, z, norm)
            c = log_norm[k]
            for b in range(count):
                v = c - 0.5 * norm[b]
                logs[k, b] = v
                highest[b] = max(highest[b], v)
        for k in range(n_components):
            for b in range(count):
                logs[k, b] -= highest[b]
            _exp(logs[k, :count], 1.0, 1.0)
            for b in range(count):
                total[b] += logs[k, b]
        for b in range(count):
            loglik += weight[row + b] * (highest[b] + math.log(total[b]))
            total[b] = weight[row + b] / total[b]
        for k in range(n_components):
            for b in range(count):
                norm[b] = logs[k, b] * total[b]
            counts[k] += _add_moments(xt, count, means[k], norm, full, z, rd, first[k], second[k])
    return loglik
