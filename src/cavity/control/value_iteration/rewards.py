"""Rewards of the next state with Gaussian expectations: a bump around the goal.

A reward has `expected(mean, variance)` and `derivatives(mean, variance)` for s' ~ N(mean (B, D), diag(variance (B, D)))
and `largest`, its largest value, from which the bound of all values follows. `BumpReward` is exact in every case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems import MountainCar, Problem
from cavity.control.value_iteration.factors import Angle, Factor, Line
from cavity.numerics.arrays import Array


class Reward(Protocol):
    """What the iterations need of a reward."""

    largest: float

    def expected(self, mean: Array, variance: Array) -> Array:
        """E r(s'), shape (B,)."""

    def derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E r(s') (B,) and its derivatives in mean and variance, each (B, D)."""

    def __call__(self, states: ArrayLike) -> Array:
        """r(s) at states (..., D), shape (...)."""


class BumpReward:
    """A reward of height 1 at the goal that falls like a Gaussian, and like exp((cos - 1)/w^2) in angles.

    Parameters
    ----------
    goal : array (D,)
    widths : array (D,)
        Standard deviations; infinite for columns that do not matter.
    factors : sequence of Factor, optional
        Lines by default; with ends, the reward is zero outside.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.value_iteration import BumpReward
    >>> reward = BumpReward([0.6, 0.0], [0.05, 0.05])
    >>> reward.expected(np.array([[0.6, 0.0]]), np.array([[0.05**2, 0.0]])).round(4)
    array([0.7071])
    """

    largest = 1.0

    def __init__(self, goal: ArrayLike, widths: ArrayLike, factors: Sequence[Factor] | None = None) -> None:
        self.goal, self.widths = np.array(goal, dtype=float), np.array(widths, dtype=float)
        if self.goal.ndim != 1 or self.widths.shape != self.goal.shape or not (self.widths > 0).all():
            raise ValueError(f"goal and widths must be D numbers, widths positive; got {goal!r}, {widths!r}")
        self.factors: list[Factor] = [Line() for _ in self.goal] if factors is None else list(factors)
        if len(self.factors) != len(self.goal):
            raise ValueError(f"factors must be one for each of {len(self.goal)} columns")

    def expected(self, mean: Array, variance: Array) -> Array:
        """E r(s'), shape (B,)."""
        return self._power(mean, variance, 1.0)

    def expected_square(self, mean: Array, variance: Array) -> Array:
        """E r(s')^2, shape (B,)."""
        return self._power(mean, variance, 2.0)

    def _power(self, mean: Array, variance: Array, power: float) -> Array:
        out = np.ones(len(mean))
        for d, f in enumerate(self.factors):
            width = float(self.widths[d] / np.sqrt(power))
            out *= f.expected(mean[:, d], variance[:, d], self.goal[d : d + 1], width)[:, 0]
        return out

    def derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E r(s') (B,) and its derivatives in mean and variance, each (B, D)."""
        three = [
            [part[:, 0] for part in f.derivatives(mean[:, d], variance[:, d], self.goal[d : d + 1], float(w))]
            for d, (f, w) in enumerate(zip(self.factors, self.widths))
        ]
        value = np.prod([part[0] for part in three], axis=0)
        slopes = np.empty((2, *mean.shape))
        for d in range(mean.shape[1]):
            rest = np.prod([three[e][0] for e in range(len(three)) if e != d], axis=0)
            slopes[0, :, d], slopes[1, :, d] = three[d][1] * rest, three[d][2] * rest
        return value, slopes[0], slopes[1]

    def __call__(self, states: ArrayLike) -> Array:
        """r(s) at states (..., D), shape (...)."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        return self.expected(flat, np.zeros(flat.shape)).reshape(s.shape[:-1])


def factors_of(problem: Problem, ends: bool = True) -> list[Factor]:
    """One factor for each state: the circle for angles, else a line, which ends where the region does if `ends`."""
    return [
        Angle() if d in problem.angles else Line(low, high) if ends else Line()
        for d, (low, high) in enumerate(zip(problem.state_low, problem.state_high))
    ]


def reward_of(problem: Problem, ends: bool = True) -> BumpReward:
    """The reward of the mountain car: a Gaussian of height 1 around its goal, zero outside the region."""
    if isinstance(problem, MountainCar):
        widths = np.full(2, problem.reward_sd)
        return BumpReward(problem.goal, widths, factors_of(problem, ends))
    raise ValueError(f"no reward is known for {problem!r}; give one, for instance BumpReward(goal, widths)")
