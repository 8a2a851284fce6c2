"""The commands compare, assess, report and reproduce: outputs, files, messages, exit codes."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from cavity import GPRegressor, studies
from cavity.cli import app
from cavity.cli.compare import comparison_table, remarks
from cavity.frames.columns import Column
from cavity.kernels import SE
from cavity.studies import Cell, Outcome, Published, Study
from cavity.tables import read_table
from cavity.tables.comparing import FOLDS, Comparison, Entry, candidates
from cavity.tables.preparation import Preparation

ONE = ["--kernel", "1.0*SE(ard)", "--restarts", "0", "--folds", "2"]
"""One kernel, quick."""


def run(*arguments, env=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], env=env or {"COLUMNS": "100"})


def refused(result, message, code=1):
    """A clear sentence on standard error, and nothing of a traceback."""
    assert result.exit_code == code, result.output
    error = result.stderr.replace("\n", " ")
    assert message in error, result.stderr
    assert "Error: " in error
    assert "Traceback" not in result.output
    return result


def wells(n=30, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0, 6, n)
    level = np.sin(depth) + 0.3 * rng.standard_normal(n)
    return pd.DataFrame({"depth": depth, "level": level, "wet": np.where(level > 0, "yes, wet", "dry")})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and model files; the current folder of every test."""
    path = tmp_path_factory.mktemp("judging")
    data = wells()
    data.drop(columns="wet").to_csv(path / "wells.csv", index=False)
    data.drop(columns="level").to_csv(path / "wet.csv", index=False)
    three = data.assign(wet=np.array(["a", "b", "c"])[np.digitize(data["depth"], [2, 4])])
    three.drop(columns="level").to_csv(path / "three.csv", index=False)
    data[["level"]].assign(deep=1.0).to_csv(path / "other.csv", index=False)
    data[["depth"]].to_csv(path / "blind.csv", index=False)
    GPRegressor(SE(1.0), objective=None).fit(data[["depth"]], data["level"]).save(path / "python.cavity")
    (path / "text.cavity").write_text("not a model")
    quick = ["--kernel", "1.0*SE(1.0)", "--restarts", "0"]
    for name, target in (("wells", "level"), ("wet", "wet"), ("three", "wet")):
        noise = ["--likelihood", "gaussian"] if name == "wells" else []
        result = run("fit", path / f"{name}.csv", "--target", target, *noise, *quick)
        assert result.exit_code == 0, result.output
    return path


@pytest.fixture(autouse=True)
def _here(folder, monkeypatch):
    monkeypatch.chdir(folder)


# --- compare ------------------------------------------------------------------------------------------------


def test_compare_ranks_announces_and_recommends():
    result = run(
        "compare", "wells.csv", "--target", "level", *ONE, "--likelihood", "gaussian", "--likelihood", "student-t",
        "--inference", "auto", "--report", "deep/compared.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "[1/2] gaussian, auto, 1.0*SE(ard) ...",
        "[2/2] student-t, auto, 1.0*SE(ard) ...",
    ]
    out = result.stdout
    assert "Regression (the target is numeric): 'level' has 30 different values." in out
    assert "Models, best first by k-fold log density; all with auto, 1.0*SE(ard)" in out
    rows = [line for line in out.splitlines() if re.match(r"│(gaussian|student-t)", line)]
    assert len(rows) == 2
    densities = [float(re.split(r"\s*│\s*", row.strip("│"))[3]) for row in rows]
    assert densities == sorted(densities, reverse=True)
    best = rows[0].split()[0].strip("│")
    assert f"Use {best} noise with auto inference and 1.0*SE(ard)" in out
    page = Path("deep/compared.html").read_text(encoding="utf-8")
    assert "Report: deep/compared.html" in out
    command = (
        "cavity compare wells.csv --target level --likelihood gaussian --likelihood student-t --inference auto "
        "--kernel &#x27;1.0*SE(ard)&#x27; --folds 2 --restarts 0 --report deep/compared.html"
    )
    assert command in page
    assert f"Use {best} noise" in page


