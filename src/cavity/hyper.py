"""Parameters with names, natural units for people and unconstrained vectors for optimizers.

Three ideas, used alike by kernels, mean functions and likelihoods:

- `Param`: one parameter (a number or an array) in natural units, with its transform to the real line, an optional
  prior, bounds, and flags that keep it fixed or tie it to others.
- `Parametrized`: an immutable tree of parts. It lists every number it holds in one *flat* vector of natural values,
  and every free number in one unconstrained vector `theta`. `replace(theta)` gives a new tree.
- the chain rule between the two: parts compute derivatives in natural units (`flat`), `to_theta` turns such a
  gradient into one with respect to `theta`. Nothing else in the library knows about transforms.

Notation: x is a natural value, u its unconstrained coordinate.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


class Prior(Protocol):
    """What a prior density over a natural value must answer, element by element (see `cavity.priors`)."""

    def log_density(self, x: Array) -> Array:
        """Log density of each element."""
        ...

    def gradient(self, x: Array) -> Array:
        """Derivative of the log density of each element."""
        ...

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Independent draws of the given shape."""
        ...


# --- transforms -----------------------------------------------------------------------------------------------------


class Transform:
    """A smooth monotone map from the real line (u) onto the values a parameter may take (x)."""

    name: str = "identity"
    support: tuple[float, float] = (-np.inf, np.inf)

    def to_natural(self, u: Array) -> Array:
        """x(u)."""
        return u

    def to_unconstrained(self, x: Array) -> Array:
        """u(x)."""
        return x

    def slope(self, x: Array) -> Array:
        """dx/du, written as a function of x."""
        return np.ones_like(x)

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(dx/du): the derivative of the log Jacobian, for densities over u."""
        return np.zeros_like(x)

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).items())))


class Log(Transform):
    """Positive values, u = log x."""

    name = "log"
    support = (0.0, np.inf)

    def to_natural(self, u: Array) -> Array:
        """x = exp(u)."""
        return np.exp(u)

    def to_unconstrained(self, x: Array) -> Array:
        """u = log(x)."""
        return np.log(x)

    def slope(self, x: Array) -> Array:
        """dx/du = x."""
        return x

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log x = 1."""
        return np.ones_like(x)


