"""A table of experiments: a column for each input, one for the outcome; rows may be pending or have failed.

An empty outcome is pending, a word such as "failed", or anything that is no number, is a failure. Other columns are
kept. Rows that cannot be placed in the space (an empty input, a category that is not listed) are named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.design import Categorical, History, Integer, Real, Space
from cavity.design.space import Input
from cavity.frames.coding import similar
from cavity.frames.columns import as_numbers, is_missing, texts_of
from cavity.frames.errors import TableError
from cavity.frames.numbers import NumberStyle, style_of
from cavity.tables.reading import Table

if TYPE_CHECKING:
    import pandas as pd

LIKE_NUMBER = re.compile(r"[-+$€£]?\s*[.,]?\d")
"""What begins like this is meant as a number; words, which may have digits in them, are failures."""

MOST_NAMED = 8
"""Columns that are named if one is not found and none is spelled like it."""

MOST_LEVELS = 20
"""Different words of a column of text that are taken as categories if none are listed."""


@dataclass(frozen=True)
class Experiments:
    """A table as a history.

    Attributes
    ----------
    space : Space
    history : History
        Trials are numbered like the rows of the file.
    notes : tuple of str
        What was decided, in sentences.
    """

    space: Space
    history: History
    notes: tuple[str, ...]


def require_column(frame: pd.DataFrame, name: str) -> None:
    """Refuse a name that is no column, with what is like it."""
    if name in frame:
        return
    columns = [str(column) for column in frame.columns]
    near = similar(name, columns) or columns[:MOST_NAMED]
    there = "there is" if len(near) == 1 else "there are"
    like = f"; {there} {', '.join(map(repr, near))}" if near else ""
    raise TableError(f"there is no column {name!r}{like}")


def read_experiments(
    table: Table,
    outcome: str,
    inputs: Mapping[str, Input],
    *,
    others: Sequence[str] = (),
    constraints: Sequence[str] = (),
) -> Experiments:
    """The space and the history in a table.

    Parameters
    ----------
    outcome : str
        Column of what is optimized.
    inputs : mapping
        Inputs by their columns; if it is empty, every other column is one, with the range or the categories it has.
    others : sequence of str
        Columns of further outcomes.
    constraints : sequence of str
        Linear constraints on inputs.
    """
    frame, notes = table.frame, list(table.notes)
    for name in (outcome, *others, *inputs):
        require_column(frame, name)
    known = dict(inputs) or _inputs_of(table, (outcome, *others), notes)
    space = Space(known, tuple(constraints))
    values = {name: _values(table, name, one) for name, one in known.items()}
    y = _outcomes(table, outcome)
    further = {name: _outcomes(table, name)[0] for name in others}
    history = History()
    outside = 0
    for i, row in enumerate(table.rows):
        x = {name: values[name][i] for name in known}
        if y[1][i] and all(v is None for v in x.values()):
            continue  # an empty line
        try:
            u = space.to_unit(x)
        except ValueError as error:
            raise TableError(f"row {row}: {error}") from None
        outside += bool(np.any((u < -1e-9) | (u > space.high + 1e-9)))
        history = history.with_pending(x, id=int(row))
        if not y[1][i]:
            told = {name: column[i] for name, column in further.items()}
            history = history.completed(int(row), y[0][i], outcomes=told)
    unused = [str(name) for name in frame.columns if name not in {outcome, *others, *known}]
    if unused:
        columns = f"Column {unused[0]} is" if len(unused) == 1 else f"Columns {', '.join(unused)} are"
        notes.append(f"{columns} not used; an input is named by --range or --levels.")
    if outside:
        rows = "row lies" if outside == 1 else "rows lie"
        notes.append(f"{outside} {rows} outside the ranges: used to learn from, never proposed.")
    return Experiments(space, history, tuple(notes))


def _inputs_of(table: Table, outcomes: Sequence[str], notes: list[str]) -> dict[str, Input]:
    """Every column that is no outcome, with the range or the categories that it has."""
    found: dict[str, Input] = {}
    for name in (str(column) for column in table.frame.columns):
        if name in outcomes:
            continue
        column = table.frame[name]
        missing = is_missing(column)
        if missing.all():
            continue
        try:
            numbers = as_numbers(column, table.rows, style_of(f"column {name!r}", texts_of(column)))
        except TableError:
            levels = tuple(dict.fromkeys(str(v) for v in column[~missing]))
            if 2 <= len(levels) <= MOST_LEVELS and len(levels) < np.sum(
                ~missing
            ):  # not the names of the rows
                found[name] = Categorical(levels)
                notes.append(f"{name}: one of {', '.join(levels)}, as in the table.")
            continue
        low, high = float(np.nanmin(numbers)), float(np.nanmax(numbers))
        if low < high:
            found[name] = Real(low, high)
            notes.append(
                f"{name}: from {low:g} to {high:g}, the range in the table; give --range {name}=LOW:HIGH for another."
            )
    if not found:
        raise TableError("no column varies: give inputs by --range NAME=LOW:HIGH or --levels NAME=A,B")
    return found


def _values(table: Table, name: str, one: Input) -> list[Any]:
    """The values of an input in each row; None if it is empty."""
    column = table.frame[name]
    missing = is_missing(column)
    if isinstance(one, Categorical):
        texts = {str(choice): choice for choice in one.choices}
        return [None if gone else texts.get(str(v).strip(), str(v)) for v, gone in zip(column, missing)]
    numbers = as_numbers(column, table.rows, style_of(f"column {name!r}", texts_of(column)))
    return [
        None if gone else (int(v) if isinstance(one, Integer) and v == int(v) else float(v))
        for v, gone in zip(numbers, missing)
    ]


def _outcomes(table: Table, name: str) -> tuple[list[float], NDArray[np.bool_]]:
    """Outcomes of a column, nan if they failed, and which are pending."""
    column = table.frame[name]
    pending = is_missing(column)
    texts = ["" if gone else str(value).strip() for value, gone in zip(column, pending)]
    meant = [(row, text) for row, text in zip(table.rows, texts) if LIKE_NUMBER.match(text)]
    # what Python reads is taken as it is, as in a column without words
    plain = all(_plain(text) is not None for _, text in meant)
    style = None if plain else style_of(f"column {name!r}", [text for _, text in meant])
    if not plain and style is None:
        row, strange = next((row, text) for row, text in meant if _plain(text) is None)
        raise TableError(
            f"row {row}: the {name} {strange!r} is no number",
            remedy="write a number as the others are, leave it empty if it is pending, or write failed",
        )
    return [_number(text, style) for text in texts], pending


def _plain(text: str) -> float | None:
    """The number that Python reads."""
    try:
        return float(text)
    except ValueError:
        return None


def _number(text: str, style: NumberStyle | None) -> float:
    """The number that a text stands for, nan for a failure."""
    if style is not None and LIKE_NUMBER.match(text):
        return style.number(text)
    value = _plain(text)
    return float("nan") if value is None else value
