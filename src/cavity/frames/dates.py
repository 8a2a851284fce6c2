"""Dates as numbers: years with their fraction where they span several, otherwise days since the first.

Dates are written year first: 2024-03, 2024-03-05, 2024/3/5, 2024-03-05 14:30, with or without a time zone (without one,
times are taken for universal time); as quarters (2024Q1); as months by name (Jan 2024); or year last. There day and
month are told apart by the column as a whole, since one of them exceeds twelve. If none does, points stand between day,
month and year, as wherever dates are written with points; other dates are refused, because nobody can tell. A quarter
or a month stands for its first day. A year is one unit long whether or not it is a leap year, so that seasons have a
period of exactly 1.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.frames.errors import TableError
from cavity.numerics.arrays import Array
from cavity.runtime.errors import Part
from cavity.runtime.sentences import shortened

if TYPE_CHECKING:
    import pandas as pd

YEAR_FIRST = re.compile(
    r"\s*(?!\d+\.\d+\s*$)(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2})(?:[T ](\d{1,2})(:\d{2}.*?))?)?\s*"
)
"""Numbers such as 2024.5 are none."""

YEAR_LAST = re.compile(r"\s*(\d{1,2})([-/.])(\d{1,2})\2(\d{4})([T ]\d{1,2}:\d{2}.*)?\s*")
QUARTER = re.compile(r"\s*(\d{4})[- ]?[Qq]([1-4])\s*")
MONTH_NAMES = "%b %Y", "%B %Y", "%Y %b", "%Y %B"

YEARS = "years"
UNIT = re.compile(rf"{YEARS}|days since \d{{4}}-\d{{2}}-\d{{2}}")
"""What dates are measured in."""

IN_YEARS = {"year": 1.0}
IN_DAYS = {"year": 365.25, "week": 7.0, "day": 1.0}
"""Lengths of cycles, in years and in days."""

SEVERAL_YEARS = np.timedelta64(2 * 366, "D")
"""Dates that span more are measured in years."""

LOOKED_AT = 200
"""Values by which a column is taken for dates."""

Times = NDArray[np.datetime64]


class DateOrder(Enum):
    """How the dates of a column are written."""

    YEAR_FIRST = "year, month, day"
    DAY_FIRST = "day, month, year"
    MONTH_FIRST = "month, day, year"
    QUARTERS = "quarters"
    MONTHS = "months by name"


def are_dates(present: pd.Series, written: re.Pattern[str] = YEAR_FIRST) -> bool:
    """Whether values, none of them missing, are dates, by type or as they are written."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(present):
        return written is YEAR_FIRST
    texts = [str(value) for value in present.iloc[:LOOKED_AT]]
    return bool(texts) and all(written.fullmatch(text) for text in texts)


def order_of(present: pd.Series, *instead: Part) -> DateOrder | None:
    """How dates are written, none of them missing; None if they are something else.

    `instead` is another remedy than to write them otherwise.

    Raises
    ------
    TableError
        If nobody can tell the day from the month.
    """
    if are_dates(present):
        return DateOrder.YEAR_FIRST
    if are_dates(present, QUARTER):
        return DateOrder.QUARTERS
    if not are_dates(present, YEAR_LAST):
        named = len(present) and all(_named_month(str(value)) for value in present.iloc[:LOOKED_AT])
        return DateOrder.MONTHS if named else None
    parts = [found for value in present if (found := YEAR_LAST.fullmatch(str(value)))]
    first, second = (any(int(part[place]) > 12 for part in parts) for place in (1, 3))
    if first != second:
        return DateOrder.DAY_FIRST if first else DateOrder.MONTH_FIRST
    if not first and all(part[2] == "." for part in parts):
        return DateOrder.DAY_FIRST
    which = "in some the first number exceeds 12, in some the second" if first else "and none exceeds 12"
    raise TableError(
        f"column {str(present.name)!r} has dates such as {str(present.iloc[0])!r}, of which nobody can tell whether "
        f"the day or the month comes first ({which})",
        remedy=("write them as 2024-03-05", *instead),
    )


def as_times(
    values: pd.Series,
    missing: NDArray[np.bool_],
    rows: NDArray[np.intp],
    order: DateOrder = DateOrder.YEAR_FIRST,
) -> Times:
    """Values, written in this order or year first, as times in UTC, NaT where they are missing.

    Raises
    ------
    TableError
        At the first value that is no date, with its row in the file.
    """
    import pandas as pd

    typed = pd.api.types.is_datetime64_any_dtype(values)
    given = values if typed else pd.Series([_standard(str(value), order) for value in values], dtype=object)
    found = pd.to_datetime(given, format="ISO8601", errors="coerce", utc=True)
    times = np.array(found.dt.tz_localize(None).to_numpy(), dtype="datetime64[us]")
    wrong = np.isnat(times) & ~missing
    if wrong.any():
        first = int(np.argmax(wrong))
        odd = shortened(str(values.iloc[first]))
        raise TableError(
            f"column {str(values.name)!r} has {odd!r} in row {rows[first]}, which is not a date such as 2024-03-05 or "
            "2024-03-05 14:30; correct it, or leave the cell empty"
        )
    times[missing] = np.datetime64("NaT")
    return times


def _standard(text: str, order: DateOrder) -> str | None:
    """A date as ISO 8601 writes it; None where it is none."""
    if found := YEAR_FIRST.fullmatch(text):
        year, month, day, hour, rest = found.groups()
        time = f" {int(hour):02d}{rest}" if hour else ""
        return f"{year}-{int(month):02d}-{int(day or 1):02d}{time}"
    if order is DateOrder.QUARTERS and (found := QUARTER.fullmatch(text)):
        return f"{found[1]}-{3 * int(found[2]) - 2:02d}"
    if order is DateOrder.MONTHS:
        return _named_month(text)
    found = YEAR_LAST.fullmatch(text)
    if order not in (DateOrder.DAY_FIRST, DateOrder.MONTH_FIRST) or found is None:
        return None
    day, month = (found[1], found[3]) if order is DateOrder.DAY_FIRST else (found[3], found[1])
    return _standard(f"{found[4]}-{month}-{day}{found[5] or ''}", DateOrder.YEAR_FIRST)


def _named_month(text: str) -> str | None:
    """The year and the month of a text such as Jan 2024; None of another."""
    for written in MONTH_NAMES:
        try:
            return f"{datetime.strptime(text.strip(), written):%Y-%m}"
        except ValueError:
            continue
    return None


def unit_of(times: Times) -> str:
    """The unit in which dates are best measured."""
    first, last = np.nanmin(times), np.nanmax(times)
    return YEARS if last - first > SEVERAL_YEARS else f"days since {first.astype('datetime64[D]')}"


def in_unit(times: Times, unit: str) -> Array:
    """Times as numbers, nan where they are missing."""
    if unit == YEARS:
        year = times.astype("datetime64[Y]")
        begin, end = year.astype("datetime64[us]"), (year + 1).astype("datetime64[us]")
        numbers = year.astype(np.int64) + 1970.0 + (times - begin) / (end - begin)
    else:
        numbers = (times - np.datetime64(unit.removeprefix("days since "))) / np.timedelta64(1, "D")
    return np.where(np.isnat(times), np.nan, numbers)


def cycles(units: dict[str, str]) -> dict[str, dict[str, float]] | None:
    """Cycles to look for in columns of dates, by what these are measured in.

    >>> cycles({"month": "years"}), cycles({})
    ({'month': {'year': 1.0}}, None)
    """
    found = {name: IN_YEARS if unit == YEARS else IN_DAYS for name, unit in units.items()}
    return found or None
