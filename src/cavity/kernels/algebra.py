"""Kernels made of kernels: sums, products, scalar multiples, powers, and kernels on some columns.

All are closed under positive semi-definiteness (Rasmussen and Williams, 2006, section 4.2.4). Pullbacks follow
the product and chain rules on tiles. A pull evaluates the children's blocks again rather than keep all n x n
entries of each.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, Rows
from cavity.kernels.distances import integer_power
from cavity.kernels.state_space import Block, NoStateSpaceError, joined, refuse_in_products
from cavity.kernels.wrapper import OfInputs, Wrapper
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Param, Transform
from cavity.runtime.checks import require_integer


def _is_scale(value: Any) -> bool:
    return isinstance(value, Param) or (isinstance(value, Real) and not isinstance(value, bool))


def add(left: Any, right: Any) -> Kernel:
    """left + right; a number means a constant kernel."""
    from cavity.kernels.constant import Constant

    terms = [Constant(term) if _is_scale(term) else term for term in (left, right)]
    return Sum(*terms) if all(isinstance(term, Kernel) for term in terms) else NotImplemented


def multiply(left: Any, right: Any) -> Kernel:
    """left * right; a number scales the variance."""
    if _is_scale(left) and isinstance(right, Kernel):
        return Scaled(left, right)
    if _is_scale(right) and isinstance(left, Kernel):
        return Scaled(right, left)
    if not (isinstance(left, Kernel) and isinstance(right, Kernel)):
        return NotImplemented  # type: ignore[no-any-return]
    return Product(left, right)


def _enclosed(kernel: Kernel, *kinds: type[Kernel]) -> str:
    """Text of a kernel, in parentheses if it is one of these kinds (and not written as a call)."""
    text = repr(kernel)
    bare = isinstance(kernel, kinds) and not text.startswith(("Sum(", "Product("))
    return f"({text})" if bare else text


class _Composite(Kernel):
    """A kernel made of several kernels on the same inputs."""

    def __init__(self, *terms: Kernel) -> None:
        if not terms or not all(isinstance(t, Kernel) for t in terms):
            raise ValueError(f"{type(self).__name__} takes one or more kernels, got {terms!r}")
        flattened: list[Kernel] = []
        for term in terms:
            flattened.extend(term.terms if type(term) is type(self) else [term])
        self._set_up({}, flattened)

    @property
    def terms(self) -> tuple[Kernel, ...]:
        """The kernels that are combined."""
        return cast("tuple[Kernel, ...]", self._parts)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return tuple(t._prepare(X, ids) for t in self.terms)


class Sum(_Composite):
    """k = k_1 + k_2 + ...: the covariance of a sum of independent functions.

    Examples
    --------
    >>> from cavity.kernels import SE, Linear
    >>> SE(1.0) + Linear(2.0)
    SE(lengthscale=1.0) + Linear(variance=2.0, bias=1.0)
    >>> (SE(1.0) + Linear(2.0)).terms
    (SE(lengthscale=1.0), Linear(variance=2.0, bias=1.0))
    """

    def __repr__(self) -> str:
        # one term alone is written out, so that the text gives a sum again
        return " + ".join(repr(t) for t in self.terms) if len(self.terms) > 1 else f"Sum({self.terms[0]!r})"

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        return tuple(block for part in joined(self.terms, 0, self.flat.size, states) for block in part)

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.terms[0]._block(a[0], b[0])
        for t, ta, tb in zip(self.terms[1:], a[1:], b[1:]):
            t._add_block(ta, tb, K)
        return K

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return np.concatenate([t._pull_alone(ta, tb, G) for t, ta, tb in zip(self.terms, a, b)])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        pulls = [t._pull_inputs(ta, tb, G, t._block(ta, tb)) for t, ta, tb in zip(self.terms, a, b)]
        return sum(p[0] for p in pulls), sum(p[1] for p in pulls)  # type: ignore[return-value]

    def _diag(self, a: Rows) -> Array:
        return cast(Array, sum(t._diag(ta) for t, ta in zip(self.terms, a)))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.concatenate([t._pull_diag(ta, g) for t, ta in zip(self.terms, a)])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return cast(Array, sum(t._pull_diag_inputs(ta, g) for t, ta in zip(self.terms, a)))


def _others(values: Sequence[Array], skip: int) -> Array | float:
    """Product of all arrays but one (no division, so zeros are safe)."""
    rest = [v for i, v in enumerate(values) if i != skip]
    return reduce(operator.mul, rest) if rest else 1.0


class Product(_Composite):
    """k = k_1 * k_2 * ...: for instance an interaction of kernels on different columns.

    Examples
    --------
    >>> from cavity.kernels import SE, Linear
    >>> SE(1.0).on([0]) * Linear(2.0).on([1])
    SE(lengthscale=1.0).on([0]) * Linear(variance=2.0, bias=1.0).on([1])
    """

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"Product({self.terms[0]!r})"
        return " * ".join(_enclosed(t, Sum, Scaled) for t in self.terms)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        found, *others = parts = joined(self.terms, 0, self.flat.size, states)
        refuse_in_products(self, parts)
        for part in others:
            found = tuple(one.times(other) for one in found for other in part)
        return found

    def _blocks(self, a: Rows, b: Rows) -> list[Array]:
        return [t._block(ta, tb) for t, ta, tb in zip(self.terms, a, b)]

    def _block(self, a: Rows, b: Rows) -> Array:
        blocks = self._blocks(a, b)
        K = blocks[0]
        for B in blocks[1:]:
            K *= B
        return K

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        blocks = self._blocks(a, b)
        rows = enumerate(zip(self.terms, a, b))
        pulls = [t._pull(ta, tb, G * _others(blocks, i), blocks[i]) for i, (t, ta, tb) in rows]
        return np.concatenate(pulls)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        blocks = self._blocks(a, b)
        rows = enumerate(zip(self.terms, a, b))
        pulls = [t._pull_inputs(ta, tb, G * _others(blocks, i), blocks[i]) for i, (t, ta, tb) in rows]
        return sum(p[0] for p in pulls), sum(p[1] for p in pulls)  # type: ignore[return-value]

    def _diag(self, a: Rows) -> Array:
        return cast(Array, np.prod([t._diag(ta) for t, ta in zip(self.terms, a)], axis=0))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        diags = [t._diag(ta) for t, ta in zip(self.terms, a)]
        pairs = enumerate(zip(self.terms, a))
        return np.concatenate([t._pull_diag(ta, g * _others(diags, i)) for i, (t, ta) in pairs])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        diags = [t._diag(ta) for t, ta in zip(self.terms, a)]
        pairs = enumerate(zip(self.terms, a))
        return cast(Array, sum(t._pull_diag_inputs(ta, g * _others(diags, i)) for i, (t, ta) in pairs))


class Scaled(Wrapper):
    """k = variance * k_1; written `2.0 * k`.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> (2.0 * SE(1.0))([[0.0]])
    array([[2.]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"variance": LOG}
    _named = False

    def __init__(self, variance: Any, kernel: Kernel) -> None:
        self._set_up({"variance": variance}, (kernel,))

    def _check(self) -> None:
        if np.ndim(self.variance):
            raise ValueError(f"a kernel is scaled by a single number, got {self.variance!r}")

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.kernel._homogeneous

    def __repr__(self) -> str:
        return f"{self._param_text('variance')} * {_enclosed(self.kernel, Sum, Product, Scaled)}"

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        (found,) = joined((self.kernel,), 1, self.flat.size, states)
        variance = self._quantity("variance")
        return tuple(block.scaled(variance) for block in found)

    def _block(self, a: Rows, b: Rows) -> Array:
        return self.kernel._scaled_block(self.variance, a, b)

    def _inner(self, K: Array) -> tuple[Array, float]:
        """K of the scaled kernel, and the factor its pull must be multiplied with."""
        if self.kernel._homogeneous or self.variance == 1.0:
            return K, 1.0
        return K / self.variance, self.variance

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        inner, factor = self._inner(K)
        pulled, total = self.kernel._pull_and_sum(a, b, G, inner)
        return np.concatenate([[total * factor / self.variance], factor * pulled])

    def _pull_lower(
        self, a: Rows, b: Rows, tile: tuple[slice, slice], u: Array, A: Array, K: Array
    ) -> tuple[Array, float] | None:
        found = self.kernel._pull_lower(a, b, tile, u, A, K) if self.kernel._homogeneous else None
        if found is None:
            return None
        pulled, total = found
        return np.concatenate([[total / self.variance], pulled]), total

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner, factor = self._inner(K)
        dA, dB = self.kernel._pull_inputs(a, b, G, inner)
        return factor * dA, factor * dB

    def _diag(self, a: Rows) -> Array:
        return cast(Array, self.variance * self.kernel._diag(a))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        d_variance = float(g @ self.kernel._diag(a))
        return np.concatenate([[d_variance], self.variance * self.kernel._pull_diag(a, g)])

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return cast(Array, self.variance * self.kernel._pull_diag_inputs(a, g))


class Power(Wrapper):
    """k = k_1 ** exponent, for a positive integer exponent.

    Examples
    --------
    >>> from cavity.kernels import Linear
    >>> (Linear(1.0) ** 2)([[1.0], [2.0]])
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    def __init__(self, kernel: Kernel, exponent: int) -> None:
        super().__init__(kernel)
        self.exponent = require_integer(exponent, "the exponent of a kernel", 1)

    def __repr__(self) -> str:
        return f"{_enclosed(self.kernel, Sum, Product, Scaled, Power)} ** {self.exponent}"

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        found = own = self.kernel._state_space(states)
        refuse_in_products(self, [own])
        for _ in range(self.exponent - 1):
            found = tuple(one.times(other) for one in found for other in own)
        return found

    def _slope(self, k: Array) -> Array:
        return self.exponent * integer_power(k, self.exponent - 1)

    def _block(self, a: Rows, b: Rows) -> Array:
        return integer_power(self.kernel._block(a, b), self.exponent)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        inner = self.kernel._block(a, b)
        return self.kernel._pull(a, b, G * self._slope(inner), inner)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner = self.kernel._block(a, b)
        return self.kernel._pull_inputs(a, b, G * self._slope(inner), inner)

    def _diag(self, a: Rows) -> Array:
        return integer_power(self.kernel._diag(a), self.exponent)

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a, g * self._slope(self.kernel._diag(a)))

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag_inputs(a, g * self._slope(self.kernel._diag(a)))


class On(OfInputs):
    """A kernel on some input columns only, by index or by DataFrame column name; written `k.on(dims)`.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> SE(1.0).on([1])([[0.0, 1.0], [9.0, 1.0]])
    array([[1., 1.],
           [1., 1.]])
    """

    _named = False

    def __init__(self, kernel: Kernel, dims: int | str | Sequence[int] | Sequence[str]) -> None:
        listed: list[Any] = [dims] if isinstance(dims, int | np.integer | str) else list(dims)
        named = all(isinstance(d, str) for d in listed)
        indexed = all(isinstance(d, int | np.integer) and not isinstance(d, bool) and d >= 0 for d in listed)
        if not listed or not (named or indexed) or len(set(listed)) < len(listed):
            raise ValueError(f"dims must be different column indices (>= 0) or column names, got {dims!r}")
        self.dims: tuple[Any, ...] = tuple(listed if named else (int(d) for d in listed))
        self._set_up({}, (kernel,))

    def __repr__(self) -> str:
        return f"{_enclosed(self.kernel, Sum, Product, Scaled, Power)}.on({list(self.dims)!r})"

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Column names become indices; the inner kernel is bound to the chosen columns."""
        dims = self.dims
        if isinstance(dims[0], str):
            known = list(feature_names) if feature_names is not None else []
            missing = [d for d in dims if d not in known]
            if missing:
                have = f"the columns are {known}" if known else "the data have no column names; use indices"
                raise ValueError(f"unknown column {missing[0]!r} in .on({list(dims)!r}): {have}")
            dims = tuple(known.index(d) for d in dims)
        elif max(dims) >= n_features:
            raise ValueError(
                f".on({list(dims)!r}) asks for column {max(dims)} (from 0), but the data have {n_features}"
            )
        names = [feature_names[d] for d in dims] if feature_names is not None else None
        return self._rebuild({}, (self.kernel.bind(len(dims), names),), dims=dims)

    def _widened(self, copies: int) -> tuple[Kernel, NDArray[np.intp]]:
        inner, index = self.kernel._widened(copies)
        if isinstance(self.dims[0], str):
            raise ValueError(f"{self!r} names columns; bind it first: kernel.bind(n_features, feature_names)")
        dims = tuple(copies * d + i for d in self.dims for i in range(copies))
        return self._rebuild({}, (inner,), dims=dims), index

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        if isinstance(self.dims[0], str):
            raise ValueError(f"{self!r} names columns; bind it first: kernel.bind(n_features, feature_names)")
        if max(self.dims) >= X.shape[1]:
            self.bind(X.shape[1])
        width = np.empty((len(X), X.shape[1]), dtype=bool)  # carries D through slicing at no cost
        return (self.kernel._prepare(np.ascontiguousarray(X[:, self.dims]), ids), width)

    def _back(self, a: Rows, d: Array) -> Array:
        out = np.zeros(a[1].shape)
        out[:, self.dims] = d
        return out

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        if self.dims != (0,):
            raise NoStateSpaceError(self)
        return self.kernel._state_space(states)
