"""Runs of the optimizer against each other: most starts need not be run to the end.

`race` runs the first start to the end. Every other one is stopped as soon as it is seen to head for that optimum, or to
trail hopelessly (`cavity.learning.recognition`), and the search ends when enough runs agree on the best optimum.
`screen` picks the most promising of many places by a few steps from each, on some of the rows if there are many:
whether a place is in the basin of a good optimum shows within a few steps and on few rows. The optimum itself does not:
rows left out move it, most of all length scales of inputs that matter little.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from cavity.learning.objective import Objective
from cavity.learning.optimizer import STEPS, Run, follow
from cavity.learning.recognition import SAME_VALUE, Optimum
from cavity.learning.starts import Starts
from cavity.numerics.arrays import Array

AGREE = 2
"""Runs that must have come to the best optimum before the search ends."""

EVERY = 1_000_000
"""So many never do: every start is run."""

SCREENING_ROWS = 70
"""Rows on which starts are tried, at least, if there are twice as many."""

COSTLY_SCREENING_ROWS = 100
"""The same if an evaluation is itself an iteration."""

SCREENING_SHARE = 8
"""One row in so many, if that is more."""

FAR_BELOW = 5.0
"""Nats by which an optimum of some rows must be below another one to be dropped without a look at all rows."""

SAME_PLACE = 0.5
"""Distance, in unit steps, up to which two trials are on their way to the same optimum."""


class Start(NamedTuple):
    """Where a run begins: where that comes from, `theta` (p,), and what the inference rule knows there, if anything."""

    kind: str
    theta: Array
    warm: Any = None


def race(
    goal: Objective,
    tasks: Iterable[Start],
    places: Starts,
    *,
    agree: int | None = AGREE,
    small: Objective | None = None,
    n_jobs: int | None = None,
) -> Iterator[Run]:
    """Run the optimizer from several starts until so many runs agree on the best optimum.

    The first start that can be evaluated is run to the end. The others are stopped if they head for the optimum found
    there or trail it hopelessly. If the branch of solutions that a rule follows ends, a start has several runs.

    Parameters
    ----------
    goal : Objective
        On all rows.
    tasks : iterable of Start
        In the order of their promise. They are asked for one at a time unless there are several processes, so that
        finding out about later ones may be left undone.
    places : Starts
        The box of the optimizer and the size of its unit steps.
    agree : int, optional
        Starts whose runs must have ended at, or headed for, the best optimum. None runs all starts to their ends: if
        optima lie close together, none can be told from another before.
    small : Objective, optional
        On some of the rows, if evaluations are dear: a start is run there first, and on all rows only if it may lead to
        a better optimum than the first one did.
    n_jobs : int, optional
        Processes for all starts but the first, if they run on all rows at once. What is found does not depend on it.

    Yields
    ------
    Run
        Of each start, in order.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.gp import GP
    >>> from cavity.kernels import SE
    >>> from cavity.learning.starts import Starts
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> model = GP(1.0 * SE(1.0), Gaussian(0.1)).bind(1)
    >>> places, rng = Starts.of(model, X, y), np.random.default_rng(0)
    >>> tasks = [Start("data", places.first), *(Start("random", places.draw(rng)) for _ in range(9))]
    >>> [run.message for run in race(Objective(model, X, y), tasks, places)][1:]
    ["stopped: it headed for the optimum of the run from 'data'"]
    """
    waiting = iter(tasks)
    best_of_starts: list[Run] = []
    for task in waiting:
        runs = follow(goal, task.theta, places.box, places.scale, task.kind, warm=task.warm)
        yield from runs
        best_of_starts.append(_best(runs))
        if np.isfinite(best_of_starts[-1].value):
            break
    known = [] if agree is None else optima(best_of_starts)
    if small is not None and known:
        others = _Preliminary(goal, small, places, best_of_starts[-1]).runs(waiting)
    else:
        others = execute(goal, waiting, places, n_jobs, known=known)
    for runs in others:
        yield from runs
        best_of_starts.append(_best(runs))
        if agree is not None and agreement(best_of_starts) >= agree:
            return


@dataclass
class _Preliminary:
    """Runs on some of the rows, which decide whether a start is run on all.

    The optimum of all rows that is known, `first`, has its like on some: where a run from there ends. A start that
    leads to that, or far below, is done with. So is one whose other end is no better on all rows than that: one
    evaluation each. On some rows alone it may well be lower and yet belong to the better optimum of all. What remains
    is run on all rows from its start, not from its end on some, which may be a trap: a length scale that some rows do
    not determine may have gone to where the objective of all is flat.
    """

    goal: Objective
    small: Objective
    places: Starts
    first: Run

    def runs(self, tasks: Iterable[Start]) -> Iterator[list[Run]]:
        """Of each start, on all rows as far as the record goes."""
        top, count = optima([self.first])[0], len(self.small.X)
        like = _best(self._run(self.small, Start(top.kind, top.theta)))
        known = optima([like])
        level: float | None = None  # of `like` on all rows, once it is asked for
        for task in tasks:
            if not known:  # some rows cannot be evaluated where all can
                yield self._run(self.goal, task, [top])
                continue
            trial = _best(self._run(self.small, task, known))
            if not np.isfinite(trial.value):
                yield [trial]
                continue
            given_up = replace(trial, converged=False, given_up=True, warm=None)
            same = abs(trial.value - like.value) <= SAME_VALUE
            if same or trial.value < like.value - FAR_BELOW:
                why = f"stopped: on {count} rows it led to no better optimum than the run from {top.kind!r}"
                yield [replace(given_up, theta=top.theta, value=top.value, message=why)]
                continue
            if level is None:
                level = self.goal.value(like.theta)
            value = self.goal.value(trial.theta)
            if value <= level:
                yield [
                    replace(
                        given_up, value=value, message=f"stopped: its end on {count} rows is no better on all"
                    )
                ]
            else:
                yield self._run(self.goal, task, [top])

    def _run(self, goal: Objective, task: Start, known: Sequence[Optimum] = ()) -> list[Run]:
        kind, theta, warm = task if goal is self.goal else task._replace(warm=None)
        return follow(goal, theta, self.places.box, self.places.scale, kind, known=known, warm=warm)


def on_some_rows(goal: Objective, rng: np.random.Generator) -> Objective | None:
    """The objective of some rows, on which starts are tried; None if there are not twice as many.

    Also None if there is one input only: what a function does along a line shows in neighbors, which are left out.
    """
    n, columns = goal.X.shape
    count = max(n // SCREENING_SHARE, COSTLY_SCREENING_ROWS if goal.iterates else SCREENING_ROWS)
    if columns == 1 or n < 2 * count:
        return None
    return goal.on_rows(np.sort(rng.choice(n, count, replace=False)))


def screen(
    goal: Objective,
    starts: Sequence[Start],
    places: Starts,
    keep: int,
    *,
    steps: int,
    n_jobs: int | None = None,
    note: Callable[[int], None] = lambda _: None,
) -> list[Run]:
    """The most promising starts: trials with the best objective after a few steps, best first, at most `keep`.

    Trials that came close to each other are on their way to the same optimum, and only the best of them counts. Those
    that failed at once are dropped.

    Parameters
    ----------
    goal : Objective
        On all rows, or on some (`on_some_rows`).
    starts : sequence of Start
        Where trials begin; they are runs of the same kind. A run that goes on from a trial on all rows begins at
        `Start(trial.kind, trial.theta, trial.warm)`.
    note : callable
        Told the number of trials done.
    """
    trials: list[Run] = []
    for runs in execute(goal, starts, places, n_jobs, steps):
        trials += runs
        note(len(trials))
    chosen: list[Run] = []
    for trial in sorted(usable(trials), key=lambda run: -run.value):
        apart = [np.max(np.abs(trial.theta - other.theta) / places.scale) for other in chosen]
        if all(distance > SAME_PLACE for distance in apart):
            chosen.append(trial)
        if len(chosen) == keep:
            break
    return chosen


def execute(
    goal: Objective,
    tasks: Iterable[Start],
    places: Starts,
    n_jobs: int | None,
    steps: int = STEPS,
    known: Sequence[Optimum] = (),
) -> Iterator[list[Run]]:
    """Runs from each start, one start after the other or through joblib (processes, threads or a cluster)."""
    if n_jobs in (None, 1):
        for kind, theta, warm in tasks:
            yield follow(goal, theta, places.box, places.scale, kind, steps, known, warm)
        return
    from joblib import Parallel, delayed

    work: Callable[..., Any] = delayed(follow)
    listed = [
        work(goal, theta, places.box, places.scale, kind, steps, known, warm) for kind, theta, warm in tasks
    ]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(listed)
    try:
        for runs in results:
            best = _best(runs)
            if np.isfinite(best.value) and (goal.best_ever is None or best.value > goal.best_ever[0]):
                # Tasks that are sent out from now on know that there is something to keep.
                goal.best_ever = (best.value, best.theta)
            yield runs
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # runs that are still going on are not needed any more
            results.close()


def usable(runs: Iterable[Run]) -> list[Run]:
    """Runs that could be evaluated at all."""
    return [run for run in runs if np.isfinite(run.value)]


def agreement(runs: Sequence[Run], nats: float = SAME_VALUE) -> int:
    """Runs that are at the best optimum of all, or within so many nats of it."""
    best = max(run.value for run in runs)
    return sum(run.value > best - nats for run in usable(runs))


def optima(runs: Iterable[Run]) -> list[Optimum]:
    """Where runs ended, those that could be evaluated at all."""
    return [Optimum(run.kind, run.theta, run.value) for run in usable(runs)]


def _best(runs: Sequence[Run]) -> Run:
    return max(runs, key=lambda run: run.value)
