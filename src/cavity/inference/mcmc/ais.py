"""Log evidence by annealed importance sampling: an estimate with an error bar and a certificate, or a refusal.

`annealed_importance_sampling` lays out the runs by a pilot, starts them at a Gaussian approximation where that works
and at the prior otherwise, repeats them with more temperatures until the error asked for is reached or the time is
up, and certifies the result only if a second set of runs agrees (`cavity.inference.mcmc.certificate`). The mathematics
is in `bridge`, `tempered_moves`, `tempering` and `annealing`; hyperparameters are fixed throughout.

`reverse_annealing` runs the other way from exact draws of the posterior, which exist where the data were simulated
from the model: E[-ln w] is then above ln Z as E[ln w] of the usual direction is below (Grosse, Ghahramani and Adams
2015). On real data there is no exact draw, and no such claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.inference.mcmc.annealing import Annealing, Kernel, Pilot, anneal, lay_out, weight_statistics
from cavity.inference.mcmc.bridge import Bridge, largest_curvature
from cavity.inference.mcmc.certificate import faults, seconds_needed, steps_needed, verdict
from cavity.inference.mcmc.tempered_moves import State
from cavity.inference.mcmc.tempering import as_schedule, power_schedule, resampled
from cavity.inference.mcmc.trace import ProgressLike
from cavity.inference.registry import as_inference
from cavity.latent.conditioned import Conditioned
from cavity.latent.dense import DensePrior, ImproperPosteriorError
from cavity.likelihoods.base import Likelihood
from cavity.linalg import threads_for
from cavity.progress import Progress
from cavity.sites import Sites

Array = NDArray[np.float64]

STARTS = ("auto", "prior", "ep", "laplace")
MOVES = ("hmc", "elliptical")
METRICS = ("auto", "none", "sites", "middle", "bound")

DEFAULT_BUDGET = 60.0
DEFAULT_ERROR = 0.1
FEWEST_STEPS = 30
LONGEST_GROWTH = 8.0
"""A next set of runs is at most so many times longer than the last."""

SPREADS = np.linspace(-4.0, 4.0, 17)
"""Where, in standard deviations, the curvature of the likelihood is looked at."""


@dataclass(frozen=True)
class AISResult(Annealing):
    """Log evidence by annealed importance sampling.

    All attributes of `Annealing` (`log_evidence`, `standard_error`, `effective_runs`, `log_weights`, `sd_log_weights`,
    `acceptance`, `schedule`, `start`, `latent`, ...) are those of the best set of runs; `time` is that of everything.

    Attributes
    ----------
    certified : bool
        Whether the estimate may be believed to a few standard errors (see `cavity.inference.mcmc.certificate`).
    reason : str
        One sentence: what supports the estimate, or why it is refused and what time would be needed.
    second : Annealing or None
        The set of runs that confirms it, or fails to.
    sets : tuple of Annealing
        All sets that were run, in order.
    seconds_needed : float
        Estimate of the time for a certificate; that of this call where it has one.
    jitter : float
        What was added to the diagonal of the covariance matrix before it could be factorized.
    interrupted : bool
    """

    certified: bool = False
    reason: str = ""
    second: Annealing | None = None
    sets: tuple[Annealing, ...] = field(default=(), repr=False)
    seconds_needed: float = np.nan
    jitter: float = 0.0
    interrupted: bool = False

    def __str__(self) -> str:
        word = "certified" if self.certified else "NOT certified"
        return f"log evidence {self.log_evidence:.3f} +/- {self.standard_error:.3f}, {word}: {self.reason}"


# --- the problem ----------------------------------------------------------------------------------------------


@dataclass
class _Way:
    """One start with its bridge and pilot."""

    start: str
    metric: str
    bridge: Bridge
    pilot: Pilot


class _Problem:
    """The data and the model, with the ways that were laid out so far."""

    def __init__(
        self,
        model: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        kernel: Kernel,
        metric: str,
    ) -> None:
        model = _without_vague_basis(model)
        bound, X, self.y, self.weight = model._given(X, y, sample_weight)
        self.likelihood: Likelihood = bound.likelihood
        if self.likelihood.n_latent != 1:
            raise ValueError(
                f"annealing needs one latent value per observation, {type(self.likelihood).__name__} has "
                f"{self.likelihood.n_latent}; sample it with HMC instead"
            )
        if self.y.ndim != 1:
            raise ValueError(f"y must have one column, got shape {self.y.shape}; anneal the targets in turn")
        self.prior: DensePrior = bound.prior(X)
        self.kernel, self.metric = kernel, metric
        self.ways: dict[str, _Way] = {}
        self._sites: dict[str, Sites | None] = {}

    @property
    def several_modes(self) -> bool:
        """Whether the posterior may have them."""
        return not self.likelihood.log_concave

    def sites(self, name: str) -> Sites | None:
        """Sites of an approximation, or None where it fails."""
        if name not in self._sites:
            rule = as_inference(name)
            found: Sites | None = None
            try:
                if rule.supports(self.likelihood):
                    found = rule.infer(self.prior, self.likelihood, self.y, self.weight).sites
            except (ValueError, np.linalg.LinAlgError, NotImplementedError):
                found = None
            self._sites[name] = found
        return self._sites[name]

    def best_sites(self) -> Sites | None:
        """Those of EP, or of Laplace's method."""
        return self.sites("ep") or self.sites("laplace")

    def bridge(self, start: str, metric: str) -> Bridge:
        """The path from a start, with the curvatures of a metric."""
        given = self.prior, self.likelihood, self.y, self.weight
        if start != "prior":
            return Bridge(*given, sites=self.sites(start))
        reference = self.best_sites() if metric != "none" else None
        if reference is None:
            return Bridge(*given)
        center = Conditioned(self.prior, reference)
        sites = np.maximum(reference.precision, 0.0)
        bound = self._bound(center)
        curvature = {"sites": sites, "bound": bound, "middle": np.sqrt(sites * bound)}[metric]
        # only where sites and bound are one is the likelihood nearly Gaussian, and the end known at all temperatures
        near = bool(np.all(np.abs(sites - bound) <= 0.05 * bound))
        return Bridge(*given, curvature=curvature, end=center.mean if near else None)

    def _bound(self, center: Conditioned) -> Array:
        places = np.concatenate(
            [
                self.prior.mean + SPREADS[:, None] * np.sqrt(self.prior.diagonal),
                center.mean + SPREADS[:, None] * np.sqrt(center.var),
            ]
        )
        return largest_curvature(self.likelihood, self.y, places, self.weight)

    def way(self, start: str, runs: int, rng: np.random.Generator) -> _Way | None:
        """A start with its bridge and pilot, or None where the start does not exist."""
        if start not in self.ways:
            if start != "prior" and self.sites(start) is None:
                return None
            try:
                self.ways[start] = self._lay_out(start, runs, rng)
            except ImproperPosteriorError:
                return None
        return self.ways[start]

    def _lay_out(self, start: str, runs: int, rng: np.random.Generator) -> _Way:
        names = [self.metric]
        if start != "prior":
            names = ["start"]
        elif self.metric == "auto":
            names = ["none"] if self.kernel.kind == "elliptical" else ["middle", "sites"]
        best: _Way | None = None
        for name in names:
            bridge = self.bridge(start, name)
            way = _Way(start, name, bridge, lay_out(bridge, self.kernel, runs, rng, refine=len(names) == 1))
            if best is None or way.pilot.cost < best.pilot.cost:
                best = way
        assert best is not None
        if len(names) > 1:
            best.pilot = lay_out(best.bridge, best.pilot.kernel, runs, rng)
        return best


