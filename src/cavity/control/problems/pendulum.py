"""The pendulum of Gymnasium's `Pendulum-v1`, as a system with the state (angle, angular velocity).

Gymnasium shows (cos, sin, angular velocity), with the angle measured from upright. Its dynamics are a map, not a
differential equation: semi-implicit Euler steps of 0.05 s ("frames"), torque within 2 and speed clipped at 8:

    w' = clip(w + (3 g / (2 l) sin(theta) + 3 / (m l^2) u) 0.05),   theta' = theta + 0.05 w'
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.control.problems.problem import System
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer

FRAME = 0.05
"""Seconds of one step of `Pendulum-v1`."""

TOP_SPEED = 8.0
"""Speed at which `Pendulum-v1` clips."""


class Pendulum(System):
    """Swing up a pendulum with a torque too weak to lift it, and balance it: `Pendulum-v1` without Gymnasium.

    Parameters
    ----------
    frames : int
        Steps of 0.05 s for which a torque is held.
    gravity : float
        10, as in Gymnasium.
    reward_width : float
        The reward is exp(-d^2 / (2 width^2)) for a distance d of the tip from upright. (Gymnasium's own is a
        quadratic cost.)

    Examples
    --------
    >>> from cavity.control.problems import Pendulum
    >>> pendulum = Pendulum()
    >>> pendulum.step([3.0, 0.0], [2.0]).round(4)
    array([3.0601, 0.7966])
    """

    mass = length = 1.0

    def __init__(self, frames: int = 2, *, gravity: float = 10.0, reward_width: float = 0.5) -> None:
        frames = require_integer(frames, "frames", 1)
        super().__init__(
            "pendulum",
            ["angle", "angular velocity"],
            ["torque"],
            [[-np.pi, np.pi], [-TOP_SPEED, TOP_SPEED]],
            [[-2.0, 2.0]],
            angles=[0],
            start=[np.pi, 0.0],
            goal=[0.0, 0.0],
            dt=FRAME * frames,
        )
        self.frames, self.gravity, self.reward_width = frames, float(gravity), float(reward_width)
        self.substeps = self.frames

    def state_of(self, observation: Array) -> Array:
        """(angle, angular velocity) from Gymnasium's (cos, sin, angular velocity); the angle in [-pi, pi]."""
        seen = np.asarray(observation, dtype=float)
        return np.stack([np.arctan2(seen[..., 1], seen[..., 0]), seen[..., 2]], axis=-1)

    def derivative(self, states: Array, actions: Array) -> Array:
        """(w, w') of the differential equation behind it, without the limit of the speed."""
        theta, w = states[..., 0], states[..., 1]
        gravity = 3.0 * self.gravity / (2.0 * self.length) * np.sin(theta)
        return np.stack([w, gravity + 3.0 / (self.mass * self.length**2) * actions[..., 0]], axis=-1)

    def _substep(self, s: Array, a: Array, h: float) -> Array:
        acceleration = self.derivative(s, a)[..., 1]
        w = np.clip(s[..., 1] + h * acceleration, -TOP_SPEED, TOP_SPEED)
        return np.stack([s[..., 0] + h * w, w], axis=-1)

    def path(self, state: ArrayLike, action: ArrayLike, fractions: ArrayLike) -> Array:
        """States at fractions (m,) of `dt`: linear between the frames of the map, as a film would show them."""
        s, a = self._batch(state, action)
        frames = [s]
        for _ in range(self.frames):
            frames.append(self._substep(frames[-1], a, FRAME))
        at = np.asarray(fractions, dtype=float) * self.frames
        known = np.arange(self.frames + 1)
        return np.column_stack([np.interp(at, known, column) for column in np.transpose(frames)])

    # --- the task -------------------------------------------------------------------------------------------

    def tip_distance(self, states: ArrayLike) -> Array:
        """Distance of the tip from its place above the joint, shape (...)."""
        s = np.asarray(states, dtype=float)
        return 2.0 * self.length * np.abs(np.sin(0.5 * s[..., 0]))

    def reward(self, states: ArrayLike) -> Array:
        """exp(-d^2 / (2 width^2)) for the distance d of the tip from upright."""
        return np.exp(-0.5 * (self.tip_distance(states) / self.reward_width) ** 2)

    def off_upright(self, states: ArrayLike) -> Array:
        """Angle from upright, in [0, pi], shape (...)."""
        s = np.asarray(states, dtype=float)
        return np.abs((s[..., 0] + np.pi) % (2.0 * np.pi) - np.pi)

    def holds_goal(self, states: ArrayLike, start: float = 3.0, end: float = 4.0) -> bool:
        """Success of a trajectory (T + 1, 2): within 0.2 rad of upright at every step from `start` to `end` seconds.

        A trajectory that is shorter than `end` is no success.
        """
        off = self.off_upright(states)
        window = self._steps_between(start, end)
        return bool(len(off) >= window.stop and (off[window] < 0.2).all())
