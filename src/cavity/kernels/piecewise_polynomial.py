"""Piecewise polynomial kernels with compact support (Rasmussen and Williams, 2006, eq. 4.21)."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.kernels.distances import integer_power
from cavity.kernels.stationary import Stationary, over
from cavity.numerics.arrays import Array

# Polynomials p_q: coefficients of 1, r, r^2, r^3 in terms of j
_COMPACT = (
    lambda j: (1.0,),
    lambda j: (1.0, j + 1.0),
    lambda j: (1.0, j + 2.0, (j * j + 4 * j + 3) / 3.0),
    lambda j: (1.0, j + 3.0, (6 * j * j + 36 * j + 45) / 15.0, (j**3 + 9 * j * j + 23 * j + 15) / 15.0),
)


class PiecewisePolynomial(Stationary):
    """Piecewise polynomial with compact support (Rasmussen and Williams, eq. 4.21).

    It is exactly 0 for r >= 1, so K is sparse.

    k = (1 - r)_+^(j + q) p_q(r), with j = floor(D/2) + q + 1 for D input columns, which keeps it positive
    definite, and p_q a polynomial of degree q. 2q times differentiable at 0 (q = 0: rough, q = 3: smooth).

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`; the length scale is the radius of the support.
    q : int
        Smoothness, 0 to 3.

    Examples
    --------
    >>> from cavity.kernels import PiecewisePolynomial
    >>> PiecewisePolynomial(1.0)([[0.0], [0.5], [2.0]])[0].round(3)
    array([1.   , 0.172, 0.   ])
    """

    _kink = True

    def __init__(self, lengthscale: Any = 1.0, q: int = 2, *, loadings: Any = None) -> None:
        if isinstance(q, bool) or q not in (0, 1, 2, 3):
            raise ValueError(f"PiecewisePolynomial: q must be 0, 1, 2 or 3, got {q!r}")
        self.q = int(q)
        super().__init__(lengthscale, loadings=loadings)

    def _arguments(self) -> list[str]:
        listed = super()._arguments()
        return [listed[0], f"q={self.q}", *listed[1:]]

    def _polynomial(self, dims: int) -> tuple[int, np.polynomial.Polynomial]:
        j = dims // 2 + self.q + 1
        return j + self.q, np.polynomial.Polynomial(_COMPACT[self.q](j))

    @staticmethod
    def _edge(r2: Array, power: int) -> tuple[Array, Array]:
        """r cut off at 1 (in the memory of r2), and (1 - r)^power."""
        r = np.sqrt(r2, out=r2)
        np.minimum(r, 1.0, out=r)
        return r, integer_power(1.0 - r, power)

    def _radial(self, r2: Array, dims: int) -> Array:
        power, p = self._polynomial(dims)
        r, K = self._edge(r2, power)
        K *= _horner(p.coef, r)
        return K

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        # dg/dr = (1-r)^(power-1) [(1-r) p' - power p] and dg/dr2 = dg/dr / (2 r); for q > 0 the bracket has a
        # factor r, which is divided out by dropping its first coefficient (zero)
        power, p = self._polynomial(dims)
        bracket = 0.5 * (np.polynomial.Polynomial([1.0, -1.0]) * p.deriv() - power * p)
        r, slope = self._edge(r2, power - 1)
        if power == 1:  # one column, q = 0: the slope of a triangle jumps to zero at the edge
            slope[r >= 1.0] = 0.0
        if self.q == 0:
            slope *= _horner(bracket.coef, r)
            return over(slope, r)
        slope *= _horner(bracket.coef[1:], r)
        return slope


def _horner(coefficients: Any, x: Array) -> Array:
    """c_0 + c_1 x + c_2 x^2 + ..."""
    out = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        out *= x
        out += c
    return out
