"""The integral of an Ornstein-Uhlenbeck process: a trend whose slope is forgotten (a damped trend).

    f(t) = int_start^t v(s) ds,   cov(v(s), v(t)) = exp(-|s - t| / l)

With x = min(t, t') / l from the start on, d = |t - t'| / l:

    k = l^2 (2 (x - 1 + e^-x) + (1 - e^-x)(1 - e^-d)),

a sum of positive terms. Far below l it is a line of random slope, far above it a Wiener process whose variance grows by
2 l a unit. Sampled on a grid, its changes are an ARMA(1, 1): the process that economic series resemble most.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity
from cavity.kernels.wiener import Started
from cavity.numerics.arrays import Array
from cavity.parameters.param import Transform
from cavity.parameters.transforms import LOG

SERIES_BELOW, TERMS = 0.5, 16
"""Value of x below which x - 1 + e^-x is summed, since it would cancel."""


def excess(x: Array) -> Array:
    """x - 1 + e^-x, to full relative accuracy."""
    total, term = np.zeros_like(x), np.minimum(x, SERIES_BELOW) ** 2 / 2.0
    for k in range(3, TERMS + 3):
        total += term
        term = -term * np.minimum(x, SERIES_BELOW) / k
    return np.where(x < SERIES_BELOW, total, x + np.expm1(-x))


class IntegratedOU(Started):
    """Integral of an Ornstein-Uhlenbeck process of variance one: a trend whose slope lasts for a while.

    It has an exact state-space form of two states, but for products with other kernels.

    Parameters
    ----------
    lengthscale : float or Param
        How long the slope lasts, in units of the input.
    start : float
        Input at which the process is 0 and its slope random, a constant; inputs must not lie before it.

    Examples
    --------
    >>> from cavity.kernels import IntegratedOU
    >>> IntegratedOU(2.0)([[1.0], [3.0]]).round(3)
    array([[0.852, 1.847],
           [1.847, 5.785]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscale": LOG}
    _single = ("lengthscale",)

    def __init__(self, lengthscale: Any = 1.0, start: float = 0.0) -> None:
        self._set_start(start)
        self._set_up({"lengthscale": lengthscale})

    def _scaled(self, a: Rows, b: Rows) -> tuple[Array, Array]:
        """x and d of all pairs."""
        one, other = a[0] / self.lengthscale, b[0] / self.lengthscale
        return np.minimum.outer(one, other), np.abs(np.subtract.outer(one, other))

    def _block(self, a: Rows, b: Rows) -> Array:
        x, d = self._scaled(a, b)
        return np.asarray(self.lengthscale**2 * (2.0 * excess(x) + np.expm1(-x) * np.expm1(-d)))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        x, d = self._scaled(a, b)
        by_x = -2.0 * np.expm1(-x) - np.exp(-x) * np.expm1(-d)
        by_d = -np.exp(-d) * np.expm1(-x)
        slope = 2.0 * K / self.lengthscale - self.lengthscale * (x * by_x + d * by_d)
        return np.array([np.einsum("ij,ij->", G, slope)])

    def _slope(self, one: Array, other: Array) -> Array:
        """cov(v(s), f(t))."""
        s, t = one[:, None] / self.lengthscale, other / self.lengthscale
        early = -np.expm1(-s) - np.expm1(np.minimum(s - t, 0.0))
        late = -np.exp(np.minimum(t - s, 0.0)) * np.expm1(-t)
        return np.asarray(self.lengthscale * np.where(s < t, early, late))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        first = np.einsum("ij,ij->i", G, self._slope(a[0], b[0]))
        second = np.einsum("ij,ji->j", G, self._slope(b[0], a[0]))
        return first[:, None], second[:, None]

    def _diag(self, a: Rows) -> Array:
        return np.asarray(2.0 * self.lengthscale**2 * excess(a[0] / self.lengthscale))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        x = a[0] / self.lengthscale
        return np.array([self.lengthscale * (g @ (4.0 * excess(x) + 2.0 * x * np.expm1(-x)))])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.asarray(-2.0 * self.lengthscale * g * np.expm1(-a[0] / self.lengthscale))[:, None]

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        length = self._quantity("lengthscale")
        rate = Quantity(1.0 / length.value, -length.slope / length.value**2)
        factor = Factor(FactorKind.INTEGRATED, 2, rate, self.start)
        return (Block(length.power(2), (factor,)),)
