"""Runs of annealed importance sampling along a `Bridge`, and the pilot that lays them out.

Each run starts with an independent draw of the start p_0 and visits the temperatures beta_1 < ... < beta_T = 1:

    ln w += (beta_t - beta_{t-1}) ln ratio(f_{t-1}),    then f_t by a move that leaves p_{beta_t} invariant.

The weight belongs to the state *before* the move (Neal 2001); with the state after it, as Kuss (2006) prints it, the
estimate is biased. E[w] = Z_1 / Z_0, so ln Z = ln Z_0 + ln mean w.

The pilot makes two short passes: in the first the conditional effective sample size chooses the temperatures, in the
second these are kept; both follow the step size to an acceptance of `TARGET_ACCEPTANCE`. The runs proper draw anew,
with temperatures and steps fixed beforehand.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.sampling.annealing.moves import QUARTER_TURN, Moves, RunState
from cavity.sampling.annealing.path import Bridge
from cavity.sampling.annealing.schedule import next_temperature, resampled

Tick = Callable[[], None]

TARGET_ACCEPTANCE = 0.75
KEEP = 0.9
"""Share of the runs that each step of the pilot's temperatures leaves effective."""

MOST_LEVELS = 400
"""Levels after which the pilot gives up choosing temperatures, and jumps to the end."""

PASS_TWO = (60, 240)
"""Fewest and most steps of the pilot's second pass."""

GAIN = 0.3
"""Change of the log step per unit of acceptance off target."""


@dataclass(frozen=True)
class Annealing:
    """Log evidence from R runs of one length along one schedule.

    Attributes
    ----------
    log_evidence : float
        ln Z_0 + ln mean w.
    standard_error : float
        From the spread of the weights; it cannot exceed 1 however wrong the runs are: see `sd_log_weights`.
    effective_runs : float
        (sum w)^2 / sum w^2, between 1 and R.
    log_weights : array (R,)
    sd_log_weights : float
        Standard deviation of ln w over runs; beyond 1 the estimate cannot be believed.
    acceptance : float
        Mean acceptance probability of the moves.
    lowest_acceptance : float
        The mean over the worst tenth of the temperatures.
    schedule : array (T + 1,)
    start : str
        "prior", "ep" or "laplace".
    metric : str
        Whose curvatures scale the moves: "start", "none", "sites", "middle", "bound".
    time : float
        Seconds.
    latent : array (R, n)
        Latent values at the end: with weights `log_weights`, draws from the posterior.
    """

    log_evidence: float
    standard_error: float
    effective_runs: float
    log_weights: Array
    sd_log_weights: float
    acceptance: float
    lowest_acceptance: float
    schedule: Array
    start: str
    metric: str
    time: float
    latent: Array = field(repr=False)

    @property
    def runs(self) -> int:
        """R."""
        return len(self.log_weights)

    @property
    def steps(self) -> int:
        """T."""
        return len(self.schedule) - 1

    @property
    def difficulty(self) -> float:
        """c in se^2 = c / (T R): the variance of ln w times T."""
        return self.sd_log_weights**2 * self.steps


def weight_statistics(log_weights: Array) -> tuple[float, float, float, float]:
    """ln mean w, its standard error, effective runs, sd of ln w (inf if some weights are zero)."""
    R = len(log_weights)
    log_mean = float(logsumexp(log_weights) - np.log(R))
    if not np.isfinite(log_mean):
        return -np.inf, np.inf, 0.0, np.inf
    w = np.exp(log_weights - np.max(log_weights))
    effective = float(w.sum() ** 2 / np.sum(w * w))
    error = float(np.std(w, ddof=1) / (w.mean() * np.sqrt(R))) if R > 1 else np.inf
    finite = np.isfinite(log_weights).all()
    sd = float(np.std(log_weights, ddof=1)) if finite and R > 1 else np.inf
    return log_mean, error, effective, sd


def anneal(
    bridge: Bridge,
    schedule: Array,
    moves: Moves,
    runs: int,
    rng: np.random.Generator,
    start: str = "prior",
    metric: str = "none",
    tick: Tick | None = None,
) -> Annealing:
    """Runs from the start of the bridge to the posterior."""
    began = time.perf_counter()
    state = RunState.at(bridge, rng.standard_normal((runs, bridge.dim)))
    log_w, accepted = np.zeros(runs), np.ones(max(1, len(schedule) - 2))
    for t in range(1, len(schedule)):
        log_w = log_w + (schedule[t] - schedule[t - 1]) * state.log_ratio
        if t < len(schedule) - 1:
            state, accepted[t - 1] = moves.move(bridge, state, float(schedule[t]), rng)
        if tick is not None:
            tick()
    seconds = time.perf_counter() - began
    return summary(bridge.log_mass, log_w, accepted, schedule, start, metric, seconds, state.F)


def summary(
    log_mass: float,
    log_w: Array,
    accepted: Array,
    schedule: Array,
    start: str,
    metric: str,
    seconds: float,
    latent: Array,
) -> Annealing:
    """The estimate from weights and acceptances."""
    log_mean, error, effective, sd = weight_statistics(log_w)
    tenths = np.array_split(accepted, min(10, len(accepted)))
    lowest = min(float(part.mean()) for part in tenths)
    return Annealing(
        log_mass + log_mean,
        error,
        effective,
        log_w,
        sd,
        float(accepted.mean()),
        lowest,
        schedule,
        start,
        metric,
        seconds,
        latent,
    )


