"""Anderson acceleration of parallel expectation propagation.

EP's sweep x -> x + f(x) of all sites x = (shift, precision) converges linearly near a fixed point, at a rate that
strongly coupled points make slow. The last few sweeps tell how f changes with x, and their extrapolation (`anderson`)
takes the place of the step. Lengths are measured in the units of EP's mismatch: posterior standard deviations of means,
relative changes of variances.

An optimizer asks for one fixed point after another, of problems that hardly differ: what is known of the last one's
sweeps serves the next, from its first sweep on.
"""

from __future__ import annotations

import numpy as np

from cavity.inference.anderson import correction
from cavity.numerics.arrays import Array

DEPTH = 12
"""Sweeps that are remembered."""

MEMORY = 48_000_000
"""Bytes of differences that are remembered, but for the last three sweeps: fewer sweeps of very many sites."""

MANY = 20_000
"""Sites from which differences are kept in single precision, which is enough to extrapolate by."""

NEAR = 0.3
"""Mismatch below which the sweep is taken to be nearly linear."""

WORSE = 2.0
"""Growth of the mismatch in one sweep after which what was learned is forgotten."""

RELATIVE_RANK = 1e-8
"""Singular values below this share of the largest say nothing of the way ahead."""


class Acceleration:
    """Steps from the history of sweeps; near a fixed point they replace those of EP."""

    def __init__(self) -> None:
        self._d_sites: list[Array] = []
        self._d_steps: list[Array] = []
        self._last: tuple[Array, Array] | None = None
        self._residual = np.inf

    def copy(self) -> Acceleration:
        """The same history, to be continued apart."""
        new = Acceleration()
        new._d_sites, new._d_steps = list(self._d_sites), list(self._d_steps)
        return new

    def end(self) -> None:
        """No more sweeps of this problem."""
        self._last, self._residual = None, np.inf

    def begin(self, n: int) -> None:
        """Another sequence of sweeps, of n sites."""
        self.end()
        if self._d_sites and self._d_sites[0].shape[1] != n:
            self._forget()

    def _forget(self) -> None:
        self._d_sites.clear()
        self._d_steps.clear()
        self.end()

    def step(self, sites: Array, step: Array, residual: float, mean: Array, var: Array) -> Array:
        """The step to take where EP would take `step`; sites and steps are (2, n), of shifts and precisions.

        They are remembered; what is returned is free to be changed.
        """
        if not residual <= min(NEAR, WORSE * self._residual):
            self._forget()
        if not residual <= NEAR:
            return step
        if self._last is not None:
            n = sites.shape[1]
            kind = np.float32 if n > MANY else np.float64
            depth = min(DEPTH, max(3, MEMORY // (4 * n * np.dtype(kind).itemsize)))
            del self._d_sites[: 1 - depth], self._d_steps[: 1 - depth]
            for known, new, old in zip((self._d_sites, self._d_steps), (sites, step), self._last):
                known.append(np.subtract(new, old, out=np.empty(new.shape, kind), casting="same_kind"))
        self._last, self._residual = (sites, step), residual
        if not self._d_steps:
            return step.copy()
        found = correction(step, self._d_sites, self._d_steps, mean, var, RELATIVE_RANK)
        return np.subtract(step, found, out=found)
