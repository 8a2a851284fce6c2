"""Hamiltonian (hybrid) Monte Carlo, all chains in step (Kuss 2006, A.4, Algorithm 11; Neal 2011).

Momenta q ~ N(0, I) and per-coordinate steps e_i = step * scale_i; a leapfrog step is

    q += e/2 * gradient,   x += e * q,   q += e/2 * gradient,       H = q'q/2 - log density,

and the end of a trajectory is accepted if log u < H(start) - H(end) (Kuss prints the opposite sign).

Warm-up adapts the step, the scales and the length of trajectories (`cavity.sampling.adaptation`); then they are frozen.
All chains share them, so that they are learned from C times as many draws. Trajectories are jittered in length, with
the same number of steps for all chains: each step is one evaluation of the target for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_inside, require_positive
from cavity.runtime.progress import ProgressLike
from cavity.sampling.adaptation import Acceptance, DualAveraging, Scales, TrajectoryLength, windows
from cavity.sampling.targets import Target
from cavity.sampling.trace import Recorder, Trace, Until, as_chains, check_counts

BetweenMoves = Callable[[Array, np.random.Generator], Array]
"""Moves between trajectories: positions (C, d) and a generator -> positions (C, d)."""

DIVERGENCE = 1000.0
"""Energy error beyond which a trajectory counts as divergent."""

QUARTER_PERIOD = float(np.pi / 2)
"""Length of a trajectory after which the position of a Gaussian of unit scales is independent of its start."""

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
    """The gradient alone, by the target's own method if it has one."""
    own = getattr(target, "gradient", None)
    return own if own is not None else lambda x: target.value_and_gradient(x)[1]


def leapfrog(
    target: Target, start: ChainState, momentum: Array, step: Array | float, count: int
) -> tuple[ChainState, Array]:
    """`count` leapfrog steps of sizes `step`: a number, (d,), or (C, 1) for one size per chain.

    The log density is evaluated at the end only. A trajectory may pass through points at which the density is not
    defined (the gradient counts as zero there); it is still reversible and keeps volume.
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
    """`count` steps that follow a normal reference exactly and kick by the rest of the density.

    In z = (x - center) / scale, the reference N(0, I) rotates (z, q) by the angle `step`; the kick is the gradient of
    the log density plus z (Shahbaba, Lan, Johnson and Neal 2014). If the target is nearly the reference, kicks are
    small and steps can be long.
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


# --- options and adaptation ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class HMCOptions:
    """How trajectories are made.

    Attributes
    ----------
    steps : int, optional
        Leapfrog steps of a trajectory on average, if they are not to be chosen automatically.
    length : float, optional
        Length of trajectories in units of the scales, instead; a quarter period, pi/2, is right if the target is
        nearly normal and the scales are right.
    jitter : float in [0, 1], optional
        Lengths are drawn uniformly from (1 - jitter, 1 + jitter) times the nominal one; 0.5, or 0.2 with a center.
    target_acceptance : float
        Acceptance rate that the step size aims at.
    scale : array (d,), optional
        Scales (standard deviations) of the coordinates to begin with; ones.
    center : array (d,), optional
        Mean of a normal density near the target, whose motion is then followed exactly (`rotations`) instead of by
        leapfrog steps; by default the target's own `center`, if it has one.
    adapt_scale : bool
        Whether warm-up learns the scales.
    step : float, optional
        Step size in units of the scales to begin with; without warm-up it is the one used.

    Examples
    --------
    >>> from cavity.sampling import HMCOptions
    >>> HMCOptions(steps=10, target_acceptance=0.9).steps
    10
    """

    steps: int | None = None
    length: float | None = None
    jitter: float | None = None
    target_acceptance: float = 0.8
    scale: ArrayLike | None = None
    center: ArrayLike | None = None
    adapt_scale: bool = True
    step: float | None = None

    def __post_init__(self) -> None:
        steps, length, step = self.steps, self.length, self.step
        if steps is not None and (isinstance(steps, bool) or int(steps) != steps or steps < 1):
            raise ValueError(f"steps must be an integer >= 1, got {steps!r}")
        if steps is not None and length is not None:
            raise ValueError(f"give steps or length, not both: got steps={steps!r}, length={length!r}")
        if length is not None and not (np.isfinite(length) and length > 0):
            raise ValueError(f"length must be positive and finite, got {length!r}")
        if self.jitter is not None and not 0.0 <= self.jitter <= 1.0:
            raise ValueError(f"jitter must be between 0 and 1, got {self.jitter!r}")
        require_inside(self.target_acceptance, "target_acceptance")
        if step is not None and not (np.isfinite(step) and step > 0):
            raise ValueError(f"step must be positive and finite, got {step!r}")


