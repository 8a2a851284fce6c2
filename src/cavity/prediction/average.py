"""Averages of predictive distributions, over draws or models: mixtures in the family of their parts.

Normal parts become a mixture of normals, mixtures of normals a longer one, categories average their probabilities;
other continuous parts and counts keep their parts and average density and distribution function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, Seed, check_levels, integer_quantile
from cavity.prediction.by_group import GroupedPrediction
from cavity.prediction.categorical import CategoricalPrediction
from cavity.prediction.continuous import ContinuousPrediction
from cavity.prediction.gaussian import GaussianPrediction
from cavity.prediction.mixture_of_gaussians import MixturePrediction


class _Mixture(Prediction):
    """A mixture of predictions over the same n cases, weights shared by all of them.

    Parameters
    ----------
    weights : array (K,)
        They add up to one.
    parts : sequence of Prediction
    """

    def __init__(self, weights: ArrayLike, parts: Sequence[Prediction]) -> None:
        self._w: Array = np.asarray(weights, dtype=float)
        self._parts = tuple(parts)

    def _average(self, values: Any) -> Array:
        return np.asarray(sum(w * value for w, value in zip(self._w, values)))

    @property
    def mean(self) -> Array:
        """Average of the means."""
        return self._average(p.mean for p in self._parts)

    @property
    def variance(self) -> Array:
        """Average of the variances plus variance of the means."""
        mean = self.mean
        return self._average(p.variance + (p.mean - mean) ** 2 for p in self._parts)

    def log_prob(self, y: ArrayLike) -> Array:
        """Log of the average density or probability."""
        terms = np.stack([np.log(w) + p.log_prob(y) for w, p in zip(self._w, self._parts)])
        return np.asarray(logsumexp(terms, axis=0))

    def cdf(self, y: ArrayLike) -> Array:
        """Average of the distribution functions."""
        return self._average(p.cdf(y) for p in self._parts)

    def survival(self, y: ArrayLike) -> Array:
        """Average of the upper tails."""
        return self._average(p.survival(y) for p in self._parts)

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Choose a part for each draw and case, then draw from it."""
        generator = np.random.default_rng(rng)
        which = generator.choice(len(self._w), size=(size, len(self)), p=self._w / self._w.sum())
        out = np.empty(which.shape)
        for k in np.unique(which):
            chosen = which == k
            out[chosen] = self._parts[k].sample(size, generator)[chosen]
        return out


class MixedPrediction(_Mixture, ContinuousPrediction):
    """A mixture of continuous predictions.

    Examples
    --------
    >>> from cavity.likelihoods import Laplace, StudentT
    >>> from cavity.prediction import MixedPrediction
    >>> parts = [StudentT(1.0, 4.0).predictive([0.0], [0.1]), Laplace(1.0).predictive([1.0], [0.1])]
    >>> MixedPrediction([0.5, 0.5], parts).mean
    array([0.5])
    """

    def _location_and_width(self) -> tuple[Array, Array]:
        low, high = self._parts[0].interval(0.5)
        return 0.5 * (low + high), np.maximum(high - low, 1e-300)


class MixedCounts(_Mixture):
    """A mixture of predictions of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Poisson
    >>> from cavity.prediction import MixedCounts
    >>> parts = [Poisson().predictive(np.log([rate]), [0.0]) for rate in (1.0, 9.0)]
    >>> MixedCounts([0.5, 0.5], parts).quantile([0.25, 0.75])[:, 0]
    array([1., 9.])
    """

    def quantile(self, q: ArrayLike) -> Array:
        """Smallest count whose cumulative probability reaches q."""
        levels = check_levels(q)
        found = np.stack([integer_quantile(self.cdf, float(p), self.mean) for p in levels.ravel()])
        return found.reshape(levels.shape + (len(self),))


