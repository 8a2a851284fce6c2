"""The mountain car of Moore and Atkeson (1995), with the centripetal term (Kuss, 2006, appendix C.1).

A point mass on a frictionless track H(x), driven by a force F along the track:

    H(x) = x^2 + x for x < 0,   x / sqrt(1 + 5 x^2) for x >= 0                                             (C.1)
    x'' = F / (M sqrt(1 + H'^2)) - g H' / (1 + H'^2) - x'^2 H' H'' / (1 + H'^2)                             (C.3)

H and H' are continuous at x = 0, H'' jumps from 2 to 0. A Runge-Kutta step across the jump would lose its order;
so a step is taken with the formula of the side on which it begins, and one that crosses is split at the crossing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.problems.problem import System, runge_kutta
from cavity.numerics.arrays import Array

NEWTON_STEPS = 4
"""Iterations for the instant of the crossing: quadratic convergence from an error of at most one substep."""


class MountainCar(System):
    """Bring a car up a hill that is too steep for its engine, and hold it there.

    States are position x and velocity v, the action is a force in [-4, 4]; the goal is to stand at x = 0.6. From
    (-0.5, 0) the car first has to back up to gain momentum.

    Parameters
    ----------
    dt : float
        Seconds for which a force is held: 0.2 for value functions and 0.3 for planning by Kuss (2006).
    mass, gravity : float
    reward_sd : float
        Width of the reward around the goal, a Gaussian bump of height 1.
    substeps : int, optional
        Runge-Kutta steps in `dt`; by default one each 0.01 s.

    Examples
    --------
    >>> from cavity.control.problems import MountainCar
    >>> car = MountainCar()
    >>> car.step([-0.5, 0.0], [4.0]).round(4)
    array([-0.4254,  0.6924])
    """

    def __init__(
        self,
        dt: float = 0.2,
        *,
        mass: float = 1.0,
        gravity: float = 9.81,
        reward_sd: float = 0.05,
        substeps: int | None = None,
    ) -> None:
        super().__init__(
            "mountain car",
            ["position", "velocity"],
            ["force"],
            [[-1.0, 1.0], [-2.0, 2.0]],
            [[-4.0, 4.0]],
            start=[-0.5, 0.0],
            goal=[0.6, 0.0],
            dt=dt,
        )
        self.mass, self.gravity, self.reward_sd = float(mass), float(gravity), float(reward_sd)
        self.substeps = max(1, round(self.dt / 0.01)) if substeps is None else int(substeps)

    # --- the track ------------------------------------------------------------------------------------------

    @staticmethod
    def height(x: ArrayLike) -> Array:
        """H(x)."""
        x = np.asarray(x, dtype=float)
        return np.where(x < 0, x**2 + x, x / np.sqrt(1.0 + 5.0 * x**2))

    @staticmethod
    def slope(x: ArrayLike, left: ArrayLike | None = None) -> Array:
        """H'(x); by the formula of the left part where `left` is true, by default where x < 0."""
        x = np.asarray(x, dtype=float)
        left = x < 0 if left is None else np.asarray(left)
        return np.where(left, 2.0 * x + 1.0, (1.0 + 5.0 * x**2) ** -1.5)

    @staticmethod
    def curvature(x: ArrayLike, left: ArrayLike | None = None) -> Array:
        """H''(x), with a jump at x = 0."""
        x = np.asarray(x, dtype=float)
        left = x < 0 if left is None else np.asarray(left)
        return np.where(left, 2.0, -15.0 * x * (1.0 + 5.0 * x**2) ** -2.5)

    # --- dynamics -------------------------------------------------------------------------------------------

    def derivative(self, states: Array, actions: Array, left: NDArray[np.bool_] | None = None) -> Array:
        """(v, x'') of states (..., 2) under forces (..., 1); `left` as in `slope`."""
        x, v = states[..., 0], states[..., 1]
        H1, H2 = self.slope(x, left), self.curvature(x, left)
        steep = 1.0 + H1**2
        acceleration = (
            actions[..., 0] / (self.mass * np.sqrt(steep))
            - self.gravity * H1 / steep
            - v**2 * H1 * H2 / steep
        )
        return np.stack([v, acceleration], axis=-1)

    def _substep(self, s: Array, a: Array, h: float) -> Array:
        left = s[..., 0] < 0
        end = runge_kutta(lambda z: self.derivative(z, a, left), s, h)
        crossed = (end[..., 0] < 0) != left
        if not crossed.any():
            return end
        end = np.array(end)
        end[crossed] = self._cross(s[crossed], a[crossed], left[crossed], h)
        return end

    def _cross(self, s: Array, a: Array, left: NDArray[np.bool_], h: float) -> Array:
        """A step of states that pass x = 0 within it: up to the crossing with one formula, then with the other."""
        until = np.full((len(s), 1), 0.5 * h)
        for _ in range(NEWTON_STEPS):
            z = runge_kutta(lambda w: self.derivative(w, a, left), s, until)
            # dx/dt = v; a car that turns around just there (v = 0) may be split anywhere
            speed = np.where(z[:, 1:] == 0, np.inf, z[:, 1:])
            until = np.clip(until - z[:, :1] / speed, 0.0, h)
        there = runge_kutta(lambda w: self.derivative(w, a, left), s, until)
        return runge_kutta(lambda w: self.derivative(w, a, ~left), there, h - until)

    # --- the task -------------------------------------------------------------------------------------------

    def reward(self, states: ArrayLike) -> Array:
        """exp(-|s - goal|^2 / (2 sd^2)), and zero outside the region."""
        s = np.asarray(states, dtype=float)
        inside = ((s >= self.state_low) & (s <= self.state_high)).all(axis=-1)
        distance = ((s - self.goal) ** 2).sum(axis=-1)
        return np.where(inside, np.exp(-0.5 * distance / self.reward_sd**2), 0.0)

    def failed(self, states: ArrayLike) -> NDArray[np.bool_]:
        """Whether the car has left the track, |x| > 1."""
        return np.asarray(np.abs(np.asarray(states, dtype=float)[..., 0]) > 1.0)

    def holds_goal(self, states: ArrayLike, start: float = 4.0, end: float = 8.0) -> bool:
        """Success of a trajectory (T + 1, 2): on the track throughout, |x - 0.6| < 0.1 from `start` to `end` seconds.

        A trajectory that is shorter than `end` is no success.
        """
        s = np.asarray(states, dtype=float)
        window = self._steps_between(start, end)
        holding = np.abs(s[window, 0] - self.goal[0]) < 0.1
        return bool(len(s) >= window.stop and holding.all() and not self.failed(s[: window.stop]).any())
