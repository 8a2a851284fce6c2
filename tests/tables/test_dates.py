"""Dates as numbers: what is understood, in which unit, and what is refused."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import pytest

import cavity.frames.files  # noqa: F401  # which registers columns
from cavity.frames.columns import Column
from cavity.io import dumps, loads
from cavity.io.errors import ModelFileError
from cavity.io.registry import codec_of
from cavity.report.content import glance
from cavity.tables import Table, TableError, prepare
from cavity.tables.description import hyperparameters
from cavity.tables.fit import fit_table
from cavity.tables.training import Options

N = 12
Y = np.sin(np.arange(N))


def prepared(dates, **options):
    frame = pd.DataFrame({"day": dates, "y": Y[: len(dates)]})
    return prepare(Table(frame, np.arange(1, len(frame) + 1), len(frame)), "y", **options)


def days_since(first: datetime, *others: datetime) -> list[float]:
    """By Python's own calendar."""
    return [(other - first).total_seconds() / 86400 for other in (first, *others)]


def test_dates_of_some_months_are_days_since_the_first():
    preparation, X, _ = prepared(["2024-02-28", "2024-02-29 12:00", "2024-03-01T06:00:00"])
    truth = days_since(datetime(2024, 2, 28), datetime(2024, 2, 29, 12), datetime(2024, 3, 1, 6))
    np.testing.assert_allclose(X["day"], truth, rtol=1e-14)
    assert preparation.columns[0].unit == "days since 2024-02-28"


def test_dates_of_several_years_are_years():
    _, X, _ = prepared(["2000-01", "2001-07-02", "2003-12-31 23:59:59", "2004/7/2"])
    year = 365 * 86400
    # the 2nd of July is day 183 of 365, after 182, and day 184 of 366 in a leap year, after 183
    np.testing.assert_allclose(
        X["day"], [2000, 2001 + 182 / 365, 2004 - 1 / year, 2004 + 183 / 366], rtol=1e-14
    )


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2024-01-01 06:00", periods=N, freq="36h"),
        pd.date_range("2024-01-01 07:00", periods=N, freq="36h", tz="Europe/Berlin"),
        [t.isoformat() for t in pd.date_range("2024-01-01 07:00", periods=N, freq="36h", tz="Europe/Berlin")],
        [t.strftime("%Y/%m/%d %H:%M") for t in pd.date_range("2024-01-01 06:00", periods=N, freq="36h")],
    ],
)
def test_types_zones_and_texts_mean_the_same(dates):
    _, X, _ = prepared(dates)
    np.testing.assert_allclose(X["day"], 0.25 + 1.5 * np.arange(N), rtol=1e-14)


@pytest.mark.parametrize(
    ("written", "order"),
    [
        ("%d.%m.%Y", "day, month, year"),
        ("%d/%m/%Y", "day, month, year"),
        ("%m/%d/%Y", "month, day, year"),
        ("%d-%m-%Y 06:30", "day, month, year"),
    ],
)
def test_dates_with_the_year_last_are_read_if_the_column_tells_the_order(written, order):
    days = [datetime(2023, 12, 22), datetime(2023, 12, 23), datetime(2024, 1, 2)]
    preparation, X, _ = prepared([day.strftime(written) for day in days])
    gaps = np.diff([day.timestamp() for day in days]) / 86400
    np.testing.assert_allclose(np.diff(X["day"]), gaps, rtol=1e-14)
    assert f"Column 'day' holds dates ({order}): days since 2023-12-22." in map(str, preparation.notes)


def test_the_order_of_the_fit_is_that_of_new_tables_also_from_a_file():
    days = pd.date_range("2023-12-20", periods=N).strftime("%d/%m/%Y")
    frame = pd.DataFrame({"day": days, "y": Y})
    table = Table(frame, np.arange(1, N + 1), N)
    options = Options(likelihood="gaussian", n_restarts=0, test_size=0.0)
    model = loads(dumps(fit_table(*prepare(table, "y"), table, options)))
    new = pd.DataFrame({"day": ["01/02/2024", "2024-02-01"]})  # the first of February, twice
    assert model.preparation.inputs(new)["day"].tolist() == [43, 43]


