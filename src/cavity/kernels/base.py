"""Covariance functions as immutable values, evaluated and differentiated tile by tile.

A kernel answers for *blocks of rows*: `_prepare` turns inputs into whatever a row needs (scaled coordinates,
norms) once, in O(nD); `_block` gives k(a, b) for two blocks; `_pull` contracts a block of cotangents G with
dk/dparameter and returns one number per parameter. So the gradient of sum_ij G_ij K_ij never needs an n x n
x p array, tiles can be visited in any order, by several threads, and be thrown away while still in cache.

Everything private works in natural parameter values (`flat`); the public `forward` returns gradients in
`theta`.

Notation: a, b are prepared rows; G has the shape of K; K may be handed to a pull when it is already known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.kernels.automatic_relevance import Ard
from cavity.kernels.state_space import Block, NoStateSpaceError, Quantity, StateSpace
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param, Parametrized
from cavity.parameters.units import Unit

Rows = tuple[Any, ...]
"""Prepared inputs: a (nested) tuple of arrays whose first axis runs over the rows."""

TILE = 256
"""Rows of a tile: 256 x 256 doubles are 512 kB, which stays in a core's second-level cache."""


def take(rows: Rows, which: slice) -> Rows:
    """The same prepared inputs for some of the rows."""
    return tuple([take(r, which) if isinstance(r, tuple) else r[which] for r in rows])


def as_inputs(X: ArrayLike, name: str = "X") -> Array:
    """Inputs as a float matrix (n, D); a vector is one column.

    Raises
    ------
    ValueError
        If there is anything but a matrix of finite numbers.
    """
    try:
        array = np.asarray(X)
        if np.iscomplexobj(array):
            raise ValueError
        array = np.asarray(array, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold real numbers only; encode text columns first") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be a matrix with one row per case, got an array of shape {array.shape}"
        )
    if array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, got an array of shape {array.shape}")
    if not np.isfinite(array).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        value = array[row, column]
        raise ValueError(f"{name} has a value that is not finite ({value}) at row {row}, column {column}")
    return cast(Array, array)


def new_inputs(X: ArrayLike, columns: int) -> Array:
    """Inputs to predict for, (m, D), which must have the columns of the training inputs."""
    new = as_inputs(X)
    if new.shape[1] != columns:
        raise ValueError(f"X has {new.shape[1]} columns, but the model was conditioned on {columns}")
    return new


def row_blocks(n: int, size: int = TILE) -> list[slice]:
    """Consecutive slices of at most `size` rows."""
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _tiles(a: Rows, b: Rows, n: int, m: int) -> Iterator[tuple[slice, slice, Rows, Rows]]:
    """All tiles of an n x m matrix; with `a is b` only those on and below the diagonal."""
    left = [(s, take(a, s)) for s in row_blocks(n)]
    right = left if a is b else [(s, take(b, s)) for s in row_blocks(m)]
    for i, (rows, ta) in enumerate(left):
        for columns, tb in right[: i + 1] if a is b else right:
            yield rows, columns, ta, tb


