"""Regions that hold a given share of a distribution: highest density, and intervals around a center.

The highest-density region at a level is {x: p(x) > c} with the c at which it holds that share. Its ends are found from
the density itself: a grid shows between which points p crosses c, a root finder where. It is a union of
intervals if p has several modes, and touches the edge of the support if p is largest there, where a search for two
ends of equal height would fail. Regions of whole numbers collect the most probable ones until the share is
reached, so that they may hold more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_inside
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.bayes.distributions import Distribution

GRID = 2001
"""Points, and as many quantiles, at which a density is looked at for its modes."""

TAIL = 1e-13
"""Probability beyond the grid on either side."""


@dataclass(frozen=True)
class Region:
    """A union of intervals.

    Attributes
    ----------
    intervals : tuple of (float, float)
        From left to right; of whole numbers both ends count.
    probability : float
        What it holds.
    log_density : float
        The density is above this inside, and below outside.
    """

    intervals: tuple[tuple[float, float], ...]
    probability: float
    log_density: float


def log_density_grid(one: Distribution) -> tuple[Array, Array]:
    """Points from tail to tail and the log density there, as fine as modes may be narrow."""
    low, high = (float(one.quantile(p)) for p in (TAIL, 1.0 - TAIL))
    if one.discrete:
        x = np.arange(low, high + 1.0)
    else:
        inner = np.linspace(0.0, 1.0, GRID)[1:-1]
        x = np.unique(np.concatenate([np.linspace(low, high, GRID), np.asarray(one.quantile(inner))]))
    return x, np.asarray(one.log_prob(x), dtype=float)


def highest_density(one: Distribution, level: float) -> Region:
    """The smallest region that holds `level` of one distribution."""
    require_inside(level, "level")
    x, log_p = log_density_grid(one)
    if one.discrete:
        return _most_probable(x, log_p, level)
    finite = log_p[np.isfinite(log_p)]
    floor, top = float(finite.min()), float(finite.max())
    if top - floor < 1e-12:  # uniform: all regions of that size are alike, this is the central one
        low, high = (float(one.quantile(0.5 + s * level / 2)) for s in (-1, 1))
        return Region(((low, high),), level, top)

    def excess(c: float) -> float:
        return _held(one, _above(one, x, log_p, c)) - level

    ceiling = top if excess(top) < 0 else top + 60.0  # densities that go to infinity at an edge
    c = float(brentq(excess, floor, ceiling, xtol=1e-14, rtol=1e-14))
    intervals = _above(one, x, log_p, c)
    return Region(tuple(intervals), _held(one, intervals), c)


def _held(one: Distribution, intervals: list[tuple[float, float]]) -> float:
    return sum(float(one.probability(a, b)) for a, b in intervals if b > a)


def _above(one: Distribution, x: Array, log_p: Array, c: float) -> list[tuple[float, float]]:
    """Where the log density is above c."""
    inside = log_p > c
    starts = np.flatnonzero(inside & ~np.concatenate([[False], inside[:-1]]))
    ends = np.flatnonzero(inside & ~np.concatenate([inside[1:], [False]]))
    low, high = (float(s) for s in one.support)

    def crossing(i: int, j: int) -> float:
        def height(t: float) -> float:
            return float(one.log_prob(t)) - c

        a, b = float(x[i]), float(x[j])
        if height(a) * height(b) > 0:  # a point of the grid is on the level
            return b
        return float(brentq(height, a, b, xtol=1e-14 * max(abs(a), abs(b), 1e-300), rtol=1e-14))

    def edge(k: int, end: float) -> float:
        """A region that reaches the last point of the grid goes on to the edge, or to where the density falls."""
        if not np.isfinite(end) or float(one.log_prob(end)) > c:
            return end
        a, b = sorted((float(x[k]), end))
        return float(brentq(lambda t: float(one.log_prob(t)) - c, a, b, xtol=1e-300))

    return [
        (
            crossing(s - 1, s) if s > 0 else edge(s, low),
            crossing(e, e + 1) if e + 1 < len(x) else edge(e, high),
        )
        for s, e in zip(map(int, starts), map(int, ends))
    ]


def _most_probable(x: Array, log_p: Array, level: float) -> Region:
    """The most probable whole numbers, as runs."""
    order = np.argsort(-log_p, kind="stable")
    held = np.cumsum(np.exp(log_p[order]))
    count = int(np.searchsorted(held, level - 1e-14)) + 1
    chosen = np.sort(x[order[:count]])
    breaks = np.flatnonzero(np.diff(chosen) > 1.0)
    starts = np.concatenate([[0], breaks + 1])
    ends = np.concatenate([breaks, [len(chosen) - 1]])
    runs = tuple((float(chosen[s]), float(chosen[e])) for s, e in zip(starts, ends))
    return Region(runs, float(held[count - 1]), float(log_p[order[count - 1]]))


def centered_interval(one: Distribution, level: float, center: float) -> tuple[float, float]:
    """center - e to center + e, with the e at which that holds `level`."""
    require_inside(level, "level")
    if one.discrete:
        raise InputError("centered intervals are for continuous distributions; use highest_density")
    reach = max(abs(float(one.quantile(p)) - center) for p in (TAIL, 1.0 - TAIL))

    def held(e: float) -> float:
        return float(one.probability(center - e, center + e)) - level if e > 0 else -level

    e = float(brentq(held, 0.0, reach, xtol=1e-15, rtol=1e-14))
    low, high = (float(s) for s in one.support)
    return max(center - e, low), min(center + e, high)
