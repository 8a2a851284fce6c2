"""The systems as Gymnasium environments, and problems read off Gymnasium environments.

Gymnasium is an optional dependency (`pip install cavity[control]`); this module needs it, nothing else does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from cavity.control.problems.cart_pole import CartPole
from cavity.control.problems.mountain_car import MountainCar
from cavity.control.problems.pictures import Pixels, picture
from cavity.control.problems.problem import Problem, System
from cavity.numerics.arrays import Array

IDS = {"cavity/MountainCar-v0": ("MountainCarEnv", 40), "cavity/CartPoleSwingUp-v0": ("CartPoleEnv", 60)}
"""Registered names, with the class and the number of steps of an episode (8 s and 12 s)."""


class SystemEnv(gymnasium.Env[Array, Array]):
    """A system as an environment: observations are its states, actions are limited to the bounds as by an actuator.

    The reward is that of the state an action leads to. `info["action"]` is the action that was applied. An episode
    starts at the system's start, with a Gaussian disturbance of `start_sd`; or exactly at
    `reset(options={"state": ...})`.

    Parameters
    ----------
    system : System
    render_mode : {None, "rgb_array"}
    start_sd : float
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, system: System, render_mode: str | None = None, start_sd: float = 0.01) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', got {render_mode!r}")
        self.system, self.render_mode, self.start_sd = system, render_mode, start_sd
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": max(1, round(1.0 / system.dt))}
        self.observation_space = spaces.Box(-np.inf, np.inf, (system.state_size,), dtype=np.float64)
        self.action_space = spaces.Box(system.action_low, system.action_high, dtype=np.float64)
        self.state: Array = system.start
        self._applied: Array | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start an episode; `options={"state": s}` starts it exactly at s."""
        super().reset(seed=seed)
        if options and "state" in options:
            self.state = self.system._one_state(options["state"], 'options["state"]')
        else:
            size = self.system.state_size
            self.state = self.system.start + self.start_sd * self.np_random.standard_normal(size)
        self._applied = None
        return self.state.copy(), {}

    def step(self, action: ArrayLike) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Hold an action for dt."""
        asked = np.asarray(action, dtype=float).reshape(self.system.action_size)
        if not np.isfinite(asked).all():
            raise ValueError(f"action must be finite, got {action!r}")
        applied = np.clip(asked, self.system.action_low, self.system.action_high)
        self.state = self.system.step(self.state, applied)
        self._applied = applied
        reward, failed = float(self.system.reward(self.state)), bool(self.system.failed(self.state))
        return self.state.copy(), reward, failed, False, {"action": applied}

    def render(self) -> Pixels | None:
        """A picture of the present state, with the last action as an arrow."""
        if self.render_mode is None:
            return None
        return picture(self.system, self.state, self._applied)


class MountainCarEnv(SystemEnv):
    """`cavity/MountainCar-v0`; keyword arguments other than those of `SystemEnv` go to `MountainCar`."""

    def __init__(self, render_mode: str | None = None, start_sd: float = 0.01, **settings: Any) -> None:
        super().__init__(MountainCar(**settings), render_mode, start_sd)


class CartPoleEnv(SystemEnv):
    """`cavity/CartPoleSwingUp-v0`; keyword arguments other than those of `SystemEnv` go to `CartPole`."""

    def __init__(self, render_mode: str | None = None, start_sd: float = 0.01, **settings: Any) -> None:
        super().__init__(CartPole(**settings), render_mode, start_sd)


def register() -> None:
    """Make the environments known to `gymnasium.make`."""
    for name, (entry, steps) in IDS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{__name__}:{entry}", max_episode_steps=steps)


def problem_of(
    env: Any,
    *,
    region: ArrayLike | None = None,
    action_bounds: ArrayLike | None = None,
    angles: Sequence[int] = (),
    start: ArrayLike | None = None,
    goal: ArrayLike | None = None,
    dt: float = 1.0,
) -> Problem:
    """Describe any Gymnasium environment with boxes for spaces as a problem whose states are its observations.

    Parameters
    ----------
    env : gymnasium.Env
    region : array (D, 2), optional
        By default the bounds of the observations; needed if these are infinite.
    action_bounds : array (F, 2), optional
        By default those of the action space; needed if these are infinite.
    angles : sequence of int
        Columns of the observation that are angles.
    start, goal : array (D,), optional
        By default the middle of the region.
    dt : float
        Seconds of one step.
    """
    inner = getattr(env.unwrapped, "system", None)
    if isinstance(inner, System):
        return inner
    seen, acts = env.observation_space, env.action_space
    for name, space in (("observation_space", seen), ("action_space", acts)):
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"{name} must be a Box with one axis, got {space}")
    where = _given_or_finite(region, seen, "region", "observation_space")
    bounds = _given_or_finite(action_bounds, acts, "action_bounds", "action_space")
    middle = where.mean(axis=1)
    return Problem(
        env.spec.id if env.spec is not None else type(env.unwrapped).__name__,
        [f"s{i}" for i in range(seen.shape[0])],
        [f"a{i}" for i in range(acts.shape[0])],
        where,
        bounds,
        angles=angles,
        start=middle if start is None else start,
        goal=middle if goal is None else goal,
        dt=dt,
    )


def _given_or_finite(given: ArrayLike | None, space: Any, name: str, what: str) -> Array:
    if given is not None:
        return np.asarray(given, dtype=float)
    ends = np.column_stack([space.low, space.high]).astype(float)
    if not np.isfinite(ends).all():
        raise ValueError(f"{what} is unbounded, {space}: give {name}, an array of rows (low, high)")
    return ends
