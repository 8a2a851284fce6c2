"""The commands fit, predict and info, through the same door as a user: outputs, messages, exit codes."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cavity
from cavity import GP, GPRegressor
from cavity.cli import COMMANDS, app
from cavity.cli.fit import _out_file
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.prediction.calibration import expected_calibration_error
from cavity.tables import TableModel, prepare, read_table
from cavity.tables.fit import fit_table
from cavity.tables.scores import classification_scores, regression_scores

QUICK = ["--likelihood", "gaussian", "--restarts", "0"]


def run(*arguments, env=None):
    return CliRunner().invoke(app, [str(a) for a in arguments], env=env)


def refused(result, message, code=1):
    """A clear sentence on standard error, and nothing of a traceback."""
    assert result.exit_code == code, result.output
    assert message in result.stderr.replace("\n", " "), result.stderr
    assert "Traceback" not in result.output
    return result


def houses(n=40, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size = rng.uniform(40, 160, n)
    color = np.array(["red", "green", "blue"])[np.arange(n) % 3]
    price = 2 * size + 30 * np.sin(size / 20) + 20 * (color == "red") + 2 * rng.standard_normal(n)
    return pd.DataFrame({"id": np.arange(n), "size": size, "color": color, "price": price})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="module")
def fitted(folder):
    """A fit of a regression, its output, and the file."""
    data = houses()
    data.loc[7, "price"] += 500.0
    data.to_csv(folder / "houses.csv", index=False)
    arguments = (
        "--likelihood",
        "student-t",
        "--kernel",
        "1.0*SE(ard)",
        "--inference",
        "laplace",
        "--restarts",
        "0",
    )
    result = run(
        "fit",
        folder / "houses.csv",
        "--target",
        "price",
        "--drop",
        "id",
        *arguments,
        "-o",
        folder / "m.cavity",
    )
    assert result.exit_code == 0, result.output
    return result, folder / "m.cavity"


@pytest.fixture(scope="module")
def classified(folder):
    data = houses().assign(price=lambda d: np.where(d["price"] > d["price"].median(), "dear", "cheap"))
    data.to_csv(folder / "labels.tsv", sep="\t", index=False)
    result = run("fit", folder / "labels.tsv", "--target", "price", "--drop", "id", "--restarts", "0")
    assert result.exit_code == 0, result.output
    return result, folder / "labels.cavity"


# --- fit ----------------------------------------------------------------------------------------------------


def test_fit_says_what_it_read_decided_and_found(fitted):
    result, path = fitted
    out = result.stdout
    for text in (
        "Read 40 rows and 4 columns",
        "Regression (the target is numeric): 'price' has 40 different values.",
        "Column 'color' is text with 3 levels, 'blue', 'green', 'red': 3 0/1 columns (one-hot).",
        "Left out as asked: 'id'.",
        "log evidence",
        "Scores on 8 rows held out, lower is better",
        "gradient boosting",
        "log loss",
        "calibration",
        "inference converged",
        "Laplace's approximation",
        "noise scale",
        "in units of price",
        "Inputs, by their share of the variation of predictions",
        "matters over",
        "highest for red",
        "Outliers found (row 1 is the first after the header)",
        f"Model: {path}",
    ):
        assert text in out, text
    assert re.search(r"│\s*8 │\s*\d+.* │ 1\.000", out)  # the row with the gross error
    for jargon in ("NLP", "nats", "jitter", "Sobol", "lengthscale["):
        assert jargon not in out, jargon
    last = out.strip().splitlines()[-3:]
    assert [line.split(":")[0] for line in last] == ["How good", "What matters", "Beware"]
    assert "half of 8 held-out rows" in last[0]
    assert "price rises with size" in last[1]
    assert "8" in last[2]
    assert "Learning from 40 rows" in result.stderr
    assert "Learning without the 8 rows held out, for the scores" in result.stderr


def test_the_file_holds_the_model_of_all_rows_with_its_report(fitted):
    model = cavity.load(fitted[1])
    assert isinstance(model, TableModel)
    assert model.estimator.n_features_in_ == 4
    assert len(model.estimator.rows_.y) == 40
    assert model.report.rows == 40
    assert model.report.held_out_rows == 8
    assert [one.column for one in model.report.relevance] == ["size", "color"]
    assert model.report.outliers[0].row == 8
    assert model.report.outliers[0].probability > 0.99
    assert not model.estimator.warm_start
    assert [level for level, _ in model.report.scores.coverage] == [0.5, 0.9, 0.95]


def test_classification_is_recognized_and_scored(classified):
    out = classified[0].stdout
    assert "Classification (the target is text): 'price' has 2 classes, 'cheap', 'dear'." in out
    for text in (
        "Scores on 8 rows held out",
        "logistic regression",
        "wrong",
        "differ by",
        "noise model",
        "Probit()",
        "│seconds",
    ):
        assert text in out, text
    assert classified[1].exists()  # named after the table
    assert "Outliers" not in out


def test_more_than_two_classes(folder):
    data = houses(30)
    data["price"] = np.digitize(data["price"], [150, 250])
    data.to_csv(folder / "three.csv", index=False)
    result = run(
        "fit", folder / "three.csv", "--target", "price", "--drop", "id", "--task", "classification",
        "--likelihood", "lapse-probit", "--inference", "laplace", "--kernel", "SE(50.0)", "--restarts", "0",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "OneVsRest" in result.stdout or "one_vs_rest" in result.stdout
    predicted = run("predict", folder / "three.cavity", folder / "three.csv")
    assert predicted.stdout.splitlines()[0] == "price,p(0),p(1),p(2)"


def test_the_version_and_short_help():
    assert run("--version").stdout == f"cavity {cavity.__version__}\n"
    assert run("-h").exit_code == 0
    assert run("-h").stdout == run("--help").stdout
    assert run("fit", "-h").stdout == run("fit", "--help").stdout


def test_the_package_runs_as_the_command():
    result = subprocess.run(
        [sys.executable, "-m", "cavity", "fit", "--help"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "Usage: cavity fit" in result.stdout


def test_auto_chooses_robust_noise_where_rows_are_far_off(folder):
    plain = houses(30)
    plain.to_csv(folder / "plain.csv", index=False)
    arguments = (
        "--target",
        "price",
        "--drop",
        "id",
        "--drop",
        "color",
        "--restarts",
        "0",
        "--test-size",
        "0",
    )
    result = run("fit", folder / "plain.csv", *arguments)
    assert re.search(
        r"No row is more than 3\.\d sd from what the others predict\.", " ".join(result.stdout.split())
    )
    assert "Rows outside the central 99.9 % of predictions: none" in result.stdout
    assert "held-out" not in result.stdout
    plain.loc[3, "price"] += 1000.0
    plain.to_csv(folder / "gross.csv", index=False)
    result = run("fit", folder / "gross.csv", *arguments, "--kernel", "1e4 * SE(40.0)")
    assert re.search(
        r"1 row is more than 3\.\d sd from what the others predict", " ".join(result.stdout.split())
    )
    assert "StudentT(" in result.stdout


def test_missing_values_are_filled_in_or_refused_on_request(folder):
    data = houses(24)
    data.loc[[2, 5], "size"] = np.nan
    data.loc[3, "color"] = None
    path = folder / "gaps.csv.gz"
    data.to_csv(path, index=False)
    common = ("--target", "price", "--drop", "id", *QUICK)
    refused(
        run("fit", path, *common, "--impute", "none"),
        "values are missing in 2 columns: size (2), color (1); use --impute median",
    )
    result = run("fit", path, *common)
    assert result.exit_code == 0, result.output
    assert "2 missing values filled in by the median" in result.stdout
    predicted = run("predict", folder / "gaps.cavity", path)
    assert predicted.exit_code == 0, predicted.output
    assert len(predicted.stdout.splitlines()) == 25


def test_categories_by_the_kernel_and_learning_from_some_rows(folder):
    houses(60).to_parquet(folder / "big.parquet")
    result = run(
        "fit", folder / "big.parquet", "--target", "price", "--drop", "id", "--categories", "kernel",
        "--learn-rows", "25", "--mean", "zero", *QUICK,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "Read 60 rows and 4 columns" in result.stdout
    assert "codes for the categorical kernel" in result.stdout
    assert "Categorical(3" in result.stdout


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ("houses.2023.csv", "houses.2023.cavity"),
        ("houses.2024.csv.gz", "houses.2024.cavity"),
        ("v1.5_run.parquet", "v1.5_run.cavity"),
        ("a.TSV.GZ", "a.cavity"),
    ],
)
def test_models_are_called_like_their_tables(data, model, tmp_path):
    assert _out_file(tmp_path / data, None) == tmp_path / model


def test_columns_that_count_rows_are_warned_of(folder):
    houses(30).rename(columns={"id": "place"}).to_csv(folder / "numbered.csv", index=False)
    result = run(
        "fit",
        folder / "numbered.csv",
        "--target",
        "price",
        *QUICK,
        "--kernel",
        "SE(50.0)",
        "-o",
        folder / "i.cavity",
    )
    assert "Warning: column 'place' looks like an identifier" in result.stdout


def test_markup_in_names_is_shown_and_not_read(folder):
    data = houses(20).rename(columns={"size": "[red]size[/red]", "price": "[bold]"})
    data.to_csv(folder / "markup.csv", index=False)
    result = run(
        "fit", folder / "markup.csv", "--target", "[bold]", "--drop", "id", *QUICK, env={"COLUMNS": "200"}
    )
    assert result.exit_code == 0, result.output
    assert "[red]size[/red]" in result.stdout
    assert "regression of [bold]" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.csv", "--target", "price"], "there is no file"),
        (
            ["plain.csv", "--target", "prize"],
            "there is no column 'prize' (the target); did you mean 'price'?",
        ),
        (
            ["plain.csv", "--target", "price", "--drop", "colour"],
            "no column 'colour' (to drop); did you mean 'color'?",
        ),
        (
            ["plain.csv", "--target", "price", "--task", "guess"],
            "task must be one of regression, classification",
        ),
        (["plain.csv", "--target", "price", "--impute", "mean"], "impute must be 'median'"),
        (["plain.csv", "--target", "price", "--categories", "x"], "categories must be one of"),
        (["plain.csv", "--target", "price", "--kernel", "RBF(1.0)"], "unknown name 'RBF'; did you mean SE?"),
        (["plain.csv", "--target", "price", "--kernel", "__import__('os')"], "unknown name"),
        (
            ["plain.csv", "--target", "price", "--likelihood", "cauchy"],
            "likelihood must be a Likelihood or one of",
        ),
        (["plain.csv", "--target", "price", "--inference", "magic"], "inference must be 'auto' or one of"),
        (["plain.csv", "--target", "price", "--draws", "9"], "--draws is for --inference mcmc"),
        (
            ["plain.csv", "--target", "price", "--inference", "mcmc", "--draws", "0"],
            "--draws must be at least 1",
        ),
        (
            ["plain.csv", "--target", "price", "--test-size", "1.5"],
            "--test-size must be at least 0 and below 1",
        ),
        (["plain.csv", "--target", "price", "--test-size", "0.001"], "less than one row"),
        (["plain.csv", "--target", "price", "--learn-rows", "0"], "--learn-rows must be an integer >= 1"),
        (["plain.csv", "--target", "price", "--representation", "best"], "representation must be one of"),
        (["plain.csv", "--target", "price", "--out", "nowhere/m.cavity"], "there is no folder"),
        (["plain.csv", "--target", "price", "--out", "."], "is a folder"),
        (["plain.csv", "--target", "price", "--likelihood", "poisson"], "Poisson"),
        (["odd.xyz", "--target", "price"], "is no kind of table that can be read"),
        (["plain.csv", "--target", "color", "--likelihood", "gaussian"], "likelihood must be one of labels"),
    ],
)
def test_fits_that_are_refused(folder, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    houses(30).to_csv("plain.csv", index=False)
    (folder / "odd.xyz").write_text("x")
    refused(run("fit", *arguments), message)


def test_a_fit_that_does_not_fit_into_memory(folder, monkeypatch):
    from cavity.tables import fit as fitting

    houses(30).to_csv(folder / "plain.csv", index=False)
    monkeypatch.setattr(fitting, "available_memory", lambda: 5400.0)
    dense = ("--representation", "dense")
    result = run("fit", folder / "plain.csv", "--target", "price", *dense, *QUICK)
    refused(result, "needs about 0.0 GiB, but 0.0 GiB are free; use --representation inducing")


def test_what_is_proposed_for_large_tables_is_decided_by_time(capsys, monkeypatch):
    from cavity.cli.shared import check_size
    from cavity.numerics import time_estimate
    from cavity.tables import fit as fitting

    monkeypatch.setattr(fitting, "available_memory", lambda: 2.0**50)
    monkeypatch.setattr(
        time_estimate, "operations_per_second", lambda: 90 * 3000**3 / 60
    )  # 3000 rows: a minute
    check_size(3000)
    assert capsys.readouterr().out == ""
    check_size(15_000)
    out = capsys.readouterr().out
    assert "needs about " in out
    assert "GiB of memory and takes about 2 hours or more; --max-rows 3000, a random subset, is faster" in out
    check_size(15_000, subset=False)
    assert "--representation inducing is faster" in capsys.readouterr().out
    monkeypatch.setattr(fitting, "available_memory", lambda: 2.0**33)
    with pytest.raises(ValueError, match=r"takes about \d+ days; use --max-rows 3000, a random subset"):
        check_size(200_000)


def test_usage_errors_help_and_examples(folder):
    assert run("fit", folder / "plain.csv").exit_code == 2
    assert run("guess").exit_code == 2
    assert run("fit", "--help").exit_code == 0
    for command in ("fit", "predict", "info", "demo"):
        assert f"Example: cavity {command}" in re.sub(r"[\s│]+", " ", run(command, "--help").stdout)
        assert command in run("--help").stdout
    assert set(COMMANDS) >= {"demo", "fit", "predict", "info"}


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("fit", "mcmc [default: 500]."),
        ("fit", "Model file [default: <data>.cavity]."),
        ("predict", "[default: screen]."),
        ("assess", "may be repeated [default: all]."),
        ("demo", "[default: 20.0]"),
    ],
)
def test_help_states_defaults_that_depend(command, default):
    shown = run(command, "--help", env={"COLUMNS": "200"}).stdout
    assert default in re.sub(r"[\s│]+", " ", shown)


@pytest.mark.parametrize("command", ["fit a.csv --target y", "compare a.csv --target y", "assess a.cavity a.csv",
                                     "report a.cavity a.csv", "demo"])  # fmt: skip
def test_seeds_below_zero_are_named(command):
    result = run(*command.split(), "--seed", "-1")
    assert result.exit_code == 2
    assert "Invalid value for '--seed': it must be at least 0, got -1" in re.sub(
        r"[\s│]+", " ", result.stderr
    )


def test_debug_shows_the_traceback(folder):
    result = run("fit", folder / "none.csv", "--target", "price", "--debug")
    assert isinstance(result.exception, ValueError)
    assert "there is no file" in str(result.exception)


def test_unexpected_errors_and_interrupts_have_exit_codes_of_their_own(folder, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("cavity.tables.read_table", broken)
    result = run("fit", folder / "plain.csv", "--target", "price")
    refused(result, "something unexpected happened (RuntimeError: a bug); run it again with --debug", code=3)
    assert isinstance(
        run("fit", folder / "plain.csv", "--target", "price", "--debug").exception, RuntimeError
    )
    monkeypatch.setattr("cavity.tables.read_table", interrupted)
    refused(run("fit", folder / "plain.csv", "--target", "price"), "Interrupted", code=130)


# --- predict ------------------------------------------------------------------------------------------------


def test_predictions_from_the_file_alone_in_any_order_of_columns(fitted, folder):
    new = houses(10, seed=1)[["color", "price", "size"]]
    new.to_csv(folder / "new.csv", index=False)
    out = folder / "predicted.csv"
    result = run("predict", fitted[1], folder / "new.csv", "--interval", "0.8", "--digits", "17", "-o", out)
    assert result.exit_code == 0, result.output
    assert "Predictions of 10 rows" in result.stdout
    assert "The sd is empty where it is infinite" in result.stderr.replace("\n", " ")
    table = pd.read_csv(out)
    expected = cavity.load(fitted[1]).predict(new, 0.8)
    assert list(table) == ["mean", "sd", "lower", "upper"]
    expected["sd"] = expected["sd"].replace(np.inf, np.nan)  # which is an empty cell
    np.testing.assert_allclose(table, expected, rtol=1e-12)
    np.testing.assert_allclose(table["mean"], new["price"], atol=40)
    exact = ("--interval", "0.8", "--digits", "17")
    screen = run("predict", fitted[1], folder / "new.csv", *exact)
    assert screen.stdout == out.read_text()
    blocks = run("predict", fitted[1], folder / "new.csv", *exact, "--block-rows", "3")
    again = pd.read_csv(__import__("io").StringIO(blocks.stdout))
    np.testing.assert_allclose(again, table, rtol=1e-9)
    zipped = folder / "predicted.tsv.gz"
    assert run("predict", fitted[1], folder / "new.csv", "-o", zipped).exit_code == 0
    assert gzip.decompress(zipped.read_bytes()).startswith(b"mean\tsd\tlower\tupper\n")


def test_clean_intervals_are_those_of_the_estimator_and_refused_for_classes(fitted, classified, folder):
    houses(4, seed=3).to_csv(folder / "four.csv", index=False)
    result = run("predict", fitted[1], folder / "four.csv", "--clean", "--digits", "17")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(__import__("io").StringIO(result.stdout))
    model = cavity.load(fitted[1])
    expected = model.estimator.predict_dist(model.preparation.inputs(houses(4, seed=3)), clean=True)
    np.testing.assert_allclose(table["upper"], expected.interval(0.9)[1], rtol=1e-9)
    np.testing.assert_allclose(table["sd"] ** 2, expected.variance, rtol=1e-9)
    result = run("predict", classified[1], folder / "four.csv", "--clean")
    refused(result, "--clean is for regression: classes have no outliers")


def test_columns_to_keep_stand_before_the_predictions_as_they_are_in_the_file(fitted, folder):
    new = houses(5, seed=1)
    new["key"] = ["007", "a b", "", "1e3", '"x"']
    new.to_csv(folder / "keyed.csv", index=False)
    result = run(
        "predict", fitted[1], folder / "keyed.csv", "--keep", "key", "--keep", "size", "--block-rows", "2"
    )
    assert result.exit_code == 0, result.output
    table = pd.read_csv(__import__("io").StringIO(result.stdout), dtype=str, keep_default_na=False)
    assert list(table) == ["key", "size", "mean", "sd", "lower", "upper"]
    assert list(table["key"]) == ["007", "a b", "", "1e3", '"x"']
    np.testing.assert_array_equal(table["size"].astype(float), new["size"])
    assert "'key'" not in result.stderr  # which is not ignored
    refused(
        run("predict", fitted[1], folder / "keyed.csv", "--keep", "kay"), "there is no column 'kay' to keep"
    )
    new.rename(columns={"key": "mean"}).to_csv(folder / "mean.csv", index=False)
    refused(run("predict", fitted[1], folder / "mean.csv", "--keep", "mean"), "'mean' cannot be kept")


def test_keys_are_neither_missing_values_nor_numbers(fitted, folder):
    new = houses(3, seed=1)
    new["key"] = ["NA", "null", "1,5"]
    new.to_csv(folder / "named.csv", index=False, sep=";", decimal=",")
    result = run("predict", fitted[1], folder / "named.csv", "--keep", "key")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(__import__("io").StringIO(result.stdout), dtype=str, keep_default_na=False)
    assert list(table["key"]) == ["NA", "null", "1,5"]


def test_class_probabilities_are_predicted(classified, folder):
    houses(6, seed=2).to_csv(folder / "six.csv", index=False)
    result = run("predict", classified[1], folder / "six.csv")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "price,p(cheap),p(dear)"
    assert len(lines) == 7
    assert float(lines[1].split(",")[1]) + float(lines[1].split(",")[2]) == pytest.approx(1.0)


def test_predictions_that_are_refused(fitted, folder):
    new = houses(5, seed=1).drop(columns=["id", "price"])
    new.rename(columns={"size": "sizes"}).to_csv(folder / "bad.csv", index=False)
    result = run("predict", fitted[1], folder / "bad.csv", "-o", folder / "bad-out.csv")
    refused(result, "the table lacks 1 column: 'size'; unknown columns: 'sizes' ('sizes' may be 'size')")
    new.assign(extra=1, more=2).to_csv(folder / "extra.csv", index=False)
    result = run("predict", fitted[1], folder / "extra.csv")
    assert "Ignored, because the data of the fit did not have them: 'extra', 'more'." in result.stderr
    assert result.exit_code == 0
    new.assign(color="mauve").to_csv(folder / "mauve.csv", index=False)
    result = run("predict", fitted[1], folder / "mauve.csv", "--block-rows", "2")
    assert result.exit_code == 0
    assert "Warning: column 'color' has 'mauve' in 5 rows, which did not occur" in result.stderr.replace(
        "\n", " "
    )
    new.assign(size=[1, 2, 3, "?", 5]).to_csv(folder / "text.csv", index=False)
    result = run("predict", fitted[1], folder / "text.csv", "-o", folder / "bad-out.csv", "--block-rows", "2")
    refused(result, "column 'size' has '?' in row 4, which is not a finite number")
    assert not (folder / "bad-out.csv").exists()  # not even in part
    assert not list(folder.glob(".bad-out*"))
    refused(
        run("predict", fitted[1], folder / "extra.csv", "--interval", "90"),
        "interval must be between 0 and 1",
    )
    refused(run("predict", fitted[1], folder / "none.csv"), "there is no file")
    refused(run("predict", folder / "none.cavity", folder / "extra.csv"), "there is no file")
    refused(run("predict", folder, folder / "extra.csv"), "is a folder, not a model file")
    refused(
        run("predict", folder / "extra.csv", folder / "extra.csv"),
        "cannot be loaded: it is not a zip archive",
    )
    refused(
        run("predict", fitted[1], folder / "extra.csv", "-o", folder / "out.xlsx"), "must end in .csv, .tsv"
    )
    refused(
        run("predict", fitted[1], folder / "extra.csv", "-o", folder / "no" / "out.csv"), "there is no folder"
    )


def test_models_saved_from_python_have_no_table(folder):
    data = houses(20)[["size", "price"]]
    model = GPRegressor(SE(50.0), objective=None).fit(data[["size"]], data["price"])
    model.save(folder / "python.cavity")
    data.to_csv(folder / "data.csv", index=False)
    result = run("predict", folder / "python.cavity", folder / "data.csv")
    refused(
        result,
        "holds a GPRegressor that was saved from Python and does not know how a table becomes its inputs",
    )


# --- info ---------------------------------------------------------------------------------------------------


def test_info_shows_what_fit_showed(fitted, classified):
    result = run("info", fitted[1])
    assert result.exit_code == 0, result.output
    assert f"format 1, written by cavity {cavity.__version__}" in result.stdout
    shown = fitted[0].stdout
    start, end = shown.index("The model"), shown.index("Model: ")
    assert shown[start:end].strip() in result.stdout
    assert result.stdout.strip().splitlines()[-3:] == shown.strip().splitlines()[-3:]  # the verdict
    assert "P(price = dear) rises with size" in run("info", classified[1]).stdout


def test_info_of_models_saved_from_python(folder):
    GPRegressor(SE(50.0), objective=None).fit([[0.0], [1.0]], [0.0, 1.0]).save(folder / "r.cavity")
    GP(SE(2.0), Gaussian(0.5)).save(folder / "g.cavity")
    assert "GPRegressor saved from Python." in run("info", folder / "r.cavity").stdout
    assert "log evidence" in run("info", folder / "r.cavity").stdout
    assert "kernel: SE(lengthscale=2.0)" in run("info", folder / "g.cavity").stdout
    (folder / "broken.cavity").write_bytes((folder / "r.cavity").read_bytes()[:-40])
    refused(run("info", folder / "broken.cavity"), "cannot be loaded: the archive is damaged or cut short")


# --- scores -------------------------------------------------------------------------------------------------


class Fixed:
    """A model whose predictions are known."""

    def __init__(self, log_p=None, mean=None, variance=None):
        self.log_p, self.mean, self.variance = log_p, mean, variance

    def predict_log_proba(self, X):
        return self.log_p

    def predict_dist(self, X):
        from cavity.prediction import GaussianPrediction

        return GaussianPrediction(self.mean, self.variance)


def test_scores_against_values_worked_out_by_hand():
    p = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]])
    labels, train = np.array(["a", "b", "b", "b"]), np.array(["a", "b"])
    scores = classification_scores(Fixed(np.log(p)), None, labels, train)
    assert scores.error == 0.25
    assert scores.guess_error == 0.75  # the first of two equally frequent classes
    chosen = np.array([0.9, 0.6, 0.2, 0.7])
    assert scores.nlp == pytest.approx(-np.mean(np.log(chosen)))
    assert scores.information == pytest.approx(np.mean(np.log2(chosen)) + 1.0)
    y = np.array([0.0, 2.0])
    scores = regression_scores(
        Fixed(mean=np.array([1.0, 2.0]), variance=np.array([1.0, 4.0])), None, y, np.array([0.0, 2.0])
    )
    assert scores.rmse == pytest.approx(np.sqrt(0.5))
    density = [np.exp(-0.5) / np.sqrt(2 * np.pi), 1 / np.sqrt(2 * np.pi * 4)]
    assert scores.nlp == pytest.approx(-np.mean(np.log(density)))
    assert scores.coverage == ((0.5, 0.5), (0.9, 1.0), (0.95, 1.0))
    assert scores.guess_rmse == 1.0


def test_calibration_error_of_certainty_that_is_right_and_wrong():
    certainty = np.repeat([0.75, 0.95], [40, 20])
    right = np.concatenate([np.arange(40) % 4 > 0, np.arange(20) > 0])
    assert expected_calibration_error(certainty, right) == pytest.approx(0.0)
    assert expected_calibration_error(np.full(10, 0.99), np.zeros(10, dtype=bool)) == pytest.approx(0.99)


def test_the_command_starts_quickly_and_knows_its_exit_codes(folder):
    """The program as installed: help loads none of the numerical packages, errors reach the shell."""
    program = "import sys, cavity.cli; print([m for m in ('pandas', 'sklearn', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
    command = [
        sys.executable,
        "-c",
        "from cavity.cli import main; main()",
        "info",
        str(folder / "nothing.cavity"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ}, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: there is no file")
    assert "Traceback" not in result.stderr


# --- models fitted by sampling ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled(folder):
    """A fit by sampling with few draws, its output and the file."""
    houses(20).to_csv(folder / "few.csv", index=False)
    arguments = ("--drop", "id", *QUICK, "--inference", "mcmc", "--draws", "6", "-o", folder / "few.cavity")
    result = run("fit", folder / "few.csv", "--target", "price", *arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result, folder / "few.cavity"


def test_a_fit_by_sampling_says_what_it_drew(sampled):
    result, path = sampled
    assert "Markov chains (integrated)" in result.stdout
    assert "4 of 6 draws; worst R-hat" in result.stdout
    assert "unknown: draws do not tell it" in result.stdout
    assert "90 % of draws" in result.stdout
    assert "prior=" not in result.stdout  # the kernel without the priors that the sampler gave it
    assert (
        result.stdout.count("Warning: the chains have not converged") == 1
    )  # not once more for the held-out rows
    assert "sample longer, as in --draws 1000" in result.stdout
    assert "unknown: draws do not tell it" in run("info", path, env={"COLUMNS": "200"}).stdout


def test_predictions_by_draws_are_those_of_the_estimator(sampled, folder):
    _, path = sampled
    result = run("predict", path, folder / "few.csv", "--interval", "0.8", "--digits", "17")
    assert result.exit_code == 0, result.output
    table = np.array([line.split(",") for line in result.stdout.split()[1:]], dtype=float)
    model = cavity.load(path)
    prediction = model.estimator.predict_dist(
        model.preparation.inputs(pd.read_csv(folder / "few.csv", dtype=str))
    )
    truth = np.column_stack([prediction.mean, prediction.sd, *prediction.interval(0.8)])
    np.testing.assert_allclose(table, truth, rtol=1e-12)


def test_what_draws_cannot_do_is_said(sampled, folder):
    _, path = sampled
    for command in (
        ("assess", path, folder / "few.csv"),
        ("report", path, folder / "few.csv", "--assess", "1"),
    ):
        refused(
            run(*command),
            "this model was fitted by sampling, which is what approximations are checked against",
        )
    compare = ("compare", folder / "few.csv", "--target", "price", "--drop", "id", "--inference", "mcmc")
    refused(
        run(*compare, "--folds", "0"), "draws (--inference mcmc) have neither an evidence nor a leave-one-out"
    )


def test_the_report_of_a_model_of_draws(sampled, folder):
    _, path = sampled
    result = run("report", path, folder / "few.csv", "-o", folder / "few.html")
    assert result.exit_code == 0, result.output
    page = (folder / "few.html").read_text()
    assert "unknown: draws do not tell it" in page
    assert "95 % of draws" in page
    assert "at the mean of the hyperparameters drawn" in page
    assert "sample longer, as in --draws 1000, or give the hyperparameters more informative priors." in page
    assert "plot_trace" not in page


@pytest.mark.filterwarnings("ignore:the chains have not converged")
def test_sampling_chooses_its_noise_without_sampling(monkeypatch, folder):
    """Which noise suits the data is found by a fit without draws."""
    from cavity.tables import training

    asked = []

    class Regressor(GPRegressor):
        def fit(self, X, y, sample_weight=None):
            asked.append((self.likelihood, str(self.inference)))
            return super().fit(X, y, sample_weight)

    monkeypatch.setattr(training, "GPRegressor", Regressor)
    table = read_table(folder / "few.csv")
    prepared = prepare(table, "price", drop=["id", "color"])
    options = training.Options(inference="mcmc", n_restarts=0, draws=4, test_size=0.0)
    learned = fit_table(*prepared, table, options)
    assert asked[0] == ("auto", "auto")
    assert asked[-1][0] is learned.estimator.likelihood
    assert len(asked) == 2
    assert asked[-1][1].startswith("MCMC(n_draws=4")
    assert "noise" in str(learned.report.choice)


def test_models_saved_from_python_are_described(folder):
    from cavity.em import HMM, GaussianMixture

    rows = np.random.default_rng(0).standard_normal((30, 2))
    GaussianMixture(2, random_state=0).fit(rows).save(folder / "mixture.cavity")
    HMM(1, random_state=0).fit(rows).save(folder / "chain.cavity")
    text = run("info", folder / "mixture.cavity").stdout
    assert "2 components of Gaussian, 2 columns" in text
    assert "log likelihood" in text
    assert "1 state of Gaussian" in run("info", folder / "chain.cavity").stdout
    cavity.load(folder / "few.cavity").estimator.save(folder / "draws.cavity")
    assert "the chains have not converged" in run("info", folder / "draws.cavity").stdout
    refused(run("predict", folder / "mixture.cavity", folder / "few.csv"), "saved from Python")
