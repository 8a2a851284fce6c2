"""The search over starts for robust noise: to a few digits, and if there are many rows on some of them first.

Robust noise has many local optima and dear evaluations. Which optimum is the best shows on few rows, where evaluations
cost next to nothing: all starts, those from easier models included (`cavity.learning.robust_starts`), are run on
`SEARCH_ROWS` rows. The ends that are different and good are the starts on all rows. Length scales that few rows leave
open are brought back first: the optimizer does not come back by itself from where the objective is flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.learning.multistart import SearchOptions, SearchResult, collect, multistart
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.race import EVERY, Start, race, screen
from cavity.learning.recognition import SAME_VALUE
from cavity.learning.robust_starts import first_stages
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason

SEARCH_ROWS = 150
"""Rows of the search, if there are twice as many."""

SEARCH_SHARE = 0.5
"""Share of the time that the search on some of the rows may take."""

ENOUGH = 1e-8
"""Progress of a step, relative to the objective, at which a run ends: evaluations have no more digits."""

ROUGHLY = 1e-5
"""The same on some of the rows."""

RIVALS, RIVAL = 2, 3.0
"""Most ends besides the best one that are starts on all rows, and how many nats they may be below it."""

OPEN = 2.0
"""Unit steps from the data-driven value that a kernel's parameters may be at a start on all rows."""

RIVAL_STEPS = 4
"""Steps on all rows after which rivals are put in order."""


def robust_search(
    model: GP,
    rows: TrainingRows,
    starts: Starts,
    how: SearchOptions,
    *,
    objective: str,
    also: Sequence[Start] = (),
    rng: np.random.Generator,
    limit: Deadline,
) -> SearchResult:
    """Maximize the objective of a model with robust noise from several starts; see `multistart`.

    Starts of `also` are known to be good: they are run on all rows.
    """
    rough = model.with_inference(model.inference.for_search())
    how = replace(how, enough=ENOUGH, every_start=True)
    n = len(rows.X)
    along_a_line = (
        model.representation.linear_cost and rows.X.shape[1] == 1
    )  # where few rows see nothing but noise
    if n < 2 * SEARCH_ROWS or model.inference.samples or along_a_line:  # chains are to know all modes
        found = from_all_starts(rough, rows, starts, how, objective, rng, limit, limit.left)
    else:
        index = np.sort(rng.choice(n, SEARCH_ROWS, replace=False))
        few = rough.with_likelihood(rough.likelihood.rows(index))
        some = some_rows(rows, index)
        places = Starts.of(few, some.X, some.y, some.weight)
        roughly = replace(how, enough=ROUGHLY)
        seen = from_all_starts(few, some, places, roughly, objective, rng, limit, limit.part(SEARCH_SHARE))
        ends = [(kind, _brought_back(theta, rough, starts)) for kind, theta in _ends(seen)]
        ends += [(kind, theta) for kind, theta, _ in also]
        found = on_all_rows(rough, rows, starts, how, objective, ends, seen.stopped, limit)
    return replace(found, model=model.replace(found.model.theta))


def from_all_starts(
    model: GP,
    rows: TrainingRows,
    starts: Starts,
    how: SearchOptions,
    objective: str,
    rng: np.random.Generator,
    limit: Deadline,
    seconds: float | None,
) -> SearchResult:
    """From easier models, the data, the values given, draws."""
    also = first_stages(model, rows, starts, how, rng, limit)
    left = limit.left
    seconds = left if seconds is None or left is None else min(seconds, left)
    return multistart(
        model, rows, how, objective=objective, also=also, starts=starts, rng=rng, max_time=seconds
    )


def on_all_rows(
    model: GP,
    rows: TrainingRows,
    starts: Starts,
    how: SearchOptions,
    objective: str,
    ends: Sequence[tuple[str, Array]],
    stopped: StopReason | None,
    limit: Deadline,
) -> SearchResult:
    """From ends on some of the rows, of which those that lead farthest in a few steps come first."""
    interrupted = stopped is StopReason.INTERRUPTED
    deadline = -np.inf if interrupted else deadline_in(limit.left)  # one evaluation is always made
    goal = Objective(model, rows.X, rows.y, objective, rows.weight, deadline, how.enough)
    tasks = [Start(kind, theta) for kind, theta in ends]
    with Progress("learning hyperparameters", len(tasks), how.progress) as progress:
        if len(tasks) > 1 and not goal.time_is_up:
            trials = screen(goal, tasks, starts, len(tasks), steps=RIVAL_STEPS, n_jobs=how.n_jobs)
            tasks = [Start(trial.kind, trial.theta, trial.warm) for trial in trials]
        found = collect(goal, race(goal, tasks, starts, agree=EVERY, n_jobs=how.n_jobs), progress)
    return replace(found, stopped=StopReason.INTERRUPTED) if interrupted else found


def _ends(seen: SearchResult) -> list[tuple[str, Array]]:
    """Kind and theta of the best end, and of others that are close to it and not the same."""
    kept: list[float] = []
    out = []
    for run in sorted(seen.runs, key=lambda run: -run.value):
        new = all(value - run.value > SAME_VALUE for value in kept)
        if new and len(kept) <= RIVALS and (not kept or run.value > kept[0] - RIVAL):
            kept.append(run.value)
            out.append((run.kind, run.theta))
    return out


def _brought_back(theta: Array, model: GP, starts: Starts) -> Array:
    """Theta with the kernel's parameters within so many unit steps of the data-driven ones."""
    reach = OPEN * starts.scale
    of_kernel = model.layout.lead < model.kernel.flat.size
    return np.where(of_kernel, np.clip(theta, starts.first - reach, starts.first + reach), theta)


def some_rows(rows: TrainingRows, index: NDArray[np.intp]) -> TrainingRows:
    """The data of some rows."""
    weight = None if rows.weight is None else rows.weight[index]
    return TrainingRows(rows.X[index], rows.y[index], weight, np.arange(len(index)))
