"""The search over starts: run the optimizer from several places, keep the best, report them all.

The first start is read off the data (`cavity.learning.starts`), the second are the values that the model came with, the
others are the most promising of many draws from the priors, by the objective after a few steps. Starts that a caller
knows to be good are run first, so that a limit of time does not cut them off. Sums of kernels have local optima in
which two terms share one role; so, at the end, each term of the best solution is drawn anew in turn while the others
stay. A start that fails numerically is recorded and skipped.

Most runs would end where the first one did; so they race (`cavity.learning.race`), unless optima are rugged. If they
end in different places and evaluations are cheap, there is a second round of starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels import Kernel, Sum
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.optimizer import Run
from cavity.learning.race import (
    AGREE,
    EVERY,
    Start,
    agreement,
    execute,
    on_some_rows,
    optima,
    race,
    screen,
    usable,
)
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason

if TYPE_CHECKING:
    from cavity.gp import GP

PARTS = ("kernel", "mean", "likelihood")
"""Parts of a model, in the order of its values."""

SCREENED = 8
"""Draws for each random start that are tried for a few steps; if an evaluation is itself an iteration, for all random
starts up to the third together."""

CHEAP_SCREENED = 6
"""The same if evaluations are cheap and there are several inputs."""

COSTLY_SCREENED = 2
"""Draws for each random start if an evaluation is itself an iteration, and on all rows."""

TRIAL_STEPS = 3
"""Iterations from each draw: enough to tell basins apart, if they differ by much."""

ROUNDS = ((6, 3), (3, 9))
"""Draws that survive a round of trials, and its iterations from each draw."""

LINE_ROUNDS = ((8, 3), (4, 9))
"""The same along a line, where functions as fine as the data and smooth ones are optima side by side."""

RUGGED_TRIAL_STEPS = 12
"""The same if they may differ by little."""

CONFIRMED = 3
"""Runs that must have come to the best optimum, or to one as good: otherwise as many starts are tried again, if
evaluations are cheap and so many restarts were asked for."""

AS_GOOD = 0.2
"""Nats below the best optimum that do not matter here."""

DISAGREEING_ON_ALL = 300
"""Rows up to which starts that are drawn because runs disagree are tried on all rows: some rows had led astray."""

RELOCATIONS = 5
"""Draws that are tried for each term of a sum when it is drawn anew."""

SAME_START = 0.1
"""Distance, in unit steps, up to which the values given are the data-driven start."""


@dataclass(frozen=True)
class SearchOptions:
    """How the search over starts goes.

    Attributes
    ----------
    n_restarts : int
        Most runs beside the first one. Up to 3 the search ends when two agree, beyond when all but two do. If there
        are 3 or more and evaluations are cheap, and fewer than 3 runs agree, as many starts are tried again.
    given : collection of str
        Parts of the model, of "kernel", "mean" and "likelihood", whose own values are worth a run because a user chose
        them; the others start from the data. Empty for none.
    data_driven : bool
        Whether the first start is read off the data; otherwise it is the model's own values, and the data come in only
        if the objective cannot be evaluated at those.
    n_jobs : int, optional
        Processes for the runs.
    progress : bool, optional
    every_start : bool
        Whether every start is run on all rows, whatever others have found; a run that heads for the optimum of the
        first still stops.
    enough : float
        A run ends if a step improves the objective by less than this part of it.
    expected : float
        Seconds that the search may take; nan if there is no estimate.
    """

    n_restarts: int = 3
    given: Collection[str] = PARTS
    data_driven: bool = True
    n_jobs: int | None = None
    progress: bool | None = None
    every_start: bool = False
    enough: float = 1e-10
    expected: float = float("nan")


@dataclass(frozen=True)
class SearchResult:
    """Where the search ended: the best model, its objective, every run, and why the search ended early if it did.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> found = GP(1.0 * SE(1.0), Gaussian(0.1)).learn(X, y, n_restarts=1, rng=0)
    >>> found.search.stopped is None, len(found.search.runs)
    (True, 2)
    """

    model: GP
    value: float
    runs: tuple[Run, ...]
    stopped: StopReason | None = None

    @property
    def converged(self) -> bool:
        """Whether the run that won met the optimizer's criterion."""
        return self.winner is not None and self.winner.converged

    @property
    def winner(self) -> Run | None:
        """The run whose end is the model."""
        return next((run for run in self.runs if run.value == self.value), None)


