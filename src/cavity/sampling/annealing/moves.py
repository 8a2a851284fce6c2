"""Markov transitions that leave p_beta of a `Bridge` invariant, for all runs at once.

With center c and square roots d of the precisions of the Gaussian that stands for p_beta, x = d (z - c), and

    -ln p_beta = z'z/2 - beta ln ratio(z) = x'x/2 + U(x),

with U the part of it that is not in the Gaussian.

- Hamiltonian moves: kicks by -dU/dx between exact rotations of (x, momentum) under the Gaussian (split Hamiltonian
  Monte Carlo; Shahbaba et al. 2014). If p_beta is that Gaussian, U is constant: a quarter turn is an independent
  draw, whatever the condition of the covariance matrix. Only U limits the step.
- Elliptical slice moves (Murray, Adams and MacKay 2010) on the same ellipses; they need no gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.sampling.annealing.path import Bridge

QUARTER_TURN = 0.5 * np.pi
"""Longest step, and angle of a whole trajectory if the steps allowed suffice for it."""

STEP_JITTER = 0.2
"""Steps vary from run to run by up to this share, so that no run stays in resonance."""

SHRINKAGES = 80
"""Shrinkings of the bracket after which a run stays where it is; the slice is then a point."""


@dataclass
class RunState:
    """The state of R runs: positions Z, latent values F, both (R, n), and ln ratio (R,).

    `pulled` is the gradient of ln ratio in the position, kept from the last trajectory.
    """

    Z: Array
    F: Array
    log_ratio: Array
    pulled: Array | None = None

    @classmethod
    def at(cls, bridge: Bridge, Z: Array) -> RunState:
        """The state at given positions."""
        F = bridge.latent(Z)
        return cls(Z, F, bridge.log_ratio(F))

    def take(self, new: RunState, accepted: NDArray[np.bool_]) -> RunState:
        """The new state for some of the runs."""
        column = accepted[:, None]
        pulled = None
        if self.pulled is not None and new.pulled is not None:
            pulled = np.where(column, new.pulled, self.pulled)
        return RunState(
            np.where(column, new.Z, self.Z),
            np.where(column, new.F, self.F),
            np.where(accepted, new.log_ratio, self.log_ratio),
            pulled,
        )


def minus_log_density(Z: Array, log_ratio: Array, beta: float) -> Array:
    """z'z/2 - beta ln ratio, (R,); inf if it is not defined."""
    with np.errstate(invalid="ignore"):
        value = 0.5 * np.einsum("ij,ij->i", Z, Z) - beta * log_ratio
    return np.where(np.isnan(value), np.inf, value)


def hamiltonian_move(
    bridge: Bridge, state: RunState, beta: float, step: float, leapfrogs: int, rng: np.random.Generator
) -> tuple[RunState, Array]:
    """One trajectory of each run, accepted or not: the new state, and acceptance probabilities (R,).

    Parameters
    ----------
    step : float
        Angle of each rotation; at most a quarter turn is sensible.
    leapfrogs : int
        Most rotations of a trajectory; it ends at a quarter turn.
    """
    center, root = bridge.metric(beta)
    runs, n = state.Z.shape
    angle = step * (1.0 + STEP_JITTER * (2.0 * rng.random((runs, 1)) - 1.0))
    cos, sin = np.cos(angle), np.sin(angle)
    count = max(1, min(leapfrogs, round(QUARTER_TURN / step)))
    if state.pulled is None:
        state.pulled = bridge.pulled_slope(state.F)

    def kick(x: Array, Z: Array, pulled: Array) -> Array:
        """-dU/dx."""
        return x - (Z - beta * pulled) / root

    momentum = rng.standard_normal((runs, n))
    before = minus_log_density(state.Z, state.log_ratio, beta) + 0.5 * np.einsum(
        "ij,ij->i", momentum, momentum
    )
    with np.errstate(all="ignore"):
        x = root * (state.Z - center)
        momentum = momentum + 0.5 * angle * kick(x, state.Z, state.pulled)
        for k in range(count):
            x, momentum = cos * x + sin * momentum, cos * momentum - sin * x
            Z = center + x / root
            F = bridge.latent(Z)
            pulled = bridge.pulled_slope(F)
            momentum = momentum + (angle if k < count - 1 else 0.5 * angle) * kick(x, Z, pulled)
        new = RunState(Z, F, bridge.log_ratio(F), pulled)
        after = minus_log_density(Z, new.log_ratio, beta) + 0.5 * np.einsum("ij,ij->i", momentum, momentum)
        probability = np.exp(np.minimum(0.0, before - after))
    usable = np.isfinite(after) & np.isfinite(pulled).all(axis=1)
    probability = np.where(usable & ~np.isnan(probability), probability, 0.0)
    return state.take(new, rng.random(runs) < probability), probability


