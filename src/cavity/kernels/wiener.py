"""Wiener process and its integral, the cubic spline kernel.

Rasmussen and Williams (2006), section 6.3.1, eq. 6.28 and B.2.

All live on one column and start at `start`, where they are 0; inputs before it are refused.
With v = min(x, x') and d = |x - x'|:

    Wiener            k = v
    IntegratedWiener  k = d v^2 / 2 + v^3 / 3, and integrated m times
                      k = int_0^v z^m (z + d)^m dz / m!^2

Scale them as any kernel (`0.3 * IntegratedWiener()`): the factor is the variance gained per unit of input.
"""

from __future__ import annotations

from math import comb, factorial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Given, Kernel, Rows
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer

MAX_INTEGRALS = 5
"""Beyond it states differ by too many powers of the gap."""


class Started(Kernel):
    """A process of one input column that is 0 at `start`; inputs must not lie before it."""

    _input_columns = 1
    _widenable = False

    def _set_start(self, start: float) -> None:
        try:
            self.start = float(start)
        except (TypeError, ValueError):
            raise ValueError(f"{type(self).__name__}: start must be a number, got {start!r}") from None
        if not np.isfinite(self.start):
            raise ValueError(f"{type(self).__name__}: start must be finite, got {start!r}")

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *([f"start={self.start!r}"] if self.start else [])]

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        x = X[:, 0] - self.start
        if (x < 0).any():
            row = int(np.argmax(x < 0))
            raise ValueError(
                f"{type(self).__name__}: inputs must not lie before start={self.start!r}, "
                f"but row {row} is {float(X[row, 0])!r}; give an earlier start"
            )
        return (x,)


class Wiener(Started, Given):
    """Wiener process (Brownian motion), k = min(x, x'): rough paths, variance growing from 0 at `start`.

    Parameters
    ----------
    start : float
        Input at which the process is 0, a constant in units of the input; inputs must not lie before it.

    Examples
    --------
    >>> from cavity.kernels import Wiener
    >>> Wiener()([[1.0], [2.0]])
    array([[1., 1.],
           [1., 2.]])
    """

    _order = 1  # length of the state: how often white noise is integrated

    def __init__(self, start: float = 0.0) -> None:
        self._set_start(start)
        self._set_up({})

    def _block(self, a: Rows, b: Rows) -> Array:
        return cast(Array, np.minimum.outer(a[0], b[0]))

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        factor = Factor(FactorKind.WIENER, self._order, Quantity.fixed(0.0, 0), self.start)
        return (Block(Quantity.fixed(1.0, 0), (factor,)),)

    def _slopes(self, a: Rows, b: Rows) -> tuple[Array, Array]:
        """dk/da and dk/db; half of each where both are equal, so that their sum is the slope of k(x, x)."""
        first = np.heaviside(-np.subtract.outer(a[0], b[0]), 0.5)
        return first, 1.0 - first

    def _diag_slope(self, x: Array) -> Array:
        return np.ones_like(x)

    def _diag(self, a: Rows) -> Array:
        return cast(Array, a[0].copy())

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        first, second = self._slopes(a, b)
        return np.einsum("ij,ij->i", G, first)[:, None], np.einsum("ij,ij->j", G, second)[:, None]

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return (g * self._diag_slope(a[0]))[:, None]


class IntegratedWiener(Wiener):
    """Integrated Wiener process, k = |x - x'| v^2 / 2 + v^3 / 3, v = min(x, x'): the cubic smoothing spline.

    Together with a vague linear mean, exact regression with this kernel is the cubic smoothing spline with
    smoothness penalty noise variance / kernel variance. In time series it is the local linear trend.

    Parameters
    ----------
    start : see `Wiener`; the process and its slopes are 0 there.
    order : int
        How often the Wiener process is integrated: 1 for the cubic spline, 2 for the quintic one, up to 5.

    Examples
    --------
    >>> from cavity.kernels import IntegratedWiener
    >>> IntegratedWiener()([[1.0], [2.0]]).round(3)
    array([[0.333, 0.833],
           [0.833, 2.667]])
    """

    def __init__(self, start: float = 0.0, order: int = 1) -> None:
        self.order = require_integer(order, "IntegratedWiener: order", 1)
        if self.order > MAX_INTEGRALS:
            raise ValueError(f"IntegratedWiener: order must be at most {MAX_INTEGRALS}, got {order}")
        super().__init__(start)

    @property
    def _order(self) -> int:  # type: ignore[override]
        return self.order + 1

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *([f"order={self.order}"] if self.order != 1 else [])]

    def _block(self, a: Rows, b: Rows) -> Array:
        v = np.minimum.outer(a[0], b[0])
        d = np.subtract.outer(a[0], b[0])
        np.abs(d, out=d)
        m, total = self.order, np.zeros_like(v)
        for j in range(m + 1):  # Horner's rule in d
            total *= d
            total += comb(m, j) / (m + 1 + j) * v**j
        return cast(Array, total * v ** (m + 1) / factorial(m) ** 2)

    def _slopes(self, a: Rows, b: Rows) -> tuple[Array, Array]:
        """dk/da = int_0^v (a - z)^(m - 1) (b - z)^m dz / ((m - 1)! m!), and the same with a and b exchanged."""
        one, other = a[0][:, None], b[0]
        v = np.minimum(one, other)
        first, second = np.zeros_like(v), np.zeros_like(v)
        m, over_a, over_b = self.order, one - v, other - v
        for i in range(m):  # with z' = v - z, sum of binomials in the excesses a - v and b - v
            for j in range(m + 1):
                weight = comb(m - 1, i) * comb(m, j) / (i + j + 1) / (factorial(m - 1) * factorial(m))
                power = weight * v ** (i + j + 1)
                first += power * over_a ** (m - 1 - i) * over_b ** (m - j)
                second += power * over_b ** (m - 1 - i) * over_a ** (m - j)
        return first, second

    def _diag_slope(self, x: Array) -> Array:
        return x ** (2 * self.order) / factorial(self.order) ** 2

    def _diag(self, a: Rows) -> Array:
        m = self.order
        return cast(Array, a[0] ** (2 * m + 1) / ((2 * m + 1) * factorial(m) ** 2))
