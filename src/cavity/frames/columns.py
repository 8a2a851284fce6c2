"""What a column of a table means: numbers, categories, dates, identifiers; and how it becomes columns of X."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.dates import YEAR_LAST, DateOrder, are_dates, as_times, in_unit
from cavity.frames.errors import TableError
from cavity.frames.numbers import NumberStyle
from cavity.frames.text import NOTHING_NEW, TextCode, TextNews
from cavity.numerics.arrays import Array
from cavity.runtime.sentences import counted, listed, printable, shortened

if TYPE_CHECKING:
    import pandas as pd

MISSING_LEVEL = "(missing)"
"""Level of missing text, where missing values are filled in."""

LARGEST = 1e145
"""Numbers beyond it, or below its inverse, have squares that do not fit into floating-point numbers."""

NONE_OF_THEM = "are for none of its levels"

TRUTH = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


@dataclass(frozen=True)
class Column:
    """An input column.

    Attributes
    ----------
    name : str
    levels : tuple of str or None
        Categories, sorted; None for numbers.
    codes : bool
        Categories as one column of codes 0, 1, ... for the categorical kernel, instead of 0/1 columns.
    fill : float, str or None
        What stands in for a missing value; None where that is refused.
    unit : str
        What dates are measured in, "years" or "days since 2024-03-05"; empty for what is no date.
    order : DateOrder
        How dates are written.
    style : NumberStyle or None
        How numbers are written that are no plain ones, such as $1,000.
    flag : bool
        Whether a 0/1 column says where a number or a date is missing: if some were when the model was fitted.
    text : TextCode or None
        How free text becomes codes for a string kernel.
    """

    name: str
    levels: tuple[str, ...] | None = None
    codes: bool = False
    fill: Any = None
    unit: str = ""
    style: NumberStyle | None = None
    flag: bool = False
    text: TextCode | None = None
    order: DateOrder = DateOrder.YEAR_FIRST

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers or dates."""
        return self.levels is None and self.text is None

    @property
    def features(self) -> list[str]:
        """Names of its columns of X."""
        if self.text is not None:
            return [f"{self.name}[{place}]" for place in range(self.text.width)]
        if self.levels is None:
            return [self.name, f"{self.name} is missing"] if self.flag else [self.name]
        if self.codes:
            return [self.name]
        if len(self.levels) == 2:
            return [f"{self.name}={self.levels[1]}"]
        return [f"{self.name}={level}" for level in self.levels]

    def encode(self, values: pd.Series, rows: NDArray[np.intp]) -> Array:
        """Columns of X, shape (n, features); `rows` are the numbers of the rows in the file.

        A level that did not occur when the model was fitted is none of the levels: zeros in all 0/1 columns, and one
        half if there is one for both. The categorical kernel knows no such thing, and refuses it.
        """
        if self.text is not None:
            return self.text.encode(free_texts(values))
        if self.levels is None:
            numbers = self._numbers(values, rows)
            gone = np.isnan(numbers)
            if self.fill is not None:
                numbers = np.where(gone, self.fill, numbers)
            return np.column_stack([numbers, gone]) if self.flag else numbers[:, None]
        place, known = self._places(values)
        if self.codes:
            if not known.all():
                self._refuse_level(values, rows, int(np.argmin(known)))
            return place.astype(float)[:, None]
        hot = np.eye(len(self.levels))[place] * known[:, None]
        if len(self.levels) == 2:
            return np.where(known, hot[:, 1], 0.5)[:, None]
        return hot

    def coded(self, numbers: Array) -> Array:
        """Columns of X of numbers that are not missing, shape (n, features)."""
        return np.column_stack([numbers, np.zeros(len(numbers))]) if self.flag else numbers[:, None]

    def coded_levels(self) -> Array:
        """Columns of X of each level, shape (levels, features)."""
        import pandas as pd

        levels = self.levels or ()
        return self.encode(pd.Series(list(levels), dtype=object), np.arange(len(levels)))

    def _numbers(self, values: pd.Series, rows: NDArray[np.intp]) -> Array:
        if self.unit:
            return in_unit(as_times(values, is_missing(values), rows, self.order), self.unit)
        return as_numbers(values, rows, self.style)

    def _places(self, values: pd.Series) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Place of each value among the levels, and whether it is there."""
        text = np.where(
            is_missing(values), MISSING_LEVEL if self.fill is None else self.fill, as_text(values)
        )
        levels = np.array(self.levels, dtype=object)
        place = np.minimum(np.searchsorted(levels, text), len(levels) - 1)
        return place, np.asarray(levels[place] == text, dtype=bool)

    def _refuse_level(self, values: pd.Series, rows: NDArray[np.intp], first: int) -> None:
        value = MISSING_LEVEL if is_missing(values)[first] else as_text(values)[first]
        raise TableError(
            f"column {self.name!r} has {str(value)!r} in row {rows[first]}, which did not occur when the model was "
            f"fitted, and the categorical kernel has no value for it; the levels are {listed(self.levels or ())}"
        )

    def news(self, values: pd.Series) -> News:
        """What is in new values that the data of the fit had not: missing values, and levels."""
        if self.text is not None:
            return News(self.name, False, code=self.text, text=self.text.news(free_texts(values)))
        gone = is_missing(values)
        if self.levels is None:
            return News(self.name, True, 0 if self.flag else int(gone.sum()))
        _, known = self._places(values)
        unknown = as_text(values)[~known & ~gone]
        return News(self.name, False, int((~known & gone).sum()), len(unknown), tuple(dict.fromkeys(unknown)))


@dataclass(frozen=True)
class News:
    """What new values of a column have that the data of the fit had not, and how it was taken.

    Attributes
    ----------
    numbers : bool
        Whether the column holds numbers or dates.
    missing : int
        Missing values, where none were missing.
    unknown : int
        Texts that are none of the levels, in so many rows.
    levels : tuple of str
        These texts, each of them once.
    code, text : TextCode or None, TextNews
        Of a column of free text.
    """

    column: str
    numbers: bool
    missing: int = 0
    unknown: int = 0
    levels: tuple[str, ...] = ()
    code: TextCode | None = None
    text: TextNews = NOTHING_NEW

    def __add__(self, other: News) -> News:
        levels = tuple(dict.fromkeys((*self.levels, *other.levels)))
        missing, unknown = self.missing + other.missing, self.unknown + other.unknown
        return News(self.column, self.numbers, missing, unknown, levels, self.code, self.text + other.text)

    @property
    def sentences(self) -> list[str]:
        """In words."""
        told = [] if self.code is None else self.text.sentences(self.column, self.code)
        if self.unknown:
            told.append(
                f"column {self.column!r} has {listed(self.levels)} in {counted(self.unknown, 'row')}, which did not "
                f"occur when the model was fitted: predictions there {NONE_OF_THEM}"
            )
        if self.missing:
            taken = "take its median" if self.numbers else NONE_OF_THEM
            told.append(
                f"{counted(self.missing, 'value')} of column {self.column!r} {_are(self.missing)} missing, and none "
                f"was when the model was fitted: predictions there {taken}"
            )
        return told


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# --- values -------------------------------------------------------------------------------------------------


def is_missing(values: pd.Series) -> NDArray[np.bool_]:
    """Where there is no value: empty cells, NA, NaN and the like, and cells of blanks."""
    missing = np.array(values.isna(), dtype=bool)
    if values.dtype == object or str(values.dtype) in ("string", "str"):
        missing |= np.array([isinstance(v, str) and not v.strip() for v in values], dtype=bool)
    return missing


def free_texts(values: pd.Series) -> list[str]:
    """Values as texts, "" where there is none."""
    return ["" if gone else str(value) for value, gone in zip(values, is_missing(values))]


def as_text(values: pd.Series) -> NDArray[Any]:
    """Values as texts without blanks around them."""
    return np.array([_one_text(v) for v in values], dtype=object)


def _one_text(value: Any) -> str:
    """A value as text that can be shown; a whole number as a category is the same whatever its type."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return printable(str(int(value) if whole else value).strip())


