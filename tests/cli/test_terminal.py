"""Three typical paths in a terminal of 80 x 24: the last screen holds the verdict, and nothing is left of the bar."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cavity import load
from cavity.cli.words import in_options

TMUX = shutil.which("tmux")
pytestmark = pytest.mark.skipif(TMUX is None, reason="needs tmux")

DONE = "path-is-done"
WIDTH, HEIGHT = 80, 24
LONGEST = 120.0
"""Seconds to wait for a command on a busy machine."""


def screen(folder: Path, command: str) -> list[str]:
    """The last screen of a command, and its history if it has more, in a terminal of its own."""
    assert TMUX is not None
    server = ["-L", f"cavity-{uuid.uuid4().hex}", "-f", os.devnull]
    threads = {
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "TERM": "screen-256color",
        "LC_ALL": "C.UTF-8",
    }
    env = {**os.environ, **threads, "COLUMNS": "", "PS1": "$ "}
    env = {name: value for name, value in env.items() if name not in ("COLUMNS", "LINES", "TMUX")}
    shell = f"{shlex.quote(sys.executable)} -m {command}; echo {DONE} $?; sleep 600"
    size = ["-x", str(WIDTH), "-y", str(HEIGHT)]

    def tmux(*arguments: str) -> str:
        found = subprocess.run(
            [TMUX, *server, *arguments],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return found.stdout

    try:
        tmux("new-session", "-d", *size, "sh", "-c", shell)
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            shown = tmux("capture-pane", "-p")
            if DONE in shown:
                return shown.rstrip().splitlines()
            time.sleep(0.2)
        raise TimeoutError(shown)
    finally:
        subprocess.run([TMUX, *server, "kill-server"], env=env, capture_output=True, check=False)


def verdict(lines: list[str]) -> dict[str, str]:
    """The three sentences on a screen, each in one line again."""
    found: dict[str, str] = {}
    heading = ""
    for line in lines:
        for name in ("How good", "What matters", "Beware"):
            if line.startswith(f"{name}: "):
                heading, line = name, line.removeprefix(f"{name}: ")
                found[heading] = ""
        if heading and DONE not in line:
            found[heading] = f"{found[heading]} {line}".strip()
    return found


def checked(lines: list[str]) -> dict[str, str]:
    assert lines[-1] == f"{DONE} 0"
    assert len(lines) <= HEIGHT
    assert all(len(line) <= WIDTH for line in lines)
    assert not any("━━━╸" in line or "learning hyperparameters" in line for line in lines)  # the bar has gone
    found = verdict(lines)
    assert list(found) == ["How good", "What matters", "Beware"]
    words = " ".join(found.values()).split()
    assert all(word in " ".join(" ".join(lines).split()) for word in words)  # no word is broken at the edge
    return found


def test_regression_with_outliers(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rain = rng.uniform(20, 120, 40)
    soil = rng.choice(["clay", "sand"], 40)
    harvest = 20 + 0.4 * rain + 8 * (soil == "clay") + rng.normal(0, 1, 40)
    harvest[[4, 20]] += [60, -50]
    pd.DataFrame({"rain": rain, "soil": soil, "harvest": harvest}).round(2).to_csv(
        tmp_path / "f.csv", index=False
    )
    lines = screen(tmp_path, "cavity fit f.csv --target harvest")
    found = checked(lines)
    told = load(tmp_path / "f.cavity").report.choice.render(in_options)
    assert told in " ".join(line.strip() for line in lines)  # broken between words
    assert "of the prediction (guessing: " in found["How good"]
    assert found["What matters"].startswith("harvest rises with rain (")
    assert "harvest is highest for soil clay" in found["What matters"]
    assert "2 rows are probably wrong (5, 21); check them." in found["Beware"]


def test_classification(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(70, 3))
    bought = np.where(2 * x[:, 0] - x[:, 1] + 0.5 * rng.normal(size=70) > 0, "yes", "no")
    table = pd.DataFrame({"age": x[:, 0], "price of it": x[:, 1], "noise": x[:, 2], "bought": bought})
    table.round(3).to_csv(tmp_path / "b.csv", index=False)
    found = checked(screen(tmp_path, "cavity fit b.csv --target bought"))
    assert "% of 14 held-out rows" in found["How good"]
    assert "P(bought = yes) rises with age" in found["What matters"]
    assert "P(bought = yes) falls with price of it" in found["What matters"]


def test_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    hour = rng.uniform(0, 10, 60)
    calls = rng.poisson(np.exp(0.25 * hour))
    pd.DataFrame({"hour": hour.round(2), "calls": calls}).to_csv(tmp_path / "c.csv", index=False)
    found = checked(screen(tmp_path, "cavity fit c.csv --target calls"))
    assert "calls rises with hour (100 % of the variation)" in found["What matters"]
    assert "no rows outside hour 0.0 to 10.0" in found["Beware"]
    again = checked(screen(tmp_path, "cavity info c.cavity"))
    assert again == found
