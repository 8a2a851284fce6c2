"""Functions that do not change under a group of linear maps (Rasmussen and Williams, 2006, section 9.10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.base import Kernel, Rows, take
from cavity.kernels.wrapper import Wrapper
from cavity.numerics.arrays import Array

AT_ONCE = 16
"""Rows whose diagonal is taken from one block."""


class Invariant(Wrapper):
    """Functions averaged over maps of the inputs, k(x, x') = mean over g, g' of k_1(g x, g' x').

    If the maps are a group (turns, mirror images, permutations of columns), functions are the same at x and at g x. The
    variance differs from place to place; `Normalized(Invariant(...))` makes it one.

    Parameters
    ----------
    kernel : Kernel
        k_1.
    maps : array (m, D, D)
        Matrices g.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE, Invariant
    >>> mirror = Invariant(SE(1.0), [[[1.0]], [[-1.0]]])  # even functions
    >>> K = mirror([[0.7], [-0.7], [2.0]])
    >>> bool(abs(K[0, 2] - K[1, 2]) < 1e-15)
    True
    """

    _widenable = False

    def __init__(self, kernel: Kernel, maps: ArrayLike) -> None:
        self.maps: Array = np.array(maps, dtype=float)
        shape = self.maps.shape
        if len(shape) != 3 or shape[0] < 1 or shape[1] != shape[2] or not np.isfinite(self.maps).all():
            raise ValueError(
                f"Invariant: maps must be square matrices, an array (m, D, D), got shape {shape}"
            )
        self._input_columns = shape[1]
        self._set_up({}, (kernel,))

    def _arguments(self) -> list[str]:
        return [repr(self.kernel), repr(self.maps.tolist())]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel inside is bound to the same columns."""
        self._check_width(n_features)
        return self._rebuild({}, (self.kernel.bind(n_features, feature_names),))

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        return tuple(self.kernel._prepare(np.ascontiguousarray(X @ g.T), ids) for g in self.maps)

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[0], b[0])
        for i, one in enumerate(a):
            for j, other in enumerate(b):
                if i or j:
                    self.kernel._add_block(one, other, K)
        K /= len(a) * len(b)
        return K

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        g = G / (len(a) * len(b))
        return np.asarray(
            np.sum([self.kernel._pull_alone(one, other, g) for one in a for other in b], axis=0)
        )

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        g = G / (len(a) * len(b))
        D = self.maps.shape[1]
        dA, dB = np.zeros((G.shape[0], D)), np.zeros((G.shape[1], D))
        for one, map_a in zip(a, self.maps):
            for other, map_b in zip(b, self.maps):
                first, second = self.kernel._pull_inputs(one, other, g, self.kernel._block(one, other))
                dA += first @ map_a
                dB += second @ map_b
        return dA, dB

    def _rows(self, a: Rows) -> int:
        part = a[0]
        while isinstance(part, tuple):
            part = part[0]
        return len(part)

    def _few(self, a: Rows) -> Iterator[tuple[slice, Rows]]:
        """Some rows at a time: the diagonal of their block costs fewer calls than row by row."""
        for start in range(0, self._rows(a), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            yield some, take(a, some)

    def _diag(self, a: Rows) -> Array:
        out = np.zeros(self._rows(a))
        for some, rows in self._few(a):
            out[some] = np.diag(self._block(rows, rows))
        return out

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        out = np.zeros(self.flat.size)
        for some, rows in self._few(a):
            G = np.diag(g[some])
            out += self._pull(rows, rows, G, np.zeros(G.shape))
        return out

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        out = np.zeros((len(g), self.maps.shape[1]))
        for some, rows in self._few(a):
            G = np.diag(g[some])
            left, right = self._pull_inputs(rows, rows, G, np.zeros(G.shape))
            out[some] = left + right
        return out
