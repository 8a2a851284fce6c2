"""How predictions change along an input, in a word; and which pairs of inputs act together.

The effect of an input is its partial dependence: the average over the rows of f as the input takes a value, all else
as it is in the rows. Its shape is read off the average of the posterior mean along the input. With R the difference
between the ends and V the sum of all steps, up and down, the average rises or falls if |R| is nearly V; if it turns
once, it has a highest or a lowest place; otherwise it varies.

Interaction of inputs i and j (Friedman and Popescu 2008): what the average along both has that the averages along
each do not add up to,

    h_ij(a, b) = m_ij(a, b) - m_i(a) - m_j(b) + m,

as a share of the variance of the posterior mean over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from cavity.numerics.arrays import Array

STEADY = 0.9
"""Share of all steps that must go one way for an average that rises or falls."""

FLAT = 1e-9
"""Steps below this share of the size of the average are rounding errors."""

ENDS = (0.03, 0.97)
"""Quantiles of a column between which its effect is looked at: beyond there is hardly a row."""

Mean = Callable[[Array], Array]
"""A function (m, D) -> (m,)."""


class Shape(StrEnum):
    """How an average goes along an input."""

    FLAT = "flat"
    RISES = "rises"
    FALLS = "falls"
    PEAK = "peak"
    DIP = "dip"
    VARIES = "varies"


@dataclass(frozen=True)
class Turning:
    """The shape of an average along an input, and where it is highest and lowest."""

    shape: Shape
    highest: float
    lowest: float


def average_along(mean: Mean, X: Array, columns: Sequence[int], values: Array) -> Array:
    """Averages (g,) over the rows of X of a function whose columns take each row of `values` (g, len(columns)).

    >>> import numpy as np
    >>> average_along(lambda X: X[:, 0] * X[:, 1], np.array([[1.0, 2.0], [1.0, 4.0]]), [0], np.array([[5.0]]))
    array([15.])
    """
    moved = np.tile(X, (len(values), 1))
    moved[:, list(columns)] = np.repeat(values, len(X), axis=0)
    return np.asarray(np.asarray(mean(moved)).reshape(len(values), len(X)).mean(axis=1))


def turning(grid: Array, average: Array) -> Turning:
    """The shape of averages (g,) along a rising grid (g,).

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 21)
    >>> [str(turning(x, y).shape) for y in (x, -x, x**2, -(x**2), np.sin(9 * x), 0 * x)]
    ['rises', 'falls', 'dip', 'peak', 'varies', 'flat']
    """
    steps = np.diff(average)
    highest, lowest = int(np.argmax(average)), int(np.argmin(average))
    ends = float(grid[highest]), float(grid[lowest])
    total, rise = float(np.sum(np.abs(steps))), float(average[-1] - average[0])
    if total <= FLAT * float(np.max(np.abs(average), initial=0.0)):
        return Turning(Shape.FLAT, *ends)
    if abs(rise) >= STEADY * total:
        return Turning(Shape.RISES if rise > 0 else Shape.FALLS, *ends)
    for shape, place, sign in ((Shape.PEAK, highest, 1.0), (Shape.DIP, lowest, -1.0)):
        way = sign * (2.0 * average[place] - average[0] - average[-1])  # up to the place, and down again
        if 0 < place < len(grid) - 1 and way >= STEADY * total:
            return Turning(shape, *ends)
    return Turning(Shape.VARIES, *ends)


def grid_between(values: Array, count: int) -> Array:
    """Places along a column: its own values if they are few, else from its small to its large quantile."""
    own = np.unique(values)
    if len(own) <= count:
        return own
    low, high = (float(end) for end in np.quantile(values, ENDS))
    return np.linspace(low, high, count)


@dataclass(frozen=True)
class Interaction:
    """Two columns that act together.

    Attributes
    ----------
    columns : (int, int)
    share : float
        Of the variance of the posterior mean.
    grids : (array (a,), array (b,))
    average : array (a, b)
        Of the posterior mean over the rows.
    """

    columns: tuple[int, int]
    share: float
    grids: tuple[Array, Array]
    average: Array


def interaction(mean: Mean, X: Array, columns: tuple[int, int], count: int = 12) -> Interaction:
    """How much two columns act together, on a grid of `count` places along each."""
    one, other = (grid_between(X[:, d], count) for d in columns)
    pairs = np.column_stack([np.repeat(one, len(other)), np.tile(other, len(one))])
    average = average_along(mean, X, columns, pairs).reshape(len(one), len(other))
    alone = average.mean(axis=1, keepdims=True) + average.mean(axis=0) - average.mean()
    spread = float(np.var(np.asarray(mean(X))))
    share = float(np.mean((average - alone) ** 2)) / spread if spread > 0 else 0.0
    return Interaction(columns, share, (one, other), average)
