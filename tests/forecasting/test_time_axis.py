"""Dates and numbers as steps, and the times that follow; what cannot be read is refused with a sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity.forecasting.time_axis import TimeAxis, as_index
from cavity.runtime.errors import InputError

DAY = pd.Timedelta("1D")


@pytest.mark.parametrize("freq", ["MS", "ME", "BME"])
def test_months_are_one_step_whatever_their_length(freq: str) -> None:
    index = pd.date_range("2019-12-01", periods=30, freq=freq)
    axis = TimeAxis.of(index)
    np.testing.assert_array_equal(axis.steps(index), np.arange(30))
    assert axis.season("year") == 12
    assert axis.after(index[-1], 3).equals(pd.date_range("2019-12-01", periods=33, freq=freq)[30:])


@pytest.mark.parametrize(("freq", "steps"), [("QS", 4), ("YS", 1)])
def test_quarters_and_years(freq: str, steps: int) -> None:
    index = pd.date_range("1990-01-01", periods=20, freq=freq)
    axis = TimeAxis.of(index)
    np.testing.assert_array_equal(axis.steps(index), np.arange(20))
    assert axis.season("year") == steps
    assert np.isnan(axis.season("week"))


def test_missing_months_leave_gaps() -> None:
    index = pd.date_range("2010-01-01", periods=40, freq="MS").delete([3, 4, 17])
    axis = TimeAxis.of(index)
    np.testing.assert_array_equal(axis.steps(index), np.delete(np.arange(40), [3, 4, 17]))
    assert axis.after(index[-1], 1)[0] == pd.Timestamp("2013-05-01")


def test_hours_across_a_change_of_the_clock() -> None:
    index = pd.date_range("2024-03-30", periods=72, freq="h", tz="Europe/Berlin")
    axis = TimeAxis.of(index)
    np.testing.assert_allclose(axis.steps(index), np.arange(72), atol=1e-9)
    assert axis.season("day") == 24
    assert axis.season("week") == 168
    later = axis.after(index[-1], 2)
    assert str(later.tz) == "Europe/Berlin"
    assert later[0] - index[-1] == pd.Timedelta("1h")


def test_working_days_are_counted_in_days() -> None:
    index = pd.bdate_range("2024-01-01", periods=15)
    axis = TimeAxis.of(index)
    np.testing.assert_allclose(axis.steps(index), (index - index[0]) / DAY)
    assert (axis.after(index[-1], 5).day_of_week < 5).all()


def test_periods_stay_periods() -> None:
    index = pd.period_range("2001Q1", periods=9, freq="Q")
    axis = TimeAxis.of(index)
    np.testing.assert_array_equal(axis.steps(index), np.arange(9))
    assert axis.after(index[-1], 2).equals(pd.period_range("2003Q2", periods=2, freq="Q"))


def test_numbers_unsorted_and_repeated() -> None:
    axis = TimeAxis.of(as_index([2.0, 0.5, 1.0, 1.0, 1.5]))
    np.testing.assert_allclose(axis.steps([2.0, 0.5]), [3, 0])
    np.testing.assert_allclose(axis.after(2.0, 2), [2.5, 3.0])


def test_digits_of_a_microsecond_at_the_present_time() -> None:
    index = pd.DatetimeIndex(np.datetime64("2026-01-01", "us") + np.arange(5) * np.timedelta64(1, "us"))
    np.testing.assert_array_equal(TimeAxis.of(index).steps(index), np.arange(5))


def test_texts_are_dates() -> None:
    assert as_index(["2024-01-01", "2024-01-02"])[1] == pd.Timestamp("2024-01-02")


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (["2024-01-01", "soon"], "'soon' in row 1, which is not a date"),
        (
            [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-02", tz="Asia/Tokyo")],
            "different time zones",
        ),
        (["2024-01-01T00:00+00:00", "2024-01-02T00:00+09:00"], "different time zones"),
        ([pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02", tz="UTC")], "different time zones"),
        ([0.0, np.inf], "must be finite, but row 1"),
        ([0.0, np.nan], "no time in row 1"),
    ],
)
def test_what_cannot_be_read(times: list[object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        as_index(times)