def _without_vague_basis(model: Any) -> Any:
    """Basis functions are integrated through the covariance, as for every rule that is not exact."""
    if model.inference.name != "exact":
        return model
    changed = model.with_likelihood(model.likelihood)
    changed.inference = as_inference("laplace")
    return changed


# --- the driver -----------------------------------------------------------------------------------------------


def annealed_importance_sampling(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    runs: int = 16,
    steps: int | None = None,
    schedule: str | float | ArrayLike = "adaptive",
    start: str = "auto",
    moves: str = "hmc",
    leapfrogs: int = 8,
    updates: int = 1,
    metric: str = "auto",
    target_error: float | None = None,
    budget: float | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
    progress: ProgressLike = None,
) -> AISResult:
    """Log evidence of a model at its hyperparameters, by annealed importance sampling.

    Parameters
    ----------
    model : GP
        With any likelihood of one latent value per observation.
    X, y : arrays (n, D), (n,)
    runs : int
        R, independent runs that advance together; fewer than 8 are never certified.
    steps : int, optional
        T, temperatures of the main set of runs. By default as many as `target_error` needs and `budget` allows: sets
        of increasing length are run until the estimate is certified.
    schedule : "adaptive", "power", float or array
        Temperatures: of equal conditional effective sample size in the pilot, (t/T)^4, (t/T) to another power, or as
        given (increasing from 0 to 1). The confirming set of runs uses "power" where this is "adaptive" and the
        reverse.
    start : "auto", "prior", "ep" or "laplace"
        Where runs start. "auto" tries the Gaussian of EP (or of Laplace's method), and the prior where the log
        weights of a set of runs from there vary by more than 1.
    moves : "hmc" or "elliptical"
        Hamiltonian moves need d log p / df; elliptical slice moves do not, and are much slower to forget where the
        data are strong.
    leapfrogs, updates : int
        Most leapfrog steps of a trajectory, moves per temperature.
    metric : "auto", "none", "sites", "middle" or "bound"
        Curvatures that scale the moves from the prior: those of the sites of EP, the largest that the likelihood has,
        their geometric mean; "auto" lets a pilot choose ("none" for elliptical moves).
    target_error : float, optional
        Standard error asked for; a certificate then needs it. Without one, 0.1 is aimed at.
    budget : float, optional
        Seconds, 60 by default, when `steps` is not given. The pilot and the first short set may exceed a very small
        one. How many steps fit depends on the clock, so that results with a binding budget are not reproducible.
    sample_weight : array (n,), optional
        Powers of the likelihood factors.
    seed : int or Generator, optional
    progress : optional
        As for the samplers: a callback(done, total), a `Progress`, True or False.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.gp import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X = np.linspace(-2, 2, 12)[:, None]
    >>> y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    >>> result = annealed_importance_sampling(GP(4.0 * SE(1.0), Probit()), X, y, seed=0)
    >>> result.certified, round(result.log_evidence, 1)
    (True, -4.6)
    """
    _check(runs, steps, start, moves, leapfrogs, updates, metric, target_error, budget)
    rng = np.random.default_rng(seed)
    kernel = Kernel(moves, leapfrogs, updates=updates)
    with threads_for(len(np.asarray(y))):
        problem = _Problem(model, X, y, sample_weight, kernel, metric)
        search = _Search(problem, runs, schedule, start, target_error, budget, rng, progress)
        try:
            search.fixed(steps) if steps is not None else search.growing()
        except KeyboardInterrupt:
            if not search.sets:
                raise
            search.interrupted = True
        return search.result()


