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
from cavity.runtime.errors import Described, InPython, Setting

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


def require_time(n: int, rule: str, n_restarts: int, max_time: float | None) -> float:
    """The estimate of `learning_time`; refuses what takes longer than `LONGEST`, unless a limit of time was given.

    Raises
    ------
    TooLongError
    """
    seconds = learning_time(n, rule, n_restarts)
    if max_time is not None or not seconds > LONGEST:
        return seconds
    fits = max(int(n * (AN_HOUR / seconds) ** (1 / 3)) // 100 * 100, 100)
    error = TooLongError(
        f"learning from {n} rows would take about {in_words(seconds)}",
        remedy=(
            *("use ", Setting("max_rows", fits), " (a random subset, about an hour)"),
            *(InPython(", representation='inducing'"), ", or give "),
            *(Setting("max_time", int(AN_HOUR)), " or another limit, in seconds, to get the best until then"),
        ),
    )
    error.seconds = seconds
    raise error


def in_words(seconds: float) -> str:
    """A time, roughly.

    >>> in_words(100.0), in_words(5000.0), in_words(30000.0), in_words(1e6)
    ('2 minutes', '83 minutes', '8 hours', '12 days')
    """
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.95 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} seconds" if seconds < 60 else f"{seconds / 60:.0f} minutes"
