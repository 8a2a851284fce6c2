"""Predictive distributions of y = f + noise and of other likelihoods, in terms of the likelihood's own integrals.

The log density of y under f ~ N(mean, var) is the log normalizer of a tilted density, so every likelihood already
knows it; what is added here is the distribution function, moments and draws.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from cavity.hyper import Array
from cavity.likelihoods.base import Tilted
from cavity.prediction import ContinuousPrediction, Seed


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
    """log p(y) for f ~ N(mean, var), where var may be zero."""
    y = np.broadcast_to(np.asarray(y, dtype=float), mean.shape)
    out = likelihood.log_prob(y, mean)
    spread = var > 0
    if spread.all():
        return likelihood.tilted_normalized(y, mean, var).log_z
    if spread.any():
        out = np.array(out)
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
        x = np.broadcast_to(np.asarray(y, dtype=float) - self._mean, self._mean.shape)
        return np.clip(self._likelihood.noise_cdf(x, self._var), 0.0, 1.0)

    def survival(self, y: ArrayLike) -> Array:
        """P(f + noise > y), by symmetry."""
        x = np.broadcast_to(np.asarray(y, dtype=float) - self._mean, self._mean.shape)
        return np.clip(self._likelihood.noise_cdf(-x, self._var), 0.0, 1.0)

    def _location_and_width(self) -> tuple[Array, Array]:
        return self._mean, np.sqrt(self._var) + self._width

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Draw f, then the noise."""
        generator = np.random.default_rng(rng)
        f = self._mean + np.sqrt(self._var) * generator.standard_normal((n, len(self)))
        return self._likelihood.sample(f, generator)
