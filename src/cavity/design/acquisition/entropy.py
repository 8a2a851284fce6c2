"""Information about the optimum: max-value entropy search, GIBBON, entropy search on grids, predictive entropy search.

Minimizing, with the minimum f* and g = (m - f*) / s >= ... the distance in standard deviations,

    MES     = mean over f* of  g phi(g) / (2 Phi(g)) - log Phi(g)                    (Wang and Jegelka, 2017)
    GIBBON  = mean over f* of  -log(1 - rho^2 r (r + g)) / 2,  r = phi(g)/Phi(g),  rho^2 = v / (v + noise)
                                                                                      (Moss et al., 2021)

The minimum is drawn from a Gumbel distribution fitted to P(min > y) = prod_i Phi((m_i - y)/s_i) over many points, or
from joint draws. Entropy search on a grid (`entropy_search`) conditions on the place of the minimum by drawing it;
predictive entropy search does so by constraints, of which `above_minimum` is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

from cavity.design.acquisition.improvement import Score
from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array

EULER_GUMBEL = (-np.log(np.log(4.0)), -np.log(np.log(4.0 / 3.0)))
"""Of a standard Gumbel distribution, -log(-log p) at p = 1/4 and 3/4."""


SERIES_BELOW = -30.0
CUT_VARIANCE = np.array([1.0, -6.0, 50.0, -518.0, 6354.0, -89782.0])
"""Below this g, the cut variance is g^-2 times a series in g^-2: differences would have lost their digits."""


def _ratio(g: Array) -> Array:
    """phi(g) / Phi(g), which is smooth and positive."""
    return np.asarray(np.sqrt(2.0 / np.pi) / erfcx(-g * np.sqrt(0.5)))


def _cut_variance(g: Array, r: Array) -> tuple[Array, Array]:
    """1 - r (r + g), the variance of a standard normal variable cut at -g, and its derivative in g."""
    rest, slope = 1.0 - r * (r + g), r * (g + r) * (2.0 * r + g) - r
    far = g < SERIES_BELOW  # both are differences of nearly equal numbers there
    w = 1.0 / np.where(far, g, -1.0)
    series = w**2 * np.polynomial.polynomial.polyval(w**2, CUT_VARIANCE)
    d_series = -2.0 * w**3 * np.polynomial.polynomial.polyval(w**2, CUT_VARIANCE * np.arange(1, 7))
    return np.where(far, series, rest), np.where(far, d_series, slope)


def max_value_entropy(mean: Array, variance: Array, minima: Array) -> Score:
    """Nats about the minimum that f(x) without noise brings; draws of the minimum (S,) are averaged over.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import max_value_entropy
    >>> float(max_value_entropy(np.array([-0.5]), np.array([0.25]), np.array([-1.2])).value[0].round(10))
    0.1982212485
    """
    m, v = np.asarray(mean)[..., None], np.asarray(variance)[..., None]
    s = np.sqrt(v)
    g = (m - minima) / s
    r = _ratio(g)
    value = 0.5 * g * r - log_ndtr(g)
    slope = 0.5 * r - 0.5 * g * r * (g + r) - r  # d/dg, with r' = -r (g + r)
    return Score(value.mean(axis=-1), (slope / s).mean(axis=-1), (-0.5 * slope * g / v).mean(axis=-1))


def gibbon(mean: Array, variance: Array, minima: Array, noise: float = 0.0) -> Score:
    """A lower bound on the information about the minimum that a noisy observation brings.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import gibbon
    >>> float(gibbon(np.array([-0.5]), np.array([0.25]), np.array([-1.2]), 0.01).value[0].round(10))
    0.1403684938
    """
    m, v = np.asarray(mean)[..., None], np.asarray(variance)[..., None]
    s = np.sqrt(v)
    g = (m - minima) / s
    r = _ratio(g)
    rho = v / (v + noise)
    rest, d_rest = _cut_variance(g, r)
    u = 1.0 - rest
    left = (noise + v * rest) / (v + noise)  # 1 - rho u, without cancellation
    by_g = -0.5 * rho * d_rest / left
    by_v = -0.5 * by_g * g / v + 0.5 * u / left * noise / (v + noise) ** 2
    value = -0.5 * np.log(left)
    return Score(value.mean(axis=-1), (by_g / s).mean(axis=-1), by_v.mean(axis=-1))


def draw_minima(mean: Array, variance: Array, size: int, rng: np.random.Generator) -> Array:
    """Draws (size,) of the minimum over points with these means and variances, taken as independent.

    A Gumbel distribution is fitted to the quartiles of the minimum.
    """
    s = np.sqrt(variance)

    def log_above(y: float) -> float:
        return float(np.sum(log_ndtr((mean - y) / s)))

    low, high = float(np.min(mean - 10 * s)), float(np.min(mean + 5 * s))

    def quantile(p: float) -> float:
        return float(brentq(lambda y: log_above(y) - np.log1p(-p), low, high, xtol=1e-10))

    q1, q3 = quantile(0.25), quantile(0.75)
    # minus the minimum is Gumbel: its quartiles are -q3 and -q1
    scale = (q3 - q1) / (EULER_GUMBEL[1] - EULER_GUMBEL[0])
    place = -q3 - scale * EULER_GUMBEL[0]
    return np.asarray(-rng.gumbel(place, scale, size))


def entropy_search(
    moments: Moments, X: Array, grid: Array, size: int, rng: np.random.Generator, noise: float = 0.0
) -> Array:
    """Nats about the place of the minimum on a grid that an observation at each row of X brings, by joint draws.

    H[f(x)] - E H[f(x) | place]: the variance of f(x) among draws that have their minimum at the same place.
    """
    both = np.vstack([grid, X])
    mean, covariance = moments.at(both)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    draws = mean + rng.standard_normal((size, len(both))) @ root.T
    place = np.argmin(draws[:, : len(grid)], axis=1)
    at = draws[:, len(grid) :]
    total = 0.5 * np.log(np.maximum(np.diag(covariance)[len(grid) :], 0.0) + noise + 1e-12)
    left = np.zeros(len(X))
    for k in np.unique(place):
        mine = at[place == k]
        # a single draw has no spread: it says nothing, and its share is small
        spread = mine.var(axis=0, ddof=1) if len(mine) > 1 else np.exp(2.0 * total)
        left += len(mine) / size * 0.5 * np.log(spread + noise + 1e-12)
    return np.asarray(total - left)


class Conditional(NamedTuple):
    """Mean and variance of f(x) given that f(x) exceeds the value at the minimum."""

    mean: Array
    variance: Array


def above_minimum(mean: Array, covariance: Array) -> Conditional:
    """Moments of f(x) given f(x) > f(x*), for (f(x), f(x*)) jointly normal: one constraint of predictive entropy
    search.

    Parameters
    ----------
    mean : array (..., 2)
    covariance : array (..., 2, 2)

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design.acquisition import above_minimum
    >>> given = above_minimum(np.array([-0.2, -0.5]), np.array([[1.0, 0.4], [0.4, 0.6]]))
    >>> float(given.mean.round(8)), float(given.variance.round(8))
    (0.20070288, 0.74927905)
    """
    m, V = np.asarray(mean), np.asarray(covariance)
    v = V[..., 0, 0] - 2.0 * V[..., 0, 1] + V[..., 1, 1]
    a = (m[..., 0] - m[..., 1]) / np.sqrt(v)
    b = _ratio(a)
    across = V[..., 0, 0] - V[..., 0, 1]
    return Conditional(m[..., 0] + b * across / np.sqrt(v), V[..., 0, 0] - b * (b + a) * across**2 / v)
