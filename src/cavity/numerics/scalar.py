# mypy: disable-error-code=untyped-decorator
"""Special functions of one number, for loops that Numba compiles.

All are good to a few units in the last place over the whole range of their argument; `nan` stays `nan`. This module
loads Numba: import it inside functions, so that `import cavity` does not.

Numba keys its cache on disk by the file of the calling loop: after an edit here, delete `__pycache__/*.nb*` of its
callers.

Notation: phi, Phi are the standard normal density and distribution function; the half line is the density
exp(-z t - t^2/2) on t >= 0, see `special`.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from cavity.numerics.special import (
    CONTINUED_FRACTION_FROM,
    LOG_2PI,
    SQRT2,
    SQRT_2_OVER_PI,
    UNCUT_BELOW,
)

jit: Any = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
"""For what must be rounded as it is written."""

jit_sums: Any = numba.njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz"}
)
"""For loops whose sums may be taken in any order, so that they are vectorized; nan and infinity stay what they are."""

inlined: Any = numba.njit(error_model="numpy", fastmath={"contract"}, forceinline=True)

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts (Cody and Waite), so that x - k ln 2 is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
ROUND_BITS = 0x4338000000000000
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
LOWEST = -708.0  # exp of anything smaller is zero: no denormal numbers, which are slow
HIGHEST = 709.0

SQRT_PI = math.sqrt(math.pi)
HALF_LOG_HALF_PI = 0.5 * math.log(0.5 * math.pi)

FRACTION_TERMS = 90.0
"""Terms of the continued fraction beyond the fifth, times z: they leave 3e-14 of the fourth central moment."""

ASYMPTOTIC_FROM = 25.0
"""From here on seven terms of the asymptotic series give erfcx to rounding."""


@inlined
def exp(x: Any) -> Any:
    """exp(x) to two units in the last place, vectorized in loops; zero below exp(-708), x at most 709.

    Range reduction by ln 2, a Taylor polynomial of degree 13 on |r| <= ln 2 / 2 (truncation below 5e-18), and the
    power of two added to the exponent bits.
    """
    inside = min(max(x, LOWEST), HIGHEST)
    shifted = inside * LOG2E + ROUND
    k = shifted - ROUND
    r = (inside - k * LN2_HIGH) - k * LN2_LOW
    p = 1.6059043836821613e-10
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 1.984126984126984e-04
    p = p * r + 1.3888888888888889e-03
    p = p * r + 8.333333333333333e-03
    p = p * r + 4.1666666666666664e-02
    p = p * r + 1.6666666666666666e-01
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    bits = (np.float64(shifted).view(np.int64) << 52) + np.float64(p).view(np.int64)
    grown = np.int64(bits).view(np.float64)
    return grown if x >= LOWEST else (0.0 if x < LOWEST else x)


@inlined
def one_minus_exp(z: Any) -> Any:
    """1 - exp(-z) for z >= 0 to full relative accuracy, vectorized in loops: by its series if z is small."""
    series = 1.0
    for k in range(14, 1, -1):
        series = 1.0 - z / k * series
    return z * series if z < 0.35 else 1.0 - exp(-z)


@inlined
def log(x: Any) -> Any:
    """log(x) for a positive normal x, vectorized in loops, to a unit in the last place or 1e-16.

    With x = 2^k m, m between sqrt(1/2) and sqrt(2): k ln 2 + 2 artanh((m - 1) / (m + 1)), eleven terms of its series.
    """
    bits = np.float64(x).view(np.int64)
    k = (bits - SQRT_HALF_BITS) >> 52
    m = np.int64(bits - (k << 52)).view(np.float64)
    z = (m - 1.0) / (m + 1.0)
    s = z * z
    p = 1.0 / 21.0
    p = p * s + 1.0 / 19.0
    p = p * s + 1.0 / 17.0
    p = p * s + 1.0 / 15.0
    p = p * s + 1.0 / 13.0
    p = p * s + 1.0 / 11.0
    p = p * s + 1.0 / 9.0
    p = p * s + 1.0 / 7.0
    p = p * s + 1.0 / 5.0
    p = p * s + 1.0 / 3.0
    power = np.int64(k + ROUND_BITS).view(np.float64) - ROUND
    return 2.0 * z * (s * p) + (2.0 * z + power * LN2_LOW) + power * LN2_HIGH


@numba.njit(
    "void(float64[::1],float64,float64)",
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract"},
)
def exp_flat(values: Any, slope: float, factor: float) -> None:
    """values <- factor exp(slope values), 1-D."""
    for i in range(values.size):
        values[i] = factor * exp(slope * values[i])


@jit
def erfcx(x: float) -> float:
    """exp(x^2) erfc(x), with x^2 = h^2 + (x - h)(x + h) for an h whose square is exact."""
    if x >= ASYMPTOTIC_FROM:
        s = 0.5 / (x * x)
        series = 1.0 - 11.0 * s
        for k in range(9, 0, -2):
            series = 1.0 - k * s * series
        return series / (SQRT_PI * x)
    if x < -26.7:
        return math.inf
    h = math.floor(16.0 * x + 0.5) / 16.0
    return math.exp(h * h) * (math.exp((x - h) * (x + h)) * math.erfc(x))


@jit
def log_ndtr(x: float) -> float:
    """log Phi(x)."""
    if x > -1.0:
        return math.log1p(-0.5 * math.erfc(x / SQRT2))
    return math.log(0.5 * erfcx(-x / SQRT2)) - 0.5 * x * x


@jit
def log_half_line(delta: float, rate: float) -> Any:
    """log of the integral over t >= 0 of exp(-rate t) phi(t + delta), for rate >= 0.

    With z = delta + rate: phi(delta) times Mills' ratio at z, or exp(rate delta + rate^2/2) Phi(-z), whichever
    subtracts no large numbers.
    """
    z = delta + rate
    if z < 0.0:
        return rate * (delta + 0.5 * rate) + log_ndtr(-z)
    return math.log(erfcx(z / SQRT2)) + (HALF_LOG_HALF_PI - 0.5 * LOG_2PI) - 0.5 * delta * delta


@inlined
def fraction_tail(z: float, k: int) -> float:
    """R with R (z + R + slope) = k: what is left out of the fraction, R_{k+1} - R_k being about 1/sqrt(z^2 + 4 k)."""
    b = z + 1.0 / math.sqrt(z * z + 4.0 * k)
    return 2.0 * k / (b + math.sqrt(b * b + 4.0 * k))


@jit
def half_line(z: float) -> tuple[float, float, float, float]:
    """Mean, variance, third and fourth central moments of exp(-z t - t^2/2) on t >= 0, for any z.

    From the continued fraction R_k = m_k / m_{k-1} = k / (z + R_{k+1}) of raw moments if z is large, where t is nearly
    exponential; else from lambda = phi(z) / Phi(-z).
    """
    if z > CONTINUED_FRACTION_FROM:
        last = 5 + int(FRACTION_TERMS / z)
        R = fraction_tail(z, last + 1)
        for k in range(last, 4, -1):
            R = k / (z + R)
        r4 = 4.0 / (z + R)
        r3 = 3.0 / (z + r4)
        r2 = 2.0 / (z + r3)
        r1 = 1.0 / (z + r2)
        c3 = r1 * (r2 * (r3 - 3 * r1) + 2 * r1 * r1)
        c4 = r1 * (r2 * (r3 * (r4 - 4 * r1) + 6 * r1 * r1) - 3 * r1 * r1 * r1)
        return r1, r1 * (r2 - r1), c3, c4
    if z < UNCUT_BELOW:  # the normal density itself
        return -z, 1.0, 0.0, 3.0
    lam = SQRT_2_OVER_PI / erfcx(z / SQRT2)
    mean = lam - z
    # Moments about zero of the cut normal, 1 + z lambda, lambda (z^2 + 2) and 3 + z lambda (z^2 + 3), moved to its
    # mean lambda and sorted by powers of lambda.
    z2 = z * z
    c4 = 3.0 + lam * (z * (z2 + 3.0) - lam * (4.0 * z2 + 2.0 - lam * (6.0 * z - 3.0 * lam)))
    return mean, 1.0 - lam * mean, lam * ((lam + mean) * mean - 1.0), c4