class Logit(Transform):
    """Values between two ends, u = log((x - low) / (high - x))."""

    name = "logit"

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = float(low), float(high)
        self.support = (self.low, self.high)

    def to_natural(self, u: Array) -> Array:
        """x = low + (high - low) / (1 + exp(-u)), from whichever end is nearer so that neither is rounded away."""
        from scipy.special import expit

        width = self.high - self.low
        return np.where(u < 0, self.low + width * expit(u), self.high - width * expit(-u))

    def to_unconstrained(self, x: Array) -> Array:
        """u = log((x - low) / (high - x))."""
        return np.log(x - self.low) - np.log(self.high - x)

    def slope(self, x: Array) -> Array:
        """dx/du = (x - low)(high - x) / (high - low)."""
        return (x - self.low) * (self.high - x) / (self.high - self.low)

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(dx/du) = (low + high - 2x) / (high - low)."""
        return (self.low + self.high - 2 * x) / (self.high - self.low)


IDENTITY = Transform()
LOG = Log()
UNIT = Logit(0.0, 1.0)


# --- one parameter --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Param:
    """A parameter in natural units.

    Parameters
    ----------
    value : float or array
        The value, in the user's units.
    fixed : bool
        Keep the value during learning.
    prior : Prior, optional
        Prior density over the natural value; used by MAP estimation, by random starts and by samplers.
    bounds : (low, high), optional
        Interval, in natural units, that learning does not leave.
    tie : str, optional
        Parameters with the same label are learned as one number.
    transform : Transform, optional
        Map to the real line; a part supplies its own default (log for positive quantities).
    """

    value: Any
    fixed: bool = False
    prior: Prior | None = None
    bounds: tuple[float, float] | None = None
    tie: str | None = None
    transform: Transform | None = None

    def __repr__(self) -> str:
        options = []
        if self.fixed:
            options.append("fixed=True")
        if self.prior is not None:
            options.append(f"prior={self.prior!r}")
        if self.bounds is not None:
            options.append(f"bounds=({self.bounds[0]!r}, {self.bounds[1]!r})")
        if self.tie is not None:
            options.append(f"tie={self.tie!r}")
        text = format_value(self.value)
        return f"Param({', '.join([text, *options])})" if options else text

    @property
    def array(self) -> Array:
        """The value as a flat vector."""
        return cast(Array, np.asarray(self.value, dtype=float).ravel())

    def with_array(self, flat: Array) -> Param:
        """The same parameter at another value, given as a flat vector."""
        shape = np.shape(self.value)
        return replace(self, value=flat.reshape(shape) if shape else float(flat[0]))


def fixed(value: ArrayLike) -> Param:
    """A parameter that learning leaves alone: short for `Param(value, fixed=True)`."""
    return Param(value, fixed=True)


def format_value(value: Any) -> str:
    """Text of a number or array that evaluates back to it exactly."""
    if isinstance(value, str):
        return repr(value)
    array = np.asarray(value, dtype=float)
    return repr(array.tolist()) if array.ndim else repr(float(array))


def make_param(value: Any, transform: Transform, name: str, owner: str) -> Param:
    """Complete and check what a user gave for a parameter: a number, an array or a `Param`."""
    param = value if isinstance(value, Param) else Param(value)
    chosen = param.transform or transform
    try:
        array = np.array(param.value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} must be a number or an array of numbers, got {param.value!r}") from None
    low, high = chosen.support
    if array.size == 0 or not np.all(np.isfinite(array)) or np.any(array <= low) or np.any(array >= high):
        interval = "finite" if np.isinf(low) else ("positive" if np.isinf(high) else f"between {low:g} and {high:g}")
        raise ValueError(f"{owner}: {name} must be {interval}, got {param.value!r}")
    if param.bounds is not None:
        lower, upper = (float(b) for b in param.bounds)
        if not (low <= lower < upper <= high):
            raise ValueError(f"{owner}: bounds of {name} must be increasing and inside ({low:g}, {high:g}), got {param.bounds!r}")
    array.setflags(write=False)
    return replace(param, value=array if array.ndim else float(array), transform=chosen)


# --- a tree of parts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One scalar of a flat vector: where it comes from and how it may move."""

    name: str
    transform: Transform
    prior: Prior | None
    bounds: tuple[float, float] | None
    fixed: bool
    tie: str | None


