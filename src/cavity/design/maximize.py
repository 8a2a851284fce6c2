"""Where an acquisition function is largest: points spread over the cube and around good ones, then ascent.

Ascent is by `numerics.projected_bfgs`, from several starts at once, in the inputs that vary continuously. Inputs on
grids ascend as if they were continuous and are rounded; then each such input, and each category, is tried at its other
values in turn, as long as that helps. Linear constraints hold for all points; an ascent that leaves them is cut where
it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from cavity.design.space import Space
from cavity.numerics.arrays import Array
from cavity.numerics.projected_bfgs import descend

SPREAD = 512
"""Points over the whole cube at which an acquisition is evaluated first."""

LOCAL = 100
"""Points near the best ones so far."""

LOCAL_SCALES = (0.003, 0.02, 0.1, 0.3)
"""How near, in sides of the cube."""

CENTERS = 5
"""Rows with the best means, around which local points lie."""

STARTS = 6
STEPS = 40
"""Ascents, and most evaluations of each."""

SAME = 1e-6
"""Share of the box within which two points are one, if there is no noise."""

NEIGHBORS = 20
"""Values of an input on a grid that are tried beside the present one: all, or the nearest."""


class Acquisition(Protocol):
    """A function of points that says how much an experiment there is worth; larger is better."""

    def __call__(self, X: Array) -> Array:
        """Values (m,) at points (m, D)."""

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""


def candidates(space: Space, centers: Array, rng: np.random.Generator, inside: tuple[Array, Array]) -> Array:
    """Points over the box `inside` and near the centers (c, D), all of which can be set."""
    low, high = inside
    spread = space.sobol(SPREAD, rng)
    inner = np.where(space.categorical, spread, low + (high - low) * spread / space.high)
    if not len(centers):
        return _settable(space, inner)
    around = centers[rng.integers(len(centers), size=LOCAL)]
    step = np.resize(LOCAL_SCALES, LOCAL)[:, None] * rng.standard_normal(around.shape)
    # most local points change some inputs only: a step in all is rarely an improvement if there are many
    moved = rng.random(around.shape) < np.maximum(0.5, 1.0 / space.n)
    near = np.clip(around + step * moved, low, high)
    near = np.where(space.categorical, around, near)
    return _settable(space, np.vstack([inner, near]))


def _settable(space: Space, U: Array) -> Array:
    U = space.rounded(U)
    return U[space.feasible(U)]


def maximize(
    acquisition: Acquisition,
    space: Space,
    centers: Array,
    rng: np.random.Generator,
    *,
    inside: tuple[Array, Array] | None = None,
    fixed: NDArray[np.bool_] | None = None,
    at: Array | None = None,
) -> tuple[Array, Array]:
    """Points (k, D) that can be set, the best first, and their values (k,): ends of ascents, then other candidates.

    Parameters
    ----------
    centers : array (c, D)
        Good points so far.
    inside : pair of arrays (D,), optional
        A part of the cube to stay in.
    fixed, at : arrays (D,), optional
        Inputs that are held, and their coordinates.
    """
    low, high = (space.low, space.high) if inside is None else inside
    raw = candidates(space, centers, rng, (low, high))
    free = space.continuous.copy() if fixed is None else space.continuous & ~fixed
    relaxed = ~space.categorical if fixed is None else ~space.categorical & ~fixed
    if fixed is not None and at is not None:
        raw[:, fixed] = at[fixed]
        raw = raw[space.feasible(raw)]
    value = acquisition(raw)
    starts = raw[_chosen(raw, value, rng)]
    found = [starts]
    if relaxed.any():
        ends = _ascend(acquisition, space, starts, relaxed, low, high)
        found.append(ends)
    points = np.vstack(found)
    values = acquisition(points)
    if not free.all():
        movable = ~space.continuous if fixed is None else ~space.continuous & ~fixed
        points, values = _line_search(acquisition, space, points, values, movable)
    points, values = np.vstack([points, raw]), np.concatenate([values, value])
    order = np.argsort(-values, kind="stable")
    return points[order], values[order]


def _chosen(raw: Array, value: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Starts: the best point, and others in proportion to how good they are (in units of the spread)."""
    count = min(STARTS, len(raw))
    order = np.argsort(-value, kind="stable")
    best = order[: count // 2]
    rest = order[count // 2 :]
    usable = np.isfinite(value[rest])
    spread = float(np.std(value[rest][usable])) if usable.any() else 0.0
    if spread <= 0:
        return order[:count]
    # the Gumbel trick: draws without replacement, with probabilities exp(value / spread)
    noisy = np.where(usable, value[rest] / spread, -np.inf) + rng.gumbel(size=len(rest))
    return np.concatenate([best, rest[np.argsort(-noisy, kind="stable")[: count - len(best)]]])


def _ascend(
    acquisition: Acquisition, space: Space, starts: Array, free: NDArray[np.bool_], low: Array, high: Array
) -> Array:
    base = starts

    def downhill(x: Array) -> tuple[Array, Array]:
        # rows keep their categories: a row is known by its place among those still going on, so all are padded
        value, gradient = acquisition.with_gradient(x)
        return -value, -gradient

    groups = [np.arange(len(base))] if free.all() else same_held(base, free)
    ends = base.copy()
    for group in groups:
        held = base[group[0]]

        def partial(x: Array, held: Array = held) -> tuple[Array, Array]:
            full = np.repeat(held[None], len(x), axis=0)
            full[:, free] = x
            value, gradient = downhill(full)
            return value, gradient[:, free]

        function: Callable[[Array], tuple[Array, Array]] = downhill if free.all() else partial
        done = descend(
            function,
            base[group][:, free],
            low[free],
            high[free],
            evaluations=STEPS,
            tolerance=1e-5,
            retire=True,
        )
        ends[np.ix_(group, np.flatnonzero(free))] = done.x
    return settled(space, base, ends)


def settled(space: Space, starts: Array, ends: Array) -> Array:
    """Ends of ascents as points that can be set, cut back to where they meet the linear constraints."""
    ends = space.rounded(ends)
    return np.array([_cut_back(space, a, b) for a, b in zip(starts, ends)]) if space.constraints else ends


def same_held(base: Array, free: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Rows in groups that agree in what is held."""
    _, group = np.unique(base[:, ~free], axis=0, return_inverse=True)
    group = group.ravel()
    return [np.flatnonzero(group == k) for k in range(group.max() + 1)]


def _cut_back(space: Space, start: Array, end: Array) -> Array:
    """The last point on the way from a feasible start to an end that meets the linear constraints."""
    A, b = space.linear
    slope, room = A @ (end - start), b - A @ start
    share = np.where(slope > 0, room / np.where(slope > 0, slope, 1.0), np.inf)
    point = space.rounded((start + min(1.0, float(share.min())) * (end - start))[None])
    return point[0] if space.feasible(point)[0] else start


def _line_search(
    acquisition: Acquisition, space: Space, points: Array, values: Array, movable: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Each input on a grid at its other values in turn, as long as that helps; of the best points."""
    order = np.argsort(-values, kind="stable")[: STARTS // 2]
    points, values = points[order].copy(), values[order].copy()
    for _ in range(3):
        improved = False
        for i in np.flatnonzero(movable):
            grid = space.grids[i]
            assert grid is not None
            for k in range(len(points)):
                others = grid[np.argsort(np.abs(grid - points[k, i]), kind="stable")[1 : NEIGHBORS + 1]]
                trial = np.repeat(points[k][None], len(others), axis=0)
                trial[:, i] = others
                trial = trial[space.feasible(trial)]
                if not len(trial):
                    continue
                value = acquisition(trial)
                j = int(np.argmax(value))
                if value[j] > values[k]:
                    points[k], values[k], improved = trial[j], value[j], True
        if not improved:
            break
    return points, values
