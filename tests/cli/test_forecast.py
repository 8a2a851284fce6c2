"""`cavity fit --time` and `cavity forecast`: outputs, files, messages, and the report in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cavity
from cavity.cli import app

BROWSER = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
HOSTILE = "<img src=x onerror=alert(1)>"


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(result: Any, message: str) -> None:
    assert result.exit_code == 1, result.output
    assert message in result.stderr.replace("\n", " "), result.stderr
    assert "Traceback" not in result.output


def table(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    y = 20 + 3 * np.sin(np.pi * np.arange(n) / 2) + 0.5 * rng.standard_normal(n)
    y[17] -= 15.0
    dates = pd.date_range("2014-01-01", periods=n, freq="QS").strftime("%Y-%m")
    return pd.DataFrame({"quarter": dates, HOSTILE: y})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("series")
    table().to_csv(made / "data.csv", index=False)
    options = ("--target", HOSTILE, "--time", "quarter", "--report", made / "page.html")
    result = run("fit", made / "data.csv", *options)
    assert result.exit_code == 0, result.output
    (made / "said.txt").write_text(result.output)
    return made


def test_what_a_fit_says(folder: Path) -> None:
    said = (folder / "said.txt").read_text()
    assert "Learned from 40 values" in said
    assert "Seasons: year (4 steps)." in said
    assert "Probable gross errors: 2018-04-01." in said


def test_forecast_to_a_file_and_to_a_date(folder: Path) -> None:
    out = folder / "ahead.csv"
    assert run("forecast", folder / "data.cavity", "--horizon", 4, "-o", out).exit_code == 0
    frame = pd.read_csv(out)
    assert frame["time"].tolist() == ["2024-01-01", "2024-04-01", "2024-07-01", "2024-10-01"]
    expected = cavity.load(folder / "data.cavity").forecast(4)
    np.testing.assert_allclose(frame[["median", "lower", "upper"]], expected)
    shown = run("forecast", folder / "data.cavity", "--horizon", "2024-07-15")
    assert len(shown.stdout.strip().splitlines()) == 4
    parts = run("forecast", folder / "data.cavity", "--horizon", 1, "--components")
    assert parts.stdout.startswith("time,trend mean,trend lower")
    assert len(parts.stdout.strip().splitlines()) == 42


def test_what_is_refused(folder: Path, tmp_path: Path) -> None:
    model = folder / "data.cavity"
    refused(
        run("forecast", model, "--horizon", "2001-01"),
        "--horizon has 2001-01-01 00:00:00, which is not after",
    )
    refused(run("forecast", model, "--horizon", "soon"), "'soon' in row 0, which is not a date")
    refused(run("forecast", model, "--interval", 2), "--interval must be between 0 and 1")
    refused(run("predict", model, folder / "data.csv"), "use cavity forecast")
    plain = ("--target", "y", "--time", "day")

    def fit(text: str, *more: str) -> Any:
        (tmp_path / "bad.csv").write_text("day,y\n" + text)
        return run("fit", tmp_path / "bad.csv", *plain, *more)

    dates = [f"2024-01-0{i}" for i in range(1, 7)]
    good = "".join(f"{day},{i}\n" for i, day in enumerate(dates))
    refused(fit(good.replace("2024-01-03", "soon")), "'soon' in row 3, which is not a date")
    refused(fit(good.replace("2024-01-02,", ",")), "no time in row 2")
    refused(fit(good.replace(",3", ",inf")), "'inf' in row 4, which is not a finite number")
    refused(fit("".join(f"{day},\n" for day in dates)), "all values are missing")
    refused(fit("2024-01-01 00:00Z,1\n2024-01-02 00:00,2\n"), "dates of different time zones")
    refused(fit("01/02/2024,1\n02/02/2024,2\n"), "nobody can tell whether the day or the month comes first")
    refused(fit(good, "--season", "week"), "--season has 'week', a season of 7 steps")
    refused(fit(good, "--kernel", "SE(1.0)"), "--kernel is not for time series")
    refused(
        run("fit", tmp_path / "bad.csv", "--target", "y", "--time", "dya"), "no column 'dya'; there is 'day'"
    )
    refused(
        run("fit", tmp_path / "bad.csv", "--target", "y", "--season", "week"), "--season is for time series"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if BROWSER is None and os.environ.get("CI") == "true":
        pytest.fail("chromium is not installed", pytrace=False)
    if BROWSER is None:
        pytest.skip("needs chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_in_a_browser(browser: Any, folder: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.goto((folder / "page.html").as_uri())
    titles = page.locator("h2").all_text_contents()
    assert titles[:5] == ["Forecast", "Components", "Gross errors", "Forecasts of the past", "The model"]
    assert HOSTILE in page.locator("h1").text_content()
    assert page.locator("figure svg").count() == 3
    assert page.locator("#gross-errors tbody tr").first.text_content().startswith("2018-04-01")
    assert page.locator("#forecasts-of-the-past dd").nth(0).text_content() == "6"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert problems == []
    page.close()
