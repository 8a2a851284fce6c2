"""The variational lower bound on the log evidence (ELBO), at any Gaussian approximation.

For q(f) proportional to N(f | m0, K) prod_i exp(nu_i f_i - tau_i f_i^2 / 2) (Kuss 2006, eq. 6.13):

    log p(y) >= sum_i E_q[log p(y_i | f_i)] - KL(q || p)

It holds whichever way the sites were found, so that one inference rule can be judged by the bound of another. If basis
functions have vague weights, the constant is left out that their log evidence leaves out.
"""

from __future__ import annotations

from cavity.inference.base import Approximation, UnsupportedPairError
from cavity.latent.integrated_basis import ConditionedWithTrend
from cavity.latent.prior_times_sites import Conditioned
from cavity.likelihoods.observations import Observations


def evidence_lower_bound(q: Conditioned | ConditionedWithTrend, observations: Observations) -> float:
    """E_q[log p(y | f)] - KL(q || p), a lower bound on log p(y).

    Parameters
    ----------
    q : Conditioned or ConditionedWithTrend
        The prior times sites, however these were found, or with basis functions integrated out.
    observations : Observations
    """
    expected = observations.likelihood.expected_log_prob(observations.y, q.mean, q.var).value
    return float(observations.weighted(expected).sum()) - q.kl


def lower_bound(approximation: Approximation, observations: Observations) -> float:
    """The bound at the Gaussian posterior that any inference rule returned.

    A log evidence of EP far above it, or one of Laplace's method below it, is a reason to look closer.
    """
    if approximation.q is None:
        raise UnsupportedPairError(
            "the bound needs one target, one latent function and noise of positive variance"
        )
    return evidence_lower_bound(approximation.q, observations)
