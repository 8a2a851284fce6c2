"""Gibbs sampling for regular noise with outliers: indicators, their fraction, and the hyperparameters in turn.

The function f is integrated out (Kuss 2006, section 5.3.2, Algorithm 1) in all steps but the third. One round is

1. indicators c_i, one at a time in random order, O(n^2) for each that flips (`indicators`);
2. the fraction pi given the number |c| of outliers: Beta(a + |c|, b + n - |c|) for a Beta(a, b) prior. For any other
   prior the same Beta with a = b = 1 is a proposal, accepted with the ratio of prior densities;
3. fraction, regular scale s, inflation k and all indicators together, given a draw of f that is then dropped: given f
   the points are independent, so that the noise parameters move on the mixture density with indicators summed out, and
   the indicators are drawn afresh. Without this step the number of outliers and the noise parameters constrain each
   other to small steps;
4. one trajectory of Hamiltonian Monte Carlo for kernel, mean, s and k, on the exact evidence given the indicators, with
   noise variances v_i = s^2 k^(2 c_i):

       d log p / d log s = sum_i v_i (b_i^2 - R_ii),    d log p / d log k = sum_{c_i = 1} v_i (b_i^2 - R_ii).

A draw of f comes from one of the prior, f0, and of the noise, e: f = m + f0 + K A^-1 (y - m - f0 - e).

The posterior needs proper priors: if no point is an outlier the data do not say how wide outliers are, and if all are,
how narrow the rest. The outlier component is always the wider one, k > 1, by its transform.

If several modes of the hyperparameters are known, chains also jump between them before the third step, with a draw of f
from which the indicators are drawn afresh (`mode_jumping`). Indicators of points that are outliers together, or not at
all, move only one by one: run several chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.base import UnsupportedPairError
from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.parameters.priors import Beta
from cavity.runtime.interrupts import Postponed
from cavity.runtime.progress import ProgressLike
from cavity.sampling.affine import AffineTarget, pilot_rounds, stopped_by, whitened_by
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.draws import Draws
from cavity.sampling.hmc_within_gibbs import HMCWithinGibbs
from cavity.sampling.indicators import Flags, Indicators
from cavity.sampling.mode_jumping import JointJumps, Modes, jump_counts
from cavity.sampling.noise_given_f import noise_entries
from cavity.sampling.outlier_conditionals import (
    GivenFunction,
    GivenIndicators,
    noise_variances,
    whitening_at_mode,
)
from cavity.sampling.trace import Recorder, Trace, Until, check_counts

START_SPREAD = 0.2
"""Standard deviation of the chains' starting fractions around that of the model, in unconstrained units."""

ROUNDS_PER_BLOCK = 25
"""Rounds that a worker process makes before it hands its chain back."""


@dataclass
class GibbsSettings:
    """What all chains have in common."""

    model: Any
    X: Array
    y: Array
    warmup: int
    pilot: int
    sweeps: int
    leaps: int
    moves: Flags
    noise: Flags
    fraction_slot: int | None
    origin: Array
    factor: Array
    modes: Modes | None


class GibbsState(NamedTuple):
    """A chain after a round. `probability` (n,) is p(c_i = 1 | everything else) when point i was visited last."""

    theta: Array
    indicators: Flags
    probability: Array
    log_density: float
    acceptance: float
    divergent: bool


