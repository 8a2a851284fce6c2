"""The constant kernel: an unknown offset (Rasmussen and Williams, 2006, table 4.1)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.state_space import Block
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform


class OneVariance(Kernel):
    """What the constant and the white noise kernel share: a single parameter, the variance of f at every input."""

    _transforms: ClassVar[dict[str, Transform]] = {"variance": LOG}
    _homogeneous = True
    _single = ("variance",)

    def __init__(self, variance: Any = 1.0) -> None:
        self._set_up({"variance": variance})

    def _diag(self, a: Rows) -> Array:
        return np.full(len(a[0]), self.variance)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.array([g.sum()])


class Constant(OneVariance):
    """k = variance: an unknown offset with that prior variance.

    Examples
    --------
    >>> from cavity.kernels import Constant
    >>> Constant(2.0)([[0.0], [1.0]])
    array([[2., 2.],
           [2., 2.]])
    """

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return (np.empty(X.shape, dtype=bool),)  # carries the shape only

    def _block(self, a: Rows, b: Rows) -> Array:
        return np.full((len(a[0]), len(b[0])), self.variance)

    def _add_block(self, a: Rows, b: Rows, K: Array) -> None:
        K += self.variance

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        return (Block(self._quantity("variance")),)

    def _pull_alone(self, a: Rows, b: Rows, G: Array) -> Array:
        return np.array([G.sum()])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.array([G.sum() * (K[0, 0] / self.variance if K.size else 0.0)])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros(a[0].shape), np.zeros(b[0].shape)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros(a[0].shape)
