"""How columns become numbers, in model files; messages and notes too."""

from __future__ import annotations

from cavity.frames.coding import Coding
from cavity.frames.columns import Column
from cavity.frames.dates import UNIT
from cavity.frames.notes import Note
from cavity.frames.numbers import READINGS, NumberStyle
from cavity.frames.text import UNITS, TextCode
from cavity.io.records import require, store
from cavity.runtime.errors import InPython, Message, Setting

# --- columns ------------------------------------------------------------------------------------------------


def _check_column(column: Column) -> None:
    numbers = column.levels is None
    if column.text is not None:
        require(column == Column(column.name, text=column.text), "free text is for a string kernel alone")
    dated = numbers and UNIT.fullmatch(column.unit) is not None
    require(column.unit == "" or dated, "the unit of a column must be one of dates")
    different = column.levels is None or list(column.levels) == sorted(set(column.levels)) != []
    require(different, "levels must be different texts")
    kind = float if numbers else str
    suits = column.fill is None or isinstance(column.fill, kind)
    require(suits, "what stands in for a missing value must suit the column")
    require(column.style is None or (numbers and column.unit == ""), "a style is that of numbers")
    filled = numbers and column.fill is not None
    require(not column.flag or filled, "missing values that are marked have a stand-in")


def _check_style(style: NumberStyle) -> None:
    require(style.decimal in READINGS, "numbers are written with a point or a comma")


def _check_text(text: TextCode) -> None:
    require(text.unit in UNITS and text.width > 0, "texts are rows of letters or words")
    require(list(text.known) == sorted(set(text.known)), "letters or words are different")


def _check_coding(coding: Coding) -> None:
    require(len(coding.columns) > 0, "a coding has columns")
    named = {column.name for column in coding.columns} <= set(coding.given)
    require(named, "the columns of a coding are some of those given")


store(TextCode, _check_text)
store(NumberStyle, _check_style)
store(Column, _check_column)
store(Coding, _check_coding)


# --- messages -----------------------------------------------------------------------------------------------


def _check_setting(setting: Setting) -> None:
    plain = all(isinstance(one, str | bool | int | float) for one in setting.values)
    require(plain, "the value of a setting must be text or a number")


store(Setting, _check_setting)
for _kind in (InPython, Message, Note):
    store(_kind)
