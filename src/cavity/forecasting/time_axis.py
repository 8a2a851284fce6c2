"""Dates or numbers as steps: 0, 1, 2, ... on a regular grid, with fractions where a grid has none.

Months differ in length, so dates that are months, quarters or years apart are counted in months; all other dates in
seconds, whatever their time zone. One step is the usual distance between neighbors. Seasons (day, week, year) have a
length in steps.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.runtime.checks import is_number
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

DAY = 86400.0
SECONDS = {"day": DAY, "week": 7 * DAY, "year": 365.2425 * DAY}
"""Length of the seasons that dates have names for."""

MONTHS, ELAPSED, NUMBERS = "months", "seconds", "numbers"


@dataclass(frozen=True)
class TimeAxis:
    """How times become steps, and how they go on after the last.

    Attributes
    ----------
    unit : {"months", "seconds", "numbers"}
        What times are counted in.
    first, step : float
        The first time and the length of a step, in this unit; seconds since 1970 in universal time.
    freq : str
        The frequency by which pandas goes on from a date; empty if dates follow none.
    zone : str
        Time zone of the dates; empty without one.
    periods : bool
        Whether times were given as periods, not as dates.
    """

    unit: str
    first: float
    step: float
    freq: str = ""
    zone: str = ""
    periods: bool = False

    @classmethod
    def of(cls, index: Any) -> TimeAxis:
        """The axis of a checked index (`as_index`)."""
        import pandas as pd

        if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
            x = np.asarray(index, dtype=float)
            return cls(NUMBERS, float(x.min()), _usual_gap(x))
        freq, periods = _frequency(index), isinstance(index, pd.PeriodIndex)
        dates = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
        zone = "" if dates.tz is None else str(dates.tz)
        axis = cls(MONTHS, 0.0, 1.0, freq, zone, periods)
        if not _in_months(dates):
            axis = replace(axis, unit=ELAPSED)
        axis = replace(axis, first=float(axis._numbers(index).min()))
        return replace(axis, step=_usual_gap(axis._numbers(index)))  # what is left has all its digits

    @property
    def dated(self) -> bool:
        """Whether times are dates."""
        return self.unit != NUMBERS

    def _numbers(self, index: Any) -> Array:
        """Times in the unit of the axis, less the first."""
        import pandas as pd

        if not self.dated:
            return np.asarray(index, dtype=float) - self.first
        dates = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
        if self.unit == MONTHS:
            return np.asarray(12.0 * (dates.year - 1970) + dates.month - 1, dtype=float) - self.first
        if dates.tz is not None:
            dates = dates.tz_convert("UTC").tz_localize(None)
        start = np.datetime64("1970-01-01T00:00:00", "us") + np.timedelta64(round(1e6 * self.first), "us")
        elapsed = dates.to_numpy().astype("datetime64[us]") - start  # before it becomes a float
        return np.asarray(elapsed / np.timedelta64(1, "s"), dtype=float)

    def steps(self, index: Any) -> Array:
        """Times in steps since the first."""
        return self._numbers(index) / self.step

    def season(self, name: str) -> float:
        """Length of a named season in steps; nan if these times do not know it."""
        if self.unit == MONTHS:
            return 12.0 / self.step if name == "year" else np.nan
        return SECONDS[name] / self.step if self.unit == ELAPSED else np.nan

    def after(self, last: Any, count: int) -> Any:
        """So many times after the last, a step apart."""
        import pandas as pd

        if not self.dated:
            return pd.Index(float(last) + self.step * np.arange(1, count + 1))
        if self.periods:
            return pd.period_range(last, periods=count + 1, freq=self.freq)[1:]
        if self.freq:
            dates = pd.date_range(last, periods=count + 1, freq=self.freq)
            return dates[1:] if dates[0] == last else dates[:-1]
        if self.unit == MONTHS:
            offset: Any = pd.DateOffset(months=round(self.step))
        else:
            offset = pd.Timedelta(seconds=self.step)
        return pd.DatetimeIndex([last + k * offset for k in range(1, count + 1)])

    def until(self, last: Any, end: Any) -> Any:
        """The times after the last up to an end."""
        count = int(np.floor(self.steps(end)[0] - self.steps(as_index([last]))[0] + 1e-9)) + 1
        times = self.after(last, max(count, 1))
        return times[self.steps(times) <= self.steps(end)[0] + 1e-9]

    def checked(self, times: Any) -> Any:
        """Times that a user gives later, as an index like that of the fit."""
        import pandas as pd

        index = as_index(times)
        if isinstance(index, pd.DatetimeIndex) and self.periods:
            index = index.to_period(self.freq)
        if isinstance(index, pd.DatetimeIndex) and self.zone and index.tz is None:
            index = index.tz_localize(self.zone)
        dated = isinstance(index, pd.DatetimeIndex | pd.PeriodIndex)
        if dated != self.dated:
            kinds = "dates" if self.dated else "numbers"
            raise InputError(
                f"must be {kinds}, as those of the fit, got {times!r}", parameter="times", value=times
            )
        if isinstance(index, pd.DatetimeIndex) and index.tz is not None and not self.zone:
            raise InputError(
                f"has the time zone {index.tz}, but the dates of the fit have none",
                parameter="times",
                value=times,
            )
        return index


def _usual_gap(x: Array) -> float:
    """The median distance of neighbors that differ; 1 if none do."""
    gaps = np.diff(np.unique(x))
    return float(np.median(gaps)) if len(gaps) else 1.0


def _in_months(dates: pd.DatetimeIndex) -> bool:
    """Whether dates are whole months apart: at one day of the month and time, or at ends of months."""
    if len(dates.unique()) < 2 or not (dates == dates.normalize()).all():
        return False
    months = 12 * dates.year + dates.month
    same_day = len(dates.day.unique()) == 1 or bool(dates.is_month_end.all())
    business = len(months.unique()) == len(dates.unique()) and bool(
        (dates.day >= 25).all()
    )  # last working days
    return (same_day or business) and len(months.unique()) == len(dates.unique())


def _frequency(index: Any) -> str:
    import pandas as pd

    if index.freq is not None:
        return str(index.freqstr)
    ordered = index.unique().sort_values()
    if not isinstance(ordered, pd.DatetimeIndex) or len(ordered) < 3:
        return ""
    with warnings.catch_warnings():  # of pandas, which will return an offset in place of its name
        warnings.simplefilter("ignore")
        found: Any = pd.infer_freq(ordered)
    return getattr(found, "freqstr", found) or _frequency_with_gaps(ordered) or ""


def _frequency_with_gaps(dates: pd.DatetimeIndex) -> str | None:
    """The frequency of dates of which some are missing: that of months or of the usual gap, if all fit it."""
    import pandas as pd

    gap = pd.Series(dates).diff().median()
    rules: list[Any] = ["MS", "ME", "QS", "QE", "YS", "YE", "B"]
    if gap > pd.Timedelta(0):
        rules = [gap, *rules]
    for rule in rules:
        grid = pd.date_range(dates[0], dates[-1], freq=rule)
        if len(grid) < 4 * len(dates) and len(grid) and dates.isin(grid).all():
            return str(grid.freqstr)
    return None


def as_index(times: Any) -> Any:
    """Times as an index of dates, periods or finite numbers, none of them missing.

    Raises
    ------
    InputError
        For what cannot be read, with the first such value, and for dates of several time zones.
    """
    import pandas as pd

    if isinstance(times, str | pd.Timestamp | pd.Period) or is_number(times):
        times = [times]
    index = (
        times
        if isinstance(times, pd.Index)
        else pd.Index(np.asarray(times) if _plain(times) else list(times))
    )
    if isinstance(index, pd.MultiIndex):
        raise InputError("must have one level, got several", parameter="times", value=index.names)
    if index.hasnans:
        row = int(np.argmax(index.isna()))
        raise InputError(
            f"has no time in row {row}",
            parameter="times",
            row=row,
            remedy="leave the row out, or give it a time",
        )
    if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        return index
    if pd.api.types.is_numeric_dtype(index.dtype) and not pd.api.types.is_bool_dtype(index.dtype):
        x = np.asarray(index, dtype=float)
        if not np.isfinite(x).all():
            row = int(np.argmax(~np.isfinite(x)))
            raise InputError(f"must be finite, but row {row} is {x[row]}", parameter="times", row=row)
        return index
    return _read_dates(index)


def _plain(times: Any) -> bool:
    return isinstance(times, np.ndarray) and times.ndim == 1


def _read_dates(index: pd.Index) -> pd.DatetimeIndex:
    """Dates from texts or objects; time zones must agree."""
    import pandas as pd

    zones = {str(value.tzinfo) for value in index if getattr(value, "tzinfo", None) is not None}
    naive = any(getattr(value, "tzinfo", 0) is None for value in index)
    if len(zones) + naive > 1:
        raise _mixed(sorted(zones) + ["none"] * naive)
    try:
        return pd.DatetimeIndex(pd.to_datetime(index, format="ISO8601"))
    except ValueError as error:
        if "timezone" in str(error) or "tz" in str(error):
            raise _mixed([]) from None
    for row, value in enumerate(index):
        try:
            pd.to_datetime(value, format="ISO8601")
        except (ValueError, TypeError):
            raise InputError(
                f"has {value!r} in row {row}, which is not a date such as 2024-03-05 or 2024-03-05 14:30",
                parameter="times",
                row=row,
                value=value,
            ) from None
    raise _mixed([])


def _mixed(zones: list[str]) -> InputError:
    named = f" ({', '.join(zones)})" if zones else ""
    return InputError(
        f"has dates of different time zones{named}",
        parameter="times",
        remedy="bring them to one zone, as in pd.to_datetime(dates, utc=True)",
    )