class Kernel(Parametrized):
    """A covariance function k(x, x'); combine with `+`, `*`, `**`, and choose columns with `.on(...)`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE, Linear
    >>> kernel = 2.0 * SE(0.5).on([0]) + Linear()
    >>> X = np.array([[0.0, 1.0], [0.5, 2.0]])
    >>> kernel(X).shape, kernel(X, X[:1]).shape
    ((2, 2), (2, 1))
    >>> kernel.names
    ('se.variance', 'se.lengthscale', 'linear.variance', 'linear.bias')
    """

    _units: ClassVar = {"lengthscale": Unit.LENGTH, "variance": Unit.VARIANCE, "period": Unit.PERIOD}
    n_dims: int | None = None
    """Number of input columns it is made for; None if any number will do."""

    _homogeneous: bool = False
    """True if every derivative is proportional to k, so that `_pull` may be handed a multiple of K."""

    _columnwise: ClassVar[tuple[str, ...]] = ()
    """Parameters that are one number for all input columns, or a vector with one per column, or `ard`."""

    _single: ClassVar[tuple[str, ...]] = ()
    """Parameters that are one number."""

    _input_columns: int | None = None
    """Number of input columns whatever the parameters are; None if they decide."""

    _fixed_by_default: ClassVar[tuple[str, ...]] = ()
    """Parameters that are learned only when given as a `Param` that is not fixed."""

    _widenable: ClassVar[bool] = True
    """False if it would make no sense to replace each input column by several (see `Periodic`)."""

    _nearest_markov: ClassVar[str] = "Matern(lengthscale, nu=2.5)"
    _approximately_markov: ClassVar[bool] = False
    """The kernel of one input with a state-space form that comes closest, if this one has none."""

    _ard: tuple[str, ...] = ()
    __array_ufunc__ = None  # so that a NumPy number times a kernel is left to the kernel

    def _set_up(self, values: Mapping[str, Any], parts: Sequence[Parametrized] = ()) -> None:
        self._ard = tuple(name for name, value in values.items() if isinstance(value, Ard))
        wrong = [name for name in self._ard if name not in self._columnwise]
        if wrong:
            raise ValueError(
                f"{type(self).__name__}: {wrong[0]} cannot be `ard`; it is not a value per column"
            )
        plain = {name: v.start if isinstance(v, Ard) else v for name, v in values.items()}
        for name in self._fixed_by_default:
            if name in plain and not isinstance(plain[name], Param):
                plain[name] = Param(plain[name], fixed=True)
        super()._set_up(plain, parts)
        self._check()

    def _check(self) -> None:
        """Check what the parameters must satisfy together; called whenever values change."""
        self.n_dims = self._input_columns
        for name in self._single:
            if name in self._params and np.ndim(value := self._params[name].value):
                raise ValueError(f"{type(self).__name__}: {name} must be a single number, got {value!r}")
        for name in self._columnwise:
            if name not in self._params:
                continue
            shape = np.shape(self._params[name].value)
            if len(shape) > 1:
                raise ValueError(
                    f"{type(self).__name__}: {name} must be a number or a vector, got shape {shape}"
                )
            if shape:
                self._ard = tuple(n for n in self._ard if n != name)
                self._set_dims(shape[0], name)

    def _set_dims(self, count: int, name: str) -> None:
        if self.n_dims is not None and self.n_dims != count:
            owner = type(self).__name__
            raise ValueError(
                f"{owner}: {name} is for {count} input columns, other parameters for {self.n_dims}"
            )
        self.n_dims = count

    def _rebuild(self, params: dict[str, Param], parts: tuple[Parametrized, ...], **attributes: Any) -> Self:
        new = super()._rebuild(params, parts)
        new.__dict__.update(attributes)
        new._check()
        return new

    # --- what a kernel must provide -------------------------------------------------------------------------

    @abstractmethod
    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        """Per-row quantities; `ids` number the cases (equal ids: the same case; -1 and -2 match nothing)."""

    @abstractmethod
    def _block(self, a: Rows, b: Rows) -> Array:
        """k(a, b), a fresh array of shape (len a, len b) that the caller may overwrite."""

    @abstractmethod
    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        """d/d flat of sum G * k(a, b), shape (P,); neither G nor K (= k(a, b)) is changed."""

    @abstractmethod
    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        """d/da and d/db of sum G * k(a, b), a and b independent: raw inputs, (len a, D) and (len b, D)."""

    @abstractmethod
    def _diag(self, a: Rows) -> Array:
        """k(x, x) for each row, shape (len a,)."""

    @abstractmethod
    def _pull_diag(self, a: Rows, g: Array) -> Array:
        """d/d flat of sum g * k(x, x), shape (P,)."""

    @abstractmethod
    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        """d/dx of sum g * k(x, x), shape (len a, D)."""

    # --- what some kernels can do better --------------------------------------------------------------------

    def _scaled_block(self, variance: float, a: Rows, b: Rows) -> Array:
        """variance * k(a, b), a fresh array."""
        K = self._block(a, b)
        if variance != 1.0:
            K *= variance
        return K

    def _add_block(self, a: Rows, b: Rows, K: Array) -> None:
        """K += k(a, b)."""
        K += self._block(a, b)

    def _pull_alone(self, a: Rows, b: Rows, G: Array) -> Array:
        """As `_pull` if k(a, b) is not at hand."""
        return self._pull(a, b, G, self._block(a, b))

    def _pull_and_sum(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, float]:
        """`_pull`, and sum G * K; G and K are often parts of larger matrices, which `vdot` would copy."""
        return self._pull(a, b, G, K), float(np.einsum("ij,ij->", G, K))

    def _pull_lower(
        self, a: Rows, b: Rows, tile: tuple[slice, slice], u: Array, A: Array, K: Array
    ) -> tuple[Array, float] | None:
        """As `_pull_and_sum` for the tile of G = u u' - A within the lower triangle, its diagonal halved.

        A and K are whole matrices, C-ordered. None if the kernel has no way to do it in one pass.
        """
        return None

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The kernel made definite for data with these columns: `ard` as vectors, column names as indices."""
        self._check_width(n_features)
        params = dict(self._params)
        for name in self._ard:
            value = np.full(n_features, params[name].value)
            value.setflags(write=False)
            params[name] = replace(params[name], value=value)
        parts = tuple(cast(Kernel, part).bind(n_features, feature_names) for part in self._parts)
        return self._rebuild(params, parts, _ard=())

    def _check_width(self, n_features: int) -> None:
        if self.n_dims is not None and self.n_dims != n_features:
            columns = f"{self.n_dims} input column" + ("s" if self.n_dims > 1 else "")
            raise ValueError(
                f"{type(self).__name__} is made for {columns}, but the data have {n_features}; "
                "give as many values as columns, or choose the columns with .on(...)"
            )

    def _widened(self, copies: int) -> tuple[Kernel, NDArray[np.intp]]:
        """The kernel for inputs whose every column is replaced by several, and where each of its values
        comes from.

        The second result lists, for each entry of the new kernel's `flat`, the index into this kernel's
        `flat`.
        """
        if not self._widenable:
            raise ValueError(
                f"Periodic cannot wrap {type(self).__name__}, whose meaning depends on the columns"
            )
        params, index, start = {}, [], 0
        for name, param in self._params.items():
            where = np.arange(start, start + param.array.size)
            start = where.size + start
            if name in self._columnwise and np.ndim(param.value):
                where = np.repeat(where, copies)
                param = replace(param, value=np.repeat(param.value, copies))
            params[name] = param
            index.append(where)
        parts = []
        for part in self._parts:
            wide, where = cast(Kernel, part)._widened(copies)
            parts.append(wide)
            index.append(where + start)
            start += part.flat.size
        return self._rebuild(params, tuple(parts)), np.concatenate([*index, np.zeros(0)]).astype(np.intp)

    # --- public evaluation ----------------------------------------------------------------------------------

    def prepare(self, X: ArrayLike) -> Rows:
        """Rows of training inputs, for tile-wise work."""
        X = self._checked(X)
        return self._prepare(X, np.arange(len(X)))

    def _checked(self, X: ArrayLike, name: str = "X") -> Array:
        X = as_inputs(X, name)
        self._check_width(X.shape[1])
        return X

    def _prepare_pair(self, X: ArrayLike, Z: ArrayLike | None) -> tuple[Rows, Rows, tuple[int, int], int]:
        X = self._checked(X)
        a = self._prepare(X, np.arange(len(X)))
        if Z is None:
            return a, a, (len(X), len(X)), X.shape[1]
        Z = self._checked(Z, "Z")
        if Z.shape[1] != X.shape[1]:
            raise ValueError(f"Z must have as many columns as X ({X.shape[1]}), got {Z.shape[1]}")
        return a, self._prepare(Z, np.full(len(Z), -1)), (len(X), len(Z)), X.shape[1]

    def _matrix(self, a: Rows, b: Rows, shape: tuple[int, int]) -> Array:
        """k(a, b) tile by tile; exactly symmetric if `a is b`."""
        K = np.empty(shape)
        for rows, columns, ta, tb in _tiles(a, b, *shape):
            tile = self._block(ta, tb)
            if a is b and rows == columns:
                lower = np.tril_indices(len(tile), -1)
                tile.T[lower] = tile[lower]
            K[rows, columns] = tile
            if a is b and rows != columns:
                K[columns, rows] = tile.T
        return K

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """Covariance matrix k(X, Z), shape (n, m); `Z=None` means k(X, X), with white noise."""
        a, b, shape, _ = self._prepare_pair(X, Z)
        return self._matrix(a, b, shape)

    def diag(self, X: ArrayLike) -> Array:
        """The diagonal of k(X, X), shape (n,)."""
        return self._diag(self.prepare(X))

    def forward(self, X: ArrayLike, Z: ArrayLike | None = None) -> tuple[Array, Callable[..., Any]]:
        """K and its pullback.

        Returns
        -------
        K : array (n, m)
        pullback : callable
            `pullback(G)` is the gradient of `sum(G * K)` with respect to `theta`. `pullback(G, inputs=True)`
            returns `(d_theta, d_X, d_Z)`; with `Z=None` the last is None and d_X counts both arguments.
        """
        a, b, shape, D = self._prepare_pair(X, Z)
        K = self._matrix(a, b, shape)

        def pullback(G: ArrayLike, inputs: bool = False) -> Any:
            G = np.asarray(G, dtype=float)
            if G.shape != shape:
                raise ValueError(f"the cotangent must have the shape of K, {shape}, got {G.shape}")
            flat, dA, dB = np.zeros(self.flat.size), np.zeros((shape[0], D)), np.zeros((shape[1], D))
            for rows, columns, ta, tb in _tiles(a, b, *shape):
                tile, g = K[rows, columns], G[rows, columns]
                if a is b and rows != columns:
                    g = g + G[columns, rows].T  # the tile above the diagonal holds the same values
                flat += self._pull(ta, tb, g, tile)
                if inputs:
                    d_rows, d_columns = self._pull_inputs(ta, tb, g, tile)
                    dA[rows] += d_rows
                    dB[columns] += d_columns
            d_theta = self.to_theta(flat)
            if not inputs:
                return d_theta
            return (d_theta, dA + dB, None) if Z is None else (d_theta, dA, dB)

        return K, pullback

    # --- algebra --------------------------------------------------------------------------------------------

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

    # --- text -----------------------------------------------------------------------------------------------

    def _param_text(self, name: str) -> str:
        """A parameter as the constructor takes it."""
        text = self._params[name].text(name in self._fixed_by_default)
        if name not in self._ard:
            return text
        return "ard" if text == "1.0" else f"ard({text})"

    def state_space(self, states: int | None = None) -> StateSpace:
        """The kernel as a Gaussian Markov process of one input.

        Parameters
        ----------
        states : int, optional
            So many states stand for a squared exponential, and what is made of it (`RationalQuadratic`, `Periodic`)
            is approximated too. None: exact forms only.

        Raises
        ------
        NoStateSpaceError
            If the kernel or a term of it has no such form.
        """
        return StateSpace(self._state_space(states))

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        raise NoStateSpaceError(self)

    def _quantity(self, name: str, column: int = 0) -> Quantity:
        """One of its own parameters."""
        index = column
        for other, param in self._params.items():
            if other == name:
                value = float(param.array[column])
                return Quantity.parameter(value, index, self.flat.size)
            index += param.array.size
        raise KeyError(name)

    def _arguments(self) -> list[str]:
        """Text of the constructor's arguments."""
        return [f"{name}={self._param_text(name)}" for name in self._params]


class Given(Kernel):
    """A kernel without parameters."""

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.zeros(0)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(0)


class Correlation(Kernel):
    """A kernel of variance one everywhere; the first of its prepared arrays has a column for each input column."""

    def _dims(self, a: Rows) -> int:
        """Number of input columns behind prepared rows."""
        return cast(int, a[0].shape[1])

    def _diag(self, a: Rows) -> Array:
        return np.ones(len(a[0]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(self.flat.size)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros((len(a[0]), self._dims(a)))
