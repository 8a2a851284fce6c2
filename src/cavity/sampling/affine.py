"""Coordinates in which a density is nearly round: the mode of it as origin, its curvature there as metric.

Hyperparameters are correlated (two length scales that can take each other's place, signal and length scale), and with
one scale per coordinate a trajectory must make small steps across the narrow direction and many of them along the wide
one. With H the negative second derivatives of the log density at its mode,

    x = mode + F z,    F F' = H^-1,

z has nearly unit covariance where the density is nearly normal. A sampler moves z; the Jacobian is a constant. Warm-up
still learns a scale for each direction, which takes back what the curvature at a single point gets wrong.

H comes from differences of gradients: two evaluations for each coordinate, as many as a few trajectories make.

Where the density is skewed or has several modes its covariance is another than H^-1. A first part of warm-up therefore
samples in these coordinates, and the rest of the run uses others, in which the draws of that part are round
(`sample_turned`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize

from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import time_is_up
from cavity.runtime.stop_reason import StopReason
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.targets import Target
from cavity.sampling.trace import ProgressLike, Trace, Until, nothing_drawn_in_time

STEPS = 100
"""Iterations of the search for the mode, at most: it need not be found exactly."""

DIFFERENCE = 1e-3
"""Half the distance of the two gradients that give a row of H, in units of the coordinates."""

WIDEST = 2.0
"""Standard deviation that is assumed, in units of the coordinates, where the density has less curvature than that."""

PILOT = 0.3
"""Share of warm-up that learns in the first coordinates, and as much again that draws in them."""

LEAST_PILOT = 20
"""Draws of that part below which the first coordinates are kept."""

PRIOR_DRAWS = 20.0
"""Draws that the first coordinates count for."""

TARGET_ACCEPTANCE = 0.65
"""What the step size aims at: the best for long trajectories (Beskos et al. 2013). Averaged steps end above it."""

HALVINGS = 10
"""Times that starting points are brought nearer to the mode where the density is not defined at one of them."""


class Turned:
    """A target in coordinates z of which some of its own are linear functions, x[moves] = origin + F z[moves].

    Parameters
    ----------
    target : Target
    origin, factor : arrays (k,), (k, k)
    moves : slice or array of bool (d,)
        The k coordinates that are turned; the others are left as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.sampling import FunctionTarget
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1) / 4, -U / 4), dim=2)
    >>> round_ = Turned(target, np.zeros(2), 2.0 * np.eye(2))
    >>> round_.log_density(np.ones((1, 2)))
    array([-1.])
    """

    def __init__(self, target: Target, origin: Array, factor: Array, moves: Any = slice(None)) -> None:
        self.target, self.origin, self.factor, self.moves = target, origin, factor, moves
        self.dim = target.dim
        self.names: tuple[str, ...] = ()

    def out(self, Z: Array) -> Array:
        """Positions of the target (..., d) of positions z (..., d)."""
        X = Z.copy()
        X[..., self.moves] = self.origin + Z[..., self.moves] @ self.factor.T
        return X

    def into(self, X: Array) -> Array:
        """The inverse."""
        Z = X.copy()
        off = X[..., self.moves] - self.origin
        if off.size:
            rows = off.reshape(-1, len(self.origin))
            Z[..., self.moves] = np.linalg.solve(self.factor, rows.T).T.reshape(off.shape)
        return Z

    def log_density(self, U: Array) -> Array:
        """That of the target at the same place: the Jacobian is a constant."""
        return self.target.log_density(self.out(U))

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient in z (C, d)."""
        value, gradient = self.target.value_and_gradient(self.out(U))
        turned = gradient.copy()
        turned[:, self.moves] = gradient[:, self.moves] @ self.factor
        return value, turned

    def start(self, base: Array, rng: np.random.Generator, bounds: Array) -> Array:
        """Positions z (C, d) around the mode, as far apart as draws would be, where the density is defined.

        `base` (C, d) has the coordinates that are not turned; `bounds` (k, 2) are limits of those that are.
        """
        spread = rng.standard_normal((len(base), len(self.origin))) @ self.factor.T
        for _ in range(HALVINGS):
            X = base.copy()
            X[:, self.moves] = np.clip(self.origin + spread, bounds[:, 0], bounds[:, 1])
            if np.isfinite(self.target.log_density(X)).all():
                break
            spread *= 0.5
        return self.into(X)

    def back(self, trace: Trace) -> Trace:
        """A trace of z as one of the target's own coordinates."""
        step = trace.step_size.copy()
        step[self.moves] = np.sqrt((self.factor**2) @ step[self.moves] ** 2)
        return replace(
            trace, positions=self.out(trace.positions), step_size=step, names=tuple(self.target.names)
        )


def pilot_of(warmup: int) -> int:
    """Rounds of warm-up that learn in the first coordinates, and as many again that draw in them; zero if too few."""
    rounds = int(PILOT * warmup)
    return rounds if rounds >= LEAST_PILOT else 0


def kept_of_pilot(first: Trace | None, stop: BaseException) -> Trace:
    """The draws of the first part of warm-up, where the rest of it was stopped; `stop` goes on where there are none."""
    if first is None:
        raise stop
    by_user = isinstance(stop, KeyboardInterrupt)
    return replace(first, stopped=StopReason.INTERRUPTED if by_user else StopReason.OUT_OF_TIME)


