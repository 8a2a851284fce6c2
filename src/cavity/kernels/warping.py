"""Kernels on transformed inputs, k = k_1(u(x), u(x')) (Rasmussen and Williams, 2006, section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.wrapper import FunctionWrapper
from cavity.numerics.arrays import Array


class Warped(FunctionWrapper):
    """A kernel on transformed inputs, k(x, x') = k_1(u(x), u(x')).

    Parameters
    ----------
    kernel : Kernel
        k_1, on the columns that the function returns.
    function : str or callable
        u: inputs (n, D) to (n, E). A registered name ("log", "sqrt", ...; see `register_function`) can be
        printed and saved, a plain callable cannot.
    jacobian : callable, optional
        Inputs (n, D) to (n, E, D). Without it derivatives in the inputs are refused.

    Examples
    --------
    >>> from cavity.kernels import SE, Warped
    >>> k = Warped(SE(1.0), "log")
    >>> k([[1.0]], [[2.0]]).round(9) == k([[10.0]], [[20.0]]).round(9)
    array([[ True]])
    """

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The inner kernel is bound to the columns that the function returns."""
        return self._rebuild({}, (self.kernel.bind(self.function.width(n_features)),))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return self.kernel._prepare(self.function(X, "Warped"), ids), X

    def _back(self, X: Array, dU: Array) -> Array:
        return cast(Array, np.einsum("ne,ned->nd", dU, self.function.slopes(X, dU.shape[1], "Warped")))

    def _block(self, a: Rows, b: Rows) -> Array:
        return self.kernel._block(a[0], b[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a[0], b[0], G, K)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        dA, dB = self.kernel._pull_inputs(a[0], b[0], G, K)
        return self._back(a[1], dA), self._back(b[1], dB)

    def _diag(self, a: Rows) -> Array:
        return self.kernel._diag(a[0])

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a[0], g)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self._back(a[1], self.kernel._pull_diag_inputs(a[0], g))
