"""Products with covariance matrices that are never stored: tiles are evaluated, used and thrown away."""

from __future__ import annotations

import numpy as np

from cavity.kernels.base import Kernel, take
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes
from cavity.numerics.tiles import lower_tiles


def covariance_times(kernel: Kernel, X: Array, u: Array) -> Array:
    """K u for u (n,), from tiles of the lower triangle."""
    rows, out = kernel._prepare(X, np.arange(len(X))), np.zeros(len(X))
    with compiled_passes(len(X) >= COMPILED_FROM):
        for i, j in lower_tiles(len(X)):
            tile = kernel._block(take(rows, i), take(rows, j))
            below = min(j.stop, i.start) - j.start  # columns left of the diagonal block
            out[i] += tile @ u[j]
            if below > 0:
                out[j.start : j.start + below] += tile[:, :below].T @ u[i]
    return out