class GibbsChain:
    """One chain: call `step` once per round."""

    def __init__(
        self, settings: GibbsSettings, theta: Array, rng: np.random.Generator, center: Array | None = None
    ) -> None:
        self.settings, self.rng = settings, rng
        s = settings
        self.jumps = None if s.modes is None else JointJumps(s.modes, s.model, s.X, s.y)
        self.target = GivenIndicators(s.model.replace(theta), s.X, s.y, s.moves)
        self.whiten(s.origin, s.factor, s.pilot or s.warmup, adapt_scale=True)
        self.target.indicators = rng.random(len(s.y)) < float(self.target.model.likelihood.fraction)
        self._disperse(s.origin if center is None else center[s.moves])
        model = self.target.model
        prior = model.prior(s.X)
        variances = float(model.likelihood.scale) ** 2, model.likelihood.outlier_scale**2
        self._indicators = Indicators(
            prior.covariance_matrix(), s.y - prior.mean, self.target.indicators, *variances
        )
        self._noise = GivenFunction(model, s.y, s.noise)
        self._noise_hmc = HMCWithinGibbs(self._noise, s.warmup, s.leaps) if self._noise.dim else None
        self.log_density, self.acceptance, self.divergent = -np.inf, 1.0, False

    def whiten(self, origin: Array, factor: Array, warmup: int, adapt_scale: bool) -> None:
        """Move the hyperparameters in these coordinates from now on; `warmup` rounds adapt the step size."""
        self._white = AffineTarget(self.target, origin, factor)
        leaps = self.settings.leaps
        self._hmc = HMCWithinGibbs(self._white, warmup, leaps, adapt_scale) if self.target.dim else None

    def _disperse(self, center: Array) -> None:
        """Move the hyperparameters to a random point around a mode, as far from it as draws would be."""
        if self.target.dim:
            bounds = np.array(self.target.model.theta_bounds).reshape(-1, 2)[self.settings.moves]
            around = AffineTarget(self.target, center, self.settings.factor)
            z = around.start(np.zeros((1, self.target.dim)), self.rng, bounds)
            self.target.model = self.target.at(around.from_white(z)[0])

    @property
    def theta(self) -> Array:
        """All free hyperparameters, unconstrained."""
        return np.asarray(self.target.model.theta)

    def step(self) -> GibbsState:
        """One round: indicators, fraction, hyperparameters; the state after it."""
        with threads_for(len(self.settings.y)):
            self._move()
        return GibbsState(
            self.theta.copy(),
            self.target.indicators.copy(),
            self._indicators.probability.copy(),
            self.log_density,
            self.acceptance,
            self.divergent,
        )

    def _move(self) -> None:
        target, s = self.target, self.settings
        likelihood = target.model.likelihood
        self._indicators.update(self.rng, float(likelihood.fraction), s.sweeps)
        target.indicators = self._indicators.c.copy()
        if s.fraction_slot is not None:
            theta = self.theta.copy()
            theta[s.fraction_slot] = self._draw_fraction(s.fraction_slot)
            target.model = target.model.replace(theta)
        if self._hmc is None:
            self.log_density = float(target.log_density(np.zeros((1, 0)))[0])
            return
        jumped = self._jump()
        changed = self._update_given_function() or jumped
        move = self._hmc.step(self._white.to_white(self.theta[s.moves]), self.rng)
        self.log_density, self.acceptance, self.divergent = move.log_density, move.acceptance, move.divergent
        if move.moved:
            target.model = target.at(self._white.from_white(move.position))
        if move.moved or changed:
            self._refactorize()

    def _jump(self) -> bool:
        """Jump to another mode, with indicators that are drawn there; whether a jump was accepted."""
        target, rng = self.target, self.rng
        draw = self._indicators.draw_function
        found = self.jumps and self.jumps.attempt(self.theta, lambda: draw(rng, target.y), rng)
        if not found:
            return False
        theta, f = found
        target.model = target.model.replace(theta)
        self._draw_indicators(f)
        self._refactorize()
        return True

    def _draw_indicators(self, f: Array) -> None:
        """Draw all indicators given f (n,)."""
        target = self.target
        outlier = target.model.likelihood.outlier_probability(target.y, f, np.zeros(len(f)))
        target.indicators = self.rng.random(len(outlier)) < outlier

    def _refactorize(self) -> None:
        """Recompute the inverse that moves of the indicators need, for the present model and indicators."""
        target, s = self.target, self.settings
        prior, noise = target.model.prior(s.X), target.model.likelihood
        self._indicators.c = target.indicators.copy()
        self._indicators.replace(
            prior.covariance_matrix(), s.y - prior.mean, float(noise.scale) ** 2, noise.outlier_scale**2
        )

    def _update_given_function(self) -> bool:
        """Update noise parameters and indicators given a draw of f; whether any of them is free."""
        if self._noise_hmc is None:
            return False
        target, noise = self.target, self._noise
        noise.model, noise.f = target.model, self._indicators.draw_function(self.rng, target.y)
        move = self._noise_hmc.step(self.theta[noise.moves], self.rng)
        target.model = noise.at(move.position)
        self._draw_indicators(noise.f)
        return True

    def _draw_fraction(self, slot: int) -> float:
        """A draw of the fraction given the indicators, unconstrained."""
        entry, now = self.target.model.layout.free[slot], float(self.theta[slot])
        prior, count = entry.prior, int(self.target.indicators.sum())
        conjugate = isinstance(prior, Beta)
        a, b = (prior.a, prior.b) if conjugate else (1.0, 1.0)
        drawn = self.rng.beta(a + count, b + len(self.target.indicators) - count)
        low, high = entry.bounds or (0.0, 1.0)
        if not max(low, 0.0) < drawn < min(high, 1.0):  # no density there: a proposal that is rejected
            return now
        if not conjugate:
            old = float(self.target.model.likelihood.fraction)
            gain = float(prior.log_density(drawn) - prior.log_density(old))
            if not np.log1p(-self.rng.random()) < gain:
                return now
        return float(entry.transform.to_unconstrained(np.array([drawn]))[0])


