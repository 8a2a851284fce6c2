"""Dates as numbers: years with their fraction where they span several, otherwise days since the first.

Dates are written year first: 2024-03, 2024-03-05, 2024/3/5, 2024-03-05 14:30, with or without a time zone (without one,
times are taken for universal time). A month stands for its first day. Where day and month come before the year, nobody
can tell them apart, and they are refused. A year is one unit long whether or not it is a leap year, so that seasons
have a period of exactly 1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.errors import TableError
from cavity.numerics.arrays import Array
from cavity.runtime.sentences import shortened

if TYPE_CHECKING:
    import pandas as pd

YEAR_FIRST = re.compile(
    r"\s*(?!\d+\.\d+\s*$)(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2})(?:[T ](\d{1,2})(:\d{2}.*?))?)?\s*"
)
"""Numbers such as 2024.5 are none."""

YEAR_LAST = re.compile(r"\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T ]\d{1,2}:\d{2}.*)?\s*")

YEARS = "years"
UNIT = re.compile(rf"{YEARS}|days since \d{{4}}-\d{{2}}-\d{{2}}")
"""What dates are measured in."""

SEVERAL_YEARS = np.timedelta64(2 * 366, "D")
"""Dates that span more are measured in years."""

LOOKED_AT = 200
"""Values by which a column is taken for dates."""

Times = NDArray[np.datetime64]


def are_dates(present: pd.Series, written: re.Pattern[str] = YEAR_FIRST) -> bool:
    """Whether values, none of them missing, are dates, by type or as they are written."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(present):
        return written is YEAR_FIRST
    texts = [str(value) for value in present.iloc[:LOOKED_AT]]
    return bool(texts) and all(written.fullmatch(text) for text in texts)


def as_times(values: pd.Series, missing: NDArray[np.bool_], rows: NDArray[np.intp]) -> Times:
    """Values as times in UTC, NaT where they are missing.

    Raises
    ------
    TableError
        At the first value that is no date, with its row in the file.
    """
    import pandas as pd

    typed = pd.api.types.is_datetime64_any_dtype(values)
    given = values if typed else pd.Series([_standard(value) for value in values], dtype=object)
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


def _standard(value: Any) -> str | None:
    """A date as ISO 8601 writes it; None where it is none."""
    found = YEAR_FIRST.fullmatch(str(value))
    if found is None:
        return None
    year, month, day, hour, rest = found.groups()
    time = f" {int(hour):02d}{rest}" if hour else ""
    return f"{year}-{int(month):02d}-{int(day or 1):02d}{time}"


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
