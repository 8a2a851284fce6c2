"""Greedy actions for many states at once: the best of some candidates, then gradient ascent within bounds.

The problems (7.39) and (7.44) have one or few unknowns each and are not concave. Candidates on a grid of actions find
the right hill for every state; ascent from there, for all states together and each with a step of its own, finds its
top. A step that does not improve is taken back, so the result is never worse than the best candidate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array

Rows = NDArray[np.intp]
Gradient = Callable[[Rows, Array], tuple[Array, Array]]

MOST_CANDIDATES = 4096
"""Of actions on a grid: with several actions there are fewer for each."""

ENOUGH = 1e-3
"""Steps below this, as a part of the bounds' width, are not worth another evaluation."""


def candidate_actions(low: Array, high: Array, count: int) -> Array:
    """A grid of actions with both bounds, `count` for each action, shape (number, F)."""
    if count < 2:
        raise ValueError(f"candidates must be at least 2 for each action, got {count}")
    if count ** len(low) > MOST_CANDIDATES:
        raise ValueError(
            f"{count} candidates for each of {len(low)} actions are {count ** len(low)} combinations; "
            f"at most {MOST_CANDIDATES} are evaluated: give fewer"
        )
    axes = [np.linspace(a, b, count) for a, b in zip(low, high)]
    return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)


def ascend(
    gradient: Gradient, actions: Array, low: Array, high: Array, first: Array, steps: int
) -> tuple[Array, Array]:
    """Projected gradient ascent for every row at once.

    Parameters
    ----------
    gradient : callable
        ``gradient(rows, actions)`` gives values (b,) and slopes (b, F) for some rows (b,) and their actions (b, F).
    actions : array (B, F)
        Where to start.
    low, high : array (F,)
        Bounds.
    first : array (F,)
        Length of the first step.
    steps : int
        Evaluations of the gradient after the first.

    Returns
    -------
    actions (B, F), values (B,)
    """
    a, width = np.array(actions), high - low
    rows = np.arange(len(a))
    value, slope = gradient(rows, a)
    reach = np.full(len(a), float(np.mean(first / width)))  # length of a step in units of the bounds
    for _ in range(steps):
        direction = _inward(slope * width, a, low, high)
        length = np.linalg.norm(direction, axis=1)
        active = np.flatnonzero((length > 0) & (reach > ENOUGH))
        if len(active) == 0:
            break
        step = direction[active] * (reach[active] / length[active])[:, None]
        trial = np.clip(a[active] + step * width, low, high)
        new_value, new_slope = gradient(rows[active], trial)
        better = new_value > value[active]
        # a slope that has turned around says that the top was passed: shorter steps from here
        turned = np.sum(new_slope * width * direction[active], axis=1) < 0
        reach[active] *= np.where(better & ~turned, 1.3, np.where(better, 0.4, 0.25))
        taken = active[better]
        a[taken], value[taken], slope[taken] = trial[better], new_value[better], new_slope[better]
    return a, value


def _inward(slope: Array, a: Array, low: Array, high: Array) -> Array:
    """Slopes without the components that point out of the bounds."""
    blocked = ((a <= low) & (slope < 0)) | ((a >= high) & (slope > 0))
    return np.where(blocked, 0.0, slope)
