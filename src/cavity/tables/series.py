"""A time series in a table: one column of times, one of values.

Times are numbers, or dates as `frames.dates` reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.frames.coding import similar
from cavity.frames.columns import as_numbers, is_missing, texts_of
from cavity.frames.dates import DateOrder, as_times, order_of
from cavity.frames.errors import TableError
from cavity.frames.numbers import style_of
from cavity.tables.reading import Table

if TYPE_CHECKING:
    import pandas as pd

ZONE = r"\d{1,2}:\d{2}.*?(Z|[+-]\d{2}:?\d{2})\s*$"
"""How a time ends that names its distance from universal time."""


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
    order = order_of(times)
    if order is not None:
        if order in (DateOrder.DAY_FIRST, DateOrder.MONTH_FIRST):
            notes.append(f"Dates of {time!r} are read as {order.value}.")
        _refuse_mixed_zones(times, table, notes)
        dates = pd.DatetimeIndex(as_times(times, missing, table.rows, order))
        found = pd.Series(values, dates, name=target)
        found.attrs["notes"] = notes
        return found
    if not _numeric(times):
        as_times(times, missing, table.rows)  # says which cell is no date
    return pd.Series(values, as_numbers(times, table.rows), name=target)


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