# --- the pilot ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pilot:
    """What a pilot found: temperatures, steps, and the expected cost of the runs proper.

    Attributes
    ----------
    levels : array
        Temperatures of equal conditional effective sample size.
    moves : Moves
    difficulty : float
        Estimate of c in se^2 = c / (T R) along `levels`.
    seconds : float
        Per temperature.
    """

    levels: Array
    moves: Moves
    difficulty: float
    seconds: float

    @property
    def cost(self) -> float:
        """Seconds times variance of ln w: the criterion for a choice of moves."""
        return self.difficulty * self.seconds


def _step_factor(factor: float, acceptance: float) -> float:
    return float(factor * np.exp(GAIN * (acceptance - TARGET_ACCEPTANCE)))


def run_pilot(
    bridge: Bridge, moves: Moves, runs: int, rng: np.random.Generator, refine: bool = True
) -> Pilot:
    """Temperatures and step sizes for the runs proper, from short runs that are discarded."""
    levels, moves, difficulty, seconds = _choose_temperatures(bridge, moves, runs, rng)
    if not refine or len(levels) <= 2:
        return Pilot(levels, moves, difficulty, seconds)
    steps = int(np.clip(3 * len(levels), *PASS_TWO))
    moves, difficulty, seconds = _adapt_steps(bridge, resampled(levels, steps), moves, runs, rng)
    return Pilot(levels, moves, difficulty, seconds)


def _choose_temperatures(
    bridge: Bridge, moves: Moves, runs: int, rng: np.random.Generator
) -> tuple[Array, Moves, float, float]:
    state = RunState.at(bridge, rng.standard_normal((runs, bridge.dim)))
    began = time.perf_counter()
    beta, levels, steps, factor = 0.0, [0.0], [moves.step(0.0)], 1.0
    record = _ExpectedVariance()
    while beta < 1.0:
        last, beta = beta, next_temperature(state.log_ratio, beta, KEEP)
        if len(levels) >= MOST_LEVELS:
            beta = 1.0
        before = state.log_ratio
        state, acceptance = moves.move(bridge, state, beta, rng, factor)
        record.add(beta - last, before, state.log_ratio)
        levels.append(beta)
        steps.append(min(QUARTER_TURN, moves.step(beta) * factor))
        factor = min(_step_factor(factor, acceptance), QUARTER_TURN / moves.step(beta))
    seconds = (time.perf_counter() - began) / (len(levels) - 1)
    tuned = _tuned(moves, levels, steps)
    return np.array(levels), tuned, record.variance * (len(levels) - 1), seconds


def _adapt_steps(
    bridge: Bridge, schedule: Array, moves: Moves, runs: int, rng: np.random.Generator
) -> tuple[Moves, float, float]:
    state = RunState.at(bridge, rng.standard_normal((runs, bridge.dim)))
    began, factor = time.perf_counter(), 1.0
    record, steps = _ExpectedVariance(), [moves.step(0.0)]
    for last, beta in pairwise(schedule):
        before = state.log_ratio
        state, acceptance = moves.move(bridge, state, float(beta), rng, factor)
        record.add(float(beta - last), before, state.log_ratio)
        steps.append(min(QUARTER_TURN, moves.step(float(beta)) * factor))
        factor = min(_step_factor(factor, acceptance), QUARTER_TURN / moves.step(float(beta)))
    T = len(schedule) - 1
    seconds = (time.perf_counter() - began) / T
    return _tuned(moves, list(schedule), steps), record.variance * T, seconds


def _tuned(moves: Moves, levels: list[float], steps: list[float]) -> Moves:
    """The moves with these steps, smoothed: acceptance rates of a few runs are noisy."""
    half = max(1, len(steps) // 24)
    padded = np.pad(np.log(steps), half, mode="edge")
    smooth = np.exp(np.convolve(padded, np.full(2 * half + 1, 1.0 / (2 * half + 1)), mode="valid"))
    return replace(moves, levels=np.array(levels), steps=smooth)


class _ExpectedVariance:
    """Variance of ln w in runs proper, as expected from the moves of a pilot.

    ln w sums d_beta ln ratio along a correlated sequence. With correlations rho from one temperature to the next, as
    if of first order, its variance is about sum d_beta^2 var(ln ratio) (1 + rho) / (1 - rho).
    """

    WINDOW = 8
    WORST = 0.97

    def __init__(self) -> None:
        self._variance: list[float] = []
        self._rho: list[float] = []

    def add(self, step: float, before: Array, after: Array) -> None:
        """A step in beta and ln ratio of all runs before and after the move there."""
        known = np.isfinite(before) & np.isfinite(after)
        if known.sum() < 2:
            return
        a, b = step * before[known], step * after[known]
        with np.errstate(over="ignore", invalid="ignore"):
            a, b = a - a.mean(), b - b.mean()
            spread = np.sqrt(np.mean(a * a)) * np.sqrt(np.mean(b * b))
            variance = float(np.mean(a * a)) * len(a) / (len(a) - 1)
            rho = float(np.mean(a * b) / spread) if spread > 0 else 0.0
        self._variance.append(variance if np.isfinite(variance) else np.inf)
        self._rho.append(rho if np.isfinite(rho) else 1.0)

    @property
    def variance(self) -> float:
        """Of ln w; infinite if nothing is known."""
        if not self._variance:
            return np.inf
        width = min(self.WINDOW, len(self._rho))
        rho = np.convolve(self._rho, np.full(width, 1.0 / width), mode="same")
        rho = np.clip(rho, 0.0, self.WORST)
        return float(np.sum(np.asarray(self._variance) * (1 + rho) / (1 - rho)))
