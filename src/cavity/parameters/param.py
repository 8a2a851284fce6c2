"""Parameters with names, natural units for people and unconstrained vectors for optimizers.

Three ideas, used alike by kernels, mean functions and likelihoods:

- `Param`: one parameter (a number or an array) in natural units, with its transform to the real line, an
  optional prior, bounds, and flags that keep it fixed or tie it to others.
- `Parametrized`: an immutable tree of parts. It lists every number it holds in one *flat* vector of natural
  values, and every free number in one unconstrained vector `theta`. `replace(theta)` gives a new tree.
- the chain rule between the two: parts compute derivatives in natural units (`flat`), `to_theta` turns such a
  gradient into one with respect to `theta`. Nothing else in the library knows about transforms.

Tied parameters are one parameter that appears in several places: same shape, value and transform. Where the
copies differ an error says so; nothing is silently overruled.

Notation: P is the number of all values, p that of free ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.parameters.transforms import IDENTITY, LOG, UNIT, Log, Logit, Transform, range_text
from cavity.parameters.units import Unit
from cavity.parameters.vector import Entry, Layout, Prior

__all__ = [
    "IDENTITY",
    "LOG",
    "UNIT",
    "Entry",
    "Layout",
    "Log",
    "Logit",
    "Param",
    "Parametrized",
    "Prior",
    "Transform",
    "fixed",
    "format_value",
    "make_param",
]


# --- one parameter ------------------------------------------------------------------------------------------


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
        Prior density over the natural value, for each element of an array; used by MAP estimation, by random
        starts and by samplers.
    bounds : (low, high), optional
        Interval, in natural units, that learning does not leave.
    tie : str, optional
        Parameters with the same label are learned as one. They must have the same value and shape (arrays are
        tied element by element). A prior and bounds may be given with any one of them; one that is fixed
        fixes all.
    transform : Transform, optional
        Map to the real line; a part supplies its own default (log for positive quantities).

    Examples
    --------
    >>> from cavity import Param
    >>> from cavity.kernels import SE
    >>> SE(Param(1.5, fixed=True))
    SE(lengthscale=Param(1.5, fixed=True))
    >>> SE(Param(1.0, bounds=(0.1, 10.0))).names
    ('se.lengthscale',)
    """

    value: Any
    fixed: bool = False
    prior: Prior | None = None
    bounds: tuple[float, float] | None = None
    tie: str | None = None
    transform: Transform | None = None
    default: Transform | None = field(default=None, repr=False)
    """The transform a part would have chosen, set by the part: `repr` shows only a choice that differs."""

    def __repr__(self) -> str:
        return self.text()

    def text(self, usually_fixed: bool = False) -> str:
        """As a constructor takes it, which may fix plain numbers: a number, or `Param(...)` with what is unusual."""
        options = []
        if self.prior is not None:
            options.append(f"prior={self.prior!r}")
        if self.bounds is not None:
            low, high = (repr(float(b)) if np.isfinite(b) else f"float('{b}')" for b in self.bounds)
            options.append(f"bounds=({low}, {high})")
        if self.tie is not None:
            options.append(f"tie={self.tie!r}")
        if self.transform != self.default:
            options.append(f"transform={self.transform!r}")
        if self.fixed != usually_fixed or (self.fixed and options):
            options.insert(0, f"fixed={self.fixed}")
        value = format_value(self.value)
        return f"Param({', '.join([value, *options])})" if options else value

    @property
    def array(self) -> Array:
        """The value as a flat vector."""
        return np.asarray(self.value, dtype=float).ravel()

    def _with_value(self, value: Any) -> Param:
        """As `dataclasses.replace(self, value=value)` but quick; the value is not checked."""
        new = object.__new__(Param)
        held = new.__dict__
        held.update(self.__dict__)
        held["value"] = value
        return new


def fixed(value: ArrayLike) -> Param:
    """A parameter that learning leaves alone: short for `Param(value, fixed=True)`.

    Examples
    --------
    >>> from cavity import fixed
    >>> from cavity.kernels import SE
    >>> (fixed(1.0) * SE(2.0)).names
    ('se.lengthscale',)
    """
    return Param(value, fixed=True)