class Slices(Prediction):
    """S predictions over the same m cases, held as one prediction over S m cases, averaged: one call for all draws.

    Parameters
    ----------
    whole : Prediction
        Over S m cases, draw by draw.
    count : int
        S.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Poisson
    >>> from cavity.prediction import Slices
    >>> whole = Poisson().predictive(np.log([1.0, 9.0]), [0.0, 0.0])
    >>> Slices(whole, 2).mean.round(6)  # one case, two draws
    array([5.])
    """

    def __init__(self, whole: Prediction, count: int) -> None:
        self._whole, self._count = whole, count

    def _each(self, values: ArrayLike) -> Array:
        return np.reshape(values, (self._count, -1))

    def _tiled(self, y: ArrayLike) -> Array:
        cases = len(self._whole) // self._count
        return np.tile(np.broadcast_to(np.asarray(y, dtype=float), (cases,)), self._count)

    @property
    def mean(self) -> Array:
        """Average of the means."""
        return np.asarray(self._each(self._whole.mean).mean(axis=0))

    @property
    def variance(self) -> Array:
        """Average of the variances plus variance of the means."""
        mean = self._each(self._whole.mean)
        return np.asarray(self._each(self._whole.variance).mean(axis=0) + mean.var(axis=0))

    def log_prob(self, y: ArrayLike) -> Array:
        """Log of the average probability."""
        terms = self._each(self._whole.log_prob(self._tiled(y)))
        return np.asarray(logsumexp(terms, axis=0) - np.log(self._count))

    def cdf(self, y: ArrayLike) -> Array:
        """Average of the distribution functions."""
        return np.asarray(self._each(self._whole.cdf(self._tiled(y))).mean(axis=0))

    def quantile(self, q: ArrayLike) -> Array:
        """By that of a mixture of counts."""
        return MixedCounts([1.0], [self]).quantile(q)

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Choose one of the S for each draw and case, then draw from it."""
        generator = np.random.default_rng(rng)
        draws = self._whole.sample(size, generator).reshape(size, self._count, -1)
        which = generator.integers(self._count, size=(size, 1, draws.shape[2]))
        return np.take_along_axis(draws, which, axis=1)[:, 0]


def average(parts: Sequence[Prediction], weights: ArrayLike | None = None) -> Prediction:
    """The mixture of predictions over the same cases. Weights are positive and add up to one, by default equal.

    Examples
    --------
    >>> from cavity.prediction import GaussianPrediction, average
    >>> mixture = average([GaussianPrediction([0.0], [1.0]), GaussianPrediction([4.0], [1.0])])
    >>> mixture.mean, mixture.variance
    (array([2.]), array([5.]))
    """
    w: Array = np.full(len(parts), 1.0 / len(parts)) if weights is None else np.asarray(weights, dtype=float)
    if all(type(p) is GaussianPrediction for p in parts):
        return MixturePrediction(
            np.log(w), np.stack([p.mean for p in parts]), np.stack([p.variance for p in parts])
        )
    if all(isinstance(p, CategoricalPrediction) for p in parts):
        return _categories(w, [p for p in parts if isinstance(p, CategoricalPrediction)])
    if all(type(p) is MixturePrediction for p in parts):
        return _normals(w, [p for p in parts if isinstance(p, MixturePrediction)])
    if all(isinstance(p, GroupedPrediction) for p in parts):
        by_part = [p.groups for p in parts if isinstance(p, GroupedPrediction)]
        return GroupedPrediction([(one[0][0], average([g for _, g in one], w)) for one in zip(*by_part)])
    if all(isinstance(p, ContinuousPrediction | GaussianPrediction) for p in parts):
        return MixedPrediction(w, parts)
    return MixedCounts(w, parts)


def _categories(w: Array, parts: Sequence[CategoricalPrediction]) -> CategoricalPrediction:
    log_p = np.asarray(logsumexp(np.stack([np.log(v) + p._log_p for v, p in zip(w, parts)]), axis=0))
    return CategoricalPrediction(np.exp(log_p), parts[0].values, log_p)


def _normals(w: Array, parts: Sequence[MixturePrediction]) -> MixturePrediction:
    mean = w @ np.stack([p.mean for p in parts])
    variance = w @ np.stack([p.variance + (p.mean - mean) ** 2 for p in parts])
    return MixturePrediction(
        np.concatenate([np.log(v) + p._log_w for v, p in zip(w, parts)]),
        np.concatenate([p._m for p in parts]),
        np.concatenate([p._sd**2 for p in parts]),
        variance,
    )
