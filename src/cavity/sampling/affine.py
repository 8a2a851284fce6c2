"""Affine whitening of a target: its mode as the origin, its curvature there as the metric.

Hyperparameters are correlated (two length scales that can replace each other, signal variance and length scale). With
one scale per coordinate a trajectory makes small steps across the narrow direction and many of them along the wide
one. With H the Hessian of minus the log density at its mode,

    x = mode + F z,    F F' = H^-1,

z has about unit covariance if the density is nearly normal. A sampler moves z; the Jacobian is constant. Warm-up still
learns one scale per direction, which corrects what the curvature at a single point gets wrong.

H comes from differences of gradients: two evaluations per coordinate, as many as a few trajectories make.

If the density is skewed or has several modes, its covariance is not H^-1. A pilot, the first part of warm-up, therefore
samples in these coordinates; the rest of the run uses coordinates that whiten the draws of the pilot
(`sample_whitened`).
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
from cavity.runtime.progress import ProgressLike
from cavity.runtime.stop_reason import StopReason
from cavity.sampling.hmc import BetweenMoves, HMCOptions, hamiltonian
from cavity.sampling.targets import Target
from cavity.sampling.trace import Trace, Until, nothing_drawn_in_time

ValueAndGradient = Callable[[Array], tuple[float, Array]]
"""A function to be minimized: x (k,) -> its value and its gradient (k,)."""

MODE_ITERATIONS = 100
"""Iterations of the search for the mode, at most: it need not be found exactly."""

DIFFERENCE = 1e-3
"""Half the distance of the two gradients that give a row of H, in unit steps of the coordinates."""

WIDEST = 2.0
"""Largest standard deviation of a direction, in unit steps: assumed if the density has less curvature than that."""

PILOT_SHARE = 0.3
"""Share of warm-up in which the pilot adapts; it draws for as many rounds again."""

LEAST_PILOT = 20
"""Rounds below which there is no pilot, and the first coordinates are kept."""

PRIOR_DRAWS = 20.0
"""Draws that the first coordinates count for."""

WHITE_HMC = HMCOptions(target_acceptance=0.65)
"""Options in white coordinates: this acceptance rate is the best for long trajectories (Beskos et al. 2013)."""

HALVINGS = 10
"""Times that starting points are moved halfway to the mode if the density is not defined at one of them."""


class AffineTarget:
    """A target in coordinates z of which some of its own are affine functions, x[moves] = origin + F z[moves].

    Parameters
    ----------
    target : Target
    origin, factor : arrays (k,), (k, k)
    moves : slice or array of bool (d,)
        The k coordinates that are transformed; the others are left as they are.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.sampling import FunctionTarget
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1) / 4, -U / 4), dim=2)
    >>> white = AffineTarget(target, np.zeros(2), 2.0 * np.eye(2))
    >>> white.log_density(np.ones((1, 2)))
    array([-1.])
    """

    def __init__(self, target: Target, origin: Array, factor: Array, moves: Any = slice(None)) -> None:
        self.target, self.origin, self.factor, self.moves = target, origin, factor, moves
        self.dim = target.dim
        self.names: tuple[str, ...] = ()

    def from_white(self, Z: Array) -> Array:
        """Positions of the target (..., d) at white positions z (..., d)."""
        X = Z.copy()
        X[..., self.moves] = self.origin + Z[..., self.moves] @ self.factor.T
        return X

    def to_white(self, X: Array) -> Array:
        """White positions (..., d) of positions of the target (..., d): the inverse of `from_white`."""
        Z = X.copy()
        off = X[..., self.moves] - self.origin
        if off.size:
            rows = off.reshape(-1, len(self.origin))
            Z[..., self.moves] = np.linalg.solve(self.factor, rows.T).T.reshape(off.shape)
        return Z

    def log_density(self, U: Array) -> Array:
        """Log density (C,) of the target at white positions (C, d); the constant Jacobian is left out."""
        return self.target.log_density(self.from_white(U))

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient in z (C, d)."""
        value, gradient = self.target.value_and_gradient(self.from_white(U))
        white = gradient.copy()
        white[:, self.moves] = gradient[:, self.moves] @ self.factor
        return value, white

    def start(self, base: Array, rng: np.random.Generator, bounds: Array) -> Array:
        """White positions (C, d) around the mode, as far apart as draws would be, where the density is defined.

        `base` (C, d) has the coordinates that are not transformed; `bounds` (k, 2) are limits of those that are.
        """
        spread = rng.standard_normal((len(base), len(self.origin))) @ self.factor.T
        for _ in range(HALVINGS):
            X = base.copy()
            X[:, self.moves] = np.clip(self.origin + spread, bounds[:, 0], bounds[:, 1])
            if np.isfinite(self.target.log_density(X)).all():
                break
            spread *= 0.5
        return self.to_white(X)

    def trace_from_white(self, trace: Trace) -> Trace:
        """A trace of z as a trace in the coordinates of the target."""
        step = trace.step_size.copy()
        step[self.moves] = np.sqrt((self.factor**2) @ step[self.moves] ** 2)
        return replace(
            trace, positions=self.from_white(trace.positions), step_size=step, names=tuple(self.target.names)
        )


# --- whitening by draws ---------------------------------------------------------------------------------------


def pilot_rounds(warmup: int) -> int:
    """Rounds in which the pilot adapts, and as many again in which it draws; zero if there are too few."""
    rounds = int(PILOT_SHARE * warmup)
    return rounds if rounds >= LEAST_PILOT else 0


def stopped_by(pilot: Trace, stop: BaseException) -> Trace:
    """The draws of the pilot, marked as those of a run that was stopped after it."""
    by_user = isinstance(stop, KeyboardInterrupt)
    return replace(pilot, stopped=StopReason.INTERRUPTED if by_user else StopReason.OUT_OF_TIME)


