"""Hamiltonian (hybrid) Monte Carlo, all chains in step (Kuss 2006, A.4, Algorithm 11; Neal 2011).

Momenta q ~ N(0, I) and per-coordinate steps e_i = step * scale_i; a leapfrog step is

    q += e/2 * gradient,   x += e * q,   q += e/2 * gradient,       H = q'q/2 - log density,

and the end of a trajectory is accepted if log u < H(start) - H(end) (Kuss prints the opposite sign).

Warm-up adapts (`cavity.sampling.adaptation`), then everything is frozen: the step, the scales, the length of
trajectories. All chains share these, so that they are learned from C times as many draws. Trajectories are jittered in
length: the same number of steps for all chains, so that each step is one evaluation of the target for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.progress import ProgressLike
from cavity.sampling.adaptation import Acceptance, DualAveraging, Scales, TrajectoryLength, windows
from cavity.sampling.targets import Target
from cavity.sampling.trace import Recorder, Trace, Until, as_chains, check_counts

__all__ = [
    "ChainState",
    "DualAveraging",
    "Move",
    "Reference",
    "Scales",
    "first_step",
    "hamiltonian",
    "leapfrog",
    "rotations",
    "transition",
    "windows",
]


DIVERGENCE = 1000.0
"""Energy error beyond which a trajectory has left the surface of constant energy for good."""

QUARTER_PERIOD = float(np.pi / 2)
"""Length of a trajectory after which a Gaussian of unit scales has forgotten where it started."""

EARLY_STEPS = 8
"""Steps of a trajectory, at most, before the first scales are learned: long ones along wrong scales are wasted."""

MOST_STEPS = 1000
"""Leapfrog steps of a trajectory, at most."""


@dataclass
class ChainState:
    """Positions of all chains with their log densities and gradients."""

    position: Array
    log_density: Array
    gradient: Array

    @classmethod
    def at(cls, target: Target, position: Array) -> ChainState:
        """Evaluate the target."""
        return cls(position, *target.value_and_gradient(position))


class Reference:
    """A normal density N(center, diag(scale^2)) near the target."""

    def __init__(self, center: Array, scale: Array) -> None:
        self.center, self.scale, self.inverse = center, scale, 1.0 / scale


class Move(NamedTuple):
    """One transition of all chains.

    `proposal` and `momentum` belong to the ends of the trajectories, accepted or not.
    """

    state: ChainState
    acceptance: Array
    divergent: NDArray[np.bool_]
    proposal: ChainState
    momentum: Array


def _gradient_of(target: Target) -> Callable[[Array], Array]:
    """The gradient alone, by the target's own method where it has one."""
    own = getattr(target, "gradient", None)
    return own if own is not None else lambda x: target.value_and_gradient(x)[1]


def leapfrog(
    target: Target, start: ChainState, momentum: Array, step: Array | float, count: int
) -> tuple[ChainState, Array]:
    """`count` leapfrog steps of sizes `step`: a number, (d,), or (C, 1) for one size per chain.

    The log density is asked for at the end only. A trajectory may pass where the density is not defined (the gradient
    counts as zero there); it is still reversible and keeps volume.
    """
    gradient = _gradient_of(target)
    half = 0.5 * step
    x = start.position
    q = momentum + half * start.gradient
    for i in range(count):
        x = x + step * q
        if i < count - 1:
            q += step * gradient(x)
    value, g = target.value_and_gradient(x)
    q += half * g
    return ChainState(x, value, g), q


def rotations(
    target: Target, start: ChainState, momentum: Array, step: float, count: int, reference: Reference
) -> tuple[ChainState, Array]:
    """`count` steps in which a normal reference moves exactly and only the rest of the density kicks.

    In z = (x - center) / scale, the reference N(0, I) turns (z, q) by the angle `step`; the kick is the gradient of the
    log density plus z (Shahbaba, Lan, Johnson and Neal 2014). Where the target is nearly the reference, kicks are small
    and steps can be long.
    """
    gradient = _gradient_of(target)
    center, scale, inverse = reference.center, reference.scale, reference.inverse
    c, s = float(np.cos(step)), float(np.sin(step))
    sine_out, sine_in = s * scale, s * inverse
    kick, pull = step * scale, step * inverse
    x = start.position - center
    q = momentum + 0.5 * (kick * start.gradient + pull * x)
    for i in range(count):
        x, q = c * x + sine_out * q, c * q - sine_in * x
        if i < count - 1:
            q += kick * gradient(x + center)
            q += pull * x
    position = x + center
    value, g = target.value_and_gradient(position)
    q += 0.5 * (kick * g + pull * x)
    return ChainState(position, value, g), q


