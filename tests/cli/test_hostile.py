"""What an enemy, or bad luck, gives the command line: no traceback, no hang, one sentence, nothing overwritten."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cavity.cli import app

RNG = np.random.default_rng(0)
N = 12
X = RNG.uniform(0, 10, N).round(2)
Y = (np.sin(X) + 0.1 * RNG.standard_normal(N)).round(3)
PLAIN = pd.DataFrame({"x": X, "y": Y})
QUICK = ("--kernel", "1.0*SE(1.0)", "--restarts", "0", "--test-size", "0", "--likelihood", "gaussian")

pytestmark = pytest.mark.filterwarnings("ignore")


def run(*arguments, width="200", **options):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": width, **options})


def fit(path, *options, target="y"):
    return run("fit", path, "--target", target, *QUICK, "-o", "m.cavity", *options)


def said(result) -> str:
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    assert "unexpected" not in result.output
    return " ".join(result.stderr.split())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PLAIN.to_csv("t.csv", index=False)
    return tmp_path


PAYLOADS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "[red]x[/red]",
    "%s{0}%(x)s",
    "a\nb",
    "';--",
]


@pytest.mark.parametrize("name", PAYLOADS)
def test_names_and_levels_are_shown_and_not_obeyed(name):
    table = PLAIN.rename(columns={"y": name}).assign(c=[name, "b"] * 6)
    table.to_csv("t.csv", index=False)
    result = fit("t.csv", "--report", "r.html", target=name)
    assert result.exit_code == 0, result.output
    page = Path("r.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    if name.startswith("["):
        assert name in result.stdout


ESCAPE = "\x1b[2J"
ODD = {
    "names that a terminal would obey": (f"{ESCAPE}x,y\n1,2\n2,3\n", "has control characters; rename it"),
    "cells that a terminal would obey": (
        PLAIN.assign(x=[*X[1:], ESCAPE]).to_csv(index=False),
        "holds numbers, except '\\x1b[2J' in row 12",
    ),
    "a cell of a million letters": (
        PLAIN.assign(x=[*X[1:], "a" * 10**6]).to_csv(index=False),
        "aaaa ...' in row 12",
    ),
    "zeros in the text": (
        PLAIN.to_csv(index=False).replace("\n5", "\n\x005"),
        "holds numbers, except '\\x00",
    ),
    "a target that is not there": (
        PLAIN.rename(columns={"y": "z"}).to_csv(index=False),
        "there is no column 'y'",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_cells_are_named_in_one_short_sentence(name):
    text, message = ODD[name]
    Path("t.csv").write_text(text, encoding="utf-8")
    sentence = said(fit("t.csv"))
    assert message in sentence
    assert len(sentence) < 400
    assert "\x1b" not in sentence
    assert not Path("m.cavity").exists()


def test_long_levels_are_shown_in_part_and_those_that_a_terminal_would_obey_are_written_out():
    PLAIN.assign(c=["a" * 10**5, "b"] * 6, d=[f"{ESCAPE}red", "blue", "green"] * 4).to_csv(
        "t.csv", index=False
    )
    result = fit("t.csv")
    assert result.exit_code == 0
    notes, _, rest = result.stdout.partition("The model")
    assert "a" * 100 not in notes
    assert "a" * 100 not in rest.split("How good")[-1]
    assert "\x1b" not in result.output
    Path("new.csv").write_text(f"x,c,d\n1,b,{ESCAPE}red\n", encoding="utf-8")
    assert "did not occur" not in run("predict", "m.cavity", "new.csv").output  # it is the same level


def test_files_that_are_none():
    os.symlink("nowhere", "broken.csv")
    os.symlink("loop.csv", "loop.csv")
    os.mkfifo("pipe.csv")
    os.symlink("/dev/zero", "zero.csv")
    Path("folder.csv").mkdir()
    for name, message in {
        "broken.csv": "there is no file broken.csv",
        "loop.csv": "there is no file loop.csv",
        "pipe.csv": "pipe.csv is a device or a pipe",
        "zero.csv": "zero.csv is a device or a pipe",
        "folder.csv": "folder.csv is a folder",
    }.items():
        assert message in said(fit(name))


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("cavity.tables.reading.LONGEST_HEADER", 1000)
    with gzip.open("t.csv.gz", "wb") as file:
        file.write(b"x" * 5000)
    assert "its first line has more than 1000 characters" in said(fit("t.csv.gz"))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("(" * 5000 + ")" * 5000, "too many nested parentheses"),
        ("SE(1.0)" + "+SE(1.0)" * 3000, "nested too deeply"),
        ("1e999*SE(1.0)", "variance must be positive and finite"),
        ("SE(1e-400)", "lengthscale must be positive and finite"),
        ("9**9**9*SE(1.0)", "only a kernel can be raised to a power"),
        ("SE(1.0)**1000", "whole number from 1 to 100"),
        ("SE(lengthscale=__import__('os').system('touch owned'))", "is not allowed"),
        ("lambda: 1", "are allowed here"),
        ("\x00", "kernel text"),
    ],
)
def test_kernel_text_is_read_and_never_run(kernel, message, folder):
    assert message in said(run("fit", "t.csv", "--target", "y", "--kernel", kernel, "-o", "m.cavity"))
    assert not (folder / "owned").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-time", "nan"), "--max-time must be a number of seconds"),
        (("--test-size", "nan"), "--test-size must be at least 0 and below 1"),
        (("--drop", ""), "there is no column ''"),
        (("--task", ""), "--task must be one of"),
        (("--impute", ""), "--impute must be 'median' or 'none'"),
        (("--out", "x" * 300), "File name too long"),
        (("--out", "t.csv"), "would overwrite t.csv"),
        (("--report", "t.csv"), "would overwrite t.csv"),
        (("--report", "m.cavity"), "would overwrite m.cavity"),
    ],
)
def test_odd_options(options, message):
    assert message in said(fit("t.csv", *options))
    assert Path("t.csv").read_text() == PLAIN.to_csv(index=False)


def test_file_names_with_dashes_blanks_and_letters_of_other_scripts():
    for name in ("-x.csv", "a b.csv", "größe Ωé.csv"):
        PLAIN.to_csv(name, index=False)
        result = run("fit", "--target", "y", *QUICK, "--", name)
        assert result.exit_code == 0, result.output
        assert Path(name).with_suffix(".cavity").exists()


COMMAS = {
    "semicolons": PLAIN.to_csv(index=False, sep=";", decimal=","),
    "tabs": PLAIN.to_csv(index=False, sep="\t", decimal=","),
    "bars": PLAIN.to_csv(index=False, sep="|", decimal=","),
    "quotes": PLAIN.to_csv(index=False, decimal=",", quoting=1),
    "euros": PLAIN.assign(x=[f"{v} €".replace(".", ",") for v in X]).to_csv(
        index=False, sep=";", decimal=","
    ),
}


@pytest.mark.parametrize("name", COMMAS)
def test_decimal_commas_are_the_same_numbers_in_every_kind_of_file(name):
    assert fit("t.csv").exit_code == 0
    expected = run("predict", "m.cavity", "t.csv").stdout
    Path("commas.csv").write_text(COMMAS[name], encoding="utf-8")
    result = run("fit", "commas.csv", "--target", "y", *QUICK, "-o", "c.cavity")
    assert result.exit_code == 0, result.output
    assert run("predict", "c.cavity", "commas.csv").stdout == expected
    plain = run("predict", "c.cavity", "t.csv")  # new rows with points, of a model of rows with commas
    assert plain.stdout == expected or "which is not a finite number" in plain.stderr


@pytest.mark.parametrize("width", ["20", "80", "200"])
def test_no_table_is_wider_than_the_terminal(width):
    result = run("fit", "t.csv", "--target", "y", *QUICK, width=width)
    assert result.exit_code == 0
    drawn = [line for line in result.stdout.splitlines() if line[:1] in "│┃┏┡└┌"]
    assert drawn
    assert max(map(len, drawn)) <= int(width)


@pytest.mark.parametrize("label", ["=HYPERLINK(1)", "@SUM(A1)", "+cmd|' /C calc'!A0", "-x"])
def test_predictions_hold_no_formulas(label):
    table = pd.DataFrame({"x": X, "y": np.where(X > 5, label, "no"), "key": [f"={i}" for i in range(N)]})
    table.to_csv("t.csv", index=False)
    assert run("fit", "t.csv", "--target", "y", *QUICK[:6], "--drop", "key", "-o", "m.cavity").exit_code == 0
    for options, found, key in (((), f"'{label}", "'=0"), (("--no-escape",), label, "=0")):
        assert run("predict", "m.cavity", "t.csv", "--keep", "key", "-o", "p.csv", *options).exit_code == 0
        written = pd.read_csv("p.csv", dtype=str)
        assert set(written["y"]) == {found, "no"}
        assert written["key"][0] == key


def test_terminals_that_know_few_characters_and_readers_that_leave():
    """As installed, in processes of their own: ASCII only, and `| head -1`."""
    command = [sys.executable, "-m", "cavity"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "OPENBLAS_NUM_THREADS": "1"}
    words = [*command, "fit", "t.csv", "--target", "y", *QUICK, "-o", "m.cavity"]
    shown = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert shown.returncode == 0, shown.stderr
    shown.stdout.decode("ascii")
    pd.DataFrame({"x": np.linspace(0, 10, 30_000)}).to_csv("many.csv", index=False)
    with subprocess.Popen(
        [*command, "predict", "m.cavity", "many.csv", "--block-rows", "2000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reading:
        assert reading.stdout.readline() == b"mean,sd,lower,upper\n"
        reading.stdout.close()
        assert b"Traceback" not in reading.stderr.read()
        assert reading.wait(timeout=60) == 1
