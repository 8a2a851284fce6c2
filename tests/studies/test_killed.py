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

log, die_in = None, ""


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def cell(seed, method):
    log.open("a").write(f"{method}{seed} ")
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

for number, run in enumerate(sys.argv[1:]):  # each in a process of its own, which has not to import all again
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        out, die_in = run.split(":")
        log = Path(f"log{number}")
        log.touch()
        sys.argv = ["cavity", "reproduce", "small", "--out", out]
        main()
        sys.exit(0)
    status = os.waitpid(child, 0)[1]
    real(Path(f"code{number}"), str(os.waitstatus_to_exitcode(status)))
'''


def reproduce(folder, runs):
    """Code of the end and cells of each of the runs "folder:where it dies", one after the other."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, *runs],
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return [
        (int((folder / f"code{k}").read_text()), (folder / f"log{k}").read_text(), found.stderr)
        for k in range(len(runs))
    ]


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
    # where it dies, and the cells that are run until then and after that
    cases = (
        ("cell", "a0 b0 a1 b1 ", "b1 a2 b2 "),
        ("store", "a0 b0 a1 ", "a1 b1 a2 b2 "),
        ("pictures", "a0 b0 a1 b1 a2 b2 ", ""),
    )
    runs = [f"{name}:{end}" for name, *_ in cases for end in (name, "")]
    (code, _, errors), *others = reproduce(tmp_path, ["whole:", *runs])
    assert code == 0, errors
    expected = content(tmp_path / "whole")
    assert len(expected[1]) == 6
    for (name, before, after), killed, again in zip(cases, others[::2], others[1::2], strict=True):
        assert killed[:2] == (-signal.SIGKILL, before), errors
        assert again[:2] == (0, after), errors
        assert content(tmp_path / name) == expected
