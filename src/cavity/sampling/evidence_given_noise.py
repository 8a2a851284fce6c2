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

from typing import Any, NamedTuple

import numpy as np

from cavity.latent.base import Inputs
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError
from cavity.numerics.special import LOG_2PI

SMALLEST_VARIANCE = 1e-11
"""Least noise variance of a point, in units of the prior variance of f: with less A may be singular to rounding."""


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
    prior = model.prior(X)
    if np.min(variances) < SMALLEST_VARIANCE * np.max(prior.diagonal):
        raise NotPositiveDefiniteError("a noise variance is too small beside the signal to factorize")
    observed = prior.observe(variances, transient=True)
    residual = y - prior.mean
    b = observed.apply(residual)
    log_2pi = len(y) * LOG_2PI
    value = -0.5 * (float(residual @ b) + observed.noisy_log_det + log_2pi)
    if value > -0.5 * (float(np.sum(np.log(variances))) + log_2pi):
        raise NotPositiveDefiniteError("the covariance matrix is singular to rounding")
    d_variances = 0.5 * (b * b - observed.unexplained)
    d_kernel = observed.pull_prior(np.sqrt(0.5) * b[:, None], None, -0.5).kernel
    return EvidenceGivenNoise(value, d_kernel, prior.pull_mean(b), d_variances)