def test_points_stand_after_the_day_unless_the_column_says_otherwise():
    _, X, _ = prepared(["01.02.2024", "02.02.2024", "04.02.2024"])
    assert X["day"].tolist() == [0, 1, 3]
    _, X, _ = prepared(["02.12.2024", "02.13.2024", "02.15.2024"])
    assert X["day"].tolist() == [0, 1, 3]


@pytest.mark.parametrize(
    "dates", [["01/02/2024", "02/02/2024", "04/02/2024"], ["13.01.2024", "01.13.2024", "01.01.2024"]]
)
def test_days_that_may_be_months_are_asked_about(dates):
    with pytest.raises(TableError, match="nobody can tell whether the day or the month comes first"):
        prepared(dates)


def test_quarters_and_months_by_name_are_dates():
    _, X, _ = prepared(["2019Q1", "2020-Q3", "2024 q2"])
    np.testing.assert_allclose(X["day"], [2019, 2020 + 182 / 366, 2024 + 91 / 366], rtol=1e-14)
    _, X, _ = prepared(["Jan 2019", "Jul 2020", "April 2024"])
    np.testing.assert_allclose(X["day"], [2019, 2020 + 182 / 366, 2024 + 91 / 366], rtol=1e-14)


def test_days_of_python_are_dates():
    _, X, _ = prepared([date(2024, 1, 1 + i) for i in range(N)])
    np.testing.assert_array_equal(X["day"], np.arange(N))


def test_a_time_zone_that_changes_its_clocks_leaves_no_gap():
    hours = pd.date_range(
        "2024-03-30 20:00", periods=N, freq="h", tz="Europe/Berlin"
    )  # 2 o'clock is missing that night
    _, X, _ = prepared([t.isoformat() for t in hours])
    begin = datetime(2024, 3, 30, tzinfo=UTC)
    truth = [(t.to_pydatetime() - begin).total_seconds() / 86400 for t in hours]
    np.testing.assert_allclose(X["day"], truth, rtol=1e-14)


def test_missing_dates_are_refused_or_filled_in():
    dates = ["2024-01-01", "", "2024-01-05", "2024-01-03"]
    with pytest.raises(TableError, match=r"values are missing in 1 column: day \(1\)"):
        prepared(dates, impute="none")
    preparation, X, _ = prepared(dates)
    assert X["day"].tolist() == [0, 2, 4, 2]
    assert X["day is missing"].tolist() == [0, 1, 0, 0]
    assert any("1 missing value filled in by the median, 2," in str(note) for note in preparation.notes)


def test_dates_that_are_all_the_same_are_left_out():
    frame = pd.DataFrame({"x": Y, "day": "2024-01-01", "y": Y})
    preparation, X, _ = prepare(Table(frame, np.arange(1, N + 1), N), "y")
    assert list(X.columns) == ["x"]
    assert preparation.ignored == ("day",)


def test_new_tables_have_the_unit_of_the_fit():
    preparation, _, _ = prepared([f"2024-01-{i + 1:02d}" for i in range(N)])
    new = pd.DataFrame({"day": ["2023-12-31", "2030-01-01"]})  # far more than the dates of the fit span
    assert preparation.inputs(new)["day"].tolist() == days_since(
        datetime(2024, 1, 1), datetime(2023, 12, 31)
    )[1:] + [(date(2030, 1, 1) - date(2024, 1, 1)).days]
    with pytest.raises(
        TableError, match="column 'day' has 'soon' in row 2, which is not a date such as 2024-03-05"
    ):
        preparation.inputs(pd.DataFrame({"day": ["2024-01-01", "soon"]}))


@pytest.mark.parametrize("day", [["2024-01-02", "2024.5"], [2024.0, 2024.5], [20240102, 20240103]])
def test_numbers_are_no_dates_of_new_tables(day):
    preparation, _, _ = prepared([f"2024-01-{i + 1:02d}" for i in range(N)])
    with pytest.raises(TableError, match=r"column 'day' has '20.*, which is not a date such as 2024-03-05"):
        preparation.inputs(pd.DataFrame({"day": day}))


