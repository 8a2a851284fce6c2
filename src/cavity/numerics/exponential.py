"""A vectorized exponential, in place: much of the cost of large covariance matrices is exponentials.

NumPy's exponential is a scalar loop on processors without AVX-512; this one is written so that the compiler
vectorizes it, four to five times faster, accurate to two units in the last place. It is compiled on first use and
cached on disk. Exponentials below 1e-307 are zero. `compiled` says when kernels use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from cavity.numerics.arrays import Array


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
    from cavity.numerics.scalar import exp_flat

    compiled: Callable[[Array, float, float], None] = exp_flat
    return compiled


def exp_in_place(values: Array, slope: float = 1.0, factor: float = 1.0) -> Array:
    """factor * exp(slope * values) of a contiguous array of any shape, in its own memory."""
    exponential()(values.reshape(-1), slope, factor)
    return values
