"""Mean functions m(x) of a Gaussian process, and explicit basis functions (book section 2.7).

A mean has parameters like a kernel: `mean(X)` gives values (n,), `pull(X, g)` the derivative of sum_i g_i
m(x_i) in its natural values (`flat`), `pull_inputs(X, g)` that in the inputs. Means add up with `+`.

`Basis` stands for h(x)' beta with weights beta ~ N(b, B), which exact inference integrates out, also in the
vague limit B^-1 -> 0 (eq. 2.37 to 2.45). As a mean function it is h(x)' b; `features`, `prior_mean` (b) and
`prior_root` (of B^-1) are what inference needs.

Notation: D input columns, p basis functions, H the matrix of features with rows h(x_i)'.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular

from cavity.kernels.base import as_inputs
from cavity.means.features import Features, Harmonics, Powers, UserFunction, as_features
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, Param, Parametrized, Transform, format_value
from cavity.parameters.units import Unit
from cavity.runtime.checks import is_number

__all__ = [
    "Basis",
    "Constant",
    "FunctionMean",
    "Harmonics",
    "Linear",
    "Mean",
    "Polynomial",
    "Powers",
    "Sum",
    "Zero",
    "as_mean",
]


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
    """Number of input columns it is made for; None where any number will do."""

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
        return self._pull(X, _cotangent(g, (len(X),)))

    def pull_inputs(self, X: ArrayLike, g: ArrayLike) -> Array:
        """Gradient of sum_i g_i m(x_i) in the inputs, shape (n, D)."""
        X = self._checked(X)
        return self._pull_inputs(X, _cotangent(g, (len(X),)))

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
        return _add(self, other)

    def __radd__(self, other: Any) -> Mean:
        return self if isinstance(other, int) and other == 0 else _add(other, self)


def _cotangent(g: ArrayLike, shape: tuple[int, ...]) -> Array:
    g = np.asarray(g, dtype=float)
    if g.shape != shape:
        raise ValueError(f"the cotangent must have shape {shape}, got {g.shape}")
    return g


def _add(left: Any, right: Any) -> Mean:
    """left + right; a number is a constant, basis functions are gathered in one `Basis`."""
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


# --- plain means --------------------------------------------------------------------------------------------


class Zero(Mean):
    """m(x) = 0.

    Examples
    --------
    >>> from cavity.means import Zero
    >>> Zero()([[1.0], [2.0]])
    array([0., 0.])
    """

    def __init__(self) -> None:
        self._set_up({})

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
    """The gradient of an array, or its sum where one number stands for the whole array."""
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


# --- explicit basis functions -------------------------------------------------------------------------------


class Basis(Mean):
    """Explicit basis functions h(x) whose weights are integrated out: h(x)' beta, beta ~ N(b, B).

    Parameters
    ----------
    functions : str, callable, set of features, or a list of these
        "constant", "linear" (constant and columns), "quadratic", "cubic"; `Powers(degree)`,
        `Harmonics(period, order)`; functions from inputs (n, D) to (n,) or (n, k).
    prior_mean : float or array (p,), optional
        b; zero unless given.
    prior_covariance : float, array (p,) or array (p, p), optional
        B: one variance for all weights, one for each, or a full matrix.
    vague : bool, optional
        The limit B^-1 -> 0, in which the data alone decide; this is so if no covariance is given. Only exact
        inference can take this limit.

    Examples
    --------
    >>> import numpy as np
    >>> trend = Basis("linear").bind(2)
    >>> trend.features(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[1., 1., 2.],
           [1., 3., 4.]])
    """

    def __init__(
        self,
        functions: Any = "linear",
        prior_mean: ArrayLike | None = None,
        prior_covariance: ArrayLike | None = None,
        *,
        vague: bool | None = None,
    ) -> None:
        given = list(functions) if isinstance(functions, list | tuple) else [functions]
        if not given:
            raise ValueError("Basis needs at least one function")
        self.functions: tuple[Features, ...] = tuple(as_features(f) for f in given)
        self.vague = prior_covariance is None if vague is None else bool(vague)
        if self.vague and (prior_covariance is not None or prior_mean is not None):
            raise ValueError(
                "vague weights have no prior mean or covariance; leave both out or set vague=False"
            )
        if not self.vague and prior_covariance is None:
            raise ValueError("vague=False needs a prior_covariance for the weights")
        self._mean = _checked_mean(0.0 if prior_mean is None else prior_mean)
        self._covariance = None if prior_covariance is None else _checked_covariance(prior_covariance)
        self.n_weights: int | None = None
        self._set_up({})

    @property
    def offset(self) -> Mean | None:
        """A mean function that is added to the basis functions, if any."""
        return cast(Mean, self._parts[0]) if self._parts else None

    def _with_offset(self, offset: Mean | None) -> Basis:
        return self._rebuild({}, () if offset is None else (offset,))

    def with_prior(self, prior_covariance: ArrayLike, prior_mean: ArrayLike = 0.0) -> Basis:
        """The same functions with a finite prior on their weights, for inference rules that need one."""
        new = Basis(list(self.functions), prior_mean, prior_covariance)._with_offset(self.offset)
        return new if self.n_dims is None else new.bind(self.n_dims)

    def _joined(self, other: Basis) -> Basis:
        """Both sets of functions, a priori independent."""
        if self.vague != other.vague:
            raise ValueError("basis functions with vague weights cannot be added to ones with a finite prior")
        functions = [*self.functions, *other.functions]
        if self.vague:
            return Basis(functions)
        for basis in (self, other):
            if basis._known_size() is None:
                raise ValueError("the number of weights must be known to add priors: bind both to data first")
        means = [np.broadcast_to(b._mean, cast(int, b._known_size())) for b in (self, other)]
        blocks = [_full(cast(Array, b._covariance), cast(int, b._known_size())) for b in (self, other)]
        return Basis(functions, np.concatenate(means), block_diag(*blocks))

    def _known_size(self) -> int | None:
        """Number of weights, where it is known."""
        given = [np.shape(v)[0] for v in (self._mean, self._covariance) if v is not None and np.ndim(v)]
        return given[0] if given else self.n_weights

    # --- text -----------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        functions = repr(self.functions[0]) if len(self.functions) == 1 else repr(list(self.functions))
        if self.vague:
            return [functions]
        mean, covariance = format_value(self._mean), format_value(self._covariance)
        return [functions, f"prior_mean={mean}", f"prior_covariance={covariance}"]

    def __repr__(self) -> str:
        text = super().__repr__()
        return text if self.offset is None else f"{text} + {self.offset!r}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Basis)
            and self.functions == other.functions
            and self._arguments() == other._arguments()
            and self.offset == other.offset
        )

    def __hash__(self) -> int:
        return hash((self.functions, self.offset))

    # --- weights --------------------------------------------------------------------------------------------

    def bind(self, n_features: int, feature_names: Sequence[str] | None = None) -> Self:
        """Count the basis functions for data with these columns and check the prior of the weights."""
        self._check_width(n_features)
        count = sum(f.width(n_features) for f in self.functions)
        for name, value in (("prior_mean", self._mean), ("prior_covariance", self._covariance)):
            if value is not None and np.ndim(value) and np.shape(value)[0] != count:
                raise ValueError(
                    f"Basis: {name} is for {np.shape(value)[0]} weights, but there are {count} functions of "
                    f"{n_features} input columns"
                )
        new = self._with_offset(None if self.offset is None else self.offset.bind(n_features, feature_names))
        new.n_dims, new.n_weights = n_features, count
        return cast(Self, new)

    def _count(self) -> int:
        size = self._known_size()
        if size is None:
            raise ValueError(
                "the number of weights is not known yet: bind the basis to data, bind(n_features)"
            )
        return size

    @property
    def prior_mean(self) -> Array:
        """b, shape (p,)."""
        return np.array(np.broadcast_to(self._mean, self._count()))

    @property
    def prior_covariance(self) -> Array:
        """B, shape (p, p); there is none for vague weights."""
        if self._covariance is None:
            raise ValueError("vague weights have no prior covariance; their prior_precision is zero")
        return _full(self._covariance, self._count())

    @property
    def prior_precision(self) -> Array:
        """B^-1, shape (p, p); zero for vague weights."""
        count = self._count()
        if self._covariance is None:
            return np.zeros((count, count))
        if np.ndim(self._covariance) < 2:
            return np.diag(1.0 / np.broadcast_to(self._covariance, count))
        precision = cho_solve(cho_factor(self._covariance, lower=True), np.eye(count))
        return 0.5 * (precision + precision.T)

    @property
    def prior_root(self) -> Array:
        """P, lower triangular with P' P = B^-1, shape (p, p); no rows, (0, p), for vague weights."""
        count = self._count()
        if self._covariance is None:
            return np.zeros((0, count))
        if np.ndim(self._covariance) < 2:
            return np.diag(1.0 / np.sqrt(np.broadcast_to(self._covariance, count)))
        return solve_triangular(np.linalg.cholesky(self._covariance), np.eye(count), lower=True)

    # --- features -------------------------------------------------------------------------------------------

    def features(self, X: ArrayLike) -> Array:
        """H, one row h(x)' per case, shape (n, p)."""
        return self._features(self._checked(X))

    def _features(self, X: Array) -> Array:
        return np.hstack([f(X) for f in self.functions])

    def pull_features_inputs(self, X: ArrayLike, G: ArrayLike) -> Array:
        """Gradient of sum_ij G_ij h_j(x_i) in the inputs, shape (n, D), for G of shape (n, p)."""
        X = self._checked(X)
        jacobian = np.concatenate([f.jacobian(X) for f in self.functions], axis=1)
        return cast(Array, np.einsum("np,npd->nd", _cotangent(G, jacobian.shape[:2]), jacobian))

    # --- as a mean function: h(x)' b + offset ---------------------------------------------------------------

    def _values(self, X: Array) -> Array:
        H = self._features(X)
        values = H @ np.broadcast_to(self._mean, H.shape[1])
        return values if self.offset is None else values + self.offset._values(X)

    def _pull(self, X: Array, g: Array) -> Array:
        return np.zeros(0) if self.offset is None else self.offset._pull(X, g)

    def _pull_inputs(self, X: Array, g: Array) -> Array:
        out = np.zeros_like(X) if self.offset is None else self.offset._pull_inputs(X, g)
        if np.any(self._mean):
            count = sum(f.width(X.shape[1]) for f in self.functions)
            out = out + self.pull_features_inputs(X, np.multiply.outer(g, np.broadcast_to(self._mean, count)))
        return out


