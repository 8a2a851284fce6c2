"""Studies of planning and policy search, cut to a few steps: they run, store, draw and tell what they found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity.control.planning import PlannerSettings
from cavity.studies import control_planning as planning
from cavity.studies import load
from cavity.studies.base import Cell, Study
from cavity.studies.runner import run

FEW = PlannerSettings(horizon=2, candidates=10, starts=1, evaluations=3, polish=2)


@pytest.fixture
def short(monkeypatch):
    """Little data, short plans, short episodes."""
    monkeypatch.setattr(planning, "CAR_STEPS", 3)
    monkeypatch.setattr(planning, "POLE_STEPS", 3)
    for table in ("CAR_METHODS", "POLE_METHODS"):
        fewer = {
            name: replace(
                method,
                transitions=min(method.transitions, 12),
                settings=replace(FEW, moment_matching=method.settings.moment_matching),
            )
            for name, method in getattr(planning, table).items()
        }
        monkeypatch.setattr(planning, table, fewer)
    full = planning._search
    monkeypatch.setattr(
        planning,
        "_search",
        lambda problem, quick: replace(
            full(problem, quick), steps=6, episodes=1, centers=3, iterations=2, first_horizon=6, horizon=6
        ),
    )


def test_mountain_car_planning(short, tmp_path):
    study = Study(
        "car", "t", "s", planning.planning_cells, draw=planning.draw_planning, remarks=planning.remarks
    )
    report = run(study, quick=True, out=tmp_path, progress=False)
    assert {p.name for p in report.pictures} == {"figure_7_10.png", "mountain_car_planning.gif"}
    assert not any(r["error"] for r in report.results.records)
    assert report.remarks[1].startswith("planning, means: 0 of 2, not with seeds 0, 1")
    for name in planning.CAR_METHODS:
        assert set(planning.drive(name, 0).measures) >= {"success", "off the goal", "decision, CPU ms"}


def test_cart_pole(short, tmp_path):
    def cells(quick):
        return [*planning.cart_pole_cells(True), *planning.search_cells("cart-pole", 1)]

    study = replace(load("cart-pole"), cells=cells)
    report = run(study, quick=True, out=tmp_path, progress=False)
    assert not any(r["error"] for r in report.results.records)
    names = {p.name for p in report.pictures}
    assert names == {
        "figure_7_11.png",
        "cart_pole_planning.gif",
        "learning_curves.png",
        "cart-pole_policy.gif",
    }
    assert planning.swing_up("planning, as printed", 0).measures["success"] == 0.0
    assert np.isfinite(planning.swing_up("planning, exact dynamics", 0).measures["tip at the end, cm"])


def test_pendulum(short, tmp_path, monkeypatch):
    monkeypatch.setattr(planning, "PENDULUM", FEW)
    report = run(load("pendulum"), quick=True, out=tmp_path, progress=False)
    assert not any(r["error"] for r in report.results.records)
    assert {p.name for p in report.pictures} == {"learning_curves.png", "pendulum_policy.gif"}


def test_full_studies_have_all_seeds_of_all_methods():
    for name, count in (("cart-pole", 10), ("pendulum", 10)):
        cells = load(name).cells(False)
        assert all(isinstance(cell, Cell) for cell in cells)
        assert len({cell.slug for cell in cells}) == len(cells)
        assert sum(cell.labels["method"] == "policy search" for cell in cells) == count
    printed = [c for c in load("cart-pole").cells(False) if c.labels["method"] == "planning, as printed"]
    assert len(printed) == 10
    assert sum("exact" in str(c.labels["method"]) for c in planning.planning_cells(False)) == 2