def multistart(
    model: GP,
    rows: TrainingRows,
    how: SearchOptions,
    *,
    objective: str = "evidence",
    also: Sequence[Start] = (),
    starts: Starts | None = None,
    rng: np.random.Generator,
    max_time: float | None = None,
) -> SearchResult:
    """Maximize an objective over the free parameters of a model, from several starts.

    Parameters
    ----------
    model : GP
        Bound to the columns of the data.
    rows : TrainingRows
        The data.
    objective : {"evidence", "loo", "gcv"}
    also : sequence of Start
        Further starts, run before all others and in addition to `n_restarts`.
    starts : Starts, optional
        What the data say about the model's parameters, if that is known already.
    max_time : float, optional
        Seconds after which the best so far is returned.

    Returns
    -------
    SearchResult
        Also after Ctrl-C or when time is up: the best of what was reached.
    """
    goal = Objective(model, rows.X, rows.y, objective, rows.weight, deadline_in(max_time), how.enough)
    if model.theta.size == 0:
        value, _ = goal(model.theta)
        return SearchResult(model, value, ())
    if starts is None:
        starts = Starts.of(model, rows.X, rows.y, rows.weight)
    relocations = len(starts.blocks) if how.n_restarts > 0 and len(starts.blocks) > 1 else 0
    total = 1 + how.n_restarts + len(also) + relocations
    with Progress("learning hyperparameters", total, how.progress, expected=how.expected) as progress:
        return collect(goal, _Search(goal, starts, how, rng, progress).runs(also), progress)


def collect(goal: Objective, source: Iterator[Run], progress: Progress) -> SearchResult:
    """The best of all runs; after Ctrl-C or when time is up, of those that there are."""
    runs: list[Run] = []
    stopped: StopReason | None = None
    try:
        for run in source:
            runs.append(run)
            progress.advance(f"(best so far {max(run.value for run in runs):.6g})")
    except KeyboardInterrupt:
        stopped = StopReason.INTERRUPTED
        if goal.best_ever is not None:
            runs.append(_interrupted_run(goal, *goal.best_ever))
        if not usable(runs):
            raise
    if goal.time_is_up:
        stopped = stopped or StopReason.OUT_OF_TIME
    if not usable(runs):
        reasons = "; ".join(dict.fromkeys(run.message for run in runs))
        raise np.linalg.LinAlgError(f"the {goal.kind} could not be evaluated at any start: {reasons}")
    best = max(usable(runs), key=lambda run: run.value)
    return SearchResult(goal.model.replace(best.theta), best.value, tuple(runs), stopped)


def _interrupted_run(goal: Objective, value: float, theta: Array) -> Run:
    """The best point when Ctrl-C came, as a run."""
    reason = str(StopReason.INTERRUPTED)
    return Run(reason, theta, theta, value, False, goal.evaluations, goal.failures, reason)


def _belongs(model: GP, parts: Collection[str]) -> NDArray[np.bool_]:
    """Which entries of `theta` are parameters of these parts, shape (p,); tied ones belong to the first."""
    sizes = [part.flat.size for part in model.parts]
    marks = np.repeat(
        [*(name in parts for name in PARTS), True], sizes
    )  # the representation's stay in any case
    return np.asarray(marks[model.layout.lead])


def _has_roles(kernel: Kernel) -> bool:
    """Whether a kernel has terms, periods or frequencies."""
    roles = {Unit.PERIOD, Unit.FREQUENCY}
    return (
        isinstance(kernel, Sum)
        or not roles.isdisjoint(kernel.units.values())
        or any(_has_roles(cast(Kernel, part)) for part in kernel.parts)
    )


