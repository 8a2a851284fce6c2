"""The linear kernel: Bayesian linear regression (Rasmussen and Williams, 2006, section 4.2.2)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from cavity.kernels.inner_product import InnerProduct
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit


class Linear(InnerProduct):
    """Linear, k = bias + sum_d variance_d x_d x'_d (Rasmussen and Williams, section 4.2.2): Bayesian linear regression.

    Examples
    --------
    >>> from cavity.kernels import Linear
    >>> Linear(0.5)([[1.0], [2.0]])
    array([[1.5, 2. ],
           [2. , 3. ]])
    """

    _units: ClassVar = {"variance": Unit.SQUARED_SLOPE, "bias": Unit.VARIANCE}

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        if np.size(self.variance) != 1:
            raise NoStateSpaceError(self)
        line = Block(
            self._quantity("variance"), (Factor(FactorKind.POWER, 1, Quantity.fixed(0.0, self.flat.size)),)
        )
        return (Block(self._quantity("bias")), line) if "bias" in self._params else (line,)

    def _link(self, u: Array, qa: Array, qb: Array) -> Array:
        return u

    def _link_pull(self, u: Array, qa: Array, qb: Array, G: Array) -> tuple[Array, None, None]:
        return G, None, None

    def _link_diag(self, q: Array) -> Array:
        return q.copy()

    def _link_diag_slope(self, q: Array) -> Array:
        return np.ones_like(q)
