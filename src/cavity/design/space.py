"""What may be varied: inputs with names and units, and their coordinates in the unit cube.

A `Space` maps settings, dictionaries in a user's units, to points of the cube and back. Each input has one column:
real inputs are affine in it (or in their logarithm), integers and steps sit on a grid, categories are codes 0, 1, ...
which are compared for equality alone. Points outside the box have coordinates outside the cube: a model may learn from
them, but they are never proposed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

Setting = dict[str, Any]
"""One experiment: the value of each input by its name."""


@dataclass(frozen=True)
class Real:
    """A real input between two values.

    Attributes
    ----------
    low, high : float
    log : bool
        Whether equal ratios count as equal distances.
    step : float, optional
        Only low, low + step, low + 2 step, ... can be set.

    Examples
    --------
    >>> from cavity.design import Real
    >>> Real(1e-4, 1.0, log=True).to_unit(1e-2)
    0.5
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            _require_number(getattr(self, name), name)
        if not self.low < self.high:
            raise InputError(
                f"must be two different numbers, the lower one first, got {self.low:g} and {self.high:g}",
                parameter="bounds",
            )
        if self.log and not self.low > 0:
            raise InputError(f"a logarithmic input must be positive, got the lower bound {self.low:g}")
        if self.step is not None and not 0 < self.step <= self.high - self.low:
            raise InputError(
                f"step must be positive and at most the range {self.high - self.low:g}, got {self.step!r}"
            )

    @property
    def levels(self) -> Array | None:
        """All values, if they are few enough to be on a grid."""
        if self.step is None:
            return None
        count = int(np.floor((self.high - self.low) / self.step * (1 + 1e-12))) + 1
        return np.asarray(self.low + self.step * np.arange(count))

    def to_unit(self, value: Any) -> float:
        """Its coordinate; outside [0, 1] for values outside the bounds."""
        x = _require_number(value, "value")
        if self.log:
            if x <= 0:
                raise InputError(f"a logarithmic input must be positive, got {x:g}")
            return float(np.log(x / self.low) / np.log(self.high / self.low))
        return (x - self.low) / (self.high - self.low)

    def from_unit(self, u: float) -> Any:
        """The value at a coordinate, on the grid if there is one."""
        if self.log:
            x = float(self.low * np.exp(u * np.log(self.high / self.low)))
        else:
            x = float(self.low + u * (self.high - self.low))
        levels = self.levels
        if levels is not None:
            x = float(levels[np.argmin(np.abs(levels - x))])
        return float(np.clip(x, self.low, self.high))

    @property
    def grid(self) -> Array | None:
        """Coordinates of all values, if they are on a grid."""
        levels = self.levels
        return None if levels is None else np.array([self.to_unit(v) for v in levels])


