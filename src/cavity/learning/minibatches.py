"""Conditioning on rows in batches (`latent/inducing/batches`), if there is more arithmetic than anybody waits for.

A rule that chooses sites takes some ten passes over all rows. Batch by batch two or three visits of each do, because a
batch begins with what all others have said; and V of a batch is kept while a rule works on it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from cavity.gp import GP
from cavity.inference.base import Approximation, Status, TrainingData
from cavity.inference.exact import Exact
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.inducing import Inducing
from cavity.latent.inducing.batches import GivenOthers, Knowledge
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.inducing.prior import KEPT_DOUBLES
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.posterior import Posterior
from cavity.rows.base import RowSource, as_rows
from cavity.runtime.progress import Progress

MUCH = 1e13
"""n m^2 from which rows are conditioned on in batches."""

VISITS = 5
"""Of each batch, at most."""

BATCH_ROWS, PER_INDUCING = 4096, 8
"""Rows of a batch: at least so many, and so many for each inducing input, so that work on m x m matrices is little."""

STEADY = 0.01
"""Standard deviations by which a visit may move a marginal mean if it was the last."""


def in_batches(model: GP, n: int) -> bool:
    """Whether n rows are better conditioned on in batches."""
    held = model.representation
    sites = not isinstance(model.inference, Exact) and not model.inference.samples
    return isinstance(held, Inducing) and sites and model.likelihood.n_latent == 1 and n * held.m**2 > MUCH


def condition(model: GP, X: Array | RowSource, y: Array, weight: Array | None = None) -> Posterior:
    """The posterior given all rows; in batches if they are too much for a rule at once."""
    if in_batches(model, len(y)):
        return condition_in_batches(model, X, y, weight)
    return model.condition(X, y, weight)


def condition_in_batches(
    model: GP,
    X: Array | RowSource,
    y: Array,
    weight: Array | None = None,
    *,
    visits: int = VISITS,
    batch_rows: int | None = None,
) -> Posterior:
    """The posterior given all rows, whose sites are found batch by batch, each given all others.

    Parameters
    ----------
    visits : int
        Of each batch, at most.
    batch_rows : int, optional
        Rows of a batch.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, Inducing
    >>> from cavity.kernels import SE
    >>> from cavity.learning.minibatches import condition_in_batches
    >>> from cavity.likelihoods import Probit
    >>> X = np.linspace(0, 10, 300)[:, None]
    >>> model = GP(4.0 * SE(1.0), Probit(), representation=Inducing(15))
    >>> y = np.where(np.sin(X[:, 0]) > 0, 1.0, -1.0)
    >>> batched, whole = condition_in_batches(model, X, y, batch_rows=100), model.condition(X, y)
    >>> bool(abs(batched.log_evidence - whole.log_evidence) < 0.01)
    True
    """
    source = as_rows(X)
    model = model.bind(source.shape[1])
    model, y = model.for_rows(cast(Array, source)), model.likelihood.check(y)
    held = cast(Inducing, model.representation)
    size = batch_rows or min(max(BATCH_ROWS, PER_INDUCING * held.m), max(1, KEPT_DOUBLES // held.m))
    found = _Sites(model, y, weight)
    with Progress("rows in batches", visits * -(-len(y) // size)) as progress, threads_for(len(y)):
        for visit in range(visits):
            moved = 0.0
            for rows, block in source.batches(size):
                moved = max(moved, found.visit(rows, block))
                progress.advance()
            if visit and moved <= STEADY:
                break
    data = TrainingData(cast(Array, source), y, weight, held.prepare(source))
    q = Conditioned(model.prior(data.inputs), found.sites)
    status = replace(found.status, residual=moved, converged=found.status.converged and moved <= STEADY)
    if moved > STEADY:
        status = replace(
            status, message=f"the last visit of a batch moved marginals by {moved:.2g} standard deviations"
        )
    value = q.log_normalizer + sum(found.scales.values())
    posterior = Posterior(model, Approximation(q.process(), value, status, q), data)
    data.inputs.release()
    return posterior


class _Sites:
    """The sites of all rows, and what they make of the inducing inputs.

    Attributes
    ----------
    scales : dict
        Log scale of the sites of each batch, by its first row.
    """

    def __init__(self, model: GP, y: Array, weight: Array | None) -> None:
        self.model, self.y, self.weight = model, y, weight
        self.sites = Sites.zero(len(y))
        self.known: Knowledge | None = None
        self.scales: dict[int, float] = {}
        self.status = Status()

    def visit(self, rows: slice, X: Array) -> float:
        """Find the sites of a batch, given all others; by how many standard deviations that moves a marginal mean."""
        model = self.model
        prior = cast(Inducing, model.representation).prior(model.kernel, model.mean, Inputs(X))
        old = Sites(self.sites.shift[rows].copy(), self.sites.precision[rows].copy())
        others = Knowledge.nothing(prior.m) if self.known is None else self.known
        if rows.start in self.scales:
            try:
                others = others.without(prior, old)
            except ImproperPosteriorError:  # negative sites elsewhere need these: they stay as they are
                return 0.0
        batch = GivenOthers(prior, others)
        seen = Observations(model.likelihood, self.y, self.weight).rows(np.arange(rows.start, rows.stop))
        found = model.rule.infer(batch, seen)
        q = cast(Conditioned, found.q)
        before = Conditioned(batch, old).mean
        self.sites.shift[rows], self.sites.precision[rows] = q.sites.shift, q.sites.precision
        self.known = others.after(batch, q.weights, cast(InducingConditioning, q.conditioning))
        self.scales[rows.start] = found.log_evidence - q.log_normalizer
        self.status = replace(
            found.status,
            converged=found.status.converged,
            iterations=self.status.iterations + found.status.iterations,
        )
        return float(np.max(np.abs(q.mean - before) / np.sqrt(q.var)))
