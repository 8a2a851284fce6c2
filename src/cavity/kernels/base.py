"""Covariance functions as immutable values, evaluated and differentiated tile by tile.

A kernel answers for *blocks of rows*: `_prepare` turns inputs into whatever a row needs (scaled coordinates, norms)
once, in O(nD); `_block` gives k(a, b) for two blocks; `_pull` contracts a block of cotangents G with dk/dparameter and
returns one number per parameter. So the gradient of sum_ij G_ij K_ij never needs an n x n x p array, tiles can be
visited in any order, by several threads, and be thrown away while still in cache.

Everything private works in natural parameter values (`flat`); the public `forward` returns gradients in `theta`.

Notation: a, b are prepared rows; G has the shape of K; K may be handed to a pull when it is already known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.hyper import LOG, Array, Param, Parametrized

Rows = tuple[Any, ...]
"""Prepared inputs: a (nested) tuple of arrays whose first axis runs over the rows."""

TILE = 256
"""Rows of a tile: 256 x 256 doubles are 512 kB, which stays in a core's second-level cache."""


def take(rows: Rows, which: slice) -> Rows:
    """The same prepared inputs for some of the rows."""
    return tuple(take(r, which) if isinstance(r, tuple) else r[which] for r in rows)


def as_inputs(X: ArrayLike, name: str = "X") -> Array:
    """Inputs as a float matrix (n, D); a vector is one column.

    Raises
    ------
    ValueError
        If there is anything but a matrix of finite numbers.
    """
    try:
        array = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers only; encode text columns first") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix with one row per case, got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{name} has a value that is not finite ({array[tuple(bad)]}) at row {bad[0]}, column {bad[1]}")
    return array


def row_blocks(n: int, size: int = TILE) -> list[slice]:
    """Consecutive slices of at most `size` rows."""
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


