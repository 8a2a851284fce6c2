"""Acquisition functions of mean and variance at a point, averaged over what is not known yet.

`OfMoments` turns a function of (mean, variance) into one of the point, with its gradient by one pullback. Pending
experiments have outcomes that are drawn jointly: S means, one variance, and the average over draws of the exponential
of the score, in the log domain. Nothing is fitted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from cavity.design.acquisition.improvement import (
    Score,
    log_augmented_improvement,
    log_expected_improvement,
    log_mean_exp,
)
from cavity.design.acquisition.thompson import probability_of_minimum
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array

NOTHING_LEFT = 1e-10
"""Share of the prior variance below which nothing is left to be learned at a point."""

DRAWS = 32
"""Joint draws of the outcomes of pending experiments."""

WHO_IS_BEST, MAY_BE_BEST, MOST_ROWS = 512, 0.01, 10
"""Of noisy expected improvement: draws that say which rows may be best, how probable that must be, and how many."""

Pointwise = Callable[[Array, Array], Score]
"""(mean (m, S), variance (m, 1)) -> Score of shape (m, S)."""


@dataclass(frozen=True, eq=False)
class OfMoments:
    """A score of mean and variance, as a function of the point.

    Attributes
    ----------
    moments : Moments
    score : callable
        Of means (m, S) and variances (m, 1), in the log domain if S > 1.
    extra : tuple of Acquisition
        What is added: logarithms of probabilities that constraints hold.
    nothing_left : bool
        Whether points whose variance is rounding are worth nothing (functions without noise).
    """

    moments: Moments
    score: Pointwise
    extra: tuple[OfMoments, ...] = ()
    nothing_left: bool = True

    def _value(self, mean: Array, variance: Array) -> Score:
        score = self.score(mean, variance[:, None])
        if mean.shape[1] > 1:
            return log_mean_exp(score)
        return Score(score.value[:, 0], score.d_mean, score.d_variance[:, 0])

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        mean, variance, prior = self.moments.relative(X)
        value = self._value(mean, variance).value
        if self.nothing_left:
            value = np.where(variance < NOTHING_LEFT * prior, -np.inf, value)
        for other in self.extra:
            value = value + other(X)
        return value

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        mean, variance, pull = self.moments.with_pull(X)
        score = self._value(mean, variance)
        value, gradient = score.value, pull(score.d_mean, score.d_variance)
        for other in self.extra:
            more, slope = other.with_gradient(X)
            value, gradient = value + more, gradient + slope
        return value, gradient


def sobol_normals(draws: int, count: int, seed: int) -> Array:
    """Standard normal numbers (draws, count), evenly spread."""
    if count == 0:
        return np.zeros((draws, 0))
    if count > 20:  # the even spread of Sobol points is lost in so many coordinates
        return np.random.default_rng(seed).standard_normal((draws, count))
    u = qmc.Sobol(count, scramble=True, seed=np.random.default_rng(seed)).random(draws)
    return np.asarray(ndtri(np.clip(u, 1e-12, 1 - 1e-12)))


def fantasies(
    moments: Moments, pending: Array, best: float, seed: int, draws: int = DRAWS
) -> tuple[Moments, Array]:
    """The process for each of several joint draws of the values at pending points (p, D), and the incumbents (S,).

    The variance is that after all of them, the same for all draws.
    """
    kept: list[Array] = []

    def draw(mean: Array, lower: Array) -> Array:
        values = mean + sobol_normals(draws, len(mean), seed) @ lower.T
        kept.append(values)
        return values

    after = moments.given(pending, draw)
    return after, np.minimum(best, kept[0].min(axis=1))


def log_ei(
    moments: Moments, best: float | Array, *, noisy: bool = False, noise: float = 0.0, greed: float = 1.0
) -> OfMoments:
    """log expected improvement on incumbents, one or one for each column of the weights.

    With a noise variance, of what a noisy observation tells (`log_augmented_improvement`). Greed makes standard
    deviations so many times smaller: then the mean counts for more.
    """
    share = 1.0 / greed**2

    def score(mean: Array, variance: Array) -> Score:
        v = share * variance
        found = (
            log_augmented_improvement(mean, v, best, share * noise)
            if noise > 0
            else log_expected_improvement(mean, v, best)
        )
        return Score(found.value, found.d_mean, share * found.d_variance)

    return OfMoments(moments, score, (), not noisy)


def log_noisy_ei(
    moments: Moments, rows: Array, seed: int, *, pending: Array | None = None, draws: int = DRAWS
) -> OfMoments:
    """log expected improvement on the best of rows (n, D) whose values noise leaves uncertain (Letham et al., 2019).

    The values at rows that may be best, and at pending points, are drawn jointly; each draw has an incumbent of its
    own. Rows that are best with less than `MAY_BE_BEST` probability have no part in it.
    """
    p = probability_of_minimum(moments, rows, WHO_IS_BEST, np.random.default_rng(seed))
    order = np.argsort(-p, kind="stable")[:MOST_ROWS]
    drawn = rows[[int(i) for i in order if p[i] >= MAY_BE_BEST]]
    drawn = drawn if pending is None or not len(pending) else np.vstack([drawn, pending])
    after, bests = fantasies(moments, drawn, np.inf, seed, draws)
    return OfMoments(
        after, lambda mean, variance: log_expected_improvement(mean, variance, bests), (), nothing_left=True
    )
