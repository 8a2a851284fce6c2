"""Where the system goes: p(s' | s, a) = N(m, diag(v)) at many states and actions at once, with derivatives in a.

`LearnedNextStates` is a `Dynamics` (Kuss, 2006, eq. 7.32), `ExactNextStates` a simulated system: its variances are
zero, and everything else is the same. If control fails with the latter too, the learned model is not the cause.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cavity.control.dynamics.model import Dynamics
from cavity.control.problems import System
from cavity.numerics.arrays import Array


class NextStates(Protocol):
    """What the iterations need of dynamics."""

    state_size: int
    action_size: int

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and variance of s', each (B, D), for states (B, D) and actions (B, F)."""

    def slopes(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Derivatives of mean and variance in the actions, each (B, D, F)."""


class LearnedNextStates:
    """Predictions of a `Dynamics`.

    Parameters
    ----------
    dynamics : Dynamics
    mean_only : bool
        Leave out the predictive variances.
    """

    def __init__(self, dynamics: Dynamics, mean_only: bool = False) -> None:
        self.dynamics, self.mean_only = dynamics, mean_only
        self.state_size, self.action_size = dynamics.state_size, dynamics.action_size

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Mean and variance of s', each (B, D)."""
        if self.mean_only:
            mean = self.dynamics.step(states, actions)
            return mean, np.zeros(mean.shape)
        mean, variance = self.dynamics.predict(states, actions)
        return mean, np.maximum(variance, 0.0)  # of rounding

    def slopes(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Derivatives of mean and variance in the actions, each (B, D, F)."""
        x = self.dynamics.inputs(states, actions)
        D, F, angles = self.state_size, self.action_size, self.dynamics.angles
        # columns of x: states that are no angles, actions, sines and cosines
        own = slice(D - len(angles), D - len(angles) + F)
        mean = np.stack([p.mean_gradient(x)[:, own] for p in self.dynamics.posteriors], axis=1)
        if self.mean_only:
            return mean, np.zeros(mean.shape)
        variance = np.stack([p.variance_gradient(x)[:, own] for p in self.dynamics.posteriors], axis=1)
        return mean, variance


class ExactNextStates:
    """A simulated system: no variance."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.state_size, self.action_size = system.state_size, system.action_size

    def predict(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """s' and zeros, each (B, D)."""
        mean = self.system.step(states, actions)
        return mean, np.zeros(mean.shape)

    def slopes(self, states: Array, actions: Array) -> tuple[Array, Array]:
        """Derivatives of s' in the actions, and zeros, each (B, D, F)."""
        slope = self.system.jacobian(states, actions)[1]
        return slope, np.zeros(slope.shape)


def as_model(given: Dynamics | System | NextStates) -> NextStates:
    """A model from learned dynamics, a system, or a model."""
    if isinstance(given, Dynamics):
        return LearnedNextStates(given)
    if isinstance(given, System):
        return ExactNextStates(given)
    if not all(hasattr(given, name) for name in ("predict", "slopes", "state_size", "action_size")):
        raise ValueError(f"model must be a Dynamics, a System, or have predict and slopes; got {given!r}")
    return given