def transition(
    target: Target,
    state: ChainState,
    step: Array | float,
    count: int,
    rng: np.random.Generator,
    reference: Reference | None = None,
) -> Move:
    """Fresh momenta, a trajectory of `count` steps, and the decision of Metropolis.

    Steps are leapfrog steps of sizes `step`, or with a `reference`, rotations by the angle `step`.
    """
    momentum = rng.standard_normal(state.position.shape)
    with np.errstate(all="ignore"):
        if reference is None:
            end, q = leapfrog(target, state, momentum, step, count)
        else:
            end, q = rotations(target, state, momentum, float(step), count, reference)
        before = 0.5 * np.einsum("ij,ij->i", momentum, momentum) - state.log_density
        after = 0.5 * np.einsum("ij,ij->i", q, q) - end.log_density
        gain = before - after
    gain = np.where(np.isnan(gain), -np.inf, gain)
    accepted = np.log(rng.random(len(gain))) < gain
    divergent = ~(gain > -DIVERGENCE)
    moved = accepted[:, None]
    new = ChainState(
        np.where(moved, end.position, state.position),
        np.where(accepted, end.log_density, state.log_density),
        np.where(moved, end.gradient, state.gradient),
    )
    return Move(new, np.exp(np.minimum(gain, 0.0)), divergent, end, q)


def first_step(
    target: Target,
    state: ChainState,
    scale: Array,
    rng: np.random.Generator,
    reference: Reference | None = None,
) -> float:
    """A step whose acceptance rate over a single step is about one half (doubling or halving from one)."""
    step, direction = 1.0, 0
    for _ in range(60):
        move = transition(target, state, step * scale if reference is None else step, 1, rng, reference)
        wanted = 1 if float(np.mean(move.acceptance)) > 0.6 else -1
        if direction == 0:
            direction = wanted
        if wanted != direction or (reference is not None and step * 2.0**direction > QUARTER_PERIOD):
            break
        step *= 2.0**direction
    return step


# --- sampling -----------------------------------------------------------------------------------------------