def format_value(value: Any) -> str:
    """Text of a number or array that evaluates back to it exactly.

    Examples
    --------
    >>> from cavity.parameters.param import format_value
    >>> format_value(0.1), format_value([1.0, 2.5])
    ('0.1', '[1.0, 2.5]')
    """
    if isinstance(value, str):
        return repr(value)
    array = np.asarray(value, dtype=float)
    return repr(array.tolist()) if array.ndim else repr(float(array))


def make_param(value: Any, transform: Transform, name: str, owner: str) -> Param:
    """Complete and check what a user gave for a parameter: a number, an array or a `Param`.

    Examples
    --------
    >>> from cavity.parameters.param import make_param
    >>> from cavity.parameters.transforms import Log
    >>> make_param(2.0, Log(), "lengthscale", "SE").value
    2.0
    """
    param = value if isinstance(value, Param) else Param(value)
    chosen = param.transform or transform
    try:
        array = np.array(param.value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            f"{owner}: {name} must be a number or an array of numbers, got {param.value!r}"
        ) from None
    low, high = chosen.support
    if array.size == 0:
        raise ValueError(f"{owner}: {name} must have at least one element, got {param.value!r}")
    if not np.all((array > low) & (array < high)):
        raise ValueError(f"{owner}: {name} must be {range_text(chosen.support)}, got {param.value!r}")
    bounds = None if param.bounds is None else _checked_bounds(param.bounds, chosen, array, name, owner)
    if param.prior is not None and np.any(np.asarray(param.prior.log_density(array)) == -np.inf):
        raise ValueError(
            f"{owner}: {name} = {param.value!r} has no density under its prior {param.prior!r}; change it"
        )
    array.setflags(write=False)
    settled = array if array.ndim else float(array)
    return replace(param, value=settled, bounds=bounds, transform=chosen, default=transform)


ROUNDING = 1e-12
"""What a value learned at a bound may be outside it, relative to the bound: exp(log(x)) is not exactly x."""


def _checked_bounds(
    given: Any, transform: Transform, value: Array, name: str, owner: str
) -> tuple[float, float]:
    low, high = transform.support
    try:
        lower, upper = (float(b) for b in given)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: bounds of {name} must be a pair (low, high), got {given!r}") from None
    if not low <= lower < upper <= high:
        raise ValueError(
            f"{owner}: bounds of {name} must be increasing and inside ({low:g}, {high:g}), got {given!r}"
        )
    if np.any(value < lower - ROUNDING * abs(lower)) or np.any(value > upper + ROUNDING * abs(upper)):
        raise ValueError(
            f"{owner}: {name} = {format_value(value)} is outside its bounds ({lower:g}, {upper:g})"
        )
    return lower, upper


# --- a tree of parts ----------------------------------------------------------------------------------------

STRUCTURE = ("entries", "all_names", "names", "layout")
"""Cached properties of a tree that do not depend on its values."""

ELEMENT = re.compile(r"(?P<path>.+)\[(?P<index>\d+(,\d+)*)\]")
"""Name of one element of an array parameter, as in `se.lengthscale[2]`."""

_cached_properties: dict[type, tuple[str, ...]] = {}


def _cached_names(cls: type) -> tuple[str, ...]:
    """Names of the cached properties of a class."""
    if cls not in _cached_properties:
        found = [n for c in cls.__mro__ for n, v in vars(c).items() if isinstance(v, cached_property)]
        _cached_properties[cls] = tuple(dict.fromkeys(found))
    return _cached_properties[cls]


