"""How the free, unconstrained vector of a tree of parts relates to the flat vector of all its values.

None of this depends on the values: a `Layout` is worked out once per tree and handed from tree to tree while
an optimizer moves the values. Scalars that share a transform, or a kind of prior, are handled together as vectors.

Tied scalars are copies of one number. They share an entry of theta, so they must agree in transform, prior
and bounds (the latter two may be given with any one copy), and one fixed copy fixes all.

Notation: x natural values, u (theta) unconstrained ones, P the number of all scalars, p that of free ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.parameters.priors import by_kind
from cavity.parameters.transforms import Transform, range_text

Indices = NDArray[np.intp]

MAX_DRAWS = 1000
"""Draws from a prior before giving up on one inside the range of the parameter."""


class Prior(Protocol):
    """What a prior density over a natural value must answer, element by element (see `cavity.parameters.priors`).

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> from cavity import Param
    >>> from cavity.parameters.priors import Gamma
    >>> kernel = SE(Param(2.0, prior=Gamma(2.0, 1.0)))
    >>> round(float(kernel.log_prior()[0]), 4)
    -1.3069
    """

    def log_density(self, x: Array) -> Array:
        """Log density of each element."""
        ...

    def gradient(self, x: Array) -> Array:
        """Derivative of the log density of each element."""
        ...

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Independent draws of the given shape."""
        ...


@dataclass(frozen=True)
class Entry:
    """One scalar of a flat vector: where it comes from and how it may move.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> [(entry.name, entry.fixed) for entry in (2.0 * SE(1.0)).entries]
    [('se.variance', False), ('se.lengthscale', False)]
    """

    name: str
    transform: Transform
    prior: Prior | None
    bounds: tuple[float, float] | None
    fixed: bool
    tie: str | None
    """Label shared with the other copies; for elements of arrays it includes the position."""


