"""Kernels on standardized inputs: one length scale, or one prior of length scales, for columns of different units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.wrapper import OfInputs
from cavity.numerics.arrays import Array


class Standardized(OfInputs):
    """A kernel on standardized columns, k(x, x') = k_1((x - center) / scale, (x' - center) / scale).

    Parameters
    ----------
    kernel : Kernel
        k_1; its length scales are in units of `scale`.
    scale : array (D,)
        One positive number for each column, such as its standard deviation. Not learned.
    center : array (D,), optional
        Zero by default.

    Examples
    --------
    >>> from cavity.kernels import SE, Standardized
    >>> Standardized(SE(2.0), [1.0, 10.0])([[0.0, 0.0]], [[2.0, 20.0]]).round(4)
    array([[0.3679]])
    """

    _named = _widenable = False

    def __init__(self, kernel: Kernel, scale: ArrayLike, center: ArrayLike | None = None) -> None:
        known = np.atleast_1d(np.asarray(scale, dtype=float))
        middle = np.zeros(len(known)) if center is None else np.atleast_1d(np.asarray(center, dtype=float))
        if known.ndim != 1 or not np.all((known > 0) & (known < np.inf)):
            raise ValueError(f"Standardized: scale must hold positive numbers, got {scale!r}")
        if middle.shape != known.shape or not np.isfinite(middle).all():
            raise ValueError(f"Standardized: center must be {len(known)} finite numbers, got {center!r}")
        self.scale, self.center = tuple(known.tolist()), tuple(middle.tolist())
        self._set_up({}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), repr(list(self.scale)), repr(list(self.center))]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel inside is bound to the same columns."""
        if n_features != len(self.scale):
            raise ValueError(
                f"Standardized is made for {len(self.scale)} input columns, but the data have {n_features}; give as "
                "many scales as columns, or choose the columns with .on(...)"
            )
        return self._rebuild({}, (self.kernel.bind(n_features, feature_names),))

    def standardize(self, X: Array) -> Array:
        """(X - center) / scale."""
        return np.asarray((X - np.array(self.center)) / np.array(self.scale))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return (self.kernel._prepare(self.standardize(X), ids),)

    def _back(self, a: Rows, d: Array) -> Array:
        return np.asarray(d / np.array(self.scale))
