"""Predictions of counts in terms of the likelihood's own integrals (see `noise_prediction`)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.noise_prediction import Integrable, log_density
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.prediction.base import Seed, check_levels, integer_quantile


class Counts(Integrable, Protocol):
    """What `CountPrediction` needs of a likelihood of counts."""

    @property
    def largest_count(self) -> Array | float:
        """The largest count that can occur, one for all or one each; inf if there is none."""
        ...

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """P(Y <= y | f)."""
        ...

    def conditional_mean(self, f: Array) -> Array:
        """E[Y | f]."""
        ...

    def break_points(self, y: Array) -> Array:
        """Where f makes y typical."""
        ...

    def rows(self, index: Any) -> Any:
        """The likelihood of some observations."""
        ...

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draws of y."""
        ...


class _AtMost(Likelihood):
    """p = P(Y <= y | f), seen as a likelihood of its own, so that its average over f is a log normalizer."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._set_up({})

    def log_prob(self, y: Array, f: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(self._counts.conditional_cdf(y, f))

    def break_points(self, y: Array) -> Array:
        return self._counts.break_points(y)

    def rows(self, index: Any) -> _AtMost:
        return _AtMost(self._counts.rows(index))


class CountPrediction(Prediction):
    """Non-negative integers, averaged over f ~ N(latent_mean, latent_var).

    Parameters
    ----------
    likelihood : Counts
    latent_mean, latent_var : arrays (n,)
        Of f.
    mean, variance : arrays (n,)
        Of y.
    """

    def __init__(
        self, likelihood: Counts, latent_mean: Array, latent_var: Array, mean: Array, variance: Array
    ) -> None:
        self._likelihood, self._f, self._v = likelihood, latent_mean, latent_var
        self._mean, self._variance = mean, variance

    def log_prob(self, y: ArrayLike) -> Array:
        """Log probability; -inf for anything but a possible count."""
        y = np.broadcast_to(np.asarray(y, dtype=float), self._f.shape)
        possible = (y >= 0) & (y == np.floor(y)) & (y <= self._likelihood.largest_count)
        safe = np.where(possible, y, 0.0)
        return np.where(possible, log_density(self._likelihood, safe, self._f, self._v), -np.inf)

    def cdf(self, y: ArrayLike) -> Array:
        """P(count <= y)."""
        k = np.floor(np.broadcast_to(np.asarray(y, dtype=float), self._f.shape))
        out = np.where(k < 0, 0.0, 1.0)
        open_ = (k >= 0) & np.isfinite(k)
        if not open_.any():
            return out
        like = self._likelihood.rows(np.flatnonzero(open_))
        f, v, k = self._f[open_], self._v[open_], k[open_]
        value = like.conditional_cdf(k, f)
        spread = v > 0
        if spread.any():
            tail = _AtMost(like.rows(np.flatnonzero(spread)))
            value[spread] = np.exp(tail.tilted_normalized(k[spread], f[spread], v[spread]).log_z)
        out[open_] = np.minimum(value, 1.0)
        return out

    def quantile(self, q: ArrayLike) -> Array:
        """Smallest count whose cumulative probability reaches q."""
        levels = check_levels(q)
        typical = self._likelihood.conditional_mean(self._f)
        found = np.stack([integer_quantile(self.cdf, float(p), typical) for p in levels.ravel()])
        return found.reshape(levels.shape + (len(self),))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draw f, then the count."""
        generator = np.random.default_rng(rng)
        f = self._f + np.sqrt(self._v) * generator.standard_normal((size, len(self)))
        return self._likelihood.sample(f, generator)

    def __repr__(self) -> str:
        return f"CountPrediction({len(self)} cases)"