def test_the_candidates_that_are_tried_by_default_have_a_line_each_in_a_narrow_terminal():
    tried = candidates(Preparation("level", "regression", (Column("depth"),)), np.arange(1.0, 41.0) ** 2)
    assert len({one.kernel for one in tried}) > 1
    entries = tuple(Entry(one, -1234.5, -4.567, -4.678, 0.123, 0.045, 123.4, True) for one in tried)
    found = Comparison(entries, FOLDS, 5, 40)
    out = Console(width=80, file=io.StringIO())
    out.print(comparison_table(found))
    assert sum(line.startswith("│") for line in out.file.getvalue().splitlines()) == len(tried)
    numbers = remarks(found)[0]
    for number, kernel in enumerate(dict.fromkeys(one.kernel for one in tried), 1):
        assert f"{number} is {kernel}" in numbers


def test_compare_of_classes_and_of_what_cannot_work():
    result = run("compare", "wet.csv", "--target", "wet", *ONE, "--likelihood", "probit", "--inference", "laplace",
                 "--inference", "exact")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Classification (the target is text): 'wet' has 2 classes, 'dry', 'yes, wet'." in result.stdout
    assert re.search(r"│exact\s+│\s+failed", result.stdout)
    assert "exact failed: " in result.stdout
    assert "the only candidate that could be fitted" in result.stdout
    loo = re.search(r"│laplace\s+│\s+-[\d.]+ │\s+(-[\d.]+) │", result.stdout)
    assert loo is not None
    assert -np.log(2) < float(loo[1]) < 0  # better than guessing


def test_compare_that_is_interrupted_shows_what_it_has(monkeypatch):
    from cavity.tables import comparing

    real, calls = comparing._try, []

    def second_time(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(comparing, "_try", second_time)
    result = run("compare", "wells.csv", "--target", "level", *ONE)
    assert result.exit_code == 130, result.output
    assert "Interrupted: 1 of 4 candidates were tried." in result.stderr
    assert "Use gaussian noise" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "--target", "level"], "there is no file none.csv"),
        (
            ["wells.csv", "--target", "levels"],
            "there is no column 'levels' (the target); did you mean 'level'?",
        ),
        (
            ["wells.csv", "--target", "level", "--drop", "dept"],
            "no column 'dept' (to drop); did you mean 'depth'?",
        ),
        (
            ["wells.csv", "--target", "level", "--likelihood", "cauchy"],
            "likelihood must be a Likelihood or one of",
        ),
        (["wells.csv", "--target", "level", "--kernel", "RBF(1.0)"], "unknown name 'RBF'; did you mean SE?"),
        (["wells.csv", "--target", "level", "--inference", "magic"], "inference must be 'auto' or one of"),
        (
            ["wells.csv", "--target", "level", "--folds", "1"],
            "--folds must be 0 or between 2 and the 30 rows",
        ),
        (
            ["wells.csv", "--target", "level", "--folds", "31"],
            "--folds must be 0 or between 2 and the 30 rows",
        ),
        (["wells.csv", "--target", "level", "--restarts", "-1"], "--restarts must be at least 0, got -1"),
        (["wells.csv", "--target", "level", "--max-rows", "0"], "--max-rows must be at least 1"),
        (
            ["wells.csv", "--target", "level", "--report", "."],
            "is a folder; give --report the name of a file",
        ),
        (["wells.csv", "--target", "level", "--report", "wells.csv/r.html"], "wells.csv is not a folder"),
        (
            ["wet.csv", "--target", "wet", "--likelihood", "gaussian", *ONE],
            "no candidate could be fitted; gaussian, auto, 1.0*SE(ard): --likelihood must be one of labels",
        ),
    ],
)
def test_comparisons_that_are_refused(arguments, message):
    refused(run("compare", *arguments), message)


@pytest.mark.parametrize(
    "arguments", [("compare", "wells.csv", "--target", "level"), ("assess", "wells.cavity", "wells.csv")]
)
def test_nothing_is_started_that_does_not_fit_into_memory(monkeypatch, arguments):
    from cavity.tables import fit as fitting

    monkeypatch.setattr(fitting, "available_memory", lambda: 5400.0)
    refused(run(*arguments), "an exact fit of 30 rows needs about")


def test_rows_in_failures_are_those_of_the_file():
    level = np.arange(12.0)
    level[[4, 9]] += 0.5
    pd.DataFrame({"depth": np.arange(12) ** 2, "level": level}).to_csv("counts.csv", index=False)
    words = ["compare", "counts.csv", "--target", "level", "--likelihood", "poisson", *ONE]
    refused(run(*words), "must hold non-negative integers (counts), got 4.5 in row 5")
    seed = next(seed for seed in range(100) if 5 not in read_table("counts.csv", 11, seed).rows)
    refused(run(*words, "--max-rows", "11", "--seed", seed), "got 9.5 in row 10")


