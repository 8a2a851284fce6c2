"""Experiments in a table: what its numbers mean."""

from __future__ import annotations

from pathlib import Path

from cavity.tables import read_table
from cavity.tables.experiments import read_experiments


def test_three_decimals_are_no_thousands(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("temp,cost\n25.912,1.234\n100,200\n60.5,\n")
    found = read_experiments(read_table(tmp_path / "runs.csv"), "cost", {})
    assert [trial.x["temp"] for trial in found.history] == [25.912, 100.0, 60.5]
    assert [trial.y for trial in found.history][:2] == [1.234, 200.0]
