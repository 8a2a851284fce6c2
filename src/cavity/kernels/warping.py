"""Kernels on transformed inputs, k = k_1(u(x), u(x')) (Rasmussen and Williams, 2006, section 4.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.wrapper import FunctionWrapper, OfInputs
from cavity.numerics.arrays import Array


class Warped(OfInputs, FunctionWrapper):
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

    def _back(self, a: Rows, d: Array) -> Array:
        return cast(Array, np.einsum("ne,ned->nd", d, self.function.slopes(a[1], d.shape[1], "Warped")))
