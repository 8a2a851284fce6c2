"""Predictions as cells of a text file: digits that mean something, nothing infinite, no formulas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity.tables.writing import REGRESSION, as_cells, escaped


def cells(mean, sd, half=None, digits=4):
    half = 2 * sd if half is None else half
    frame = pd.DataFrame({"mean": [mean], "sd": [sd], "lower": [mean - half], "upper": [mean + half]})
    return as_cells(frame, REGRESSION, digits, True).iloc[0].tolist()


@pytest.mark.parametrize(
    ("mean", "sd", "written"),
    [
        (123.456789, 1.23456789, ["123.457", "1.235", "120.988", "125.926"]),
        (0.1, 0.012345678, ["0.10000", "0.01235", "0.07531", "0.12469"]),
        (1234567.0, 54321.0, ["1234567", "54321", "1125925", "1343209"]),
        (0.0, 2.0, ["0.000", "2.000", "-4.000", "4.000"]),
        (1e9, 1e-3, ["1000000000.000000", "0.001000", "999999999.998000", "1000000000.002000"]),
        (3.0, np.inf, ["3.000", "", "1.000", "5.000"]),
    ],
)
def test_digits_are_those_of_the_sd(mean, sd, written):
    assert cells(mean, sd, 2.0 if np.isinf(sd) else None) == written


def test_very_large_and_small_numbers_and_those_without_a_scale():
    assert cells(1.5e-20, 1e-22) == ["1.50000e-20", "1.000e-22", "1.48000e-20", "1.52000e-20"]
    assert cells(1.5e30, 1e28) == ["1.50000e+30", "1.000e+28", "1.48000e+30", "1.52000e+30"]
    assert cells(2.5, 0.0) == ["2.5", "0.0", "2.5", "2.5"]
    assert cells(1 / 3, 0.25, digits=17)[0] == repr(1 / 3)


def test_what_is_read_again_is_near_enough():
    rng = np.random.default_rng(0)
    mean, sd = 10.0 ** rng.uniform(-30, 30, 200), 10.0 ** rng.uniform(-30, 30, 200)
    frame = pd.DataFrame({"mean": mean, "sd": sd, "lower": mean - sd, "upper": mean + sd})
    read = as_cells(frame, REGRESSION, 4, True).astype(float)
    # half a unit of the fourth digit of the sd, or of the last digit of a floating-point number
    assert (np.abs(read["sd"] - sd) <= 0.5001e-3 * sd).all()
    for name in ("mean", "lower", "upper"):
        assert (np.abs(read[name] - frame[name]) <= 0.5001e-3 * sd + 1e-15 * np.abs(frame[name])).all()


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+cmd", "-x", "@SUM(A1)", "\tx", "\r=1", "=HYPERLINK('http://a')", "＝1", "-1+1|' /C'!A0", "+"],
)
def test_formulas_are_marked_as_text(text):
    assert escaped(text) == f"'{text}"


@pytest.mark.parametrize(
    "value", ["-1", "+2.5", "-1e-3", "-1,5", "-$5", "-3 %", "a=b", "", "'x", -1.5, None, 7]
)
def test_numbers_and_other_text_are_left_alone(value):
    assert escaped(value) == value


def test_classes_kept_cells_and_names_are_escaped_and_probabilities_short():
    frame = pd.DataFrame(
        {
            "=key": ["@a", "-4"],
            "n": [-1.0, 2.0],
            "label": ["=x", "y"],
            "p(=x)": [2 / 3, 1e-12],
            "p(y)": [1 / 3, 1.0],
        }
    )
    names = ["label", "p(=x)", "p(y)"]
    out = as_cells(frame, names, 4, True)
    assert list(out) == ["'=key", "n", "label", "p(=x)", "p(y)"]
    assert out["'=key"].tolist() == ["'@a", "-4"]
    assert out["n"].tolist() == [-1.0, 2.0]
    assert out["label"].tolist() == ["'=x", "y"]
    assert out["p(=x)"].tolist() == ["0.666667", "1e-12"]
    raw = as_cells(frame, names, 4, False)
    assert list(raw) == list(frame)
    assert raw["label"].tolist() == ["=x", "y"]
