"""Special functions in the log domain, and moments of pieces of a normal density, without cancellation.

Two primitives carry most closed-form tilted moments. For t >= 0 and any real z let

    half line:  q(t) ~ exp(-z t - t^2/2) on [0, inf)        interval:  the same on [0, length].

A normal density with mean -z cut at zero has this shape, and so has the product of a normal density and an
exponential tail. Raw moments m_k of the half line obey m_{k+1} = k m_{k-1} - z m_k. Forward this cancels
for z > 0; backward, as the continued fraction R_k = m_k/m_{k-1} = k / (z + R_{k+1}), every term is
positive.

Notation: phi, Phi are the standard normal density and distribution function.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr

from cavity.numerics.arrays import Array

LOG_2PI = float(np.log(2 * np.pi))
SQRT2 = float(np.sqrt(2.0))
SQRT_2_OVER_PI = float(np.sqrt(2 / np.pi))

CONTINUED_FRACTION_FROM = 3.0
"""Where the half line's moments change from the direct formulas to the continued fraction."""

UNCUT_BELOW = -40.0
"""Below this the half line's density is that of the normal itself."""

CONTINUED_FRACTION_TERMS = 26
"""At z = 3 they leave 1e-14: the error falls like exp(-2 z sqrt(terms)), times that of a guess of what is left out."""

INTERVAL_NODES = 56
"""Gauss-Legendre nodes that integrate exp(-x^2/2) over 19 standard deviations to rounding."""

INTERVAL_CUT = 9.5
"""Standard deviations from the peak beyond which an interval's density is below 1e-19 of it."""


SERIES_BELOW, SERIES_TERMS = 0.1, 18
"""Where log(1 + u) - u is summed, and up to which power of u: what is left out is below rounding."""


class Moments(NamedTuple):
    """Mean, variance, third and fourth central moments."""

    mean: Array
    var: Array
    c3: Array
    c4: Array


def inverse_mills(z: Array) -> Array:
    """phi(z) / Phi(z), for any z: about -z far on the left, zero far on the right."""
    return np.asarray(SQRT_2_OVER_PI / erfcx(-z / SQRT2))


def log_sigmoid(z: Array) -> Array:
    """-log(1 + exp(-z))."""
    return -np.logaddexp(0.0, -z)


def log1p_minus(u: Array, log1p: Array | None = None) -> Array:
    """log(1 + u) - u for u > -1, by its series where the two would cancel.

    `log1p` is the logarithm where it is known better than u, which may be -1 but for rounding.
    """
    small = np.abs(u) < SERIES_BELOW
    x = np.where(small, u, 0.0)
    series = np.zeros_like(x)
    for k in range(SERIES_TERMS, 1, -1):
        series = 1.0 / k - x * series
    log1p = np.log1p(u) if log1p is None else log1p
    return np.where(small, -x * x * series, log1p - u)


def log_half_line(delta: Array, rate: Array | float) -> Array:
    """log of the integral over t >= 0 of exp(-rate t) phi(t + delta), for rate >= 0.

    With z = delta + rate: phi(delta) times Mills' ratio at z, or exp(rate delta + rate^2/2) Phi(-z),
    whichever subtracts no large numbers.
    """
    z = delta + rate
    right = np.maximum(z, 0.0)
    mills = -0.5 * delta * delta - 0.5 * LOG_2PI + np.log(erfcx(right / SQRT2)) + 0.5 * np.log(np.pi / 2)
    return np.where(z >= 0, mills, rate * (delta + 0.5 * rate) + log_ndtr(-z))


def _half_line_direct(z: Array) -> Moments:
    """Moments from lambda = phi(z)/Phi(-z): accurate while z is not large."""
    lam = inverse_mills(-z)
    mean = lam - z
    var = 1.0 - lam * mean
    c3 = lam * ((lam + mean) * mean - 1.0)
    # Moments about zero of the cut normal, 1 + z lambda, lambda (z^2 + 2) and 3 + z lambda (z^2 + 3), moved to its
    # mean lambda and sorted by powers of lambda.
    z2 = z * z
    c4 = 3.0 + lam * (z * (z2 + 3.0) - lam * (4.0 * z2 + 2.0 - lam * (6.0 * z - 3.0 * lam)))
    return Moments(mean, var, c3, c4)


def _fraction_tail(z: Array, slope: Array, k: int) -> Array:
    """R with R (z + R + slope) = k."""
    b = z + slope
    return np.asarray(2.0 * k / (b + np.sqrt(b * b + 4.0 * k)))


