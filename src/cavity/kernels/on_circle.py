"""The Ornstein-Uhlenbeck process on a circle (Rasmussen and Williams 2006, appendix B.2.2).

    k = cosh((period / 2 - r) / l) / cosh(period / (2 l)),    r the shorter way round from x to x'

This is the sum of exp(-|x - x' - m period| / l) over all whole m, divided by its value at 0. The book's first form of
the same equation has exp(-a |t|) in the divisor, which must be exp(-a period); the form with hyperbolic functions is
right. A process on a circle is conditioned from both sides, so on the line it is not Markov.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Rows
from cavity.kernels.cosine import TURN, phase
from cavity.kernels.distances import mean_shift
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform


class OnCircle(Correlation):
    """Ornstein-Uhlenbeck process on a circle, of variance one: continuous and rough, and it repeats exactly.

    Parameters
    ----------
    period : float or Param
        Length of the circle, in units of the input.
    lengthscale : float or Param
        Along the circle, in units of the input.

    Examples
    --------
    >>> from cavity.kernels import OnCircle
    >>> OnCircle(period=4.0, lengthscale=1.0)([[0.0], [1.0], [2.0], [4.0]]).round(3)[0]
    array([1.   , 0.41 , 0.266, 1.   ])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"period": LOG, "lengthscale": LOG}
    _single = ("period", "lengthscale")
    _input_columns = 1
    _widenable = False
    _nearest_markov = "Seasonal(period, harmonics=6), with a constant"

    def __init__(self, period: Any = 1.0, lengthscale: Any = 1.0) -> None:
        self._set_up({"period": period, "lengthscale": lengthscale})

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        return X, phase(X[:, 0], self.period) / TURN

    def _ways(self, a: Rows, b: Rows) -> tuple[Array, Array, Array]:
        """Way round as a share of the circle, with its sign, and exp(-r / l) along it and along the other one."""
        u = np.subtract.outer(a[1], b[1])
        u -= np.round(u)
        c, r = self.period / self.lengthscale, np.abs(u)
        return u, np.exp(-c * r), np.exp(-c * (1.0 - r))

    @property
    def _whole(self) -> float:
        return float(np.exp(-self.period / self.lengthscale))

    def _block(self, a: Rows, b: Rows) -> Array:
        _, one, other = self._ways(a, b)
        return np.asarray((one + other) / (1.0 + self._whole))

    def _slope(self, a: Rows, b: Rows, G: Array) -> Array:
        """G times dk/dx_a."""
        u, one, other = self._ways(a, b)
        return np.asarray(G * np.sign(u) * (other - one) / (self.lengthscale * (1.0 + self._whole)))

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        u, one, other = self._ways(a, b)
        r, whole = np.abs(u), self._whole
        by_ratio = np.sum(G * (((1.0 - r) * whole - r) * one + (r * whole - (1.0 - r)) * other))
        by_ratio /= (1.0 + whole) ** 2  # in period / lengthscale, r held
        around = mean_shift(a[0], b[0], self._slope(a, b, G)).sum() / self.period
        return np.array([by_ratio / self.lengthscale - around, -by_ratio * self.period / self.lengthscale**2])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        slope = self._slope(a, b, G)
        return slope.sum(axis=1)[:, None], -slope.sum(axis=0)[:, None]
