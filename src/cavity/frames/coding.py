"""How the columns of a table become numbers: decided once, from the data of a fit, and remembered.

numbers      as they are, also if they are written as $1,000 or 12 % (`numbers`)
dates        years with their fraction, or days since the first (`dates`)
categories   a 0/1 column for each level, or codes for the categorical kernel
free text    rows of letters or words for a string kernel, if asked for (`text`)
missing      the median of the column and a 0/1 column that says where; of text a level of its own

Columns that say nothing or cannot be used are left out: constant and empty ones, free text, numbers called an id. Every
decision is a sentence in `notes`. The same coding serves new tables: columns are matched by name, in any order.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from cavity.frames.columns import (
    MISSING_LEVEL,
    Column,
    News,
    as_numbers,
    as_text,
    counts_rows,
    free_texts,
    is_called_identifier,
    is_missing,
    looks_like_dates,
    refuse_extreme,
    texts_of,
    try_numbers,
)
from cavity.frames.dates import YEARS, DateOrder, as_times, in_unit, order_of, unit_of
from cavity.frames.errors import Problems, TableError
from cavity.frames.notes import Level, Note
from cavity.frames.numbers import NumberStyle, style_of
from cavity.frames.text import TextCode
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Part, Setting, Text
from cavity.runtime.sentences import SHOWN, counted, listed, shortened

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 20
"""Levels of a text column; one with more is an identifier, a free text, or needs grouping."""


@dataclass(frozen=True)
class Coding:
    """How a table becomes inputs X.

    Attributes
    ----------
    given : tuple of str
        Columns of the table.
    columns : tuple of Column
        Those that are used, in the order of X.
    notes : tuple of Note
        What was decided, in sentences.
    """

    given: tuple[str, ...]
    columns: tuple[Column, ...]
    notes: tuple[Note, ...] = ()

    @property
    def features(self) -> list[str]:
        """Names of the columns of X."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns that are not used."""
        used = {column.name for column in self.columns}
        return tuple(name for name in self.given if name not in used)

    @property
    def units(self) -> dict[str, str]:
        """What columns of X that were dates are measured in."""
        return {column.name: column.unit for column in self.columns if column.unit}

    @property
    def kernel(self) -> str | None:
        """Text of a kernel that suits the inputs; None where the estimator's own default does."""
        place = 0
        plain: list[int] = []
        factors: list[str] = []
        texts: list[str] = []
        for column in self.columns:
            if column.text is not None:
                where = list(range(place, place + len(column.features)))
                texts.append(f"{column.text.kernel}.on({where})")
            elif column.codes:
                factors.append(f"Categorical({len(column.levels or ())}).on([{place}])")
            else:
                plain += range(place, place + len(column.features))
            place += len(column.features)
        if not factors and not texts:
            return None
        product = [f"SE(ard).on({plain})"] * bool(plain) + factors
        return " + ".join([f"1.0 * {' * '.join(product)}"] * bool(product) + texts)

    @property
    def has_text(self) -> bool:
        """Whether a column is free text, for a string kernel."""
        return any(column.text is not None for column in self.columns)

    def encode(self, frame: pd.DataFrame, rows: NDArray[np.intp] | None = None) -> Array:
        """X for a table, shape (n, features); columns are matched by name, in any order.

        Raises
        ------
        TableError
            Naming columns that are missing, values that are missing or no numbers: all that is wrong at once.
        """
        rows = np.arange(1, len(frame) + 1) if rows is None else rows
        self.require_columns(frame)
        problems, parts = Problems(), []
        problems.of(self._require_values, frame)
        for column in self.columns:
            with problems.kept():
                parts.append(column.encode(_plain(frame[column.name]), rows))
        problems.tell()
        return np.hstack(parts)

    def news(self, frame: pd.DataFrame) -> list[News]:
        """What a new table has that the data of the fit had not, for each column."""
        return [column.news(_plain(frame[column.name])) for column in self.columns]

    def unknown(self, frame: pd.DataFrame, known: Sequence[str] = ()) -> list[str]:
        """Columns of a table that the data of the fit did not have."""
        return [str(name) for name in frame.columns if str(name) not in {*self.given, *known}]

    def require_columns(self, frame: pd.DataFrame, known: Sequence[str] = ()) -> None:
        """Refuse a table that lacks columns; `known` are names that are none of these."""
        present = [str(name) for name in frame.columns]
        missing = [c.name for c in self.columns if c.name not in present]
        if not missing:
            return
        unknown = self.unknown(frame, known)
        close = {name: similar(name, unknown) for name in missing}
        hints = [f"{found[0]!r} may be {name!r}" for name, found in close.items() if found]
        extra = f"; unknown columns: {listed(unknown)}" if unknown else ""
        hint = f" ({'; '.join(hints)})" if hints else ""
        raise TableError(f"the table lacks {counted(len(missing), 'column')}: {listed(missing)}{extra}{hint}")

    def _require_values(self, frame: pd.DataFrame) -> None:
        counts = {
            c.name: int(is_missing(frame[c.name]).sum())
            for c in self.columns
            if c.fill is None and c.text is None
        }
        refuse_missing(
            counts,
            (
                "the model was fitted without a stand-in for them: complete the rows, or fit again with ",
                Setting("impute", "median"),
            ),
        )