class Parametrized:
    """An immutable part of a model: own parameters, then parts.

    Subclasses declare `_transforms` (parameter name -> default transform) and call `_set_up` once in their
    constructor. All vectors list own parameters first, in declaration order, then those of the parts.
    """

    _transforms: ClassVar[Mapping[str, Transform]] = {}
    _params: dict[str, Param]
    _parts: tuple[Parametrized, ...]

    def _set_up(self, values: Mapping[str, Any], parts: Sequence[Parametrized] = ()) -> None:
        owner = type(self).__name__
        self._params = {k: make_param(v, self._transforms.get(k, LOG), k, owner) for k, v in values.items()}
        self._parts = tuple(parts)

    def __getattr__(self, name: str) -> Any:
        params = self.__dict__.get("_params")
        if params is not None and name in params:
            return params[name].value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def params(self) -> dict[str, Param]:
        """Own parameters (not those of the parts), by name."""
        return dict(self._params)

    @property
    def parts(self) -> tuple[Parametrized, ...]:
        """The parts this one is composed of."""
        return self._parts

    @property
    def label(self) -> str:
        """Short name used in front of parameter names."""
        return type(self).__name__.lower()

    def _rebuild(self, params: dict[str, Param], parts: tuple[Parametrized, ...]) -> Self:
        """The same part with other values; what was cached for the old values is left behind."""
        cached = {n for c in type(self).__mro__ for n, v in vars(c).items() if isinstance(v, cached_property)}
        new = copy.copy(self)
        for name in cached:
            new.__dict__.pop(name, None)
        new._params, new._parts = params, parts
        return new

    # flat natural values

    @cached_property
    def flat(self) -> Array:
        """All values, free and fixed, in natural units, shape (P,)."""
        pieces = [p.array for p in self._params.values()] + [part.flat for part in self._parts]
        return np.concatenate(pieces) if pieces else np.zeros(0)

    def with_flat(self, flat: ArrayLike) -> Self:
        """The same tree with all values replaced, in natural units."""
        values = np.asarray(flat, dtype=float)
        if values.shape != self.flat.shape:
            raise ValueError(f"expected {self.flat.size} values ({', '.join(self.all_names)}), got shape {values.shape}")
        params, start = {}, 0
        for name, param in self._params.items():
            stop = start + param.array.size
            params[name] = param.with_array(values[start:stop])
            start = stop
        parts = []
        for part in self._parts:
            stop = start + part.flat.size
            parts.append(part.with_flat(values[start:stop]) if stop > start else part)
            start = stop
        return self._rebuild(params, tuple(parts))

    # names and flags

    def _walk(self) -> Iterator[tuple[str, str, Param]]:
        """(label, parameter name, parameter) in flat order."""
        for name, param in self._params.items():
            yield self.label, name, param
        for part in self._parts:
            yield from part._walk()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Name and flags of every scalar, in flat order; repeated names are numbered (`se`, `se_2`, ...)."""
        listed, taken = [], {}
        for label, name, param in self._walk():
            path = f"{label}.{name}"
            taken[path] = taken.get(path, 0) + 1
            if taken[path] > 1:
                path = f"{label}_{taken[path]}.{name}"
            shape = np.shape(param.value)
            for index in np.ndindex(shape):
                suffix = f"[{','.join(map(str, index))}]" if shape else ""
                listed.append(
                    Entry(path + suffix, param.transform or LOG, param.prior, param.bounds, param.fixed, param.tie)
                )
        return tuple(listed)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of all values, in flat order."""
        return tuple(entry.name for entry in self.entries)

    # the free, unconstrained vector

    @cached_property
    def _groups(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(flat index of each free scalar, index into theta of each of these): tied scalars share one."""
        where, slot, slots = [], [], {}
        for i, entry in enumerate(self.entries):
            if entry.fixed:
                continue
            key = ("tie", entry.tie) if entry.tie is not None else ("own", str(i))
            where.append(i)
            slot.append(slots.setdefault(key, len(slots)))
        return np.array(where, dtype=np.intp), np.array(slot, dtype=np.intp)

    @cached_property
    def _lead(self) -> NDArray[np.intp]:
        """Flat index of the first scalar behind each entry of theta."""
        where, slot = self._groups
        _, first = np.unique(slot, return_index=True)
        return where[first]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the free values, in the order of `theta`."""
        return tuple(self.all_names[i] for i in self._lead)

    @cached_property
    def theta(self) -> Array:
        """Free values in unconstrained (mostly log) units, shape (p,)."""
        return np.array([float(self.entries[i].transform.to_unconstrained(self.flat[i])) for i in self._lead])

    def replace(self, theta: ArrayLike) -> Self:
        """The same tree with the free values replaced, given in unconstrained units."""
        u = np.asarray(theta, dtype=float)
        if u.shape != self._lead.shape:
            raise ValueError(f"theta must have {self._lead.size} entries ({', '.join(self.names)}), got shape {u.shape}")
        flat = self.flat.copy()
        where, slot = self._groups
        for i, s in zip(where, slot):
            flat[i] = self.entries[i].transform.to_natural(u[s])
        new = self.with_flat(flat)
        # Names and flags do not depend on the values: hand them on instead of walking the tree again.
        for name in ("entries", "all_names", "_groups", "_lead", "names"):
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        return new

    def to_theta(self, flat_gradient: Array) -> Array:
        """Chain rule: a gradient in natural values, shape (P,), as a gradient in `theta`, shape (p,)."""
        where, slot = self._groups
        slopes = np.array([float(self.entries[i].transform.slope(self.flat[i])) for i in where])
        return np.bincount(slot, weights=flat_gradient[where] * slopes, minlength=self._lead.size)

    @property
    def theta_bounds(self) -> list[tuple[float, float]]:
        """Bounds in unconstrained units, one pair per entry of `theta` (infinite where there are none)."""
        pairs = []
        for i in self._lead:
            entry = self.entries[i]
            if entry.bounds is None:
                pairs.append((-np.inf, np.inf))
            else:
                with np.errstate(divide="ignore"):
                    low, high = (float(entry.transform.to_unconstrained(np.float64(b))) for b in entry.bounds)
                pairs.append((low, high))
        return pairs

    def log_prior(self, *, jacobian: bool = False) -> tuple[float, Array]:
        """Log prior density of the free values and its gradient in `theta`.

        Without `jacobian` it is the density over natural values, whose mode MAP estimation seeks; with it, the
        density over `theta`, which samplers need.
        """
        value, gradient = 0.0, np.zeros(self._lead.size)
        for s, i in enumerate(self._lead):
            entry, x = self.entries[i], np.asarray(self.flat[i])
            if entry.prior is not None:
                value += float(entry.prior.log_density(x))
                gradient[s] += float(entry.prior.gradient(x)) * float(entry.transform.slope(x))
            if jacobian:
                value += float(np.log(entry.transform.slope(x)))
                gradient[s] += float(entry.transform.log_slope_derivative(x))
        return value, gradient

    # named access

    def get(self, name: str) -> Any:
        """Value of a parameter by its dotted name, e.g. `k.get("se.lengthscale")`."""
        return self._find(name).value

    def _find(self, name: str) -> Param:
        for path, param in self._paths():
            if path == name:
                return param
        known = ", ".join(path for path, _ in self._paths())
        raise ValueError(f"no parameter is called {name!r}; there are: {known}")

    def _paths(self) -> list[tuple[str, Param]]:
        """(numbered dotted name without index, parameter) in flat order."""
        listed, taken = [], {}
        for label, name, param in self._walk():
            path = f"{label}.{name}"
            taken[path] = taken.get(path, 0) + 1
            listed.append((path if taken[path] == 1 else f"{label}_{taken[path]}.{name}", param))
        return listed

    def update(self, values: Mapping[str, Any] | None = None, **by_keyword: Any) -> Self:
        """A new tree with named parameters changed.

        Names are dotted (`{"se.lengthscale": 2.0}`) or, as keywords, with a double underscore
        (`se__lengthscale=2.0`). A plain value keeps the parameter's prior, bounds and flags; a `Param` replaces all.
        """
        wanted = {**(values or {}), **{k.replace("__", "."): v for k, v in by_keyword.items()}}
        for name in wanted:
            self._find(name)
        order = iter([path for path, _ in self._paths()])

        def walk(node: Parametrized) -> Parametrized:
            params = {}
            for name, param in node._params.items():
                path = next(order)
                if path in wanted:
                    new = wanted[path]
                    new = new if isinstance(new, Param) else replace(param, value=new)
                    param = make_param(new, node._transforms.get(name, LOG), name, type(node).__name__)
                params[name] = param
            return node._rebuild(params, tuple(walk(part) for part in node._parts))

        return cast(Self, walk(self))

    def freeze(self) -> Self:
        """The same tree with every parameter fixed."""
        params = {name: replace(p, fixed=True) for name, p in self._params.items()}
        return self._rebuild(params, tuple(part.freeze() for part in self._parts))
