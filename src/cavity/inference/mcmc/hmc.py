"""Hamiltonian (hybrid) Monte Carlo, all chains in step (thesis A.4, Algorithm 11; Neal 2011).

Momenta q ~ N(0, I) and per-coordinate steps e_i = step * scale_i; a leapfrog step is

    q += e/2 * gradient,   x += e * q,   q += e/2 * gradient,       H = q'q/2 - log density,

and the end of a trajectory is accepted if log u < H(start) - H(end) (the thesis prints the sign the other way round).

Warm-up adapts, then everything is frozen: the step by dual averaging (Hoffman and Gelman 2014) towards an acceptance
rate; the scales from the draws of windows that double in length; and the length of trajectories by stochastic ascent
on ChEES, the expected change of the squared distance from the mean (Hoffman, Radul and Sountsov 2021). All chains
share these, so that they are learned from C times as many draws. Trajectories are jittered in length: the same
number of steps for all chains, so that each step is one evaluation of the target for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.inference.mcmc.targets import Target
from cavity.inference.mcmc.trace import ProgressLike, Recorder, Trace, as_chains, check_counts

Array = NDArray[np.float64]

DIVERGENCE = 1000.0
"""Energy error beyond which a trajectory has left the surface of constant energy for good."""

QUARTER_PERIOD = float(np.pi / 2)
"""Length of a trajectory after which a Gaussian of unit scales has forgotten where it started."""

MOST_STEPS = 1000
"""Leapfrog steps of a trajectory, at most."""


@dataclass
class State:
    """Positions of all chains with their log densities and gradients."""

    position: Array
    log_density: Array
    gradient: Array

    @classmethod
    def at(cls, target: Target, position: Array) -> State:
        """Evaluate the target."""
        return cls(position, *target.value_and_gradient(position))


class Move(NamedTuple):
    """One transition of all chains.

    `proposal` and `momentum` belong to the ends of the trajectories, accepted or not.
    """

    state: State
    acceptance: Array
    divergent: NDArray[np.bool_]
    proposal: State
    momentum: Array


def leapfrog(
    target: Target, start: State, momentum: Array, step: Array | float, count: int
) -> tuple[State, Array]:
    """`count` leapfrog steps of sizes `step`, (d,), a number, or (C, 1) for one size per chain.

    A chain that leaves the support of the density stops there: its log density is -inf.
    """
    x, g = start.position, start.gradient
    value = start.log_density
    q = momentum + 0.5 * step * g
    alive = None
    for i in range(count):
        x = x + step * q
        value, g = target.value_and_gradient(x)
        if not np.isfinite(value.sum()):
            ok = np.isfinite(value) if alive is None else alive & np.isfinite(value)
            alive = ok
        if alive is not None:
            q = np.where(alive[:, None], q, 0.0)
            g = np.where(alive[:, None], g, 0.0)
        q = q + (step if i < count - 1 else 0.5 * step) * g
    if alive is not None:
        value = np.where(alive, value, -np.inf)
    return State(x, value, g), q


def transition(
    target: Target, state: State, step: Array | float, count: int, rng: np.random.Generator
) -> Move:
    """Fresh momenta, a trajectory of `count` leapfrog steps, and the decision of Metropolis."""
    momentum = rng.standard_normal(state.position.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        end, q = leapfrog(target, state, momentum, step, count)
        before = 0.5 * np.einsum("ij,ij->i", momentum, momentum) - state.log_density
        after = 0.5 * np.einsum("ij,ij->i", q, q) - end.log_density
        gain = before - after
    gain = np.where(np.isnan(gain), -np.inf, gain)
    accepted = np.log(rng.random(len(gain))) < gain
    divergent = ~(gain > -DIVERGENCE)
    moved = accepted[:, None]
    new = State(
        np.where(moved, end.position, state.position),
        np.where(accepted, end.log_density, state.log_density),
        np.where(moved, end.gradient, state.gradient),
    )
    return Move(new, np.exp(np.minimum(gain, 0.0)), divergent, end, q)


# --- adaptation ---------------------------------------------------------------------------------------------


class DualAveraging:
    """Step size whose acceptance rate approaches a target (Hoffman and Gelman 2014, section 3.2)."""

    def __init__(self, step: float, target_acceptance: float) -> None:
        self.goal = target_acceptance
        self.restart(step)

    def restart(self, step: float) -> None:
        """Begin anew around another step."""
        self.center = float(np.log(10.0 * step))
        self.count, self.error = 0, 0.0
        self.log_step = self.log_average = float(np.log(step))

    @property
    def step(self) -> float:
        """The step to try next."""
        return float(np.exp(self.log_step))

    @property
    def average(self) -> float:
        """The step to keep."""
        return float(np.exp(self.log_average))

    def update(self, acceptance: float) -> None:
        """Learn from the acceptance rate of a transition."""
        self.count += 1
        share = 1.0 / (self.count + 10.0)
        self.error = (1.0 - share) * self.error + share * (self.goal - acceptance)
        self.log_step = self.center - np.sqrt(self.count) / 0.05 * self.error
        weight = self.count**-0.75
        self.log_average = weight * self.log_step + (1.0 - weight) * self.log_average


class Scales:
    """Standard deviation of each coordinate over the draws of a window (all chains), by Welford's updates.

    `prior_draws` draws with the present scales are added in, so that a short window does not overrule what is known.
    """

    prior_draws = 10.0

    def __init__(self, dim: int) -> None:
        self.scale = np.ones(dim)
        self.clear()

    def clear(self) -> None:
        """Begin a window."""
        self.count, self.mean, self.squares = 0, np.zeros(len(self.scale)), np.zeros(len(self.scale))

    def add(self, position: Array) -> None:
        """One draw of each chain."""
        C = len(position)
        mean = position.mean(axis=0)
        inner = ((position - mean) ** 2).sum(axis=0)
        shift = mean - self.mean
        total = self.count + C
        self.squares += inner + shift**2 * (self.count * C / total)
        self.mean = self.mean + shift * (C / total)
        self.count = total

    def learn(self) -> None:
        """Take the scales of the window."""
        variance = (self.squares + self.prior_draws * self.scale**2) / (self.count + self.prior_draws)
        self.scale = np.sqrt(np.maximum(variance, np.finfo(float).tiny))


class TrajectoryLength:
    """Length of trajectories, in units of the scales, by ascent on ChEES in its logarithm (Adam without momentum)."""

    rate, memory = 0.05, 0.95

    def __init__(self, length: float, adapt: bool) -> None:
        self.log_length, self.adapt = float(np.log(length)), adapt
        self.log_average = self.log_length
        self.square, self.count = 0.0, 0

    @property
    def length(self) -> float:
        """The present length."""
        return float(np.exp(self.log_length))

    def update(
        self, before: Array, move: Move, center: Array, scale: Array, stretch: float, step: float
    ) -> None:
        """Learn from one transition that was `stretch` times the present length."""
        weight = move.acceptance
        if not self.adapt or not weight.sum() > 0:
            return
        x = (before - center) / scale
        z = (move.proposal.position - center) / scale
        change = np.einsum("ij,ij->i", z, z) - np.einsum("ij,ij->i", x, x)
        rate = np.einsum("ij,ij->i", z, move.momentum)
        terms = np.where(weight > 0, weight * change * rate, 0.0)
        slope = stretch * self.length * float(terms.sum() / weight.sum())
        if not np.isfinite(slope):
            return
        self.count += 1
        self.square = self.memory * self.square + (1 - self.memory) * slope**2
        size = np.sqrt(self.square / (1 - self.memory**self.count))
        self.log_length += self.rate * slope / size if size > 0 else 0.0
        self.log_length = float(np.clip(self.log_length, np.log(step), np.log(step * MOST_STEPS)))
        share = self.count**-0.5
        self.log_average = share * self.log_length + (1 - share) * self.log_average


def first_step(target: Target, state: State, scale: Array, rng: np.random.Generator) -> float:
    """A step whose single leapfrog has an acceptance rate of about one half (doubling or halving from one)."""
    step, direction = 1.0, 0
    for _ in range(60):
        move = transition(
            target, State(state.position, state.log_density, state.gradient), step * scale, 1, rng
        )
        wanted = 1 if float(np.mean(move.acceptance)) > 0.6 else -1
        if direction == 0:
            direction = wanted
        if wanted != direction:
            break
        step *= 2.0**direction
    return step


def windows(warmup: int) -> tuple[int, tuple[int, ...]]:
    """(first, ends): warm-up transitions before any window, and where the windows for the scales end.

    The first part (15 %) finds the bulk, windows then double in length, and a last part (15 %) settles the step.
    """
    if warmup < 20:
        return warmup, ()
    first, last = max(5, warmup * 3 // 20), max(5, warmup * 3 // 20)
    ends, start, length = [], first, max(10, (warmup - first - last) // 15)
    while start < warmup - last:
        stop = start + length
        if stop + 2 * length > warmup - last:
            stop = warmup - last
        ends.append(stop)
        start, length = stop, 2 * length
    return first, tuple(ends)


# --- sampling -----------------------------------------------------------------------------------------------


def hamiltonian(
    target: Target,
    start: ArrayLike,
    *,
    draws: int = 1000,
    warmup: int = 500,
    rng: np.random.Generator | int | None = None,
    steps: int | None = None,
    length: float | None = None,
    jitter: float = 0.5,
    target_acceptance: float = 0.8,
    scale: ArrayLike | None = None,
    adapt_scale: bool = True,
    step: float | None = None,
    progress: ProgressLike = None,
) -> Trace:
    """Hamiltonian Monte Carlo with several chains.

    Parameters
    ----------
    target : Target
    start : array (C, d)
        One position per chain, of positive density; spread them out if convergence is to be checked.
    draws, warmup : int
        Transitions kept, and those before them, in which step, scales and trajectory length are learned.
    rng : Generator or seed
    steps : int, optional
        Leapfrog steps of a trajectory on average, if they are not to be chosen automatically.
    length : float, optional
        Length of trajectories in units of the scales, instead; a quarter period, pi/2, is right where the target is
        nearly normal and the scales are right.
    jitter : float in [0, 1]
        Lengths are drawn uniformly from (1 - jitter, 1 + jitter) times the nominal one.
    target_acceptance : float
        Acceptance rate that the step size aims at.
    scale : array (d,), optional
        Scales (standard deviations) of the coordinates to begin with; ones.
    adapt_scale : bool
        Whether warm-up learns them.
    step : float, optional
        Step size in units of the scales to begin with; without warm-up it is the one used.
    progress : Progress, callable, bool, optional
        See `cavity.inference.mcmc.trace`.

    Returns
    -------
    Trace
        `step_size` holds the step of each coordinate; `info` the step, scales, trajectory length and evaluations.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.inference.mcmc.targets import FunctionTarget
    >>> target = FunctionTarget(lambda U: (-0.5 * np.sum(U**2, axis=1), -U), dim=2)
    >>> trace = hamiltonian(target, np.zeros((4, 2)), draws=500, warmup=200, rng=0, progress=False)
    >>> bool(abs(trace.pooled.mean()) < 0.1 and abs(trace.pooled.std() - 1) < 0.1)
    True
    """
    rng = np.random.default_rng(rng)
    check_counts(draws, warmup)
    _check_options(steps, length, jitter, target_acceptance, step)
    position = as_chains(start, target.dim)
    state = State.at(target, position)
    if not np.isfinite(state.log_density).all():
        bad = int(np.flatnonzero(~np.isfinite(state.log_density))[0])
        raise ValueError(f"start of chain {bad} has no density: begin where the log density is finite")
    scales = Scales(target.dim)
    if scale is not None:
        scales.scale = np.broadcast_to(np.asarray(scale, dtype=float), (target.dim,)).copy()
        if not (np.isfinite(scales.scale) & (scales.scale > 0)).all():
            raise ValueError("scale must be positive and finite")
    begin = first_step(target, state, scales.scale, rng) if step is None else step
    adapting = DualAveraging(begin, target_acceptance)
    trajectory = TrajectoryLength(length or QUARTER_PERIOD, adapt=steps is None and length is None)
    first, ends = windows(warmup)
    evaluations = 0
    size = begin

    recorder = Recorder("sampling", len(position), target.dim, draws, warmup, progress)
    with recorder:
        for t in recorder:
            warming = t < warmup
            if warming:
                size = adapting.step
            stretch = 1.0 + jitter * (2.0 * rng.random() - 1.0)
            wanted = stretch * (steps if steps is not None else trajectory.length / size)
            count = int(np.clip(np.floor(wanted + rng.random()), 1, MOST_STEPS))
            before = state.position
            move = transition(target, state, size * scales.scale, count, rng)
            evaluations += count
            state = move.state
            if not warming:
                recorder.add(state.position, state.log_density, move.acceptance, move.divergent)
                continue
            adapting.update(_rate(move.acceptance))
            if t >= first and (not ends or t < ends[-1]):
                scales.add(state.position)
            if ends and t >= ends[0]:
                center = scales.mean if scales.count else state.position.mean(axis=0)
                trajectory.update(before, move, center, scales.scale, count * size / trajectory.length, size)
            if t + 1 in ends:
                if adapt_scale:
                    old = scales.scale
                    scales.learn()
                    adapting.restart(adapting.average * float(np.exp(np.mean(np.log(old / scales.scale)))))
                if t + 1 != ends[-1]:
                    scales.clear()
            if t == warmup - 1:
                size = adapting.average
                if trajectory.count:
                    trajectory.log_length = trajectory.log_average
    info = {
        "step": size,
        "scale": scales.scale,
        "length": steps * size if steps is not None else trajectory.length,
        "evaluations": evaluations * len(position),
    }
    return recorder.trace(size * scales.scale, target.names, info)


def _rate(acceptance: Array) -> float:
    """Harmonic mean over chains: one chain that is stuck counts, however well the others do."""
    return float(1.0 / np.mean(1.0 / np.maximum(acceptance, 1e-3)))


def _check_options(
    steps: int | None, length: float | None, jitter: float, target_acceptance: float, step: float | None
) -> None:
    if steps is not None and (isinstance(steps, bool) or int(steps) != steps or steps < 1):
        raise ValueError(f"steps must be an integer >= 1, got {steps!r}")
    if steps is not None and length is not None:
        raise ValueError(f"give steps or length, not both: got steps={steps!r}, length={length!r}")
    if length is not None and not (np.isfinite(length) and length > 0):
        raise ValueError(f"length must be positive and finite, got {length!r}")
    if not 0.0 <= jitter <= 1.0:
        raise ValueError(f"jitter must be between 0 and 1, got {jitter!r}")
    if not 0.0 < target_acceptance < 1.0:
        raise ValueError(f"target_acceptance must be between 0 and 1, got {target_acceptance!r}")
    if step is not None and not (np.isfinite(step) and step > 0):
        raise ValueError(f"step must be positive and finite, got {step!r}")