def _check(
    runs: int,
    steps: int | None,
    start: str,
    moves: str,
    leapfrogs: int,
    updates: int,
    metric: str,
    target_error: float | None,
    budget: float | None,
) -> None:
    counts = {"runs": (runs, 2), "leapfrogs": (leapfrogs, 1), "updates": (updates, 1)}
    if steps is not None:
        counts["steps"] = (steps, 1)
    for name, (value, least) in counts.items():
        if isinstance(value, bool) or int(value) != value or value < least:
            raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    for name, text, known in (("start", start, STARTS), ("moves", moves, MOVES), ("metric", metric, METRICS)):
        if text not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {text!r}")
    for name, number in (("target_error", target_error), ("budget", budget)):
        if number is not None and not number > 0:
            raise ValueError(f"{name} must be positive, got {number!r}")


class _Search:
    """Sets of runs, one after the other, until one is certified or time is up."""

    def __init__(
        self,
        problem: _Problem,
        runs: int,
        schedule: str | float | ArrayLike,
        start: str,
        target_error: float | None,
        budget: float | None,
        rng: np.random.Generator,
        progress: ProgressLike,
    ) -> None:
        self.problem, self.runs, self.rng = problem, runs, rng
        self.schedules = _schedules(schedule)
        self.target, self.aim = target_error, target_error or DEFAULT_ERROR
        self.budget = budget or DEFAULT_BUDGET
        self.sets: list[Annealing] = []
        self._confirming: list[Annealing] = []
        self.interrupted = False
        self._start, self._progress = start, progress
        self._began = time.perf_counter()

    # --- one set ----------------------------------------------------------------------------------------------

    def way(self, start: str) -> _Way:
        found = self.problem.way(start, self.runs, self.rng)
        if found is None:
            raise ValueError(
                f"start={start!r} does not exist for this model and these data; use start='prior'"
            )
        return found

    def first_way(self) -> _Way:
        """Where the main runs start."""
        names = ("ep", "laplace", "prior") if self._start == "auto" else (self._start,)
        for name in names[:-1]:
            found = self.problem.way(name, self.runs, self.rng)
            if found is not None and np.isfinite(found.pilot.difficulty):
                return found
        return self.way(names[-1])

    def other_way(self, way: _Way) -> _Way:
        """Where the confirming runs start: elsewhere if there may be several modes."""
        if not self.problem.several_modes:
            return way
        for name in ("ep", "laplace") if way.start == "prior" else ("prior",):
            found = self.problem.way(name, self.runs, self.rng)
            if found is not None:
                return found
        return way

    def run(self, way: _Way, steps: int, which: int) -> Annealing:
        """A set of runs along the first or the second schedule."""
        levels = self.schedules[which](way.pilot, steps)
        with _Report(self._progress, f"annealing from {way.start}", len(levels) - 1) as report:
            found = anneal(
                way.bridge,
                levels,
                way.pilot.kernel,
                self.runs,
                self.rng,
                way.start,
                way.metric,
                report.advance,
            )
        self.sets.append(found)
        if which == 1:
            self._confirming.append(found)
        return found

    # --- how many and how long --------------------------------------------------------------------------------

    def fixed(self, steps: int) -> None:
        """A set of given length, and another of half of it along the other schedule."""
        way = self.first_way()
        main = self.run(way, steps, 0)
        if main.sd_log_weights > 1.0 and self._start == "auto" and way.start != "prior":
            way = self.way("prior")
            self.run(way, steps, 0)
            way = self.problem.ways[self._main_candidates()[0].start]
        other = self.other_way(way)
        self.run(other, steps if other is not way else max(1, steps // 2), 1)

    def growing(self) -> None:
        """Sets of increasing length until a certificate, or until the next would not fit into the budget."""
        way = self.first_way()
        main = self._grow(way)
        if faults(main, None) and self._start == "auto" and way.start != "prior":
            way = self.way("prior")
            main = self._grow(way)
        if not faults(main, self.target):
            self._confirm(way, main)

    def _grow(self, way: _Way) -> Annealing:
        wanted = min(0.8, self.aim * np.sqrt(self.runs))
        steps = max(
            FEWEST_STEPS, min(int(1.2 * way.pilot.difficulty / wanted**2), self._affordable(way, 0.5))
        )
        while True:
            found = self.run(way, steps, 0)
            if not faults(found, self.aim):
                return found
            needed = min(int(1.2 * steps_needed(found, self.aim)), int(LONGEST_GROWTH * steps))
            needed = min(max(needed, int(1.5 * steps)), self._affordable(way, 0.6))
            if needed < 1.3 * steps:
                return found
            steps = needed

    def _confirm(self, way: _Way, main: Annealing) -> None:
        other = self.other_way(way)
        steps = max(FEWEST_STEPS, main.steps // 2)
        if other is not way:
            steps = max(FEWEST_STEPS, int(1.3 * other.pilot.difficulty))
        steps = max(FEWEST_STEPS, min(steps, self._affordable(other, 1.0)))
        for _ in range(3):
            found = self.run(other, steps, 1)
            usable = not faults(found, None, 1.5)
            longer = min(int(1.3 * found.difficulty) if np.isfinite(found.difficulty) else 0, 8 * steps)
            longer = min(longer, self._affordable(other, 1.0))
            if usable or longer < 1.3 * steps:
                return
            steps = longer

    def _affordable(self, way: _Way, share: float) -> int:
        """Steps that fit into a share of the time that is left."""
        left = self.budget - (time.perf_counter() - self._began)
        last = [s for s in self.sets if s.start == way.start]
        per_step = last[-1].time / last[-1].steps if last else way.pilot.seconds
        return max(0, int(share * left / max(per_step, 1e-9)))

    # --- what came out ----------------------------------------------------------------------------------------

    def _main_candidates(self) -> list[Annealing]:
        """Sets in order of credibility: the fewest faults, main before confirming ones, the smallest spread."""
        return sorted(
            self.sets,
            key=lambda s: (
                len(faults(s, self.target)),
                any(s is c for c in self._confirming),
                s.sd_log_weights,
            ),
        )

    def result(self) -> AISResult:
        """The best set with its confirmation."""
        main = self._main_candidates()[0]
        several = self.problem.several_modes
        others = [s for s in self.sets if s is not main]
        # the confirming set is the best one that was not run in the same way
        others.sort(
            key=lambda s: (several and s.start == main.start, len(faults(s, None, 1.5)), s.sd_log_weights)
        )
        second = others[0] if others else None
        why = verdict(main, second, several, self.target)
        if self.interrupted and why:
            why = "interrupted: " + why
        elapsed = time.perf_counter() - self._began
        needed = elapsed
        if why:
            needed = seconds_needed(main, self.target)
            for s in [second] if second is not None and several else []:
                needed += seconds_needed(s)
            needed = max(needed, 1.2 * elapsed)
            reason = f"{why}. A certificate would need about {_duration(needed)}"
            reason += " (from here, a rough guess)" if main.sd_log_weights > 3 else ""
        else:
            assert second is not None
            reason = (
                f"{main.runs} runs of {main.steps} temperatures from {main.start}, sd of the log weights "
                f"{main.sd_log_weights:.2g}; a second set from {second.start} gives {second.log_evidence:.2f} +/- "
                f"{second.standard_error:.2g}"
            )
        values = {f.name: getattr(main, f.name) for f in fields(Annealing)} | {"time": elapsed}
        return AISResult(
            **values,
            certified=not why,
            reason=reason,
            second=second,
            sets=tuple(self.sets),
            seconds_needed=needed,
            jitter=self.problem.prior.factor.jitter,
            interrupted=self.interrupted,
        )


def _schedules(given: Any) -> tuple[Callable[[Pilot, int], Array], Callable[[Pilot, int], Array]]:
    """Functions of pilot and number of steps: the schedule asked for, and another one."""

    def adaptive(pilot: Pilot, steps: int) -> Array:
        return resampled(pilot.levels, steps)

    def power(exponent: float) -> Callable[[Pilot, int], Array]:
        return lambda pilot, steps: power_schedule(steps, exponent)

    if isinstance(given, str):
        if given not in ("adaptive", "power"):
            raise ValueError(f"schedule must be 'adaptive', 'power', a number or an array, got {given!r}")
        return (adaptive, power(4.0)) if given == "adaptive" else (power(4.0), adaptive)
    if np.ndim(given) == 0:
        return power(float(given)), adaptive
    levels = as_schedule(given)
    return (lambda pilot, steps: levels if steps == len(levels) - 1 else resampled(levels, steps)), adaptive


def _duration(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "an unknown time"
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    if seconds < 7200:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.0f} h"


class _Report:
    """Progress in whichever form the caller wants it."""

    def __init__(self, progress: ProgressLike, label: str, total: int) -> None:
        self._callback: Callable[[int, int], None] | None = None
        self._bar: Progress | None = None
        self._own, self._done, self._total = False, 0, total
        if isinstance(progress, Progress):
            self._bar = progress
        elif callable(progress):
            self._callback = progress
        else:
            self._bar, self._own = Progress(label, total, progress), True

    def __enter__(self) -> _Report:
        return self

    def advance(self) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.advance()
        elif self._callback is not None:
            self._callback(self._done, self._total)

    def __exit__(self, *error: Any) -> None:
        if self._own and self._bar is not None:
            self._bar.__exit__(*error)


# --- the other direction --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReverseResult:
    """Annealing from the posterior back to the start.

    Attributes
    ----------
    upper : float
        Mean of -ln w: above ln Z in expectation.
    standard_error : float
        Of `upper`, over runs. Runs from one and the same exact draw share its luck, which this does not contain.
    log_evidence : float
        -ln mean w, a consistent estimate.
    log_weights : array (R,)
    sd_log_weights, acceptance, time : float
    schedule : array (T + 1,)
    start : str
        Where the way back ends.
    """

    upper: float
    standard_error: float
    log_evidence: float
    log_weights: Array
    sd_log_weights: float
    acceptance: float
    schedule: Array
    start: str
    time: float


def reverse_annealing(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    f_exact: ArrayLike,
    *,
    runs: int = 16,
    steps: int = 1000,
    schedule: str | float | ArrayLike = "adaptive",
    start: str = "prior",
    moves: str = "hmc",
    leapfrogs: int = 8,
    metric: str = "auto",
    sample_weight: ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
    progress: ProgressLike = None,
) -> ReverseResult:
    """The upper side of the log evidence, from exact draws of the posterior: for simulated data only.

    Where y was simulated as y ~ p(y | f) with f drawn from the prior at X, that f is an exact draw of p(f | y), and
    annealing from it back to the start gives ln w with E[-ln w] >= ln Z (over data and draws). Together with the usual
    direction the evidence is bracketed. Values of f that are not exact draws give nothing of the kind.

    Parameters
    ----------
    f_exact : array (n,) or (S, n)
        Exact draws; runs take them in turn.

    The other parameters are those of `annealed_importance_sampling`.
    """
    _check(runs, steps, start, moves, leapfrogs, 1, metric, None, None)
    rng = np.random.default_rng(seed)
    with threads_for(len(np.asarray(y))):
        problem = _Problem(model, X, y, sample_weight, Kernel(moves, leapfrogs), metric)
        F = np.atleast_2d(np.asarray(f_exact, dtype=float))
        if F.ndim != 2 or F.shape[1] != problem.prior.n or not np.isfinite(F).all():
            raise ValueError(
                f"f_exact must hold {problem.prior.n} finite values per draw, got shape {F.shape}"
            )
        search = _Search(problem, runs, schedule, start, None, None, rng, progress)
        way = search.first_way()
        levels = search.schedules[0](way.pilot, steps)
        began = time.perf_counter()
        state = State.at(way.bridge, way.bridge.position(F[np.arange(runs) % len(F)]))
        log_w, accepted = np.zeros(runs), np.ones(max(1, len(levels) - 2))
        with _Report(progress, "annealing in reverse", len(levels) - 1) as report:
            for t in range(len(levels) - 1, 0, -1):
                log_w = log_w + (levels[t - 1] - levels[t]) * state.log_ratio
                if t > 1:
                    state, accepted[t - 2] = way.pilot.kernel.move(
                        way.bridge, state, float(levels[t - 1]), rng
                    )
                report.advance()
    log_mean, _, _, sd = weight_statistics(log_w)
    mass = way.bridge.log_mass
    return ReverseResult(
        mass - float(log_w.mean()),
        sd / np.sqrt(runs),
        mass - log_mean,
        log_w,
        sd,
        float(accepted.mean()),
        levels,
        way.start,
        time.perf_counter() - began,
    )
