"""`Problem`: what a controller has to know of a system; `System`: one that can be simulated.

Notation: state s (D numbers), action a (F numbers) that is held for the time dt, s' the state after it. Arrays of
states have shape (..., D) and of actions (..., F); every function here takes one state or any batch of them.

A policy is any callable that maps states (..., D) to actions (..., F).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array

Policy = Callable[[Array], Any]

DERIVATIVE_STEP = 1e-5
"""Step of central differences, relative to the width of the region: the square root of the error of a step."""

ACCURACY = 1e-10
"""Relative and absolute tolerance of the accurate integration."""


class Problem:
    """State and action variables of a system, where they live, and what is wanted.

    Parameters
    ----------
    name : str
    state_names, action_names : sequence of str
    region : array (D, 2)
        Lower and upper end of each state variable: where training states are drawn and pictures are drawn. It is
        not a wall; systems may leave it.
    action_bounds : array (F, 2)
        Lower and upper bound of each action; finite.
    angles : sequence of int
        Columns of the state that are angles in radians.
    start, goal : array (D,)
        Where an episode starts, and where the system should be brought and held.
    dt : float
        Seconds for which an action is held.

    Examples
    --------
    >>> from cavity.control.problems import Problem
    >>> tank = Problem("tank", ["level"], ["inflow"], [[0, 2]], [[0, 1]], start=[0.0], goal=[1.5], dt=0.5)
    >>> tank.state_size, tank.action_high
    (1, array([1.]))
    """

    def __init__(
        self,
        name: str,
        state_names: Sequence[str],
        action_names: Sequence[str],
        region: ArrayLike,
        action_bounds: ArrayLike,
        *,
        angles: Sequence[int] = (),
        start: ArrayLike,
        goal: ArrayLike,
        dt: float,
    ) -> None:
        self.name = name
        self.state_names, self.action_names = tuple(state_names), tuple(action_names)
        self.state_low, self.state_high = checked_ends(region, "region", len(self.state_names))
        names = self.action_names
        self.action_low, self.action_high = checked_ends(action_bounds, "action_bounds", len(names))
        self.angles = tuple(int(column) for column in angles)
        if not all(0 <= column < self.state_size for column in self.angles):
            raise ValueError(f"angles must be columns of the {self.state_size} states, got {tuple(angles)}")
        self.start, self.goal = self._one_state(start, "start"), self._one_state(goal, "goal")
        if not (np.isfinite(dt) and dt > 0):
            raise ValueError(f"dt must be a positive number of seconds, got {dt!r}")
        self.dt = float(dt)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, dt={self.dt:g})"

    @property
    def action_bounds(self) -> Array:
        """Rows (low, high) of the actions, shape (F, 2)."""
        return np.column_stack([self.action_low, self.action_high])

    @property
    def state_size(self) -> int:
        """Number D of state variables."""
        return len(self.state_names)

    @property
    def action_size(self) -> int:
        """Number F of actions."""
        return len(self.action_names)

    def _one_state(self, given: ArrayLike, name: str) -> Array:
        state: Array = np.array(given, dtype=float)
        if state.shape != (self.state_size,) or not np.isfinite(state).all():
            raise ValueError(f"{name} must be {self.state_size} finite numbers, got {given!r}")
        return state

    def state_of(self, observation: Array) -> Array:
        """State from what an environment shows: the same by default; angles from sine and cosine elsewhere."""
        return np.asarray(observation, dtype=float)

    def reward(self, states: ArrayLike) -> Array:
        """Reward of states (..., D), between 0 and 1, if the problem has one of its own."""
        raise NotImplementedError(f"the problem {self.name!r} has no reward of its own")

    def draw_states(self, size: int, rng: np.random.Generator | int | None = None) -> Array:
        """States uniform in the region, shape (size, D)."""
        rng = np.random.default_rng(rng)
        return rng.uniform(self.state_low, self.state_high, (size, self.state_size))

    def draw_actions(self, size: int, rng: np.random.Generator | int | None = None) -> Array:
        """Actions uniform within their bounds, shape (size, F)."""
        rng = np.random.default_rng(rng)
        return rng.uniform(self.action_low, self.action_high, (size, self.action_size))


@dataclass(frozen=True)
class Trajectory:
    """States of a controlled system over time.

    Attributes
    ----------
    states : array (T + 1, ..., D)
    actions : array (T, ..., F)
        `actions[t]` leads from `states[t]` to `states[t + 1]`.
    dt : float

    Examples
    --------
    >>> from cavity.control import Pendulum
    >>> path = Pendulum().simulate([[1.0]] * 5)
    >>> path.states.shape, path.actions.shape
    ((6, 2), (5, 1))
    """

    states: Array
    actions: Array
    dt: float

    @property
    def times(self) -> Array:
        """Seconds at each state, shape (T + 1,)."""
        return self.dt * np.arange(len(self.states), dtype=np.float64)


class System(Problem, ABC):
    """A problem with known dynamics ds/dt = `derivative(s, a)`.

    `step` is a fixed number of steps of the classical Runge-Kutta method for any batch of states at once, and
    `integrate` is the accurate solution (`scipy.integrate.solve_ivp`, tolerance 1e-10) to check it against.

    Examples
    --------
    >>> from cavity.control import Pendulum, System
    >>> pendulum = Pendulum()
    >>> isinstance(pendulum, System), pendulum.simulate([[1.0]] * 5).states.shape
    (True, (6, 2))
    """

    substeps: int
    """Runge-Kutta steps in `dt`."""

    @abstractmethod
    def derivative(self, states: Array, actions: Array) -> Array:
        """ds/dt, shape (..., D), for states (..., D) and actions (..., F)."""

    def failed(self, states: ArrayLike) -> NDArray[np.bool_]:
        """Whether states (..., D) end an episode for good; never by default."""
        return np.zeros(np.asarray(states).shape[:-1], dtype=bool)

    def holds_goal(self, states: ArrayLike) -> bool:
        """Whether a trajectory (T + 1, D) counts as a success, by the problem's own criterion."""
        raise NotImplementedError(f"the problem {self.name!r} has no criterion of success of its own")

    def _steps_between(self, start: float, end: float) -> slice:
        """The steps from `start` to `end` seconds, both included."""
        rounding = 1e-9  # of a multiple of dt
        return slice(int(np.ceil(start / self.dt - rounding)), int(np.floor(end / self.dt + rounding)) + 1)

    def _batch(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, Array]:
        """States and actions with the same leading shape; refuses other numbers of columns."""
        s: Array = np.asarray(states, dtype=float)
        a: Array = np.asarray(actions, dtype=float)
        if s.ndim == 0 or s.shape[-1] != self.state_size:
            raise ValueError(f"states must have shape (..., {self.state_size}), got {s.shape}")
        if a.ndim == 0 or a.shape[-1] != self.action_size:
            raise ValueError(f"actions must have shape (..., {self.action_size}), got {a.shape}")
        lead = np.broadcast_shapes(s.shape[:-1], a.shape[:-1])
        return np.broadcast_to(s, lead + s.shape[-1:]), np.broadcast_to(a, lead + a.shape[-1:])

    def step(self, states: ArrayLike, actions: ArrayLike) -> Array:
        """States after the actions were held for `dt`, by `substeps` Runge-Kutta steps, shape (..., D)."""
        s, a = self._batch(states, actions)
        h = self.dt / self.substeps
        for _ in range(self.substeps):
            s = self._substep(s, a, h)
        return s

    def _substep(self, s: Array, a: Array, h: float) -> Array:
        return runge_kutta(lambda z: self.derivative(z, a), s, h)

    def path(self, state: ArrayLike, action: ArrayLike, fractions: ArrayLike) -> Array:
        """States at fractions (m,) of `dt` under a held action, shape (m, D), accurately."""
        return self.integrate(state, action, self.dt * np.asarray(fractions, dtype=float))

    def integrate(self, state: ArrayLike, action: ArrayLike, times: ArrayLike | None = None) -> Array:
        """Accurate solution from one state under a constant action.

        Parameters
        ----------
        state : array (D,)
        action : array (F,)
        times : array (m,), optional
            Seconds, increasing; by default only `dt`, and the result is then one state.

        Returns
        -------
        array (m, D) or (D,)
        """
        from scipy.integrate import solve_ivp

        s, a = self._batch(state, action)
        at: Array = np.atleast_1d(np.asarray(self.dt if times is None else times, dtype=float))
        solution = solve_ivp(
            lambda _, z: self.derivative(z, a),
            (0.0, float(at[-1])),
            s,
            method="DOP853",
            t_eval=at,
            rtol=ACCURACY,
            atol=ACCURACY,
        )
        if not solution.success:
            raise RuntimeError(f"integration from {s} with action {a} failed: {solution.message}")
        out: Array = solution.y.T
        return out[0] if times is None else out

    def jacobian(self, states: ArrayLike, actions: ArrayLike) -> tuple[Array, Array]:
        """Derivatives of `step` in state and action, shapes (..., D, D) and (..., D, F), by central differences."""
        s, a = self._batch(states, actions)
        z = np.concatenate([s, a], axis=-1)
        width = np.concatenate([self.state_high - self.state_low, self.action_high - self.action_low])
        shifts = np.diag(DERIVATIVE_STEP * width)
        moved = np.stack([z[..., None, :] + shifts, z[..., None, :] - shifts])
        after = self.step(moved[..., : self.state_size], moved[..., self.state_size :])
        slopes = np.swapaxes((after[0] - after[1]) / (2.0 * np.diagonal(shifts)[:, None]), -1, -2)
        return slopes[..., : self.state_size], slopes[..., self.state_size :]

    def simulate(
        self,
        control: Policy | ArrayLike,
        steps: int | None = None,
        start: ArrayLike | None = None,
        disturbance: Callable[[int, Array], Array] | None = None,
    ) -> Trajectory:
        """The system under a policy, or a given sequence of actions.

        Parameters
        ----------
        control : callable or array (T, F) or (T, n, F)
            A policy maps states to actions; its actions are limited to the bounds, as by an actuator.
        steps : int, optional
            Number of actions; by default that of the sequence.
        start : array (D,) or (n, D), optional
            One or several states to start from; the problem's own start by default.
        disturbance : callable, optional
            `disturbance(t, states)` gives the states to go on from after step t, for instance with noise.
        """
        s: Array = self.start if start is None else np.asarray(start, dtype=float)
        if callable(control):
            if steps is None:
                raise ValueError("steps must be given with a policy: the number of actions to take")
            given = None
        else:
            given = np.asarray(control, dtype=float)
            steps = len(given) if steps is None else min(steps, len(given))
        states, actions = [s], []
        for t in range(steps):
            wanted = control(s) if given is None else given[t]  # type: ignore[operator]
            a = np.clip(np.asarray(wanted, dtype=float), self.action_low, self.action_high)
            if np.isnan(a).any():
                raise ValueError(
                    f"actions must be numbers, but at step {t} there is {wanted!r} for the state {s}"
                )
            s, a = self.step(s, a), np.broadcast_to(a, s.shape[:-1] + (self.action_size,))
            if disturbance is not None:
                s = disturbance(t, s)
            states.append(s)
            actions.append(a)
        shape = (0, *s.shape[:-1], self.action_size)
        return Trajectory(np.stack(states), np.stack(actions) if actions else np.empty(shape), self.dt)


def runge_kutta(slope: Callable[[Array], Array], s: Array, h: float | Array) -> Array:
    """One step of the classical Runge-Kutta method of fourth order; `h` broadcasts against `s`."""
    k1 = slope(s)
    k2 = slope(s + 0.5 * h * k1)
    k3 = slope(s + 0.5 * h * k2)
    k4 = slope(s + h * k3)
    return s + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def checked_ends(given: ArrayLike, name: str, rows: int) -> tuple[Array, Array]:
    """Lower and upper ends (rows,) from finite rows (low, high)."""
    ends: Array = np.array(given, dtype=float)
    if ends.shape != (rows, 2) or not np.isfinite(ends).all() or not (ends[:, 0] < ends[:, 1]).all():
        raise ValueError(
            f"{name} must be finite rows (low, high), low < high, one for each of {rows} variables, got {ends.tolist()}"
        )
    return ends[:, 0].copy(), ends[:, 1].copy()
