"""Forward-backward over many sequences: threads, scaling, and log space for sequences that need it.

Emission densities are divided by the largest one at each time, which keeps scaled forward variables near one. That
is exact unless a state that matters falls below the range of numbers: a forward sum below 1e-100, or, if the
topology has zeros (so that a lost state might not be reached again), any reachable state below 1e-250. Such a
sequence is done again in log space. Training stores two arrays of T x K numbers and one of T, whatever the
emissions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cavity.em.parallel import row_ranges, run_parts
from cavity.numerics.arrays import Array

Starts = NDArray[np.int64]

LogEmissions = Callable[[int, int], Array]
"""Rows start:stop to log densities (stop - start, K)."""

DENSE_FLOOR = 1e-50
"""If all transition probabilities are above this, a state lost to underflow is reached again."""


@dataclass(frozen=True)
class StatePosterior:
    """Log-likelihoods (S,), gamma (T, K), sums of gamma at starts (K,) and of xi over t < T (K, K)."""

    loglik: Array
    gamma: Array
    initial: Array
    transitions: Array


def sequence_groups(starts: Starts, threads: int) -> list[tuple[int, int]]:
    """Contiguous groups of sequences of about equal total length, one per thread."""
    n_sequences = len(starts) - 1
    groups = max(1, min(threads, n_sequences))
    targets = starts[-1] * np.arange(1, groups) / groups
    cuts = np.unique(np.concatenate([[0], np.searchsorted(starts, targets), [n_sequences]]))
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def log_probabilities(p: Array) -> Array:
    """Logarithms; -inf for zero."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p))


def _scaled_forward(
    startprob: Array, transmat: Array, b: Array, starts: Starts, threads: int
) -> tuple[Array, Array]:
    """Scale log emissions in place, run forward: alpha (T, K) and loglik (S,), NaN where it failed."""
    from cavity.em import compiled_recursions

    shift = np.empty(len(b))
    run_parts(lambda rows: compiled_recursions.scale_emissions(b, *rows, shift), row_ranges(len(b), threads))
    alpha = np.empty_like(b)
    loglik = np.empty(len(starts) - 1)
    dense = bool(np.all(transmat >= DENSE_FLOOR))

    def part(group: tuple[int, int]) -> None:
        compiled_recursions.forward(startprob, transmat, b, shift, starts, *group, dense, alpha, loglik)

    run_parts(part, sequence_groups(starts, threads))
    return alpha, loglik


def forward_backward(
    startprob: Array, transmat: Array, log_b: LogEmissions, starts: Starts, threads: int = 1
) -> StatePosterior:
    """Posterior state probabilities and expected transitions of all sequences.

    Parameters
    ----------
    startprob : (K,)
    transmat : (K, K)
    log_b : callable giving log emission densities of a range of rows
    starts : (S + 1,) first row of every sequence, and the number of rows
    threads : int
    """
    from cavity.em import compiled_recursions

    k = len(startprob)
    b = log_b(0, int(starts[-1]))
    gamma, loglik = _scaled_forward(startprob, transmat, b, starts, threads)
    transposed = np.ascontiguousarray(transmat.T)

    def part(group: tuple[int, int]) -> tuple[Array, Array]:
        initial, xi = np.zeros(k), np.zeros((k, k))
        compiled_recursions.backward(transmat, transposed, b, starts, *group, loglik, gamma, initial, xi)
        return initial, xi

    results = run_parts(part, sequence_groups(starts, threads))
    initial = np.sum([r[0] for r in results], axis=0)
    transitions = np.sum([r[1] for r in results], axis=0)
    for s in np.flatnonzero(np.isnan(loglik)):
        _log_space(startprob, transmat, log_b, starts, int(s), loglik, gamma, initial, transitions)
    return StatePosterior(loglik, gamma, initial, transitions)


def _log_space(
    startprob: Array,
    transmat: Array,
    log_b: LogEmissions,
    starts: Starts,
    s: int,
    loglik: Array,
    gamma: Array,
    initial: Array,
    transitions: Array,
) -> None:
    """Forward-backward of sequence s in log space, into the arrays given."""
    from cavity.em import compiled_recursions

    first, last = int(starts[s]), int(starts[s + 1])
    logs, log_pi, log_a = log_b(first, last), log_probabilities(startprob), log_probabilities(transmat)
    own = gamma[first:last]
    loglik[s] = compiled_recursions.forward_log(log_pi, log_a, logs, 0, last - first, own)
    if np.isfinite(loglik[s]):
        compiled_recursions.backward_log(log_a, logs, 0, last - first, own, initial, transitions)
    else:
        own[:] = np.nan


def filtered(
    startprob: Array, transmat: Array, log_b: LogEmissions, starts: Starts, threads: int = 1
) -> tuple[Array, Array]:
    """Log-likelihoods (S,) and P(state at t | observations up to t), (T, K)."""
    from cavity.em import compiled_recursions

    b = log_b(0, int(starts[-1]))
    alpha, loglik = _scaled_forward(startprob, transmat, b, starts, threads)
    log_pi, log_a = log_probabilities(startprob), log_probabilities(transmat)
    for s in np.flatnonzero(np.isnan(loglik)):
        rows = slice(int(starts[s]), int(starts[s + 1]))
        own = alpha[rows]
        logs = log_b(rows.start, rows.stop)
        loglik[s] = compiled_recursions.forward_log(log_pi, log_a, logs, 0, len(own), own)
        with np.errstate(invalid="ignore"):
            own[:] = np.exp(own - own.max(axis=1, keepdims=True))
    alpha /= alpha.sum(axis=1, keepdims=True)
    return loglik, alpha
