"""The polynomial kernel (Rasmussen and Williams, 2006, eq. 4.23)."""

from __future__ import annotations

from typing import Any, ClassVar

from cavity.kernels.distances import integer_power
from cavity.kernels.inner_product import InnerProduct
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit
from cavity.runtime.checks import require_integer


class Polynomial(InnerProduct):
    """Polynomial, k = (bias + sum_d variance_d x_d x'_d)^degree (Rasmussen and Williams, eq. 4.23).

    Functions are polynomials: all products of columns up to that degree.

    Parameters
    ----------
    degree : int
        Positive integer.
    variance, bias : see `InnerProduct`; with bias 0 only products of exactly that degree.

    Examples
    --------
    >>> from cavity.kernels import Polynomial
    >>> Polynomial(2, bias=1.0)([[1.0], [2.0]])
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    _units: ClassVar = {"variance": Unit.ROOT_SQUARED_SLOPE, "bias": Unit.ROOT_VARIANCE}

    def __init__(self, degree: int = 2, variance: Any = 1.0, bias: Any = 1.0) -> None:
        self.degree = require_integer(degree, "Polynomial: degree", 1)
        super().__init__(variance, bias)

    def _arguments(self) -> list[str]:
        return [f"degree={self.degree}", *super()._arguments()]

    def _link(self, u: Array, qa: Array, qb: Array) -> Array:
        return integer_power(u, self.degree)

    def _slope(self, u: Array) -> Array:
        return self.degree * integer_power(u, self.degree - 1)

    def _link_pull(self, u: Array, qa: Array, qb: Array, G: Array) -> tuple[Array, None, None]:
        return G * self._slope(u), None, None

    def _link_diag(self, q: Array) -> Array:
        return integer_power(q, self.degree)

    def _link_diag_slope(self, q: Array) -> Array:
        return self._slope(q)
