"""Where to look at a function of many inputs: ranges of columns, and a central row to slice through."""

from __future__ import annotations

import numpy as np

from cavity.numerics.arrays import Array

FEW_VALUES = 8
"""A column with at most so many different values, in many rows, is drawn at these values only."""

MARGIN = 0.04
"""Part of the range by which a grid goes beyond the data."""


def grid_of(values: Array, count: int) -> tuple[Array, bool]:
    """Places along a column, and whether they are its own few values (codes of categories must stay what they are).

    >>> import numpy as np
    >>> grid_of(np.repeat([0.0, 1.0, 2.0], 20), 50)
    (array([0., 1., 2.]), True)
    """
    own = np.unique(values)
    if len(own) <= FEW_VALUES and len(values) >= 3 * len(own):
        return own, True
    pad = MARGIN * (own[-1] - own[0]) or 0.5
    return np.linspace(own[0] - pad, own[-1] + pad, count), False


def central_row(X: Array) -> Array:
    """The row of X nearest to the medians of the columns, in units of their spreads: values that occur together."""
    spread = X.std(axis=0)
    z = (X - np.median(X, axis=0)) / np.where(spread > 0, spread, 1.0)
    return np.array(X[np.argmin(np.einsum("ij,ij->i", z, z))])


def slice_rows(center: Array, column: int, grid: Array) -> Array:
    """Rows equal to the center but for one column."""
    rows = np.repeat(center[None], len(grid), axis=0)
    rows[:, column] = grid
    return rows
