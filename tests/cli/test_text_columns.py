"""`cavity fit --text COLUMN`: string kernels beside numbers, and texts at prediction like none of the fit."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import GPRegressor, TextEncoder
from cavity.frames.text import TextCode
from cavity.io import dumps, loads
from cavity.kernels import SE, Substrings, ard
from tests.cli.test_commands import refused, run

QUICK = ["--likelihood", "gaussian", "--restarts", "0"]


def genes(n=40) -> pd.DataFrame:
    """A rate that depends on how often a gene holds "GC", and smoothly on a dose."""
    rng = np.random.default_rng(1)
    gene = ["".join(rng.choice(list("ACGT"), rng.integers(6, 13))) for _ in range(n)]
    dose = rng.uniform(0, 3, n)
    rate = np.array([text.count("GC") for text in gene]) + np.sin(2 * dose) + 0.05 * rng.standard_normal(n)
    return pd.DataFrame({"gene": gene, "dose": dose, "rate": rate})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("text")


@pytest.fixture(scope="module")
def fitted(folder):
    genes().to_csv(folder / "genes.csv", index=False)
    result = run(
        "fit",
        folder / "genes.csv",
        "--target",
        "rate",
        "--text",
        "gene",
        *QUICK,
        "--report",
        folder / "g.html",
    )
    assert result.exit_code == 0, result.output
    return result, cavity.load(folder / "genes.cavity")


def test_a_text_is_a_string_kernel_beside_the_numbers(fitted):
    """The same model from Python: codes of `TextEncoder`, kernels on their own columns."""
    result, model = fitted
    assert "texts of up to 12 letters" in result.output
    table = genes()
    codes = TextEncoder().fit_transform(table["gene"])
    X = np.column_stack([codes, table["dose"]])
    kernel = 1.0 * SE(ard).on([12]) + Substrings([1.0] * 4).on(list(range(12)))
    known = GPRegressor(kernel, n_restarts=0, random_state=0).fit(X, table["rate"])
    mean, sd = known.predict(X[:7], return_std=True)
    found = model.predict(table.iloc[:7])
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-6)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-5)
    pd.testing.assert_frame_equal(loads(dumps(model)).predict(table), model.predict(table))


def test_the_text_is_worth_it(fitted, folder):
    """Without the column the rate is noise of about one; the note that leaves it out names the option."""
    result, model = fitted
    assert model.report.scores.rmse < 0.7 * model.report.scores.guess_rmse
    assert "gene" in result.output.split("What matters:")[1]
    without = run("fit", folder / "genes.csv", "--target", "rate", *QUICK, "-o", folder / "without.cavity")
    assert "take it as text with --text gene" in without.output
    assert "gene" in (folder / "g.html").read_text(encoding="utf-8")


def test_new_texts_have_a_clear_answer(fitted, folder):
    """Longer than any before, letters never seen, nothing known, empty: predicted, and said."""
    new = pd.DataFrame({"gene": ["GCGCGCGCGCGCGCGC", "GCGCXX", "xyz", ""], "dose": 1.0})
    new.to_csv(folder / "new.csv", index=False)
    result = run("predict", folder / "genes.cavity", folder / "new.csv", "--digits", 12)
    found = pd.read_csv(io.StringIO(result.stdout))
    for told in (
        "the first 12 letters count",
        "of which nothing is known",
        "shares no letters",
        "is empty, and none",
    ):
        assert told in result.stderr, told
    # a text like none of the fit has the prior variance of the text, and the same mean whatever it is
    assert found["mean"][2] == pytest.approx(found["mean"][3], abs=1e-8)
    assert found["sd"][2] > found["sd"][1] > found["sd"][0]
    same = pd.DataFrame({"gene": ["GCGCGCGCGCGC"], "dose": 1.0})
    _, model = fitted
    assert model.predict(same)["mean"][0] == pytest.approx(found["mean"][0], rel=1e-8)


def test_words_where_there_are_several(folder):
    code = TextCode.of(["the quick brown fox", "the lazy dog sleeps, soundly", ""])
    assert (code.unit, code.width, code.empty) == ("words", 5, True)
    rows = code.encode(["The dog!", "", "a cat"])
    assert rows[0, :2].tolist() == [code.known.index("the"), code.known.index("dog")]
    assert rows[1, 0] == len(code.known) + 1  # a text of its own
    assert rows[2].tolist() == [len(code.known), len(code.known), -1, -1, -1]
    news = code.news(["the cat", "cat", "", "the the the the the the"])
    assert (news.longer, news.foreign, news.partly, news.empty) == (1, 1, 1, 0)


def test_classes_and_several_targets_take_texts_too(folder):
    table = genes(30)
    table["kind"] = np.where(table["gene"].str.contains("GC"), "yes", "no")
    table["other"] = 2 * table["rate"] + 1
    table.to_csv(folder / "kinds.csv", index=False)
    out = folder / "kinds.cavity"
    options = ["--text", "gene", "--restarts", 0, "--test-size", 0, "-o", out]
    classes = run(
        "fit", folder / "kinds.csv", "--target", "kind", "--drop", "rate", "--drop", "other", *options
    )
    assert classes.exit_code == 0, classes.output
    assert (cavity.load(out).predict(table)["kind"] == table["kind"]).mean() > 0.9
    several = ["--target", "rate", "--target", "other", "--drop", "kind", "--likelihood", "gaussian"]
    assert run("fit", folder / "kinds.csv", *several, *options).exit_code == 0
    assert cavity.load(out).estimator.correlations_[0, 1] > 0.99


def test_refusals(folder, fitted):
    file = folder / "genes.csv"
    start = ["fit", file, "--target", "rate", "--text"]
    refused(run(*start, "gane"), "there is no column 'gane' (text); did you mean 'gene'?")
    refused(run(*start, "rate"), "'rate' cannot be text and the target")
    refused(run(*start, "gene", "--representation", "inducing"), "--text needs all rows in one matrix")
    table = genes()
    table["gene"] = "same"
    table.to_csv(folder / "same.csv", index=False)
    refused(
        run("fit", folder / "same.csv", "--target", "rate", "--text", "gene"),
        "the same text in all rows, 'same'",
    )
    table["gene"] = ["", *genes()["gene"][1:]]
    table.to_csv(folder / "gap.csv", index=False)
    asked = ["fit", folder / "gap.csv", "--target", "rate", "--text", "gene", "--impute", "none"]
    refused(run(*asked), "values are missing in 1 column: gene (1)")