def test_dates_with_points_between_their_parts():
    _, X, _ = prepared(["2024.01.05", "2024.1.7", "2024.01.06 12:00"])
    np.testing.assert_array_equal(X["day"], [0, 2, 1.5])


def test_months_of_pandas_are_dates_of_new_tables():
    preparation, _, _ = prepared([f"2024-01-{i + 1:02d}" for i in range(N)])
    months = pd.DataFrame({"day": pd.period_range("2024-01", periods=2, freq="M")})
    assert preparation.inputs(months)["day"].tolist() == [0, 31]


def test_a_model_of_dates_knows_their_unit_after_it_was_stored():
    frame = pd.DataFrame({"month": pd.date_range("1999-01", periods=N, freq="6MS").strftime("%Y-%m"), "y": Y})
    table = Table(frame, np.arange(1, N + 1), N)
    options = Options(likelihood="gaussian", n_restarts=0, test_size=0.0)
    model = loads(dumps(fit_table(*prepare(table, "y"), table, options)))
    assert model.preparation.columns == (Column("month", fill=(2001 + 181 / 365 + 2002) / 2, unit="years"),)
    meanings = {one.name: one.meaning for one in hyperparameters(model)}
    assert re.fullmatch(r"matters over about [\d.]+ years", meanings["se.lengthscale[0]"])
    line = glance(frame, model.preparation.columns, {"y": None}).rows[1]
    assert line[:4] == ["month", "input", "dates from 1999-01 to 2004-07", 0]


def test_a_glance_at_dates_that_have_a_type():
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=N), "y": Y})
    preparation, _, _ = prepare(Table(frame, np.arange(1, N + 1), N), "y")
    line = glance(frame, preparation.columns, {"y": None}).rows[1]
    assert line[2] == "dates from 2024-01-01 00:00:00 to 2024-01-12 00:00:00"


def test_a_glance_at_other_dates_does_not_show_what_stands_in_for_missing_ones():
    preparation, _, _ = prepared([f"2024-01-{i + 1:02d}" for i in range(N)], impute="median")
    later = pd.DataFrame({"day": ["", "2025-01-02", "2025-01-01", None]})
    assert glance(later, preparation.columns, {}).rows[0][2] == "dates from 2025-01-01 to 2025-01-02"
    assert glance(later.iloc[[0, 3]], preparation.columns, {}).rows[0][2] == "dates"


def test_length_scales_of_one_column_are_in_its_unit_except_on_a_circle():
    frame = pd.DataFrame({"month": pd.date_range("1999-01", periods=N, freq="6MS").strftime("%Y-%m"), "y": Y})
    table = Table(frame, np.arange(1, N + 1), N)
    kernel = "1.0*SE(5.0) + 1.0*Periodic(SE(1.0), period=fixed(1.0))"
    options = Options(kernel, likelihood="gaussian", n_restarts=0, test_size=0.0)
    found = {
        one.name: one.meaning for one in hyperparameters(fit_table(*prepare(table, "y"), table, options))
    }
    assert found["se.lengthscale"] == "nearly a straight line"  # many times as long as the five years
    assert found["periodic.period"] == "in years, of month"
    assert found["se_2.lengthscale"] == ""


@pytest.mark.parametrize(("levels", "unit"), [(None, "fortnights"), (None, 3), (("a", "b"), "years")])
def test_files_with_units_that_are_none_are_refused(levels, unit):
    with pytest.raises(
        ModelFileError, match=r"unit of (a column must be one of dates|Column must be a text)"
    ):
        codec_of(Column("day")).build(name="day", levels=levels, codes=False, fill=None, unit=unit)


def test_a_glance_at_written_numbers_reads_them_as_the_model_does():
    frame = pd.DataFrame({"x": [f"{v} %" for v in range(N)], "y": [f"${1000 + v:,}" for v in range(N)]})
    preparation, _, _ = prepare(Table(frame, np.arange(1, N + 1), N), "y")
    target, x = glance(frame, preparation.columns, {"y": preparation.target_style}).rows
    assert target[2:] == ["number", 0, 1000.0, 1000.0 + (N - 1) / 2, 1000.0 + N - 1, ""]
    assert x[2:] == ["number", 0, 0.0, (N - 1) / 2, N - 1.0, ""]
