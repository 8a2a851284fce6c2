"""One of the models that a forecaster averages over: learning, forecasts, densities of values that were held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from cavity.forecasting.scales import IDENTITY, LOG, RATE, Scale
from cavity.forecasting.structures import is_count, noise_model, terms
from cavity.gp import GP
from cavity.kernels import Kernel
from cavity.learning.fit import learn
from cavity.learning.run_choice import Learned
from cavity.likelihoods import Likelihood
from cavity.numerics.arrays import Array
from cavity.parameters.param import fixed
from cavity.posterior import Posterior
from cavity.prediction import Prediction

LEARNED_FROM = 3000
"""Hyperparameters are learned from at most so many values, the last ones."""

NARROWEST_START = 0.3
"""Scale of Student-t noise at which learning begins, at least, in units of the scale."""

SPIKE = 8.0
"""Size of what is taken for a gross error where learning begins."""

FOLDS = 8
"""Origins inside the data at which models are compared."""

PER_WINDOW = 1.5
"""Independent observations that as many values as the horizon count for in the weights: they are much alike."""

PRIOR_WEIGHT = {"slope": 4.0, "damped": 2.0, "level": 2.0, "reverting": 1.0, "cycle": 1.0}
"""Of the kinds of trends, before any value was held out."""

STAYS = 0.15
"""Part of all weight that stays as it was before."""

HOPELESS = 2.0
"""A trend whose score is so much below the best on one scale is not tried on others."""

LEAST_WEIGHT = 0.02
"""Models of less weight are dropped."""

IMPOSSIBLE = 1e3
"""Log density below zero at which a value counts as impossible."""


@dataclass(frozen=True)
class Member:
    """A fitted model.

    Attributes
    ----------
    trend : str
        The kind of its trend (`structures.TRENDS`).
    scale : Scale
    names : tuple of str
        What each term of its kernel is: "trend", "cycle", "short", or a season.
    posterior : Posterior
        In the units of the model, over steps.
    weight : float
    """

    trend: str
    scale: Scale
    names: tuple[str, ...]
    posterior: Posterior
    weight: float = 1.0

    @property
    def counts(self) -> bool:
        """Whether it is a model of counts."""
        return self.scale.link == RATE

    def prediction(self, t: Array, *, clean: bool) -> Prediction:
        """Of observations at these steps; `clean` of such as are no gross errors, if the noise knows them."""
        clean = clean and _tells_outliers(self.posterior.model.likelihood)
        return self.scale.prediction(self.posterior.predict_y(t[:, None], clean=clean))

    def given(self, t: Array, y: Array) -> Member:
        """The same model, at the same hyperparameters, given other data."""
        z = self.scale.to_model(y)
        return replace(self, posterior=self.posterior.model.condition(t[:, None], z))

    def held_out(self, t: Array, y: Array, cuts: Sequence[int], horizon: int) -> Array:
        """Log densities of the values after each of the cuts given those before, one after the other."""
        found = []
        for cut in cuts:
            ahead = slice(cut, cut + horizon)
            known = self.given(t[:cut], y[:cut])
            found.append(known.prediction(t[ahead], clean=False).log_prob(y[ahead]))
        return np.concatenate(found)


def _tells_outliers(likelihood: Any) -> bool:
    from cavity.likelihoods.base import Likelihood

    return type(likelihood).clean_predictive is not Likelihood.clean_predictive


def fit_member(
    trend: str, link: str, likelihood: Any, t: Array, y: Array, seasons: Sequence[tuple[str, float]]
) -> Member:
    """Learn a model of values y at steps t, in order, from its last values; then condition it on all."""
    longest = max([period for _, period in seasons], default=1.0)
    scale = Scale.of(link, y, t, longest)
    z = scale.to_model(y)
    typical = z if link != RATE else (np.log(np.maximum(y, 0.5)) - scale.center) / scale.unit
    named = terms(trend, t, typical, seasons)
    if link == RATE:  # the latent function is the logarithm of the rate itself
        named = [(name, fixed(scale.unit**2) * kernel) for name, kernel in named]
    kernel = named[0][1]
    for _, term in named[1:]:
        kernel = kernel + term
    noise, recent = noise_model(likelihood), slice(max(0, len(t) - LEARNED_FROM), None)
    if likelihood == "student-t" and trend == "damped":
        kernel, noise = _started(kernel, noise, t[recent], z[recent], max(1, round(longest)))
    learned = _learned(kernel, noise, t[recent], z[recent])
    posterior = learned.posterior
    if recent.start:
        posterior = learned.model.condition(t[:, None], z)
    return Member(trend, scale, tuple(name for name, _ in named), posterior)


def _learned(kernel: Kernel, noise: Likelihood, t: Array, z: Array) -> Learned:
    """Learn from the values given, to the digits that evaluations have."""
    model = GP(kernel, noise, representation="markov").bind(1)
    return learn(model, t[:, None], z, n_restarts=0, data_driven=False, warm=True, progress=False, warn=False)


def _started(kernel: Kernel, noise: Likelihood, t: Array, z: Array, lag: int) -> tuple[Kernel, Likelihood]:
    """Kernel and Student-t noise with the values that normal noise leads to if spikes are left out.

    If a trend changes far more than the kernel's own values say, most values are outliers to it, EP's fixed points end
    before a better trend is reached, and learning would end there. Normal noise has no such trouble.
    """
    regular = ~spikes(z, lag)
    easy = _learned(kernel, noise_model("gaussian"), t[regular], z[regular]).model
    scale = max(float(np.sqrt(easy.likelihood.get("gaussian.variance"))), NARROWEST_START)
    return easy.kernel, noise.update({"studentt.scale": scale})


def spikes(z: Array, lag: int) -> NDArray[np.bool_]:
    """Which values lie far above, or far below, both those a cycle before and after; z in units of `Scale`."""
    found = np.zeros(len(z), dtype=bool)
    if len(z) > 4 * lag:
        change = z[lag:] - z[:-lag]
        change = change - np.median(change)
        up = np.minimum(change[:-lag], -change[lag:])
        down = np.minimum(-change[:-lag], change[lag:])
        found[lag:-lag] = np.maximum(up, down) > SPIKE
    return found


def families(y: Array, link: str, likelihood: Any) -> list[tuple[str, Any]]:
    """Pairs of link and likelihood to compare: counts and positive values have more than one."""
    if likelihood != "auto" and is_count(likelihood):
        return [(RATE, likelihood)]
    noise = "student-t" if likelihood == "auto" else likelihood
    links = [link] if link != "auto" else [IDENTITY] + ([LOG] if (y > 0).all() else [])
    found: list[tuple[str, Any]] = [(one, noise) for one in links]
    whole = bool((y >= 0).all() and (y == np.round(y)).all() and np.median(y) <= 100)
    if likelihood == "auto" and link == "auto" and whole and len(np.unique(y)) > 2:
        found.append((RATE, "negative-binomial"))
    return found


def cuts_of(n: int, horizon: int) -> list[int]:
    """Places in a series of n values at which models are compared, none before half of it."""
    last = n - max(1, horizon // 2)
    return [int(cut) for cut in np.unique(np.linspace(n // 2, last, FOLDS).astype(int)) if 2 < cut < n]


def held_out_scores(log_density: Array, n: int, horizon: int) -> Array:
    """Scores (K,) by the density of held-out values (m, K): mean log densities times what all of them count for.

    Values after one origin are much alike, and origins closer than the horizon see the same values.
    """
    if len(log_density) == 0:
        return np.zeros(log_density.shape[1])
    windows = float(np.clip(0.5 * n / horizon, 1.0, FOLDS))
    return np.asarray(PER_WINDOW * windows * log_density.mean(axis=0))


def mixed_weights(scores: Array, prior: Array) -> Array:
    """Weights from scores and prior weights; a part of them stays with the prior, since a few values may mislead."""
    prior = prior / prior.sum()
    found = np.log(prior) + scores
    return np.asarray((1.0 - STAYS) * np.exp(found - logsumexp(found)) + STAYS * prior)


def averaged_members(
    trends: Sequence[str],
    pairs: Sequence[tuple[str, Any]],
    t: Array,
    y: Array,
    seasons: Sequence[tuple[str, float]],
    horizon: int,
) -> list[Member]:
    """Fitted models with their weights: every trend on the first scale, on others those that did well there.

    A model whose evidence cannot be found (EP has no fixed point) is left to the others. Models of counts and of
    measurements are not mixed: those that predict better are kept.
    """
    cuts = cuts_of(len(t), horizon) if len(trends) * len(pairs) > 1 else []
    found: dict[bool, list[tuple[Member, Array]]] = {False: [], True: []}
    wanted, reason = list(trends), None
    for link, noise in pairs:
        tried = []
        for trend in wanted:
            try:
                member = fit_member(trend, link, noise, t, y, seasons)
            except np.linalg.LinAlgError as error:
                reason = error
            else:
                tried.append(
                    (member, _bounded(member.held_out(t, y, cuts, horizon)) if cuts else np.zeros(0))
                )
        found[link == RATE] += tried
        if tried:
            scores = held_out_scores(np.column_stack([density for _, density in tried]), len(t), horizon)
            wanted = [member.trend for (member, _), s in zip(tried, scores) if s > scores.max() - HOPELESS]
    best: tuple[float, list[Member]] | None = None
    for tried in filter(None, found.values()):
        density = np.column_stack([part for _, part in tried])
        prior = np.array([PRIOR_WEIGHT[member.trend] for member, _ in tried])
        weights = mixed_weights(held_out_scores(density, len(t), horizon), prior)
        score = float(np.sum(logsumexp(np.log(weights) + density, axis=1)))
        if best is None or score > best[0]:
            best = score, [replace(member, weight=float(w)) for (member, _), w in zip(tried, weights)]
    if best is None:
        raise reason or np.linalg.LinAlgError("no model could be fitted")
    return _without_the_light(best[1])


def _bounded(log_density: Array) -> Array:
    """Densities of values that a model thinks impossible, as something that can be averaged."""
    return np.maximum(np.nan_to_num(log_density, nan=-IMPOSSIBLE), -IMPOSSIBLE)


def _without_the_light(members: Sequence[Member]) -> list[Member]:
    kept = [member for member in members if member.weight >= LEAST_WEIGHT] or list(members)
    total = sum(member.weight for member in kept)
    return [replace(member, weight=member.weight / total) for member in kept]
