"""Squared distances between two sets of rows, and sums over pairs weighted by a matrix H.

A pull-back of any function of a scaled distance needs three contractions over all pairs (i, j):

    second moments   sum_ij H_ij (a_i - b_j)^2            one number per column
    cross moments    sum_ij H_ij (a_i - b_j)(p_i - q_j)'  a small matrix
    drifts           sum_j H_ij (a_i - b_j)               one row per i (and per j)

Expanding the square turns each into a matrix product, |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, which is fast but
loses digits if |a - b| is far below |a|. So: few columns are subtracted one by one (exact, and as fast);
otherwise the matrix product is used about a common center, and pairs nearer than a fraction of the radius
are done again from their differences. With that the relative error of r2 stays below about 1e-12 wherever it
matters.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array

Pairs = tuple[NDArray[np.intp], NDArray[np.intp]]

DIRECT_COLUMNS = 2
"""Up to this many columns, differences are formed one by one: as fast as a matrix product, and exact."""

NEAR = 1e-3
"""Pairs with r2 below this fraction of the squared radius are computed again from differences."""

SAFE_RADIUS2 = 1e3
"""Below this squared radius the product form is exact to 1e-12 and smooth functions need no second look."""

CROWDED = 0.125
"""If more than this fraction of the pairs is near, all columns are subtracted instead."""

FAR = 1e75
"""Scaled differences beyond it are cut there: no correlation is left, and fourth powers stay floating-point numbers."""

Metric = tuple[Array, Array, Array]
"""Prepared rows: coordinates z (n, C), and [z, |z|^2, 1] and [-2z, 1, |z|^2], whose product is r2."""


def prepare_metric(z: Array) -> Metric:
    """Rows ready for `squared_distances`."""
    if z.shape[1] <= DIRECT_COLUMNS:
        nothing = np.empty((len(z), 0))
        return z, nothing, nothing
    return (z, *_augmented(np.clip(z, -FAR, FAR) if _is_far(z) else z))


def _is_far(*rows: Array) -> bool:
    """Whether some coordinate is so far out that differences must be cut."""
    return any(z.size and (z.max() >= FAR / 2 or z.min() <= -FAR / 2) for z in rows)


def _augmented(z: Array) -> tuple[Array, Array]:
    n, C = z.shape
    left, right = np.empty((n, C + 2)), np.empty((n, C + 2))
    norms = np.einsum("ij,ij->i", z, z)
    left[:, :C], left[:, C], left[:, C + 1] = z, norms, 1.0
    np.multiply(z, -2.0, out=right[:, :C])
    right[:, C], right[:, C + 1] = 1.0, norms
    return left, right


def _radius2(left: Array, right: Array) -> float:
    return float(left[:, -2].max() + right[:, -1].max()) if len(left) and len(right) else 0.0


def integer_power(x: Array, n: int) -> Array:
    """x ** n for n >= 0 by repeated squaring, several times faster than the power function."""
    if n == 0:
        return np.ones_like(x)
    out = x.copy()
    for bit in bin(n)[3:]:
        out *= out
        if bit == "1":
            out *= x
    return out


def center_of(zb: Array) -> Array:
    """Common center for two sets of rows."""
    return cast(Array, zb.mean(axis=0)) if len(zb) else np.zeros(zb.shape[1])


def difference(a: Array, b: Array, far: bool = False) -> Array:
    """a_i - b_j for two vectors, shape (len a, len b); cut if some are far out."""
    if not far:
        return cast(Array, np.subtract.outer(a, b))
    with np.errstate(over="ignore"):  # a difference that overflows is cut as well
        return cast(Array, np.clip(np.subtract.outer(a, b), -FAR, FAR))


def direct(za: Array, zb: Array) -> Array:
    """r2 from differences, column by column."""
    far = _is_far(za, zb)
    r2 = difference(za[:, 0], zb[:, 0], far)
    r2 *= r2
    for c in range(1, za.shape[1]):
        d = difference(za[:, c], zb[:, c], far)
        d *= d
        r2 += d
    return r2


def squared_distances(a: Metric, b: Metric, refine: bool) -> tuple[Array, Pairs | None]:
    """r2 for all pairs, and the near pairs if they were computed apart.

    Parameters
    ----------
    a, b : prepared rows; the same rows twice make the diagonal exactly zero.
    refine : True for functions with a kink at zero distance, which need the root of r2 to full precision.
    """
    za, zb = a[0], b[0]
    if za.shape[1] <= DIRECT_COLUMNS or _is_far(za, zb):
        return direct(za, zb), None
    left, right = a[1], b[2]
    radius2 = _radius2(left, right)
    if radius2 > SAFE_RADIUS2:
        center = center_of(zb)
        za, zb = za - center, zb - center
        left, right = _augmented(za)[0], _augmented(zb)[1]
        radius2 = _radius2(left, right)
    r2 = left @ right.T
    near = None
    if refine or radius2 > SAFE_RADIUS2:
        index = np.flatnonzero(r2 < NEAR * radius2)
        if index.size > CROWDED * r2.size:
            return direct(za, zb), None
        near = np.divmod(index, r2.shape[1])
        d = za[near[0]] - zb[near[1]]
        r2[near] = np.einsum("ij,ij->i", d, d)
    if _same_memory(a[0], b[0]):
        np.fill_diagonal(r2, 0.0)
    return r2, near


def _same_memory(a: Array, b: Array) -> bool:
    """True for the same rows, also if they were sliced out twice."""
    where_a, where_b = a.__array_interface__["data"][0], b.__array_interface__["data"][0]
    return a is b or (a.shape == b.shape and where_a == where_b)


def _split(H: Array, near: Pairs | None) -> tuple[Array, Array | None]:
    """H without its near pairs, and these: near a kink they are large, and would drown the rest."""
    if near is None or near[0].size == 0:
        return H, None
    apart = H[near]
    H[near] = 0.0
    return H, apart


def by_columns(za: Array, zb: Array) -> bool:
    """True if the expanded square would lose digits (or gain no time)."""
    if za.shape[1] <= DIRECT_COLUMNS or not len(za) or not len(zb):
        return True
    return _is_far(za, zb) or bool(np.abs(za).max() ** 2 + np.abs(zb).max() ** 2 > SAFE_RADIUS2)


def second_moments(
    za: Array, zb: Array, H: Array, near: Pairs | None = None, sums: tuple[Array, Array] | None = None
) -> Array:
    """sum_ij H_ij (za_i - zb_j)^2 for each column, shape (C,). May overwrite H.

    `sums` are those of the rows and columns of H, if they are known; not for use with near pairs.
    """
    if near is None and by_columns(za, zb):
        if za.shape[1] > DIRECT_COLUMNS:
            index = np.flatnonzero(H)  # far from each other, most pairs have no covariance at all
            if index.size <= CROWDED * H.size:
                i, j = np.divmod(index, H.shape[1])
                d = za[i] - zb[j]
                d *= d
                return H.reshape(-1)[index] @ d
        out = np.empty(za.shape[1])
        far = _is_far(za, zb)
        for c in range(za.shape[1]):
            d = difference(za[:, c], zb[:, c], far)
            d *= d
            out[c] = np.vdot(H, d)
        return out
    H, apart = _split(H, near)
    center = center_of(zb)
    xa, xb = za - center, zb - center
    if sums is None:
        moments = H @ np.column_stack([xb, np.ones(len(xb))])  # the row sums come with the matrix product
        Hx, rows, columns = moments[:, :-1], moments[:, -1], H.sum(axis=0)
    else:
        Hx, (rows, columns) = H @ xb, sums
    out = rows @ (xa * xa) + columns @ (xb * xb) - 2.0 * np.einsum("ij,ij->j", xa, Hx)
    if apart is not None and near is not None:
        d = za[near[0]] - zb[near[1]]
        out += apart @ (d * d)
    return cast(Array, out)


def cross_moments(xa: Array, xb: Array, pa: Array, pb: Array, H: Array, near: Pairs | None = None) -> Array:
    """sum_ij H_ij (xa_i - xb_j)(pa_i - pb_j)', shape (columns of x, columns of p). May overwrite H."""
    H, apart = _split(H, near)
    x0, p0 = center_of(xb), center_of(pb)
    ya, yb, qa, qb = xa - x0, xb - x0, pa - p0, pb - p0
    rows, columns = H.sum(axis=1), H.sum(axis=0)
    out = ya.T @ (rows[:, None] * qa) + yb.T @ (columns[:, None] * qb) - ya.T @ (H @ qb) - (H @ yb).T @ qa
    if apart is not None and near is not None:
        i, j = near
        out += (apart[:, None] * (xa[i] - xb[j])).T @ (pa[i] - pb[j])
    return cast(Array, out)


