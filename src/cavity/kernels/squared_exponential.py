"""The squared exponential kernel (Rasmussen and Williams, 2006, eq. 4.9)."""

from __future__ import annotations

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.distances import Pairs, by_columns, center_of
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp, lower_moments, product_and_sums


class SE(Stationary):
    """Squared exponential, k = exp(-r2 / 2) (Rasmussen and Williams, eq. 4.9): infinitely smooth functions.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> SE(1.0)([[0.0], [1.0]]).round(3)
    array([[1.   , 0.607],
           [0.607, 1.   ]])
    """

    _homogeneous = True
    _approximately_markov = True

    def _radial(self, r2: Array, dims: int) -> Array:
        return kernel_exp(r2, -0.5)

    def _scaled_block(self, variance: float, a: Rows, b: Rows) -> Array:
        return kernel_exp(self._distances(a, b)[0], -0.5, variance)

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        return -0.5 * K

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        if states is None or np.size(self.lengthscale) != 1 or "loadings" in self._params:
            raise NoStateSpaceError(self)
        length = self._quantity("lengthscale")
        rate = Quantity(1.0 / length.value, -length.slope / length.value**2)
        return (Block(Quantity.fixed(1.0, self.flat.size), (Factor(FactorKind.GAUSSIAN, states, rate),)),)

    def _weights(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None]:
        H = G * K  # dg/dr2 = -k/2: no distances, no exponential
        H *= -0.5
        return H, None

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self._pull_and_sum(a, b, G, K)[0]

    def _pull_and_sum(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, float]:
        H, rows, columns = product_and_sums(G, K)
        return -0.5 * self._pull_metric(a[0], b[0], H, None, (rows, columns)), float(rows.sum())

    def _pull_lower(
        self, a: Rows, b: Rows, tile: tuple[slice, slice], u: Array, A: Array, K: Array
    ) -> tuple[Array, float] | None:
        za, zb = a[0], b[0]
        if "loadings" in self._params or by_columns(za, zb):
            return None
        center = center_of(zb)
        sums = lower_moments(u, A, K, *tile, za - center, zb - center)
        if sums is None:
            return None
        return -0.5 * self._from_moments(sums[:-1]), float(sums[-1])