class Parametrized:
    """An immutable part of a model: own parameters, then parts.

    Subclasses declare `_transforms` (parameter name -> default transform) and call `_set_up` once in their
    constructor. All vectors list own parameters first, in declaration order, then those of the parts. Vectors
    that are handed out (`flat`, `theta`) are read-only: copy them to change them.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> kernel = 2.0 * SE(1.0)
    >>> kernel.names, kernel.replace([0.0, 0.0]).flat
    (('se.variance', 'se.lengthscale'), array([1., 1.]))
    """

    _transforms: ClassVar[Mapping[str, Transform]] = {}
    _units: ClassVar[Mapping[str, Unit]] = {}
    """What own parameters measure; those of base classes need not be repeated."""
    _columnwise: ClassVar[tuple[str, ...]] = ()
    """Parameters that are one number for all input columns or one per column; others keep their shape."""

    _params: dict[str, Param]
    _parts: tuple[Parametrized, ...]

    def __init__(self) -> None:
        self._set_up({})

    def _set_up(self, values: Mapping[str, Any], parts: Sequence[Parametrized] = ()) -> None:
        owner = type(self).__name__
        self._params = {k: make_param(v, self._transforms.get(k, LOG), k, owner) for k, v in values.items()}
        self._parts = tuple(parts)
        if self._parts and any(param.tie is not None for _, _, param in self._walk()):
            _check_ties(self)

    def __getattr__(self, name: str) -> Any:
        params = self.__dict__.get("_params")
        if params is not None and name in params:
            return params[name].value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__.get("_params", ()):
            raise AttributeError(
                f"{type(self).__name__} is immutable: make a changed copy with "
                f".update({{'{self.label}.{name}': {value!r}}})"
            )
        object.__setattr__(self, name, value)

    @property
    def units(self) -> dict[str, Unit]:
        """What each own parameter measures, by name."""
        listed: dict[str, Unit] = {}
        for cls in reversed(type(self).__mro__):
            listed |= cls.__dict__.get("_units", {})
        return {name: listed.get(name, Unit.GIVEN) for name in self._params}

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
        """The same part with other parameters and parts; a subclass may check here that shapes agree."""
        return self._copy(params, parts)

    def _copy(self, params: dict[str, Param], parts: tuple[Parametrized, ...]) -> Self:
        """The same part with other values of the same shapes; what was cached is left behind."""
        cls = type(self)
        new = object.__new__(cls)
        held = new.__dict__
        held.update(self.__dict__)
        for name in _cached_properties.get(cls) or _cached_names(cls):
            if name in held:
                del held[name]
        held["_params"], held["_parts"] = params, parts
        return new

    # flat natural values

    @cached_property
    def flat(self) -> Array:
        """All values, free and fixed, in natural units, shape (P,)."""
        pieces = [p.array for p in self._params.values()] + [part.flat for part in self._parts]
        return _read_only(np.concatenate(pieces) if pieces else np.zeros(0))

    def with_flat(self, flat: ArrayLike) -> Self:
        """The same tree with all values replaced, in natural units."""
        values = np.array(flat, dtype=float)
        if values.shape != self.flat.shape:
            raise ValueError(
                f"expected {self.flat.size} values ({', '.join(self.all_names)}), got shape {values.shape}"
            )
        return self._at(values)

    def _at(self, values: Array) -> Self:
        """The same tree at other natural values (P,); it keeps the array."""
        self.layout.check(values)
        new, _ = self._fill(_read_only(values), values.tolist(), 0)
        # Names and flags do not depend on the values: hand them on instead of walking the tree again.
        for name in STRUCTURE:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name]
        return new

    def _fill(self, values: Array, numbers: list[float], start: int) -> tuple[Self, int]:
        """This node and its parts with the values from `start` on; `numbers` is the same as a list."""
        first, params = start, {}
        for name, param in self._params.items():
            old = param.value
            if isinstance(old, float):
                params[name] = param._with_value(numbers[start])
                start += 1
            else:
                params[name] = param._with_value(values[start : start + old.size].reshape(old.shape))
                start += old.size
        parts = self._parts
        if parts:
            filled = []
            for part in parts:
                new_part, start = part._fill(values, numbers, start)
                filled.append(new_part)
            parts = tuple(filled)
        new = self._copy(params, parts)  # shapes are as they were: no need for the checks of _rebuild
        new.__dict__["flat"] = values[first:start]
        return new, start

    # names and flags

    def _walk(self) -> Iterator[tuple[Parametrized, str, Param]]:
        """(node, parameter name, parameter) in flat order."""
        for name, param in self._params.items():
            yield self, name, param
        for part in self._parts:
            yield from part._walk()

    def _paths(self) -> dict[str, Param]:
        """Parameters by dotted name, in flat order; see `_number`."""
        listed: dict[str, Param] = {}
        _number(self, listed, {}, [])
        return listed

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Name and flags of every scalar, in flat order; parts of a kind are numbered (`se`, `se_2`)."""
        listed = []
        for path, param in self._paths().items():
            shape = np.shape(param.value)
            for index in np.ndindex(shape):
                suffix = f"[{','.join(map(str, index))}]" if shape else ""
                tie = None if param.tie is None else param.tie + suffix
                listed.append(
                    Entry(path + suffix, param.transform or LOG, param.prior, param.bounds, param.fixed, tie)
                )
        return tuple(listed)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of all values, in flat order."""
        return tuple(entry.name for entry in self.entries)

    # the free, unconstrained vector

    @cached_property
    def layout(self) -> Layout:
        """How `theta` and `flat` relate, whatever the values."""
        shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
        for path, param in self._paths().items():
            shape = np.shape(param.value)
            if param.tie is not None and shapes.setdefault(param.tie, (path, shape))[1] != shape:
                first, other = shapes[param.tie]
                raise ValueError(
                    f"{first} and {path} are tied but have different shapes, {other} and {shape}"
                )
        return Layout(self.entries)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the free values, in the order of `theta`; tied ones go by the name of the first."""
        return tuple(entry.name for entry in self.layout.free)

    @cached_property
    def theta(self) -> Array:
        """Free values in unconstrained (mostly log) units, shape (p,)."""
        layout = self.layout
        layout.check(self.flat)
        return _read_only(layout.to_unconstrained(self.flat[layout.lead]))

    def replace(self, theta: ArrayLike) -> Self:
        """The same tree with the free values replaced, given in unconstrained units.

        Raises
        ------
        ValueError
            If `theta` has the wrong length, or a natural value would overflow or vanish.
        """
        u, layout = np.asarray(theta, dtype=float), self.layout
        if u.shape != layout.lead.shape:
            raise ValueError(
                f"theta must have {layout.lead.size} entries ({', '.join(self.names)}), got shape {u.shape}"
            )
        x = layout.to_natural(u)
        flat = self.flat.copy()
        flat[layout.where] = x[layout.slot] if layout.tied else x
        return self._at(flat)

    def to_theta(self, flat_gradient: Array) -> Array:
        """Chain rule: a gradient in natural values, shape (P,), as a gradient in `theta`, shape (p,)."""
        return self.layout.pull(self.flat[self.layout.lead], flat_gradient)

    @property
    def theta_bounds(self) -> list[tuple[float, float]]:
        """Bounds in unconstrained units, one pair per entry of `theta` (infinite if there are none)."""
        return list(self.layout.bounds)

    def log_prior(self, *, jacobian: bool = False) -> tuple[float, Array]:
        """Log prior density of the free values and its gradient in `theta`.

        Without `jacobian` it is the density over natural values, whose mode MAP estimation seeks; with it,
        the density over `theta`, which samplers need. A parameter without a prior counts as flat in natural
        units. Tied parameters count once.
        """
        return self.layout.log_prior(self.flat[self.layout.lead], jacobian)

    def draw_from_priors(self, rng: np.random.Generator) -> Self:
        """The same tree with every free value that has a prior drawn from it, inside its range and bounds."""
        return self.replace(self.layout.draw_from_priors(self.theta, rng))

    # named access

    def get(self, name: str) -> Any:
        """Value of a parameter, or of one element, by its dotted name: `k.get("se.lengthscale")`."""
        paths = self._paths()
        path, index = _locate(name, paths)
        value = paths[path].value
        return value if index is None else float(value[index])

    def update(self, values: Mapping[str, Any] | None = None, **by_keyword: Any) -> Self:
        """A new tree with named parameters changed.

        Names are dotted (`{"se.lengthscale": 2.0}`) or, as keywords, with a double underscore
        (`se__lengthscale=2.0`); an element of an array has its index in brackets (`{"se.lengthscale[1]":
        2.0}`). A plain value keeps the parameter's prior, bounds and flags; a `Param` replaces all. A number
        given for an array goes to every element; otherwise the shape must stay. Tied parameters follow the
        one that is changed.
        """
        old = self._paths()
        wanted: dict[str, Any] = {}
        for name, value in {
            **(values or {}),
            **{k.replace("__", "."): v for k, v in by_keyword.items()},
        }.items():
            path, index = _locate(name, old)
            wanted[path] = (
                value if index is None else _element(wanted.get(path, old[path]), index, value, name)
            )
        _follow_ties(wanted, old)
        order = iter(old)

        def walk(node: Parametrized) -> Parametrized:
            params = {}
            for name, param in node._params.items():
                path = next(order)
                if path in wanted:
                    param = _changed(node, name, wanted[path])
                params[name] = param
            return node._rebuild(params, tuple(walk(part) for part in node._parts))

        new = cast(Self, walk(self))
        new.layout.check(new.flat)
        return new

    def freeze(self) -> Self:
        """The same tree with every parameter fixed."""
        params = {name: replace(p, fixed=True) for name, p in self._params.items()}
        return self._rebuild(params, tuple(part.freeze() for part in self._parts))

    # text, equality, scikit-learn

    def _arguments(self) -> list[str]:
        """Text of the constructor's arguments."""
        return [f"{name}={param!r}" for name, param in self._params.items()]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __sklearn_clone__(self) -> Self:
        """Parts are immutable, so a clone is the part itself."""
        return self


