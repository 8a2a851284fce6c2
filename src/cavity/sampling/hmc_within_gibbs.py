"""Hamiltonian Monte Carlo as one update of a Gibbs sampler: the density changes from call to call.

Step size and scales are adapted as in `hmc`, but over the rounds of warm-up, and then frozen. The number of leapfrog
steps follows from a quarter period at the adapted scales, up to a limit, because each step costs a factorization.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.numerics.arrays import Array
from cavity.sampling.adaptation import DualAveraging, Scales, windows
from cavity.sampling.hmc import QUARTER_PERIOD, ChainState, first_step, transition

TARGET_ACCEPTANCE = 0.8
JITTER = 0.5
"""Lengths of trajectories are drawn from (1 - JITTER, 1 + JITTER) times the nominal one."""


class HMCUpdate(NamedTuple):
    """One update: the position (d,), its log density, the acceptance probability, and what happened."""

    position: Array
    log_density: float
    acceptance: float
    divergent: bool
    moved: bool


class HMCWithinGibbs:
    """Hamiltonian updates of one chain on a target that changes between calls.

    Parameters
    ----------
    target : Target
    warmup : int
        Calls during which step and scales are adapted.
    leaps : int
        Leapfrog steps of a trajectory, at most.
    adapt_scale : bool
        Whether scales are adapted too: the draws of one chain give poor ones if the coordinates are white already.
    """

    def __init__(self, target: Any, warmup: int, leaps: int, adapt_scale: bool = True) -> None:
        self.target, self.warmup, self.leaps = target, warmup, leaps
        self.scales = Scales(target.dim)
        self.calls = 0
        self.first, self.ends = windows(warmup) if adapt_scale else (warmup, ())
        self._adapting: DualAveraging | None = None
        self._size = 1.0

    def step(self, position: Array, rng: np.random.Generator) -> HMCUpdate:
        """One trajectory from a position (d,)."""
        state = ChainState.at(self.target, position[None])
        if self._adapting is None:
            self._size = first_step(self.target, state, self.scales.scale, rng)
            self._adapting = DualAveraging(self._size, TARGET_ACCEPTANCE)
        t, self.calls = self.calls, self.calls + 1
        if t < self.warmup:
            self._size = self._adapting.step
        stretch = 1.0 + JITTER * (2.0 * rng.random() - 1.0)
        wanted = stretch * min(QUARTER_PERIOD / self._size, float(self.leaps))
        count = max(1, int(np.floor(wanted + rng.random())))
        move = transition(self.target, state, self._size * self.scales.scale, count, rng)
        if t < self.warmup:
            self._learn(t, move.state.position, float(move.acceptance[0]), self._adapting)
        new = move.state.position[0]
        return HMCUpdate(
            new,
            float(move.state.log_density[0]),
            float(move.acceptance[0]),
            bool(move.divergent[0]),
            bool(np.any(new != position)),
        )

    def _learn(self, t: int, position: Array, acceptance: float, adapting: DualAveraging) -> None:
        adapting.update(acceptance)
        if t >= self.first and self.ends and t < self.ends[-1]:
            self.scales.add(position)
        if t + 1 in self.ends:
            old = self.scales.scale
            self.scales.learn()
            adapting.restart(adapting.average * float(np.exp(np.mean(np.log(old / self.scales.scale)))))
            self.scales.clear()
        if t == self.warmup - 1:
            self._size = adapting.average
