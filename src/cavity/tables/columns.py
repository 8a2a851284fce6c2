"""What a column of a table means: numbers, categories, dates, identifiers; and how it becomes columns of X."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.tables.dates import YEAR_LAST, are_dates, as_times, in_unit
from cavity.tables.reading import TableError

if TYPE_CHECKING:
    import pandas as pd

MAX_LEVELS = 20
"""Levels of a text column; one with more is an identifier, a free text, or needs grouping."""

MISSING_LEVEL = "(missing)"
"""Level of missing text, where missing values are filled in."""

DRESSED = re.compile(r"\s*[$€£¥]?\s*[+-]?[$€£¥]?\d+(?:[.,' \u00a0]\d+)*\s*[$€£¥%]?\s*")
"""Numbers as people write them: with decimal commas, thousands apart, signs of currency, per cent."""

LARGEST = 1e145
"""Numbers beyond it, or below its inverse, have squares that do not fit into floating-point numbers."""

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
    """

    name: str
    levels: tuple[str, ...] | None = None
    codes: bool = False
    fill: Any = None
    unit: str = ""

    @property
    def features(self) -> list[str]:
        """Names of its columns of X."""
        if self.levels is None or self.codes:
            return [self.name]
        if len(self.levels) == 2:
            return [f"{self.name}={self.levels[1]}"]
        return [f"{self.name}={level}" for level in self.levels]

    @property
    def takes_missing(self) -> bool:
        """Whether there is a stand-in for missing values; of text it is a level, which must have occurred."""
        return self.fill is not None and (self.levels is None or self.fill in self.levels)

    def encode(self, values: pd.Series, rows: NDArray[np.intp]) -> Array:
        """Columns of X, shape (n, features); `rows` are the numbers of the rows in the file."""
        if self.levels is None:
            if self.unit:
                numbers = in_unit(as_times(values, is_missing(values), rows), self.unit)
            else:
                numbers = as_numbers(values, rows)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None]
        text = as_text(values)
        filled = np.where(is_missing(values), MISSING_LEVEL if self.fill is None else self.fill, text)
        levels = np.array(self.levels)
        place = np.minimum(np.searchsorted(levels, filled), len(levels) - 1)
        wrong = levels[place] != filled
        if wrong.any():
            first = int(np.argmax(wrong))
            known = ", ".join(map(repr, self.levels[:8])) + (", ..." if len(self.levels) > 8 else "")
            raise TableError(
                f"column {self.name!r} has {str(filled[first])!r} in row {rows[first]}, which did not occur when the "
                f"model was fitted; the levels are {known}"
            )
        if self.codes:
            return place.astype(float)[:, None]
        hot = np.eye(len(levels))[place]
        return hot[:, 1:] if len(levels) == 2 else hot


# --- values -------------------------------------------------------------------------------------------------


def is_missing(values: pd.Series) -> NDArray[np.bool_]:
    """Where there is no value: empty cells, NA, NaN and the like, and cells of blanks."""
    missing = np.array(values.isna(), dtype=bool)
    if values.dtype == object or str(values.dtype) in ("string", "str"):
        missing |= np.array([isinstance(v, str) and not v.strip() for v in values], dtype=bool)
    return missing


def as_text(values: pd.Series) -> NDArray[Any]:
    """Values as texts without blanks around them."""
    return np.array([str(v).strip() for v in values], dtype=object)


def as_numbers(values: pd.Series, rows: NDArray[np.intp]) -> Array:
    """Values as numbers, nan where they are missing.

    Raises
    ------
    TableError
        At the first value that is not a finite number.
    """
    numbers = try_numbers(values)
    missing = is_missing(values)
    wrong = ~missing & ~np.isfinite(numbers)
    if wrong.any():
        first = int(np.argmax(wrong))
        raise TableError(
            f"column {str(values.name)!r} has {str(values.iloc[first])!r} in row {rows[first]}, which is not a finite "
            "number; correct it, or leave the cell empty"
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


def refuse_dressed(what: str, values: pd.Series) -> None:
    """Refuse a text column whose values are numbers to people: it would become categories."""
    present = [str(v) for v in values[~is_missing(values)]]
    if present and all(DRESSED.fullmatch(v) for v in present):
        raise TableError(
            f"{what} holds numbers that are not written as plain numbers, such as {present[0].strip()!r}; write them "
            "with a decimal point, and without other signs"
        )


def refuse_extreme(what: str, numbers: Array) -> None:
    """Refuse numbers that cannot be squared."""
    largest = float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0.0))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise TableError(
            f"{what} has values of up to {largest:.3g}, whose squares are beyond floating-point numbers; give it in "
            "other units"
        )


def looks_like_identifier(name: str, numbers: Array) -> bool:
    """Whether numbers only count the rows: whole, all different, and consecutive or called an id."""
    present = numbers[~np.isnan(numbers)]
    if len(present) < 10 or len(np.unique(present)) < len(present) or np.any(present != np.round(present)):
        return False
    called = re.fullmatch(r"(?i)(.*[_\W])?(id|index|key|no|nr|number|row)", name.strip()) is not None
    steps = np.diff(present)
    return called or bool((steps == 1).all() or (steps == -1).all())
