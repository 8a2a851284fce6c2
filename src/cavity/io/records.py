"""Dataclasses in model files: what a field may hold is what its annotation says.

`store` registers a class by its fields. A file is refused if a field is not of its type, before the object is made; a
check of one's own refuses what annotations cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from cavity.io.errors import ModelFileError
from cavity.io.registry import Codec, add


def store(
    kind: type[Any],
    check: Callable[[Any], None] | None = None,
    *,
    name: str = "",
    without: tuple[str, ...] = (),
    known: Mapping[str, Any] | None = None,
) -> None:
    """Register a dataclass by its fields.

    Parameters
    ----------
    kind : dataclass
        Its fields may be annotated with texts, numbers, truth values, arrays of numbers, enumerations (stored by
        their values), registered classes, and unions, lists and tuples of all these. A whole number is a count.
    check : callable, optional
        Called with the object that a file made.
    name : str, optional
        In files; that of the class by default.
    without : tuple of str
        Fields that are not stored.
    known : mapping of str to type, optional
        What annotations name and the module of the class does not import.
    """
    hints = get_type_hints(kind, localns=known)
    names = [field.name for field in fields(kind) if field.name not in without]

    def listed(value: Any) -> Mapping[str, Any]:
        return {field: _plain(getattr(value, field)) for field in names}

    def build(**stored: Any) -> Any:
        made = kind(**_checked(stored, hints, f" of {kind.__name__}"))
        if check is not None:
            check(made)
        return made

    add(Codec(name or kind.__name__, kind, listed, build))


def typed(build: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, for values from a file: those that are not of its annotated types are refused."""
    hints = get_type_hints(build)
    return lambda *given, **stored: build(*given, **_checked(stored, hints))


def require(condition: bool, message: str) -> None:
    """Refuse a file for a reason."""
    if not condition:
        raise ModelFileError(message)


def is_array(value: Any, dimensions: int | None = None) -> bool:
    """Whether a value is an array of floating-point numbers."""
    right = isinstance(value, np.ndarray) and value.dtype == np.float64
    return right and (dimensions is None or value.ndim == dimensions)


def is_float(value: Any) -> bool:
    """Whether a value is a number, finite or not."""
    return isinstance(value, float | int) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether a value from a file is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def fits(value: Any, hint: Any) -> bool:
    """Whether a value from a file is of an annotated type."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in args)
    if origin is tuple and args[1:] != (...,):
        return isinstance(value, tuple) and len(value) == len(args) and all(map(fits, value, args))
    if origin in (tuple, list):
        return isinstance(value, origin) and all(fits(item, args[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(item, args[1]) for item in value.values())
    if origin is np.ndarray:
        kind = get_args(args[1])[0]
        return isinstance(value, np.ndarray) and (kind is Any or np.issubdtype(value.dtype, kind))
    known: dict[Any, Callable[[Any], bool]] = {int: is_count, float: is_float}
    return known[hint](value) if hint in known else isinstance(value, origin or hint)


def words_of(hint: Any) -> str:
    """A type in words."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(words_of(one) for one in args)
    if origin in (tuple, list):
        return f"a {origin.__name__} of {', '.join(words_of(one) for one in args if one is not ...)}"
    if origin is np.ndarray:
        return f"an array of {get_args(args[1])[0].__name__}"
    words: dict[Any, str] = {
        int: "a count",
        float: "a number",
        str: "a text",
        bool: "true or false",
        type(None): "nothing",
        dict: "a table",
    }
    return words.get(origin or hint, getattr(origin or hint, "__name__", str(hint)))


def _checked(stored: Mapping[str, Any], hints: Mapping[str, Any], owner: str = "") -> dict[str, Any]:
    """Fields from a file as they are annotated, refused if they are not."""
    given = {name: _read(value, hints.get(name, Any)) for name, value in stored.items()}
    for name, value in given.items():
        hint = hints.get(name, Any)
        require(fits(value, hint), f"{name}{owner} must be {words_of(hint)}")
    return given


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _read(value: Any, hint: Any) -> Any:
    """An enumeration from its value, if the field holds one."""
    for kind in get_args(hint) or (hint,):
        if isinstance(kind, type) and issubclass(kind, Enum) and value is not None:
            return kind(value)
    return value