def gibbs(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_draws: int = 1000,
    warmup: int = 500,
    chains: int = 4,
    rng: np.random.Generator | int | None = None,
    hyperparameters: bool = True,
    sweeps: int = 1,
    leaps: int = 8,
    n_jobs: int | None = None,
    modes: Modes | None = None,
    progress: ProgressLike = None,
    until: Until[Draws] | None = None,
) -> Draws:
    """Sample indicators and hyperparameters of a model with `MixtureOfGaussians` noise.

    Parameters
    ----------
    model : GP
        Chains start around its values. Parameters without a prior get a weak proper one.
    X, y : arrays (n, D), (n,)
    n_draws, warmup : int
        Rounds kept, and those before, in which the step size of Hamiltonian Monte Carlo is learned.
    chains : int
    rng : Generator or seed
        Each chain has a generator of its own spawned from it: results do not depend on `n_jobs`.
    hyperparameters : bool
        Whether fraction, scales and kernel are sampled too, or keep their values.
    sweeps : int
        Visits of each indicator per round.
    leaps : int
        Leapfrog steps per round, on average at most.
    n_jobs : int, optional
        Processes; chains take turns in one by default. An interrupt keeps what was drawn; with several processes all
        but the last few rounds.
    modes : Modes, optional
        Modes of the hyperparameters: chains start at all of them and jump between them.
    progress, until : see `cavity.sampling.trace`

    Returns
    -------
    Draws
        Of `theta`, of the indicators and of the noise variances that follow from them.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import MixtureOfGaussians
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[7] += 5.0
    >>> model = GP(1.0 * SE(1.0), MixtureOfGaussians(0.1, 0.1, 20.0))
    >>> found = gibbs(model, X, y, n_draws=50, warmup=20, chains=2, rng=0, hyperparameters=False, progress=False)
    >>> int(np.argmax(found.probability))
    7
    """
    check_counts(n_draws, warmup)
    settings = gibbs_settings(model, X, y, hyperparameters, warmup, sweeps, leaps, modes)
    generators = np.random.default_rng(rng).spawn(chains)
    centers = [None if modes is None else modes.locations[c % len(modes)] for c in range(chains)]
    started = [
        GibbsChain(settings, _start(settings.model, center, one), one, center)
        for one, center in zip(generators, centers)
    ]
    pilot, rest = settings.pilot, warmup - 2 * settings.pilot
    first: Draws | None = None
    if pilot:
        first = _run(settings, started, pilot, pilot, n_jobs, progress, None)
        if first.trace.stopped:
            return first
        white = whitened_by(settings.origin, settings.factor, first.trace.positions[:, :, settings.moves])
        for chain in started:
            chain.whiten(*white, rest, adapt_scale=False)
    try:
        found = _run(settings, started, n_draws, rest, n_jobs, progress, until)
    except (KeyboardInterrupt, TimeoutError) as stop:
        if first is None:
            raise
        return replace(first, trace=stopped_by(first.trace, stop))
    return replace(found, trace=replace(found.trace, warmup=warmup))


def gibbs_settings(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    hyperparameters: bool,
    warmup: int,
    sweeps: int,
    leaps: int,
    modes: Modes | None,
) -> GibbsSettings:
    """What all chains share, from the arguments of `gibbs`."""
    if not isinstance(model.likelihood, MixtureOfGaussians):
        raise UnsupportedPairError(
            f"Gibbs sampling of indicators needs MixtureOfGaussians noise, got {type(model.likelihood).__name__}; "
            'use inference="mcmc" with method="auto"'
        )
    bound, training = model.training(X, y, basis_in_kernel=True)
    data, targets = training.X, training.y
    bound = with_proper_priors(bound, data, targets) if hyperparameters else bound.freeze()
    layout = bound.layout
    place = bound.flat.size - bound.likelihood.flat.size  # the fraction is the first value of the likelihood
    slots = layout.slot[layout.where == place]
    moves = np.ones(len(layout.free), dtype=bool)
    slot = int(slots[0]) if slots.size else None
    if slot is not None:
        if np.sum(layout.slot == slot) > 1:
            raise ValueError("the fraction of outliers is tied to another parameter: untie it to sample it")
        moves[slot] = False
    noise = noise_entries(bound)
    origin, factor = whitening_at_mode(bound, data, targets, moves)
    pilot = pilot_rounds(warmup) if len(origin) else 0
    return GibbsSettings(
        bound, data, targets, warmup, pilot, sweeps, leaps, moves, noise, slot, origin, factor, modes
    )


