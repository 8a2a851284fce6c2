"""Predictions of y = f + noise in terms of the likelihood's own integrals.

The log density of y under f ~ N(mean, var) is the log normalizer of a tilted density, which every likelihood knows.
What is added here is the distribution function, moments and draws.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import Tilted
from cavity.numerics.arrays import Array
from cavity.prediction import ContinuousPrediction
from cavity.prediction.base import Seed


class Integrable(Protocol):
    """What the log density of y needs of a likelihood."""

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log density."""
        ...

    def tilted_normalized(self, y: ArrayLike, cavity_mean: ArrayLike, cavity_var: ArrayLike) -> Tilted:
        """Log normalizer for f ~ N(cavity_mean, cavity_var)."""
        ...


class Noise(Integrable, Protocol):
    """What `NoisePrediction` needs of a likelihood with noise around f, symmetric about zero."""

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """P(noise + N(0, var) <= x)."""
        ...

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Draws of y."""
        ...


def log_density(likelihood: Integrable, y: ArrayLike, mean: Array, var: Array) -> Array:
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

    `mean` is that of f; for noise without a mean (df <= 1) the center of symmetry.

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

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draw f, then the noise."""
        generator = np.random.default_rng(rng)
        f = self._mean + np.sqrt(self._var) * generator.standard_normal((size, len(self)))
        return self._likelihood.sample(f, generator)
