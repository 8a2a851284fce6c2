"""The report of a study: what it says, and how it behaves in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cavity.design import Categorical, History, Real, Space, Study, suggest
from cavity.report import study_page
from cavity.report.study import effect_of

HOSTILE = "<script>document.title='run'</script>"
SPACE = Space(
    {HOSTILE: (20.0, 90.0), "rate": Real(1e-4, 1.0, log=True), "kind": Categorical(("<b>A</b>", "B"))}
)


def cost(x: dict[str, Any]) -> float:
    return (x[HOSTILE] - 50.0) ** 2 / 200 + (np.log10(x["rate"]) + 2.0) ** 2 + (x["kind"] == "B")


@pytest.fixture(scope="module")
def study() -> Study:
    history = History()
    for k, u in enumerate(SPACE.sobol(20, np.random.default_rng(0))):
        x = SPACE.from_unit(u)
        history = history.with_outcome(x, float("nan") if k == 6 else cost(x) - 20.0 * (k == 9))
    return Study(history.with_pending({HOSTILE: 60.0, "rate": 0.1, "kind": "B"}), SPACE)


@pytest.fixture(scope="module")
def report(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    chosen = suggest(study.history, SPACE, n=2)
    page = study_page(study, "cost", chosen, command="cavity suggest runs.csv --minimize cost")
    return page.write(tmp_path_factory.mktemp("study") / "study.html")


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


def test_no_errors_no_requests_and_hostile_names_are_inert(page: Any, report: Path) -> None:
    assert page.problems == []
    assert page.requests == [report.as_uri()]
    assert page.title() == "Study of cost"
    assert page.locator("main b").count() == 0
    assert HOSTILE in page.inner_text("main")


def test_the_best_comes_first_with_what_is_left_and_what_is_doubtful(page: Any, study: Study) -> None:
    assert page.locator("main section").first.get_attribute("id") == "best-so-far"
    said = page.inner_text("#best-so-far .verdict")
    best = study.recommendation
    assert best is not None
    assert f"Trial {best.trial}:" in said
    assert "hardly be better anywhere by more than" in said
    assert "trial 10 (100" in said  # the gross error
    assert page.locator("#best-so-far .wide svg:visible").count() == 1
    assert "19 trials done, 1 pending, 1 failed" in page.inner_text("header")


def test_a_picture_for_each_input_three_times(page: Any) -> None:
    for section in ("around-the-best", "what-the-inputs-do", "where-the-optimum-may-be"):
        boxes = [svg.bounding_box() for svg in page.locator(f"#{section} svg").all()]
        assert len(boxes) == 3
        assert all(box["width"] > 150 and box["height"] > 100 for box in boxes)
    assert page.locator("#next-experiments tbody tr").count() == 2
    for address in page.eval_on_selector_all("nav a", "links => links.map(a => a.getAttribute('href'))"):
        assert page.locator(address).count() == 1


def test_trials_sort_and_filter(page: Any) -> None:
    assert page.locator("#trials tbody tr").count() == 21
    page.locator("#trials th", has_text="cost").locator("button").click()
    values = page.locator("#trials tbody tr td:nth-child(5)").all_text_contents()
    numbers = [float(v) for v in values if v]
    assert numbers == sorted(numbers)
    page.fill("#trials input[type=search]", "pending")
    assert page.locator("#trials tbody tr:visible").count() == 1


def test_on_a_phone_in_the_dark(browser: Any, report: Path) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 700}, color_scheme="dark")
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#best-so-far .narrow svg:visible").count() == 1
    context.close()


def test_partial_dependence_is_the_average_over_the_box(study: Study) -> None:
    """Against the average of predictions, and in the user's units."""
    found = effect_of(study, "cost", 0)
    box = SPACE.sobol(60, np.random.default_rng(0))
    box[:, 0] = 0.5
    mean = study.in_units(float(study.fit.moments(box)[0].mean()), 0.0)[0]
    middle = int(np.argmin(np.abs(found.places - 55.0)))
    assert found.average[middle, 0] == pytest.approx(mean, rel=1e-9)
    assert found.low is not None
    assert found.high is not None
    assert (found.low < found.average[:, 0]).all()
    assert (found.high > found.average[:, 0]).all()


def test_pages_without_a_model() -> None:
    assert "No trial has an outcome" in study_page(Study(History(), SPACE), "cost").html()
    history = History().with_outcome({HOSTILE: 60.0, "rate": 0.1, "kind": "B"}, 1.0)
    text = study_page(Study(history, SPACE), "cost").html()
    assert "there is no model yet" in text
    assert "what-the-inputs-do" not in text
