"""Learning with a representation that follows the length scales: a few steps, then neighbors are chosen anew.

Values of the objective for different neighbors do not compare, so the line search begins anew in every round, and the
end of the last round is the result, not the highest value. If there are many rows, some of them find the basin: the
whole search over starts runs on those, with the neighbors of a typical length scale, which are the same for all starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.learning.multistart import SearchOptions, SearchResult, multistart
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.optimizer import Run, maximize
from cavity.learning.race import Start
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.progress import Progress, quiet
from cavity.runtime.stop_reason import StopReason

SOME_ROWS = 4000
"""Rows that find the basin, if there are twice as many."""

ROUNDS = 6
"""Most rounds on one set of rows."""

STEPS, LAST_STEPS = 15, 100
"""Iterations of a round, and of the last one if neighbors chosen anew keep moving the optimum."""

ENOUGH = 1e-3
"""Nats a row: a round that gains less is the last one on its rows. Neighbors chosen anew move the evidence by more."""


def learn_in_rounds(
    model: GP,
    rows: TrainingRows,
    places: Starts,
    how: SearchOptions,
    *,
    objective: str,
    also: Sequence[Start] = (),
    rng: np.random.Generator,
    limit: Deadline,
) -> SearchResult:
    """Maximize an objective, choosing what the representation depends on anew between rounds.

    Parameters are those of `multistart`. After Ctrl-C or when time is up the result is the best of the present round.
    """
    return _Rounds(model, rows, places, how, objective, also, rng, limit).result()


class _Rounds:
    """State of one search."""

    def __init__(
        self,
        model: GP,
        rows: TrainingRows,
        places: Starts,
        how: SearchOptions,
        objective: str,
        also: Sequence[Start],
        rng: np.random.Generator,
        limit: Deadline,
    ) -> None:
        self.model, self.rows, self.places, self.how = model, rows, places, how
        self.objective, self.also, self.rng, self.limit = objective, also, rng, limit
        self.runs: list[Run] = []
        self.goal: Objective | None = None

    def result(self) -> SearchResult:
        stopped: StopReason | None = None
        n, theta = len(self.rows.X), self.model.theta
        stages: list[NDArray[np.intp] | None] = [None]
        if n >= 2 * SOME_ROWS:
            stages.insert(0, np.sort(self.rng.choice(n, SOME_ROWS, replace=False)))
        with Progress("learning hyperparameters", ROUNDS * len(stages), self.how.progress) as progress:
            try:
                for end in self._ends(stages):
                    theta = end
                    progress.advance(f"({self.goal.kind} {self.runs[-1].value:.6g})" if self.goal else "")
            except KeyboardInterrupt:
                stopped = StopReason.INTERRUPTED
                if self.goal is None or self.goal.best is None:
                    raise
                value, theta = self.goal.best
                self.runs.append(Run(str(stopped), theta, theta, value, False, 0, 0, str(stopped)))
        if self.limit.left is not None and self.limit.left <= 0.0:
            stopped = stopped or StopReason.OUT_OF_TIME
        # its neighbors are those of the learned scales; the record of the last round is the winner
        model = self._anew(theta, None)
        return SearchResult(model, self.runs[-1].value, tuple(self.runs), stopped)

    def _ends(self, stages: list[NDArray[np.intp] | None]) -> Iterator[Array]:
        """Where each round ended."""
        theta = self._first(stages[0])
        yield theta
        for number, index in enumerate(stages):
            last = ROUNDS - 1 - (number == 0)
            for count in range(last + 1):
                goal = self._goal(theta, index)
                steps = LAST_STEPS if count == last and index is None else STEPS
                run = maximize(goal, theta, self.places.box, self.places.scale, f"round {count + 1}", steps)
                if goal.best is None:  # time was up, or these neighbors fail: the last round stands
                    return
                done = run.value - goal.first < ENOUGH * len(goal.X)
                if done and not goal.time_is_up:
                    run = replace(run, converged=True, message="a round of learning gained next to nothing")
                self.runs.append(run)
                theta = run.theta
                yield theta
                if goal.time_is_up:
                    return
                if done:
                    break

    def _first(self, index: NDArray[np.intp] | None) -> Array:
        """The best of all starts on the first set of rows, with the neighbors that typical values imply."""
        X, y, weight = _taken(self.rows, index)
        model = self._anew(self.places.first if self.how.data_driven else self.model.theta, index)
        some = TrainingRows(X, y, weight, np.arange(len(X)))
        start = model.replace(self.model.theta)  # so that the values given are a start of their own
        with quiet():
            found = multistart(
                start,
                some,
                replace(self.how, progress=False),
                objective=self.objective,
                also=self.also,
                starts=replace(self.places, model=start),
                rng=self.rng,
                max_time=self.limit.left,
            )
        winner = found.winner
        self.runs += [run for run in found.runs if run is not winner] + ([] if winner is None else [winner])
        self.goal = self._goal(found.model.theta, index)
        return found.model.theta

    def _goal(self, theta: Array, index: NDArray[np.intp] | None) -> Objective:
        X, y, weight = _taken(self.rows, index)
        goal = Objective(self._anew(theta, index), X, y, self.objective, weight, deadline_in(self.limit.left))
        if self.runs:
            goal.best_ever = (-np.inf, theta)  # there is something to keep when time is up
        self.goal = goal
        return goal

    def _anew(self, theta: Array, index: NDArray[np.intp] | None) -> GP:
        """The model at theta, its representation chosen for the kernel there."""
        model = self.model.replace(theta)
        if index is not None:
            model = model.with_likelihood(model.likelihood.rows(index))
        return model.with_representation(model.representation.chosen_anew(model.kernel, self.rows.X))


def _taken(rows: TrainingRows, index: NDArray[np.intp] | None) -> tuple[Array, Array, Array | None]:
    if index is None:
        return rows.X, rows.y, rows.weight
    return rows.X[index], rows.y[index], None if rows.weight is None else rows.weight[index]