@dataclass(frozen=True)
class Integer:
    """A whole number between two, both included.

    Examples
    --------
    >>> from cavity.design import Integer
    >>> Integer(1, 5).from_unit(0.6)
    3
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = _require_number(getattr(self, name), name)
            if value != int(value):
                raise InputError(f"bounds of an integer must be whole numbers, got {value:g}")
        if not self.low < self.high:
            raise InputError(
                f"must be two different numbers, the lower one first, got {self.low} and {self.high}",
                parameter="bounds",
            )
        if self.log and self.low < 1:
            raise InputError(f"a logarithmic input must be positive, got the lower bound {self.low}")

    def _real(self) -> Real:
        return Real(self.low, self.high, self.log)

    @property
    def grid(self) -> Array | None:
        """Coordinates of all values."""
        values = np.arange(self.low, self.high + 1)
        return np.array([self.to_unit(v) for v in values]) if len(values) <= LARGEST_GRID else None

    def to_unit(self, value: Any) -> float:
        """Its coordinate."""
        return self._real().to_unit(value)

    def from_unit(self, u: float) -> Any:
        """The nearest whole number."""
        return int(np.clip(round(self._real().from_unit(min(max(u, 0.0), 1.0))), self.low, self.high))


@dataclass(frozen=True)
class Categorical:
    """One of several choices without an order.

    Examples
    --------
    >>> from cavity.design import Categorical
    >>> Categorical(("A", "B", "C")).to_unit("C")
    2.0
    """

    choices: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(self.choices))
        if len(self.choices) < 2 or len(set(self.choices)) < len(self.choices):
            raise InputError(
                f"categories must be at least two, all different, got {list(self.choices)!r}; an input with one "
                "value is no input"
            )

    @property
    def grid(self) -> Array:
        """All codes."""
        return np.arange(len(self.choices), dtype=float)

    def to_unit(self, value: Any) -> float:
        """The code."""
        if value not in self.choices:
            raise InputError(
                f"{value!r} is none of the categories {list(self.choices)!r}; add it to them, or leave the row out"
            )
        return float(self.choices.index(value))

    def from_unit(self, u: float) -> Any:
        """The category of a code."""
        return self.choices[int(np.clip(round(u), 0, len(self.choices) - 1))]


Input = Real | Integer | Categorical

DIGITS = 12
"""Decimals of coordinates."""

LARGEST_GRID = 10_000
"""Grids that are finer are treated as continuous and rounded."""


def _require_number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"must be a number, got {value!r}", parameter=name) from None
    if not np.isfinite(number):
        raise InputError(f"must be finite, got {value!r}", parameter=name)
    return number


def as_input(value: Any) -> Input:
    """An input from its short form: (low, high) is real, two integers and a list of anything are as they look.

    Distributions of SciPy with a finite support (`loguniform`, `uniform`, `randint`) are read too.

    Examples
    --------
    >>> from cavity.design import as_input
    >>> as_input((20.0, 90.0)), as_input(["A", "B"])
    (Real(low=20.0, high=90.0, log=False, step=None), Categorical(choices=('A', 'B')))
    """
    if isinstance(value, Real | Integer | Categorical):
        return value
    if hasattr(value, "dist") and hasattr(value, "support"):
        low, high = (float(end) for end in value.support())
        if not (np.isfinite(low) and np.isfinite(high)):
            raise InputError(
                f"a distribution must have finite ends, got {value.dist.name} on [{low}, {high}]"
            )
        if hasattr(value.dist, "pmf"):
            return Integer(int(low), int(high))
        return Real(low, high, log=value.dist.name in ("loguniform", "reciprocal"))
    if isinstance(value, list | np.ndarray):
        return Categorical(tuple(value.tolist() if isinstance(value, np.ndarray) else value))
    if isinstance(value, tuple) and len(value) in (2, 3) and all(_is_number(v) for v in value):
        return Real(float(value[0]), float(value[1]), step=float(value[2]) if len(value) == 3 else None)
    raise InputError(
        f"an input is given as (low, high), (low, high, step), a list of categories, Real, Integer or Categorical, "
        f"got {value!r}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


@dataclass(frozen=True)
class LinearConstraint:
    """sum of weights times inputs, in their own units, at most a limit.

    Examples
    --------
    >>> from cavity.design import LinearConstraint
    >>> LinearConstraint.parse("sugar + 2 salt <= 10")
    LinearConstraint(weights=(('sugar', 1.0), ('salt', 2.0)), limit=10.0)
    """

    weights: tuple[tuple[str, float], ...]
    limit: float

    @classmethod
    def parse(cls, text: str) -> LinearConstraint:
        """From a sentence such as "a + 2 b <= 10" or "a - b >= 0"."""
        halves = re.split(r"(<=|>=|<|>)", text)
        try:
            left, sign, right = halves
            limit = float(right)
            terms = re.findall(r"([+-]?)\s*(\d*\.?\d+(?:[eE][+-]?\d+)?)?\s*\*?\s*([A-Za-z_]\w*)", left)
            if (
                not terms
                or re.sub(r"[+-]?\s*(\d*\.?\d+(?:[eE][+-]?\d+)?)?\s*\*?\s*[A-Za-z_]\w*", "", left).strip()
            ):
                raise ValueError
        except ValueError:
            raise InputError(
                f"a constraint is a sum of inputs and a limit, as in 'a + 2 b <= 10', got {text!r}"
            ) from None
        flip = -1.0 if sign.startswith(">") else 1.0
        weights = tuple(
            (name, flip * float(number or 1.0) * (-1.0 if minus == "-" else 1.0))
            for minus, number, name in terms
        )
        return cls(weights, flip * limit)


class Space:
    """Inputs by name, and their coordinates.

    Parameters
    ----------
    inputs : mapping or sequence
        Of names to inputs or their short forms; a sequence has the names x0, x1, ...
    constraints : sequence of str or LinearConstraint
        Of real, not logarithmic, and whole-number inputs.

    Examples
    --------
    >>> from cavity.design import Space
    >>> space = Space({"temp": (20.0, 90.0), "catalyst": ["A", "B"]})
    >>> space.to_unit({"temp": 55.0, "catalyst": "B"})
    array([0.5, 1. ])
    """

    def __init__(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        constraints: Sequence[str | LinearConstraint] = (),
    ) -> None:
        if not isinstance(inputs, Mapping):
            inputs = {f"x{i}": value for i, value in enumerate(inputs)}
        if not inputs:
            raise InputError("a space needs at least one input")
        self.inputs: dict[str, Input] = {}
        for name, value in inputs.items():
            try:
                self.inputs[str(name)] = as_input(value)
            except InputError as error:
                raise InputError(f"input {name!r}: {error}") from None
        self.names = tuple(self.inputs)
        self.n = len(self.names)
        self.constraints = tuple(
            c if isinstance(c, LinearConstraint) else LinearConstraint.parse(c) for c in constraints
        )
        self.categorical = np.array([isinstance(v, Categorical) for v in self.inputs.values()])
        self.low = np.zeros(self.n)
        self.high = np.array(
            [v.grid[-1] if isinstance(v, Categorical) else 1.0 for v in self.inputs.values()]
        )
        self.grids = [v.grid for v in self.inputs.values()]
        self._A, self._b = self._linear()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and (list(self.inputs.items()), self.constraints) == (
            list(other.inputs.items()),
            other.constraints,
        )

    def __hash__(self) -> int:
        return hash((tuple(self.inputs.items()), self.constraints))

    def __repr__(self) -> str:
        return f"Space({self.inputs!r})"

    def _linear(self) -> tuple[Array, Array]:
        """A u <= b in coordinates."""
        A, b = np.zeros((len(self.constraints), self.n)), np.zeros(len(self.constraints))
        for i, constraint in enumerate(self.constraints):
            b[i] = constraint.limit
            for name, weight in constraint.weights:
                self.require(name)
                one = self.inputs[name]
                if isinstance(one, Categorical) or one.log:
                    raise InputError(f"a linear constraint needs plain numbers, but {name!r} is {one!r}")
                A[i, self.names.index(name)] += weight * (one.high - one.low)
                b[i] -= weight * one.low
            if A[i].clip(max=0).sum() > b[i]:
                raise InputError(f"no setting meets the constraint on {[n for n, _ in constraint.weights]}")
        return A, b

    def require(self, name: str) -> None:
        """Refuse a name that is no input."""
        if name not in self.inputs:
            raise InputError(f"there is no input {name!r}; the inputs are {', '.join(self.names)}")

    def to_unit(self, setting: Mapping[str, Any]) -> Array:
        """Coordinates (D,) of one setting."""
        missing = [name for name in self.names if name not in setting]
        if missing:
            raise InputError(f"the setting has no value for {', '.join(missing)}: {dict(setting)!r}")
        out = np.empty(self.n)
        for i, (name, one) in enumerate(self.inputs.items()):
            try:
                out[i] = one.to_unit(setting[name])
            except InputError as error:
                raise InputError(f"input {name!r}: {error}") from None
        return np.round(out, DIGITS)  # in other units, values differ by rounding

    def from_unit(self, u: Array) -> Setting:
        """The setting at coordinates (D,), on grids where inputs have them."""
        return {name: one.from_unit(float(c)) for (name, one), c in zip(self.inputs.items(), u)}

    def rounded(self, U: Array) -> Array:
        """The nearest points (m, D) that can be set."""
        U = np.clip(U, self.low, self.high)
        for i, grid in enumerate(self.grids):
            if grid is not None:
                U[:, i] = grid[np.abs(U[:, i, None] - grid).argmin(axis=1)]
        return U

    def feasible(self, U: Array) -> NDArray[np.bool_]:
        """Which points (m, D) meet the linear constraints."""
        return np.asarray(np.all(self._b + 1e-9 >= U @ self._A.T, axis=1))

    @property
    def linear(self) -> tuple[Array, Array]:
        """(A, b) with A u <= b in coordinates."""
        return self._A, self._b

    @property
    def continuous(self) -> NDArray[np.bool_]:
        """Which inputs vary without steps."""
        return np.array([grid is None for grid in self.grids])

    @property
    def size(self) -> float:
        """Number of settings; infinite if one input is continuous."""
        return float(np.prod([np.inf if grid is None else len(grid) for grid in self.grids]))

    def sobol(self, count: int, rng: np.random.Generator) -> Array:
        """Points (count, D) that can be set, spread evenly (scrambled Sobol); fewer if constraints leave few."""
        sampler = qmc.Sobol(self.n, scramble=True, seed=rng)
        kept: list[Array] = []
        for _ in range(SOBOL_ROUNDS):
            u = (
                sampler.random_base2(int(np.ceil(np.log2(max(count, 2)))))
                if not kept
                else sampler.random(count)
            )
            # categories in proportion, not by rounding: each has an equal share of [0, 1)
            u = np.where(self.categorical, np.floor(u * (self.high + 1.0) * (1 - 1e-12)), u * self.high)
            u = self.rounded(u)
            kept.append(u[self.feasible(u)])
            if sum(len(k) for k in kept) >= count:
                break
        found = np.concatenate(kept)[:count]
        if not len(found):
            raise InputError("no setting was found that meets the constraints; check their limits")
        return found


SOBOL_ROUNDS = 50
"""Sets of points that are drawn before constraints count as too tight."""
