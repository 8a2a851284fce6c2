"""Studies of value functions: cut down to what a test can wait for, with tables, remarks and pictures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cavity.studies import cart_pole_value, load, mountain_car, run


def no_film(system, trajectory, path, **options):
    """In place of animations, which have tests of their own and take their time."""
    assert len(trajectory.states) == len(trajectory.actions) + 1
    path.write_bytes(b"")
    return path


def test_the_car_holds_its_goal_with_both_iterations(tmp_path, monkeypatch):
    monkeypatch.setattr(mountain_car, "FINE", 9)
    monkeypatch.setattr(mountain_car, "animation", no_film)
    study = load("mountain-car")
    wanted = [
        c
        for c in study.cells(True)
        if c.labels["seed"] == 0 and c.labels["method"] in ("policy iteration", "Q-iteration")
    ]
    report = run(replace(study, cells=lambda quick: wanted), quick=True, out=tmp_path, progress=False)
    assert not [r["error"] for r in report.results.records if r["error"]]
    frame = report.results.frame.set_index("method")
    assert frame["success"].tolist() == [1.0, 1.0]
    assert frame.loc["policy iteration", "iterations"] <= 10
    assert frame.loc["policy iteration", "RMSE v"] < 0.2
    assert any(line.startswith("Q-iteration: 1 of 1") for line in report.remarks)
    names = {path.name for path in report.pictures}
    assert {"figure_7_5.png", "figure_7_6.png", "figure_7_7.png", "mountain_car.gif"} <= names


def test_all_methods_and_seeds_are_there():
    cells = load("mountain-car").cells(False)
    own = [c for c in cells if c.labels["method"] in mountain_car.METHODS]
    count = {m: sum(c.labels["method"] == m for c in own) for m in mountain_car.METHODS}
    assert count["policy iteration"] == count["Q-iteration"] == count["Q-iteration, as printed"] == 20
    assert count["policy iteration, 100 transitions"] == 10
    assert count["policy iteration, exact dynamics"] == 1
    assert len({c.slug for c in cells}) == len(cells)


@pytest.mark.parametrize("method", ["exact dynamics", "learned dynamics"])
def test_the_pole_is_controlled_on_a_small_grid(method, monkeypatch, tmp_path):
    """Too coarse to succeed; the whole way from transitions to pictures."""
    monkeypatch.setattr(cart_pole_value, "SIZES", (8, 8, 10, 8))
    monkeypatch.setattr(cart_pole_value, "TRANSITIONS", 40)
    monkeypatch.setattr(cart_pole_value, "animation", no_film)
    cell = next(c for c in cart_pole_value.cells(False) if c.labels["method"] == method)
    cell = replace(cell, arguments={**cell.arguments, "iterations": 1})
    study = replace(load("cart-pole-value"), cells=lambda quick: [cell])
    report = run(study, out=tmp_path, progress=False)
    record = report.results.records[0]
    assert not record["error"]
    assert 0 <= record["measures"]["earned in the model"] <= 1
    assert report.pictures[0].exists()
