"""The report in a real browser: sorting, filtering, no errors, no requests, hostile names inert, dark and narrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity.report import model_page
from cavity.tables import prepare, read_table
from cavity.tables.comparing import Candidate, compare_models
from cavity.tables.fit import Options, fit_table

HOSTILE = "<script>document.title='run'</script>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 40))
    y = np.sin(x) + 0.1 * rng.standard_normal(40)
    y[[5, 20, 30]] += [3.0, -4.0, 5.0]
    kind = rng.choice(["<b>bold</b>", "plain"], 40)
    frame = pd.DataFrame({"y": y + (kind == "plain"), HOSTILE: x, "kind": kind})
    frame.to_csv(folder / "data.csv", index=False)
    table = read_table(folder / "data.csv")
    preparation, X, target = prepare(table, "y")
    model = fit_table(
        preparation, X, target, table, Options(likelihood="student-t", inference="variational", n_restarts=0)
    )
    tried = [Candidate("gaussian", "exact", "1.0*SE(ard)"), Candidate("gaussian", "ep", "no kernel")]
    comparison = compare_models(preparation, X, target, tried, folds=2, restarts=0)
    model.save(folder / "model.cavity")
    return model_page(model, table, comparison=comparison, command="cavity fit data.csv").write(
        folder / "report.html"
    )


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
    boxes = [svg.bounding_box() for svg in page.locator("figure svg:visible").all()]
    assert len(boxes) >= 3
    assert all(box["width"] > 200 and box["height"] > 80 for box in boxes)
    assert page.locator(".narrow svg:visible").count() == 0
    for address in page.eval_on_selector_all("nav a", "links => links.map(a => a.getAttribute('href'))"):
        assert page.locator(address).count() == 1


def test_narrow_and_dark(browser: Any, report: Path) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    color = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(22, 25, 29)"
    assert page.locator(".wide svg:visible").count() == 0
    assert page.locator(".narrow svg:visible").count() >= 3
    inside = page.locator("#comparison-of-models .scroll")
    assert inside.evaluate("box => box.scrollWidth > box.clientWidth")
    assert page.locator("#comparison-of-models .more").is_visible()  # says that the table goes on
    assert page.locator("#how-good-it-is .table").first.locator("tbody tr").count() == 4  # three plain models
    captions = page.eval_on_selector_all("caption", "all => all.map(c => c.getBoundingClientRect().right)")
    assert max(captions) <= 360  # they do not scroll away with their tables
    sizes = page.eval_on_selector_all(".curve text", "all => all.map(t => t.getBoundingClientRect().height)")
    assert min(sizes) >= 11  # letters that can be read
    context.close()


def test_the_answer_comes_first_and_hyperparameters_are_folded_away(page: Any) -> None:
    assert page.locator("main section").first.get_attribute("id") == "verdict"
    heads = page.locator(".verdict strong").all_text_contents()
    assert heads == ["How good", "What matters", "Beware"]
    assert page.locator("#verdict figure").count() == 1
    cell = page.locator("#the-model td", has_text="noise scale").first
    assert not cell.is_visible()
    page.locator("#the-model summary").click()
    assert cell.is_visible()
    assert page.locator("#the-model td", has_text=f"length scale of {HOSTILE}").count() == 1
    page.locator("#words summary").click()
    assert "log loss" in page.inner_text("#words")


def test_what_if_answers_as_the_model_does(page: Any, report: Path) -> None:
    model = cavity.load(report.with_name("model.cavity"))
    box = page.locator(".whatif")
    before = box.locator(".said").inner_text()
    slider, levels = box.locator("input[type=range]"), box.locator("select")
    levels.select_option(label="<b>bold</b>")
    slider.evaluate("s => { s.value = 1.5; s.dispatchEvent(new Event('input')); }")
    page.wait_for_function("old => document.querySelector('.said').innerText !== old", arg=before)
    page.wait_for_timeout(100)
    answer = model.predict(pd.DataFrame({HOSTILE: [1.5], "kind": ["<b>bold</b>"]}))
    shown = [float(v) for v in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", box.locator(".said").inner_text())]
    expected = [answer[name].iloc[0] for name in ("mean", "lower", "upper")]
    np.testing.assert_allclose([shown[0], *shown[2:]], expected, rtol=2e-3)  # four digits are shown
    assert box.locator("b").count() == 0
    assert page.problems == []