def _checked_mean(given: ArrayLike) -> Array:
    mean = np.array(given, dtype=float)
    if mean.ndim > 1 or not np.isfinite(mean).all():
        raise ValueError(f"Basis: prior_mean must be a finite number or vector, got {given!r}")
    mean.setflags(write=False)
    return mean


def _checked_covariance(given: ArrayLike) -> Array:
    """A variance, a vector of variances or a positive definite matrix."""
    B = np.array(given, dtype=float)
    if B.ndim > 2 or not np.isfinite(B).all() or (B.ndim == 2 and B.shape[0] != B.shape[1]):
        raise ValueError(
            f"Basis: prior_covariance must be a number, a vector or a square matrix, got {given!r}"
        )
    if B.ndim < 2 and np.any(B <= 0):
        raise ValueError(f"Basis: the variances in prior_covariance must be positive, got {given!r}")
    if B.ndim == 2:
        if not np.allclose(B, B.T, rtol=1e-10, atol=0.0):
            raise ValueError(f"Basis: prior_covariance must be symmetric, got {given!r}")
        try:
            np.linalg.cholesky(B)
        except np.linalg.LinAlgError:
            raise ValueError(f"Basis: prior_covariance must be positive definite, got {given!r}") from None
    B.setflags(write=False)
    return B


def _full(covariance: Array, count: int) -> Array:
    """A covariance matrix from a variance, variances or the matrix itself."""
    return np.array(covariance) if np.ndim(covariance) == 2 else np.diag(np.broadcast_to(covariance, count))


# --- what a user may give -----------------------------------------------------------------------------------


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
            raise ValueError(f"mean must be {', '.join(map(repr, named))} or a mean function, got {spec!r}")
        return named[spec]()
    if isinstance(spec, Param) or is_number(spec):
        return Constant(spec)
    if callable(spec) and not isinstance(spec, type):
        return FunctionMean(spec)
    raise ValueError(f"mean must be a mean function, a name, a number or a callable, got {spec!r}")
