"""The search over starts along a line of very many rows, each of which costs the same: on a stretch of it first.

What a function does along a line shows in neighbors: a random subset of a million rows sees nothing but noise, and the
typical distance of rows says nothing about length scales. All starts are run on consecutive rows, and on as many that
are spread evenly, which see what is slow. The best ends of both are the starts on all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cavity.gp import GP
from cavity.learning.multistart import SearchOptions, SearchResult, multistart
from cavity.learning.robust_search import ENOUGH, ROUGHLY, from_all_starts, on_all_rows, some_rows
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline

STRETCH = 2000
"""Rows of a stretch; there must be four times as many."""

SEARCH_SHARE = 0.25
"""Share of the time that the search on each kind of rows may take."""


def wants_stretches(model: GP, X: Array) -> bool:
    """Whether rows lie along a line, cost the same each, and are very many."""
    return model.representation.linear_cost and X.shape[1] == 1 and len(X) >= 4 * STRETCH


def stretch_search(
    model: GP,
    rows: TrainingRows,
    how: SearchOptions,
    *,
    robust: bool,
    objective: str,
    rng: np.random.Generator,
    limit: Deadline,
) -> SearchResult:
    """Maximize the objective on all rows from the best ends on a stretch of them and on an even choice of them."""
    rough = model.with_inference(model.inference.for_search()) if robust else model
    how = replace(how, enough=ENOUGH, every_start=True) if robust else how
    ends, boxes = [], []
    for index in (consecutive(rows.X, rng), even(rows.X)):
        few = rough.with_likelihood(rough.likelihood.rows(index))
        some = some_rows(rows, index)
        starts = Starts.of(few, some.X, some.y, some.weight)
        seconds = limit.part(SEARCH_SHARE)
        if robust:
            roughly = replace(how, enough=ROUGHLY)
            seen = from_all_starts(few, some, starts, roughly, objective, rng, limit, seconds)
        else:
            seen = multistart(few, some, how, objective=objective, starts=starts, rng=rng, max_time=seconds)
        ends.append(max(seen.runs, key=lambda run: run.value))
        boxes.append(starts)
    low = np.minimum(*(starts.box[:, 0] for starts in boxes))
    high = np.maximum(*(starts.box[:, 1] for starts in boxes))
    everywhere = replace(boxes[0], model=rough, box=np.column_stack([low, high]))
    tasks = [(run.kind, np.clip(run.theta, low, high)) for run in ends]
    found = on_all_rows(rough, rows, everywhere, how, objective, tasks, seen.stopped, limit)
    return replace(found, model=model.replace(found.model.theta))


def consecutive(X: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows of a stretch of the line."""
    order = np.argsort(X[:, 0], kind="stable")
    first = int(rng.integers(len(X) - STRETCH + 1))
    return np.sort(order[first : first + STRETCH])


def even(X: Array) -> NDArray[np.intp]:
    """Rows that are spread evenly along the line."""
    order = np.argsort(X[:, 0], kind="stable")
    return np.sort(order[np.linspace(0, len(X) - 1, STRETCH).astype(np.intp)])
