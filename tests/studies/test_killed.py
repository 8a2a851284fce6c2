"""`cavity reproduce` killed by SIGKILL and started again ends with what a run without a stop gives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cavity.studies.store import TIMES

PROGRAM = '''
"""A study of six cells with arrays, and a way to die at a given moment."""

import os, signal, sys
from pathlib import Path

import numpy as np

import cavity.studies
from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.studies import Cell, Outcome, Study

die_in = os.environ.get("DIE_IN", "")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def cell(seed, method):
    Path("log").open("a").write(f"{method}{seed} ")
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 5, (15, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(15)
    if die_in == "cell" and seed == 1 and method == "b":
        die()
    posterior = GP(1.0 * SE(1.0), Gaussian(0.01)).condition(X, y)
    return Outcome({"evidence": posterior.log_evidence}, {"mean": posterior.mean(X)})


def cells(quick):
    return [Cell({"fold": k, "method": m}, cell, {"seed": k, "method": m}) for k in range(3) for m in "ab"]


def draw(results, folder):
    if die_in == "pictures":
        die()
    return []


written = []
real = Path.write_text


def write(self, *args, **kwargs):
    """Dies when the third record is half on the disk; its arrays are there."""
    written.append(self)
    if die_in == "store" and len(written) == 3:
        real(self, '{"half": ')
        die()
    return real(self, *args, **kwargs)


Path.write_text = write
study = Study("small", "A small study", "nowhere", cells, measures=("evidence",), draw=draw, needs_arrays=True)
cavity.studies.load = lambda name: study

from cavity.cli import main

sys.argv = ["cavity", "reproduce", "small", "--out", sys.argv[1]]
main()
'''


def reproduce(folder, out, die_in=""):
    environment = {**os.environ, "DIE_IN": die_in, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, out],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def content(folder: Path):
    """What a run leaves, without times and versions."""
    table = pd.read_csv(folder / "small" / "results.csv").drop(columns=[*TIMES, "commit"])
    arrays = {}
    for path in sorted((folder / "small" / "cells").glob("*.npz")):
        with np.load(path) as stored:
            arrays[path.name] = {name: stored[name].tolist() for name in stored.files}
    names = sorted(
        path.name for path in (folder / "small" / "cells").iterdir() if not path.name.startswith(".")
    )
    summary = pd.read_csv(folder / "small" / "summary.csv")
    return table.to_csv(), arrays, names, summary.drop(columns=list(TIMES), errors="ignore").to_csv()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_run_goes_on_and_ends_like_one_that_was_not_stopped(tmp_path):
    whole = reproduce(tmp_path, "whole")
    assert whole.returncode == 0, whole.stderr
    expected = content(tmp_path / "whole")
    assert len(expected[1]) == 6
    log = tmp_path / "log"
    # where it dies, and the cells that are run until then and after that
    for die_in, before, after in (
        ("cell", "a0 b0 a1 b1 ", "b1 a2 b2 "),
        ("store", "a0 b0 a1 ", "a1 b1 a2 b2 "),
        ("pictures", "a0 b0 a1 b1 a2 b2 ", ""),
    ):
        log.write_text("")
        killed = reproduce(tmp_path, die_in, die_in)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert log.read_text() == before
        log.write_text("")
        again = reproduce(tmp_path, die_in)
        assert again.returncode == 0, again.stderr
        assert log.read_text() == after
        assert content(tmp_path / die_in) == expected
