"""Which seasons a series shows, and what shape they have; gross errors and trends must not decide.

A season of period P steps is looked for in medians over parts of a cycle, in their differences, which have no trend.
With residuals of a regression on J waves clipped at a few robust deviations, it is there if

    n log(RSS without / RSS with) > 2 J log(n),

Schwarz's criterion. All harmonics that can be told apart are tried, and the first one or two alone: a season may be one
smooth wave. Since series that wander have much of everything slow, such a wave is a season only if it pays twice the
price, and explains more than waves somewhat shorter and longer do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cavity.numerics.arrays import Array

MOST_HARMONICS = 6
PARTS = 24
"""Parts of a cycle whose medians are looked at, if there are more observations in it."""

CLIPPED = 3.0
"""Robust standard deviations at which residuals are clipped."""

BESIDE = (0.7, 0.8, 1.25, 1.4)
"""Periods of the waves beside that of a season, in cycles of it."""

LONGEST_SEARCH = 400
"""Periods, in steps, among which seasons without a name are searched."""

ROBUST = 1.4826
"""Standard deviations of a normal variable in its median absolute deviation."""


def robust_sd(x: Array) -> float:
    """By the median absolute deviation; by the standard deviation if half of the values are equal."""
    if len(x) == 0:
        return 0.0
    found = ROBUST * float(np.median(np.abs(x - np.median(x))))
    return found if found > 0 else float(np.std(x))


def waves(t: Array, period: float, count: int) -> Array:
    """Cosines and sines of so many harmonics, (n, 2 count)."""
    angle = 2.0 * np.pi / period * np.multiply.outer(np.fmod(t, period), np.arange(1, count + 1))
    return np.hstack([np.cos(angle), np.sin(angle)])


def harmonics(period: float) -> int:
    """Waves of a season that can be told apart: up to half of the steps of a cycle."""
    return int(max(1, min(MOST_HARMONICS, np.floor(period / 2.0 + 1e-9))))


def robust_fit(A: Array, y: Array) -> Array:
    """Coefficients of a regression with Huber's weights, by iterated least squares."""
    weight = np.ones(len(y))
    for _ in range(20):
        root = np.sqrt(weight)
        found = np.linalg.lstsq(A * root[:, None], y * root, rcond=None)[0]
        residual = y - A @ found
        limit = 1.5 * robust_sd(residual)
        if limit <= 0:
            break
        weight = limit / np.maximum(np.abs(residual), limit)
    return np.asarray(found)


def gain(t: Array, y: Array, period: float) -> float:
    """How much more than its price a season explains, in twice a log likelihood; -inf if it cannot be seen."""
    width = max(1.0, period / PARTS)
    place = np.floor(t / width + 1e-9).astype(int)
    order = np.argsort(place, kind="stable")
    cuts = np.flatnonzero(np.diff(place[order])) + 1
    groups = np.split(order, cuts)
    middle = np.array([np.mean(t[g]) for g in groups])
    value = np.array([np.median(y[g]) for g in groups])
    near = np.diff(place[order][np.concatenate([[0], cuts])]) <= 2  # differences across long gaps say little
    J = min(harmonics(period), int(period / width / 2.0 + 1e-9) or 1)
    change = np.diff(value)[near]
    if len(change) < 4 * J + 3 or np.ptp(t) < 2.0 * period - 1.5:
        return -np.inf

    def explained(cycle: float, count: int) -> float:
        return _explained(change, np.diff(waves(middle, cycle, count), axis=0)[near])

    best = explained(period, J)
    for count in range(1, min(J, 3)):
        smooth = explained(period, count) - 2 * count * np.log(len(change))  # at twice the price
        if smooth > max(best, 0.0):
            beside = max(explained(share * period, count) for share in BESIDE)
            best = max(best, smooth - max(beside, 0.0))
    return best


def _explained(change: Array, A: Array) -> float:
    """Gain of a regression on the columns of A."""
    n = len(change)
    A = np.column_stack([np.ones(n), A])
    without, with_season = change - np.median(change), change - A @ robust_fit(A, change)
    limit = CLIPPED * robust_sd(without)
    if limit <= 0:
        return -np.inf
    before, after = (float(np.sum(np.minimum(r**2, limit**2))) for r in (without, with_season))
    return float(n * np.log(before / max(after, 1e-12 * before)) - (A.shape[1] - 1) * np.log(n))


def shown(t: Array, y: Array, periods: Sequence[float]) -> list[bool]:
    """Whether the series shows a season of each of these periods."""
    return [period >= 2.0 - 1e-9 and gain(t, y, period) > 0 for period in periods]


def searched(t: Array, y: Array) -> list[float]:
    """The period, in whole steps, that explains most, if it explains more than chance would among so many."""
    candidates = np.arange(2, min(LONGEST_SEARCH, int(np.ptp(t) / 3.0)) + 1, dtype=float)
    if len(candidates) == 0:
        return []
    gains = np.array([gain(t, y, period) for period in candidates])
    best = int(np.argmax(gains))
    return [float(candidates[best])] if gains[best] > 2.0 * np.log(len(candidates)) else []


def shape(t: Array, y: Array, periods: Sequence[float]) -> list[Array]:
    """Variances of the waves of each season, by a robust regression on all of them and a flexible trend."""
    span = max(float(np.ptp(t)), 1.0)
    degree = int(np.clip(span / (2.0 * max(periods)), 1, 10))
    columns = [np.polynomial.legendre.legvander(2.0 * (t - t.min()) / span - 1.0, degree)]
    columns += [waves(t, period, harmonics(period)) for period in periods]
    found = robust_fit(np.hstack(columns), y)
    starts = np.cumsum([part.shape[1] for part in columns])
    parts = [found[first:last].reshape(2, -1) for first, last in pairwise(starts)]
    return [0.5 * np.sum(part**2, axis=0) for part in parts]


def cycle(t: Array, y: Array) -> float:
    """The period of the strongest wave between four steps and a quarter of the series, without its trend."""
    span = float(np.ptp(t))
    longest = span / 4.0
    if longest <= 5.0:
        return max(longest, 4.0)
    trend = np.polynomial.legendre.legvander(2.0 * (t - t.min()) / span - 1.0, 3)
    limit = CLIPPED * robust_sd(rest := y - trend @ robust_fit(trend, y))
    rest = np.clip(rest, -limit, limit)
    periods = span / np.arange(4.0, span / 4.0, 0.5)
    power = [float(np.sum((waves(t, period, 1).T @ rest) ** 2)) for period in periods]
    return float(periods[int(np.argmax(power))])
