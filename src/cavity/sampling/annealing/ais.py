"""Log evidence by annealed importance sampling: an estimate with an error bar and a certificate, or a refusal.

`annealed_importance_sampling` chooses temperatures and steps by a pilot, starts at a Gaussian approximation if there is
one and at the prior otherwise, repeats runs with more temperatures until the error asked for is reached or time is up,
and certifies the result only if a second set of runs agrees (`certificate`). The mathematics is in `path`, `moves`,
`schedule` and `runs`; hyperparameters are fixed throughout.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.threads import threads_for
from cavity.runtime.progress import ProgressLike, ProgressReport
from cavity.sampling.annealing.certificate import (
    AGREEMENT,
    LARGEST_SD_OF_SECOND,
    disagreement,
    faults,
    seconds_needed,
    steps_needed,
    verdict,
)
from cavity.sampling.annealing.moves import Moves
from cavity.sampling.annealing.runs import Annealing, anneal
from cavity.sampling.annealing.setup import AnnealingSetup, Start, check_arguments, schedule_functions

DEFAULT_MAX_TIME = 60.0
DEFAULT_ERROR = 0.1
FEWEST_STEPS = 30
LONGEST_GROWTH = 8.0
"""Largest ratio of the lengths of a set of runs and the one before."""

MANY_STEPS = 2000
"""Steps from an approximation beyond which a pilot from the prior pays."""


@dataclass(frozen=True)
class AISResult(Annealing):
    """Log evidence by annealed importance sampling.

    All attributes of `Annealing` (`log_evidence`, `standard_error`, `effective_runs`, `log_weights`, `sd_log_weights`,
    `acceptance`, `schedule`, `start`, `latent`, ...) are those of the best set of runs; `time` is that of everything.

    Attributes
    ----------
    certified : bool
        Whether the estimate may be believed to a few standard errors (see `cavity.sampling.annealing.certificate`).
    reason : str
        One sentence: what supports the estimate, or why it is refused and what time would be needed.
    second : Annealing or None
        The set of runs that confirms it, or fails to.
    sets : tuple of Annealing
        All sets that were run, in order.
    seconds_needed : float
        Estimate of the time for a certificate; that of this call if it has one.
    jitter : float
        What was added to the diagonal of the covariance matrix before it could be factorized.
    interrupted : bool

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.sampling import annealed_importance_sampling
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X, y = np.linspace(0, 3, 6)[:, None], np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    >>> model = GP(1.0 * SE(1.0), Probit())
    >>> result = annealed_importance_sampling(model, X, y, runs=16, steps=20, rng=0, progress=False)
    >>> abs(result.log_evidence - model.condition(X, y).log_evidence) < 0.5
    True
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
    max_time: float | None = None,
    sample_weight: ArrayLike | None = None,
    rng: int | np.random.Generator | None = None,
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
        T, temperatures of the main set of runs. By default as many as `target_error` needs and `max_time` allows: sets
        of increasing length are run until the estimate is certified.
    schedule : "adaptive", "power", float or array
        Temperatures: of equal conditional effective sample size in the pilot, (t/T)^4, (t/T) to another power, or as
        given (increasing from 0 to 1). The confirming set of runs uses "power" if this is "adaptive", and the
        reverse.
    start : "auto", "prior", "ep" or "laplace"
        Where runs start. "auto" tries the Gaussian of EP (or of Laplace's method); if that would need many steps, or
        the log weights of a set of runs vary by more than 1, the prior is taken if it promises to cost less.
    moves : "hmc" or "elliptical"
        Hamiltonian moves need d log p / df; elliptical slice moves do not, but decorrelate much more slowly if the
        data are strong.
    leapfrogs, updates : int
        Most leapfrog steps of a trajectory, moves per temperature.
    metric : "auto", "none", "sites", "middle" or "bound"
        Curvatures that scale the moves from the prior: those of the sites of EP, the largest that the likelihood has,
        their geometric mean; "auto" lets a pilot choose ("none" for elliptical moves).
    target_error : float, optional
        Standard error asked for; a certificate then needs it. Without one, 0.1 is aimed at.
    max_time : float, optional
        Seconds, 60 by default, when `steps` is not given. The pilot and the first short set may exceed a very small
        one, and the runs that confirm an estimate are made even if it took longer than foreseen. How many steps fit
        depends on the clock, so that results with a binding limit are not reproducible.
    sample_weight : array (n,), optional
        Powers of the likelihood factors.
    rng : int or Generator, optional
    progress : optional
        As for the samplers: a callback(done, total), a `Progress`, True or False.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Probit
    >>> X = np.linspace(-2, 2, 12)[:, None]
    >>> y = np.where(X[:, 0] > 0.3, 1.0, -1.0)
    >>> result = annealed_importance_sampling(GP(4.0 * SE(1.0), Probit()), X, y, rng=0)
    >>> result.certified, round(result.log_evidence, 1)
    (True, -4.6)
    """
    check_arguments(runs, steps, start, moves, leapfrogs, updates, metric, target_error, max_time)
    rng = np.random.default_rng(rng)
    with threads_for(len(np.asarray(y))):
        setup = AnnealingSetup(model, X, y, sample_weight, Moves(moves, leapfrogs, updates=updates), metric)
        search = _Search(setup, runs, schedule, start, target_error, max_time, rng, progress)
        try:
            search.fixed(steps) if steps is not None else search.growing()
        except KeyboardInterrupt:
            if not search.sets:
                raise
            search.interrupted = True
        return search.result()


class _Search:
    """Sets of runs, one after the other, until one is certified or time is up."""

    def __init__(
        self,
        setup: AnnealingSetup,
        runs: int,
        schedule: str | float | ArrayLike,
        start: str,
        target_error: float | None,
        max_time: float | None,
        rng: np.random.Generator,
        progress: ProgressLike,
    ) -> None:
        self.setup, self.runs, self.rng = setup, runs, rng
        self.schedules = schedule_functions(schedule)
        self.target, self.aim = target_error, target_error or DEFAULT_ERROR
        self.max_time = max_time or DEFAULT_MAX_TIME
        self.sets: list[Annealing] = []
        self._confirming: list[Annealing] = []
        self.interrupted = False
        self._start, self._progress = start, progress
        self._began = time.perf_counter()

    # --- one set ----------------------------------------------------------------------------------------------

    def confirming_start(self, start: Start) -> Start:
        """The start of the confirming runs: another one if there may be several modes."""
        if not self.setup.several_modes:
            return start
        for name in ("ep", "laplace") if start.name == "prior" else ("prior",):
            found = self.setup.start(name, self.runs, self.rng)
            if found is not None:
                return found
        return start

    def run(self, start: Start, steps: int, which: int) -> Annealing:
        """A set of runs along the first or the second schedule."""
        levels = self.schedules[which](start.pilot, steps)
        label = f"annealing from {start.name}"
        with ProgressReport(self._progress, label, len(levels) - 1) as report:
            found = anneal(
                start.bridge,
                levels,
                start.pilot.moves,
                self.runs,
                self.rng,
                start.name,
                start.metric,
                report.advance,
            )
        self.sets.append(found)
        if which == 1:
            self._confirming.append(found)
        return found

    # --- how many and how long --------------------------------------------------------------------------------

    def fixed(self, steps: int) -> None:
        """A set of given length, and another of half of it along the other schedule."""
        start = self.setup.main_start(self._start, self.runs, self.rng)
        main = self.run(start, steps, 0)
        if main.sd_log_weights > 1.0 and self._start == "auto" and start.name != "prior":
            start = self.setup.required_start("prior", self.runs, self.rng)
            self.run(start, steps, 0)
            start = self.setup.starts[self._main_candidates()[0].start]
        other = self.confirming_start(start)
        self.run(other, steps if other is not start else max(1, steps // 2), 1)

    def growing(self) -> None:
        """Sets of increasing length until a certificate, or until the next would not fit into the time."""
        start = self.setup.main_start(self._start, self.runs, self.rng)
        elsewhere = self._start == "auto" and start.name != "prior"
        if elsewhere and self._wanted(start) > MANY_STEPS:
            prior = self.setup.required_start("prior", self.runs, self.rng)
            if prior.pilot.cost < start.pilot.cost:
                start, elsewhere = prior, False
        main = self._grow(start, leave=elsewhere)
        if elsewhere and faults(main, None):
            prior = self.setup.required_start("prior", self.runs, self.rng)
            # the cost from the approximation follows from the spread of the weights, that from the prior from a pilot
            here = main.difficulty * main.time / main.steps
            start, last = (start, main) if here < prior.pilot.cost else (prior, None)
            main = self._grow(start, last)
        if not faults(main, self.target):
            self._confirm(start, main)
            self._settle(start, main)

    def _wanted(self, start: Start) -> float:
        """Steps for the error aimed at, by the pilot."""
        return 1.2 * start.pilot.difficulty / float(min(0.8, self.aim * np.sqrt(self.runs))) ** 2

    def _grow(self, start: Start, found: Annealing | None = None, leave: bool = False) -> Annealing:
        """Sets of runs until the error aimed at; with `leave` only until one whose weights vary too much."""
        if found is None:
            found = self.run(start, self._steps(self._wanted(start), start, 0.5), 0)
        while faults(found, self.aim) and not (leave and faults(found, None)):
            steps = found.steps
            needed = min(int(1.2 * steps_needed(found, self.aim)), int(LONGEST_GROWTH * steps))
            needed = min(max(needed, int(1.5 * steps)), self._affordable(start, 0.6))
            if needed < 1.3 * steps:
                break
            found = self.run(start, needed, 0)
        return found

    def _confirm(self, start: Start, main: Annealing) -> None:
        other = self.confirming_start(start)
        half = 0.5 * main.steps
        steps = self._steps(half if other is start else 1.3 * other.pilot.difficulty, other, 1.0)
        if (
            other is start
        ):  # even if the clock ran faster than expected: without a second set the first is lost
            steps = max(steps, int(min(half, main.difficulty)))
        for _ in range(3):
            found = self.run(other, steps, 1)
            usable = not faults(found, None, LARGEST_SD_OF_SECOND)
            longer = min(int(1.3 * found.difficulty) if np.isfinite(found.difficulty) else 0, 8 * steps)
            longer = min(longer, self._affordable(other, 1.0))
            if usable or longer < 1.3 * steps:
                return
            steps = longer

    def _settle(self, start: Start, main: Annealing) -> None:
        """If sets of runs disagree by chance, run a longer one: a certificate needs all to agree with it.

        Error bars from a few runs are themselves uncertain, so that three of them are exceeded now and then. If there
        may be several modes, a disagreement is not taken for chance.
        """
        if self.setup.several_modes or not self._contradiction(main):
            return
        longer = min(2 * main.steps, self._affordable(start, 1.0))
        if longer > 1.3 * main.steps:
            self.run(start, longer, 0)

    def _steps(self, wanted: float, start: Start, share: float) -> int:
        """The steps wanted (possibly infinitely many), or as many as fit into a share of the time left."""
        return max(FEWEST_STEPS, int(min(wanted, self._affordable(start, share))))

    def _affordable(self, start: Start, share: float) -> int:
        """Steps that fit into a share of the time that is left."""
        left = self.max_time - (time.perf_counter() - self._began)
        last = [s for s in self.sets if s.start == start.name]
        per_step = last[-1].time / last[-1].steps if last else start.pilot.seconds
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

    def _second(self, main: Annealing) -> Annealing | None:
        """The last set that was run to confirm, or the best of the others if none was."""
        others = [s for s in self.sets if s is not main]
        confirming = [s for s in others if any(s is c for c in self._confirming)]
        if confirming:
            return confirming[-1]
        others.sort(key=lambda s: (len(faults(s, None, LARGEST_SD_OF_SECOND)), s.sd_log_weights))
        return others[0] if others else None

    def _contradiction(self, main: Annealing) -> str:
        """A usable set of any start and length that disagrees with the main one; empty if there is none."""
        for s in self.sets:
            usable = s is not main and not faults(s, None, LARGEST_SD_OF_SECOND)
            if usable and disagreement(main, s) > AGREEMENT:
                return (
                    f"sets of runs disagree: {s.steps} temperatures from {s.start} gave {s.log_evidence:.2f} +/- "
                    f"{s.standard_error:.2g}"
                )
        return ""

    def result(self) -> AISResult:
        """The best set with its confirmation."""
        main = self._main_candidates()[0]
        several = self.setup.several_modes
        second = self._second(main)
        why = verdict(main, second, several, self.target) or self._contradiction(main)
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
            jitter=self.setup.prior.white_jitter,
            interrupted=self.interrupted,
        )


def _duration(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "an unknown time"
    if seconds < 120:
        return f"{max(1, round(seconds))} s"
    if seconds < 7200:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.0f} h"