def _half_line_fraction(z: Array) -> Moments:
    """Moments from the continued fraction: accurate for large z, where t is nearly exponential."""
    # What is left out: R_k (z + R_k + slope) = k, where the slope R_{k+1} - R_k is found from the same without one.
    k = CONTINUED_FRACTION_TERMS + 1
    here, there = (_fraction_tail(z, 1.0 / np.sqrt(z * z + 4.0 * j), j) for j in (k, k + 1))
    R = _fraction_tail(z, there - here, k)
    for k in range(CONTINUED_FRACTION_TERMS, 4, -1):
        R += z
        np.divide(k, R, out=R)
    r4 = 4.0 / (z + R)
    r3 = 3.0 / (z + r4)
    r2 = 2.0 / (z + r3)
    r1 = 1.0 / (z + r2)
    c3 = r1 * (r2 * (r3 - 3 * r1) + 2 * r1 * r1)
    c4 = r1 * (r2 * (r3 * (r4 - 4 * r1) + 6 * r1 * r1) - 3 * r1**3)
    return Moments(r1, r1 * (r2 - r1), c3, c4)


def half_line(z: Array) -> Moments:
    """Moments of the density proportional to exp(-z t - t^2/2) on t >= 0, for any real z."""
    z = np.asarray(z, dtype=float)
    if z.size == 0 or (z.max() <= CONTINUED_FRACTION_FROM and z.min() >= UNCUT_BELOW):
        return _half_line_direct(z)
    far = z > CONTINUED_FRACTION_FROM
    # Far on the left the cut does not matter and powers of z would overflow: the normal's own moments.
    near = np.clip(z, UNCUT_BELOW, CONTINUED_FRACTION_FROM)
    direct = _half_line_direct(near)
    mean = np.where(z < UNCUT_BELOW, -z, direct.mean)
    out = Moments(mean, direct.var, direct.c3, direct.c4)
    if not far.any():
        return out
    fraction = _half_line_fraction(z[far])
    for full, part in zip(out, fraction):
        full[far] = part
    return out


INTERVAL_X, INTERVAL_WEIGHTS = np.polynomial.legendre.leggauss(INTERVAL_NODES)


def normal_interval(a: Array, b: Array, length: Array | None = None) -> tuple[Array, Moments]:
    """log(Phi(b) - Phi(a)) for finite a < b, and the moments of x - a for x standard normal between a and b.

    Give `length` where b - a is known more accurately than the difference of the two.

    Gauss-Legendre over that part of the interval that holds the mass: all terms are positive, so neither a
    narrow interval nor one far in the tail loses digits.
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    # Seen from the end nearer to zero, s = x - start or start - x >= 0 has density exp(-z s - s^2/2).
    flip = a + b < 0
    z = np.where(flip, -b, a)
    length = b - a if length is None else np.broadcast_to(length, a.shape)
    # d = s - peak is the distance from the largest density: exponent -d (max(z, 0) + d/2), no large numbers
    peak = np.maximum(-z, 0.0)
    right = np.maximum(z, 0.0)
    fall = INTERVAL_CUT**2 / (right + np.sqrt(right * right + INTERVAL_CUT**2))
    low, high = np.maximum(-peak, -INTERVAL_CUT), np.minimum(fall, length - peak)
    half = 0.5 * (high - low)
    nodes = (-1, *(1,) * half.ndim)
    d = low + half * (1 + INTERVAL_X.reshape(nodes))
    density = np.exp(-d * (right + 0.5 * d)) * INTERVAL_WEIGHTS.reshape(nodes)
    mass = density.sum(axis=0)
    density /= mass
    from_peak = (density * d).sum(axis=0)
    d -= from_peak
    d2 = d * d
    var, c3, c4 = ((density * p).sum(axis=0) for p in (d2, d2 * d, d2 * d2))
    mean = peak + from_peak
    moments = Moments(np.where(flip, length - mean, mean), var, np.where(flip, -c3, c3), c4)
    return np.log(mass * half) - 0.5 * right * right - 0.5 * LOG_2PI, moments


def log_normal_interval(a: Array, b: Array) -> Array:
    """log(Phi(b) - Phi(a)) for a < b, either possibly infinite, to full relative accuracy."""
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    out = np.asarray(np.where(np.isinf(b), log_ndtr(-a), log_ndtr(b)))
    both = np.isfinite(a) & np.isfinite(b)
    if both.any():
        out[both] = normal_interval(a[both], b[both])[0]
    return out


def mix_moments(weights: Array, parts: Moments) -> Moments:
    """Moments of a mixture from those of its components; weights (J, n) add up to one, parts are (J, n).

    Written around the overall mean, so that every term of the even moments is positive.
    """
    mean = (weights * parts.mean).sum(axis=0)
    d = parts.mean - mean
    d2 = d * d
    var = (weights * (parts.var + d2)).sum(axis=0)
    c3 = (weights * (parts.c3 + d * (3 * parts.var + d2))).sum(axis=0)
    c4 = (weights * (parts.c4 + 4 * d * parts.c3 + d2 * (6 * parts.var + d2))).sum(axis=0)
    return Moments(mean, var, c3, c4)


def softmax_columns(terms: Array) -> tuple[Array, Array]:
    """Log of the sum of exp(terms) over the first axis, and the terms' shares of that sum (the softmax)."""
    top = terms.max(axis=0)
    shares = np.exp(terms - top)
    mass = shares.sum(axis=0)
    return top + np.log(mass), shares / mass