# --- assess -------------------------------------------------------------------------------------------------


def test_assess_judges_with_numbers_a_picture_and_a_page():
    result = run(
        "assess", "wet.cavity", "wet.csv", "--max-time", "2", "--inference", "ep", "--inference", "laplace",
        "--max-rows", "15", "--plot", "assessed.png", "--report", "assessed.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Assessing ep, laplace on 12 rows; 2 seconds ..." in result.stderr
    out = " ".join(result.stdout.split())
    assert "approximations against the gold standard" in out
    assert re.search(r"EP: evidence within 0\.\d+ \+/- [\d.]+ nats", out)
    assert re.search(r"EP -\d+\.\d\d", out)  # not cut short
    assert "gold standard" in out
    with open("assessed.png", "rb") as file:
        assert file.read(4) == b"\x89PNG"
    with open("assessed.html", encoding="utf-8") as page:
        html = page.read()
    assert "Check of the approximation" in html
    assert (
        "cavity assess wet.cavity wet.csv --max-time 2.0 --inference ep --inference laplace --max-rows 15"
        in html
    )
    assert html.count("<figure") >= 3  # calibration, relevance, assessment


def test_assess_of_gaussian_noise_is_exact():
    result = run("assess", "wells.cavity", "wells.csv", "--max-time", "1", "--test-size", "0")
    assert result.exit_code == 0, result.output
    assert "Assessing exact on 30 rows" in result.stderr
    assert "Exact: evidence within" in result.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.cavity", "wet.csv"], "there is no file none.cavity"),
        (["text.cavity", "wet.csv"], "cannot be loaded: it is not a zip archive"),
        (["python.cavity", "wells.csv"], "holds a GPRegressor that was saved from Python"),
        ([".", "wet.csv"], "is a folder, not a model file"),
        (["wet.cavity", "none.csv"], "there is no file none.csv"),
        (["wet.cavity", "other.csv"], "the table lacks 1 column: 'depth'"),
        (["wet.cavity", "blind.csv"], "there is no column 'wet', the target; the columns are 'depth'"),
        (
            ["wet.cavity", "wet.csv", "--max-time", "nan"],
            "--max-time must be a positive number of seconds, got nan",
        ),
        (["wet.cavity", "wet.csv", "--max-time", "0"], "--max-time must be a positive number of seconds"),
        (["wet.cavity", "wet.csv", "--inference", "magic"], "--inference must be 'auto' or one of"),
        (
            ["wet.cavity", "wet.csv", "--test-size", "1"],
            "--test-size must be at least 0 and below 1, got 1.0",
        ),
        (
            ["wet.cavity", "wet.csv", "--plot", "p.doc"],
            "the name of the file for --plot must end in .png or .svg",
        ),
        (
            ["three.cavity", "three.csv"],
            "one latent function per observation; this one has several (multi-class)",
        ),
    ],
)
def test_assessments_that_are_refused(arguments, message):
    refused(run("assess", *arguments), message)


def test_labels_that_the_model_has_not_seen():
    wells().drop(columns="level").assign(wet="mud").to_csv("mud.csv", index=False)
    refused(
        run("assess", "wet.cavity", "mud.csv", "--max-time", "1"), "labels that the estimator does not know"
    )
    refused(
        run("report", "wet.cavity", "mud.csv"),
        "the column 'wet' has the class 'mud', which the model does not",
    )


# --- report -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wells", "wet", "three"])
def test_report_is_one_page_with_everything(name):
    result = run("report", f"{name}.cavity", f"{name}.csv", "-o", f"{name}.html")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Report: {name}.html\n"
    with open(f"{name}.html", encoding="utf-8") as page:
        html = page.read()
    titles = re.findall("<h2>(.*?)</h2>", html)
    first = ["Verdict", "What if", "What matters", "How good it is"]
    outliers = ["Outliers"] if name == "wells" else []
    last = ["Warnings and remedies", "The data", "The model", "Words", "How to repeat it"]
    assert titles == [*first, *outliers, *last]
    assert f"cavity report {name}.cavity {name}.csv --out {name}.html" in html


