"""How a table becomes inputs X and targets y: decided once, from the data of the fit, and remembered.

Every decision is a sentence in `Preparation.notes`. The same preparation turns new tables into X: columns are matched
by name in any order, categories keep their codes, missing values get the same stand-ins (`cavity.frames.coding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.coding import MAX_LEVELS, Coding, Decider, note, similar, style_note
from cavity.frames.columns import (
    Column,
    News,
    as_numbers,
    as_text,
    is_missing,
    looks_like_dates,
    refuse_extreme,
    texts_of,
    try_numbers,
)
from cavity.frames.errors import Problems, TableError
from cavity.frames.notes import Note
from cavity.frames.numbers import NumberStyle, style_of
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Part, Setting
from cavity.runtime.sentences import counted, listed
from cavity.tables.reading import Table

if TYPE_CHECKING:
    import pandas as pd

TASKS = ("regression", "classification")
ENCODINGS = ("one-hot", "kernel")
IMPUTATIONS = ("median", "none")

FEWEST_ROWS = 3
"""Rows that a model needs."""

FEW_VALUES = 10
"""Whole numbers with at most so many different values may be classes; the user is told."""


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
        Columns of the table that are not used: dropped, constant, or of no use.
    numeric_labels : bool
        Whether class labels are numbers.
    notes : tuple of Note
        What was decided, in sentences.
    target_style : NumberStyle or None
        How the target is written, if its numbers are no plain ones.
    """

    target: str
    task: str
    columns: tuple[Column, ...]
    ignored: tuple[str, ...] = ()
    numeric_labels: bool = False
    notes: tuple[Note, ...] = ()
    target_style: NumberStyle | None = None

    @property
    def coding(self) -> Coding:
        """How the inputs are made."""
        return Coding((*self.ignored, *(c.name for c in self.columns)), self.columns)

    @property
    def features(self) -> list[str]:
        """Names of the columns of X."""
        return self.coding.features

    @property
    def units(self) -> dict[str, str]:
        """What columns of X that were dates are measured in."""
        return self.coding.units

    @property
    def kernel(self) -> str | None:
        """Text of a kernel that suits the inputs; None where the estimator's own default does."""
        return self.coding.kernel

    # --- new tables -----------------------------------------------------------------------------------------

    def inputs(self, frame: pd.DataFrame, rows: NDArray[np.intp] | None = None) -> pd.DataFrame:
        """X for a table, with named columns; columns are matched by name, in any order.

        Raises
        ------
        TableError
            Naming columns that are missing, values that are missing or no numbers.
        """
        import pandas as pd

        self.require_columns(frame)
        return pd.DataFrame(self.coding.encode(frame, rows), columns=self.features)

    def targets(self, frame: pd.DataFrame, rows: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """y for a table that has the target."""
        rows = np.arange(1, len(frame) + 1) if rows is None else rows
        if self.target not in frame.columns:
            raise TableError(
                f"there is no column {self.target!r}, the target; the columns are {listed(frame.columns)}"
            )
        values = frame[self.target]
        _require_complete_target(values, rows)
        if self.task == "classification" and not self.numeric_labels:
            return as_text(values)
        numbers = as_numbers(values, rows, self.target_style)
        whole = self.numeric_labels and bool((numbers == np.round(numbers)).all())
        return numbers.astype(np.int64) if whole else numbers

    def news(self, frame: pd.DataFrame) -> list[News]:
        """What a new table has that the data of the fit had not, for each column."""
        return self.coding.news(frame)

    def unknown(self, frame: pd.DataFrame) -> list[str]:
        """Columns of a table that the data of the fit did not have."""
        return self.coding.unknown(frame, [self.target])

    def require_columns(self, frame: pd.DataFrame) -> None:
        """Refuse a table that lacks columns of the fit."""
        self.coding.require_columns(frame, [self.target])


# --- deciding -----------------------------------------------------------------------------------------------


def prepare(
    table: Table,
    target: str,
    *,
    drop: Sequence[str] = (),
    task: str | None = None,
    impute: str = "median",
    categories: str = "one-hot",
    text: Sequence[str] = (),
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
    impute : {"median", "none"}
        Missing inputs: numbers and dates get the median of their column and a 0/1 column that says where, text a level
        of its own; or they are refused.
    categories : {"one-hot", "kernel"}
        Text as 0/1 columns, or as codes for the categorical kernel.
    text : sequence of str
        Columns of free text, which string kernels compare by the letters or words that they share.

    Returns
    -------
    preparation : Preparation
    X : DataFrame (n, D) of floats
    y : array (n,) of floats or labels

    Raises
    ------
    TableError
        With all that is wrong, if there are several things.
    """
    frame = table.frame
    if len(frame) < FEWEST_ROWS:
        raise TableError(f"the table has {counted(len(frame), 'row')}; a model needs at least {FEWEST_ROWS}")
    _check_options(frame, target, drop, task, impute, categories)
    check_text(frame, [target], drop, text)
    problems = Problems()
    decided = None
    with problems.kept():
        decided = _target(frame[target], table.rows, target, task)
    dropped = list(dict.fromkeys(str(name) for name in drop))
    names = [name for name in map(str, frame.columns) if name != target and name not in dropped]
    decider = Decider(table.rows, impute == "median", categories == "kernel", tuple(text))
    coding = decider.coding(frame, names, problems)
    problems.tell()
    assert decided is not None
    task, numeric_labels, notes, style = decided
    notes += coding.notes
    if drop:
        notes.append(note(f"Left out as asked: {listed(drop)}."))
    ignored = (*dropped, *coding.ignored)
    made = Preparation(target, task, coding.columns, ignored, numeric_labels, tuple(notes), style)
    return made, made.inputs(frame, table.rows), made.targets(frame, table.rows)


def _check_options(
    frame: pd.DataFrame,
    target: str,
    drop: Sequence[str],
    task: str | None,
    impute: str,
    categories: str,
) -> None:
    check_columns(frame, [target], drop)
    if task not in (None, *TASKS):
        raise TableError(f"must be one of {', '.join(TASKS)}, got {task!r}", parameter="task", value=task)
    check_treatment(impute, categories)


def check_columns(frame: pd.DataFrame, targets: Sequence[str], drop: Sequence[str]) -> None:
    """Refuse targets, and columns to drop, that are not there."""
    names = [str(name) for name in frame.columns]
    for name, what in [*((t, "the target") for t in targets), *((d, "to drop") for d in drop)]:
        if name not in names:
            close = similar(name, names)
            hint = f"did you mean {close[0]!r}? " if close else ""
            headless = all(_is_number(other) for other in names)
            remedy = "; the first row must hold names, and here it holds numbers" if headless else ""
            if len(names) == 1 and " " in names[0]:
                remedy = "; commas, semicolons, tabs or bars separate cells; where it is blanks, call the file .txt"
            raise TableError(
                f"there is no column {name!r} ({what}); {hint}the columns are {listed(names)}{remedy}"
            )
    both = next((target for target in targets if target in drop), None)
    if both is not None:
        raise TableError(f"{both!r} is the target and cannot be dropped")


def check_text(frame: pd.DataFrame, targets: Sequence[str], drop: Sequence[str], text: Sequence[str]) -> None:
    """Refuse columns of free text that are not there, or are something else."""
    names = [str(name) for name in frame.columns]
    for name in text:
        if name not in names:
            close = similar(name, names)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise TableError(f"there is no column {name!r} (text); {hint}the columns are {listed(names)}")
        if name in targets or name in drop:
            raise TableError(f"{name!r} cannot be text and {'the target' if name in targets else 'dropped'}")


def check_treatment(impute: str, categories: str) -> None:
    """Refuse ways to treat missing values and categories that do not exist."""
    if impute not in IMPUTATIONS:
        problem = f"must be {' or '.join(map(repr, IMPUTATIONS))}, got {impute!r}"
        raise TableError(problem, parameter="impute", value=impute)
    if categories not in ENCODINGS:
        problem = f"must be one of {', '.join(ENCODINGS)}, got {categories!r}"
        raise TableError(problem, parameter="categories", value=categories)


def _target(
    values: pd.Series, rows: NDArray[np.intp], target: str, wanted: str | None
) -> tuple[str, bool, list[Note], NumberStyle | None]:
    """What `_task` says, and how the target is written, if its numbers are no plain ones."""
    _require_complete_target(values, rows)
    style = None
    if wanted != "classification" and np.isnan(try_numbers(values)).any() and not looks_like_dates(values):
        style = style_of(f"the target {target!r}", texts_of(values))
    if style is None:
        return *_task(values, rows, target, wanted), None
    import pandas as pd

    numbers = as_numbers(values, rows, style)
    read = pd.Series(numbers, name=values.name)
    task, labels, notes = _task(read, rows, target, wanted)
    return task, labels, [style_note(f"The target {target!r}", values, numbers), *notes], style


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
        shown = listed([f"{v:g}" for v in distinct], quote=False)
        why = "as asked" if wanted else "the target has two different whole numbers"
        return (
            "classification",
            True,
            [note(f"Classification ({why}): {target!r} has {len(distinct)} classes, {shown}.")],
        )
    if len(distinct) < 2:
        raise TableError(
            f"the target {target!r} is the same in all rows, {distinct[0]:g}: there is nothing to learn"
        )
    why = "as asked" if wanted else "the target is numeric"
    told: list[Part] = [f"Regression ({why}): {target!r} has {len(distinct)} different values."]
    if wanted is None and whole and len(distinct) <= FEW_VALUES:
        told += [" If these are classes, ask for ", Setting("task", "classification"), "."]
    return "regression", False, [note(*told)]


def _text_task(
    values: pd.Series, numbers: Array, rows: NDArray[np.intp], target: str, wanted: str | None
) -> tuple[str, bool, list[Note]]:
    if wanted == "regression" or (np.mean(~np.isnan(numbers)) > 0.5 and any(_is_number(v) for v in values)):
        as_numbers(values, rows)  # says where the first text is
        if wanted == "regression":
            return (
                "regression",
                False,
                [note(f"Regression (as asked): {target!r} is true or false, taken as 1 and 0.")],
            )
    if looks_like_dates(values):
        raise TableError(
            f"the target {target!r} holds dates, which can be neither classes nor numbers; convert it first"
        )
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
        [note(f"Classification ({why}): {target!r} has {len(labels)} classes, {listed(labels)}.")],
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
        shown = listed([str(r) for r in rows[gone]], quote=False)
        raise TableError(
            f"the target {str(values.name)!r} is missing in {counted(int(gone.sum()), 'row')} ({shown}); "
            "leave these rows out"
        )
