# mypy: disable-error-code=untyped-decorator
"""Numba kernels of `cavity.em`: Gaussian passes over rows and the recursions of hidden Markov models.

Compiled on first use, cached on disk, run without the global interpreter lock. `_interpreted` has the same
functions in NumPy and is used when Numba is missing; `backend` chooses.

Layout of the Gaussian passes: rows are taken `BLOCK` at a time and transposed, so that every inner loop runs
over `BLOCK` contiguous numbers and all work of a block stays in the first- and second-level caches. A
covariance factor is packed by rows: for a full covariance L[0,0], L[1,0], L[1,1], ... and for a diagonal one
its D standard deviations; diagonal entries are stored as reciprocals because the solve divides by them.

Notation of the recursions (Bilmes, TR-97-021, section 4): alpha forward, beta backward, gamma state
posteriors, xi pair posteriors, b_j(t) the emission density divided by the largest one at that t.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

BLOCK = 256
LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts (Cody and Waite), so that x - n ln 2 is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer left in the low bits
EXP_UNDERFLOW = -708.0  # exp of anything smaller is taken as zero (no denormal numbers)
SMALL_FORWARD = (
    1e-100  # a forward sum below this (emissions scaled to at most one) sends a sequence to log space
)
LOST_STATE = 1e-250  # as does a reachable state below this when the topology has zeros
ACCUMULATE_LOW = 1e-150

_FAST = {"contract", "reassoc", "nsz"}
_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
_exact: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def exp_nonpositive(values: Any, bits: Any, scale: Any, count: int) -> None:
    """Replace values[:count] (all <= 0) by their exponentials; `bits` is the int64 view of `scale`.

    Written so that it vectorizes: range reduction by ln 2, a Taylor polynomial of degree 13 on |r| <= ln2 / 2
    (truncation below 5e-18) and the power of two assembled in the exponent bits.
    """
    for i in range(count):
        x = values[i]
        keep = x > EXP_UNDERFLOW
        x = x if keep else 0.0
        shifted = x * LOG2E + ROUND_MAGIC
        n = shifted - ROUND_MAGIC
        r = (x - n * LN2_HIGH) - n * LN2_LOW
        p = 1.6059043836821613e-10
        p = p * r + 2.08767569878681e-09
        p = p * r + 2.505210838544172e-08
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        values[i] = p if keep else 0.0
        scale[i] = shifted
    for i in range(count):
        bits[i] = (bits[i] << 52) + 4607182418800017408  # 1023 << 52, the exponent of one
    for i in range(count):
        values[i] = values[i] * scale[i]


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
    scale = np.empty(BLOCK)
    bits = scale.view(np.int64)
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
            exp_nonpositive(logs[k], bits, scale, count)
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


@_jit
def scale_emissions(log_b: Any, start: int, stop: int, shift: Any) -> None:
    """Turn rows start:stop of log b into b / max_j b_j in place; `shift` gets the logs of the maxima."""
    n_states = log_b.shape[1]
    rows = max(1, 1024 // n_states)
    scale = np.empty(rows * n_states)
    bits = scale.view(np.int64)
    flat = log_b.reshape(-1)
    for row in range(start, stop, rows):
        last = min(row + rows, stop)
        for t in range(row, last):
            highest = log_b[t, 0]
            for j in range(1, n_states):
                highest = max(highest, log_b[t, j])
            shift[t] = highest
            if not np.isfinite(highest):
                highest = 0.0
            for j in range(n_states):
                log_b[t, j] -= highest
        exp_nonpositive(flat[row * n_states : last * n_states], bits, scale, (last - row) * n_states)


@_jit
def forward(
    pi: Any,
    a: Any,
    b: Any,
    shift: Any,
    starts: Any,
    first: int,
    last: int,
    dense: bool,
    alpha: Any,
    loglik: Any,
) -> None:
    """Scaled forward recursion for the sequences first:last, whose rows are starts[s]:starts[s + 1].

    alpha rows are proportional to P(state, observations so far) with sum of order one: each is multiplied by
    the reciprocal sum of the row before (which keeps the division off the critical path). A sequence whose
    scaled numbers become too small to be trusted gets loglik NaN, and is done again in log space by the
    caller.
    """
    n_states = pi.shape[0]
    fours = 4 * (n_states // 4)
    work = np.empty(n_states)
    previous = np.empty(n_states)
    for s in range(first, last):
        t0, t1 = starts[s], starts[s + 1]
        total = 0.0
        lost = False
        logs = 0.0
        for j in range(n_states):
            v = pi[j] * b[t0, j]
            previous[j] = v
            alpha[t0, j] = v
            total += v
            if not dense and pi[j] > 0.0 and v < LOST_STATE:
                lost = True
        lost = lost or not total > SMALL_FORWARD
        product = 1.0
        logs += shift[t0]
        for t in range(t0 + 1, t1):
            scale = 1.0 / total
            product *= total
            if product < ACCUMULATE_LOW:
                logs += math.log(product)
                product = 1.0
            logs += shift[t]
            for j in range(n_states):
                work[j] = 0.0
            for i in range(0, fours, 4):  # four rows at once: fewer trips of `work` through memory
                p0, p1, p2, p3 = previous[i], previous[i + 1], previous[i + 2], previous[i + 3]
                for j in range(n_states):
                    work[j] += (p0 * a[i, j] + p1 * a[i + 1, j]) + (p2 * a[i + 2, j] + p3 * a[i + 3, j])
            for i in range(fours, n_states):
                v = previous[i]
                for j in range(n_states):
                    work[j] += v * a[i, j]
            if not dense:
                for j in range(n_states):
                    if work[j] > 0.0 and work[j] * scale * b[t, j] < LOST_STATE:
                        lost = True
            total = 0.0
            for j in range(n_states):
                v = work[j] * (scale * b[t, j])
                previous[j] = v
                alpha[t, j] = v
                total += v
            if not total > SMALL_FORWARD:
                lost = True
            if lost:
                break
        loglik[s] = np.nan if lost else logs + math.log(product) + math.log(total)


@_jit
def backward(
    a: Any,
    at: Any,
    b: Any,
    starts: Any,
    first: int,
    last: int,
    loglik: Any,
    gamma: Any,
    initial: Any,
    xi: Any,
) -> None:
    """Backward recursion fused with the statistics: alpha in `gamma` is overwritten by the state posteriors.

    Adds sum over sequences of gamma(first) to `initial` (K,) and of sum_{t < T} xi(t) to `xi` (K, K):
    transitions are counted up to T - 1 (erratum of the multi-sequence update). Sequences with loglik NaN are
    left alone.
    """
    n_states = a.shape[0]
    fours = 4 * (n_states // 4)
    beta = np.empty(n_states)
    ahead = np.empty(n_states)
    outer = np.zeros((n_states, n_states))
    for s in range(first, last):
        if np.isnan(loglik[s]):
            continue
        t0, t1 = starts[s], starts[s + 1]
        total = 0.0
        for j in range(n_states):
            beta[j] = 1.0
            total += gamma[t1 - 1, j]
        for j in range(n_states):
            gamma[t1 - 1, j] /= total
        size = 1.0
        for t in range(t1 - 2, t0 - 1, -1):
            for j in range(n_states):
                ahead[j] = beta[j] * (size * b[t + 1, j])
                beta[j] = 0.0
            for j in range(0, fours, 4):
                p0, p1, p2, p3 = ahead[j], ahead[j + 1], ahead[j + 2], ahead[j + 3]
                for i in range(n_states):
                    beta[i] += (p0 * at[j, i] + p1 * at[j + 1, i]) + (p2 * at[j + 2, i] + p3 * at[j + 3, i])
            for j in range(fours, n_states):
                v = ahead[j]
                for i in range(n_states):
                    beta[i] += at[j, i] * v
            total = 0.0
            size = 0.0
            for i in range(n_states):
                size += beta[i]
                total += gamma[t, i] * beta[i]
            size = 1.0 / size
            total = 1.0 / total
            for i in range(n_states):
                v = gamma[t, i] * total
                gamma[t, i] = v * beta[i]
                for j in range(n_states):
                    outer[i, j] += v * ahead[j]
        for j in range(n_states):
            initial[j] += gamma[t0, j]
    for i in range(n_states):
        for j in range(n_states):
            xi[i, j] += outer[i, j] * a[i, j]


@_exact
def _log_sum_exp(values: Any) -> float:
    highest = -np.inf
    for v in values:
        highest = max(highest, v)
    if highest == -np.inf:
        return -np.inf
    total = 0.0
    for v in values:
        total += math.exp(v - highest)
    return highest + math.log(total)


@_exact
def forward_log(log_pi: Any, log_a: Any, log_b: Any, start: int, stop: int, log_alpha: Any) -> float:
    """Forward recursion of one sequence in log space; returns its log-likelihood."""
    n_states = log_pi.shape[0]
    work = np.empty(n_states)
    for j in range(n_states):
        log_alpha[start, j] = log_pi[j] + log_b[start, j]
    for t in range(start + 1, stop):
        for j in range(n_states):
            for i in range(n_states):
                work[i] = log_alpha[t - 1, i] + log_a[i, j]
            log_alpha[t, j] = _log_sum_exp(work) + log_b[t, j]
    return _log_sum_exp(log_alpha[stop - 1])  # type: ignore[no-any-return]


@_exact
def backward_log(log_a: Any, log_b: Any, start: int, stop: int, gamma: Any, initial: Any, xi: Any) -> None:
    """`backward` in log space, for one sequence of finite log-likelihood (log alpha in `gamma`)."""
    n_states = log_a.shape[0]
    log_beta = np.zeros(n_states)
    ahead = np.empty(n_states)
    work = np.empty(n_states)
    evidence = _log_sum_exp(gamma[stop - 1])
    for j in range(n_states):
        gamma[stop - 1, j] = math.exp(gamma[stop - 1, j] - evidence)
    for t in range(stop - 2, start - 1, -1):
        for j in range(n_states):
            ahead[j] = log_b[t + 1, j] + log_beta[j]
        for i in range(n_states):
            for j in range(n_states):
                work[j] = log_a[i, j] + ahead[j]
                xi[i, j] += math.exp(gamma[t, i] + work[j] - evidence)
            log_beta[i] = _log_sum_exp(work)
        for i in range(n_states):
            gamma[t, i] = math.exp(gamma[t, i] + log_beta[i] - evidence)
    for j in range(n_states):
        initial[j] += gamma[start, j]


@_exact
def viterbi(
    log_pi: Any,
    log_a: Any,
    log_b: Any,
    starts: Any,
    first: int,
    last: int,
    pointers: Any,
    path: Any,
    best: Any,
) -> None:
    """Most probable state path of the sequences first:last; `pointers` (T, K) holds back pointers."""
    n_states = log_pi.shape[0]
    score = np.empty(n_states)
    work = np.empty(n_states)
    for s in range(first, last):
        t0, t1 = starts[s], starts[s + 1]
        for j in range(n_states):
            score[j] = log_pi[j] + log_b[t0, j]
        for t in range(t0 + 1, t1):
            for j in range(n_states):
                top = -np.inf
                arg = 0
                for i in range(n_states):
                    v = score[i] + log_a[i, j]
                    if v > top:
                        top = v
                        arg = i
                pointers[t, j] = arg
                work[j] = top + log_b[t, j]
            for j in range(n_states):
                score[j] = work[j]
        arg = 0
        for j in range(1, n_states):
            if score[j] > score[arg]:
                arg = j
        best[s] = score[arg]
        path[t1 - 1] = arg
        for t in range(t1 - 1, t0, -1):
            arg = pointers[t, arg]
            path[t - 1] = arg


@_exact
def sample_chain(uniforms: Any, start_cdf: Any, transition_cdf: Any, states: Any) -> None:
    """Simulate a Markov chain from uniforms by inverting cumulative probabilities (last entries are one)."""
    n_states = start_cdf.shape[0]
    row = start_cdf
    for t in range(states.shape[0]):
        u = uniforms[t]
        j = 0
        while j < n_states - 1 and u >= row[j]:
            j += 1
        states[t] = j
        row = transition_cdf[j]
