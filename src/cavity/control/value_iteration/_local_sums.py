"""Compiled sums over the neighborhood of a point on a regular grid."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, fastmath=True)
def local_sums(coefficients, strides, places, spreads, sizes, circular, reach, least, out):  # type: ignore[no-untyped-def]  # pragma: no cover
    """sum_j coefficients[j] prod_d E b(x_d - j_d) over the grid points within `reach` of each place.

    Lengths are in units of the spacing: places (B, D) with the first grid point of each column at 0, spreads (D, 2) the
    squared length scale and the variance of each column. Places beyond the grid give zero; circular columns wrap.
    Products of bumps below `least` are left out.
    """
    B, D = places.shape
    width = 2 * reach + 2
    weight = np.zeros((D, width))
    offset = np.zeros((D, width), np.int64)
    count = np.zeros(D, np.int64)
    product = np.ones(D)
    base = np.zeros(D, np.int64)
    for q in range(B):
        out[q] = 0.0
        inside = True
        for d in range(D):
            z = places[q, d]
            if circular[d]:
                z = z - sizes[d] * np.floor(z / sizes[d])
            elif z < 0.0 or z > sizes[d] - 1:
                inside = False
                break
            total = spreads[d, 0] + spreads[d, 1]
            height = np.sqrt(spreads[d, 0] / total)
            first = int(np.floor(z)) - reach
            for k in range(width):
                j = first + k
                weight[d, k] = height * np.exp(-0.5 * (z - j) ** 2 / total)
                if circular[d]:
                    j = j % sizes[d]
                elif j < 0 or j >= sizes[d]:
                    weight[d, k] = 0.0
                    j = 0
                offset[d, k] = j * strides[d]
        if not inside:
            continue
        # all combinations of the first D - 1 columns in order, the last one as the inner loop
        total_sum = 0.0
        count[:] = 0
        d = 0
        while d >= 0:
            if d == D - 1:
                start = base[D - 2] if D > 1 else 0
                factor = product[D - 2] if D > 1 else 1.0
                inner = 0.0
                for k in range(width):
                    inner += weight[d, k] * coefficients[start + offset[d, k]]
                total_sum += factor * inner
                d -= 1
                continue
            if count[d] == width:
                count[d] = 0
                d -= 1
                continue
            k = count[d]
            count[d] += 1
            product[d] = weight[d, k] * (product[d - 1] if d > 0 else 1.0)
            if product[d] <= least:
                continue
            base[d] = offset[d, k] + (base[d - 1] if d > 0 else 0)
            d += 1
        out[q] = total_sum
