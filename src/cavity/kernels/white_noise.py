"""White noise: an independent value for every case (Rasmussen and Williams, 2006, table 4.1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.constant import OneVariance
from cavity.numerics.arrays import Array
from cavity.parameters.units import Unit


class White(OneVariance):
    """k = variance for a case with itself, otherwise 0: independent noise per case, also for repeated inputs.

    The delta is on the case, not on the input value: k(X) has it on the diagonal, k(X, Z)
    has it nowhere.

    Examples
    --------
    >>> from cavity.kernels import White
    >>> White(0.1)([[0.0], [0.0]])
    array([[0.1, 0. ],
           [0. , 0.1]])
    """

    _nearest_markov = "none: white noise belongs to the likelihood"
    _units: ClassVar = {"variance": Unit.WHITE_VARIANCE}

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return (ids, np.empty(X.shape, dtype=bool))

    @staticmethod
    def _same(a: Rows, b: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Positions (i, j) of equal cases; ids that are not negative increase."""
        if a is b and len(a[0]) and a[0][0] >= 0:
            everywhere = np.arange(len(a[0]))
            return everywhere, everywhere
        if not len(a[0]) or not len(b[0]) or a[0][-1] < b[0][0] or b[0][-1] < a[0][0]:
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        _, i, j = np.intersect1d(a[0], b[0], assume_unique=False, return_indices=True)
        keep = a[0][i] >= 0
        return i[keep], j[keep]

    def _block(self, a: Rows, b: Rows) -> Array:
        K = np.zeros((len(a[0]), len(b[0])))
        K[self._same(a, b)] = self.variance
        return K

    def _add_block(self, a: Rows, b: Rows, K: Array) -> None:
        K[self._same(a, b)] += self.variance

    def _pull_alone(self, a: Rows, b: Rows, G: Array) -> Array:
        return np.array([G[self._same(a, b)].sum()])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        where = self._same(a, b)
        return np.array([np.sum(G[where] * K[where]) / self.variance])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        return np.zeros(a[1].shape), np.zeros(b[1].shape)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros(a[1].shape)