class Kernel(Parametrized):
    """A covariance function k(x, x'); combine with `+`, `*`, `**`, and restrict to columns with `.on(...)`."""

    n_dims: int | None = None
    """Number of input columns it is made for; None where any number will do."""

    _homogeneous: bool = False
    """True where every derivative is proportional to k, so that `_pull` may be handed a multiple of K."""

    # --- what a kernel must provide -----------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        """Per-row quantities; `ids` number the cases (equal ids mean the same case; -1 and -2 match nothing)."""

    @abstractmethod
    def _block(self, a: Rows, b: Rows) -> Array:
        """k(a, b), a fresh array of shape (len a, len b) that the caller may overwrite."""

    @abstractmethod
    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        """d/d flat of sum G * k(a, b), shape (P,); neither G nor K (= k(a, b)) is changed."""

    @abstractmethod
    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        """d/da and d/db (raw inputs, shapes (len a, D) and (len b, D)) of sum G * k(a, b), a and b independent."""

    @abstractmethod
    def _diag(self, a: Rows) -> Array:
        """k(x, x) for each row, shape (len a,)."""

    @abstractmethod
    def _pull_diag(self, a: Rows, g: Array) -> Array:
        """d/d flat of sum g * k(x, x), shape (P,)."""

    @abstractmethod
    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        """d/dx of sum g * k(x, x), shape (len a, D)."""

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel made definite for data with these columns: vectors of length scales, column names as indices."""
        if self.n_dims is not None and self.n_dims != n_features:
            raise ValueError(
                f"{type(self).__name__} has parameters for {self.n_dims} input columns, but the data have {n_features}; "
                "give as many values as columns, or choose the columns with .on(...)"
            )
        parts = tuple(cast(Kernel, part).bind(n_features, feature_names) for part in self._parts)
        return self._rebuild(self._params, parts)

    # --- public evaluation --------------------------------------------------------------------------------------

    def prepare(self, X: ArrayLike) -> Rows:
        """Rows of training inputs, for tile-wise work."""
        X = self._checked(X)
        return self._prepare(X, np.arange(len(X)))

    def _checked(self, X: ArrayLike, name: str = "X") -> Array:
        X = as_inputs(X, name)
        if self.n_dims is not None and X.shape[1] != self.n_dims:
            self.bind(X.shape[1])
        return X

    def _prepare_pair(self, X: ArrayLike, Z: ArrayLike | None) -> tuple[Rows, Rows]:
        a = self.prepare(X)
        if Z is None:
            return a, a
        Z = self._checked(Z, "Z")
        return a, self._prepare(Z, np.full(len(Z), -1))

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """Covariance matrix k(X, Z), shape (n, m); with `Z=None` k(X, X), where white noise sees equal cases."""
        a, b = self._prepare_pair(X, Z)
        return self._block(a, b)

    def diag(self, X: ArrayLike) -> Array:
        """The diagonal of k(X, X), shape (n,)."""
        return self._diag(self.prepare(X))

    def forward(self, X: ArrayLike, Z: ArrayLike | None = None) -> tuple[Array, Callable[[Array], Array]]:
        """K and its pullback.

        Returns
        -------
        K : array (n, m)
        pullback : callable
            `pullback(G)` is the gradient of `sum(G * K)` with respect to `theta`. `pullback(G, inputs=True)` returns
            `(d_theta, d_X, d_Z)`; with `Z=None` the last is None and d_X counts both arguments.
        """
        a, b = self._prepare_pair(X, Z)
        K = self._block(a, b)

        def pullback(G: Array, inputs: bool = False) -> Any:
            G = np.asarray(G, dtype=float)
            if G.shape != K.shape:
                raise ValueError(f"the cotangent must have the shape of K, {K.shape}, got {G.shape}")
            flat = np.zeros(self.flat.size)
            for I in row_blocks(len(K)):
                flat += self._pull(take(a, I), b, G[I], K[I])
            d_theta = self.to_theta(flat)
            if not inputs:
                return d_theta
            dA, dB = self._pull_inputs(a, b, G, K)
            return (d_theta, dA + dB, None) if Z is None else (d_theta, dA, dB)

        return K, pullback

    def forward_diag(self, X: ArrayLike) -> tuple[Array, Callable[[Array], Array]]:
        """The diagonal of k(X, X) and its pullback to `theta` (and, with `inputs=True`, to X)."""
        a = self.prepare(X)

        def pullback(g: Array, inputs: bool = False) -> Any:
            g = np.asarray(g, dtype=float)
            d_theta = self.to_theta(self._pull_diag(a, g))
            return (d_theta, self._pull_diag_inputs(a, g)) if inputs else d_theta

        return self._diag(a), pullback

    def gradient_inputs(self, x: ArrayLike, Z: ArrayLike) -> Array:
        """dk(x, z)/dx for every pair, shape (n, m, D). Only for small n or m: it holds n m D numbers."""
        X = self._checked(x)
        Z = self._checked(Z, "Z")
        a, b = self._prepare(X, np.full(len(X), -2)), self._prepare(Z, np.full(len(Z), -1))
        K = self._block(a, b)
        out = np.empty((len(X), len(Z), X.shape[1]))
        for j in range(len(Z)):
            J = slice(j, j + 1)
            out[:, j] = self._pull_inputs(a, take(b, J), np.ones((len(X), 1)), K[:, J])[0]
        return out

    # --- algebra ------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        from cavity.kernels.algebra import add

        return add(self, other)

    def __radd__(self, other: Any) -> Kernel:
        from cavity.kernels.algebra import add

        return add(other, self)

    def __mul__(self, other: Any) -> Kernel:
        from cavity.kernels.algebra import multiply

        return multiply(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        from cavity.kernels.algebra import multiply

        return multiply(other, self)

    def __pow__(self, exponent: int) -> Kernel:
        from cavity.kernels.algebra import Power

        return Power(self, exponent)

    def on(self, dims: int | str | Sequence[int] | Sequence[str]) -> Kernel:
        """The kernel on some input columns only, by index or by DataFrame column name."""
        from cavity.kernels.algebra import On

        return On(self, dims)

    # --- text, equality, scikit-learn ---------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        """Text of the constructor's arguments."""
        return [f"{name}={param!r}" for name, param in self._params.items()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __sklearn_clone__(self) -> Self:
        """Kernels are immutable, so a clone is the kernel itself."""
        return self


__all__ = ["LOG", "Array", "Kernel", "Param", "Rows", "as_inputs", "row_blocks", "take"]