# --- deciding -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decider:
    """Decides what columns are.

    Attributes
    ----------
    rows : array of int
        Numbers of the rows in the file.
    impute : bool
        Whether missing values are filled in.
    codes : bool
        Whether categories become codes for the categorical kernel.
    text : tuple of str
        Columns of free text, for string kernels.
    """

    rows: NDArray[np.intp]
    impute: bool = True
    codes: bool = False
    text: tuple[str, ...] = ()

    def coding(self, frame: pd.DataFrame, names: Sequence[str], problems: Problems) -> Coding:
        """What the columns are that have these names; what is wrong with them is left in `problems`."""
        columns: list[Column] = []
        notes: list[Note] = []
        identifiers: list[tuple[Column, Note]] = []
        missing: dict[str, int] = {}
        for name in names:
            values = frame[name]
            if name in self.text:
                with problems.kept():
                    columns.append(self._free_text(name, _plain(values)))
                    notes.append(note(f"Column {name!r}: {cast(TextCode, columns[-1].text).in_words}."))
                continue
            with problems.kept():
                column, told = self._column(name, values)
                notes += told
                if column is None:
                    continue
                missing[name] = int(is_missing(_plain(values)).sum())
                if column.is_number and not column.unit and self._is_identifier(column, values):
                    identifiers.append(
                        (column, _left_out(name, "counts or names rows", "rename it to use it"))
                    )
                else:
                    columns.append(column)
        if columns or problems.found:
            notes += [note for _, note in identifiers]
        else:  # there is nothing else to learn from
            columns = [column for column, _ in identifiers]
        if not self.impute:
            remedy = ("use ", Setting("impute", "median"), " to fill them in, or complete the rows")
            problems.of(refuse_missing, missing, remedy)
        problems.of(_refuse_equal_names, columns)
        if not columns and not problems.found:
            with problems.kept():
                raise TableError(no_inputs(notes))
        return Coding(tuple(map(str, names)), tuple(columns), tuple(notes))

    def _is_identifier(self, column: Column, values: pd.Series) -> bool:
        return is_called_identifier(column.name, as_numbers(_plain(values), self.rows, column.style))

    def _column(self, name: str, given: pd.Series) -> tuple[Column | None, list[Note]]:
        """What an input column is, and what is said about it; None where it is not used."""
        values = _plain(given)
        present = ~is_missing(values)
        if not present.any():
            return None, [note(f"Column {name!r} is empty and was left out.")]
        if _is_category(given):
            return self._categorical(name, values, present)
        known = ~np.isnan(try_numbers(values)) & present
        if known.sum() == present.sum():
            return self._numeric(name, values)
        order = order_of(values[present], ", or leave the column out with ", drop(name))
        if order is not None:
            return self._dates(name, values, order)
        if looks_like_dates(values):
            raise TableError(
                f"column {name!r} holds spans of time, such as {str(values[present].iloc[0])!r}",
                remedy=("write them as numbers, or leave the column out with ", drop(name)),
            )
        style = style_of(f"column {name!r}", texts_of(values))
        if style is not None:
            return self._numeric(name, values, style)
        if known.sum() > present.sum() / 2:
            first = int(np.argmax(present & ~known))
            odd = shortened(str(values.iloc[first]))
            raise TableError(
                f"column {name!r} holds numbers, except {odd!r} in row {self.rows[first]}; correct it, or leave the "
                "cell empty"
            )
        return self._categorical(name, values, present)

    def _free_text(self, name: str, values: pd.Series) -> Column:
        """A column for a string kernel; missing texts are empty ones."""
        gone = is_missing(values)
        if gone.all():
            raise TableError(f"column {name!r} is empty", remedy=("leave ", Setting("text", name), " out"))
        if gone.any() and not self.impute:
            refuse_missing(
                {name: int(gone.sum())}, ("use ", Setting("impute", "median"), " to take them as empty")
            )
        texts = free_texts(values)
        if len(set(texts)) == 1:
            raise TableError(
                f"column {name!r} has the same text in all rows, {shortened(texts[0])!r}; leave it out"
            )
        return Column(name, text=TextCode.of(texts))

    def _numeric(
        self, name: str, values: pd.Series, style: NumberStyle | None = None
    ) -> tuple[Column | None, list[Note]]:
        checked = as_numbers(values, self.rows, style)
        refuse_extreme(f"column {name!r}", checked)
        distinct = np.unique(checked[~np.isnan(checked)])
        count = int(np.isnan(checked).sum())
        if len(distinct) == 1 and not count:
            return None, [note(f"Column {name!r} is constant ({distinct[0]:g}) and was left out.")]
        notes = [] if style is None else [style_note(f"Column {name!r}", values, checked)]
        if counts_rows(checked) and not is_called_identifier(name, checked):
            counts = f"column {name!r} looks like an identifier that counts rows; leave it out with "
            notes.append(Note((counts, drop(name), "."), Level.WARNING))
        fill = float(np.nanmedian(checked)) if self.impute else None
        if count and fill is not None:
            notes.append(_filled(name, count, fill))
        return Column(name, fill=fill, style=style, flag=bool(count) and self.impute), notes

    def _dates(self, name: str, values: pd.Series, order: DateOrder) -> tuple[Column | None, list[Note]]:
        missing = is_missing(values)
        times = as_times(values, missing, self.rows, order)
        if not missing.any() and len(np.unique(times)) == 1:
            return None, [note(f"Column {name!r} is constant ({str(values.iloc[0])!r}) and was left out.")]
        unit = unit_of(times)
        measured = "years with their fraction" if unit == YEARS else unit
        read = "" if order is DateOrder.YEAR_FIRST else f" ({order.value})"
        notes = [note(f"Column {name!r} holds dates{read}: {measured}.")]
        fill = float(np.nanmedian(in_unit(times, unit))) if self.impute else None
        if missing.any() and fill is not None:
            notes.append(_filled(name, int(missing.sum()), fill))
        return Column(
            name, fill=fill, unit=unit, flag=bool(missing.any()) and self.impute, order=order
        ), notes

    def _categorical(
        self, name: str, values: pd.Series, present: NDArray[np.bool_]
    ) -> tuple[Column | None, list[Note]]:
        levels = np.unique(as_text(values)[present])
        if len(levels) > MAX_LEVELS:
            what = f"is text with {len(levels)} different values, such as {shortened(str(values[present].iloc[0]))!r},"
            fewer = f"group its values into at most {MAX_LEVELS} to use it, or take it as text with "
            as_text_too = Setting("text", name, "cavity.TextEncoder and a string kernel")
            left = (f"column {name!r} {what} and was left out; {fewer}", as_text_too, ".")
            return None, [Note(left, Level.WARNING)]
        count, fill = int((~present).sum()), None
        if self.impute:
            fill = MISSING_LEVEL
            if count:
                levels = np.unique(np.append(levels, MISSING_LEVEL))
        if len(levels) == 1 and not count:
            return None, [note(f"Column {name!r} is constant ({levels[0]!r}) and was left out.")]
        column = Column(name, tuple(str(level) for level in levels), self.codes, fill)
        ones = f"{counted(len(column.features), '0/1 column')} (one-hot)"
        how = "codes for the categorical kernel" if self.codes else ones
        notes = [note(f"Column {name!r} is text with {len(levels)} levels, {listed(levels)}: {how}.")]
        if count and fill is not None:
            missing = counted(count, "missing value")
            own = "its own" if count == 1 else "their own"
            notes.append(note(f"Column {name!r}: {missing} became a level of {own}, {fill}."))
        return column, notes


