"""Sweeps of expectation propagation over the points that still move.

Among very many points nearly all match their moments after a few sweeps, and a few need many more. Tilted moments are
what a sweep costs; here they are found for those few alone, while all other sites stay as they are. Marginals are
those of all sites. That it is a fixed point of all of them is for the caller to find out, by a sweep over all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.state import SMALLEST_STEP, EPProblem, EPState, any_state
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

AT_REST = 0.3
"""Share of the tolerance below which the mismatch of a point lets it rest; its neighbors will still change it."""

MOST_ACTIVE = 0.3
"""Share of all points up to which those that move are swept alone."""

SWEEPS = 20


class Swept(NamedTuple):
    """State and sites (2, n) where it ended, and sweeps; no state if the posterior would be improper at any step."""

    state: EPState | None
    sites: Array
    sweeps: int


def active_rows(state: EPState, tolerance: float) -> NDArray[np.intp] | None:
    """The points that still move, or None if they are many."""
    rows = state.rows_off_by(AT_REST * tolerance)
    return rows if len(rows) <= MOST_ACTIVE * state.problem.prior.n else None


def active_sweeps(problem: EPProblem, at: Array, rows: NDArray[np.intp], tolerance: float) -> Swept:
    """Sweep over some points until they match, the others staying as they are."""
    sites, acceleration = at.copy(), Acceleration()
    acceleration.begin(len(rows))
    state = any_state(problem, Sites(*sites))
    for sweep in range(SWEEPS):
        if state is None or problem.effort.spent or not state.feasible:
            return Swept(state, sites, sweep)
        shift, precision, mean, var = (part[rows] for part in (*state.cavity, state.q.mean, state.q.var))
        t = problem.first_two(shift, precision, rows)
        residual = max(np.max(np.abs(t.mean - mean) / np.sqrt(var)), np.max(np.abs(t.var / var - 1.0)))
        if residual <= AT_REST * tolerance:
            return Swept(state, sites, sweep)
        state, own = None, sites[:, rows]  # all that changes in place
        towards = np.array([t.mean / t.var - shift, 1.0 / t.var - precision]) / problem.power - own
        change = acceleration.step(own, towards, residual, mean, var)
        length = 1.0
        while state is None and length > SMALLEST_STEP:
            sites[:, rows] = own + length * change
            state = any_state(problem, Sites(*sites))
            length *= 0.5
    return Swept(state, sites, SWEEPS)
