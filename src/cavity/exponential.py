# mypy: disable-error-code=untyped-decorator
"""A vectorized exponential, in place: much of the cost of large covariance matrices is exponentials.

NumPy's exponential is a scalar loop on processors without AVX-512; this one is written so that the compiler
vectorizes it, four to five times faster, accurate to two units in the last place. Compiled on first use and cached on
disk; without Numba, NumPy's is used. Results below 1e-307 are zero.

Kernels use NumPy's (`kernel_exp`) except where a large training matrix is filled (`fast_exponentials`): loading Numba
costs as much as thousands of small matrices, and whether it is used must depend on the size of the problem alone, so
that results can be repeated to the last bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOG2E = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts (Cody and Waite), so that x - k ln 2 is exact
LN2_LOW = 1.90821492927058770002e-10
ROUND = 6755399441055744.0  # 1.5 * 2^52: adding it rounds to an integer, left in the low bits
LOWEST = -708.0  # exp of anything smaller is zero: no denormal numbers, which are slow
HIGHEST = 709.0


def _exp_flat(values: Any) -> None:
    """values <- exp(values), 1-D: range reduction by ln 2, Taylor polynomial of degree 13, exponent bits."""
    for i in range(values.size):
        x = values[i]
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
        values[i] = grown if x >= LOWEST else (0.0 if x < LOWEST else x)  # a nan stays one


def _exp_numpy(values: Array) -> None:
    np.exp(values, out=values)


@cache
def exponential() -> Callable[[Array], None]:
    """The function that replaces a contiguous 1-D array (entries below 709) by its exponentials."""
    if find_spec("numba") is None:
        return _exp_numpy
    import numba

    compiled: Callable[[Array], None] = numba.njit(
        "void(float64[::1])", cache=True, nogil=True, error_model="numpy", fastmath={"contract"}
    )(_exp_flat)
    return compiled


def exp_in_place(values: Array) -> Array:
    """exp of a contiguous array of any shape, in its own memory."""
    exponential()(values.reshape(-1))
    return values


# --- the choice for kernels ---------------------------------------------------------------------------------

_this_thread = threading.local()


@contextmanager
def fast_exponentials(wanted: bool = True) -> Iterator[None]:
    """Within it, `kernel_exp` of this thread is the compiled one."""
    before = getattr(_this_thread, "fast", False)
    _this_thread.fast = wanted
    try:
        yield
    finally:
        _this_thread.fast = before


def kernel_exp(values: Array) -> Array:
    """exp in place: NumPy's, or the compiled one within `fast_exponentials`."""
    if getattr(_this_thread, "fast", False) and values.flags.c_contiguous:
        return exp_in_place(values)
    return np.exp(values, out=values)
