"""How long a fit takes, and a refusal of one that would not end.

Learning evaluates the evidence and its gradient some dozens of times, and every evaluation factorizes and inverts n x n
matrices: n^3 operations, times what the inference rule takes of them. The speed of this machine is measured once, and
only for data so large that the answer may matter. An estimate is right within a factor of two or three.
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np

from cavity.numerics.triangles import factor_in_place, invert_factored_in_place
from cavity.runtime.durations import in_words
from cavity.runtime.errors import Described, Setting

LONGEST = 24 * 3600.0
"""Seconds beyond which nobody is taken to be willing to wait without having said so (`max_time`)."""

WORTH_ESTIMATING = 4000
"""Rows from which there is an estimate: fewer take minutes."""

PRICE = {"exact": 1.5, "laplace": 6.0, "ep": 10.0, "variational": 10.0, "scale-mixture-em": 6.0, "mcmc": 1.5}
"""Work of one evaluation of each rule, in factorizations with inverse; that of unknown rules is taken for EP's."""

EVALUATIONS = 60
"""Of one run of the optimizer."""

CHAIN_EVALUATIONS = 10_000
"""Of Markov chains: some steps of a trajectory for each of some thousand draws."""

CALIBRATION_ROWS = 1500
"""Size of the matrix by which the speed is measured."""

AN_HOUR = 3600.0


class TooLongError(Described, ValueError):
    """A fit would take longer than anybody waits.

    Attributes
    ----------
    seconds : float
        The estimate.
    """

    seconds: float = float("nan")


@cache
def operations_per_second() -> float:
    """What this machine does while it factorizes and inverts, n^3 operations for n rows; measured once, 0.1 s."""
    n, shortest = CALIBRATION_ROWS, np.inf
    for _ in range(2):  # the first wakes the threads
        A = np.full((n, n), 0.1, order="F")
        A[np.diag_indices(n)] += 1.0
        started = time.perf_counter()
        factor_in_place(A)
        invert_factored_in_place(A)
        shortest = min(shortest, time.perf_counter() - started)
    return float(n) ** 3 / shortest


def learning_time(n: int, rule: str, n_restarts: int) -> float:
    """Seconds that learning from n rows takes; nan for data too few to bother.

    Parameters
    ----------
    n : int
    rule : str
        Name of the inference rule.
    n_restarts : int
        Runs of the optimizer beside the first.
    """
    if n < WORTH_ESTIMATING:
        return float("nan")
    evaluations = CHAIN_EVALUATIONS if rule == "mcmc" else EVALUATIONS * (1 + n_restarts)
    return evaluations * PRICE.get(rule, PRICE["ep"]) * float(n) ** 3 / operations_per_second()


def rows_within(wanted: float, n: int, seconds: float) -> int:
    """Rows, in hundreds, that take `wanted` seconds if n rows take `seconds`: time grows with their third power.

    >>> rows_within(60.0, 8000, 480.0)
    4000
    """
    return max(int(n * (wanted / seconds) ** (1 / 3) + 1e-9) // 100 * 100, 100)


def require_time(n: int, rule: str, n_restarts: int, max_time: float | None) -> float:
    """The estimate of `learning_time`; refuses what takes longer than `LONGEST`, unless a limit of time was given.

    Raises
    ------
    TooLongError
    """
    seconds = learning_time(n, rule, n_restarts)
    if max_time is not None or not seconds > LONGEST:
        return seconds
    fits = rows_within(AN_HOUR, n, seconds)
    error = TooLongError(
        f"learning from {n} rows would take about {in_words(seconds)}",
        remedy=(
            *("use ", Setting("learn_rows", fits), " (a random subset, about an hour), "),
            *(Setting("representation", "inducing"), ", or give "),
            *(Setting("max_time", int(AN_HOUR)), " or another limit, in seconds, to get the best until then"),
        ),
    )
    error.seconds = seconds
    raise error