@dataclass
class _Search:
    """Where the runs of one search start."""

    goal: Objective
    starts: Starts
    how: SearchOptions
    rng: np.random.Generator
    progress: Progress

    def runs(self, also: Sequence[Start]) -> Iterator[Run]:
        """All runs, in order; the last ones start from what the others found."""
        from_data = self.starts.first
        if not self.how.data_driven:
            self.starts = replace(self.starts, first=self.goal.model.theta)
        dear = self.goal.iterates
        agree = None if self.rugged else max(AGREE, self.how.n_restarts - dear)
        found: list[Run] = []
        if agree is not None and self.how.every_start:
            agree = EVERY
        few = None if self.rugged or self.how.every_start else on_some_rows(self.goal, self.rng)
        tasks = self._tasks(also, few or self.goal)
        small = few if self.goal.iterates else None
        for run in race(self.goal, tasks, self.starts, agree=agree, small=small, n_jobs=self.how.n_jobs):
            found.append(run)
            yield run
        cheap = not (self.rugged or self.goal.iterates) and self.how.n_restarts >= CONFIRMED
        if cheap and usable(found) and agreement(found, AS_GOOD) < CONFIRMED:
            for run in self._since_runs_disagree(found, few or self.goal):
                found.append(run)
                yield run
        if not self.how.data_driven and not usable(found):
            for run in race(self.goal, [Start("data", from_data)], self.starts):
                found.append(run)
                yield run
        if self.how.n_restarts > 0 and len(self.starts.blocks) > 1:
            yield from self._relocations(found)

    @property
    def rugged(self) -> bool:
        """Whether optima may lie so close together that no run can be left unfinished.

        Terms of a sum exchange their roles along ridges, each period and each frequency has an optimum of its own, and
        so have leave-one-out densities.
        """
        return self.goal.kind != "evidence" or _has_roles(self.goal.model.kernel)

    def _since_runs_disagree(self, found: Sequence[Run], few: Objective) -> Iterator[Run]:
        """From as many random starts again, tried longer: if few runs came to the best optimum others may be higher."""
        known = optima(run for run in found if not run.given_up)
        goal = self.goal if len(self.goal.X) <= DISAGREEING_ON_ALL else few
        count = self.how.n_restarts
        draws = [Start("random", at) for at in self.starts.draws(self.rng, self._draws_each * count)]
        trials = self._screen(goal, draws, count, RUGGED_TRIAL_STEPS)
        tasks = [Start(trial.kind, trial.theta) for trial in trials]
        for runs in execute(self.goal, tasks, self.starts, self.how.n_jobs, known=known):
            yield from runs

    def _tasks(self, also: Sequence[Start], few: Objective) -> Iterator[Start]:
        """Those of `also`, which are known to be good, the first start, the values given, promising draws."""
        yield from also
        first, model, left = self.starts.first, self.goal.model, self.how.n_restarts
        yield Start("data", first)
        theta = np.where(_belongs(model, self.how.given), model.theta, first)
        if left > 0 and np.max(np.abs(theta - first) / self.starts.scale) > SAME_START:
            yield Start("given", theta)
            left -= 1
        if left == 0:
            return
        if self.goal.iterates and few is self.goal and not self.how.every_start:
            count = COSTLY_SCREENED * left
        else:
            count = self._draws_each * (max(1, left - 2) if self.goal.iterates and not self.rugged else left)
        # Few draws, and terms of a sum, keep to where values are expected: farther out most would be wasted.
        if self.goal.iterates or self.rugged:
            places = [self.starts.draw(self.rng) for _ in range(count)]
        else:
            places = self.starts.draws(self.rng, count)
        draws = [Start("random", theta) for theta in places]
        for trial in self._promising(few, draws, left):
            # What a rule knows of some rows it does not know of all.
            yield Start("random", trial.theta, trial.warm if few is self.goal else None)

    @property
    def _on_a_line(self) -> bool:
        return bool(self.goal.X.shape[1] == 1)

    @property
    def _draws_each(self) -> int:
        dear = self.goal.iterates or self.rugged
        return SCREENED if dear or self._on_a_line else CHEAP_SCREENED

    def _promising(self, goal: Objective, draws: Sequence[Start], keep: int) -> list[Run]:
        """The most promising of many draws after a few steps; if evaluations are cheap, in rounds of elimination."""
        if self.rugged:
            return self._screen(goal, draws, keep, RUGGED_TRIAL_STEPS)
        if self.goal.iterates:
            return self._screen(goal, draws, keep, TRIAL_STEPS)
        trials: list[Run] = []
        for survivors, steps in LINE_ROUNDS if self._on_a_line else ROUNDS:
            trials = self._screen(goal, draws, max(keep, survivors), steps)
            draws = [Start(trial.kind, trial.theta, trial.warm) for trial in trials]
        return trials[:keep]

    def _screen(self, goal: Objective, draws: Sequence[Start], keep: int, steps: int) -> list[Run]:
        def note(done: int) -> None:
            self.progress.refresh(f"(trial {done} of {len(draws)})")

        return screen(goal, draws, self.starts, keep, steps=steps, n_jobs=self.how.n_jobs, note=note)

    def _relocations(self, runs: Sequence[Run]) -> Iterator[Run]:
        """From the best solution, each term of the kernel's sum drawn anew; improvements are built upon."""
        best = max(runs, key=lambda run: run.value)
        if not np.isfinite(best.value):
            return
        for block in self.starts.blocks:
            draws = []
            for _ in range(RELOCATIONS):
                theta = best.theta.copy()
                theta[block] = self.starts.draw(self.rng, widen=2.0)[block]
                draws.append(Start("relocated", theta))
            tasks = [
                Start(trial.kind, trial.theta, trial.warm)
                for trial in self._screen(self.goal, draws, 1, RUGGED_TRIAL_STEPS)
            ]
            for run in race(self.goal, tasks, self.starts, agree=None):
                yield run
                if run.value > best.value:
                    best = run