def test_report_with_the_check_and_fit_with_a_report():
    result = run("report", "wet.cavity", "wet.csv", "--assess", "1", "-o", "checked.html", "--max-rows", "20")
    assert result.exit_code == 0, result.output
    with open("checked.html", encoding="utf-8") as page:
        assert "Check of the approximation" in page.read()
    result = run(
        "fit", "wells.csv", "--target", "level", "--likelihood", "gaussian", "--kernel", "SE(1.0)", "--restarts",
        "0", "-o", "again.cavity", "--report", "fitted.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    with open("fitted.html", encoding="utf-8") as page:
        html = page.read()
    assert (
        "cavity fit wells.csv --target level --kernel &#x27;SE(1.0)&#x27; --likelihood gaussian --restarts 0"
        in html
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.cavity", "wells.csv"], "there is no file none.cavity"),
        (["text.cavity", "wells.csv"], "cannot be loaded: it is not a zip archive"),
        (["wells.cavity", "none.csv"], "there is no file none.csv"),
        (["wells.cavity", "other.csv"], "the table lacks 1 column: 'depth'"),
        (["wells.cavity", "blind.csv"], "there is no column 'level', the target"),
        (["wells.cavity", "wells.csv", "-o", "."], "is a folder; give --out the name of a file"),
        (["wells.cavity", "wells.csv", "--assess", "0"], "--assess must be a positive number of seconds"),
    ],
)
def test_reports_that_are_refused(arguments, message):
    refused(run("report", *arguments), message)


# --- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "option", "file"),
    [
        ("fit wells.csv --target level -o wells.csv", "--out", "wells.csv"),
        ("fit wells.csv --target level -o ./wells.csv", "--out", "wells.csv"),
        ("fit wells.csv --target level --report link.csv", "--report", "wells.csv"),
        ("fit wells.csv --target level -o new.cavity --report new.cavity", "--report", "new.cavity"),
        ("predict wells.cavity wells.csv -o wells.csv", "--out", "wells.csv"),
        ("report wells.cavity wells.csv -o wells.cavity", "--out", "wells.cavity"),
        ("report wells.cavity wells.csv -o wells.csv", "--out", "wells.csv"),
        ("compare wells.csv --target level --report wells.csv", "--report", "wells.csv"),
        ("assess wells.cavity wells.csv --report wells.cavity", "--report", "wells.cavity"),
        ("assess wells.cavity wells.csv --report a.svg --plot a.svg", "--plot", "a.svg"),
    ],
)
def test_outputs_never_overwrite_what_a_command_reads_or_writes(folder, arguments, option, file):
    if not (folder / "link.csv").exists():
        (folder / "link.csv").symlink_to(folder / "wells.csv")
    before = {name: (folder / name).read_bytes() for name in ("wells.csv", "wells.cavity")}
    refused(run(*arguments.split()), f"{option} would overwrite {file}, which this command reads or writes")
    assert before == {name: (folder / name).read_bytes() for name in before}
    assert not (folder / "new.cavity").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("fit wells.csv --target level -o locked/a.cavity", "--out"),
        ("fit wells.csv --target level --report locked/new/a.html", "--report"),
        ("predict wells.cavity wells.csv -o locked/a.csv", "--out"),
        ("report wells.cavity wells.csv -o locked/a.html", "--out"),
        ("compare wells.csv --target level --report locked/a.html", "--report"),
        ("assess wells.cavity wells.csv --plot locked/a.png", "--plot"),
        ("demo --out locked/demo", "--out"),
        ("reproduce sinc --quick --out locked/new", "--out"),
    ],
)
def test_folders_that_cannot_be_written_to_are_refused_before_any_work(
    folder, monkeypatch, arguments, option
):
    locked = folder / "locked"
    locked.mkdir(exist_ok=True)
    access = os.access
    # root may write everywhere
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(locked) and access(path, mode))
    for work in ("cavity.tables.read_table", "cavity.cli.predict.load_predictor", "cavity.studies.run"):
        monkeypatch.setattr(work, lambda *_, **__: pytest.fail("work was begun"))
    monkeypatch.setattr("cavity.demo.run", lambda *_, **__: pytest.fail("work was begun"))
    refused(
        run(*arguments.split()), f"the folder {locked} cannot be written to, so that {option} cannot write"
    )


# --- reproduce ----------------------------------------------------------------------------------------------


