"""Limits on further outcomes, and experiments that fail.

An outcome that must stay below a limit t has a model of its own; log Phi((t - m) / s) is added to the acquisition.
Failures are no outcomes: turned into large numbers they would be outliers of our own making. A few that stand alone
are treated like pending experiments, so that they are not repeated; many are evidence of a region, and then the
probability of success comes from a classifier by expectation propagation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from cavity.design.acquisition.improvement import Score, log_phi
from cavity.design.acquisition.pointwise import OfMoments
from cavity.design.history import Trial
from cavity.design.space import Space
from cavity.design.surrogate import fit_surrogate, process_kernel
from cavity.gp import GP
from cavity.latent.moments import moments_of
from cavity.learning.objective import Objective
from cavity.learning.optimizer import maximize
from cavity.likelihoods import Probit
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

FEW_FAILURES = 3
"""Fewer are treated like pending experiments."""


@dataclass(frozen=True)
class Limit:
    """An outcome that must be at most, or at least, a number.

    Examples
    --------
    >>> from cavity.design import Limit
    >>> Limit.parse("yield > 80")
    Limit(outcome='yield', bound=80.0, at_most=False)
    """

    outcome: str
    bound: float
    at_most: bool = True

    @classmethod
    def parse(cls, text: str) -> Limit:
        """From "name < number" or "name > number"."""
        match = re.fullmatch(r"\s*(.+?)\s*(<=|>=|<|>)\s*([-+\d.eE]+)\s*", text)
        try:
            if match is None:
                raise ValueError
            return cls(match[1], float(match[3]), match[2].startswith("<"))
        except ValueError:
            raise InputError(
                f"a limit is an outcome, < or >, and a number, as in 'yield > 80', got {text!r}"
            ) from None

    def __str__(self) -> str:
        return f"{self.outcome} {'<' if self.at_most else '>'} {self.bound:g}"


def log_probability_below(limit: float) -> OfMomentsScore:
    """log P(f < limit), as a score of mean and variance."""
    return OfMomentsScore(limit, 0.0)


@dataclass(frozen=True)
class OfMomentsScore:
    """log Phi((limit - m) / sqrt(extra + v))."""

    limit: float
    extra: float

    def __call__(self, mean: Array, variance: Array) -> Score:
        """Values with derivatives in mean and variance."""
        s = np.sqrt(self.extra + variance)
        z = (self.limit - mean) / s
        value = log_ndtr(z)
        ratio = np.exp(log_phi(z) - value)
        return Score(value, -ratio / s, -0.5 * ratio * z / (s * s))


def limit_scores(space: Space, done: Sequence[Trial], limits: Sequence[Limit]) -> tuple[OfMoments, ...]:
    """Log probabilities that each limit holds, as functions of the point."""
    scores = []
    for limit in limits:
        rows = [trial for trial in done if limit.outcome in trial.outcomes]
        y = np.array([trial.outcomes[limit.outcome] for trial in rows])
        if len(rows) < 2 or np.ptp(y) == 0:
            continue
        sign = 1.0 if limit.at_most else -1.0
        X = np.array([space.to_unit(trial.x) for trial in rows])
        fit = fit_surrogate(space, X, sign * y)
        bound = float(fit.units.to_unit(np.array(sign * limit.bound)))
        scores.append(OfMoments(fit.moments, log_probability_below(bound), (), False))
    return tuple(scores)


def success_score(space: Space, X: Array, failed: Array) -> OfMoments | None:
    """Log probability that an experiment succeeds, if failures are more than a few."""
    if len(failed) < FEW_FAILURES:
        return None
    inputs = np.vstack([X, failed])
    labels = np.concatenate([np.ones(len(X)), -np.ones(len(failed))])
    model = GP(process_kernel(space), Probit(), mean="zero").bind(space.n)
    box = np.array(model.layout.bounds, dtype=float).reshape(-1, 2)
    box = np.where(np.isfinite(box), box, np.array([-20.0, 20.0]))
    goal = Objective(model, inputs, labels, enough=1e-4)
    run = maximize(goal, model.theta, box, np.ones(len(model.theta)), "design")
    posterior = model.replace(run.theta).condition(inputs, labels, warm=run.warm)
    # P(success) = Phi(m / sqrt(1 + v)) = Phi((0 - (-m)) / sqrt(1 + v)): the score of minus the mean
    moments = moments_of(posterior.process)

    def score(mean: Array, variance: Array) -> Score:
        found = OfMomentsScore(0.0, 1.0)(-mean, variance)
        return Score(found.value, -found.d_mean, found.d_variance)

    return OfMoments(moments, score, (), False)