def whitened_by(origin: Array, factor: Array, draws: Array) -> tuple[Array, Array]:
    """Origin (k,) and factor (k, k) of coordinates in which draws x (..., k) are about white.

    `PRIOR_DRAWS` draws with the covariance F F' assumed before are added, so that few draws do not overrule it.
    """
    X = draws.reshape(-1, len(origin))
    center = X.mean(axis=0)
    off = np.linalg.solve(factor, (X - center).T)
    covariance = (off @ off.T + PRIOR_DRAWS * np.eye(len(center))) / (len(X) + PRIOR_DRAWS)
    return center, factor @ np.linalg.cholesky(covariance)


def sample_whitened(
    white: AffineTarget,
    start: Array,
    options: HMCOptions = WHITE_HMC,
    *,
    n_draws: int,
    warmup: int,
    rng: np.random.Generator,
    between: BetweenMoves | None = None,
    progress: ProgressLike = None,
    until: Until[Trace] | None = None,
) -> Trace:
    """Hamiltonian Monte Carlo in white coordinates, which the pilot improves.

    Parameters
    ----------
    white : AffineTarget
    start : array (C, d)
        White positions.
    between : callable, optional
        As in `hamiltonian`, in the coordinates of the target.
    options, n_draws, warmup, rng, progress, until : see `hamiltonian`

    Returns
    -------
    Trace
        In the coordinates of the target. It holds the draws of the pilot if sampling was stopped in the rest of
        warm-up.
    """
    rounds = pilot_rounds(warmup) if len(white.origin) else 0
    pilot, before = None, 0
    if rounds:
        moves = _in_white(white, between)
        pilot = white.trace_from_white(
            hamiltonian(
                white,
                start,
                options,
                n_draws=rounds,
                warmup=rounds,
                rng=rng,
                between=moves,
                progress=progress,
            )
        )
        if pilot.stopped:
            return pilot
        found = whitened_by(white.origin, white.factor, pilot.positions[..., white.moves])
        white = AffineTarget(white.target, *found, white.moves)
        start, before = white.to_white(pilot.last), pilot.evaluations
    try:
        trace = hamiltonian(
            white,
            start,
            options,
            n_draws=n_draws,
            warmup=warmup - 2 * rounds,
            rng=rng,
            between=_in_white(white, between),
            progress=progress,
            until=None if until is None else until.of(white.trace_from_white),
        )
    except (KeyboardInterrupt, TimeoutError) as stop:
        if pilot is None:
            raise
        return stopped_by(pilot, stop)
    return replace(white.trace_from_white(trace), warmup=warmup, evaluations=before + trace.evaluations)


def _in_white(white: AffineTarget, between: BetweenMoves | None) -> BetweenMoves | None:
    """The same moves in white coordinates."""
    if between is None:
        return None
    return lambda Z, rng: white.to_white(between(white.from_white(Z), rng))


# --- whitening by the curvature at the mode -------------------------------------------------------------------


def whitened_at_mode(
    target: Target, start: Array, unit: Array, bounds: Array, moves: Any = slice(None)
) -> AffineTarget:
    """Whiten the coordinates `moves` of a target at its mode in them, with the others fixed as in `start`.

    Parameters
    ----------
    target : Target
    start : array (d,)
        Where the search for the mode begins; the density is defined there.
    unit : array (k,)
        Sizes of unit steps of the coordinates.
    bounds : array (k, 2)
        Their limits.
    """
    position = np.array(start, dtype=float)
    if not len(unit):
        return AffineTarget(target, np.zeros(0), np.zeros((0, 0)), moves)

    def negative_log_density(w: Array) -> tuple[float, Array]:
        position[moves] = w * unit
        value, gradient = target.value_and_gradient(position[None])
        return -float(value[0]), -gradient[0, moves] * unit

    mode = lowest_seen(negative_log_density, position[moves] / unit, bounds / unit[:, None])
    factor = unit[:, None] * inverse_hessian_factor(negative_log_density, mode)
    return AffineTarget(target, mode * unit, factor, moves)


def lowest_seen(function: ValueAndGradient, start: Array, bounds: Array) -> Array:
    """The lowest point (k,) that a search by L-BFGS has evaluated, wherever it stopped.

    Raises
    ------
    TimeoutError
        If the time is up (`cavity.runtime.deadlines`): there is no point to sample from.
    """
    best: tuple[float, Array] = (function(start)[0], start)

    def recorded(w: Array) -> tuple[float, Array]:
        nonlocal best
        if time_is_up():
            raise nothing_drawn_in_time()
        value, slope = function(w)
        if value < best[0]:
            best = value, w.copy()
        return (value, slope) if np.isfinite(value) else (1e300, slope)

    limits = [(float(low), float(high)) for low, high in bounds]
    minimize(
        recorded, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": MODE_ITERATIONS}
    )
    return best[1]


def inverse_hessian_factor(function: ValueAndGradient, at: Array) -> Array:
    """F (k, k) with F F' = H^-1, H the Hessian at a point (k,); no direction is wider than `WIDEST`."""
    size, directions = eigh(_hessian(function, at))
    return np.asarray(directions / np.sqrt(np.maximum(size, WIDEST**-2)))


def _hessian(function: ValueAndGradient, at: Array) -> Array:
    """Second derivatives (k, k) by central differences of gradients."""
    rows = []
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = DIFFERENCE
        rows.append((function(at + step)[1] - function(at - step)[1]) / (2.0 * DIFFERENCE))
    H = np.array(rows).reshape(len(at), len(at))
    return np.asarray(0.5 * (H + H.T))