def as_numbers(values: pd.Series, rows: NDArray[np.intp], style: NumberStyle | None = None) -> Array:
    """Values as numbers, nan where they are missing; texts as the style says, if there is one.

    Raises
    ------
    TableError
        At the first value that is not a finite number.
    """
    missing = is_missing(values)
    numbers = try_numbers(values) if style is None else _in_style(values, missing, style)
    wrong = ~missing & ~np.isfinite(numbers)
    if wrong.any():
        told = wrong & np.array([str(v).strip().lower() not in TRUTH for v in values])
        first = int(np.argmax(told if told.any() else wrong))
        odd = shortened(str(values.iloc[first]))
        raise TableError(
            f"column {str(values.name)!r} has {odd!r} in row {rows[first]}, which is not a finite number; correct it, "
            "or leave the cell empty"
        )
    return np.where(missing, np.nan, numbers)


def try_numbers(values: pd.Series) -> Array:
    """Values as numbers, nan where that is not possible; true and false, yes and no are 1 and 0."""
    import pandas as pd

    if values.dtype == bool:
        return np.asarray(values, dtype=float)
    if pd.api.types.is_datetime64_any_dtype(values) or pd.api.types.is_timedelta64_dtype(values):
        return np.full(len(values), np.nan)
    numbers = pd.to_numeric(values, errors="coerce")
    found = np.array(numbers.to_numpy(dtype=float, na_value=np.nan), copy=True)
    lost = np.isnan(found) & ~is_missing(values)
    if lost.any():
        truth = [TRUTH.get(str(v).strip().lower(), np.nan) for v in values[lost]]
        if not np.isnan(truth).any() and lost.sum() == (~is_missing(values)).sum():
            found[lost] = truth
    return found


