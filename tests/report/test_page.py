"""The page as text: everything escaped, nothing from elsewhere, unique ids; written whole or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from cavity.report.drawings import as_svg, bars, pit_histogram, reliability
from cavity.report.page import DataTable, Facts, Page, Picture, Text, as_text

HOSTILE = '<script>alert(1)</script><img src=x onerror="alert(2)">'


def hostile_page() -> Page:
    page = Page(HOSTILE, HOSTILE)
    svg = as_svg(lambda ax: bars(ax, [HOSTILE, "$\\frac$"], [1.0, 2.0], HOSTILE), "salt")
    page.add(
        HOSTILE,
        Text(HOSTILE),
        Text(HOSTILE, "formula"),
        Facts([(HOSTILE, HOSTILE)]),
        DataTable([HOSTILE, "n"], [[HOSTILE, 1.5], ["b", float("nan")]], HOSTILE, filterable=True),
        Picture(svg, HOSTILE),
    )
    return page


def test_hostile_text_is_escaped_everywhere() -> None:
    html = hostile_page().html()
    assert html.count("<script>") == 1  # our own
    assert "onerror" in html
    assert "<img" not in html
    assert 'onerror="' not in html


def test_nothing_is_loaded_from_elsewhere() -> None:
    html = hostile_page().html()
    assert "Content-Security-Policy" in html
    loaded = re.findall(r'(?:src|href|xlink:href)="([^"]*)"', html)
    assert all(address.startswith("#") for address in loaded)
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)


def test_ids_of_pictures_do_not_collide() -> None:
    draw = as_svg(lambda ax: ax.plot([0, 1], [0, 1]), "one") + as_svg(lambda ax: ax.plot([0, 1]), "two")
    ids = re.findall(r' id="([^"]+)"', draw)
    assert len(ids) == len(set(ids))
    used = re.findall(r'xlink:href="#([^"]+)"|url\(#([^)]+)\)', draw)
    assert {a or b for a, b in used} <= set(ids)


def test_pictures_are_repeatable() -> None:
    assert as_svg(lambda ax: ax.plot([0, 1]), "a") == as_svg(lambda ax: ax.plot([0, 1]), "a")


def test_empty_sections_are_left_out_and_order_is_kept() -> None:
    page = Page("t")
    page.add("empty", None)
    page.add("one", Text("x"), None)
    assert [s.title for s in page.sections] == ["one"]


def test_writing_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "r.html"
    hostile_page().write(path)
    before = path.read_text()

    def fail(self: Page) -> str:
        raise RuntimeError("no")

    monkeypatch.setattr(Page, "html", fail)
    with pytest.raises(RuntimeError):
        Page("new").write(path)
    assert path.read_text() == before


def test_values_as_text() -> None:
    assert [as_text(v) for v in (True, np.False_, float("nan"), 1234.5678, 3, "x")] == [
        "yes",
        "no",
        "",
        "1235",
        "3",
        "x",
    ]


def test_drawings_show_what_they_are_given() -> None:
    from matplotlib.figure import Figure

    axis = Figure().subplots()
    levels = np.repeat(np.linspace(0.05, 0.95, 10), 3)
    pit_histogram(axis, levels, levels)
    assert [round(bar.get_height(), 9) for bar in axis.containers[0]] == [3] * 10
    axis = (
        Figure().subplots()
    )  # two counts, each with the mass of half of all: spread evenly over their halves
    pit_histogram(axis, np.array([0.0, 0.5]), np.array([0.5, 1.0]))
    assert [round(bar.get_height(), 9) for bar in axis.containers[0]] == [0.2] * 10
    axis = Figure().subplots()
    reliability(axis, [(0.6, 1, 2), (0.9, 2, 2)])
    points = [line for line in axis.lines if line.get_marker() == "o"]
    assert sorted(float(p.get_ydata()[0]) for p in points) == [0.5, 1.0]