class _Tuner:
    """Step, scales and trajectory length of all chains, which warm-up learns.

    Parameters
    ----------
    target : Target
    state : ChainState
        Where chains start.
    options : HMCOptions
    warmup : int
        Transitions that are learned from.
    """

    def __init__(
        self, target: Target, state: ChainState, options: HMCOptions, warmup: int, rng: np.random.Generator
    ) -> None:
        self.options, self.warmup, d = options, warmup, target.dim
        self.scales = Scales(d)
        if options.scale is not None:
            self.scales.scale = np.broadcast_to(np.asarray(options.scale, dtype=float), (d,)).copy()
            require_positive(self.scales.scale, "scale")
        center = getattr(target, "center", None) if options.center is None else options.center
        self.reference: Reference | None = None
        if center is not None:
            mean: Array = np.broadcast_to(np.asarray(center, dtype=float), (d,))
            self.reference = Reference(mean, self.scales.scale)
        self.size = options.step or first_step(target, state, self.scales.scale, rng, self.reference)
        self._averaging = DualAveraging(self.size, options.target_acceptance)
        self._acceptance = Acceptance(len(state.position), options.target_acceptance)
        free = options.steps is None and options.length is None and self.reference is None
        self._trajectory = TrajectoryLength(options.length or QUARTER_PERIOD, adapt=free)
        usual = 0.5 if self.reference is None else 0.2
        self._jitter = usual if options.jitter is None else options.jitter
        self._first, self._ends = windows(warmup)

    @property
    def step_size(self) -> Array:
        """Step of each coordinate, shape (d,)."""
        return self.size * self.scales.scale

    def _limited(self, size: float) -> float:
        return size if self.reference is None else min(size, QUARTER_PERIOD)

    def trajectory(self, t: int, rng: np.random.Generator) -> tuple[Array | float, int]:
        """Step, (d,) or an angle, and number of steps of the trajectory of transition t."""
        if t < self.warmup:
            self.size = self._limited(self._averaging.step)
        stretch = 1.0 + self._jitter * (2.0 * rng.random() - 1.0)
        nominal = self._trajectory.length / self.size if self.options.steps is None else self.options.steps
        wanted = stretch * nominal
        if (
            self.reference is not None
        ):  # whole steps that add up to the wanted angle: the jitter is in their size
            count = int(np.clip(np.ceil(wanted), 1, MOST_STEPS))
            return self.size * wanted / count, count
        count = int(np.clip(np.floor(wanted + rng.random()), 1, MOST_STEPS))
        if t < self.warmup and self.options.adapt_scale and self._ends and t < self._ends[0]:
            count = min(count, EARLY_STEPS)
        return self.step_size, count

    def learn(self, t: int, before: Array, move: Move, count: int, after: Array) -> None:
        """Adapt to transition t of warm-up: from positions `before` (C, d), by a move of `count` steps, to `after`."""
        ends, scales = self._ends, self.scales
        self._averaging.update(self._acceptance.rate(move.acceptance))
        if t >= self._first and (not ends or t < ends[-1]):
            scales.add(after)
        if self._trajectory.adapt and ends and t >= ends[0]:
            mean = scales.mean if scales.count else after.mean(axis=0)
            self._trajectory.update(
                (before - mean) / scales.scale,
                (move.proposal.position - mean) / scales.scale,
                move.momentum,
                move.acceptance,
                count * self.size / self._trajectory.length,
                self.size,
            )
        if t + 1 in ends:
            self._end_window(last=t + 1 == ends[-1])
        if t == self.warmup - 1:
            self.size = self._limited(self._averaging.average)
            self._trajectory.freeze()

    def _end_window(self, last: bool) -> None:
        """Take the scales of a window, and keep the step in the units of the coordinates."""
        scales, averaging = self.scales, self._averaging
        if self.options.adapt_scale:
            old = scales.scale
            scales.learn()
            averaging.restart(averaging.average * float(np.exp(np.mean(np.log(old / scales.scale)))))
            if self.reference is not None:
                self.reference = Reference(scales.mean, scales.scale)
        if not last:
            scales.clear()


