"""Negative binomial counts: mean mu = exp(f), variance mu + mu^2 / r.

Notation: s = f - log r for the shape r.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaln, digamma, expit

from cavity.likelihoods.base import (
    Derivatives,
    ParameterDerivatives,
    float_rows,
)
from cavity.likelihoods.counts import CountLikelihood, lognormal_moments
from cavity.likelihoods.exponential_family import ExponentialFamily, NaturalForm
from cavity.numerics.arrays import Array
from cavity.numerics.special import log1p_minus, log_sigmoid
from cavity.parameters.param import LOG
from cavity.parameters.units import Unit

STIRLING_FROM = 30.0
"""From this argument on four terms of Stirling's series give the digamma function to rounding."""


def _digamma_beyond_log(y: Array, r: float) -> Array:
    """digamma(r + y) - digamma(r) - log(1 + y/r), of order y / r^2 for large r, where all three are nearly equal."""
    if r < STIRLING_FROM:
        return np.asarray(digamma(y + r) - digamma(r) - np.log1p(y / r))
    a, b = 1.0 / r**2, 1.0 / (r + y) ** 2
    gap = y * (2.0 * r + y) * a * b  # a - b
    powers = (
        1.0 / 12.0 - (a + b) / 120.0 + (a * a + a * b + b * b) / 252.0 - (a + b) * (a * a + b * b) / 240.0
    )
    return np.asarray(0.5 * y / (r * (r + y)) + gap * powers)


class NegativeBinomial(ExponentialFamily, CountLikelihood):
    """Over-dispersed counts with mean mu = exp(f) and variance mu + mu^2/shape.

    Parameters
    ----------
    shape : float or Param
        r > 0; the Poisson model is the limit of large r.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import NegativeBinomial
    >>> np.exp(NegativeBinomial(1.0).log_prob(np.array([0, 1, 2]), np.zeros(3))).round(3)
    array([0.5  , 0.25 , 0.125])
    """

    _transforms: ClassVar = {"shape": LOG}
    _units: ClassVar = {"shape": Unit.COUNT}

    def __init__(self, shape: Any = 1.0) -> None:
        self._set_up({"shape": shape})

    def _constant(self, y: Array) -> Array:
        """log Gamma(y + r) / (Gamma(r) y!), through the beta function so that large r loses nothing."""
        r = self.shape
        positive = np.maximum(y, 1.0)
        return np.where(y > 0, -betaln(r, positive) - np.log(positive), 0.0)

    def natural_form(self, y: Array) -> NaturalForm:
        """y s - (y + r) log(1 + exp(s)) + constant."""
        r = self.shape
        return NaturalForm(y, y + r, self._constant(y), float(np.log(r)), logistic=True)

    def _slopes(self, y: Array, rule: tuple[Array, ...]) -> Array:
        """In the shape; see `parameter_derivatives`."""
        from cavity.likelihoods.log_concave_loops import shape_slopes

        out = np.empty(len(y))
        shape_slopes(*float_rows(y), self.shape, *rule, out)
        return np.asarray(rule[2] * (_digamma_beyond_log(y, self.shape) + out))[None]

    def log_prob(self, y: Array, f: Array) -> Array:
        """Log probability: constant + y log sigma(s) + r log sigma(-s)."""
        s = f - np.log(self.shape)
        return np.asarray(self._constant(y) + y * log_sigmoid(s) + self.shape * log_sigmoid(-s))

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """With p = sigma(s): y - (y+r) p, -(y+r) p (1-p), -(y+r) p (1-p)(1-2p)."""
        r = self.shape
        s = f - np.log(r)
        p, q = expit(s), expit(-s)
        d2 = -(y + r) * p * q
        return Derivatives(self.log_prob(y, f), y * q - r * p, d2, d2 * (q - p))

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """In the shape: directly and through s."""
        r = self.shape
        s = f - np.log(r)
        p, q = expit(s), expit(-s)
        pq = p * q
        # log(1 + y/r) + log sigma(-s) = log(1 + u): what is large in digammas and logarithms has canceled by hand
        u = (y * q - r * p) / r
        log_p = _digamma_beyond_log(y, r) + log1p_minus(u, np.log1p(y / r) + log_sigmoid(-s))
        d1 = -p + (y + r) * pq / r
        d2 = -pq + (y + r) * pq * (q - p) / r
        return ParameterDerivatives(log_p[None], d1[None], d2[None])

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """Regularized incomplete beta function."""
        return np.asarray(betainc(self.shape, y + 1, expit(np.log(self.shape) - f)))

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        first, spread = lognormal_moments(mean, var)
        with np.errstate(over="ignore"):
            return first, first + spread + (spread + first**2) / self.shape

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """A Poisson draw with a gamma-distributed rate."""
        with np.errstate(over="ignore"):
            rate = rng.gamma(self.shape, np.exp(np.asarray(f, dtype=float)) / self.shape)
        return np.asarray(np.where(rate < 1e18, rng.poisson(np.minimum(rate, 1e18)), rate))
