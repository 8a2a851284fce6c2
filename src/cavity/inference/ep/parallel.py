"""Parallel expectation propagation: all sites are updated at once from one factorization.

For sites of any sign: undamped steps, accelerated near a fixed point, halved only while the posterior would be
improper. It stops on the mismatch of moments, never because parameters stopped moving. (`positive` has the iteration
for log-concave likelihoods.)
"""

from __future__ import annotations

import numpy as np

from cavity.inference.ep.acceleration import Acceleration
from cavity.inference.ep.active_set import active_rows, active_sweeps
from cavity.inference.ep.state import TOLERANCE, EPProblem, EPState, any_state, stepped
from cavity.latent.sites import Sites

DAMPED_SWEEPS = 60

PATIENCE = 25
"""Sweeps without a halving of the smallest mismatch so far after which the damped iteration gives up."""


def state_or_none(problem: EPProblem, sites: Sites) -> EPState | None:
    """EPState at any sites, or None where the posterior is improper or a tilted density does not exist."""
    try:
        state = EPState(problem, sites)
        usable = bool(np.all(state.q.var > 0)) and state.feasible and np.isfinite(state.merit)
    except (np.linalg.LinAlgError, FloatingPointError):
        return None
    return state if usable else None


def damped(
    problem: EPProblem,
    start: Sites,
    tolerance: float = TOLERANCE,
    step: float = 1.0,
    acceleration: Acceleration | None = None,
) -> tuple[EPState | None, EPState | None, int]:
    """Parallel EP for sites of any sign; (converged state or None, best usable state, sweeps).

    A step is halved while the posterior would be improper. Points whose cavity does not exist wait for the others.
    `acceleration` may know the sweeps of a problem like this one. It ends early where the problem's effort is spent.
    """
    at = np.array([start.shift, start.precision])
    state = any_state(problem, Sites(*at))
    acceleration = Acceleration() if acceleration is None else acceleration
    acceleration.begin(problem.prior.n)
    best, smallest, since = _Best(problem), np.inf, 0
    apart, extra = -1, 0  # the last sweep after which some points were swept apart, and sweeps of these
    for sweep in range(DAMPED_SWEEPS):
        if state is None or problem.effort.spent:
            return None, best.state(), sweep + extra
        shift, precision = state.cavity
        usable = precision > problem.min_cavity_precision
        everywhere = bool(usable.all())
        if everywhere:
            if state.residual <= tolerance:
                acceleration.end()
                return state, state, sweep + extra
            best.see(state)
            since = 0 if state.residual < 0.5 * smallest else since + 1
            smallest = min(smallest, state.residual)
            if since > PATIENCE:
                return None, best.state(), sweep + extra
            rows = active_rows(state, tolerance) if problem.many and apart < sweep - 1 else None
            if rows is not None:
                acceleration.end()
                del state, shift, precision, usable
                state, at, more = active_sweeps(problem, at, rows, tolerance)
                apart, extra = sweep, extra + more
                continue
        t = state.matched if everywhere else problem.matched_where(usable, shift, precision)
        residual, mean, var = state.residual if everywhere else np.inf, state.q.mean, state.q.var
        state = None  # of a million points, a state is 100 MB
        towards = np.empty((2, problem.prior.n))
        np.divide(1.0, t.var, out=towards[1])
        np.multiply(t.mean, towards[1], out=towards[0])
        towards[0] -= shift
        towards[1] -= precision
        del t, shift, precision
        towards /= problem.power
        towards -= at
        towards *= step
        if not everywhere:
            towards[:, ~usable] = 0.0
        towards = acceleration.step(at, towards, residual, mean, var)
        del mean, var
        state, at = stepped(problem, at, towards)
    return None, best.state(), DAMPED_SWEEPS + extra


class _Best:
    """The sites with the smallest mismatch so far; their state is made again if it is wanted."""

    def __init__(self, problem: EPProblem) -> None:
        self.problem = problem
        self._sites: Sites | None = None
        self._merit = np.inf

    def see(self, state: EPState) -> None:
        if self._sites is None or state.merit < self._merit:
            self._sites, self._merit = state.sites, state.merit

    def state(self) -> EPState | None:
        return None if self._sites is None else any_state(self.problem, self._sites)
