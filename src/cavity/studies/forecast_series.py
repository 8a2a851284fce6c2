"""The series of the study `forecasts`: public ones, cut at rolling origins, with gross errors on request."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cavity.datasets import load
from cavity.numerics.arrays import Array

WORKER = Path(__file__).parents[3] / "benchmarks" / "peer_forecasts.py"
ORIGINS = 10
SHARE_OF_ERRORS = 0.02
ERROR_SIZE = (10.0, 30.0)
"""Gross errors in robust standard deviations of what a seasonal random walk with drift leaves."""


@dataclass(frozen=True)
class Kind:
    """A series by its calendar: start, frequency, steps of a season, steps ahead; whether it was held out of tuning."""

    start: str
    freq: str
    season: int
    horizon: int
    held_out: bool = False


KINDS = {
    "airline": Kind("1949-01-01", "MS", 12, 24),
    "ausbeer": Kind("1956-01-01", "QS", 4, 8),
    "realgdp": Kind("1959-01-01", "QS", 4, 8),
    "sunspots": Kind("1700-01-01", "YS", 1, 8),
    "nile": Kind("1871-01-01", "YS", 1, 8, held_out=True),
    "lynx": Kind("1821-01-01", "YS", 1, 8, held_out=True),
    "austres": Kind("1971-04-01", "QS", 4, 8, held_out=True),
    "woolyrnq": Kind("1965-01-01", "QS", 4, 8, held_out=True),
    "wineind": Kind("1980-01-01", "MS", 12, 24, held_out=True),
    "unemp": Kind("1959-01-01", "QS", 4, 8, held_out=True),
    "mauna loa": Kind("1958-03-01", "MS", 12, 24),
    "elnino": Kind("1950-01-01", "MS", 12, 24),
}
LONGEST = 400
"""Values of the training part: the last ones before each origin."""


def ask(**asked: Any) -> Any:
    """What the worker finds, run by the interpreter that `CAVITY_PEERS` names."""
    interpreter = os.environ.get("CAVITY_PEERS", "")
    if not interpreter or not WORKER.exists():
        raise RuntimeError(
            "public series and competitors need the sources of cavity and an interpreter with statsmodels, pmdarima, "
            "statsforecast and prophet: set CAVITY_PEERS to it (make bench makes one)"
        )
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "asked.json", Path(folder) / "found.json"
        question.write_text(json.dumps(asked))
        command = [interpreter, str(WORKER), str(question), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{asked.get('method', 'series')} failed: {done.stderr.strip().splitlines()[-1]}"
            )
        return json.loads(answer.read_text())


@cache
def _shipped() -> dict[str, Array]:
    """The series that packages of the competitors ship."""
    found = ask(task="series")
    return {name: np.array(values, dtype=float) for name, values in found.items()}


def values(name: str) -> Array:
    """A series on its regular grid, nan where a value is missing."""
    if name in ("airline", "mauna loa"):
        data = load("airline" if name == "airline" else "mauna_loa_2026")
        month = np.round((np.asarray(data.X)[:, 0] - np.asarray(data.X)[0, 0]) * 12).astype(int)
        grid = np.full(month[-1] + 1, np.nan)
        grid[month] = np.asarray(data.y, dtype=float)
        return grid
    y = _shipped()[name]
    return y[: np.flatnonzero(~np.isnan(y))[-1] + 1]


def origins(name: str) -> list[int]:
    """Rolling origins: number of values known at each, evenly spaced from half of the series on."""
    n, horizon = len(values(name)), KINDS[name].horizon
    places = np.linspace(max(n // 2, 3 * KINDS[name].season), n - horizon, ORIGINS)
    return [int(place) for place in np.unique(places.astype(int))]


def training(name: str, origin: int, errors: bool) -> tuple[int, Array]:
    """Where the training part begins, and its values; some of them wrong on request."""
    first = max(0, origin - LONGEST)
    y = values(name)[first:origin].copy()
    if not errors:
        return first, y
    rng = np.random.default_rng(origin)
    change = y[KINDS[name].season :] - y[: -KINDS[name].season]
    spread = change - np.nanmedian(change)
    scale = 1.4826 * float(np.nanmedian(np.abs(spread))) / np.sqrt(2.0)
    known = np.flatnonzero(~np.isnan(y))
    where = rng.choice(known, max(1, round(SHARE_OF_ERRORS * len(known))), replace=False)
    shift = rng.choice([-1.0, 1.0], len(where)) * rng.uniform(*ERROR_SIZE, len(where)) * scale
    if np.nanmin(y) >= 0:  # a positive series stays one
        shift = np.where(y[where] + shift > 0, shift, np.abs(shift))
    y[where] += shift
    return first, y
