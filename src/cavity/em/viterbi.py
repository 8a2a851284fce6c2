"""The Viterbi algorithm over many sequences: the most probable path of states."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.em.forward_backward import LogEmissions, Starts, log_probabilities, sequence_groups
from cavity.em.parallel import run_parts
from cavity.numerics.arrays import Array


def most_probable_paths(
    startprob: Array, transmat: Array, log_b: LogEmissions, starts: Starts, threads: int = 1
) -> tuple[Array, NDArray[np.intp]]:
    """Viterbi: log probability of the best path of every sequence (S,), and the paths (T,)."""
    from cavity.em import compiled_recursions

    logs = log_b(0, int(starts[-1]))
    n, k = logs.shape
    # One or two bytes per back pointer instead of eight.
    pointers = np.empty((n, k), dtype=np.uint8 if k <= 256 else np.uint16)
    path = np.empty(n, dtype=np.intp)
    best = np.empty(len(starts) - 1)
    log_pi, log_a = log_probabilities(startprob), log_probabilities(transmat)

    def part(group: tuple[int, int]) -> None:
        compiled_recursions.viterbi(log_pi, log_a, logs, starts, *group, pointers, path, best)

    run_parts(part, sequence_groups(starts, threads))
    return best, path
