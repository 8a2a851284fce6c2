# mypy: disable-error-code=untyped-decorator
"""Compiled recursions of hidden Markov models: forward, backward, Viterbi, and simulation of a chain.

Compiled by Numba on first use, cached on disk, run without the global interpreter lock.

Notation (Bilmes, TR-97-021, section 4): alpha forward, beta backward, gamma state posteriors, xi pair posteriors,
b_j(t) the emission density divided by the largest one at that t.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from cavity.numerics.exponential import exponential

SMALL_FORWARD = 1e-100
"""A forward sum below this (emissions scaled to at most one) sends a sequence to log space."""

LOST_STATE = 1e-250
"""So does a reachable state below this if the topology has zeros."""

ACCUMULATE_LOW = 1e-150
"""A product of forward sums below this is added to the log-likelihood and starts again at one."""

_FAST = {"contract", "reassoc", "nsz"}
_exp: Any = exponential()
_jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)

_exact: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


@_jit
def scale_emissions(log_b: Any, start: int, stop: int, shift: Any) -> None:
    """Turn rows start:stop of log b into b / max_j b_j in place; `shift` gets the logs of the maxima."""
    n_states = log_b.shape[1]
    rows = max(1, 1024 // n_states)
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
        _exp(flat[row * n_states : last * n_states], 1.0, 1.0)


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
