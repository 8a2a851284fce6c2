"""The cosine kernel: one sinusoid of unknown amplitude and phase.

    k = cos(2 pi sum_d (x_d - x'_d) / period_d)

A cosine of a distance is not positive definite in more than one column. A cosine of a projection is:
cos(f - f') = cos f cos f' + sin f sin f'. A phase is reduced to one turn before it is multiplied by 2 pi, so inputs
far from the origin keep their digits.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Rows
from cavity.kernels.distances import mean_shift
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform

TURN = 2.0 * np.pi


def phase(X: Array, period: Any) -> Array:
    """2 pi x / period within one turn, by column; the remainder is exact however many periods x holds."""
    return cast(Array, TURN * (np.fmod(X, period) / period))


class Cosine(Correlation):
    """Cosine, k = cos(2 pi sum_d (x_d - x'_d) / period_d): one sinusoid of unknown amplitude and phase.

    Parameters
    ----------
    period : float, array (D,), `ard` or Param
        In units of the inputs.

    Examples
    --------
    >>> from cavity.kernels import Cosine
    >>> Cosine(period=4.0)([[0.0], [2.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"period": LOG}
    _columnwise = ("period",)

    def __init__(self, period: Any = 1.0) -> None:
        self._set_up({"period": period})

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        f = phase(X, self.period).sum(axis=1)
        return X, np.column_stack([np.cos(f), np.sin(f)])

    def _block(self, a: Rows, b: Rows) -> Array:
        return cast(Array, a[1] @ b[1].T)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        if np.size(self.period) != 1:
            raise NoStateSpaceError(self)
        period = self._quantity("period")
        omega = Quantity(TURN / period.value, -TURN / period.value**2 * period.slope)
        return (Block(Quantity.fixed(1.0, self.flat.size), (Factor(FactorKind.ROTATION, 0, omega),)),)

    def _sines(self, a: Rows, b: Rows, G: Array) -> Array:
        """G times -dk/df_a = sin(f_a - f_b)."""
        S = a[1][:, ::-1] @ (b[1] * [1.0, -1.0]).T
        S *= G
        return cast(Array, S)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        period = np.asarray(self.period)
        each = TURN * mean_shift(a[0], b[0], self._sines(a, b, G)) / period**2
        return each if period.ndim else np.array([each.sum()])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        S = self._sines(a, b, G)
        rate = np.broadcast_to(TURN / np.asarray(self.period), a[0].shape[1])
        return np.multiply.outer(-S.sum(axis=1), rate), np.multiply.outer(S.sum(axis=0), rate)
