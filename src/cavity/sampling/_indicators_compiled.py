# mypy: disable-error-code=untyped-decorator
"""A sweep over the indicators of `indicators`: compiled by Numba on first use and cached on disk."""

from __future__ import annotations

import math
from typing import Any

import numba


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _rank_one(R: Any, b: Any, i: int, factor: float, column: Any) -> None:
    """R <- R - factor R_:i R_i:, b <- b - factor R_:i b_i."""
    n = len(b)
    for j in range(n):
        column[j] = R[i, j]
    step = factor * b[i]
    for j in range(n):
        scaled = factor * column[j]
        b[j] -= step * column[j]
        for k in range(n):
            R[j, k] -= scaled * column[k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def sweep(
    R: Any,
    b: Any,
    c: Any,
    probability: Any,
    order: Any,
    log_u: Any,
    start: int,
    most: int,
    logit: float,
    gap: float,
    relaxed: bool,
    column: Any,
) -> Any:
    """Visit points order[start:], changing R, b, c and probability in place.

    Parameters
    ----------
    R, b, c, probability : arrays (n, n), (n,), (n,), (n,)
        The inverse, the weights, the indicators and, if visited, p(c_i = 1 | all others).
    order, log_u : arrays (n,)
        Points in the order of their visits, and logs of uniform numbers, one per visit.
    most : int
        Stop after so many flips.
    logit : float
        Log odds of an outlier before seeing data.
    gap : float
        Outlier minus regular noise variance, positive.
    relaxed : bool
        Over-relaxed or plain updates.

    Returns
    -------
    at : int
        The next visit; the number of points when done.
    flips : int
    sound : bool
        False if rounding has spoiled the pivot of the next visit.
    """
    flips = 0
    for at in range(start, len(order)):
        if flips >= most:
            return at, flips, True
        i = order[at]
        delta = -gap if c[i] else gap
        q = 1.0 + delta * R[i, i]
        if not q > 0.0:
            return at, flips, False
        change = -0.5 * math.log(q) + 0.5 * delta * b[i] * b[i] / q
        odds = logit - change if c[i] else logit + change
        probability[i] = 1.0 / (1.0 + math.exp(-odds)) if odds > -700.0 else 0.0
        move = -odds if c[i] else odds
        if not relaxed:
            move = -math.log1p(math.exp(-move)) if move >= 0.0 else move - math.log1p(math.exp(move))
        if log_u[at] < move:
            _rank_one(R, b, i, delta / q, column)
            c[i] = not c[i]
            flips += 1
    return len(order), flips, True