# --- helpers of the tree ------------------------------------------------------------------------------------


def _read_only(array: Array) -> Array:
    array.setflags(write=False)
    return array


def _check_ties(tree: Parametrized) -> None:
    """Compare tied values at construction, without caching: the constructor may go on to change labels."""
    probe = tree._rebuild(tree._params, tree._parts)
    probe.layout.check(probe.flat)


def _number(node: Parametrized, listed: dict[str, Param], count: dict[str, int], prefix: list[str]) -> None:
    """List the parameters of a tree under dotted names in which parts of the same kind are numbered.

    All parameters of a part share its number: in `2.0 * SE(1.0) + SE(3.0) + 4.0 * SE(5.0)` the last variance
    is `se_3.variance`. A wrapper that takes the label of its part (a scale, a choice of columns) shares the
    number of that part, unless a name would be used twice. `prefix` holds the numbered label once there is
    one.
    """
    label = node.label
    if prefix and any(f"{prefix[0]}.{name}" in listed for name in node._params):
        prefix = []
    for name, param in node._params.items():
        if not prefix:
            count[label] = count.get(label, 0) + 1
            prefix.append(label if count[label] == 1 else f"{label}_{count[label]}")
        listed[f"{prefix[0]}.{name}"] = param
    wraps = len(node._parts) == 1 and node._parts[0].label == label
    for part in node._parts:
        _number(part, listed, count, prefix if wraps else [])


