"""Choice among runs of the optimizer.

EP's evidence is comparable between fixed points of one kind. Those found by continuation if plain EP does not
converge overestimate it, by up to 6 nats in our measurements, and power EP and the variational fallback have
evidences of their own. So a run that ends where plain EP converges is preferred to one that does not, unless the
latter's evidence is higher by more than `STAGE_MARGIN`.

A rule that samples need not choose: it is given the ends of all runs, as places where its chains start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cavity.gp import GP
from cavity.inference.base import Stage
from cavity.inference.ep import EP
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.training_rows import TrainingRows
from cavity.posterior import Posterior
from cavity.runtime.deadlines import time_limit
from cavity.runtime.interrupts import Postponed
from cavity.runtime.stop_reason import StopReason

STAGE_MARGIN = 10.0
"""Nats by which the evidence of another stage must exceed that of plain EP."""

SAME_END = 1e-2
"""Distance of hyperparameters, in log units, below which two runs ended at the same place."""


@dataclass(frozen=True)
class Learned:
    """The outcome of learning.

    Attributes
    ----------
    search : SearchResult
        The best model and every run of the optimizer.
    posterior : Posterior
        Given the data, at the learned values.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> found = GP(1.0 * SE(1.0), Gaussian(0.1)).learn(X, y, n_restarts=1, rng=0)
    >>> found.converged, len(found.runs), found.posterior.mean([[1.5]]).round(1)
    (True, 2, array([1.]))
    """

    search: SearchResult
    posterior: Posterior

    @property
    def model(self) -> GP:
        """The model with the learned values."""
        return self.search.model

    @property
    def value(self) -> float:
        """The objective at the learned values."""
        return self.search.value

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every run of the optimizer."""
        return self.search.runs

    @property
    def winner(self) -> Run | None:
        """The run whose end is the model."""
        return self.search.winner

    @property
    def converged(self) -> bool:
        """Whether the run that won met the optimizer's criterion."""
        return self.search.converged

    @property
    def stopped(self) -> StopReason | None:
        """Why learning ended early, if it did."""
        return self.search.stopped


def choose(model: GP, found: SearchResult, rows: TrainingRows, seconds: float | None = None) -> Learned:
    """The run to keep and its posterior; runs that were looked at say their stage in `message`.

    Chains have so many seconds. Ctrl-C ends them with what was drawn. If learning was interrupted before, it ends
    everything: there is no draw to keep then. Without chains it waits for the posterior, without which what was learned
    would be lost.
    """
    if model.inference.samples:
        with time_limit(seconds):
            return Learned(found, _sampled(model, found, rows))
    with Postponed() as late:
        learned = _best(model, found, rows, late)
    if late.interrupted:
        return replace(learned, search=replace(learned.search, stopped=StopReason.INTERRUPTED))
    return learned


def _sampled(model: GP, found: SearchResult, rows: TrainingRows) -> Posterior:
    """Draws of chains, which are to know all modes that were met."""
    if found.stopped is StopReason.INTERRUPTED:
        raise KeyboardInterrupt
    if found.winner is None:
        return found.model.condition(rows.X, rows.y, rows.weight)
    runs = list(found.runs)
    ends = tuple(runs[same[0]].theta for same in _ends(runs))
    return model.replace(found.winner.theta).condition(rows.X, rows.y, rows.weight, ends)


def _best(model: GP, found: SearchResult, rows: TrainingRows, late: Postponed) -> Learned:
    """Of the ends of all runs; after Ctrl-C of those that were looked at."""
    if found.winner is None:
        return Learned(found, found.model.condition(rows.X, rows.y, rows.weight))
    if not isinstance(model.inference, EP) or model.likelihood.log_concave:
        return Learned(found, _posterior(model, found.winner, rows))
    runs = list(found.runs)
    kept: tuple[int, Posterior] | None = None
    for i in (i for same in _ends(runs) for i in same):
        stopped = late.interrupted or found.stopped is StopReason.INTERRUPTED
        if kept is not None and (stopped or runs[i].value < runs[kept[0]].value - STAGE_MARGIN):
            break
        posterior = _posterior(model, runs[i], rows)
        runs[i] = replace(runs[i], message=f"{runs[i].message}; stage {posterior.status.label}")
        plain = posterior.status.stage is Stage.EP and not posterior.status.extended
        if kept is None or plain:
            kept = (i, posterior)
        if plain:
            break
    assert kept is not None  # the search raises if no run is usable
    i, posterior = kept
    chosen = replace(found, model=model.replace(runs[i].theta), value=runs[i].value, runs=tuple(runs))
    return Learned(chosen, posterior)


def _ends(runs: list[Run]) -> list[list[int]]:
    """Runs by the place where they ended, the highest objective first.

    Runs that came to the same place by different ways may have found its approximation at different stages, also if one
    was stopped on its way there. Other runs that were given up ended nowhere.
    """
    found: list[list[int]] = []
    ended = (i for i, run in enumerate(runs) if np.isfinite(run.value) and _has_end(run))
    for i in sorted(ended, key=lambda i: -runs[i].value):
        for same in found:
            if np.max(np.abs(runs[i].theta - runs[same[0]].theta), initial=0.0) < SAME_END:
                same.append(i)
                break
        else:
            found.append([i])
    return found


def _has_end(run: Run) -> bool:
    return not run.given_up or run.warm is not None


def _posterior(model: GP, run: Run, rows: TrainingRows) -> Posterior:
    posterior = model.replace(run.theta).condition(rows.X, rows.y, rows.weight, run.warm)
    posterior.learned = True
    return posterior
