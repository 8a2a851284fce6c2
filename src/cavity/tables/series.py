"""A time series in a table: one column of times, one of values."""

from __future__ import annotations

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


def read_series(table: Table, time: str, target: str) -> pd.Series:
    """The values of a column by the dates or numbers of another; rows without a value are missing values.

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
    if are_dates(times):
        _refuse_mixed_zones(times, table)
        return pd.Series(values, pd.DatetimeIndex(as_times(times, missing, table.rows)), name=target)
    if are_dates(times, YEAR_LAST):
        raise TableError(
            f"column {time!r} has dates such as {str(times.iloc[0])!r}, of which nobody can tell whether the day or "
            "the month comes first; write them as 2024-03-05"
        )
    if not _numeric(times):
        as_times(times, missing, table.rows)  # says which cell is no date
    return pd.Series(values, as_numbers(times, table.rows), name=target)


def _numeric(times: pd.Series) -> bool:
    """Whether times are numbers: most of them must be, so that one bad cell is seen for what it is."""
    import pandas as pd

    return bool(pd.to_numeric(times, errors="coerce").notna().mean() > 0.5)


def _refuse_mixed_zones(times: pd.Series, table: Table) -> None:
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(times):
        return
    zones = times.astype(str).str.extract(ZONE)[0].fillna("").str.replace(":", "")
    zones = zones.replace({"Z": "+0000"})
    other = (zones != zones.iloc[0]).to_numpy()
    if other.any():
        row = int(np.argmax(other))
        raise TableError(
            f"column {times.name!r} has dates of different time zones: {str(times.iloc[0])!r} in row {table.rows[0]} "
            f"and {str(times.iloc[row])!r} in row {table.rows[row]}; write all of them in one"
        )
