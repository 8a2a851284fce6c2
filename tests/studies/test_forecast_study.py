"""The study of forecasts: how series are cut and spoiled, and how methods are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cavity.studies import Results, load
from cavity.studies import forecast_series as public
from cavity.studies.forecasts import (
    CLEAN,
    COMPETITORS,
    COVERAGE,
    ERRORS,
    OURS,
    RATIO,
    measures_of,
    ratios,
    remarks,
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    y = 100.0 + np.random.default_rng(0).standard_normal(300).cumsum()
    monkeypatch.setattr(public, "values", lambda name: y)
    return y


def test_origins_leave_the_horizon(made: np.ndarray) -> None:
    places = public.origins("wineind")
    assert len(places) == 10
    assert places[0] == 150
    assert places[-1] == 300 - 24


def test_errors_are_two_percent_gross_and_repeatable(made: np.ndarray) -> None:
    _, clean = public.training("wineind", 250, False)
    _, wrong = public.training("wineind", 250, True)
    changed = wrong != clean
    assert changed.sum() == 5
    change = made[12:250] - made[:238]
    scale = 1.4826 * np.median(np.abs(change - np.median(change))) / np.sqrt(2)
    sizes = np.abs(wrong - clean)[changed] / scale
    assert ((sizes >= 10) & (sizes <= 30)).all()
    np.testing.assert_array_equal(wrong, public.training("wineind", 250, True)[1])


def test_measures_of_known_forecasts() -> None:
    truth = [np.array([0.0, 0.0, np.nan]), np.array([1.0, 5.0, 1.0])]
    found = {
        "mean": [[3.0, -3.0, 9.0], [1.0, 1.0, 1.0]],
        "lower": [[-4.0] * 3] * 2,
        "upper": [[4.0] * 3] * 2,
        "seconds": [1, 3],
    }
    got = measures_of(found, truth)
    assert got["RMSE 1"] == pytest.approx(3.0)
    assert got["RMSE 2"] == pytest.approx(4 / np.sqrt(3))
    assert got[COVERAGE] == pytest.approx((1 + 2 / 3) / 2)
    assert got["CPU seconds of a fit"] == 2.0


def test_ratios_are_over_the_best_competitor() -> None:
    rmse = {OURS: (2.0, 4.0), "ETS": (4.0, 4.0), "SARIMA": (5.0, 2.0), "Prophet": (9.0, 9.0)}
    records = [
        {
            "labels": {"method": method, "series": "nile", "data": data},
            "measures": {"median RMSE": np.mean(each), COVERAGE: 0.9, "RMSE 1": each[0], "RMSE 2": each[1]},
            "seconds": 1.0,
            "note": "",
            "error": "",
        }
        for method, each in rmse.items()
        for data in (CLEAN, ERRORS)
    ]
    results = Results(records, Path(), quick=False)
    found = ratios(results.frame)
    assert found[RATIO].tolist() == pytest.approx([3 / 3.5] * 2)
    assert found["best competitor"].tolist() == ["SARIMA"] * 2
    assert found["over the best at each origin"].tolist() == pytest.approx([(0.5 + 2.0) / 2] * 2)
    assert any("held out (1 series)" in line for line in remarks(results))


def test_all_cells() -> None:
    cells = load("forecasts").cells(False)
    assert len(cells) == len(public.KINDS) * 2 * (1 + len(COMPETITORS))
    assert sum(kind.held_out for kind in public.KINDS.values()) >= 5
    assert len({cell.slug for cell in cells}) == len(cells)
