"""How far to go in each input column for a function to change: what distances are measured by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.constant import OneVariance
from cavity.kernels.inner_product import InnerProduct
from cavity.kernels.standardized import Standardized
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array


def input_scales(kernel: Kernel, X: Array) -> Array | None:
    """How far to go in each column for the function to change, shape (D,); None if distances mean nothing.

    Columns without a length scale of their own count by their spread.
    """
    found = np.zeros(X.shape[1])
    spread = X.std(axis=0)
    spread[spread == 0.0] = 1.0
    for leaf, columns, units in _leaves(kernel, np.arange(X.shape[1])):
        if isinstance(leaf, Stationary):
            lengths = np.broadcast_to(np.asarray(leaf.lengthscale, dtype=float), len(columns))
            if units is not None:
                lengths = lengths * units
            elif np.ndim(leaf.lengthscale) and np.ptp(lengths) == 0.0:
                lengths = lengths * spread[columns]  # one value per column, none of them learned yet
            found[columns] += lengths**-2
        elif not isinstance(leaf, OneVariance | InnerProduct | FeatureKernel):
            return None
    if not found.any():
        return np.asarray(spread)
    return np.where(found > 0, 1.0 / np.sqrt(np.where(found > 0, found, 1.0)), spread)


def _leaves(
    kernel: Kernel, columns: NDArray[np.intp], units: Array | None = None
) -> Iterator[tuple[Kernel, NDArray[np.intp], Array | None]]:
    """Kernels that are not made of others, with the columns they see and, if these are standardized, their units."""
    if isinstance(kernel, On):
        dims = list(kernel.dims)
        yield from _leaves(kernel.kernel, columns[dims], None if units is None else units[dims])
    elif isinstance(kernel, Standardized):
        scale = np.array(kernel.scale)
        yield from _leaves(kernel.kernel, columns, scale if units is None else units * scale)
    elif isinstance(kernel, Sum | Product | Scaled | Power):
        for part in kernel.parts:
            assert isinstance(part, Kernel)
            yield from _leaves(part, columns, units)
    else:
        yield kernel, columns, units
