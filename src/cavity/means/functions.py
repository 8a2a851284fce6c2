"""Mean functions m(x) of a Gaussian process (Rasmussen and Williams, 2006, section 2.7).

A mean has parameters like a kernel: `mean(X)` gives values (n,), `pull(X, g)` the derivative of sum_i g_i m(x_i) in
its natural values (`flat`), `pull_inputs(X, g)` that in the inputs. Means add up with `+`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import as_inputs
from cavity.means.basis_features import Powers, UserFunction
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, Param, Parametrized, Transform
from cavity.parameters.units import Unit
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError


class Mean(Parametrized):
    """A mean function m(x); add them with `+`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import Constant, Linear
    >>> mean = Constant(1.0) + Linear(0.0, 2.0)
    >>> mean.bind(1)(np.array([[0.0], [3.0]]))
    array([1., 7.])
    """

    n_dims: int | None = None
    """Number of input columns it is made for; None if any number will do."""

    # --- what a mean must provide, for checked inputs -------------------------------------------------------

    @abstractmethod
    def _values(self, X: Array) -> Array:
        """m(x) for each row, shape (n,)."""

    @abstractmethod
    def _pull(self, X: Array, g: Array) -> Array:
        """d/d flat of sum g m(x), shape (P,)."""

    @abstractmethod
    def _pull_inputs(self, X: Array, g: Array) -> Array:
        """d/dx of sum g m(x), shape (n, D)."""

    # --- public ---------------------------------------------------------------------------------------------

    def __call__(self, X: ArrayLike) -> Array:
        """m(x) for each row of X, shape (n,)."""
        return self._values(self._checked(X))

    def pull(self, X: ArrayLike, g: ArrayLike) -> Array:
        """Gradient of sum_i g_i m(x_i) in the natural values, shape (P,)."""
        X = self._checked(X)
        return self._pull(X, cotangent(g, (len(X),)))

    def pull_inputs(self, X: ArrayLike, g: ArrayLike) -> Array:
        """Gradient of sum_i g_i m(x_i) in the inputs, shape (n, D)."""
        X = self._checked(X)
        return self._pull_inputs(X, cotangent(g, (len(X),)))

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """The mean made definite for data with these columns, for instance with one slope per column."""
        self._check_width(n_features)
        return self

    @property
    def label(self) -> str:
        """All means go by `mean`, so that parameters are called `mean.value`, `mean.slopes[0]`, ..."""
        return "mean"

    def _checked(self, X: ArrayLike) -> Array:
        X = as_inputs(X)
        self._check_width(X.shape[1])
        return X

    def _check_width(self, n_features: int) -> None:
        if self.n_dims is not None and self.n_dims != n_features:
            raise ValueError(
                f"{type(self).__name__} is for {self.n_dims} input columns, but the data have {n_features}"
            )

    def __add__(self, other: Any) -> Mean:
        return add(self, other)

    def __radd__(self, other: Any) -> Mean:
        return self if isinstance(other, int) and other == 0 else add(other, self)


def cotangent(g: ArrayLike, shape: tuple[int, ...]) -> Array:
    """A derivative in values, checked."""
    g = np.asarray(g, dtype=float)
    if g.shape != shape:
        raise ValueError(f"the cotangent must have shape {shape}, got {g.shape}")
    return g


def add(left: Any, right: Any) -> Mean:
    """left + right; a number is a constant, basis functions are gathered in one `Basis`."""
    from cavity.means.basis import Basis

    bases: list[Basis] = []
    terms: list[Mean] = []
    for given in (left, right):
        mean = Constant(given) if isinstance(given, Param) or is_number(given) else given
        if not isinstance(mean, Mean):
            return cast(Mean, NotImplemented)
        if isinstance(mean, Basis):
            bases.append(mean)
            mean = mean.offset
        terms.extend(mean.terms if isinstance(mean, Sum) else [] if mean is None else [mean])
    rest = None if not terms else terms[0] if len(terms) == 1 else Sum(*terms)
    if not bases:
        return cast(Mean, rest)
    basis = bases[0] if len(bases) == 1 else bases[0]._joined(bases[1])
    return basis._with_offset(rest)


class Zero(Mean):
    """m(x) = 0.

    Examples
    --------
    >>> from cavity.means import Zero
    >>> Zero()([[1.0], [2.0]])
    array([0., 0.])
    """

    def _values(self, X: Array) -> Array:
        return np.zeros(len(X))

    def _pull(self, X: Array, g: Array) -> Array:
        return np.zeros(0)

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return np.zeros_like(X)


class Constant(Mean):
    """m(x) = value.

    Examples
    --------
    >>> from cavity.means import Constant
    >>> Constant(3.0)([[1.0], [2.0]])
    array([3., 3.])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"value": IDENTITY}
    _units: ClassVar = {"value": Unit.LEVEL}

    def __init__(self, value: Any = 0.0) -> None:
        self._set_up({"value": value})
        if np.ndim(self.value):
            raise ValueError(f"Constant: value must be a number, got {value!r}")

    def _values(self, X: Array) -> Array:
        return np.full(len(X), self.value)

    def _pull(self, X: Array, g: Array) -> Array:
        return np.array([g.sum()])

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return np.zeros_like(X)


