"""`cavity fit --target a --target b`: gaps, noise of each target, correlations, scores, files, and what is refused."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest

import cavity
from cavity import CoregionalizedRegressor
from cavity.io import dumps, loads
from cavity.tables import OutputsModel
from cavity.tables.outputs_fit import noise_names
from tests.cli.test_commands import refused, run

QUICK = ["--likelihood", "gaussian", "--restarts", "0"]


def rivers(n=40) -> pd.DataFrame:
    """Lead and zinc go together, iron against them; zinc is missing in every third row."""
    rng = np.random.default_rng(3)
    depth = rng.uniform(0, 6, n)
    f = np.sin(depth)
    table = pd.DataFrame(
        {
            "depth": depth,
            "bank": np.array(["left", "right"])[np.arange(n) % 2],
            "lead": f + 0.05 * rng.standard_normal(n),
            "zinc": 100 * f + 300 + 5 * rng.standard_normal(n),
            "iron": -f + 0.05 * rng.standard_normal(n),
        }
    )
    table.loc[::3, "zinc"] = np.nan
    return table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("several")


@pytest.fixture(scope="module")
def fitted(folder):
    """A fit of two targets with gaps: the table, what was said, the model."""
    table = rivers()
    table.loc[4, ["lead", "zinc"]] = np.nan
    table.to_csv(folder / "rivers.csv", index=False)
    result = run(
        "fit", folder / "rivers.csv", "--target", "lead", "--target", "zinc", "--drop", "iron", *QUICK,
        "--report", folder / "rivers.html",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    return table, result, cavity.load(folder / "rivers.cavity")


def test_fit_says_correlations_scores_and_a_verdict(fitted):
    _, result, model = fitted
    assert isinstance(model, OutputsModel)
    assert "1 row without any of the targets" in result.output
    assert "Correlations of the targets" in result.output
    assert model.estimator.correlations_[0, 1] > 0.9
    assert "How good, lead:" in result.output
    assert "How good, zinc:" in result.output
    assert "Together: correlated are lead and zinc" in result.output
    assert "single cells" in result.output  # the table has gaps
    cells = [one.rows for one in model.report.each]
    assert cells == [39, 25]
    assert [one.held_out_rows for one in model.report.each] == [8, 5]


def test_predictions_are_those_of_the_estimator(fitted, folder):
    """The command adds how a table is read, and nothing to the model."""
    table, _, model = fitted
    kept = table.drop(index=4)
    X = pd.DataFrame({"depth": kept["depth"], "bank=right": (kept["bank"] == "right").astype(float)})
    known = CoregionalizedRegressor(n_restarts=0, random_state=0).fit(X, kept[["lead", "zinc"]])
    new = rivers().iloc[:5].drop(columns=["lead", "zinc", "iron"])
    new.to_csv(folder / "new.csv", index=False)
    result = run("predict", folder / "rivers.cavity", folder / "new.csv", "--digits", 17, "--keep", "depth")
    found = pd.read_csv(io.StringIO(result.stdout))
    names = [f"{target} {part}" for target in ("lead", "zinc") for part in ("mean", "sd", "lower", "upper")]
    assert list(found) == ["depth", *names]
    at = pd.DataFrame({"depth": new["depth"], "bank=right": (new["bank"] == "right").astype(float)})
    mean, sd = known.predict(at, return_std=True)
    np.testing.assert_allclose(found[["lead mean", "zinc mean"]], mean, rtol=1e-9)
    np.testing.assert_allclose(found[["lead sd", "zinc sd"]], sd, rtol=1e-9)
    np.testing.assert_allclose(found["zinc upper"] - found["zinc mean"], 1.6448536 * sd[:, 1], rtol=1e-6)
    again = loads(dumps(model))
    pd.testing.assert_frame_equal(again.predict(new), model.predict(new))
    assert again.report == model.report


def test_scores_are_those_of_cells_that_learning_has_not_seen(fitted):
    """Held-out errors lie near the noise, far below a guess, and no cell is in both parts."""
    _, _, model = fitted
    for one, noise in zip(model.report.each, (0.05, 5.0)):
        assert one.scores is not None
        assert one.scores.rmse < 4 * noise < 0.5 * one.scores.guess_rmse
        assert one.baselines[-1].name == "a model of its own"


def test_info_and_report_know_several_targets(fitted, folder):
    shown = run("info", folder / "rivers.cavity")
    assert shown.exit_code == 0
    assert "Together: correlated are" in shown.output
    page = (folder / "rivers.html").read_text(encoding="utf-8")
    assert "Correlations of the targets" in page
    assert "zinc: predicted" in page
    again = run("report", folder / "rivers.cavity", folder / "rivers.csv", "-o", folder / "again.html")
    assert again.exit_code == 0, again.output
    refused(
        run(
            "report", folder / "rivers.cavity", folder / "rivers.csv", "-o", folder / "x.html", "--assess", 1
        ),
        "not for a model of several targets",
    )
    refused(run("assess", folder / "rivers.cavity", folder / "rivers.csv"), "several targets (lead, zinc)")


def test_a_table_without_gaps_holds_out_rows_and_finds_signs(folder):
    rivers().drop(columns="zinc").to_csv(folder / "full.csv", index=False)
    out = folder / "full.cavity"
    result = run("fit", folder / "full.csv", "--target", "lead", "--target", "iron", *QUICK, "-o", out)
    assert "whole rows were held out" in result.output
    model = cavity.load(out)
    assert model.report.by_row
    assert model.estimator.correlations_[0, 1] < -0.9


def test_each_target_has_its_noise(folder):
    table = rivers(30)
    table["count"] = np.random.default_rng(0).poisson(np.exp(1 + table["lead"]))
    table[["depth", "lead", "count"]].to_csv(folder / "counts.csv", index=False)
    noise, out = "lead=student-t,count=poisson", folder / "counts.cavity"
    result = run(
        "fit", folder / "counts.csv", "--target", "lead", "--target", "count", "--likelihood", noise,
        "--restarts", 0, "--test-size", 0, "-o", out,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    model = cavity.load(out)
    assert [output.noise for output in model.outputs] == ["student-t", "poisson"]
    found = model.predict(table, clean=True)
    assert (found["count lower"] >= 0).all()
    assert "nothing was held out" in result.output
    assert noise_names("auto", ["a", "b"]) == {"a": "auto", "b": "auto"}


def test_refusals_name_value_and_remedy(folder, fitted):
    file = folder / "rivers.csv"
    two = ["--target", "lead", "--target"]
    refused(run("fit", file, *two, "lead"), "'lead' is named twice")
    refused(run("fit", file, *two, "zink"), "did you mean 'zinc'?")
    refused(run("fit", file, *two, "bank"), "the target 'bank' holds text, such as 'left'")
    refused(run("fit", file, *two, "zinc", "--inference", "mcmc"), "--inference is not for several targets")
    refused(run("fit", file, *two, "zinc", "--draws", 10), "--draws is not for several targets")
    refused(
        run("fit", file, *two, "zinc", "--likelihood", "zink=gaussian"), "names 'zink', which is no target"
    )
    refused(
        run("fit", file, *two, "zinc", "--likelihood", "probit"), "probit is not for one of several targets"
    )
    refused(run("fit", file, *two, "zinc", "--time", "depth"), "has one --target")
    refused(run("fit", file, "--target", "lead", "--rank", 2), "--rank is for several targets")
    table = rivers()
    table["zinc"] = np.nan
    table.to_csv(folder / "empty.csv", index=False)
    refused(
        run("fit", folder / "empty.csv", *two, "zinc"), "the target 'zinc' has no value at all; leave it out"
    )
