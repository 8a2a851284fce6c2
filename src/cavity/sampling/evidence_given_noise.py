"""Exact evidence given a noise variance for every observation, with derivatives in each of them.

Mixture and scale-mixture noise is normal given the indicators or noise variances, so that the function f can be
integrated out: with A = K + diag(v), r = y - m and b = A^-1 r,

    log p(y | v) = -1/2 r'b - 1/2 log|A| - n/2 log 2 pi,     d log p / dv_i = 1/2 (b_i^2 - (A^-1)_ii).

The Gibbs sampler and the scale-mixture sampler move on this density (Kuss 2006, sections 5.3.2 and 5.4.2).

With few degrees of freedom the variances of single points come near zero, beside a smooth K of low rank. A is then
singular to rounding, and its factor and the evidence are arbitrary. A chain at a value far too large never leaves it.
So such variances are refused, and so is an evidence above that of the noise alone, which A >= diag(v) forbids:

    log p(y | v) <= -1/2 sum_i log v_i - n/2 log 2 pi.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.inference.exact import Exact
from cavity.latent.base import Inputs
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError
from cavity.numerics.special import LOG_2PI
from cavity.numerics.threads import threads_for

EXACT = Exact()

SMALLEST_VARIANCE = 1e-11
"""Least noise variance of a point, in units of the prior variance of f: with less A may be singular to rounding."""


@lru_cache(maxsize=2)
def _identity(n: int) -> Array:
    """Derivatives of each variance in the vector of variances."""
    matrix = np.eye(n)
    matrix.setflags(write=False)
    return matrix


class NoisePerPoint(GaussianNoise):
    """Normal noise with a variance for each observation, all of them variables: p(y_i|f_i) = N(y_i | f_i, v_i)."""

    def __init__(self, variances: ArrayLike) -> None:
        self.variances: Array = np.asarray(variances, dtype=float)
        self._set_up({})

    def noise_variances(self, n: int) -> tuple[Array, Array]:
        """The variances; their derivatives in themselves."""
        return self.variances, _identity(n)

    @property
    def min_cavity_precision(self) -> Array:
        """-1/variance, one per observation."""
        return -1.0 / self.variances


class EvidenceGivenNoise(NamedTuple):
    """Log evidence given noise variances; derivatives in natural kernel and mean values and in the variances."""

    value: float
    kernel: Array
    mean: Array
    variances: Array


def evidence_given_noise(model: Any, X: Array | Inputs, y: Array, variances: Array) -> EvidenceGivenNoise:
    """Evidence of a model in which the noise variances (n,) take the place of its likelihood.

    Raises
    ------
    LinAlgError
        If the covariance matrix cannot be factorized, or is singular to rounding.
    """
    with threads_for(len(X)):
        prior = model.prior(X)
        if np.min(variances) < SMALLEST_VARIANCE * np.max(prior.diagonal):
            raise NotPositiveDefiniteError("a noise variance is too small beside the signal to factorize")
        value, gradient, _ = EXACT.evidence(prior, NoisePerPoint(variances), y)
    if value > -0.5 * (np.sum(np.log(variances)) + len(y) * LOG_2PI):
        raise NotPositiveDefiniteError("the covariance matrix is singular to rounding")
    return EvidenceGivenNoise(value, gradient.kernel, gradient.mean, gradient.likelihood)