class Linear(Mean):
    """m(x) = intercept + slopes' x.

    Parameters
    ----------
    intercept : float or Param
    slopes : float, array (D,) or Param
        One slope per input column. A number is the same start for all, made a vector when the mean meets
        data.

    Examples
    --------
    >>> from cavity.means import Linear
    >>> Linear(1.0, [2.0])([[1.0], [2.0]])
    array([3., 5.])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"intercept": IDENTITY, "slopes": IDENTITY}
    _units: ClassVar = {"intercept": Unit.LEVEL, "slopes": Unit.SLOPE}
    _columnwise = ("slopes",)

    def __init__(self, intercept: Any = 0.0, slopes: Any = 0.0) -> None:
        self._set_up({"intercept": intercept, "slopes": slopes})
        if np.ndim(self.intercept) or np.ndim(self.slopes) > 1:
            raise ValueError(
                "Linear takes a number as intercept and a number or vector as slopes, got shapes "
                f"{np.shape(self.intercept)} and {np.shape(self.slopes)}"
            )

    @property
    def n_dims(self) -> int | None:  # type: ignore[override]
        """Number of slopes; None while there is one for all columns."""
        return len(self.slopes) if np.ndim(self.slopes) else None

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """One slope per column."""
        self._check_width(n_features)
        return self._rebuild({**self._params, "slopes": _spread(self._params["slopes"], (n_features,))}, ())

    def _values(self, X: Array) -> Array:
        return cast(Array, self.intercept + X @ np.broadcast_to(self.slopes, X.shape[1]))

    def _pull(self, X: Array, g: Array) -> Array:
        return np.append(g.sum(), _like(g @ X, self.slopes))

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return cast(Array, np.multiply.outer(g, np.broadcast_to(self.slopes, X.shape[1])))


class Polynomial(Mean):
    """m(x) = intercept + sum_d sum_c coefficients[d - 1, c] x_c^d, powers of each column up to `degree`.

    Parameters
    ----------
    degree : int
    intercept : float or Param
    coefficients : float, array (degree, D) or Param
        A number is the same start for all, made a matrix when the mean meets data.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import Polynomial
    >>> mean = Polynomial(2, intercept=1.0, coefficients=[[0.0], [0.5]])  # 1 + x^2 / 2
    >>> mean.bind(1)(np.array([[0.0], [2.0]]))
    array([1., 3.])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"intercept": IDENTITY, "coefficients": IDENTITY}
    _units: ClassVar = {"intercept": Unit.LEVEL, "coefficients": Unit.COEFFICIENT}

    def __init__(self, degree: int = 2, intercept: Any = 0.0, coefficients: Any = 0.0) -> None:
        self.powers = Powers(degree)
        self._set_up({"intercept": intercept, "coefficients": coefficients})
        shape = np.shape(self.coefficients)
        if degree < 1 or np.ndim(self.intercept) or (shape and (len(shape) != 2 or shape[0] != degree)):
            raise ValueError(
                "Polynomial takes a degree >= 1, a number as intercept and a number or a matrix (degree, "
                f"columns) as coefficients, got {degree}, shapes {np.shape(self.intercept)} and {shape}"
            )

    @property
    def n_dims(self) -> int | None:  # type: ignore[override]
        """Number of columns of the coefficients; None while there is one for all."""
        return self.coefficients.shape[1] if np.ndim(self.coefficients) else None

    @property
    def degree(self) -> int:
        """The highest power."""
        return self.powers.degree

    def _arguments(self) -> list[str]:
        return [f"degree={self.degree}", *super()._arguments()]

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """One coefficient per power and column."""
        self._check_width(n_features)
        coefficients = _spread(self._params["coefficients"], (self.degree, n_features))
        return self._rebuild({**self._params, "coefficients": coefficients}, ())

    def _weights(self, n_features: int) -> Array:
        """Weights of the features 1, x, x^2, ... in order."""
        table = np.broadcast_to(self.coefficients, (self.degree, n_features))
        return np.append(self.intercept, table.ravel())

    def _values(self, X: Array) -> Array:
        return self.powers(X) @ self._weights(X.shape[1])

    def _pull(self, X: Array, g: Array) -> Array:
        pulled = g @ self.powers(X)
        return np.append(pulled[0], _like(pulled[1:], self.coefficients))

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return cast(
            Array, g[:, None] * np.einsum("npd,p->nd", self.powers.jacobian(X), self._weights(X.shape[1]))
        )


