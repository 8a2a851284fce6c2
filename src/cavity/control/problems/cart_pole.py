"""Swing-up of a pole on a cart (Kuss, 2006, appendix C.2).

The angle theta is measured from hanging down, counter-clockwise; the mass of the pole is at distance l from the
joint and its tip at 2 l, at (x + 2 l sin theta, -2 l cos theta). The equations of motion (C.4), with J = I + m l^2:

    (M + m) x'' + m l cos(theta) theta'' = F - b x' + m l theta'^2 sin(theta)
    m l cos(theta) x'' + J theta''       = -m g l sin(theta)

which is a linear system for x'' and theta''. Solved, it is (C.5) with the factor (M + m) on the gravity term that the
printed (C.5b) lacks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.control.problems.problem import System
from cavity.numerics.arrays import Array


class CartPole(System):
    """Swing up a hanging pole by moving its cart, and balance it above x = 0.

    States are x, x', theta (from hanging down; upright is pi) and theta'; the action is a horizontal force on the
    cart.

    Parameters
    ----------
    dt : float
        Seconds for which a force is held.
    force : float
        Bound of the force; 4 in the planning experiment of Kuss (2006), 8 for his value functions.
    cart_mass, pole_mass, length, inertia, friction, gravity : float
        M, m, l, I, b, g.
    reward_width : float
        The reward is exp(-d^2 / (2 width^2)) for a distance d of the tip from its place above x = 0.
    substeps : int, optional
        Runge-Kutta steps in `dt`; by default one each 0.01 s.

    Examples
    --------
    >>> from cavity.control.problems import CartPole
    >>> pole = CartPole()
    >>> pole.step(pole.start, [4.0]).round(4)
    array([ 0.0996,  0.978 , -0.1356, -1.2645])
    """

    def __init__(
        self,
        dt: float = 0.2,
        *,
        force: float = 4.0,
        cart_mass: float = 0.5,
        pole_mass: float = 0.5,
        length: float = 0.3,
        inertia: float = 0.06,
        friction: float = 0.1,
        gravity: float = 9.81,
        reward_width: float = 0.25,
        substeps: int | None = None,
    ) -> None:
        super().__init__(
            "cart-pole",
            ["position", "velocity", "angle", "angular velocity"],
            ["force"],
            [[-1.0, 1.0], [-3.0, 3.0], [0.0, 2.0 * np.pi], [-8.0, 8.0]],
            [[-force, force]],
            angles=[2],
            start=[0.0, 0.0, 0.0, 0.0],
            goal=[0.0, 0.0, np.pi, 0.0],
            dt=dt,
        )
        self.cart_mass, self.pole_mass = float(cart_mass), float(pole_mass)
        self.length, self.inertia = float(length), float(inertia)
        self.friction, self.gravity = float(friction), float(gravity)
        self.reward_width = float(reward_width)
        self.substeps = max(1, round(self.dt / 0.01)) if substeps is None else int(substeps)

    def derivative(self, states: Array, actions: Array) -> Array:
        """(x', x'', theta', theta'') of states (..., 4) under forces (..., 1)."""
        v, theta, omega = states[..., 1], states[..., 2], states[..., 3]
        sin, cos = np.sin(theta), np.cos(theta)
        total = self.cart_mass + self.pole_mass
        J = self.inertia + self.pole_mass * self.length**2
        ml = self.pole_mass * self.length
        push = actions[..., 0] - self.friction * v + ml * omega**2 * sin
        fall = -ml * self.gravity * sin
        determinant = total * J - (ml * cos) ** 2
        return np.stack(
            [
                v,
                (J * push - ml * cos * fall) / determinant,
                omega,
                (total * fall - ml * cos * push) / determinant,
            ],
            axis=-1,
        )

    # --- the task -------------------------------------------------------------------------------------------

    def tip_distance(self, states: ArrayLike) -> Array:
        """Distance of the tip from its place above x = 0, the root of (7.55), shape (...)."""
        s = np.asarray(states, dtype=float)
        across = s[..., 0] + 2.0 * self.length * np.sin(s[..., 2])
        below = 2.0 * self.length * (1.0 + np.cos(s[..., 2]))
        return np.asarray(np.hypot(across, below))

    def reward(self, states: ArrayLike) -> Array:
        """exp(-d^2 / (2 width^2)) for the distance d of the tip from its goal."""
        return np.asarray(np.exp(-0.5 * (self.tip_distance(states) / self.reward_width) ** 2))

    def upright(self, states: ArrayLike) -> NDArray[np.bool_]:
        """Whether |theta - pi| < 0.5 (modulo 2 pi) and |x| < 1, shape (...)."""
        s = np.asarray(states, dtype=float)
        return np.asarray((np.abs(s[..., 2] % (2.0 * np.pi) - np.pi) < 0.5) & (np.abs(s[..., 0]) < 1.0))

    def holds_goal(self, states: ArrayLike, start: float = 5.0, end: float = 12.0) -> bool:
        """Success of a trajectory (T + 1, 4): upright at every step from `start` to `end` seconds.

        A trajectory that is shorter than `end` is no success.
        """
        up = self.upright(states)
        window = self._steps_between(start, end)
        return bool(len(up) >= window.stop and up[window].all())

    def up_since(self, states: ArrayLike) -> float:
        """Seconds from which the pole stays upright until the end of a trajectory; infinite if it does not."""
        down = np.flatnonzero(~self.upright(states))
        since = 0 if len(down) == 0 else int(down[-1]) + 1
        return since * self.dt if since < len(np.asarray(states)) else float("inf")
