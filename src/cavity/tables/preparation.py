"""How a table becomes inputs X and targets y: decided once, from the data of the fit, and remembered.

Every decision is a sentence in `Preparation.notes`. The same preparation turns new tables into X: columns are matched
by name in any order, categories keep their codes, missing values get the same stand-ins.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.errors import Part, Setting, Text
from cavity.tables.columns import (
    MAX_LEVELS,
    MISSING_LEVEL,
    Column,
    as_numbers,
    as_text,
    is_missing,
    looks_like_dates,
    looks_like_identifier,
    refuse_dressed,
    refuse_extreme,
    try_numbers,
)
from cavity.tables.dates import YEARS, are_dates, as_times, in_unit, unit_of
from cavity.tables.formatting import counted
from cavity.tables.notes import Level, Note
from cavity.tables.reading import Table, TableError

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("regression", "classification")
ENCODINGS = ("one-hot", "kernel")

FEWEST_ROWS = 3
"""Rows that a model needs."""

FEW_VALUES = 10
"""Whole numbers with at most so many different values may be classes; the user is told."""

SHOWN = 8
"""Names or rows listed in a sentence."""


@dataclass(frozen=True)
class Preparation:
    """How a table becomes X and y.

    Attributes
    ----------
    target : str
    task : {"regression", "classification"}
    columns : tuple of Column
        Inputs, in the order of X.
    ignored : tuple of str
        Columns of the table that are not used: dropped or constant.
    numeric_labels : bool
        Whether class labels are numbers.
    notes : tuple of Note
        What was decided, in sentences.
    """

    target: str
    task: str
    columns: tuple[Column, ...]
    ignored: tuple[str, ...] = ()
    numeric_labels: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the columns of X."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def units(self) -> dict[str, str]:
        """What columns of X that were dates are measured in."""
        return {column.name: column.unit for column in self.columns if column.unit}

    @property
    def kernel(self) -> str | None:
        """Text of a kernel that suits the inputs; None where the estimator's own default does."""
        coded = [(i, c) for i, c in enumerate(self.columns) if c.codes]
        if not coded:
            return None
        plain = [i for i, c in enumerate(self.columns) if not c.codes]
        factors = [f"SE(ard).on({plain})"] if plain else []
        factors += [f"Categorical({len(c.levels or ())}).on([{i}])" for i, c in coded]
        return f"1.0 * {' * '.join(factors)}"

    # --- new tables -----------------------------------------------------------------------------------------

    def inputs(self, frame: pd.DataFrame, rows: NDArray[np.intp] | None = None) -> pd.DataFrame:
        """X for a table, with named columns; columns are matched by name, in any order.

        Raises
        ------
        TableError
            Naming columns that are missing, values that are missing, levels that are new.
        """
        import pandas as pd

        rows = np.arange(1, len(frame) + 1) if rows is None else rows
        self._require_columns(frame)
        self._require_values(frame)
        parts = [column.encode(frame[column.name], rows) for column in self.columns]
        return pd.DataFrame(np.hstack(parts), columns=self.features)

    def targets(self, frame: pd.DataFrame, rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """y for a table that has the target."""
        rows = np.arange(1, len(frame) + 1) if rows is None else rows
        if self.target not in frame.columns:
            raise TableError(
                f"there is no column {self.target!r}, the target; the columns are {_listed(frame.columns)}"
            )
        values = frame[self.target]
        _require_complete_target(values, rows)
        if self.task == "classification" and not self.numeric_labels:
            return as_text(values)
        numbers = as_numbers(values, rows)
        whole = self.numeric_labels and bool((numbers == np.round(numbers)).all())
        return numbers.astype(np.int64) if whole else numbers

    def unknown(self, frame: pd.DataFrame) -> list[str]:
        """Columns of a table that the data of the fit did not have."""
        known = {self.target, *self.ignored, *(c.name for c in self.columns)}
        return [str(name) for name in frame.columns if str(name) not in known]

    def _require_columns(self, frame: pd.DataFrame) -> None:
        present = [str(name) for name in frame.columns]
        missing = [c.name for c in self.columns if c.name not in present]
        if not missing:
            return
        unknown = self.unknown(frame)
        close = {name: _similar(name, unknown) for name in missing}
        hints = [f"{found[0]!r} may be {name!r}" for name, found in close.items() if found]
        extra = f"; unknown columns: {_listed(unknown)}" if unknown else ""
        hint = f" ({'; '.join(hints)})" if hints else ""
        raise TableError(
            f"the table lacks {counted(len(missing), 'column')}: {_listed(missing)}{extra}{hint}"
        )

    def _require_values(self, frame: pd.DataFrame) -> None:
        def missing(columns: list[Column]) -> dict[str, int]:
            return {c.name: int(is_missing(frame[c.name]).sum()) for c in columns}

        _refuse_missing(
            missing([c for c in self.columns if c.fill is None]),
            (
                "the model was fitted without a stand-in for them: complete the rows, or fit again with ",
                Setting("impute", "median"),
            ),
        )
        _refuse_missing(
            missing([c for c in self.columns if c.fill is not None and not c.takes_missing]),
            (
                "no text was missing there when the model was fitted, so that it cannot know what that means: complete "
                "the rows, or fit again without the column (",
                Setting("drop"),
                ")",
            ),
        )


# --- deciding -----------------------------------------------------------------------------------------------


def prepare(
    table: Table,
    target: str,
    *,
    drop: Sequence[str] = (),
    task: str | None = None,
    impute: str | None = None,
    categories: str = "one-hot",
) -> tuple[Preparation, pd.DataFrame, NDArray[Any]]:
    """Decide what the columns of a table mean, and turn it into inputs and targets.

    Parameters
    ----------
    table : Table
    target : str
        Column to predict.
    drop : sequence of str
        Columns to leave out.
    task : {"regression", "classification"}, optional
        Read off the target by default.
    impute : {"median"}, optional
        Fill in missing inputs: numbers by the median of their column, text by a level of its own. By default missing
        values are refused.
    categories : {"one-hot", "kernel"}
        Text as 0/1 columns, or as codes for the categorical kernel.

    Returns
    -------
    preparation : Preparation
    X : DataFrame (n, D) of floats
    y : array (n,) of floats or labels
    """
    frame = table.frame
    if len(frame) < FEWEST_ROWS:
        raise TableError(f"the table has {counted(len(frame), 'row')}; a model needs at least {FEWEST_ROWS}")
    _check_options(frame, target, drop, task, impute, categories)
    task, numeric_labels, notes = _task(frame[target], table.rows, target, task)
    ignored = list(dict.fromkeys(str(name) for name in drop))
    columns: list[Column] = []
    missing: dict[str, int] = {}
    for name in map(str, frame.columns):
        if name == target or name in ignored:
            continue
        missing[name] = int(is_missing(frame[name]).sum())
        column, sentences = _column(name, frame[name], table.rows, impute, categories)
        notes += sentences
        if column is None:
            ignored.append(name)
            missing.pop(name)
        else:
            columns.append(column)
    if not columns:
        raise TableError("no input columns are left: all others are the target, dropped or constant")
    if impute is None:
        remedy = ("use ", Setting("impute", "median"), " to fill them in, or complete the rows")
        _refuse_missing(missing, remedy)
    _refuse_equal_names(columns)
    if drop:
        notes.append(_note(f"Left out as asked: {_listed(drop)}."))
    made = Preparation(target, task, tuple(columns), tuple(ignored), numeric_labels, tuple(notes))
    return made, made.inputs(frame, table.rows), made.targets(frame, table.rows)


def _refuse_equal_names(columns: Sequence[Column]) -> None:
    """Refuse a column that is called like a 0/1 column of another."""
    owner: dict[str, str] = {}
    for column in sorted(columns, key=lambda c: c.levels is None):  # numbers last: they are easier to rename
        for feature in column.features:
            if feature in owner:
                raise TableError(
                    f"column {column.name!r} and a level of column {owner[feature]!r} would both become the input "
                    f"{feature!r}; rename the column {column.name!r}"
                )
            owner[feature] = column.name


def _check_options(
    frame: pd.DataFrame,
    target: str,
    drop: Sequence[str],
    task: str | None,
    impute: str | None,
    categories: str,
) -> None:
    names = [str(name) for name in frame.columns]
    for name, what in [(target, "the target"), *((d, "to drop") for d in drop)]:
        if name not in names:
            close = _similar(name, names)
            hint = f"did you mean {close[0]!r}? " if close else ""
            headless = all(_is_number(other) for other in names)
            remedy = "; the first row must hold names, and here it holds numbers" if headless else ""
            if len(names) == 1 and " " in names[0]:
                remedy = "; commas, semicolons, tabs or bars separate cells; where it is blanks, call the file .txt"
            raise TableError(
                f"there is no column {name!r} ({what}); {hint}the columns are {_listed(names)}{remedy}"
            )
    if target in drop:
        raise TableError(f"{target!r} is the target and cannot be dropped")
    if task not in (None, *TASKS):
        raise TableError(f"must be one of {', '.join(TASKS)}, got {task!r}", parameter="task", value=task)
    if impute not in (None, "median"):
        problem = f"must be 'median' or left out, got {impute!r}"
        raise TableError(problem, parameter="impute", value=impute)
    if categories not in ENCODINGS:
        problem = f"must be one of {', '.join(ENCODINGS)}, got {categories!r}"
        raise TableError(problem, parameter="categories", value=categories)


def _task(
    values: pd.Series, rows: NDArray[np.intp], target: str, wanted: str | None
) -> tuple[str, bool, list[Note]]:
    """Regression or classification, whether labels are numbers, and why."""
    _require_complete_target(values, rows)
    numbers = try_numbers(values)
    truth = values.dtype == bool or not any(_is_number(v) for v in values)  # yes/no are labels, not numbers
    if np.isnan(numbers).any() or truth:
        return _text_task(values, numbers, rows, target, wanted)
    refuse_extreme(f"the target {target!r}", as_numbers(values, rows))
    distinct = np.unique(numbers)
    whole = bool((distinct == np.round(distinct)).all())
    if wanted == "classification" or (wanted is None and len(distinct) == 2 and whole):
        if len(distinct) < 2:
            raise TableError(
                f"the target {target!r} has one value only, {distinct[0]:g}: there is nothing to tell apart"
            )
        if len(distinct) > max(MAX_LEVELS, 2) and not whole:
            raise TableError(
                f"the target {target!r} has {len(distinct)} different numbers, which are not classes"
            )
        shown = _listed([f"{v:g}" for v in distinct], quote=False)
        why = "as asked" if wanted else "the target has two different whole numbers"
        return (
            "classification",
            True,
            [_note(f"Classification ({why}): {target!r} has {len(distinct)} classes, {shown}.")],
        )
    if len(distinct) < 2:
        raise TableError(
            f"the target {target!r} is the same in all rows, {distinct[0]:g}: there is nothing to learn"
        )
    why = "as asked" if wanted else "the target is numeric"
    told: list[Part] = [f"Regression ({why}): {target!r} has {len(distinct)} different values."]
    if wanted is None and whole and len(distinct) <= FEW_VALUES:
        told += [" If these are classes, ask for ", Setting("task", "classification"), "."]
    return "regression", False, [_note(*told)]


def _note(*parts: Part) -> Note:
    return Note(parts)


def _text_task(
    values: pd.Series, numbers: Array, rows: NDArray[np.intp], target: str, wanted: str | None
) -> tuple[str, bool, list[Note]]:
    if wanted == "regression" or (np.mean(~np.isnan(numbers)) > 0.5 and any(_is_number(v) for v in values)):
        as_numbers(values, rows)  # says where the first text is
        if wanted == "regression":
            return (
                "regression",
                False,
                [_note(f"Regression (as asked): {target!r} is true or false, taken as 1 and 0.")],
            )
    if looks_like_dates(values):
        raise TableError(
            f"the target {target!r} holds dates, which can be neither classes nor numbers; convert it first"
        )
    refuse_dressed(f"the target {target!r}", values)
    labels = np.unique(as_text(values))
    if len(labels) < 2:
        raise TableError(
            f"the target {target!r} has one class only, {labels[0]!r}: there is nothing to tell apart"
        )
    if len(labels) > MAX_LEVELS and len(labels) > len(values) / 4:
        raise TableError(
            f"the target {target!r} has {len(labels)} different texts in {len(values)} rows, which are not classes"
        )
    why = "as asked" if wanted else "the target is text"
    return (
        "classification",
        False,
        [_note(f"Classification ({why}): {target!r} has {len(labels)} classes, {_listed(labels)}.")],
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, bool | np.bool_)


def _require_complete_target(values: pd.Series, rows: NDArray[np.intp]) -> None:
    gone = is_missing(values)
    if gone.any():
        shown = _listed([str(r) for r in rows[gone]], quote=False)
        raise TableError(
            f"the target {str(values.name)!r} is missing in {counted(int(gone.sum()), 'row')} ({shown}); "
            "leave these rows out"
        )


def _column(
    name: str, values: pd.Series, rows: NDArray[np.intp], impute: str | None, categories: str
) -> tuple[Column | None, list[Note]]:
    """What an input column is, and what is said about it; None where it is not used."""
    present = ~is_missing(values)
    if not present.any():
        return None, [_note(f"Column {name!r} is empty and was left out.")]
    numbers = try_numbers(values)
    known = ~np.isnan(numbers) & present
    if known.sum() == present.sum():
        return _numeric(name, values, rows, numbers, impute)
    if are_dates(values[present]):
        return _dates(name, values, rows, impute)
    if looks_like_dates(values):
        raise TableError(
            f"column {name!r} holds dates or times, such as {str(values[present].iloc[0])!r}",
            remedy=(
                "write dates year first, as 2024-03-05, spans of time as numbers, or leave the column out with ",
                _drop(name),
            ),
        )
    if known.sum() > present.sum() / 2:
        first = int(np.argmax(present & ~known))
        raise TableError(
            f"column {name!r} holds numbers, except {str(values.iloc[first])!r} in row {rows[first]}; correct it, or "
            "leave the cell empty"
        )
    return _categorical(name, values, present, impute, categories)


def _numeric(
    name: str, values: pd.Series, rows: NDArray[np.intp], numbers: Array, impute: str | None
) -> tuple[Column | None, list[Note]]:
    checked = as_numbers(values, rows)
    refuse_extreme(f"column {name!r}", checked)
    distinct = np.unique(checked[~np.isnan(checked)])
    count = int(np.isnan(checked).sum())
    if len(distinct) == 1 and not count:
        return None, [_note(f"Column {name!r} is constant ({distinct[0]:g}) and was left out.")]
    notes = []
    if looks_like_identifier(name, checked):
        counts = f"column {name!r} looks like an identifier that counts rows; leave it out with "
        notes.append(Note((counts, _drop(name), "."), Level.WARNING))
    fill = float(np.nanmedian(checked)) if impute == "median" else None
    if count and fill is not None:
        filled = f"Column {name!r}: {counted(count, 'missing value')} filled in by the median, {fill:g}."
        notes.append(_note(filled))
    return Column(name, fill=fill), notes


def _dates(
    name: str, values: pd.Series, rows: NDArray[np.intp], impute: str | None
) -> tuple[Column | None, list[Note]]:
    missing = is_missing(values)
    times = as_times(values, missing, rows)
    if not missing.any() and len(np.unique(times)) == 1:
        return None, [_note(f"Column {name!r} is constant ({str(values.iloc[0])!r}) and was left out.")]
    unit = unit_of(times)
    measured = "years with their fraction" if unit == YEARS else unit
    notes = [_note(f"Column {name!r} holds dates: {measured}.")]
    fill = float(np.nanmedian(in_unit(times, unit))) if impute == "median" else None
    if missing.any() and fill is not None:
        count = counted(int(missing.sum()), "missing value")
        notes.append(_note(f"Column {name!r}: {count} filled in by the median, {fill:g}."))
    return Column(name, fill=fill, unit=unit), notes


def _categorical(
    name: str, values: pd.Series, present: NDArray[np.bool_], impute: str | None, categories: str
) -> tuple[Column | None, list[Note]]:
    refuse_dressed(f"column {name!r}", values)
    levels = np.unique(as_text(values)[present])
    if len(levels) > MAX_LEVELS:
        example = str(values[present].iloc[0])
        raise TableError(
            f"column {name!r} is text with {len(levels)} different values, such as {example!r}: an identifier or "
            "free text cannot be used",
            remedy=(
                "leave it out with ",
                _drop(name),
                f", or group its values into at most {MAX_LEVELS}",
            ),
        )
    count, fill = int((~present).sum()), None
    if impute == "median":
        fill = MISSING_LEVEL
        if count:
            levels = np.unique(np.append(levels, MISSING_LEVEL))
    if len(levels) == 1 and not count:
        return None, [_note(f"Column {name!r} is constant ({levels[0]!r}) and was left out.")]
    coded = categories == "kernel"
    column = Column(name, tuple(str(level) for level in levels), coded, fill)
    how = (
        "codes for the categorical kernel"
        if coded
        else f"{counted(len(column.features), '0/1 column')} (one-hot)"
    )
    notes = [_note(f"Column {name!r} is text with {len(levels)} levels, {_listed(levels)}: {how}.")]
    if count and fill is not None:
        missing = counted(count, "missing value")
        notes.append(_note(f"Column {name!r}: {missing} became a level of their own, {fill}."))
    return column, notes


# --- sentences ----------------------------------------------------------------------------------------------


def _refuse_missing(counts: dict[str, int], remedy: Text) -> None:
    found = {name: count for name, count in counts.items() if count}
    if not found:
        return
    listed = ", ".join(f"{name} ({count})" for name, count in list(found.items())[:SHOWN])
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    missing = f"values are missing in {counted(len(found), 'column')}: {listed}{more}"
    raise TableError(missing, remedy=remedy)


def _drop(name: str) -> Setting:
    """What leaves a column out."""
    return Setting("drop", name, f"drop=[{name!r}]")


def _similar(name: str, names: Sequence[str]) -> list[str]:
    """A name that may have been meant: one in other letters first, then one that is spelled alike."""
    return [n for n in names if n.lower() == name.lower()][:1] or difflib.get_close_matches(name, names, n=1)


def _listed(names: Any, quote: bool = True) -> str:
    every = [repr(str(name)) if quote else str(name) for name in names]
    return ", ".join(every[:SHOWN]) + (f" and {len(every) - SHOWN} more" if len(every) > SHOWN else "")