def test_studies_are_listed_by_name():
    result = run("reproduce", "list")
    assert result.exit_code == 0, result.output
    for name in studies.names():
        assert re.search(rf"^{re.escape(name)} +\S", result.stdout, re.MULTILINE), name


def test_a_study_that_does_not_exist():
    refused(run("reproduce", "sink"), "there is no study 'sink'; choose one of: ")


def cell(method, fold):
    if fold == 2:
        raise KeyboardInterrupt
    if method == "b" and fold == 1:
        raise RuntimeError("no solution here")
    return Outcome({"score": 2.0 * fold + 1.0})


def small_study(folds):
    def cells(quick):
        return [
            Cell({"fold": k, "method": m}, cell, {"method": m, "fold": k}) for k in range(folds) for m in "ab"
        ]

    published = (Published({"method": "a"}, "score", 1.5),)
    return Study(
        "small", "A [small] study", "nowhere", cells, measures=("score",), published=published,
        remarks=lambda results: [f"{len(results.records)} cells"],
    )  # fmt: skip


def broken_study():
    cells = [Cell({"fold": 1, "method": "b"}, cell, {"method": "b", "fold": 1})]
    return Study("small", "A [small] study", "nowhere", lambda quick: cells, measures=("score",))


def test_a_study_runs_and_shows_its_table(monkeypatch):
    monkeypatch.setattr(studies, "load", lambda name: small_study(2))
    result = run("reproduce", "small", "--out", "studies")
    assert result.exit_code == 0, result.output
    assert "A [small] study" in result.stdout
    head = next(line for line in result.stdout.splitlines() if "method" in line)
    assert "published" in head
    assert "failed" in head  # a cell of b
    row = next(line for line in result.stdout.splitlines() if re.match(r"│\s*a\s", line))
    assert "1.5" in row
    assert re.match(r"│a +│ score +│", row)  # words on the left, numbers on the right
    assert "4 cells" in result.stdout
    assert f"Results: {Path('studies/small/summary.md')}" in result.stdout
    assert Path("studies/small/summary.md").exists()


def test_a_study_runs_one_method_only(monkeypatch):
    monkeypatch.setattr(studies, "load", lambda name: small_study(2))
    result = run("reproduce", "small", "--out", "part", "--only", "a")
    assert result.exit_code == 0, result.output
    assert "2 cells" in result.stdout
    assert "2 of its 4 cells have not been run" in result.stdout
    refused(run("reproduce", "small", "--out", "part", "--only", "c"), "'c' is a label of no cell")


def test_options_that_no_study_can_use(monkeypatch):
    monkeypatch.setattr(studies, "load", lambda name: small_study(2))
    refused(run("reproduce", "small", "--jobs", 0), "--jobs must be a number of workers, or -1")
    Path("taken").touch()
    refused(run("reproduce", "small", "--out", "taken"), "taken is a file; give --out the name of a folder")


def test_a_study_of_which_nothing_came_out_has_an_exit_code(monkeypatch):
    monkeypatch.setattr(studies, "load", lambda name: small_study(2))
    result = run("reproduce", "small", "--out", "failed", "--only", "b")
    assert result.exit_code == 0, result.output  # one of its cells failed, one did not
    monkeypatch.setattr(studies, "load", lambda name: broken_study())
    result = run("reproduce", "small", "--out", "broken")
    assert result.exit_code == 1, result.output
    assert "failed: fold-1__method-b: RuntimeError: no solution here" in result.stdout


def test_a_study_that_is_stopped_says_so_with_its_exit_code(monkeypatch):
    monkeypatch.setattr(studies, "load", lambda name: small_study(3))
    result = run("reproduce", "small", "--out", "stopped")
    assert result.exit_code == 130, result.output
    assert "Interrupted: run the same command again to go on from here." in result.stdout


# --- all of them --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", "none.csv", "--target", "level"],
        ["assess", "none.cavity", "wells.csv"],
        ["report", "none.cavity", "wells.csv"],
        ["reproduce", "nothing"],
    ],
)
def test_debug_shows_the_error(arguments):
    result = run(*arguments, "--debug")
    assert isinstance(result.exception, ValueError)
    assert "there is no" in str(result.exception)


@pytest.mark.parametrize("command", ["compare", "assess", "report", "reproduce"])
def test_help_has_an_example(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: cavity {command}" in re.sub(r"[\s│]+", " ", result.stdout)
    assert "context" not in result.stdout.lower()