def rounder(origin: Array, factor: Array, draws: Array) -> tuple[Array, Array]:
    """Origin and factor of coordinates in which draws x (..., k) have zero mean and about unit covariance.

    `PRIOR_DRAWS` draws with the covariance F F' that was assumed before are added in, so that few draws do not overrule
    it.
    """
    X = draws.reshape(-1, len(origin))
    center = X.mean(axis=0)
    off = np.linalg.solve(factor, (X - center).T)
    covariance = (off @ off.T + PRIOR_DRAWS * np.eye(len(center))) / (len(X) + PRIOR_DRAWS)
    return center, factor @ np.linalg.cholesky(covariance)


def sample_turned(
    turned: Turned,
    start: Array,
    *,
    draws: int,
    warmup: int,
    rng: np.random.Generator,
    between: Callable[[Array, np.random.Generator], Array] | None = None,
    progress: ProgressLike = None,
    until: Until | None = None,
    **options: Any,
) -> Trace:
    """Hamiltonian Monte Carlo in turned coordinates, which a first part of warm-up improves.

    Parameters
    ----------
    turned : Turned
    start : array (C, d)
        In its coordinates.
    between : callable, optional
        As in `hamiltonian`, in the coordinates of the target.
    draws, warmup, rng, progress, until, options : see `hamiltonian`

    Returns
    -------
    Trace
        In the coordinates of the target. Draws of the first part of warm-up, where sampling was stopped in the last.
    """
    options = {"rng": rng, "target_acceptance": TARGET_ACCEPTANCE, **options}
    pilot = pilot_of(warmup) if len(turned.origin) else 0
    first, before = None, 0
    if pilot:
        moves = _in_turned(turned, between)
        first = turned.back(
            hamiltonian(turned, start, draws=pilot, warmup=pilot, between=moves, progress=progress, **options)
        )
        if first.stopped:
            return first
        found = rounder(turned.origin, turned.factor, first.positions[..., turned.moves])
        turned = Turned(turned.target, *found, turned.moves)
        start, before = turned.into(first.last), first.info["evaluations"]
    try:
        trace = hamiltonian(
            turned,
            start,
            draws=draws,
            warmup=warmup - 2 * pilot,
            between=_in_turned(turned, between),
            progress=progress,
            until=None if until is None else until.seen_as(turned.back),
            **options,
        )
    except (KeyboardInterrupt, TimeoutError) as stop:
        return kept_of_pilot(first, stop)
    info = {**trace.info, "evaluations": before + trace.info["evaluations"]}
    return replace(turned.back(trace), warmup=warmup, info=info)


def _in_turned(
    turned: Turned, between: Callable[[Array, np.random.Generator], Array] | None
) -> Callable[[Array, np.random.Generator], Array] | None:
    """The same moves in turned coordinates."""
    if between is None:
        return None
    return lambda Z, rng: turned.into(between(turned.out(Z), rng))


def at_mode(target: Target, start: Array, unit: Array, bounds: Array, moves: Any = slice(None)) -> Turned:
    """Turn the coordinates `moves` of a target about its mode in them, the others as at `start`.

    Parameters
    ----------
    target : Target
    start : array (d,)
        Where to look for the mode from; the density is defined there.
    unit : array (k,)
        Sizes of unit steps of the coordinates.
    bounds : array (k, 2)
        Their limits.
    """
    where = np.array(start, dtype=float)
    if not len(unit):
        return Turned(target, np.zeros(0), np.zeros((0, 0)), moves)

    def down(w: Array) -> tuple[float, Array]:
        where[moves] = w * unit
        value, gradient = target.value_and_gradient(where[None])
        return -float(value[0]), -gradient[0, moves] * unit

    best = lowest(down, where[moves] / unit, bounds / unit[:, None])
    factor = unit[:, None] * spread_at(down, best)
    return Turned(target, best * unit, factor, moves)


def lowest(down: Any, start: Array, bounds: Array) -> Array:
    """The lowest point that a search has seen, wherever it stopped; `down` gives a value and its gradient.

    Raises
    ------
    TimeoutError
        Where time is up (`cavity.runtime.deadlines`): what is to be sampled from there cannot be.
    """
    seen: tuple[float, Array] = (down(start)[0], start)

    def watched(w: Array) -> tuple[float, Array]:
        nonlocal seen
        if time_is_up():
            raise nothing_drawn_in_time()
        value, slope = down(w)
        if value < seen[0]:
            seen = value, w.copy()
        return (value, slope) if np.isfinite(value) else (1e300, slope)

    limits = [(float(low), float(high)) for low, high in bounds]
    minimize(watched, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": STEPS})
    return seen[1]


def spread_at(down: Any, at: Array) -> Array:
    """F with F F' the covariance of the normal density that has the same curvature at this point."""
    return _factor(_curvature(down, at))


def _curvature(down: Any, at: Array) -> Array:
    """Second derivatives (k, k) by central differences of gradients."""
    rows = []
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = DIFFERENCE
        rows.append((down(at + step)[1] - down(at - step)[1]) / (2.0 * DIFFERENCE))
    H = np.array(rows).reshape(len(at), len(at))
    return np.asarray(0.5 * (H + H.T))


def _factor(H: Array) -> Array:
    """F with F F' = H^-1, no direction wider than `WIDEST`."""
    size, directions = eigh(H)
    return np.asarray(directions / np.sqrt(np.maximum(size, WIDEST**-2)))
