"""Priors from a rule instead of a belief: Jeffreys' and those of maximum entropy.

Jeffreys' prior is the root of the determinant of Fisher's information, and does not depend on how a model is
parametrized. Several of them cannot be normalized; they may be updated, and refuse an evidence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import logsumexp

from cavity.bayes.conjugate import Beta, Dirichlet, Gamma, NormalInverseGamma
from cavity.bayes.distributions import Distribution, Reflected, ScipyDistribution
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

MODELS = ("binomial", "multinomial", "poisson", "exponential", "normal")


def jeffreys(model: str, size: int = 1) -> Any:
    """Jeffreys' prior of a model.

    Parameters
    ----------
    model : {"binomial", "multinomial", "poisson", "exponential", "normal"}
        For "normal" mean (or weights) and variance are treated as independent, p(w, v) = 1 / v: intervals are then
        those of Student's t test and of least squares.
    size : int
        Categories of "multinomial", weights of "normal".

    Examples
    --------
    >>> from cavity.bayes import jeffreys
    >>> round(float(jeffreys("binomial").update(30, 20).probability(0.4, 0.6)), 6)
    0.501705
    """
    if model == "binomial":
        return Beta(0.5, 0.5)
    if model == "multinomial":
        return Dirichlet(np.full(size, 0.5))
    if model == "poisson":
        return Gamma(0.5, 0.0)
    if model == "exponential":
        return Gamma(0.0, 0.0)
    if model == "normal":
        return NormalInverseGamma(np.zeros(size), np.zeros((size, size)), -0.5 * size, 0.0)
    raise InputError(f"must be one of {', '.join(MODELS)}, got {model!r}", parameter="model", value=model)


def maximum_entropy(
    support: tuple[float, float], mean: float | None = None, sd: float | None = None
) -> Distribution:
    """The distribution of largest entropy on an interval with a given mean, or mean and sd.

    Known cases: bounded without a mean (uniform) and with one (a truncated exponential), from some value on with a mean
    (exponential), the whole line with mean and sd (normal).

    Examples
    --------
    >>> from cavity.bayes import maximum_entropy
    >>> maximum_entropy((0.0, float("inf")), mean=2.0)
    expon(0.0, 2.0)
    """
    low, high = support
    if not low < high:
        raise InputError(
            f"must be an interval (low, high), got {support!r}", parameter="support", value=support
        )
    bounded = np.isfinite(low) and np.isfinite(high)
    if mean is not None and not low < mean < high:
        raise InputError(f"must lie inside {support!r}, got {mean!r}", parameter="mean", value=mean)
    if bounded and sd is None:
        if mean is None or mean == 0.5 * (low + high):
            return ScipyDistribution(stats.uniform(low, high - low))
        return _tilted_uniform(low, high, mean)
    if np.isfinite(low) and not np.isfinite(high) and mean is not None and sd is None:
        return ScipyDistribution(stats.expon(low, mean - low))
    if not np.isfinite(low) and not np.isfinite(high) and mean is not None and sd is not None and sd > 0:
        return ScipyDistribution(stats.norm(mean, sd))
    raise InputError(
        f"no distribution of largest entropy is known here for support {support!r}, mean={mean!r}, sd={sd!r}",
        remedy="give a bounded support, a half line with a mean, or the whole line with mean and sd",
    )


def _tilted_uniform(low: float, high: float, mean: float) -> Distribution:
    """exp(-k x) between two ends, with this mean; turned round if the density has to increase."""
    width, share = high - low, (mean - low) / (high - low)
    if share > 0.5:
        return Reflected(_tilted_uniform(low, high, low + high - mean), low + high)

    def excess(k: float) -> float:  # the mean of exp(-k t) on (0, 1), less the one wanted
        return 1.0 / k + np.exp(-k) / np.expm1(-k) - share if k > 1e-6 else 0.5 - k / 12.0 - share

    k = float(brentq(excess, 0.0, 2.0 / share, xtol=1e-13))
    return ScipyDistribution(stats.truncexpon(k, low, width / k))


def maximum_entropy_weights(values: ArrayLike, mean: float) -> Array:
    """Probabilities of given values with the largest entropy among those with this mean: p_i ~ exp(b values_i).

    Examples
    --------
    >>> from cavity.bayes import maximum_entropy_weights
    >>> maximum_entropy_weights([1, 2, 3, 4, 5, 6], 4.5).round(3)
    array([0.054, 0.079, 0.114, 0.165, 0.24 , 0.347])
    """
    x: Array = np.asarray(values, dtype=float)
    if not x.min() < mean < x.max():
        raise InputError(
            f"must lie between the smallest and largest value, got {mean!r}", parameter="mean", value=mean
        )
    z = (x - mean) / np.ptp(x)

    def slope(b: float) -> float:
        w = np.exp(b * z - logsumexp(b * z))
        return float(w @ z)

    b = float(brentq(slope, -1e6, 1e6, xtol=1e-14)) if slope(0.0) else 0.0
    return np.asarray(np.exp(b * z - logsumexp(b * z)))
