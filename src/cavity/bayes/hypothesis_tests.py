"""Is this coin fair? The Bayesian and the classical answer side by side, because they answer different questions.

The posterior probability of a hypothesis says how plausible it is now; a Bayes factor how the data have shifted
the odds of two models; a p-value how surprising data at least as extreme would be if the hypothesis were true. A
hypothesis that is a single value has posterior probability zero under any density: give it a width (`within`), or
read the Bayes factor, which compares the model theta = null with the model theta ~ prior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from cavity.bayes.conjugate import Beta, counts_of
from cavity.runtime.checks import require_inside
from cavity.runtime.errors import InputError


@dataclass(frozen=True)
class BinomialTest:
    """What n trials with x successes say about the hypothesis that the probability of a success is `null`.

    Attributes
    ----------
    successes, trials, null, within, significance
        What was asked.
    posterior : Beta
        Of the probability of a success, under the prior.
    probability : float or None
        Posterior probability that it is within `within` of `null`; None if no width was given.
    below : float
        Posterior probability that it is smaller than `null`.
    bayes_factor : float
        Evidence of theta = null over that of theta ~ prior.
    null_probability : float
        Posterior probability of the first of these two models, if both were equally probable before.
    one_sided, two_sided : float
        Exact p-values: the tail that the data are in, and twice that tail, at most one.
    accepted : (int, int)
        Numbers of successes for which an equal-tail test at `significance` does not reject.
    """

    successes: int
    trials: int
    null: float
    within: float | None
    significance: float
    posterior: Beta
    probability: float | None
    below: float
    bayes_factor: float
    null_probability: float
    one_sided: float
    two_sided: float
    accepted: tuple[int, int]

    @property
    def rejected(self) -> bool:
        """Whether the classical test rejects the hypothesis."""
        return not self.accepted[0] <= self.successes <= self.accepted[1]

    def __str__(self) -> str:
        share = f"{self.successes} of {self.trials}"
        near = (
            []
            if self.probability is None
            else [f"P(within {self.within:g} of {self.null:g} | data)   {self.probability:.4f}"]
        )
        return "\n".join(
            [
                f"{share}, hypothesis: probability {self.null:g}",
                *near,
                f"P(below {self.null:g} | data)   {self.below:.4f}",
                f"Bayes factor for the hypothesis   {self.bayes_factor:.4g}",
                f"P(hypothesis | data), even odds before   {self.null_probability:.4f}",
                f"p-value, one-sided   {self.one_sided:.4f}",
                f"p-value, two-sided (twice the tail)   {self.two_sided:.4f}",
                f"classical test at {self.significance:g}: {'rejected' if self.rejected else 'not rejected'}; "
                f"accepted from {self.accepted[0]} to {self.accepted[1]}",
            ]
        )


def binomial_test(
    successes: int,
    trials: int,
    null: float = 0.5,
    *,
    within: float | None = None,
    prior: Beta | None = None,
    significance: float = 0.05,
) -> BinomialTest:
    """Bayesian and classical test of the probability of a success.

    Examples
    --------
    >>> from cavity.bayes import binomial_test
    >>> found = binomial_test(115, 200, within=0.1)
    >>> round(found.two_sided, 4), round(found.bayes_factor, 3), found.rejected
    (0.04, 1.197, True)
    """
    x, n = int(counts_of(successes, "successes")), int(counts_of(trials, "trials"))
    if not n > 0:
        raise InputError("must be at least 1, got 0: there are no data", parameter="trials", value=trials)
    if x > n:
        raise InputError(f"must be at most the {n} trials, got {x}", parameter="successes", value=successes)
    for name, value in (("null", null), ("significance", significance)):
        require_inside(value, name)
    if within is not None and not within > 0.0:
        raise InputError(
            f"must be positive, got {within!r}: a single value has posterior probability zero",
            parameter="within",
            value=within,
            remedy="give the width that is as good as equal, or read bayes_factor",
        )
    belief = Beta() if prior is None else prior
    posterior = belief.update(x, n - x)
    null_model = stats.binom(n, null)
    log_factor = float(null_model.logpmf(x)) - float(belief.log_evidence(x, n - x))
    tail = min(float(null_model.cdf(x)), float(null_model.sf(x - 1)))
    low, high = int(null_model.ppf(0.5 * significance)), int(null_model.isf(0.5 * significance))
    near = None
    if within is not None:
        near = float(posterior.probability(max(null - within, 0.0), min(null + within, 1.0)))
    return BinomialTest(
        x,
        n,
        null,
        within,
        significance,
        posterior,
        near,
        float(posterior.cdf(null)),
        float(np.exp(log_factor)),
        float(expit(log_factor)),
        tail,
        min(2.0 * tail, 1.0),
        (low, high),
    )


def simulated_p_value(
    statistic: Callable[[Any], float],
    simulate: Callable[[np.random.Generator], Any],
    data: Any,
    *,
    size: int = 10_000,
    rng: int | np.random.Generator | None = None,
) -> tuple[float, float]:
    """Share of simulated data sets whose statistic is at least that of the data, and its standard error.

    The data count as one of the simulations, (1 + number as large) / (1 + size), so that the test holds its level.

    Examples
    --------
    >>> from cavity.bayes import simulated_p_value
    >>> p, error = simulated_p_value(lambda x: x, lambda rng: rng.binomial(50, 0.5), 30, size=1000, rng=0)
    >>> abs(p - 0.1013) < 4 * error  # the exact one
    True
    """
    generator = np.random.default_rng(rng)
    observed = float(statistic(data))
    reached = sum(float(statistic(simulate(generator))) >= observed for _ in range(size))
    p = (1.0 + reached) / (1.0 + size)
    return p, float(np.sqrt(p * (1.0 - p) / size))
