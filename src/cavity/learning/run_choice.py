"""Choice among runs of the optimizer.

EP's evidence is comparable between fixed points of one kind. Those found by continuation where plain EP does not
converge overestimate it, by up to 6 nats in our measurements, and power EP and the variational fallback have
evidences of their own. So a run that ends where plain EP converges is preferred to one that does not, unless the
latter's evidence is higher by more than `STAGE_MARGIN`.

A rule that samples need not choose: it is given the ends of all runs, as places where its chains start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cavity.estimators.sampling import samples
from cavity.gp import GP, Posterior
from cavity.learning.multistart import Learned
from cavity.learning.optimizer import Run
from cavity.learning.training_rows import TrainingRows
from cavity.runtime.deadlines import time_limit
from cavity.runtime.interrupts import Postponed
from cavity.runtime.stop_reason import StopReason

STAGE_MARGIN = 10.0
"""Nats by which the evidence of another stage must exceed that of plain EP."""

PLAIN = "ep"

SAME_END = 1e-2
"""Distance of hyperparameters, in log units, below which two runs ended at the same place."""


def choose(
    model: GP, learned: Learned, rows: TrainingRows, seconds: float | None = None
) -> tuple[Learned, Posterior]:
    """The run to keep and its posterior; runs that were looked at say their stage in `message`.

    Chains have so many seconds. Ctrl-C ends them with what was drawn, and all of it where learning was interrupted
    before: there is no draw to keep then. Without chains it waits for the one posterior without which what was learned
    would be lost.
    """
    if samples(model):
        with time_limit(seconds):
            return learned, _sampled(model, learned, rows)
    with Postponed() as late:
        learned, posterior = _best(model, learned, rows, late)
    return (replace(learned, stopped=StopReason.INTERRUPTED) if late.interrupted else learned), posterior


def _sampled(model: GP, learned: Learned, rows: TrainingRows) -> Posterior:
    """Draws of chains, which are to know all modes that were met."""
    if learned.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if learned.winner is None:
        return learned.model.condition(rows.X, rows.y, rows.weight)
    runs = list(learned.runs)
    ends = {"ends": [runs[same[0]].theta for same in _ends(runs)]}
    return model.replace(learned.winner.theta).condition(rows.X, rows.y, rows.weight, ends)


def _best(model: GP, learned: Learned, rows: TrainingRows, late: Postponed) -> tuple[Learned, Posterior]:
    """Of the ends of all runs; of those that were looked at, after Ctrl-C."""
    if learned.winner is None:
        return learned, learned.model.condition(rows.X, rows.y, rows.weight)
    runs = list(learned.runs)
    if model.inference.name != "ep" or model.likelihood.log_concave:
        return learned, _posterior(model, learned.winner, rows)
    kept: tuple[int, Posterior] | None = None
    for i in (i for same in _ends(runs) for i in same):
        if kept is not None and (late.interrupted or runs[i].value < runs[kept[0]].value - STAGE_MARGIN):
            break
        posterior = _posterior(model, runs[i], rows)
        runs[i] = replace(runs[i], message=f"{runs[i].message}; stage {posterior.status.stage}")
        plain = posterior.status.stage == PLAIN
        if kept is None or plain:
            kept = (i, posterior)
        if plain:
            break
    assert kept is not None  # learning raises where no run is usable
    i, posterior = kept
    return Learned(posterior.model, runs[i].value, tuple(runs), learned.stopped), posterior


def _ends(runs: list[Run]) -> list[list[int]]:
    """Runs by the place where they ended, the highest objective first.

    Runs that came to the same place by different ways may have found its approximation at different stages.
    """
    found: list[list[int]] = []
    for i in sorted((i for i, r in enumerate(runs) if np.isfinite(r.value)), key=lambda i: -runs[i].value):
        for same in found:
            if np.max(np.abs(runs[i].theta - runs[same[0]].theta), initial=0.0) < SAME_END:
                same.append(i)
                break
        else:
            found.append([i])
    return found


def _posterior(model: GP, run: Run, rows: TrainingRows) -> Posterior:
    return model.replace(run.theta).condition(rows.X, rows.y, rows.weight, run.memory)
