"""Values as JSON and arrays, and back.

JSON has no tuples, no infinities, no arrays and no objects of ours. These are written as objects with one key:

    {"tuple": [...]}      {"number": "inf" | "-inf" | "nan"}      {"dict": [[key, value], ...]}
    {"array": 3}          the array number 3 of the archive
    {"values": [...]}     a small array of floating-point numbers in place
    {"objects": [...]}    an array of Python texts and numbers, such as column names
    {"function": "name"}  a registered function
    {"part": "kernels.SE", "with": {"lengthscale": ...}}    a registered class and its arguments

Python writes and reads floating-point numbers in JSON exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.io.archive import KINDS
from cavity.io.errors import ModelFileError
from cavity.io.registry import codec_named, codec_of, function_name, function_named
from cavity.parameters.param import Parametrized

INLINE = 16
"""Elements up to which an array of numbers is written in place, where it can be read."""

NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}

PLAIN = (str, int, float, bool, type(None))


class Writer:
    """Turns values into JSON and collects arrays; an array that appears twice is stored once."""

    def __init__(self) -> None:
        self.arrays: list[NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def tree(self, value: Any, where: str) -> Any:
        """JSON for a value; `where` names it in errors."""
        if value is None or isinstance(value, bool | str | int):
            return value
        if isinstance(value, float | np.floating):
            number = float(value)
            return number if math.isfinite(number) else {"number": str(number)}
        if isinstance(value, np.bool_ | np.integer):
            return value.item()
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, list):
            return [self.tree(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.tree(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict:
            pairs = [[self.tree(k, where), self.tree(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> Any:
        codec = codec_of(value)
        if codec is not None:
            fields = codec.arguments(value)
            return {
                "part": codec.name,
                "with": {name: self.tree(field, f"{where}.{name}") for name, field in fields.items()},
            }
        if callable(value) and not isinstance(value, type | Parametrized):
            name = function_name(value)
            if name is not None:
                return {"function": name}
            shown = getattr(value, "__name__", None) or repr(value)
            raise ModelFileError(
                f"{where} is the function {shown}, and a model file holds no code: give it a name with "
                "cavity.io.register(function, 'name'), here and wherever the file is loaded, or pickle the model"
            )
        if isinstance(value, np.random.Generator | np.random.RandomState):
            raise ModelFileError(
                f"{where} is a random number generator, which is not stored; "
                "use set_params(random_state=None) or a seed before saving"
            )
        kind = type(value).__name__
        raise ModelFileError(
            f"{where} is a {kind}, which model files do not know: register the class with "
            f"cavity.io.register({kind}), here and wherever the file is loaded, or pickle the model"
        )

    def _array(self, array: NDArray[Any], where: str) -> Any:
        if array.dtype == object:
            items = array.ravel().tolist()
            if array.ndim != 1 or not all(isinstance(item, PLAIN) for item in items):
                raise ModelFileError(f"{where} is an array of objects other than text and numbers")
            return {"objects": [self.tree(item, where) for item in items]}
        if array.dtype.kind not in KINDS:
            raise ModelFileError(f"{where} is an array of type {array.dtype}, which is not stored")
        if array.dtype == np.float64 and 1 <= array.size <= INLINE and np.isfinite(array).all():
            return {"values": array.tolist()}
        if id(array) not in self._numbers:
            self._numbers[id(array)] = len(self.arrays)
            self.arrays.append(array)  # held here, so that its id stays its own
        return {"array": self._numbers[id(array)]}


class Reader:
    """Turns JSON and arrays back into values."""

    def __init__(self, arrays: dict[int, NDArray[Any]]) -> None:
        self.arrays = arrays

    def value(self, tree: Any, where: str) -> Any:
        """The value that a piece of JSON describes."""
        if isinstance(tree, list):
            return [self.value(item, f"{where}[{i}]") for i, item in enumerate(tree)]
        if not isinstance(tree, dict):
            return tree
        keys = set(tree)
        if keys == {"part", "with"}:
            return self._part(tree, where)
        if len(keys) == 1:
            (key,) = keys
            reading = getattr(self, f"_{key}", None) if key in self.FORMS else None
            if reading is not None:
                return reading(tree[key], where)
        raise ModelFileError(f"{where} is not a value that model files have: keys {sorted(keys)[:5]}")

    FORMS = ("tuple", "number", "dict", "array", "values", "objects", "function")

    def _part(self, tree: dict[str, Any], where: str) -> Any:
        name, given = tree["part"], tree["with"]
        if not isinstance(name, str) or not isinstance(given, dict):
            raise ModelFileError(f"{where} does not say what it is")
        codec = codec_named(name)
        fields = {key: self.value(item, f"{where}.{key}") for key, item in given.items()}
        starred = fields.pop("*", [])
        if not isinstance(starred, list):
            raise ModelFileError(f"{where}.* must be a list")
        try:
            return codec.build(*starred, **fields)
        except ModelFileError:
            raise
        except Exception as error:
            # Whatever a constructor has against wrong arguments, the file is at fault.
            raise ModelFileError(f"{where} ({name}) cannot be made: {describe(error)}") from error

    def _tuple(self, items: Any, where: str) -> tuple[Any, ...]:
        return tuple(self.value(_list(items, where), where))

    def _number(self, text: Any, where: str) -> float:
        if not isinstance(text, str) or text not in NUMBERS:
            raise ModelFileError(f"{where} is not a number")
        return NUMBERS[text]

    def _dict(self, pairs: Any, where: str) -> dict[Any, Any]:
        found = {}
        for pair in _list(pairs, where):
            if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], PLAIN):
                raise ModelFileError(f"{where} is not a table of keys and values")
            found[pair[0]] = self.value(pair[1], f"{where}[{pair[0]!r}]")
        return found

    def _array(self, number: Any, where: str) -> NDArray[Any]:
        if isinstance(number, bool) or not isinstance(number, int) or number not in self.arrays:
            raise ModelFileError(f"{where} refers to array {str(number)[:40]}, which the file does not have")
        return self.arrays[number]

    def _values(self, nested: Any, where: str) -> NDArray[np.float64]:
        _check_numbers(nested, where)
        try:
            return np.array(nested, dtype=float)
        except (ValueError, OverflowError):
            raise ModelFileError(f"{where} is not an array of numbers") from None

    def _objects(self, items: Any, where: str) -> NDArray[Any]:
        values = [self.value(item, where) for item in _list(items, where)]
        if not all(isinstance(item, PLAIN) for item in values):
            raise ModelFileError(f"{where} may hold text and numbers only")
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array

    def _function(self, name: Any, where: str) -> Any:
        if not isinstance(name, str):
            raise ModelFileError(f"{where} does not name a function")
        return function_named(name)


def _list(items: Any, where: str) -> list[Any]:
    if not isinstance(items, list):
        raise ModelFileError(f"{where} must be a list, got {type(items).__name__}")
    return items


def _check_numbers(nested: Any, where: str) -> None:
    if isinstance(nested, list):
        for item in nested:
            _check_numbers(item, where)
    elif isinstance(nested, bool) or not isinstance(nested, int | float):
        raise ModelFileError(f"{where} is not an array of numbers")


def describe(error: BaseException) -> str:
    """An error in one line."""
    text = " ".join(str(error).split())
    return text[:300] if text else type(error).__name__
