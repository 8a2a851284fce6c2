"""Acquisition functions by their names: what a suggestion maximizes.

    ei        log expected improvement on the best mean; with noise, times what a noisy measurement tells (the default)
    nei       noisy expected improvement: incumbents are drawn, not plugged in
    pi        probability of improvement
    ucb       the lower confidence bound, at two standard deviations
    thompson  a draw of the function
    kg        knowledge gradient, one-shot
    mes       max-value entropy search
    gibbon    the same for noisy measurements, by a lower bound
    pes       predictive entropy search

Pending experiments: `ei`, `nei` and `pi` average over joint draws of their outcomes; for the others they are taken to
come out as expected, which leaves means as they are and takes their part of the variances. Probabilities that
limits hold multiply what is positive, in the log domain; to bounds and draws of the function, which have no sign, their
logarithms are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.design.acquisition.confidence import information, lower_confidence_bound
from cavity.design.acquisition.entropy import draw_minima, gibbon, max_value_entropy
from cavity.design.acquisition.improvement import Score, log_probability_of_improvement
from cavity.design.acquisition.one_shot import OneShotKnowledge, slice_means
from cavity.design.acquisition.pointwise import OfMoments, fantasies, log_ei, log_noisy_ei
from cavity.design.acquisition.predictive_entropy import PredictiveEntropy, given_minimum
from cavity.design.acquisition.thompson import Path, draw_path, joint_draws
from cavity.design.maximize import Acquisition, candidates, maximize, same_held, settled
from cavity.design.space import Space
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array
from cavity.numerics.projected_bfgs import descend
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.design.suggestion import Study

ACQUISITIONS = ("ei", "nei", "pi", "ucb", "thompson", "kg", "mes", "gibbon", "pes")
"""What `acquisition` may be."""

MULTIPLIER = 2.0
"""Standard deviations of the confidence bound."""

MARGIN = 0.01
"""By how much probability of improvement asks for better, in standard deviations of the outcomes: without a margin it
creeps."""

UNSEEN = 0.5
"""Standard deviations of the noise by which expected improvement asks for better: near the best row, where noise hides
whatever is gained, a run would measure again and again."""

GREED = 2.0
"""How many times smaller expected improvement takes standard deviations while most of the box is unknown: it goes down
where it is, since a second search looks elsewhere (`cavity.design.second_search`)."""

MINIMA, PLACES = 16, 8
"""Draws of the minimum's value and of its place."""

NODES, INNER, KG_STARTS, KG_STEPS = 8, 60, 5, 40
"""Nodes of the one-shot knowledge gradient, candidates for its inner points, starts of its ascents, and their
evaluations."""

TINY = 1e-200
"""Least value whose logarithm is taken."""

LEAST_NOISE = 1e-6
"""Noise variance that entropies take for none, of the variance of the outcomes."""


@dataclass(frozen=True, eq=False)
class Negative:
    """Minus a function that was drawn: large where it is small."""

    path: Path

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        return -self.path(X)

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        value, gradient = self.path.with_gradient(X)
        return -value, -gradient


@dataclass(frozen=True, eq=False)
class LogOf:
    """The logarithm of a positive acquisition: probabilities multiply it by adding their logarithms."""

    acquisition: Acquisition

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        return np.log(np.maximum(self.acquisition(X), TINY))

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        value, gradient = self.acquisition.with_gradient(X)
        there = value > TINY
        value = np.where(there, value, TINY)
        return np.log(value), np.where(there, 1.0 / value, 0.0)[:, None] * gradient


@dataclass(frozen=True, eq=False)
class Added:
    """An acquisition plus logarithms of probabilities."""

    acquisition: Acquisition
    logs: Sequence[OfMoments]

    def __call__(self, X: Array) -> Array:
        """Values (m,)."""
        return self.acquisition(X) + sum(log(X) for log in self.logs)

    def with_gradient(self, X: Array) -> tuple[Array, Array]:
        """Values (m,) and gradients (m, D)."""
        value, gradient = self.acquisition.with_gradient(X)
        for log in self.logs:
            more, slope = log.with_gradient(X)
            value, gradient = value + more, gradient + slope
        return value, gradient


