"""Averages of a function over a Gaussian around each input, and functions of inputs that are known with an error.

For the squared exponential the average over N(x, diag(sd^2)) is in closed form. Rows hold D inputs and their D standard
deviations; with S = sd^2,

    k = prod_d (1 + (S + S')_d / l_d^2)^-1/2 exp(-(x - x')_d^2 / (2 (l_d^2 + S_d + S'_d)))

Rows of sd zero are values. An observation at an input that is known with an error is no average but one value of the
function, at an unknown place: its variance is one (`uncertain=True`; Girard 2004, Dallaire et al. 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.distances import difference
from cavity.kernels.white_noise import White
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform
from cavity.runtime.errors import InputError


class Averages(Kernel):
    """Averages of functions around inputs: rows are D inputs, and D sizes of what is averaged over."""

    _transforms: ClassVar[dict[str, Transform]] = {"lengthscale": LOG}
    _columnwise = ("lengthscale",)
    _widenable = False
    _sizes: ClassVar[str]
    """What the sizes are called."""

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """One length scale for each input, of half of the columns."""
        self._check_width(n_features)
        return super().bind(n_features // 2) if self._ard else self

    def _check_width(self, n_features: int) -> None:
        known = self.n_dims
        if self._ard and known is None:  # of half of the columns, when bound
            known = n_features if n_features % 2 else None
        if known is not None and n_features == known:
            return
        if n_features % 2 or (known is not None and n_features != 2 * known):
            wanted = "an even number of columns" if known is None else f"{2 * known} columns"
            problem = f"{type(self).__name__} takes inputs and {self._sizes}, {wanted}; got {n_features}"
            raise InputError(problem, parameter="X")

    def _halves(self, X: Array) -> tuple[Array, Array]:
        """Inputs and sizes."""
        D = X.shape[1] // 2
        if X.shape[1] % 2 or (self.n_dims is not None and self.n_dims != D):
            problem = (
                f"{type(self).__name__} takes inputs and as many {self._sizes}, got {X.shape[1]} columns"
            )
            raise InputError(problem, parameter="X")
        sizes = X[:, D:]
        if (sizes < 0).any():
            row = int(np.argmax((sizes < 0).any(axis=1)))
            problem = f"{self._sizes} must not be negative, got {sizes[row].min():g}"
            raise InputError(problem, parameter="X", row=row)
        return X[:, :D], sizes


class Blurred(Averages):
    """Averages of functions with a squared exponential kernel over a Gaussian around each input.

    Parameters
    ----------
    lengthscale : float, array (D,), `ard` or Param
    uncertain : bool
        Whether rows are values at inputs known with that error, instead of averages.

    Examples
    --------
    >>> from cavity.kernels import Blurred
    >>> Blurred(1.0)([[0.0, 0.0]], [[0.0, 1.0]]).round(4)  # a value, and the average over N(0, 1)
    array([[0.7071]])
    """

    _sizes = "standard deviations of inputs"

    def __init__(self, lengthscale: Any = 1.0, uncertain: bool = False) -> None:
        self.uncertain = bool(uncertain)
        self._set_up({"lengthscale": lengthscale})

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *(["uncertain=True"] if self.uncertain else [])]

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        x, sd = self._halves(X)
        return np.ascontiguousarray(x), sd**2, ids, np.ascontiguousarray(sd)

    def _scales(self, D: int) -> Array:
        return np.broadcast_to(np.asarray(self.lengthscale, dtype=float) ** 2, D)

    def _own(self, a: Rows) -> Array:
        """What a value at an unknown place has beyond its average."""
        D = a[0].shape[1]
        return np.asarray(1.0 - np.prod(1.0 + 2.0 * a[1] / self._scales(D), axis=1) ** -0.5)

    def _block(self, a: Rows, b: Rows) -> Array:
        D = a[0].shape[1]
        log = np.zeros((len(a[0]), len(b[0])))
        for c, square in enumerate(self._scales(D)):
            spread = np.add.outer(a[1][:, c], b[1][:, c])
            d = difference(a[0][:, c], b[0][:, c])
            log -= 0.5 * np.log1p(spread / square) + 0.5 * d * d / (square + spread)
        K = np.exp(log, out=log)
        if self.uncertain:
            i, j = White._same((a[2],), (b[2],)) if a is not b else White._same((a[2],), (a[2],))
            K[i, j] += self._own(a)[i]
        return K

    def _plain(self, a: Rows, b: Rows, K: Array) -> Array:
        """The matrix without what values at unknown places have of their own."""
        if not self.uncertain:
            return K
        i, j = White._same((a[2],), (b[2],))
        out = K.copy()
        out[i, j] -= self._own(a)[i]
        return out

    def _gather(self, squares: Array) -> Array:
        """Derivatives in the length scales from those in their squares."""
        each = 2.0 * squares * np.sqrt(self._scales(len(squares)))
        return each if np.ndim(self.lengthscale) else np.array([each.sum()])

    def _own_slopes(self, a: Rows, g: Array) -> Array:
        """d/d l^2 of sum g own."""
        D = a[0].shape[1]
        left = g * (1.0 - self._own(a))
        squares = self._scales(D)
        return np.array(
            [-left @ (a[1][:, c] / squares[c] ** 2 / (1.0 + 2.0 * a[1][:, c] / squares[c])) for c in range(D)]
        )

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        D = a[0].shape[1]
        W = G * self._plain(a, b, K)
        out = np.empty(D)
        for c, square in enumerate(self._scales(D)):
            spread = np.add.outer(a[1][:, c], b[1][:, c])
            d = difference(a[0][:, c], b[0][:, c])
            total = square + spread
            out[c] = 0.5 * np.sum(W * (spread / square / total + d * d / total**2))
        if self.uncertain:
            i, j = White._same((a[2],), (b[2],))
            own = np.zeros(len(a[0]))
            np.add.at(own, i, G[i, j])
            out += self._own_slopes(a, own)
        return self._gather(out)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        D = a[0].shape[1]
        W = G * self._plain(a, b, K)
        dA, dB = np.zeros((len(a[0]), 2 * D)), np.zeros((len(b[0]), 2 * D))
        for c, square in enumerate(self._scales(D)):
            total = square + np.add.outer(a[1][:, c], b[1][:, c])
            d = difference(a[0][:, c], b[0][:, c])
            moved = -W * d / total
            dA[:, c], dB[:, c] = moved.sum(axis=1), -moved.sum(axis=0)
            wider = 0.5 * W * (d * d / total**2 - 1.0 / total)  # in S
            dA[:, D + c] = 2.0 * a[3][:, c] * wider.sum(axis=1)
            dB[:, D + c] = 2.0 * b[3][:, c] * wider.sum(axis=0)
        if self.uncertain:
            i, j = White._same((a[2],), (b[2],))
            own = np.zeros(len(a[0]))
            np.add.at(own, i, G[i, j])
            dA[:, D:] += self._own_inputs(a, own)
        return dA, dB

    def _own_inputs(self, a: Rows, g: Array) -> Array:
        D = a[0].shape[1]
        squares = self._scales(D)
        left = g * (1.0 - self._own(a))
        return np.asarray(left[:, None] * 2.0 * a[3] / (squares + 2.0 * a[1]))

    def _diag(self, a: Rows) -> Array:
        return np.ones(len(a[0])) if self.uncertain else 1.0 - self._own(a)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        D = a[0].shape[1]
        return (
            np.zeros(self.flat.size) if self.uncertain else self._gather(-self._own_slopes(a, g)) if D else g
        )

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        out = np.zeros((len(a[0]), 2 * a[0].shape[1]))
        if not self.uncertain:
            out[:, a[0].shape[1] :] = -self._own_inputs(a, g)
        return out