def elliptical_move(
    bridge: Bridge, state: RunState, beta: float, rng: np.random.Generator
) -> tuple[RunState, Array]:
    """One elliptical slice update of each run: the new state, and 1 for runs that moved, (R,)."""
    center, root = bridge.metric(beta)
    runs, n = state.Z.shape
    x, other = root * (state.Z - center), rng.standard_normal((runs, n))

    def remainder(x: Array, Z: Array, log_ratio: Array) -> Array:
        """-U(x)."""
        return np.asarray(0.5 * np.einsum("ij,ij->i", x, x) - minus_log_density(Z, log_ratio, beta))

    level = remainder(x, state.Z, state.log_ratio) - rng.standard_exponential(runs)
    angle: Array = np.asarray(2.0 * np.pi * rng.random(runs))
    low, high = angle - 2.0 * np.pi, angle.copy()
    Z, F, log_ratio = state.Z.copy(), state.F.copy(), state.log_ratio.copy()
    active = np.arange(runs)
    for _ in range(SHRINKAGES):
        turn = angle[active, None]
        proposed_x = np.cos(turn) * x[active] + np.sin(turn) * other[active]
        proposed = center + proposed_x / root
        proposed_F = bridge.latent(proposed)
        ratio = bridge.log_ratio(proposed_F)
        found = remainder(proposed_x, proposed, ratio) > level[active]
        hit = active[found]
        Z[hit], F[hit], log_ratio[hit] = proposed[found], proposed_F[found], ratio[found]
        active = active[~found]
        if active.size == 0:
            break
        left = angle[active] < 0
        low[active] = np.where(left, angle[active], low[active])
        high[active] = np.where(left, high[active], angle[active])
        angle[active] = low[active] + (high[active] - low[active]) * rng.random(active.size)
    moved = np.ones(runs)
    moved[active] = 0.0
    return RunState(Z, F, log_ratio), moved


@dataclass(frozen=True)
class Moves:
    """Markov moves at each temperature: their kind, and their step.

    Attributes
    ----------
    kind : "hmc" or "elliptical"
    leapfrogs : int
        Most leapfrog steps of a trajectory.
    levels, steps : arrays (k,)
        Steps at given temperatures, interpolated in between.
    updates : int
        Moves at each temperature.
    """

    kind: str = "hmc"
    leapfrogs: int = 5
    levels: Array = field(default_factory=lambda: np.array([0.0, 1.0]))
    steps: Array = field(default_factory=lambda: np.full(2, QUARTER_TURN))
    updates: int = 1

    def step(self, beta: float) -> float:
        """The step at a temperature."""
        return float(np.interp(beta, self.levels, self.steps))

    def move(
        self, bridge: Bridge, state: RunState, beta: float, rng: np.random.Generator, factor: float = 1.0
    ) -> tuple[RunState, float]:
        """The state after the moves of one temperature, and the mean acceptance."""
        total = 0.0
        for _ in range(self.updates):
            if self.kind == "elliptical":
                state, accepted = elliptical_move(bridge, state, beta, rng)
            else:
                step = min(QUARTER_TURN, self.step(beta) * factor)
                state, accepted = hamiltonian_move(bridge, state, beta, step, self.leapfrogs, rng)
            total += float(accepted.mean())
        return state, total / self.updates
