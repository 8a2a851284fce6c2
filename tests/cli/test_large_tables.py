"""Tables of many rows from the command line: Parquet files, text, a cluster, faults."""

from __future__ import annotations

import errno

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import cavity
from cavity import Inducing
from cavity.cli import app
from cavity.learning import large_data
from cavity.tables import large_tables
from tests.rows.test_rows import cluster

N = 500
FAST = [
    "--likelihood",
    "gaussian",
    "--restarts",
    "0",
    "--inducing",
    "25",
    "--learn-rows",
    "120",
    "--test-size",
    "0.2",
]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def table():
    rng = np.random.default_rng(2)
    x, z = rng.uniform(-3, 3, size=(2, N))
    color = rng.choice(["red", "green"], N)
    y = np.sin(x) + 0.3 * z + 0.5 * (color == "red") + 0.1 * rng.standard_normal(N)
    return pd.DataFrame({"x": x, "z": z, "color": color, "y": y})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A table in two Parquet files, and a limit that makes it a large one."""
    monkeypatch.setattr(large_tables, "SAMPLE_ROWS", 200)
    monkeypatch.setattr(large_data, "START_ROWS", 60)
    frame = table()
    frame.iloc[:300].to_parquet(tmp_path / "a.parquet", row_group_size=110)
    frame.iloc[300:].to_parquet(tmp_path / "b.parquet")
    return tmp_path


def test_files_are_fitted_described_and_predicted(folder):
    model, out = folder / "m.cavity", folder / "out.csv"
    result = run("fit", folder / "*.parquet", "--target", "y", *FAST, "-o", model)
    assert result.exit_code == 0, result.output
    assert "Read 500 rows and 4 columns" in result.output
    assert "Learning from a random sample of 200 rows; the model is conditioned on all." in result.output
    described = " ".join(run("info", model).output.replace("│", " ").split())
    assert "25 inducing inputs stand for 500 rows: the log evidence is too low by at most" in described
    result = run("predict", model, folder / "*.parquet", "-o", out, "--block-rows", "150")
    assert result.exit_code == 0, result.output
    predicted = pd.read_csv(out)
    assert len(predicted) == N
    assert np.sqrt(np.mean((predicted["mean"] - table()["y"]) ** 2)) < 0.2
    # the same as an estimator that is given all rows
    fitted = cavity.load(model)
    X = fitted.preparation.inputs(table()).to_numpy()
    learned = fitted.estimator.model_
    bound = Inducing(
        learned.representation.m, "vfe", inputs=learned.representation.inputs
    )  # that of rows on disk
    same = learned.with_representation(bound).condition(X, table()["y"].to_numpy())
    assert fitted.estimator.log_evidence_ == pytest.approx(same.log_evidence, abs=1e-6)


def test_text_of_many_rows_is_given_whole(folder):
    table().to_csv(folder / "t.csv", index=False)
    result = run("fit", folder / "t.csv", "--target", "y", *FAST)
    assert result.exit_code == 0, result.output
    assert len(cavity.load(folder / "t.cavity").estimator.rows_.index) == N


def test_classes_of_many_rows(folder):
    frame = table().assign(up=lambda t: np.where(t.y > 0, "yes", "no")).drop(columns="y")
    frame.to_parquet(folder / "c.pq")
    result = run(
        "fit", folder / "c.pq", "--target", "up", "--restarts", "0", "--inducing", "25", "--learn-rows", "80"
    )
    assert result.exit_code == 0, result.output
    estimator = cavity.load(folder / "c.cavity").estimator
    assert not estimator.posterior_.complete
    assert "does not reach them; how far" in " ".join(
        run("info", folder / "c.cavity").output.replace("│", " ").split()
    )


def test_workers_of_a_cluster_read_the_files(folder):
    with cluster(2) as local:
        words = ["--scheduler", local.scheduler_address, "-o", folder / "there.cavity"]
        result = run("fit", folder / "*.parquet", "--target", "y", *FAST, *words)
    assert result.exit_code == 0, result.output
    run("fit", folder / "*.parquet", "--target", "y", *FAST, "-o", folder / "here.cavity")
    here, there = (cavity.load(folder / f"{name}.cavity").estimator for name in ("here", "there"))
    assert here.log_evidence_ == there.log_evidence_


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["*.parquet", "--scheduler", "tcp://127.0.0.1:9"], "there is no scheduler at tcp://127.0.0.1:9"),
        (["none*.parquet"], "there is no file"),
        (["t.csv", "--scheduler", "tcp://127.0.0.1:9"], "--scheduler is for Parquet files"),
    ],
)
def test_what_is_refused(folder, monkeypatch, words, message):
    monkeypatch.setattr("cavity.rows.distributed.CONNECT_SECONDS", 0.3)
    table().to_csv(folder / "t.csv", index=False)
    result = run("fit", folder / words[0], "--target", "y", *FAST, *words[1:])
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())


def test_parts_with_other_columns_and_missing_values_are_named(folder):
    frame = table().iloc[300:]
    frame.rename(columns={"z": "w"}).to_parquet(folder / "b.parquet")
    result = run("fit", folder / "*.parquet", "--target", "y", *FAST)
    assert result.exit_code == 1
    assert "b.parquet has other columns than" in result.output
    frame.assign(y=frame.y.where(np.arange(200) != 7)).to_parquet(folder / "b.parquet")
    result = run("fit", folder / "*.parquet", "--target", "y", *FAST)
    assert result.exit_code == 1
    assert "missing" in result.output


def test_a_disk_that_fills_leaves_nothing_behind(folder, monkeypatch):
    model, out = folder / "m.cavity", folder / "out.csv"
    run("fit", folder / "*.parquet", "--target", "y", *FAST, "-o", model)
    out.write_text("as it was")
    written = pd.DataFrame.to_csv
    calls = []

    def full(frame, *words, **options):
        calls.append(1)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(frame, *words, **options)

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    result = run("predict", model, folder / "*.parquet", "-o", out, "--block-rows", "100")
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert out.read_text() == "as it was"
    assert sorted(f.name for f in folder.iterdir()) == ["a.parquet", "b.parquet", "m.cavity", "out.csv"]