@dataclass(frozen=True, eq=False)
class Where:
    """Where an acquisition is maximized: arguments of `maximize` that are the same for all.

    Attributes
    ----------
    space : Space
    centers : array (c, D)
        Good points so far.
    rng : Generator
    inside : pair of arrays (D,), optional
        A part of the cube to stay in.
    fixed, at : arrays (D,), optional
        Inputs that are held, and their coordinates.
    """

    space: Space
    centers: Array
    rng: np.random.Generator
    inside: tuple[Array, Array] | None = None
    fixed: NDArray[np.bool_] | None = None
    at: Array | None = None

    def largest(self, acquisition: Acquisition) -> Array:
        """Points (k, D), the best first."""
        return self.maximized(acquisition, self.centers)[0]

    def maximized(self, acquisition: Acquisition, centers: Array) -> tuple[Array, Array]:
        """Points (k, D), the best first, and their values (k,), with other good points (c, D) so far."""
        return maximize(
            acquisition, self.space, centers, self.rng, inside=self.inside, fixed=self.fixed, at=self.at
        )

    def candidates(self, extra: Sequence[OfMoments] = ()) -> Array:
        """Points that can be set, (k, D), and probably meet the limits if any does."""
        box = (self.space.low, self.space.high) if self.inside is None else self.inside
        raw = candidates(self.space, self.centers, self.rng, box)
        if self.fixed is not None and self.at is not None:
            raw[:, self.fixed] = self.at[self.fixed]
            raw = raw[self.space.feasible(raw)]
        likely = sum((log(raw) for log in extra), np.zeros(len(raw))) > np.log(0.5)
        return raw[likely] if likely.any() else raw


def best_points(study: Study, best: float | None, waiting: Array, seed: int, where: Where) -> Array:
    """Points (k, D) for the next experiment by what the options ask for, the best first.

    Parameters
    ----------
    best : float or None
        The best mean at a feasible row, in the model's units; None if there is none.
    waiting : array (p, D)
        Pending and failed points.
    """
    fit, extra, name = study.fit, study.extra, study.options.acquisition
    moments, noisy = fit.moments, fit.noisy
    noise = (fit.noise_sd / fit.units.size) ** 2 if noisy else 0.0
    if best is None:  # nothing feasible yet: where limits are most likely to hold
        return where.largest(OfMoments(moments, _nothing, extra, not noisy))
    if study.options.explore:
        after = _expected(moments, waiting)
        entropy = OfMoments(after, partial(information, noise=max(noise, LEAST_NOISE)), (), not noisy)
        return where.largest(Added(LogOf(entropy), extra) if extra else entropy)
    if name in ("ei", "pi"):
        bests: float | Array = best
        if len(waiting):
            moments, bests = fantasies(moments, waiting, best, seed)
        if name == "ei":
            greed = GREED if study.mostly_unknown else 1.0
            found = log_ei(moments, bests - UNSEEN * np.sqrt(noise), noisy=noisy, noise=noise, greed=greed)
        else:
            found = OfMoments(
                moments, partial(log_probability_of_improvement, best=bests, margin=MARGIN), (), not noisy
            )
        return where.largest(OfMoments(found.moments, found.score, extra, found.nothing_left))
    if name == "nei":
        found = log_noisy_ei(moments, study.X[study.feasible], seed, pending=waiting)
        return where.largest(OfMoments(found.moments, found.score, extra, found.nothing_left))
    after = _expected(moments, waiting)
    chosen: Acquisition
    if name == "ucb":
        bound = OfMoments(after, partial(lower_confidence_bound, multiplier=MULTIPLIER), extra, not noisy)
        return where.largest(bound)
    if name == "thompson":
        return _thompson(after, extra, where)
    if name == "kg":
        return _knowledge(
            OneShotKnowledge(after, slice_means(NODES), best, max(noise, LEAST_NOISE)), extra, where
        )
    if name == "pes":
        places = [_thompson(after, extra, where)[0] for _ in range(PLACES)]
        low, high = where.space.low, where.space.high
        given = [given_minimum(after, place, best, low, high) for place in places]
        chosen = PredictiveEntropy(after, given, max(noise, LEAST_NOISE))
    else:
        mean, variance = after(where.candidates(extra))
        minima = np.minimum(draw_minima(mean[:, 0], variance, MINIMA, where.rng), best)
        score = (
            partial(max_value_entropy, minima=minima)
            if name == "mes"
            else partial(gibbon, minima=minima, noise=noise)
        )
        chosen = OfMoments(after, score, (), not noisy)
    return where.largest(Added(LogOf(chosen), extra) if extra else chosen)