def _plain(values: pd.Series) -> pd.Series:
    """Values without a type of pandas' own: categories as what they are, periods as their first moment."""
    import pandas as pd

    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.astype(object)
    if isinstance(values.dtype, pd.PeriodDtype):
        return cast("pd.Series", values.dt.to_timestamp())
    return values


def _is_category(values: pd.Series) -> bool:
    import pandas as pd

    return isinstance(values.dtype, pd.CategoricalDtype)


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


# --- sentences ----------------------------------------------------------------------------------------------


def note(*parts: Part) -> Note:
    """A note for information."""
    return Note(parts)


def _left_out(name: str, what: str, remedy: str) -> Note:
    return Note((f"column {name!r} {what} and was left out; {remedy}.",), Level.WARNING)


def _filled(name: str, count: int, fill: float) -> Note:
    filled = f"{counted(count, 'missing value')} filled in by the median, {fill:g}"
    return note(f"Column {name!r}: {filled}, with a 0/1 column that says where.")


def style_note(what: str, values: pd.Series, numbers: Array) -> Note:
    """How numbers that are no plain ones were read, by the longest example."""
    first = max(np.flatnonzero(~np.isnan(numbers)), key=lambda k: len(str(values.iloc[k])))
    return note(
        f"{what}: numbers such as {str(values.iloc[first]).strip()!r} were read as {numbers[first]:.12g}."
    )


def no_inputs(notes: Sequence[Note]) -> str:
    """That nothing is left to learn from, and why."""
    why = [f" ({told})" for told in (str(one).removeprefix("Warning: ").rstrip(".") for one in notes)]
    return "no input columns are left: all others are the target, dropped or of no use" + "".join(why[:SHOWN])


def refuse_missing(counts: dict[str, int], remedy: Text) -> None:
    """Refuse missing values, by the number in each column."""
    found = {name: count for name, count in counts.items() if count}
    if not found:
        return
    missing = listed((f"{name} ({count})" for name, count in found.items()), quote=False)
    raise TableError(f"values are missing in {counted(len(found), 'column')}: {missing}", remedy=remedy)


def drop(name: str) -> Setting:
    """What leaves a column out."""
    return Setting("drop", name, f"drop=[{name!r}]")


def similar(name: str, names: Sequence[str]) -> list[str]:
    """A name that may have been meant: one in other letters first, then one that is spelled alike."""
    return [n for n in names if n.lower() == name.lower()][:1] or difflib.get_close_matches(name, names, n=1)
