"""The kernels of `_compiled` in NumPy: for machines without Numba, small problems, and many features (BLAS
wins).

Same functions, arguments and results; Gaussian passes work on blocks of rows, recursions are in log space
throughout.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from cavity.numerics.arrays import Array

from .transforms import lower_indices

BLOCK = 1024
FEW_FEATURES = 16


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
    """L^-1 times columns (D, n): by rows for few features, where BLAS would spend its time waking threads."""
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
    """See `_compiled.gaussian_log_density`."""
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
    """See `_compiled.gaussian_moments`."""
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
    """See `_compiled.gaussian_mixture_pass`."""
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


def scale_emissions(log_b: Array, start: int, stop: int, shift: Array) -> None:
    """See `_compiled.scale_emissions`; here emissions stay logarithms, divided by their row's maximum."""
    top = log_b[start:stop].max(axis=1)
    shift[start:stop] = top
    log_b[start:stop] -= np.where(np.isfinite(top), top, 0.0)[:, None]
    np.exp(log_b[start:stop], out=log_b[start:stop])


def forward(
    pi: Array,
    a: Array,
    b: Array,
    shift: Array,
    starts: Any,
    first: int,
    last: int,
    dense: bool,
    alpha: Array,
    loglik: Array,
) -> None:
    """Sends every sequence to log space (see `_compiled.forward`): in the interpreter that costs no more."""
    loglik[first:last] = np.nan


def backward(
    a: Array,
    at: Array,
    b: Array,
    starts: Any,
    first: int,
    last: int,
    loglik: Array,
    gamma: Array,
    initial: Array,
    xi: Array,
) -> None:
    """Nothing to do: `forward` left all sequences to the log-space functions."""


def forward_log(log_pi: Array, log_a: Array, log_b: Array, start: int, stop: int, log_alpha: Array) -> float:
    """See `_compiled.forward_log`."""
    log_alpha[start] = log_pi + log_b[start]
    for t in range(start + 1, stop):
        log_alpha[t] = logsumexp(log_alpha[t - 1][:, None] + log_a, axis=0) + log_b[t]
    return float(logsumexp(log_alpha[stop - 1]))


def backward_log(
    log_a: Array, log_b: Array, start: int, stop: int, gamma: Array, initial: Array, xi: Array
) -> None:
    """See `_compiled.backward_log`."""
    log_beta = np.zeros(len(log_a))
    evidence = logsumexp(gamma[stop - 1])
    gamma[stop - 1] = np.exp(gamma[stop - 1] - evidence)
    for t in range(stop - 2, start - 1, -1):
        ahead = log_a + (log_b[t + 1] + log_beta)
        xi += np.exp(gamma[t][:, None] + ahead - evidence)
        log_beta = logsumexp(ahead, axis=1)
        gamma[t] = np.exp(gamma[t] + log_beta - evidence)
    initial += gamma[start]


def viterbi(
    log_pi: Array,
    log_a: Array,
    log_b: Array,
    starts: Any,
    first: int,
    last: int,
    pointers: Any,
    path: Any,
    best: Array,
) -> None:
    """See `_compiled.viterbi`."""
    states = np.arange(len(log_pi))
    for s in range(first, last):
        t0, t1 = int(starts[s]), int(starts[s + 1])
        score = log_pi + log_b[t0]
        for t in range(t0 + 1, t1):
            candidates = score[:, None] + log_a
            arg = np.argmax(candidates, axis=0)
            pointers[t] = arg
            score = candidates[arg, states] + log_b[t]
        arg_last = int(np.argmax(score))
        best[s] = score[arg_last]
        path[t1 - 1] = arg_last
        for t in range(t1 - 1, t0, -1):
            path[t - 1] = pointers[t, path[t]]


def sample_chain(uniforms: Array, start_cdf: Array, transition_cdf: Array, states: Any) -> None:
    """See `_compiled.sample_chain`."""
    row = start_cdf
    for t, u in enumerate(uniforms):
        states[t] = min(int(np.searchsorted(row, u, side="right")), len(row) - 1)
        row = transition_cdf[states[t]]