def drifts(za: Array, zb: Array, H: Array, near: Pairs | None = None) -> tuple[Array, Array]:
    """(sum_j H_ij (za_i - zb_j), sum_i H_ij (zb_j - za_i)), shapes of za and zb. May overwrite H."""
    far = _is_far(za, zb)
    if za.shape[1] <= DIRECT_COLUMNS or far:
        da, db = np.empty(za.shape), np.empty(zb.shape)
        for c in range(za.shape[1]):
            d = difference(za[:, c], zb[:, c], far)
            d *= H
            da[:, c] = d.sum(axis=1)
            db[:, c] = -d.sum(axis=0)
        return da, db
    H, apart = _split(H, near)
    center = center_of(zb)
    xa, xb = za - center, zb - center
    da = H.sum(axis=1)[:, None] * xa - H @ xb
    db = H.sum(axis=0)[:, None] * xb - H.T @ xa
    if apart is not None and near is not None:
        i, j = near
        step = apart[:, None] * (za[i] - zb[j])
        np.add.at(da, i, step)
        np.subtract.at(db, j, step)
    return da, db


def mean_shift(xa: Array, xb: Array, H: Array) -> Array:
    """sum_ij H_ij (xa_i - xb_j) for each column, shape (C,)."""
    center = center_of(xb)
    return cast(Array, H.sum(axis=1) @ (xa - center) - H.sum(axis=0) @ (xb - center))
