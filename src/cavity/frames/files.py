"""How columns become numbers, in model files; messages and notes too."""

from __future__ import annotations

from typing import Any

from cavity.frames.coding import Coding
from cavity.frames.columns import Column
from cavity.frames.dates import UNIT, DateOrder
from cavity.frames.notes import Level, Note
from cavity.frames.numbers import READINGS, NumberStyle
from cavity.frames.text import UNITS, TextCode
from cavity.io.posterior import require
from cavity.io.registry import Codec, add
from cavity.runtime.errors import InPython, Message, Setting


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


def is_count(value: Any) -> bool:
    """Whether a value from a file is a whole number that is not negative."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def all_of(kind: type, value: Any) -> bool:
    """Whether a value from a file is a tuple of things of one kind."""
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


# --- columns ------------------------------------------------------------------------------------------------


def _style(decimal: Any, percent: Any) -> NumberStyle:
    require(decimal in READINGS and isinstance(percent, bool), "numbers are written with a point or a comma")
    return NumberStyle(decimal, percent)


def _column(
    name: Any,
    levels: Any,
    codes: Any,
    fill: Any,
    unit: Any = "",
    style: Any = None,
    flag: Any = False,
    text: Any = None,
    order: Any = DateOrder.YEAR_FIRST.value,
) -> Column:
    require(isinstance(name, str) and isinstance(codes, bool), "a column has a name")
    if text is not None:
        plain = (
            levels is None and fill is None and style is None and (codes, unit, flag) == (False, "", False)
        )
        require(isinstance(text, TextCode) and plain, "free text is for a string kernel alone")
        return Column(name, text=text)
    dated = isinstance(unit, str) and levels is None and UNIT.fullmatch(unit) is not None
    require(unit == "" or dated, "the unit of a column must be one of dates")
    texts = isinstance(levels, tuple) and len(levels) >= 1 and all(isinstance(level, str) for level in levels)
    require(
        levels is None or (texts and list(levels) == sorted(set(levels))), "levels must be different texts"
    )
    kind = float if levels is None else str
    require(fill is None or isinstance(fill, kind), "what stands in for a missing value must suit the column")
    plain = levels is None and unit == ""
    require(style is None or (plain and isinstance(style, NumberStyle)), "a style is that of numbers")
    filled = levels is None and fill is not None
    require(isinstance(flag, bool) and (not flag or filled), "missing values that are marked have a stand-in")
    written = {one.value: one for one in DateOrder}
    require(order in written, "dates are written in some order")
    return Column(name, levels, codes, fill, unit, style, flag, order=written[order])


def _coding(given: Any, columns: Any, notes: Any) -> Coding:
    require(
        all_of(Column, columns) and len(columns) > 0 and all_of(Note, notes), "a coding has columns and notes"
    )
    named = all_of(str, given) and {column.name for column in columns} <= set(given)
    require(named, "the columns of a coding are some of those given")
    return Coding(given, columns, notes)


def _text(unit: Any, width: Any, known: Any, empty: Any) -> TextCode:
    require(unit in UNITS and is_count(width) and width > 0, "texts are rows of letters or words")
    require(all_of(str, known) and list(known) == sorted(set(known)), "letters or words are different")
    require(isinstance(empty, bool), "texts are empty or not")
    return TextCode(unit, width, known, empty)


add(Codec("TextCode", TextCode, _fields("unit", "width", "known", "empty"), _text))
add(Codec("NumberStyle", NumberStyle, _fields("decimal", "percent"), _style))
_COLUMN = _fields("name", "levels", "codes", "fill", "unit", "style", "flag", "text")
add(Codec("Column", Column, lambda column: {**_COLUMN(column), "order": column.order.value}, _column))
add(Codec("Coding", Coding, _fields("given", "columns", "notes"), _coding))


# --- messages -----------------------------------------------------------------------------------------------


def _are_parts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, str | Setting | InPython) for part in value)


def _setting(parameter: Any, value: Any, code: Any) -> Setting:
    require(isinstance(parameter, str) and isinstance(code, str), "a setting names an argument")
    values = value if isinstance(value, tuple) else (value,)
    plain = all(one is None or isinstance(one, str | bool | int | float) for one in values)
    require(plain, "the value of a setting must be text or a number")
    return Setting(parameter, value, code)


def _in_python(text: Any) -> InPython:
    require(isinstance(text, str), "words must be text")
    return InPython(text)


def _message(problem: Any, parameter: Any, row: Any, number: Any, remedy: Any) -> Message:
    require(_are_parts(problem) and _are_parts(remedy), "a message is made of words")
    counts = all(one is None or is_count(one) for one in (row, number))
    require(isinstance(parameter, str) and counts, "a message names an argument and a row")
    return Message(problem, parameter, row, number, remedy)


def _note(parts: Any, level: Any) -> Note:
    require(_are_parts(parts), "a note is made of words")
    return Note(parts, Level(level))


add(Codec("Setting", Setting, _fields("parameter", "value", "code"), _setting))
add(Codec("InPython", InPython, _fields("text"), _in_python))
add(Codec("Message", Message, _fields("problem", "parameter", "row", "number", "remedy"), _message))
add(Codec("Note", Note, lambda note: {"parts": note.parts, "level": note.level.value}, _note))
