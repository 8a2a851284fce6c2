"""Times of a series as people write them: quarters, named months, days first or last, offsets that change."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cavity.frames.errors import TableError
from cavity.tables import read_table
from cavity.tables.series import read_series

DAYS = pd.date_range("2024-01-01", periods=20)


def read(folder: Path, times: list[str]) -> pd.Series:
    pd.DataFrame({"when": times, "y": range(len(times))}).to_csv(folder / "data.csv", index=False)
    return read_series(read_table(folder / "data.csv"), "when", "y")


@pytest.mark.parametrize(
    ("written", "order"),
    [("%d.%m.%Y", "day, month"), ("%m/%d/%Y", "month, day"), ("%d-%m-%Y 06:30", "day, month")],
)
def test_a_day_beyond_the_twelfth_tells_the_order(tmp_path: Path, written: str, order: str) -> None:
    found = read(tmp_path, list(DAYS.strftime(written)))
    assert list(found.index.normalize()) == list(DAYS)
    assert found.attrs["notes"] == [f"Dates of 'when' are read as {order}, year."]


def test_an_order_that_nothing_tells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="nobody can tell whether the day or the month comes first"):
        read(tmp_path, list(DAYS[:12].strftime("%d/%m/%Y")))
    with pytest.raises(TableError, match="nobody can tell"):
        read(tmp_path, ["13.01.2024", "01.13.2024"])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (["2023Q4", "2024Q1", "2024Q2"], ["2023-10-01", "2024-01-01", "2024-04-01"]),
        (["2023-Q4", "2024-Q1"], ["2023-10-01", "2024-01-01"]),
        (["Dec 2023", "Jan 2024"], ["2023-12-01", "2024-01-01"]),
        (["December 2023", "January 2024"], ["2023-12-01", "2024-01-01"]),
    ],
)
def test_quarters_and_named_months(tmp_path: Path, times: list[str], expected: list[str]) -> None:
    found = read(tmp_path, times)
    assert list(found.index) == list(pd.to_datetime(expected))
    assert found.attrs["notes"] == []


def test_offsets_that_change_with_daylight_saving_time(tmp_path: Path) -> None:
    hours = pd.date_range("2024-03-31 00:00", periods=6, freq="h", tz="Europe/Berlin")
    found = read(tmp_path, [hour.isoformat() for hour in hours])
    assert list(found.index) == list(hours.tz_convert("UTC").tz_localize(None))
    assert found.attrs["notes"] == ["Times of 'when' have several offsets, and are read as universal time."]
    with pytest.raises(TableError, match="different time zones"):
        read(tmp_path, ["2024-03-31 00:00+01:00", "2024-03-31 01:00"])


def test_values_of_three_decimals(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("when,y\n2024-01-01,9.955\n2024-01-02,10.123\n2024-01-03,100\n")
    found = read_series(read_table(tmp_path / "data.csv"), "when", "y")
    assert list(found) == [9.955, 10.123, 100.0]