class Layout:
    """Index arrays between theta (p,) and flat (P,), with the maps between them.

    Attributes
    ----------
    where : array of int (q,)
        Flat index of every free scalar, tied copies included.
    slot : array of int (q,)
        Entry of theta behind each of these.
    lead : array of int (p,)
        Flat index of the first copy behind each entry of theta.
    free : tuple of Entry, length p
        Transform, prior and bounds of each entry of theta.

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> layout = (2.0 * SE(1.0)).layout
    >>> layout.to_natural([0.0, 0.0])  # of logarithms
    array([1., 1.])
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.names = tuple(entry.name for entry in entries)
        self._low = np.array([entry.transform.support[0] for entry in entries])
        self._high = np.array([entry.transform.support[1] for entry in entries])
        where: list[int] = []
        slot: list[int] = []
        copies: list[tuple[int, int]] = []
        free: list[Entry] = []
        for group in _tied_groups(entries):
            one = _agreed([entries[i] for i in group])
            copies += [(i, group[0]) for i in group[1:]]
            if not one.fixed:
                where += group
                slot += [len(free)] * len(group)
                free.append(one)
        self.free = tuple(free)
        self.where = np.array(where, dtype=np.intp)
        self.slot = np.array(slot, dtype=np.intp)
        self.lead = self.where[np.unique(self.slot, return_index=True)[1]]
        # Tied scalars, free or fixed, and the first copy of each: these values must agree.
        self._copies, self._originals = np.array(copies, dtype=np.intp).reshape(-1, 2).T
        self.tied = len(copies) > 0

        transforms: dict[Transform, list[int]] = {}
        for s, entry in enumerate(free):
            transforms.setdefault(entry.transform, []).append(s)
        self._transforms = [(t, np.array(at, dtype=np.intp)) for t, at in transforms.items()]
        found = by_kind([entry.prior for entry in free])
        self._priors = [(prior, np.array(at, dtype=np.intp)) for prior, at in found]

    def check(self, flat: Array) -> None:
        """Refuse values outside their range (which includes overflow), and tied values that differ."""
        inside = (flat > self._low) & (flat < self._high)
        if not inside.all():
            i = int(np.argmin(inside))
            wanted = range_text((float(self._low[i]), float(self._high[i])))
            raise ValueError(f"{self.names[i]} must be {wanted}, got {float(flat[i])!r}")
        if self.tied:
            differs = flat[self._copies] != flat[self._originals]
            if differs.any():
                j = int(np.argmax(differs))
                i, k = int(self._originals[j]), int(self._copies[j])
                raise ValueError(
                    f"tied parameters must have the same value, but {self.names[i]} = {float(flat[i])!r} "
                    f"and {self.names[k]} = {float(flat[k])!r}"
                )

    # --- theta and natural values of its entries, all of shape (p,) -----------------------------------------

    def _mapped(self, function: Callable[[Transform, Array], Array], values: Array) -> Array:
        """A method of each entry's transform, at its value."""
        if len(self._transforms) == 1:
            return function(self._transforms[0][0], values)
        out = np.empty(values.shape)
        for transform, at in self._transforms:
            out[at] = function(transform, values[at])
        return out

    def to_natural(self, u: Array) -> Array:
        """Natural values of theta."""
        return self._mapped(lambda transform, v: transform.to_natural(v), u)

    def to_unconstrained(self, x: Array) -> Array:
        """Theta from natural values."""
        return self._mapped(lambda transform, v: transform.to_unconstrained(v), x)

    def slope(self, x: Array) -> Array:
        """Derivative of natural values with respect to theta."""
        return self._mapped(lambda transform, v: transform.slope(v), x)

    def pull(self, x: Array, flat_gradient: Array) -> Array:
        """A gradient with respect to flat, (P,), as one with respect to theta, (p,)."""
        gradient = flat_gradient[self.where]
        if self.tied:
            gradient = _sum_by(self.slot, gradient, self.lead.size)
        return gradient * self.slope(x)

    @cached_property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Bounds of theta, infinite if there are none."""
        return tuple(_unconstrained_bounds(entry) for entry in self.free)

    # --- priors ---------------------------------------------------------------------------------------------

    def log_prior_value(self, x: Array, jacobian: bool) -> float:
        """Log density of natural values (of theta, with the Jacobian)."""
        value = sum(float(np.sum(prior.log_density(x[at]))) for prior, at in self._priors)
        return value + float(np.sum(np.log(self.slope(x)))) if jacobian else value

    def log_prior(self, x: Array, jacobian: bool) -> tuple[float, Array]:
        """The same, and its gradient in theta."""
        slope, gradient = self.slope(x), np.zeros(x.shape)
        for prior, at in self._priors:
            gradient[at] = prior.gradient(x[at]) * slope[at]
        if jacobian:
            for transform, at in self._transforms:
                gradient[at] += transform.log_slope_derivative(x[at])
        return self.log_prior_value(x, jacobian), gradient

    def draw_from_priors(self, u: Array, rng: np.random.Generator) -> Array:
        """Theta with the entries that have a prior drawn from it, inside range and bounds."""
        drawn = u.copy()
        for s, entry in enumerate(self.free):
            if entry.prior is not None:
                drawn[s] = _draw_inside(entry, entry.prior, self.bounds[s], rng)
        return drawn


def _sum_by(group: Indices, values: Array, size: int) -> Array:
    """Sum of the values of each group, (size,)."""
    return cast(Array, np.bincount(group, weights=values, minlength=size))


def _tied_groups(entries: Sequence[Entry]) -> list[list[int]]:
    """Flat indices of every scalar with its copies, by first appearance."""
    groups: dict[tuple[str, str | int], list[int]] = {}
    for i, entry in enumerate(entries):
        key = ("own", i) if entry.tie is None else ("tie", entry.tie)
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _agreed(copies: Sequence[Entry]) -> Entry:
    """The one scalar behind tied copies; an error if they contradict each other."""
    one = copies[0]
    for copy in copies[1:]:
        agreed = {}
        for what in ("transform", "prior", "bounds"):
            mine, other = getattr(one, what), getattr(copy, what)
            if mine is not None and other is not None and mine != other:
                raise ValueError(
                    f"{one.name} and {copy.name} are tied but have different {what}: {mine!r} and {other!r}"
                )
            agreed[what] = other if mine is None else mine
        one = replace(one, **agreed, fixed=one.fixed or copy.fixed)
    return one


def _unconstrained_bounds(entry: Entry) -> tuple[float, float]:
    if entry.bounds is None:
        return (-np.inf, np.inf)
    with np.errstate(divide="ignore"):  # an end of the range itself is infinitely far away
        low, high = entry.transform.to_unconstrained(np.array(entry.bounds))
    return float(low), float(high)


def _draw_inside(entry: Entry, prior: Prior, bounds: tuple[float, float], rng: np.random.Generator) -> float:
    """One draw, in unconstrained units, of a value that the parameter can take."""
    low, high = entry.transform.support
    for _ in range(MAX_DRAWS):
        x = prior.sample(rng, (1,))
        if low < x[0] < high:
            u = float(entry.transform.to_unconstrained(x)[0])
            if bounds[0] <= u <= bounds[1]:
                return u
    raise ValueError(f"{MAX_DRAWS} draws from {prior!r} were all outside the range or bounds of {entry.name}")
