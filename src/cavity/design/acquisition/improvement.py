"""How much better than the best so far: probability of improvement, expected improvement, and its logarithm.

All minimize: with f(x) ~ N(m, v), s = sqrt(v), incumbent b and z = (b - m) / s,

    PI = Phi(z)    (b lowered by a margin),    EI = s h(z),  h(z) = phi(z) + z Phi(z),    log EI = log s + log h(z).

h is evaluated in the log domain (Ament et al., 2023): for z <= -1, phi + z Phi is a difference of nearly equal numbers;
with the scaled complementary error function it is phi(z) (1 - exp(u)), u = log(|z| sqrt(pi/2) erfcx(-z / sqrt 2)) < 0.
Every function returns its values with the derivatives in m and in v.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI

SERIES_BELOW = -1e6
"""Below this z, 1 - exp(u) is 1 / z^2 to all digits."""


class Score(NamedTuple):
    """Values of an acquisition function, and its derivatives in mean and variance; all of one shape."""

    value: Array
    d_mean: Array
    d_variance: Array


def log_phi(z: Array) -> Array:
    """log of the standard normal density."""
    return np.asarray(-0.5 * (z * z + LOG_2PI))


def log_h(z: Array) -> Array:
    """log(phi(z) + z Phi(z)), for any z.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import log_h
    >>> log_h(np.array([0.0, -10.0, -30.0])).round(4)
    array([  -0.9189,  -55.5531, -457.7247])
    """
    z = np.asarray(z, dtype=float)
    out = np.empty(z.shape)
    high, low = z > -1.0, z <= SERIES_BELOW
    middle = ~(high | low)
    a = z[high]
    out[high] = np.log(np.exp(log_phi(a)) + a * ndtr(a))
    a = z[middle]
    if a.size:
        u = np.log(erfcx(-a * np.sqrt(0.5)) * -a) + 0.5 * np.log(0.5 * np.pi)
        u = np.minimum(u, -np.finfo(float).tiny)
        # log(1 - exp u), by the form that keeps its digits
        rest = np.where(u > -np.log(2.0), np.log(-np.expm1(u)), np.log1p(-np.exp(u)))
        # next to the series, 1 - exp(u) has lost digits: the first terms of the series have them
        far = a < -1e3
        rest[far] = -2.0 * np.log(-a[far]) + np.log1p(-3.0 / a[far] ** 2)
        out[middle] = log_phi(a) + rest
    a = z[low]
    out[low] = log_phi(a) - 2.0 * np.log(-a)
    return out


def log_expected_improvement(mean: Array, variance: Array, best: Array | float) -> Score:
    """log E max(best - f, 0).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import log_expected_improvement
    >>> value, d_mean, d_variance = log_expected_improvement(np.array([-0.5]), np.array([0.25]), -0.7)
    >>> float(np.exp(value)[0].round(6))
    0.115219
    """
    s = np.sqrt(variance)
    z = (best - mean) / s
    log_s, lh = np.log(s), log_h(z)
    d_mean = -np.exp(log_ndtr(z) - lh - log_s)
    d_sd = np.exp(log_phi(z) - lh - log_s)
    return Score(log_s + lh, d_mean, d_sd / (2.0 * s))


def log_augmented_improvement(mean: Array, variance: Array, best: Array | float, noise: float) -> Score:
    """log expected improvement times 1 - sqrt(noise / (variance + noise)) (Huang et al., 2006).

    The factor says how much an observation with this noise variance tells: without it, points that are known as well as
    noise allows are measured again and again.
    """
    score = log_expected_improvement(mean, variance, best)
    total = variance + noise
    # 1 - sqrt(noise / total) = v / (total + sqrt(noise total)), without cancellation
    root = np.sqrt(noise * total)
    value = np.log(variance) - np.log(total + root)
    slope = (
        1.0 / variance - (1.0 + 0.5 * noise / root) / (total + root) if noise > 0 else np.zeros_like(total)
    )
    return Score(score.value + value, score.d_mean, score.d_variance + slope)


def expected_improvement(mean: Array, variance: Array, best: Array | float) -> Score:
    """E max(best - f, 0)."""
    value, d_mean, d_variance = log_expected_improvement(mean, variance, best)
    ei = np.exp(value)
    return Score(ei, ei * d_mean, ei * d_variance)


def log_probability_of_improvement(
    mean: Array, variance: Array, best: Array | float, margin: float = 0.0
) -> Score:
    """log P(f < best - margin); a larger margin explores more."""
    s = np.sqrt(variance)
    z = (best - margin - mean) / s
    value = log_ndtr(z)
    ratio = np.exp(log_phi(z) - value)
    return Score(value, -ratio / s, -0.5 * ratio * z / variance)


def probability_of_improvement(
    mean: Array, variance: Array, best: Array | float, margin: float = 0.0
) -> Score:
    """P(f < best - margin)."""
    value, d_mean, d_variance = log_probability_of_improvement(mean, variance, best, margin)
    p = np.exp(value)
    return Score(p, p * d_mean, p * d_variance)


def log_mean_exp(score: Score) -> Score:
    """log of the average, over the last axis, of exp(value): an average over draws, in the log domain.

    The derivatives in the mean keep their axis; that in the variance, which all draws share, is summed.
    """
    top = score.value.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    weight = np.exp(score.value - top)
    total = weight.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        value = (np.log(total) + top)[..., 0] - np.log(score.value.shape[-1])
    share = weight / np.where(total > 0, total, 1.0)
    return Score(value, share * score.d_mean, np.sum(share * score.d_variance, axis=-1))