# --- sampling -----------------------------------------------------------------------------------------------


def hamiltonian(
    target: Target,
    start: ArrayLike,
    options: HMCOptions = HMCOptions(),  # noqa: B008 (frozen)
    *,
    n_draws: int = 1000,
    warmup: int = 500,
    rng: np.random.Generator | int | None = None,
    between: BetweenMoves | None = None,
    progress: ProgressLike = None,
    until: Until[Trace] | None = None,
) -> Trace:
    """Hamiltonian Monte Carlo with several chains.

    Parameters
    ----------
    target : Target
    start : array (C, d)
        One position per chain, of positive density; spread them out if convergence is to be checked.
    options : HMCOptions
        How trajectories are made.
    n_draws, warmup : int
        Transitions kept, and those before them, in which step, scales and trajectory length are learned.
    rng : Generator or seed
    between : callable, optional
        (positions (C, d), rng) -> positions: other moves, reversible for the target, made after each trajectory.
    progress : Progress, callable, bool, optional
        See `cavity.runtime.progress`.
    until : Until, optional
        Whether `n_draws` were enough, and how many more may be made.

    Returns
    -------
    Trace

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
    state = _start_state(target, start)
    tuner = _Tuner(target, state, options, warmup, rng)
    chains, evaluations = len(state.position), 0

    def described(trace: Trace) -> Trace:
        return replace(
            trace, step_size=tuner.step_size, names=tuple(target.names), evaluations=evaluations * chains
        )

    check = None if until is None else until.of(described)
    recorder = Recorder("sampling", chains, target.dim, n_draws, warmup, progress, check)
    with recorder:
        for t in recorder:
            before = state.position
            step, count = tuner.trajectory(t, rng)
            move = transition(target, state, step, count, rng, tuner.reference)
            state = move.state
            evaluations += count
            if between is not None:
                state = _moved_by(between, target, state, rng)
                evaluations += 1
            if t < warmup:
                tuner.learn(t, before, move, count, state.position)
            else:
                recorder.add(state.position, state.log_density, move.acceptance, move.divergent)
    return described(recorder.trace())


def _start_state(target: Target, start: ArrayLike) -> ChainState:
    """The state at the starting positions (C, d), all of positive density."""
    state = ChainState.at(target, as_chains(start, target.dim))
    bad = np.flatnonzero(~np.isfinite(state.log_density))
    if bad.size:
        raise ValueError(f"start of chain {bad[0]} has no density: begin where the log density is finite")
    return state


def _moved_by(
    between: BetweenMoves, target: Target, state: ChainState, rng: np.random.Generator
) -> ChainState:
    """After other moves; a chain that would move to a point without density stays, which is reversible too."""
    there = ChainState.at(target, between(state.position, rng))
    good = np.isfinite(there.log_density)
    return ChainState(
        np.where(good[:, None], there.position, state.position),
        np.where(good, there.log_density, state.log_density),
        np.where(good[:, None], there.gradient, state.gradient),
    )
