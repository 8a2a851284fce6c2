"""Poisson counts with mean exp(f).

The expected log density is closed form, E[exp(f)] = exp(m + v/2). Tilted moments have no closed
form.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, pdtr

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
)
from cavity.likelihoods.counts import CountLikelihood, lognormal_moments
from cavity.likelihoods.exponential_family import ExponentialFamily, NaturalForm
from cavity.numerics.arrays import Array


class Poisson(ExponentialFamily, CountLikelihood):
    """Counts with mean exp(f): log p = y f - exp(f) - log y!.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Poisson
    >>> np.exp(Poisson().log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.368, 0.368, 0.184])
    """

    def natural_form(self, y: Array) -> NaturalForm:
        """y f - exp(f) - log y!."""
        return NaturalForm(y, np.ones(1), -gammaln(y + 1), 0.0, logistic=False)

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log probability; -inf where exp(f) overflows."""
        with np.errstate(over="ignore"):
            return np.asarray(y * f - np.exp(f) - gammaln(y + 1))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """y - exp(f), then -exp(f) twice."""
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        return Derivatives(self.log_prob(y, f), y - rate, -rate, -rate)

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """y m - exp(m + v/2) - log y!."""
        with np.errstate(over="ignore"):
            rate = np.exp(mean + 0.5 * var)
        value = y * mean - rate - gammaln(y + 1)
        return ExpectedLogProb(value, y - rate, -0.5 * rate, np.zeros((0, len(value))))

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Regularized incomplete gamma function."""
        return np.asarray(pdtr(y, self.conditional_mean(f)))

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        first, spread = lognormal_moments(mean, var)
        return first, first + spread

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Poisson draws; a rate beyond 1e18, which the generator refuses, is returned as it is."""
        rate = self.conditional_mean(np.asarray(f, dtype=float))
        return np.asarray(np.where(rate < 1e18, rng.poisson(np.minimum(rate, 1e18)), rate))