def hamiltonian(
    target: Target,
    start: ArrayLike,
    *,
    n_draws: int = 1000,
    warmup: int = 500,
    rng: np.random.Generator | int | None = None,
    steps: int | None = None,
    length: float | None = None,
    jitter: float | None = None,
    target_acceptance: float = 0.8,
    scale: ArrayLike | None = None,
    center: ArrayLike | None = None,
    adapt_scale: bool = True,
    step: float | None = None,
    between: Callable[[Array, np.random.Generator], Array] | None = None,
    progress: ProgressLike = None,
    until: Until | None = None,
) -> Trace:
    """Hamiltonian Monte Carlo with several chains.

    Parameters
    ----------
    target : Target
    start : array (C, d)
        One position per chain, of positive density; spread them out if convergence is to be checked.
    n_draws, warmup : int
        Transitions kept, and those before them, in which step, scales and trajectory length are learned.
    rng : Generator or seed
    steps : int, optional
        Leapfrog steps of a trajectory on average, if they are not to be chosen automatically.
    length : float, optional
        Length of trajectories in units of the scales, instead; a quarter period, pi/2, is right where the target is
        nearly normal and the scales are right.
    jitter : float in [0, 1], optional
        Lengths are drawn uniformly from (1 - jitter, 1 + jitter) times the nominal one; 0.5, or 0.2 with a center.
    target_acceptance : float
        Acceptance rate that the step size aims at.
    scale : array (d,), optional
        Scales (standard deviations) of the coordinates to begin with; ones.
    center : array (d,), optional
        Mean of a normal density near the target, whose motion is then followed exactly (`rotations`) instead of by
        leapfrog steps; by default the target's own `center`, where it has one.
    adapt_scale : bool
        Whether warm-up learns them.
    step : float, optional
        Step size in units of the scales to begin with; without warm-up it is the one used.
    between : callable, optional
        (positions (C, d), rng) -> positions: other moves, reversible for the target, made after each trajectory.
    progress : Progress, callable, bool, optional
        See `cavity.sampling.trace`.
    until : Until, optional
        Whether `n_draws` were enough, and how many more may be made.

    Returns
    -------
    Trace
        `step_size` holds the step of each coordinate; `info` the step, scales, trajectory length and evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.sampling import FunctionTarget
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1), -U), dim=2)
    >>> trace = hamiltonian(target, np.zeros((4, 2)), n_draws=500, warmup=200, rng=0, progress=False)
    >>> bool(abs(trace.pooled.mean()) < 0.1 and abs(trace.pooled.std() - 1) < 0.1)
    True
    """
    rng = np.random.default_rng(rng)
    check_counts(n_draws, warmup)
    _check_options(steps, length, jitter, target_acceptance, step)
    position = as_chains(start, target.dim)
    state = ChainState.at(target, position)
    if not np.isfinite(state.log_density).all():
        bad = int(np.flatnonzero(~np.isfinite(state.log_density))[0])
        raise ValueError(f"start of chain {bad} has no density: begin where the log density is finite")
    scales = Scales(target.dim)
    if scale is not None:
        scales.scale = np.broadcast_to(np.asarray(scale, dtype=float), (target.dim,)).copy()
        if not (np.isfinite(scales.scale) & (scales.scale > 0)).all():
            raise ValueError("scale must be positive and finite")
    around = getattr(target, "center", None) if center is None else np.asarray(center, dtype=float)
    reference = None if around is None else Reference(np.broadcast_to(around, (target.dim,)), scales.scale)
    begin = first_step(target, state, scales.scale, rng, reference) if step is None else step
    adapting = DualAveraging(begin, target_acceptance)
    chains = Acceptance(len(position), target_acceptance)
    free = steps is None and length is None and reference is None
    trajectory = TrajectoryLength(length or QUARTER_PERIOD, adapt=free)
    spread = jitter if jitter is not None else (0.5 if reference is None else 0.2)
    first, ends = windows(warmup)
    evaluations, size = 0, begin

    def described(trace: Trace) -> Trace:
        return replace(trace, step_size=size * scales.scale, names=tuple(target.names))

    asked = None if until is None else until.seen_as(described)
    recorder = Recorder("sampling", len(position), target.dim, n_draws, warmup, progress, asked)
    with recorder:
        for t in recorder:
            warming = t < warmup
            if warming:
                size = adapting.step if reference is None else min(adapting.step, QUARTER_PERIOD)
            stretch = 1.0 + spread * (2.0 * rng.random() - 1.0)
            wanted = stretch * (steps if steps is not None else trajectory.length / size)
            before, ahead = state.position, size
            if reference is None:
                count = int(np.clip(np.floor(wanted + rng.random()), 1, MOST_STEPS))
                if warming and adapt_scale and ends and t < ends[0]:
                    count = min(count, EARLY_STEPS)
                move = transition(target, state, size * scales.scale, count, rng)
            else:  # whole steps that add up to the wanted angle: the jitter is in their size
                count = int(np.clip(np.ceil(wanted), 1, MOST_STEPS))
                ahead = size * wanted / count
                move = transition(target, state, ahead, count, rng, reference)
            evaluations += count
            state = move.state
            if between is not None:
                state = _moved_by(between, target, state, rng)
                evaluations += 1
            if not warming:
                recorder.add(state.position, state.log_density, move.acceptance, move.divergent)
                continue
            adapting.update(chains.rate(move.acceptance))
            if t >= first and (not ends or t < ends[-1]):
                scales.add(state.position)
            if free and ends and t >= ends[0]:
                mean = scales.mean if scales.count else state.position.mean(axis=0)
                ends_at = (move.proposal.position - mean) / scales.scale
                share = count * size / trajectory.length
                trajectory.update(
                    (before - mean) / scales.scale, ends_at, move.momentum, move.acceptance, share, size
                )
            if t + 1 in ends:
                if adapt_scale:
                    old = scales.scale
                    scales.learn()
                    adapting.restart(adapting.average * float(np.exp(np.mean(np.log(old / scales.scale)))))
                    if reference is not None:
                        reference = Reference(scales.mean, scales.scale)
                if t + 1 != ends[-1]:
                    scales.clear()
            if t == warmup - 1:
                size = adapting.average if reference is None else min(adapting.average, QUARTER_PERIOD)
                if trajectory.count:
                    trajectory.log_length = trajectory.log_average
    info = {
        "step": size,
        "scale": scales.scale,
        "length": steps * size if steps is not None else trajectory.length,
        "integrator": "leapfrog" if reference is None else "rotations",
        "evaluations": evaluations * len(position),
    }
    return replace(described(recorder.trace()), info=info)


def _moved_by(
    between: Callable[[Array, np.random.Generator], Array],
    target: Target,
    state: ChainState,
    rng: np.random.Generator,
) -> ChainState:
    """After other moves; chains whose move leads to where there is no density stay, which is reversible too."""
    there = ChainState.at(target, between(state.position, rng))
    good = np.isfinite(there.log_density)
    return ChainState(
        np.where(good[:, None], there.position, state.position),
        np.where(good, there.log_density, state.log_density),
        np.where(good[:, None], there.gradient, state.gradient),
    )


def _check_options(
    steps: int | None,
    length: float | None,
    jitter: float | None,
    target_acceptance: float,
    step: float | None,
) -> None:
    if steps is not None and (isinstance(steps, bool) or int(steps) != steps or steps < 1):
        raise ValueError(f"steps must be an integer >= 1, got {steps!r}")
    if steps is not None and length is not None:
        raise ValueError(f"give steps or length, not both: got steps={steps!r}, length={length!r}")
    if length is not None and not (np.isfinite(length) and length > 0):
        raise ValueError(f"length must be positive and finite, got {length!r}")
    if jitter is not None and not 0.0 <= jitter <= 1.0:
        raise ValueError(f"jitter must be between 0 and 1, got {jitter!r}")
    if not 0.0 < target_acceptance < 1.0:
        raise ValueError(f"target_acceptance must be between 0 and 1, got {target_acceptance!r}")
    if step is not None and not (np.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive and finite, got {step!r}")
