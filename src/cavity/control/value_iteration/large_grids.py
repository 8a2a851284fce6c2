"""Value functions on grids of a hundred thousand states, for four state variables and more.

A value function with a length scale of about one spacing is local: with Q_v = K + sigma_v^2 I solved by its Kronecker
structure, E V(s') is a sum over the few grid points around s'. That makes backups of all states with all candidate
actions possible where the dense equations (7.38) are not: policies are evaluated by a few backups each (modified
policy iteration, Puterman and Shin 1978).

Values are projected onto [0, r_max / (1 - gamma)], outside of which no policy has any: interpolation of a function with
jumps overshoots, and without the projection the overshoots grow. Length scales are in spacings and fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems.problem import checked_ends
from cavity.control.value_iteration.improvement import candidate_actions
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import Progress

REACH = 3
"""Grid points to each side that count: exp(-(3 / 0.8)^2 / 2) = 0.0009 is the first that does not."""

LEAST = 1e-5
"""Products of bumps below this are left out: of a cube of neighbors, its corners."""

ROWS = 20_000
"""Next states predicted at a time."""


class LargeGrid:
    """A Gaussian process on a regular grid with expectations over neighborhoods.

    Parameters
    ----------
    low, high : array (D,)
        Ends of each column; values beyond are zero. For an angle high - low must be a full turn.
    sizes : sequence of int
        Grid points in each column, at least 2 * reach + 2.
    angles : sequence of int
        Columns that are angles: the grid goes around.
    length : float
        Length scale in spacings.
    noise : float
        sigma_v relative to the signal of 1: smooths what the grid cannot resolve.
    variance : array (D,), optional
        Of the next state around its mean, the same everywhere.
    reach : int
        Grid points to each side of a state that count.
    least : float
        Products of bumps below this do not count.
    """

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        sizes: Sequence[int],
        angles: Sequence[int] = (),
        length: float = 0.8,
        noise: float = 0.3,
        variance: ArrayLike | None = None,
        reach: int = REACH,
        least: float = LEAST,
    ) -> None:
        self.low, self.high = np.array(low, dtype=float), np.array(high, dtype=float)
        self.sizes = np.array(sizes, dtype=np.int64)
        D = len(self.low)
        if not (self.low.shape == self.high.shape == self.sizes.shape) or not (self.low < self.high).all():
            raise ValueError(
                f"low, high and sizes must be D numbers with low < high, got {low!r}, {high!r}, {sizes!r}"
            )
        if (self.sizes < 2 * reach + 2).any():
            raise ValueError(f"sizes must be at least {2 * reach + 2} in each column, got {tuple(sizes)}")
        self.circular = np.isin(np.arange(D), list(angles))
        self.spacing = (self.high - self.low) / np.where(self.circular, self.sizes, self.sizes - 1)
        turns = (self.high - self.low)[self.circular]
        if not np.allclose(turns, 2.0 * np.pi):
            raise ValueError(f"columns of angles must span 2 pi, got {turns.tolist()}")
        self.length, self.noise, self.reach = float(length), float(noise), int(reach)
        self.least = float(least)
        spread = np.zeros(D) if variance is None else np.array(variance, dtype=float)
        self._spreads = np.stack([np.full(D, self.length**2), spread / self.spacing**2], axis=1)
        self._strides = np.append(np.cumprod(self.sizes[:0:-1])[::-1], 1).astype(np.int64)
        self._eigen = [np.linalg.eigh(self._correlation(d)) for d in range(D)]
        total = np.ones(())
        for values, _ in self._eigen:
            total = np.multiply.outer(total, np.maximum(values, 0.0))
        self._total = total + self.noise**2

    def _correlation(self, d: int) -> Array:
        i = np.arange(self.sizes[d])
        apart = np.abs(i[:, None] - i)
        if self.circular[d]:
            apart = np.minimum(apart, self.sizes[d] - apart)
        return np.asarray(np.exp(-0.5 * (apart / self.length) ** 2))

    @property
    def points(self) -> Array:
        """All grid points, shape (m, D), the last column changing fastest."""
        axes = [a + h * np.arange(n) for a, h, n in zip(self.low, self.spacing, self.sizes)]
        return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)

    def solve(self, values: Array) -> Array:
        """Coefficients Q_v^-1 v, shape (m,)."""
        T = values.reshape(tuple(self.sizes))
        for d, (_, U) in enumerate(self._eigen):
            T = np.moveaxis(np.tensordot(U.T, T, axes=(1, d)), 0, d)
        T = T / self._total
        for d, (_, U) in enumerate(self._eigen):
            T = np.moveaxis(np.tensordot(U, T, axes=(1, d)), 0, d)
        return np.ascontiguousarray(T).ravel()

    def expected(self, coefficients: Array, mean: Array, certain: bool = False) -> Array:
        """E V(s') (B,) for means (B, D), or V there if `certain`; zero if the mean is beyond the grid."""
        from cavity.control.value_iteration._local_sums import local_sums

        out = np.empty(len(mean))
        places = np.ascontiguousarray((mean - self.low) / self.spacing)
        spreads = self._spreads * np.array([1.0, 0.0]) if certain else self._spreads
        local_sums(
            coefficients,
            self._strides,
            places,
            spreads,
            self.sizes,
            self.circular,
            self.reach,
            self.least,
            out,
        )
        return out


@dataclass(frozen=True)
class GridPolicy:
    """Greedy policy of a value function on a large grid; call it with states (..., D).

    `changes` are the largest changes of a value in each iteration, relative to the largest value; `earned` are the mean
    rewards of roll-outs from the start in each, if there is one.
    """

    grid: LargeGrid
    values: Array
    coefficients: Array
    step: Callable[[Array, Array], Array]
    reward: Callable[[Array], Array]
    gamma: float
    actions: Array
    changes: list[float] = field(default_factory=list)
    earned: list[float] = field(default_factory=list)

    def value(self, states: ArrayLike) -> Array:
        """V(s), shape (...)."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        return self.grid.expected(self.coefficients, flat, certain=True).reshape(s.shape[:-1])

    def __call__(self, states: ArrayLike) -> Array:
        """Greedy actions (..., F)."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        C = len(self.actions)
        after = self.step(np.repeat(flat, C, axis=0), np.tile(self.actions, (len(flat), 1)))
        q = self.reward(after) + self.gamma * self.grid.expected(self.coefficients, after)
        best = self.actions[q.reshape(len(flat), C).argmax(axis=1)]
        return np.asarray(best.reshape(s.shape[:-1] + best.shape[1:]))


def grid_policy_iteration(
    step: Callable[[Array, Array], Array],
    grid: LargeGrid,
    reward: Callable[[Array], Array],
    action_bounds: ArrayLike,
    *,
    gamma: float = 0.93,
    largest_reward: float = 1.0,
    iterations: int = 10,
    sweeps: int = 5,
    candidates: int = 7,
    control_candidates: int = 61,
    tolerance: float = 0.02,
    start: ArrayLike | None = None,
    horizon: int = 60,
) -> GridPolicy:
    """Modified policy iteration on a large grid.

    Parameters
    ----------
    step : callable
        Mean of the next states (B, D) for states (B, D) and actions (B, F): `dynamics.step`, or `system.step`.
    grid : LargeGrid
    reward : callable
        Between 0 and `largest_reward`, of next states (B, D).
    action_bounds : array (F, 2)
    gamma : float
    iterations : int
        Improvements of the policy, at most.
    sweeps : int
        Backups in the evaluation of each policy.
    candidates, control_candidates : int
        Values of each action tried at grid points, and later in control.
    tolerance : float
        Ends when an improvement changes no value by more than this part of the largest.
    start : array (D,), optional
        Where control will begin. Each policy is then rolled out from there, with `step` and for `horizon` steps, and
        the one that earns most is kept: on a coarse grid more iterations need not mean better control.
    """
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be at least 0 and below 1, got {gamma!r}")
    require_integer(iterations, "iterations", 1)
    low, high = checked_ends(action_bounds, "action_bounds", len(np.asarray(action_bounds)))
    tried = candidate_actions(low, high, candidates)
    points, bound = grid.points, largest_reward / (1.0 - gamma)
    with Progress("large grid", len(tried) + iterations) as progress:
        outcomes = []
        for action in tried:
            outcomes.append(_next(step, points, action))
            progress.advance("next states")
        rewards = np.stack([reward(after) for after in outcomes])
        values = reward(points)
        changes: list[float] = []
        earned: list[float] = []
        actions = candidate_actions(low, high, control_candidates)
        kept: GridPolicy | None = None
        for _ in range(iterations):
            old, coefficients = values, grid.solve(values)
            q = np.stack([r + gamma * grid.expected(coefficients, s) for r, s in zip(rewards, outcomes)])
            best = q.argmax(axis=0)
            values = np.clip(q.max(axis=0), 0.0, bound)
            changes.append(float(np.abs(values - old).max() / values.max()))
            progress.advance(f"change {changes[-1]:.3f}")
            after = np.empty(points.shape)
            for k, s in enumerate(outcomes):
                after[best == k] = s[best == k]
            r = rewards[best, np.arange(len(points))]
            for _ in range(sweeps):
                values = np.clip(r + gamma * grid.expected(grid.solve(values), after), 0.0, bound)
            policy = GridPolicy(
                grid, values, grid.solve(values), step, reward, gamma, actions, changes, earned
            )
            if start is not None:
                earned.append(_earned(policy, np.asarray(start, dtype=float), horizon))
            if kept is None or start is None or earned[-1] >= max(earned):
                kept = policy
            if changes[-1] < tolerance:
                break
    assert kept is not None
    return kept


def _earned(policy: GridPolicy, s: Array, horizon: int) -> float:
    """Mean reward of a roll-out of the model."""
    total = 0.0
    for _ in range(horizon):
        s = policy.step(s[None], policy(s[None]))[0]
        total += float(policy.reward(s[None])[0])
    return total / horizon


def _next(step: Callable[[Array, Array], Array], points: Array, action: Array) -> Array:
    parts: list[Any] = [
        step(points[i : i + ROWS], np.broadcast_to(action, (len(points[i : i + ROWS]), len(action))))
        for i in range(0, len(points), ROWS)
    ]
    return np.concatenate(parts)
