"""Confidence bounds and information: UCB (here a lower bound, minimizing), the GP-UCB schedule with its regret bound.

Srinivas et al. (2010): on a finite domain D, with multipliers sqrt(beta_t), beta_t = 2 log(|D| t^2 pi^2 / (6 delta)),
the cumulative regret of T rounds is at most sqrt(C T beta_T gamma_T) with probability 1 - delta, C = 8 / log(1 +
1/noise), gamma_T the largest information that T observations can bring.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from cavity.design.acquisition.improvement import Score
from cavity.numerics.arrays import Array


def lower_confidence_bound(mean: Array, variance: Array, multiplier: float) -> Score:
    """Minus (mean - multiplier sd): large where the function may be low.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import lower_confidence_bound
    >>> lower_confidence_bound(np.array([-0.5]), np.array([0.25]), 2.0).value
    array([1.5])
    """
    s = np.sqrt(variance)
    one = np.ones(np.broadcast_shapes(np.shape(mean), np.shape(variance)))
    return Score(multiplier * s - mean, -one, 0.5 * multiplier / s * one)


def multiplier_for(probability: float) -> float:
    """The multiplier whose bound holds at a point with this probability.

    Examples
    --------
    >>> from cavity.design.acquisition import multiplier_for
    >>> round(multiplier_for(0.999), 7)
    3.0902323
    """
    return float(ndtri(probability))


def gp_ucb_multiplier(t: int, domain: int, delta: float = 0.1) -> float:
    """sqrt(beta_t) of round t = 1, 2, ... on a domain of so many points.

    Examples
    --------
    >>> from cavity.design.acquisition import gp_ucb_multiplier
    >>> round(gp_ucb_multiplier(10, 11), 7)
    4.4279455
    """
    return float(np.sqrt(2.0 * np.log(domain * t**2 * np.pi**2 / (6.0 * delta))))


def gp_ucb_regret_bound(T: int, domain: int, noise: float, gain: float, delta: float = 0.1) -> float:
    """What the cumulative regret of T rounds of GP-UCB stays below with probability 1 - delta.

    Parameters
    ----------
    noise : float
        Noise variance, of a process of unit variance.
    gain : float
        The largest information gain of T observations, in nats.
    """
    beta = gp_ucb_multiplier(T, domain, delta) ** 2
    return float(np.sqrt(8.0 / np.log1p(1.0 / noise) * T * beta * gain))


def information(mean: Array, variance: Array, noise: float) -> Score:
    """Nats that an observation with this noise variance brings: log(1 + variance / noise) / 2."""
    v = np.broadcast_to(variance, np.broadcast_shapes(np.shape(mean), np.shape(variance)))
    return Score(0.5 * np.log1p(v / noise), np.zeros(v.shape), 0.5 / (noise + v))
