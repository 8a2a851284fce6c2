"""The neural network kernel: infinitely many hidden units (Rasmussen and Williams, 2006, eq. 4.29)."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from cavity.kernels.inner_product import InnerProduct
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit


class NeuralNetwork(InnerProduct):
    """Neural network with infinitely many erf units (arcsine kernel, Rasmussen and Williams, eq. 4.29).

    k = (2 / pi) asin( 2 u(x, x') / sqrt((1 + 2 u(x, x)) (1 + 2 u(x', x'))) )

    Functions that saturate far from the origin; a large `variance` makes steep steps, a large `bias` spreads
    them. The arcsine is evaluated as an arctangent, atan2(2 u, m) with

        m^2 = 1 + 2 (q_a + q_b) + 4 (q_a q_b - u^2),     q = u(x, x),

    whose last term is a Gram determinant and not negative: the value cannot leave the range of the arcsine by
    round-off, and its derivative, which divides by m >= 1, cannot blow up.

    Examples
    --------
    >>> from cavity.kernels import NeuralNetwork
    >>> NeuralNetwork()([[0.0], [5.0]]).round(2)
    array([[0.46, 0.1 ],
           [0.1 , 0.88]])
    """

    _units: ClassVar = {"variance": Unit.INVERSE_SQUARED_LENGTH, "bias": Unit.OFFSET}

    def _root(self, u: Array, qa: Array, qb: Array) -> Array:
        m = qa * qb
        m -= u * u
        np.maximum(m, 0.0, out=m)  # a Gram determinant: negative only by round-off
        m *= 4.0
        m += 2.0 * (qa + qb)
        m += 1.0
        return np.sqrt(m, out=m)

    def _link(self, u: Array, qa: Array, qb: Array) -> Array:
        k = np.arctan2(2.0 * u, self._root(u, qa, qb))
        k *= 2.0 / np.pi
        return cast(Array, k)

    def _link_pull(
        self, u: Array, qa: Array, qb: Array, G: Array
    ) -> tuple[Array, Array | None, Array | None]:
        # dk/du = (4 / pi) / m,   dk/dq_a = -(4 / pi) u / (m (1 + 2 q_a))
        U = (4.0 / np.pi) * G
        U /= self._root(u, qa, qb)
        W = U * u
        return U, -W.sum(axis=1) / (1.0 + 2.0 * qa[:, 0]), -W.sum(axis=0) / (1.0 + 2.0 * qb)

    def _link_diag(self, q: Array) -> Array:
        return (2.0 / np.pi) * np.arctan2(2.0 * q, np.sqrt(1.0 + 4.0 * q))

    def _link_diag_slope(self, q: Array) -> Array:
        return (4.0 / np.pi) / ((1.0 + 2.0 * q) * np.sqrt(1.0 + 4.0 * q))