def _spread(param: Param, shape: tuple[int, ...]) -> Param:
    """A number made an array of equal numbers; an array is left alone."""
    if np.ndim(param.value):
        return param
    value = np.full(shape, param.value)
    value.setflags(write=False)
    return replace(param, value=value)


def _like(gradient: Array, value: Any) -> Array:
    """The gradient of an array, or its sum if one number stands for the whole array."""
    return gradient if np.ndim(value) else np.array([gradient.sum()])


class FunctionMean(Mean):
    """Any fixed function as a mean.

    Parameters
    ----------
    function : callable
        Maps inputs (n, D) to values (n,).
    jacobian : callable, optional
        Maps inputs (n, D) to derivatives (n, D). Without it, derivatives in the inputs are central
        differences.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.means import FunctionMean
    >>> FunctionMean(lambda X: np.sin(X[:, 0]))([[0.0], [1.0]]).round(3)
    array([0.   , 0.841])
    """

    def __init__(
        self, function: Callable[[Array], Any], jacobian: Callable[[Array], Any] | None = None
    ) -> None:
        for name, given in (("function", function), ("jacobian", jacobian)):
            if not callable(given) and not (name == "jacobian" and given is None):
                raise ValueError(f"FunctionMean: {name} must be callable, got {given!r}")
        self._function = UserFunction(function, jacobian)
        self._set_up({})

    def _arguments(self) -> list[str]:
        return [repr(self._function)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionMean) and self._function == other._function

    def __hash__(self) -> int:
        return hash(self._function)

    def _values(self, X: Array) -> Array:
        values = self._function(X)
        if values.shape[1] != 1:
            raise ValueError(
                f"the mean function {self._function!r} must give one value per row, got shape {values.shape}"
            )
        return values[:, 0]

    def _pull(self, X: Array, g: Array) -> Array:
        return np.zeros(0)

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return g[:, None] * self._function.jacobian(X)[:, 0]


class Sum(Mean):
    """m(x) = m_1(x) + m_2(x) + ...; written with `+`.

    Examples
    --------
    >>> from cavity.means import Constant, Linear, Sum
    >>> Sum(Constant(1.0), Linear(0.0, 2.0)) == Constant(1.0) + Linear(0.0, 2.0)
    True
    """

    def __init__(self, *terms: Mean) -> None:
        from cavity.means.basis import Basis

        if not terms or not all(isinstance(t, Mean) and not isinstance(t, Basis) for t in terms):
            raise ValueError(f"Sum takes one or more means (join basis functions with `+`), got {terms!r}")
        self._set_up({}, terms)

    @property
    def terms(self) -> tuple[Mean, ...]:
        """The means that are added."""
        return cast("tuple[Mean, ...]", self._parts)

    def __repr__(self) -> str:
        return " + ".join(repr(t) for t in self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Every term bound to the same columns."""
        return self._rebuild({}, tuple(t.bind(n_features, feature_names) for t in self.terms))

    def _checked(self, X: ArrayLike) -> Array:
        X = as_inputs(X)
        for term in self.terms:
            term._check_width(X.shape[1])
        return X

    def _values(self, X: Array) -> Array:
        return cast(Array, sum(t._values(X) for t in self.terms))

    def _pull(self, X: Array, g: Array) -> Array:
        return np.concatenate([t._pull(X, g) for t in self.terms])

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        return cast(Array, sum(t._pull_inputs(X, g) for t in self.terms))


def as_mean(spec: Any) -> Mean:
    """A mean function from what a user gave.

    Parameters
    ----------
    spec : Mean, str, number, Param, callable or None
        "zero" (or None), "constant", "linear" with parameters that are learned; a number or `Param` is a
        constant that starts there; a callable from inputs (n, D) to values (n,) is taken as it is.

    Examples
    --------
    >>> from cavity.means import as_mean
    >>> as_mean("constant")
    Constant(value=0.0)
    """
    if isinstance(spec, Mean):
        return spec
    if spec is None:
        return Zero()
    if isinstance(spec, str):
        named: dict[str, type[Mean]] = {"zero": Zero, "constant": Constant, "linear": Linear}
        if spec not in named:
            known = ", ".join(map(repr, named))
            raise InputError(
                f"must be {known} or a mean function, got {spec!r}", parameter="mean", value=spec
            )
        return named[spec]()
    if isinstance(spec, Param) or is_number(spec):
        return Constant(spec)
    if callable(spec) and not isinstance(spec, type):
        return FunctionMean(spec)
    raise InputError(
        f"must be a mean function, a name, a number or a callable, got {spec!r}", parameter="mean", value=spec
    )
