"""Learning from batches of rows: hyperparameters of streams, and of more rows than anybody waits for.

A step takes one batch (`latent/inducing/dual_sites`): a natural-gradient step on what the inducing inputs know, whose
length falls, then one of Adam (Kingma and Ba 2015) on the hyperparameters, along the gradient of the estimated bound.
The result is the mean of the hyperparameters over the last half of the steps (Polyak and Juditsky 1992).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from cavity.gp import GP
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.inducing import Inducing
from cavity.latent.inducing.dual_sites import BatchBound, DualSites
from cavity.latent.inducing.prior import InducingPrior
from cavity.likelihoods.base import ExpectedLogProb
from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.rows.base import RowSource, as_rows
from cavity.runtime.errors import InputError
from cavity.runtime.progress import Progress

BATCH_ROWS, STEPS = 512, 600
"""Rows of a batch, and steps."""

RATE, LAST_RATE = 0.05, 0.01
"""Of Adam, in the optimizer's units (logarithms of scales), at the first step and at the last."""

LENGTH, LAST_LENGTH = 0.5, 0.02
"""Of natural-gradient steps."""

MOMENTS = 0.9, 0.999
"""Of Adam's averages of gradients and of their squares."""

SHORTEST = 1e-3
"""Length of a natural-gradient step below which a batch whose sites outweigh the prior is passed over."""


class StochasticLearner:
    """Learns a model from one batch after the other.

    Parameters
    ----------
    model : GP
        Bound, with inducing inputs that have been chosen, and one latent function.
    n : int
        Rows that batches are drawn from; of a stream, so many as the posterior is to stand for.
    steps : int
        After which rates have fallen to their last values.

    Attributes
    ----------
    model : GP
        At the present hyperparameters.
    values : list of float
        The estimated bound at each step.
    """

    def __init__(self, model: GP, n: int, steps: int = STEPS) -> None:
        held = model.representation
        if not isinstance(held, Inducing) or not held.definite or model.likelihood.n_latent != 1:
            raise InputError(
                "learning from batches needs inducing inputs and a likelihood of one latent function: use "
                "representation=Inducing(...) with a model that has met its rows (`for_rows`)"
            )
        self.model, self.n, self.steps = model, n, steps
        self.dual = DualSites.zero(held.m)
        self.values: list[float] = []
        self._moments = np.zeros((2, model.theta.size))
        self._sum, self._summed = np.zeros(model.theta.size), 0
        self._bounds = np.array(model.theta_bounds).reshape(-1, 2).T

    @property
    def averaged(self) -> GP:
        """The model at the mean of the hyperparameters of the second half of the steps."""
        return self.model if not self._summed else self.model.replace(self._sum / self._summed)

    def step(self, X: Array, y: Array, weight: Array | None = None) -> float:
        """Learn from a batch (b, D); the bound for all rows that it estimates, before the step."""
        count = len(self.values)
        done = min(1.0, count / self.steps)
        scale = np.full(len(y), self.n / len(y)) if weight is None else self.n / len(y) * weight
        likelihood = self.model.likelihood

        def expected(mean: Array, var: Array) -> ExpectedLogProb:
            return likelihood.expected_log_prob(y, mean, var)

        prior = self._prior(X)
        bound = BatchBound(prior, self.dual, expected, scale)
        self.values.append(bound.value)
        length = 1.0 if count == 0 else LENGTH * (LAST_LENGTH / LENGTH) ** done
        while length > SHORTEST:
            dual = self.dual.toward(bound.sites, length)
            try:
                bound = BatchBound(prior, dual, expected, scale)
            except ImproperPosteriorError:
                length *= 0.5
                continue
            self.dual = dual
            break
        self._adam(bound, RATE * (LAST_RATE / RATE) ** done)
        self.dual = self.dual.moved(prior, self._prior(X))
        if 2 * count >= self.steps:
            self._sum += self.model.theta
            self._summed += 1
        return self.values[-1]

    def _prior(self, X: Array) -> InducingPrior:
        model = self.model
        return cast(Inducing, model.representation).prior(model.kernel, model.mean, Inputs(X))

    def _adam(self, bound: BatchBound, rate: float) -> None:
        """One step along the gradient of the bound and the log prior of the parameters."""
        prior, mean = bound.gradient()
        flat = np.concatenate([prior.kernel, mean, bound.d_flat, prior.representation])
        gradient = self.model.to_theta(flat) + self.model.log_prior()[1]
        self._moments[0] += (1.0 - MOMENTS[0]) * (gradient - self._moments[0])
        self._moments[1] += (1.0 - MOMENTS[1]) * (gradient**2 - self._moments[1])
        count = len(self.values)
        m, v = (moment / (1.0 - beta**count) for moment, beta in zip(self._moments, MOMENTS))
        theta = self.model.theta + rate * m / (np.sqrt(v) + 1e-12)
        self.model = self.model.replace(np.clip(theta, *self._bounds))


def learn_in_batches(
    model: GP,
    X: Array | RowSource,
    y: Array,
    weight: Array | None = None,
    *,
    steps: int = STEPS,
    batch_rows: int = BATCH_ROWS,
    seed: int = 0,
) -> GP:
    """The model with hyperparameters learned from batches of all rows, in random order; memory is that of a batch.

    Parameters
    ----------
    model : GP
        With `representation=Inducing(...)`. Its values are where learning starts.
    steps, batch_rows : int
        Number of batches, and rows of each.
    seed : int
        Of the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP, Inducing
    >>> from cavity.kernels import SE
    >>> from cavity.learning.stochastic import learn_in_batches
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 20, 2000)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(2000)
    >>> model = GP(1.0 * SE(3.0), Gaussian(0.1), representation=Inducing(30, "vfe"))
    >>> learned = learn_in_batches(model, X, y, steps=200, batch_rows=200)
    >>> bool(abs(learned.likelihood.get("gaussian.variance") - 0.01) < 0.001)
    True
    """
    source = as_rows(X)
    model = model.bind(source.shape[1])
    model, y = model.for_rows(cast(Array, source)), model.likelihood.check(y)
    n, rng = len(y), np.random.default_rng(seed)
    size = min(batch_rows, n)
    learner, order, at = StochasticLearner(model, n, steps), rng.permutation(n), 0
    with Progress("learning from batches", steps) as progress, threads_for(size):
        for _ in range(steps):
            if at + size > n:
                order, at = rng.permutation(n), 0
            rows = np.sort(order[at : at + size])
            at += size
            value = learner.step(source.take(rows), y[rows], None if weight is None else weight[rows])
            progress.advance(f"(bound {value:.6g})")
    return learner.averaged
