"""Ready-made sets of explicit basis functions h(x), and wrappers that make user functions safe to call.

A set of features maps inputs (n, D) to a matrix H (n, p) and knows its jacobian dH/dx (n, p, D). Used by
`functions` for means that are linear in their weights and `basis` for weights that are integrated out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any, cast

import numpy as np

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer, require_positive

STEP = float(np.cbrt(np.finfo(float).eps))
"""Step of central differences, relative to the size of x: balances rounding against curvature."""


class Features:
    """A set of basis functions."""

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """H, shape (n, p)."""

    @abstractmethod
    def jacobian(self, X: Array) -> Array:
        """dH/dx, shape (n, p, D)."""

    @abstractmethod
    def width(self, n_features: int) -> int:
        """Number p of functions for inputs with that many columns."""


@dataclass(frozen=True)
class Powers(Features):
    """1, x_1, ..., x_D, x_1^2, ..., x_D^2, ... up to the given degree, without products of columns.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import Basis, Powers
    >>> Basis(Powers(2)).features(np.array([[3.0, 4.0]]))
    array([[ 1.,  3.,  4.,  9., 16.]])
    """

    degree: int = 1

    def __post_init__(self) -> None:
        require_integer(self.degree, "degree", 0)

    def __call__(self, X: Array) -> Array:
        """H, shape (n, 1 + degree D)."""
        return np.hstack([np.ones((len(X), 1))] + [X**d for d in range(1, self.degree + 1)])

    def jacobian(self, X: Array) -> Array:
        """dH/dx, shape (n, 1 + degree D, D)."""
        n, D = X.shape
        J = np.zeros((n, self.width(D), D))
        columns = np.arange(D)
        for d in range(1, self.degree + 1):
            J[:, 1 + (d - 1) * D + columns, columns] = d * X ** (d - 1)
        return J

    def width(self, n_features: int) -> int:
        """1 + degree D."""
        return 1 + self.degree * n_features


@dataclass(frozen=True)
class Monomials(Features):
    """All products of columns up to the given total degree: what a thin plate of order degree + 1 leaves unpenalized.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import Basis, Monomials
    >>> Basis(Monomials(2)).features(np.array([[3.0, 4.0]]))
    array([[ 1.,  3.,  4.,  9., 12., 16.]])
    """

    degree: int = 1

    def __post_init__(self) -> None:
        require_integer(self.degree, "degree", 0)

    def _products(self, n_features: int) -> list[tuple[int, ...]]:
        """The columns that are multiplied, of each function."""
        degrees = range(self.degree + 1)
        return [p for k in degrees for p in combinations_with_replacement(range(n_features), k)]

    def __call__(self, X: Array) -> Array:
        """H, shape (n, p)."""
        return np.stack([np.prod(X[:, list(p)], axis=1) for p in self._products(X.shape[1])], axis=1)

    def jacobian(self, X: Array) -> Array:
        """dH/dx, shape (n, p, D)."""
        n, D = X.shape
        J = np.zeros((n, self.width(D), D))
        for j, p in enumerate(self._products(D)):
            for i, d in enumerate(p):
                J[:, j, d] += np.prod(X[:, [q for k, q in enumerate(p) if k != i]], axis=1)
        return J

    def width(self, n_features: int) -> int:
        """The number of ways to choose `degree` of D + 1 with repetition."""
        return comb(n_features + self.degree, self.degree)


@dataclass(frozen=True)
class Harmonics(Features):
    """cos(2 pi j x / period), sin(2 pi j x / period) for j = 1, ..., order, of one input column.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import Basis, Harmonics
    >>> Basis(Harmonics(period=4.0, order=1)).features(np.array([[0.0], [1.0]])).round(6)
    array([[1., 0.],
           [0., 1.]])
    """

    period: float = 1.0
    order: int = 1
    column: int = 0

    def __post_init__(self) -> None:
        require_positive(self.period, "period")
        require_integer(self.order, "order", 1)
        require_integer(self.column, "column", 0)

    def _angles(self, X: Array) -> tuple[Array, Array]:
        rates = np.arange(1.0, self.order + 1) * (2 * np.pi / self.period)
        return cast(Array, np.multiply.outer(X[:, self.column], rates)), rates

    def __call__(self, X: Array) -> Array:
        """H, shape (n, 2 order): all cosines, then all sines."""
        self.width(X.shape[1])
        angles, _ = self._angles(X)
        return np.hstack([np.cos(angles), np.sin(angles)])

    def jacobian(self, X: Array) -> Array:
        """dH/dx, shape (n, 2 order, D)."""
        angles, rates = self._angles(X)
        J = np.zeros((len(X), 2 * self.order, X.shape[1]))
        J[:, :, self.column] = np.hstack([-rates * np.sin(angles), rates * np.cos(angles)])
        return J

    def width(self, n_features: int) -> int:
        """2 order, for data that have the column."""
        if self.column >= n_features:
            raise ValueError(
                f"{self!r} asks for column {self.column}, but the data have {n_features} columns"
            )
        return 2 * self.order


@dataclass(frozen=True)
class OutputLevels(Features):
    """Levels of several outputs, which the first column names: one for rows of the output, else zero."""

    outputs: int = 2

    def __call__(self, X: Array) -> Array:
        """H, shape (n, outputs)."""
        return np.asarray(X[:, :1] == np.arange(self.outputs), dtype=float)

    def jacobian(self, X: Array) -> Array:
        """None of it changes with the inputs."""
        return np.zeros((len(X), self.outputs, X.shape[1]))

    def width(self, n_features: int) -> int:
        """As many as there are outputs."""
        return self.outputs


@dataclass(frozen=True)
class UserFunction(Features):
    """A function from inputs (n, D) to values (n,) or (n, k), and its jacobian if that is known."""

    function: Callable[[Array], Any]
    jacobian_function: Callable[[Array], Any] | None = None

    def __repr__(self) -> str:
        return getattr(self.function, "__name__", None) or repr(self.function)

    def __call__(self, X: Array) -> Array:
        """Values, shape (n, k), checked."""
        values = self._values(X)
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            raise ValueError(f"function {self!r} is not finite at row {row}, x = {X[row].tolist()}")
        return values

    def _values(self, X: Array) -> Array:
        with np.errstate(all="ignore"):
            values = np.asarray(self.function(X), dtype=float)
        if values.shape == (len(X),):
            values = values[:, None]
        if values.ndim != 2 or len(values) != len(X):
            raise ValueError(
                f"function {self!r} must map inputs of shape {X.shape} to one value or one row each, "
                f"got shape {values.shape}"
            )
        return cast(Array, values)

    def jacobian(self, X: Array) -> Array:
        """Derivatives, shape (n, k, D): the user's, or central differences (2 D calls, error near 1e-9)."""
        if self.jacobian_function is not None:
            return self._checked_jacobian(np.asarray(self.jacobian_function(X), dtype=float), X)
        columns = []
        for d in range(X.shape[1]):
            step = STEP * np.maximum(np.abs(X[:, d]), 1.0)
            right, left = X.copy(), X.copy()
            right[:, d] += step
            left[:, d] -= step
            columns.append((self(right) - self(left)) / (right[:, d] - left[:, d])[:, None])
        return np.stack(columns, axis=2)

    def _checked_jacobian(self, J: Array, X: Array) -> Array:
        n, D = X.shape
        if J.shape == (n, D):
            J = J[:, None, :]
        if J.ndim != 3 or J.shape[0] != n or J.shape[2] != D:
            raise ValueError(
                f"the jacobian of {self!r} must have shape {(n, D)}, or ({n}, functions, {D}) for several, "
                f"got {J.shape}"
            )
        return J

    def width(self, n_features: int) -> int:
        """Number of values per row, found by calling the function at rows of ones."""
        try:
            return int(self._values(np.ones((2, n_features))).shape[1])
        except Exception as error:
            raise ValueError(
                f"function {self!r} failed at a row of {n_features} ones, used to count its values: {error}"
            ) from error


def as_features(given: Any) -> Features:
    """A set of features from what a user gave: one of the sets here, a name, or a function."""
    names = {"constant": Powers(0), "linear": Powers(1), "quadratic": Powers(2), "cubic": Powers(3)}
    if isinstance(given, Features):
        return given
    if isinstance(given, str) and given in names:
        return names[given]
    if callable(given):
        return UserFunction(given)
    raise ValueError(
        f"a basis function must be callable, a set such as Powers(2), or one of "
        f"{', '.join(map(repr, names))}, got {given!r}"
    )