def looks_like_dates(values: pd.Series) -> bool:
    """Whether a column holds dates, in whatever order they are written, or spans of time."""
    import pandas as pd

    present = values[~is_missing(values)]
    return pd.api.types.is_timedelta64_dtype(values) or are_dates(present) or are_dates(present, YEAR_LAST)


def texts_of(values: pd.Series) -> list[str]:
    """The different texts of a column, in order; empty if it holds anything else."""
    present = values[~is_missing(values)]
    different = list(present.unique())
    return different if all(isinstance(value, str) for value in different) else []


def _in_style(values: pd.Series, missing: NDArray[np.bool_], style: NumberStyle) -> Array:
    """Texts as numbers; what is a number already is taken as it is."""
    present = values[~missing]
    read = {v: style.number(v) if isinstance(v, str) else float(v) for v in present.unique()}
    numbers = np.full(len(values), np.nan)
    numbers[~missing] = [read[v] for v in present]
    return numbers


def refuse_extreme(what: str, numbers: Array) -> None:
    """Refuse numbers that cannot be squared."""
    largest = float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0.0))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise TableError(
            f"{what} has values of up to {largest:.3g}, whose squares are beyond floating-point numbers; give it in "
            "other units"
        )


def counts_rows(numbers: Array) -> bool:
    """Whether numbers are whole, all different and follow one another."""
    steps = np.diff(numbers[~np.isnan(numbers)])
    return _whole_and_different(numbers) and bool((steps == 1).all() or (steps == -1).all())


def is_called_identifier(name: str, numbers: Array) -> bool:
    """Whether numbers are whole and all different, and called an id."""
    called = re.fullmatch(r"(?i)(.*[_\W])?(id|index|key|no|nr|number|row)", name.strip()) is not None
    return called and _whole_and_different(numbers)


def _whole_and_different(numbers: Array) -> bool:
    present = numbers[~np.isnan(numbers)]
    return len(present) >= 10 and len(np.unique(present)) == len(present) and bool((present % 1 == 0).all())
