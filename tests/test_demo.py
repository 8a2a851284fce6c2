"""The demonstration: the robust model finds the gross errors and predicts better; a picture and a report result."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from cavity.cli import app
from cavity.demo import N_OUTLIERS, NOISE_SD, make_data, true_function, verdict


def test_data_are_reproducible_and_have_gross_errors():
    a, b = make_data(3), make_data(3)
    np.testing.assert_array_equal(a.y, b.y)
    assert a.is_outlier.sum() == N_OUTLIERS
    error = np.abs(a.y - true_function(a.X[:, 0]))
    assert error[a.is_outlier > 0].min() > 6 * NOISE_SD
    assert error[a.is_outlier == 0].max() < 4 * NOISE_SD


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    result = CliRunner().invoke(app, ["demo", "--out", str(folder), "--max-time", "2"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result, folder


def test_the_command_ends_with_a_table_and_where_things_are(shown):
    result, folder = shown
    lines = result.stdout.splitlines()
    assert lines[-2] == f"Picture: {(folder / 'fits.png').resolve()}"
    assert lines[-1] == f"Report: {(folder / 'report.html').resolve()}"
    plain, robust = (
        [
            float(v)
            for v in re.findall(r"-?\d+\.\d\d", next(line for line in lines if line.startswith(f"│{name}")))
        ]
        for name in ("Gaussian", "Student-t")
    )
    for position, better in enumerate((np.greater, np.less, np.less)):  # evidence, log loss, RMSE
        assert better(robust[position], plain[position])
    assert f"{N_OUTLIERS} of {N_OUTLIERS}" in result.stdout
    assert (folder / "fits.png").read_bytes().startswith(b"\x89PNG")


def test_the_check_says_what_it_found_and_progress_is_announced(shown):
    result, _ = shown
    assert re.search(r"EP\s+-22\.63", result.stdout)  # numbers are not cut short in 80 columns
    assert "EP: evidence within 0." in result.stdout
    assert "Fitting Student-t noise, EP ..." in result.stderr
    assert "2 seconds" in result.stderr


def test_the_report_holds_everything_and_loads_nothing(shown):
    html = (shown[1] / "report.html").read_text(encoding="utf-8")
    for title in ("Comparison", "The fits", "Outliers", "Check of the approximation", "How to repeat it"):
        assert f"<h2>{title}</h2>" in html
    assert html.count("<svg") == 3  # two fits and the check
    assert "EP: evidence within" in html
    assert "cavity demo --seed 3" in html
    assert all(link.startswith("#") for link in re.findall(r'(?:src|href)="([^"]*)"', html))


def test_the_sentence_says_what_the_table_says():
    def row(name, evidence, loss):
        return {"model": name, "log evidence": evidence, "test log loss": loss}

    assert verdict([row("A", -9.0, 0.5), row("B", -5.0, 0.25)]) == (
        "B has 4.0 nats more evidence than A, and a log loss on clean test data that is 0.25 nats per point lower."
    )
    assert "less evidence" in verdict([row("A", -5.0, 0.5), row("B", -9.0, 1.0)])
    assert "per point higher" in verdict([row("A", -5.0, 0.5), row("B", -9.0, 1.0)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-time", "0"], "--max-time must be a positive number of seconds"),
        (["--out", __file__], "is not a folder"),
    ],
)
def test_what_is_refused(arguments, message):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 1
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.output