def _run(
    settings: GibbsSettings,
    chains: list[GibbsChain],
    n_draws: int,
    warmup: int,
    n_jobs: int | None,
    progress: ProgressLike,
    until: Until[Draws] | None,
) -> Draws:
    """The draws of a run; the chains keep their last states, so that another run can go on."""
    model = settings.model
    C, n, p = len(chains), len(settings.y), len(model.names)
    indicators: list[Flags] = []
    probability = np.zeros(n)

    def as_draws(trace: Trace) -> Draws:
        jumps = jump_counts([chain.jumps for chain in chains])
        trace = replace(trace, names=tuple(model.names), jumps=jumps)
        flags = np.array(indicators, dtype=bool).reshape(-1, C, n)[: trace.draws]
        drawn = Draws(
            model,
            settings.X,
            settings.y,
            trace,
            indicators=np.ascontiguousarray(flags.swapaxes(0, 1)),
            probability=probability / max(trace.draws, 1),
            method="gibbs",
        )
        return replace(drawn, noise=_noise_of_draws(drawn))

    check = None if until is None else until.of(as_draws)
    recorder = Recorder("Gibbs sampling", C, p, n_draws, warmup, progress, check)
    with recorder:
        rounds = _rounds(chains) if n_jobs in (None, 1) else _rounds_in_processes(chains, n_jobs, recorder)
        for t, states in zip(recorder, rounds):
            if t >= warmup:
                indicators.append(np.array([state.indicators for state in states]))
                probability += np.mean([state.probability for state in states], axis=0)
                recorder.add(
                    np.array([state.theta for state in states]).reshape(C, p),
                    np.array([state.log_density for state in states]),
                    np.array([state.acceptance for state in states]),
                    np.array([state.divergent for state in states]),
                )
    with Postponed():  # Ctrl-C while noise variances are computed does not lose the draws
        return as_draws(recorder.trace())


def _noise_of_draws(draws: Draws) -> Array:
    """Noise variances (C, T, n) of the indicators."""
    assert draws.indicators is not None
    c = draws.indicators
    models = (draws.model_at(theta) for theta in draws.trace.pooled)
    found = [noise_variances(m.likelihood, one) for m, one in zip(models, c.reshape(-1, c.shape[2]))]
    return np.array(found).reshape(c.shape)


def _rounds(chains: list[GibbsChain]) -> Iterator[Sequence[GibbsState]]:
    """The states of all chains after each round, without end."""
    while True:
        yield [chain.step() for chain in chains]


def _rounds_in_processes(
    chains: list[GibbsChain], n_jobs: int | None, recorder: Recorder
) -> Iterator[Sequence[GibbsState]]:
    """The same from worker processes. Chains come back, in place, after each block: an interrupt loses one block."""
    from joblib import Parallel, delayed

    work: Any = delayed(_block)
    with Parallel(n_jobs=n_jobs) as workers:
        done = 0
        while done < recorder.total:
            rounds = min(ROUNDS_PER_BLOCK, recorder.total - done)
            blocks = workers(work(chain, rounds) for chain in chains)
            chains[:] = [chain for chain, _ in blocks]
            yield from zip(*(states for _, states in blocks))
            done += rounds


def _block(chain: GibbsChain, rounds: int) -> tuple[GibbsChain, list[GibbsState]]:
    return chain, [chain.step() for _ in range(rounds)]


def _start(model: Any, center: Array | None, rng: np.random.Generator) -> Array:
    """The model's hyperparameters, or those of a mode, shaken a little, inside their bounds."""
    theta = np.asarray(model.theta) if center is None else center
    low, high = np.array(model.theta_bounds).reshape(-1, 2).T
    return np.clip(theta + START_SPREAD * rng.standard_normal(theta.shape), low, high)
