"""The report in a real browser: sorting, filtering, no errors, no requests, hostile names inert, dark and narrow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cavity.report import model_page
from cavity.tables import prepare, read_table
from cavity.tables.comparing import Candidate, compare_models
from cavity.tables.fit import Options, fit_table

BROWSER = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
HOSTILE = "<script>document.title='run'</script>"

if BROWSER is None and os.environ.get("CI") == "true":
    pytest.fail("chromium is not installed: .ci/run must install it", pytrace=False)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 40))
    y = np.sin(x) + 0.1 * rng.standard_normal(40)
    y[[5, 20, 30]] += [3.0, -4.0, 5.0]
    frame = pd.DataFrame({"y": y, HOSTILE: x, "kind": rng.choice(["<b>bold</b>", "plain"], 40)})
    frame.to_csv(folder / "data.csv", index=False)
    table = read_table(folder / "data.csv")
    preparation, X, target = prepare(table, "y")
    model = fit_table(
        preparation, X, target, table, Options(likelihood="student-t", inference="variational", n_restarts=0)
    )
    tried = [Candidate("gaussian", "exact", "1.0*SE(ard)"), Candidate("gaussian", "ep", "no kernel")]
    comparison = compare_models(preparation, X, target, tried, folds=2, restarts=0)
    return model_page(model, table, comparison=comparison, command="cavity fit data.csv").write(
        folder / "report.html"
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    context = browser.new_context()
    page = context.new_page()
    page.problems, page.requests = [], []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requests.append(request.url))
    page.goto(report.as_uri())
    yield page
    context.close()


def column(page: Any, section: str, number: int) -> list[str]:
    return list(page.locator(f"#{section} tbody tr:visible td:nth-child({number})").all_text_contents())


def test_no_errors_and_no_requests(page: Any, report: Path) -> None:
    assert page.problems == []
    assert page.requests == [report.as_uri()]


def test_hostile_names_are_shown_not_run(page: Any) -> None:
    assert page.title() == "Gaussian process model of y"
    assert HOSTILE in page.inner_text("main")
    assert page.locator("main b").count() == 0


def test_outliers_sort_as_numbers(page: Any) -> None:
    before = column(page, "outliers", 1)
    assert len(before) >= 3
    head = page.locator("#outliers th").first
    head.locator("button").click()
    rising = [float(v) for v in column(page, "outliers", 1)]
    assert rising == sorted(rising)
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").click()
    assert [float(v) for v in column(page, "outliers", 1)] == sorted(rising, reverse=True)


def test_filter_hides_rows(page: Any) -> None:
    rows = column(page, "outliers", 1)
    page.fill("#outliers input[type=search]", f"{rows[0]}")
    kept = page.locator("#outliers tbody tr:visible").all_text_contents()
    assert 1 <= len(kept) <= len(rows)
    assert all(rows[0] in text for text in kept)
    page.fill("#outliers input[type=search]", "nothing like this")
    assert page.locator("#outliers tbody tr:visible").count() == 0


def test_every_picture_has_a_size_and_links_lead_somewhere(page: Any) -> None:
    boxes = [svg.bounding_box() for svg in page.locator("figure svg").all()]
    assert len(boxes) >= 3
    assert all(box["width"] > 200 and box["height"] > 80 for box in boxes)
    for address in page.eval_on_selector_all("nav a", "links => links.map(a => a.getAttribute('href'))"):
        assert page.locator(address).count() == 1


def test_narrow_and_dark(browser: Any, report: Path) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(22, 25, 29)"
    context.close()
