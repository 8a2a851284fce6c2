"""Predictive distributions of y = f + noise and of other likelihoods, in terms of the likelihood's own
integrals.

The log density of y under f ~ N(mean, var) is the log normalizer of a tilted density, so every likelihood
already knows it; what is added here is the distribution function, moments and draws.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import Likelihood, Tilted
from cavity.numerics.arrays import Array
from cavity.prediction.distributions import ContinuousPrediction, Prediction, Seed, check_levels


class Noise(Protocol):
    """What `NoisePrediction` needs of a likelihood with noise around f, symmetric about zero."""

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log density."""
        ...

    def tilted_normalized(self, y: ArrayLike, cavity_mean: ArrayLike, cavity_var: ArrayLike) -> Tilted:
        """Log normalizer for f ~ N(cavity_mean, cavity_var)."""
        ...

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """P(noise + N(0, var) <= x)."""
        ...

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draws of y."""
        ...


def log_density(likelihood: Noise, y: ArrayLike, mean: Array, var: Array) -> Array:
    """log p(y) for f ~ N(mean, var), where var may be zero; -inf at infinite y."""
    y = np.broadcast_to(np.asarray(y, dtype=float), mean.shape)
    spread, finite = var > 0, np.isfinite(y)
    if (spread & finite).all():
        return likelihood.tilted_normalized(y, mean, var).log_z
    out = np.where(np.isnan(y), np.nan, -np.inf)
    sharp, spread = finite & ~spread, finite & spread
    if sharp.any():
        out[sharp] = likelihood.log_prob(y[sharp], mean[sharp])
    if spread.any():
        out[spread] = likelihood.tilted_normalized(y[spread], mean[spread], var[spread]).log_z
    return out


class NoisePrediction(ContinuousPrediction):
    """y = f + noise, noise symmetric about zero and independent of f ~ N(mean, var).

    Parameters
    ----------
    likelihood : Noise
    mean, var : arrays (n,)
        Of f.
    noise_variance : float
        May be infinite.
    width : float
        A finite scale of the noise, to start searches from.
    """

    def __init__(
        self, likelihood: Noise, mean: ArrayLike, var: ArrayLike, noise_variance: float, width: float
    ) -> None:
        self._likelihood = likelihood
        self._mean: Array = np.asarray(mean, dtype=float)
        self._var: Array = np.broadcast_to(np.asarray(var, dtype=float), self._mean.shape)
        self._noise_variance, self._width = noise_variance, width

    @property
    def mean(self) -> Array:
        """The mean of f; for noise without a mean (df <= 1) the center of symmetry."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variance of f plus that of the noise."""
        return self._var + self._noise_variance

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density."""
        return log_density(self._likelihood, y, self._mean, self._var)

    def cdf(self, y: ArrayLike) -> Array:
        """P(f + noise <= y)."""
        return self._below(np.asarray(y, dtype=float) - self._mean)

    def survival(self, y: ArrayLike) -> Array:
        """P(f + noise > y), by symmetry."""
        return self._below(self._mean - np.asarray(y, dtype=float))

    def _below(self, x: Array) -> Array:
        """P(f - mean + noise <= x), zero and one at the infinities."""
        x = np.broadcast_to(x, self._mean.shape)
        finite = np.isfinite(x)
        inside = np.clip(self._likelihood.noise_cdf(np.where(finite, x, 0.0), self._var), 0.0, 1.0)
        return np.where(finite, inside, np.where(np.isnan(x), np.nan, x > 0))

    def _location_and_width(self) -> tuple[Array, Array]:
        return self._mean, np.sqrt(self._var) + self._width

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Draw f, then the noise."""
        generator = np.random.default_rng(rng)
        f = self._mean + np.sqrt(self._var) * generator.standard_normal((n, len(self)))
        return self._likelihood.sample(f, generator)


class Counts(Protocol):
    """What `CountPrediction` needs of a likelihood of counts."""

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log probability."""
        ...

    def tilted_normalized(self, y: ArrayLike, cavity_mean: ArrayLike, cavity_var: ArrayLike) -> Tilted:
        """Log normalizer."""
        ...

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """Not used for counts."""
        ...

    @property
    def largest_count(self) -> Array | float:
        """The largest count that can occur, one for all or one each; inf where there is none."""
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

    @property
    def mean(self) -> Array:
        """Expected count."""
        return self._mean

    @property
    def variance(self) -> Array:
        """Variance of the count."""
        return self._variance

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
        """Smallest count whose cumulative probability reaches q: doubling, then bisection over the
        integers."""
        levels = check_levels(q)
        return np.stack([self._quantile(float(p)) for p in levels.ravel()]).reshape(
            levels.shape + (len(self),)
        )

    def _quantile(self, p: float) -> Array:
        if p == 1.0:
            return np.full(len(self), np.inf)
        low = np.full(len(self), -1.0)  # always below
        high = np.maximum(np.ceil(np.minimum(self._likelihood.conditional_mean(self._f), 1e15)), 1.0)
        for _ in range(1100):
            short = self.cdf(high) < p - 1e-14
            if not short.any():
                break
            low, high = np.where(short, high, low), np.where(short, 2 * high, high)
        for _ in range(1100):
            middle = np.floor(0.5 * (low + high))
            wide = (high - low > 1) & (middle > low) & (middle < high)  # beyond 2^53 neighbors merge
            if not wide.any():
                break
            short = self.cdf(middle) < p - 1e-14
            low, high = np.where(wide & short, middle, low), np.where(wide & ~short, middle, high)
        return high

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Draw f, then the count."""
        generator = np.random.default_rng(rng)
        f = self._f + np.sqrt(self._v) * generator.standard_normal((n, len(self)))
        return self._likelihood.sample(f, generator)

    def __repr__(self) -> str:
        return f"CountPrediction({len(self)} cases)"
