"""examples/newcomer.sh: from a CSV file to a report, with the command line alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "newcomer.sh"
HERE = Path(sys.executable).parent


def words(text):
    """Without numbers, which depend on the machine in their last digits, and without spacing."""
    return " ".join(re.sub(r"-?\d+(\.\d+)?", "0", text).split())


def documented():
    """Output of predict and compare in the documentation, line by line."""
    page = (SCRIPT.parents[1] / "docs" / "command_line.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    shown = [block for block in blocks if re.match(r"\$ cavity (predict|compare)", block)]
    lines = [line for block in shown for line in block.splitlines() if not re.match(r"[$ ┏┡└]", line)]
    assert len(lines) >= 9
    return [words(line) for line in lines]


@pytest.mark.skipif(not (HERE / "cavity").exists(), reason="needs the cavity command")
def test_the_script_runs_from_data_to_report(tmp_path):
    path = f"{HERE}{os.pathsep}{os.environ.get('PATH', '')}"
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    found = subprocess.run(
        ["sh", str(SCRIPT), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        env={**os.environ, **threads, "PATH": path},
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    out = found.stdout
    commands = re.findall(r"\$ cavity (\w+)", out)
    assert commands == ["fit", "predict", "compare", "assess", "report"]
    table = pd.read_csv(tmp_path / "work" / "fields.csv")
    assert len(table) == 40
    listed = {int(row) for row in re.findall(r"│\s*(\d+) │\s+[\d.]+ │ [01]\.\d+\s*│", out)}
    assert {4, 11, 25, 34} <= listed  # the mistyped rows
    assert "under Student-t noise rows are more probable" in words(out)  # chosen without being asked
    assert "Use student-t noise" in out
    assert "EP: evidence within" in out
    predicted = pd.read_csv(tmp_path / "work" / "predicted.csv")
    assert len(predicted) == 6
    assert (predicted["lower"] < predicted["mean"]).all()
    for line in documented():
        assert line in words(out + found.stderr), line
    html = (tmp_path / "work" / "report.html").read_text(encoding="utf-8")
    assert "Gaussian process model of harvest" in html
