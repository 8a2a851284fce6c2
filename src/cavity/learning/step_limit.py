"""How far one step of the optimizer may go.

Approximate inference follows its solution from one value of the hyperparameters to the next. If the step is too long,
or if the branch of solutions ends on the way, the evaluation fails. `StepLimit` keeps the longest step that is worth
trying: it shrinks after failures, grows after steps that use it, and stays short of known ends of the branch.

Places and steps are in coordinates u = theta / scale. The length of a step is its largest change of a coordinate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.numerics.arrays import Array

FIRST_STEP_FRACTION = 0.5
"""The first step may take this fraction of the rule's limit."""

FAILED_STEP_FRACTION = 0.15
"""After a failure at some distance, steps may go this fraction of that distance."""

SHORTEST_STEP = 0.02
"""If steps must be shorter than this, the branch of solutions ends here."""

WAY_TO_END_FRACTION = 0.8
"""A step may take this fraction of the way to a known end of the branch."""

END_RADIUS = 0.5
"""Up to this distance an end of the branch is taken for a plane that steps must not cross."""


class BranchEnd(NamedTuple):
    """An end of the branch: a place on it, and the normal of its plane, which points away from the branch."""

    place: Array
    normal: Array


def distance(here: Array, there: Array) -> float:
    """Length of the step from here to there."""
    return float(np.max(np.abs(there - here)))


class StepLimit:
    """The longest step that the optimizer may try from its best point.

    Parameters
    ----------
    longest : float
        Limit of the inference rule; infinite if it has none.
    first : float
        A lower limit of the first steps.
    """

    def __init__(self, longest: float, first: float = np.inf) -> None:
        self.longest = longest
        self.current = min(first, FIRST_STEP_FRACTION * longest)
        self.ends: list[BranchEnd] = []

    def towards(self, here: Array, there: Array) -> tuple[float, BranchEnd | None]:
        """The longest step from here in the direction of there, and the end of the branch that limits it, if any."""
        limit, nearest, step = self.current, None, there - here
        length = distance(here, there)
        for end in self.ends:
            ahead = float(step @ end.normal)
            if ahead <= 0 or distance(here, end.place) > END_RADIUS:
                continue
            allowed = WAY_TO_END_FRACTION * length * max(float((end.place - here) @ end.normal), 0.0) / ahead
            if allowed < limit:
                limit, nearest = allowed, end
        return limit, nearest

    def add_end(self, place: Array, step: Array) -> BranchEnd:
        """Remember an end of the branch that a step has met: a plane at a right angle to the step."""
        end = BranchEnd(place, step)
        self.ends.append(end)
        return end

    def stay_before_end(self, length: float) -> bool:
        """Keep steps below this length, which is short of an end; whether any step is left."""
        self.current = max(min(self.current, length), SHORTEST_STEP)
        return length >= SHORTEST_STEP

    def shrink(self, length: float) -> bool:
        """After a failure at this distance; whether any step is left."""
        if self.longest < np.inf:
            self.current = min(self.current, FAILED_STEP_FRACTION * length)
        return self.current >= SHORTEST_STEP

    def grow(self, length: float) -> None:
        """After a successful evaluation at this distance."""
        if length > 0.5 * self.current:
            self.current = min(2.0 * self.current, self.longest)
