"""Wiener process and its integral, the cubic spline kernel.

Rasmussen and Williams (2006), section 6.3.1, eq. 6.28 and B.2.

Both live on one column and start at `start`, where they are 0; inputs before it are refused.
With v = min(x, x'):

    Wiener            k = v
    IntegratedWiener  k = |x - x'| v^2 / 2 + v^3 / 3

Scale them as any kernel (`0.3 * IntegratedWiener()`): the factor is the variance gained per unit of input.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity
from cavity.numerics.arrays import Array


class Wiener(Kernel):
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

    _widenable = False
    _order = 1  # length of the state: how often white noise is integrated

    def __init__(self, start: float = 0.0) -> None:
        try:
            self.start = float(start)
        except (TypeError, ValueError):
            raise ValueError(f"{type(self).__name__}: start must be a number, got {start!r}") from None
        if not np.isfinite(self.start):
            raise ValueError(f"{type(self).__name__}: start must be finite, got {start!r}")
        self._set_up({})

    def _check(self) -> None:
        self.n_dims = 1

    def _arguments(self) -> list[str]:
        return [f"start={self.start!r}"] if self.start else []

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

    def _block(self, a: Rows, b: Rows) -> Array:
        return cast(Array, np.minimum.outer(a[0], b[0]))

    def _state_space(self) -> tuple[Block, ...]:
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

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.zeros(0)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        first, second = self._slopes(a, b)
        return np.einsum("ij,ij->i", G, first)[:, None], np.einsum("ij,ij->j", G, second)[:, None]

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(0)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return (g * self._diag_slope(a[0]))[:, None]


class IntegratedWiener(Wiener):
    """Integrated Wiener process, k = |x - x'| v^2 / 2 + v^3 / 3, v = min(x, x'): the cubic smoothing spline.

    Together with a vague linear mean, exact regression with this kernel is the cubic smoothing spline with
    smoothness penalty noise variance / kernel variance.

    Parameters
    ----------
    start : see `Wiener`; both the process and its slope are 0 there.

    Examples
    --------
    >>> from cavity.kernels import IntegratedWiener
    >>> IntegratedWiener()([[1.0], [2.0]]).round(3)
    array([[0.333, 0.833],
           [0.833, 2.667]])
    """

    _order = 2

    def _block(self, a: Rows, b: Rows) -> Array:
        v = np.minimum.outer(a[0], b[0])
        d = np.subtract.outer(a[0], b[0])
        np.abs(d, out=d)
        d *= 0.5
        d += v / 3.0
        d *= v
        d *= v
        return cast(Array, d)

    def _slopes(self, a: Rows, b: Rows) -> tuple[Array, Array]:
        # dk/da = a b - a^2/2 where a < b, and b^2/2 otherwise; the other side by symmetry
        x, y = a[0][:, None], b[0]
        return np.where(x < y, x * (y - 0.5 * x), 0.5 * y * y), np.where(
            y < x, y * (x - 0.5 * y), 0.5 * x * x
        )

    def _diag_slope(self, x: Array) -> Array:
        return x * x

    def _diag(self, a: Rows) -> Array:
        return cast(Array, a[0] ** 3 / 3.0)
