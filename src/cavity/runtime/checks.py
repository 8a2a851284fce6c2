"""Checks of options that many parts of the library take: numbers and random states."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError


def is_number(value: Any, kind: type = Real) -> bool:
    """Whether it is a number of this kind (`numbers.Real`, `numbers.Integral`), and not a truth value.

    >>> is_number(1.5), is_number(np.int64(2)), is_number(True), is_number("2")
    (True, True, False, False)
    """
    return isinstance(value, kind) and not isinstance(value, bool | np.bool_)


def require_integer(value: Any, name: str, least: int) -> int:
    """The value as an integer, which must be at least so large; whole floats are integers, truth values are not.

    >>> require_integer(3.0, "steps", 1)
    3
    >>> require_integer(0, "steps", 1)
    Traceback (most recent call last):
    cavity.runtime.errors.InputError: steps must be an integer >= 1, got 0
    """
    if not is_number(value) or not np.isfinite(value) or int(value) != value or value < least:
        raise InputError(f"must be an integer >= {least}, got {value!r}", parameter=name, value=value)
    return int(value)


def require_positive(value: Any, name: str) -> None:
    """A number that must be positive and finite, or an array of such numbers."""
    _require((np.asarray(value) > 0) & np.isfinite(value), "must be positive and finite", value, name)


def require_between(value: Any, name: str, low: float = 0.0, high: float = 1.0) -> None:
    """A number that must be in an interval, ends included, or an array of such numbers."""
    array = np.asarray(value)
    _require((array >= low) & (array <= high), f"must be between {low:g} and {high:g}", value, name)


def _require(good: Any, problem: str, value: Any, name: str) -> None:
    """Refuse a value, or the first of an array that is not good."""
    if not np.all(good):
        first = np.asarray(value)[~good][0].item() if np.ndim(value) else value
        raise InputError(f"{problem}, got {first!r}", parameter=name, value=value)


def require_inside(value: float, name: str, low: float = 0.0, high: float = 1.0) -> None:
    """A number that must be in an interval, ends excluded."""
    if not low < value < high:
        problem = f"must lie strictly between {low:g} and {high:g}, got {value!r}"
        raise InputError(problem, parameter=name, value=value)


def require_one_of(value: Any, name: str, options: Iterable[Any]) -> None:
    """A value that must be one of these."""
    if value not in options:
        listed = ", ".join(map(repr, options))
        raise InputError(f"must be one of {listed}, got {value!r}", parameter=name, value=value)


def require_deviations(sd: Array, name: str) -> Array:
    """Standard deviations, finite and not negative; zero says that there is no error."""
    bad = ~(np.isfinite(sd) & (sd >= 0))
    if bad.any():
        raise InputError(
            f"must hold finite standard deviations, not negative, got {float(sd[bad][0])!r}",
            parameter=name,
            value=sd,
            remedy="0 is an exact input",
        )
    return sd


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator from anything that scikit-learn accepts as a random state."""
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        random_state = int(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be an integer >= 0, a Generator, a RandomState or None, got {random_state!r}"
        ) from None