def _locate(name: str, paths: Mapping[str, Param]) -> tuple[str, tuple[int, ...] | None]:
    """Split a name into that of an existing parameter and the index of an existing element."""
    if name in paths:
        return name, None
    match = ELEMENT.fullmatch(name)
    if match is None or match["path"] not in paths:
        raise ValueError(f"no parameter is called {name!r}; there are: {', '.join(paths) or 'none'}")
    index = tuple(int(i) for i in match["index"].split(","))
    shape = np.shape(paths[match["path"]].value)
    if len(index) != len(shape) or any(i >= n for i, n in zip(index, shape)):
        raise ValueError(f"there is no element {name!r}: {match['path']} has shape {shape}")
    return match["path"], index


def _element(old: Any, index: tuple[int, ...], value: Any, name: str) -> Array:
    """An array with one element changed."""
    if isinstance(value, Param) or np.ndim(value) > 0:
        raise ValueError(f"{name} is one element of an array and takes a number, got {value!r}")
    array = np.array(old.value if isinstance(old, Param) else old, dtype=float)
    array[index] = value
    return array


def _changed(node: Parametrized, name: str, value: Any) -> Param:
    """An own parameter of a part with a new value, or a new `Param` in its place."""
    old, owner = node._params[name], type(node).__name__
    new = value if isinstance(value, Param) else replace(old, value=value)
    shape, given = np.shape(old.value), np.shape(new.value)
    if given == () and shape:
        new = replace(new, value=np.full(shape, new.value))
    elif given != shape and not (name in node._columnwise and len(given) == 1):
        raise ValueError(f"{owner}: {name} has shape {shape}, got a value of shape {given}")
    return make_param(new, node._transforms.get(name, LOG), name, owner)


def _follow_ties(wanted: dict[str, Any], old: Mapping[str, Param]) -> None:
    """Give the copies of a tied parameter its new value, unless they are given one as well."""
    for path, value in list(wanted.items()):
        tie = value.tie if isinstance(value, Param) else old[path].tie
        for other, param in old.items():
            if tie is not None and param.tie == tie and other not in wanted:
                wanted[other] = value.value if isinstance(value, Param) else value
