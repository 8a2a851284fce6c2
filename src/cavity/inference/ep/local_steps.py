"""Parallel expectation propagation of many points with a step for each neighborhood.

Among very many points a few neighborhoods resist: their sites swing, or outweigh each other. Damping all points for
them stalls the rest, and Newton's method is not to be had. Here a point whose mismatch of variances swings steps less,
and so do its neighbors along the line; the more often, the smaller they stay. Where cavities do not exist, negative
precisions around them are halved. Sites are not negative in the first sweeps, until their surroundings are known.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.state import TOLERANCE, EPProblem, EPState, any_state, stepped
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

SWEEPS = 300
POSITIVE_SWEEPS = 6
"""Sweeps in which sites are not negative."""

WINDOW = 5
"""Neighbors to either side that step as carefully as a point that swings."""

SWINGS = 1e-3
"""Relative mismatch of variances above which a change of its sign is a swing."""

SHORTER, LONGER, CAREFUL, SHORTEST = 0.5, 1.2, 0.8, 0.03
"""Factors of a step after a swing, of one without, of the longest step after every swing; and the shortest step."""


def local_sweeps(problem: EPProblem, tolerance: float = TOLERANCE) -> tuple[EPState | None, int]:
    """(converged state or None, sweeps), from nothing."""
    n = problem.prior.n
    along = _along_the_line(problem)
    at, swing = np.zeros((2, n)), np.zeros(n)
    length, longest = np.ones(n), np.ones(n)
    state, acceleration = any_state(problem, Sites(*at)), Acceleration()
    acceleration.begin(n)
    for sweep in range(SWEEPS):
        if state is None or problem.effort.spent:
            return None, sweep
        shift, precision = state.cavity
        usable = precision > problem.min_cavity_precision
        everywhere = bool(usable.all())
        if everywhere and state.residual <= tolerance:
            return state, sweep
        t = state.matched if everywhere else problem.matched_where(usable, shift, precision)
        target = np.array([t.mean / t.var - shift, 1.0 / t.var - precision]) / problem.power
        if sweep < POSITIVE_SWEEPS:
            np.maximum(target[1], 0.0, out=target[1])
        mismatch = np.where(usable, t.var / state.q.var - 1.0, 0.0)
        swings = (mismatch * swing < 0) & (np.abs(mismatch) > np.maximum(0.5 * np.abs(swing), SWINGS))
        close = _with_neighbors(swings | ~usable, along)
        longest[close] = np.maximum(CAREFUL * longest[close], SHORTEST)
        length = np.where(close, np.maximum(SHORTER * length, SHORTEST), np.minimum(LONGER * length, longest))
        change = length * (target - at)
        if not everywhere:
            around = _with_neighbors(~usable, along)
            change[:, around] = np.where(at[1, around] < 0, -0.5 * at[:, around], 0.0)
        residual, mean, var, swing = (
            state.residual if everywhere else np.inf,
            state.q.mean,
            state.q.var,
            mismatch,
        )
        change = acceleration.step(at, change, residual, mean, var)
        state = None
        state, at = stepped(problem, at, change)
    return None, SWEEPS


def _along_the_line(problem: EPProblem) -> NDArray[np.intp] | None:
    """The order of the rows along their one input; None if there are more inputs, or rows are not in memory."""
    source = problem.prior.source
    if source.shape[1] != 1 or not source.in_memory:
        return None
    return np.argsort(problem.prior.X[:, 0], kind="stable")


def _with_neighbors(chosen: NDArray[np.bool_], along: NDArray[np.intp] | None) -> NDArray[np.bool_]:
    """Chosen points and, along a line, their neighbors."""
    if along is None or not chosen.any():
        return chosen
    marks: Array = np.convolve(chosen[along], np.ones(2 * WINDOW + 1), mode="same")
    found = np.empty(len(chosen), dtype=bool)
    found[along] = marks > 0.5
    return found