def _nothing(mean: Array, variance: Array) -> Score:
    zero = np.zeros(np.broadcast_shapes(mean.shape, variance.shape))
    return Score(zero, zero, zero)


def _expected(moments: Moments, waiting: Array) -> Moments:
    """The process if pending experiments came out as expected."""
    return moments.given(waiting, lambda mean, lower: mean[None]) if len(waiting) else moments


def _thompson(moments: Moments, extra: Sequence[OfMoments], where: Where) -> Array:
    """Where a draw of the function is smallest; jointly at candidates if there are categories."""
    try:
        path = draw_path(moments, where.rng)
    except InputError:
        points = where.candidates()
        value = -joint_draws(moments, points, 1, where.rng)[0] + sum(log(points) for log in extra)
        return np.asarray(points[np.argsort(-value, kind="stable")])
    return where.largest(Added(Negative(path), extra) if extra else Negative(path))


def _knowledge(goal: OneShotKnowledge, extra: Sequence[OfMoments], where: Where) -> Array:
    """Points by the one-shot knowledge gradient: candidates first, then all inner points with them."""
    space, raw = where.space, where.candidates()
    low, high = (space.low, space.high) if where.inside is None else where.inside
    # inner points begin where the mean, or the bound, is low
    likely = where.candidates(extra) if extra else np.vstack([where.centers, raw])
    mean, variance = goal.moments(likely)
    inners = likely[np.argsort(mean[:, 0] - np.sqrt(variance), kind="stable")[:INNER]]
    goal = replace(
        goal, least=float(goal.moments(inners)[0][:, 0].min())
    )  # nothing is worth less than nothing
    value, which = goal.best_of(raw, inners)
    value = value * np.exp(sum(log(raw) for log in extra))
    order = np.argsort(-value, kind="stable")
    starts, inner = raw[order[:KG_STARTS]], inners[which[order[:KG_STARTS]]]
    free = ~space.categorical if where.fixed is None else ~space.categorical & ~where.fixed
    ends = starts.copy()
    S, d = inner.shape[1], int(free.sum())
    for group in same_held(starts, free) if d else []:
        held, held_inner = starts[group[0]], inner[group[0]]

        def downhill(z: Array, held: Array = held, held_inner: Array = held_inner) -> tuple[Array, Array]:
            X, inside = np.repeat(held[None], len(z), axis=0), np.repeat(held_inner[None], len(z), axis=0)
            X[:, free], inside[:, :, free] = z[:, :d], z[:, d:].reshape(len(z), S, d)
            value, to_outer, to_inner = goal(X, inside)
            for log in extra:
                more, slope = log.with_gradient(X)
                share = np.exp(more)
                to_outer = share[:, None] * (to_outer + value[:, None] * slope)
                value, to_inner = value * share, share[:, None, None] * to_inner
            return -value, -np.hstack([to_outer[:, free], to_inner[:, :, free].reshape(len(z), S * d)])

        begin = np.hstack([starts[group][:, free], inner[group][:, :, free].reshape(len(group), S * d)])
        box = np.tile(low[free], S + 1), np.tile(high[free], S + 1)
        done = descend(downhill, begin, *box, evaluations=KG_STEPS, tolerance=1e-5, retire=True)
        ends[np.ix_(group, np.flatnonzero(free))] = done.x[:, :d]
    ends = settled(space, starts, ends)
    points = np.vstack([ends, raw])
    # what ends reach with the best inner points at hand: those of the candidates and the ends themselves
    final, _ = goal.best_of(points, np.vstack([inners, ends]))
    final = final * np.exp(sum(log(points) for log in extra))
    return np.asarray(points[np.argsort(-final, kind="stable")])
