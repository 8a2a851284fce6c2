"""WAIC: the expected log density of new data, from the marginals of a Gaussian approximation.

WAIC (Watanabe 2010) estimates the expected log density of new data from the marginals alone:

    elpd_i = log E_q[p(y_i | f_i)] - Var_q[log p(y_i | f_i)]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cavity.inference.base import Approximation, UnsupportedPairError
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import Index, adaptive_rule, ladder
from cavity.numerics.special import LOG_2PI

NORMAL_RANGE = 14.0
"""Standard deviations covered by an expectation under a normal density."""

NORMAL_STEPS = np.array([0.5, 2.0, 6.0])
"""Starting panel edges around the mean, in standard deviations."""

BREAK_STEPS = 10.0 ** np.arange(-6.0, 1.0)
"""Starting panel edges around kinks of log p, relative to their distance from the mean plus one."""

WAIC_RELIABLE = 0.4
"""Variance of log p(y_i | f_i) above which WAIC is unreliable for that point (Vehtari et al. 2017)."""


def log_prob_variance(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> Array:
    """Var[log p(y | f)] for f ~ N(mean, var), shape (n,), by adaptive panels.

    The mean of log p is taken off before squaring, so that small variances keep their digits.
    """
    sd = np.sqrt(var)
    center = likelihood.expected_log_prob(y, mean, var).value

    def deviation(x: Array, index: Index) -> Array:
        return likelihood.rows(index).log_prob(y[index], mean[index] + sd[index] * x) - center[index]

    def log_function(x: Array, index: Index) -> Array:
        with np.errstate(divide="ignore"):
            return 2 * np.log(np.abs(deviation(x, index))) - 0.5 * x * x

    edges = [ladder(np.zeros_like(sd), np.ones_like(sd), NORMAL_STEPS)]
    for b in np.atleast_2d(likelihood.break_points(y)):
        x = np.clip((b - mean) / sd, -NORMAL_RANGE, NORMAL_RANGE)
        edges.append(np.clip(ladder(x, np.abs(x) + 1, BREAK_STEPS), -NORMAL_RANGE, NORMAL_RANGE))
    ends = np.full((2, len(sd)), NORMAL_RANGE) * np.array([[-1.0], [1.0]])
    # Below the rounding of log p itself there is nothing left to resolve.
    with np.errstate(divide="ignore"):
        floor = 2 * np.log(1e-13 * (1 + np.abs(center)))
    rule = adaptive_rule(log_function, np.concatenate([*edges, ends]), floor=floor)
    return np.asarray(np.exp(rule.log_integral() - 0.5 * LOG_2PI))


@dataclass(frozen=True)
class WAIC:
    """The widely applicable information criterion, as an expected log predictive density.

    Attributes
    ----------
    pointwise : array (n,)
        Contribution of each observation to `elpd`.
    log_density : array (n,)
        log E_q[p(y_i | f_i)], the density of each observation under the posterior that has seen it.
    variance : array (n,)
        Var_q[log p(y_i | f_i)], the penalty.
    """

    log_density: Array
    variance: Array

    @property
    def pointwise(self) -> Array:
        """Log density minus penalty, shape (n,)."""
        return self.log_density - self.variance

    @property
    def elpd(self) -> float:
        """Estimate of the expected log density of as many new observations, in nats (larger is better)."""
        return float(self.pointwise.sum())

    @property
    def standard_error(self) -> float:
        """Standard error of `elpd` from the spread over observations."""
        n = len(self.variance)
        return float(np.sqrt(n * np.var(self.pointwise, ddof=1))) if n > 1 else float("nan")

    @property
    def effective_parameters(self) -> float:
        """Sum of the penalties."""
        return float(self.variance.sum())

    @property
    def deviance(self) -> float:
        """-2 elpd, the scale of information criteria."""
        return -2.0 * self.elpd

    @property
    def unreliable(self) -> NDArray[np.intp]:
        """Positions of observations whose penalty exceeds 0.4: leave-one-out is the better estimate there."""
        return np.flatnonzero(self.variance > WAIC_RELIABLE)


def waic_from_marginals(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> WAIC:
    """WAIC where f_i ~ N(mean_i, var_i) given all data, arrays (n,)."""
    log_density = likelihood.tilted_normalized(y, mean, var).log_z
    return WAIC(log_density, log_prob_variance(likelihood, y, mean, var))


def waic(approximation: Approximation, likelihood: Likelihood, y: Array) -> WAIC:
    """WAIC of any Gaussian approximation.

    Parameters
    ----------
    approximation : Approximation
        With one latent value per observation, as any inference rule returns it.
    likelihood : Likelihood
    y : array (n,)
        The targets the approximation has seen.
    """
    q = approximation.q
    if q is None or likelihood.n_latent != 1:
        raise UnsupportedPairError(
            "waic needs one latent value per observation, one target and noise of positive variance, got "
            f"{type(likelihood).__name__} with {likelihood.n_latent} latent values"
        )
    return waic_from_marginals(likelihood, y, q.mean, q.var)
