"""The polynomial kernel (Rasmussen and Williams, 2006, eq. 4.23)."""

from __future__ import annotations

from math import comb
from typing import Any, ClassVar

import numpy as np

from cavity.kernels.distances import integer_power
from cavity.kernels.inner_product import InnerProduct
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
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

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        """(b + v x x')^p = sum_m binom(p, m) b^(p - m) v^m (x x')^m."""
        if np.size(self.variance) != 1:
            raise NoStateSpaceError(self)
        p, size, v = self.degree, self.flat.size, self._quantity("variance")
        b = self._quantity("bias") if "bias" in self._params else None
        blocks = []
        for m in range(p + 1) if b is not None else [p]:
            variance = Quantity.fixed(comb(p, m), size).times(v.power(m))
            if b is not None:
                variance = variance.times(b.power(p - m))
            blocks.append(
                Block(variance, (Factor(FactorKind.POWER, m, Quantity.fixed(0.0, size)),) if m else ())
            )
        return tuple(blocks)

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
