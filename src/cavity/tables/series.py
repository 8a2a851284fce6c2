"""A time series in a table: one column of times, one of values.

Times are read as in `frames.dates`, and if they are not written year first: as quarters (2024Q1), as months by name
(Jan 2024), as day and month or month and day if the column itself tells which, since one of them exceeds twelve.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from cavity.frames.coding import similar
from cavity.frames.columns import as_numbers, is_missing, texts_of
from cavity.frames.dates import YEAR_LAST, are_dates, as_times
from cavity.frames.errors import TableError
from cavity.frames.numbers import style_of
from cavity.tables.reading import Table

if TYPE_CHECKING:
    import pandas as pd

ZONE = r"\d{1,2}:\d{2}.*?(Z|[+-]\d{2}:?\d{2})\s*$"
"""How a time ends that names its distance from universal time."""


QUARTER = re.compile(r"\s*(\d{4})[- ]?[Qq]([1-4])\s*")
LAST = re.compile(r"\s*(\d{1,2})[-/.](\d{1,2})[-/.](\d{4})(.*)")
"""Day and month, or month and day, before the year."""


def read_series(table: Table, time: str, target: str) -> pd.Series:
    """The values of a column by the dates or numbers of another; rows without a value are missing values.

    Its `attrs["notes"]` say how dates were read, if they could have been read otherwise.

    Raises
    ------
    TableError
        If a column is not there, a time is missing or cannot be read, or dates are of different time zones.
    """
    import pandas as pd

    for name in (time, target):
        if name not in table.frame:
            near = similar(name, [str(column) for column in table.frame.columns])
            like = f"; there is {', '.join(map(repr, near))}" if near else ""
            raise TableError(f"there is no column {name!r}{like}")
    style = style_of(f"column {target!r}", texts_of(table.frame[target]))
    times, values = table.frame[time], as_numbers(table.frame[target], table.rows, style)
    missing = is_missing(times)
    if missing.all():
        raise TableError(f"column {time!r} is empty")
    if missing.any():
        raise TableError(
            f"column {time!r} has no time in row {table.rows[int(np.argmax(missing))]}; give it one, or leave "
            "the row out"
        )
    notes: list[str] = []
    times = _year_first(times, notes)
    if are_dates(times):
        _refuse_mixed_zones(times, table, notes)
        dates = pd.DatetimeIndex(as_times(times, missing, table.rows))
        found = pd.Series(values, dates, name=target)
        found.attrs["notes"] = notes
        return found
    if are_dates(times, YEAR_LAST):
        raise TableError(
            f"column {time!r} has dates such as {str(times.iloc[0])!r}, of which nobody can tell whether the day or "
            "the month comes first; write them as 2024-03-05"
        )
    if not _numeric(times):
        as_times(times, missing, table.rows)  # says which cell is no date
    return pd.Series(values, as_numbers(times, table.rows), name=target)


def _year_first(times: pd.Series, notes: list[str]) -> pd.Series:
    """Quarters, named months and dates whose order the column tells, written year first; other times as they are."""
    import pandas as pd

    if not (pd.api.types.is_object_dtype(times) or pd.api.types.is_string_dtype(times)):
        return times
    texts = times.astype(str)
    quarters = [QUARTER.fullmatch(text) for text in texts]
    if all(quarters):
        return pd.Series(
            [f"{q[1]}-{3 * int(q[2]) - 2:02d}" for q in quarters if q], times.index, name=times.name
        )
    for written in ("%b %Y", "%B %Y", "%Y %b", "%Y %B"):
        named = pd.to_datetime(texts, format=written, errors="coerce")
        if named.notna().all():
            return named.dt.strftime("%Y-%m")
    if not are_dates(times, YEAR_LAST):
        return times
    parts = [found for text in texts if (found := LAST.fullmatch(text))]
    first, second = max(int(p[1]) for p in parts), max(int(p[2]) for p in parts)
    if len(parts) < len(texts) or (first > 12) == (second > 12):
        return times
    day, month = (1, 2) if first > 12 else (2, 1)
    notes.append(f"Dates of {times.name!r} are read as {'day, month' if day == 1 else 'month, day'}, year.")
    return pd.Series([f"{p[3]}-{p[month]}-{p[day]}{p[4]}" for p in parts], times.index, name=times.name)


def _numeric(times: pd.Series) -> bool:
    """Whether times are numbers: most of them must be, so that one bad cell is seen for what it is."""
    import pandas as pd

    return bool(pd.to_numeric(times, errors="coerce").notna().mean() > 0.5)


def _refuse_mixed_zones(times: pd.Series, table: Table, notes: list[str]) -> None:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(times):
        return
    zones = times.astype(str).str.extract(ZONE)[0].fillna("").str.replace(":", "")
    zones = zones.replace({"Z": "+0000"})
    other = (zones != zones.iloc[0]).to_numpy()
    if (zones != "").all():  # each says which moment it is, as around a change to daylight saving time
        if other.any():
            notes.append(f"Times of {times.name!r} have several offsets, and are read as universal time.")
    elif other.any():
        row = int(np.argmax(other))
        raise TableError(
            f"column {times.name!r} has dates of different time zones: {str(times.iloc[0])!r} in row {table.rows[0]} "
            f"and {str(times.iloc[row])!r} in row {table.rows[row]}; write all of them in one"
        )
