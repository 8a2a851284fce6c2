"""Studies of multimodal posteriors, indicators, sampled hyperparameters and Mauna Loa, on small versions."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.stats import multivariate_normal, norm

from cavity import GP, datasets, studies
from cavity.studies import hmc_ais, mauna_loa, neal, two_arcs
from tests.studies.conftest import Drawn

needs_data = pytest.mark.skipif(not os.environ.get("CAVITY_DATA"), reason="CAVITY_DATA is not set")


def load_or_skip(name: str) -> datasets.Dataset:
    try:
        return datasets.load(name)
    except datasets.DatasetNotFoundError as error:
        pytest.skip(str(error))


# --- two arcs -------------------------------------------------------------------------------------------------


def test_function_given_indicators_is_regression_with_known_noise() -> None:
    """One point: mean k*/(k + v) y and variance k - k*^2/(k + v), with v of the component."""
    model = two_arcs.model_with(two_arcs.MIXTURE)
    at = np.array([0.5])
    share = np.exp(-0.5 * (0.5 / 1.5) ** 2)
    for outlier, variance in ((False, 0.1**2), (True, 1.0)):
        mean, cov = two_arcs.given(model, np.zeros((1, 1)), np.array([2.0]), np.array([outlier]), at)
        assert mean[0] == pytest.approx(2 * share / (1 + variance))
        assert cov[0, 0] == pytest.approx(1 - share**2 / (1 + variance))


def test_two_arcs_shows_what_the_figures_show(tmp_path: Path, drawn: Drawn) -> None:
    study = studies.load("two-arcs")

    def cells(quick: bool) -> list[studies.Cell]:
        chains, *others = study.cells(quick)
        return [replace(chains, arguments={"seed": 0, "draws": 60}), *others]

    report = studies.run(replace(study, cells=cells), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    sampled = frame.loc[two_arcs.SAMPLED]
    # every function is on one arc or the other, and both are visited
    assert sampled["share above 1/2 at 0"] + sampled["share below -1/2 at 0"] > 0.95
    assert min(sampled["share above 1/2 at 0"], sampled["share below -1/2 at 0"]) > 0.05
    assert abs(frame.loc["mixture, EP", "mean at 0"]) < 0.3
    assert frame.loc["mixture, EP", "sd at 0"] > 0.5
    assert frame.loc["Student-t, variational, from above", "mean at 0"] > 0.7
    assert frame.loc["Student-t, variational, from below", "mean at 0"] < -0.7
    assert abs(frame.loc["Laplace noise, EP", "mean at 0"]) < 0.3
    assert any("stays where it started" in remark for remark in report.remarks)
    assert drawn(report.pictures)


# --- indicators -----------------------------------------------------------------------------------------------


def test_indicators_of_few_draws(tmp_path: Path) -> None:
    study = studies.load("outlier-indicators")
    cell = replace(study.cells(True)[0], arguments={"seed": 0, "draws": 24, "warmup": 12})
    report = studies.run(replace(study, cells=lambda quick: [cell]), quick=True, out=tmp_path)
    found = report.results.frame.iloc[0]
    assert found["error"] == ""
    stored = report.results.arrays(method="mnMCMC")
    assert stored["indicators"].shape == (24, 100)
    assert stored["outlier"].sum() == 10
    # replaced outputs are called outliers more often than others, and drawn counts agree with the table
    assert (
        stored["probability"][stored["outlier"]].mean() > 2 * stored["probability"][~stored["outlier"]].mean()
    )
    assert found["mean number of outliers"] == pytest.approx(stored["indicators"].sum(axis=1).mean())
    with Image.open(report.pictures[0]) as picture:
        red, green, blue = np.moveaxis(np.asarray(picture.convert("RGB"), dtype=int), 2, 0)
    stripes = slice(0, 3 * red.shape[1] // 4)  # the panel of draws, without the bars beside it
    dark = (red + green + blue)[:, stripes] < 150
    assert 0.02 < dark.mean() < 0.5
    assert np.sum((red > 180) & (green < 140) & (blue < 80)) > 200  # triangles and bars of replaced outputs


# --- Neal's outliers ------------------------------------------------------------------------------------------


def test_density_of_the_truth() -> None:
    x = np.array([[0.0], [1.0]])
    y = np.array([1.5, 3.0])
    f = 0.3 + 0.4 * x[:, 0] + 0.5 * np.sin(2.7 * x[:, 0]) + 1.1 / (1 + x[:, 0] ** 2)
    density = 0.95 * norm.pdf(y, f, 0.1) + 0.05 * norm.pdf(y, f, 1.0)
    assert neal.true_nlp(x, y) == pytest.approx(-np.mean(np.log(density)))


def test_drawn_sets_have_noisy_test_targets() -> None:
    X, y, X_test, y_test = neal.problem(3)
    assert (len(X), len(y), len(X_test), len(y_test)) == (100, 100, 1000, 1000)
    # the entropy of the noise is what the truth's NLP estimates: -0.66 by quadrature, sd 1.2 per target
    grid = np.linspace(-8, 8, 200_001)
    p = 0.95 * norm.pdf(grid, 0, 0.1) + 0.05 * norm.pdf(grid, 0, 1.0)
    entropy = -np.sum(p * np.log(p)) * (grid[1] - grid[0])
    assert neal.true_nlp(X_test, y_test) == pytest.approx(entropy, abs=0.15)


@needs_data
def test_neal_prefers_robust_noise(tmp_path: Path, drawn: Drawn) -> None:
    load_or_skip("neal_outliers")
    study = studies.load("neal")

    def cells(quick: bool) -> list[studies.Cell]:
        return [c for c in study.cells(True) if c.labels["method"] in ("snMLII", "lapEP", "tVar")]

    report = studies.run(replace(study, cells=cells), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    for method in ("lapEP", "tVar"):
        assert frame.loc[method, "NLP"] < frame.loc["snMLII", "NLP"] - 0.2
        assert frame.loc[method, "RMSE"] < frame.loc["snMLII", "RMSE"]
        assert frame.loc[method, "log evidence"] > frame.loc["snMLII", "log evidence"] + 20
    assert (frame["NLP above the truth's"] > 0).all()
    assert drawn(report.pictures)
    assert len(study.cells(False)) == 10 * len(neal.METHODS) + 3


def test_gains_over_gaussian_noise_are_paired(tmp_path: Path) -> None:
    gain = {1: 0.1, 2: 0.2, 3: 0.6}
    found = [(k, "snMLII", 0.1 * k) for k in range(4)] + [(k, "tEP", 0.1 * k - g) for k, g in gain.items()]
    rest = {"seconds": 1.0, "note": "", "error": "", "slug": ""}
    records = [{"labels": {"set": k, "method": m}, "measures": {"NLP": v}, **rest} for k, m, v in found]
    text = "\n".join(neal.remarks(studies.Results(records, tmp_path, quick=False)))
    error = np.std([0.1, 0.2, 0.6], ddof=1) / np.sqrt(3)
    assert f"NLP gain of tEP over snMLII: 0.300, standard error {error:.3f}, better on 3 of 3 sets" in text
    assert (
        neal.remarks(
            studies.Results([{"labels": {"set": 0, "method": "tEP"}, "measures": {}, **rest}], tmp_path, True)
        )
        == []
    )


# --- sampled hyperparameters and annealing on Boston ----------------------------------------------------------


@needs_data
def test_sampling_and_annealing_on_few_houses(tmp_path: Path, drawn: Drawn) -> None:
    load_or_skip("boston")
    study = studies.load("hmc-ais")

    def cells(quick: bool) -> list[studies.Cell]:
        short = {"train": 40}
        lengths = {"draws": 20, "discard": 10, "every": 3}
        found = []
        for cell in study.cells(True):
            extra = lengths if cell.labels["method"] == hmc_ais.SAMPLED else {}
            steps = {"steps": 200, "budget": 2.0} if "AIS" in str(cell.labels["method"]) else {}
            found.append(replace(cell, arguments={**cell.arguments, **short, **extra, **steps}))
        return found

    report = studies.run(replace(study, cells=cells), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    problem = hmc_ais.Problem(0, 40)
    noise = float(problem.best.likelihood.flat[0])
    covariance = problem.best.kernel(problem.X) + noise * np.eye(40)
    exact = multivariate_normal(np.zeros(40), covariance).logpdf(problem.y)
    assert frame.loc[hmc_ais.MAXIMUM, "log evidence"] == pytest.approx(exact)
    for method in (hmc_ais.THESIS_AIS, hmc_ais.CERTIFIED_AIS):
        row = frame.loc[method]
        assert row["exact log evidence"] == pytest.approx(exact)
        assert row["AIS minus exact"] == pytest.approx(row["log evidence"] - exact)
        assert not row["certified"] or abs(row["AIS minus exact"]) < 4 * row["standard error"]
    assert not frame.loc[hmc_ais.THESIS_AIS, "certified"]  # four runs cannot judge their own spread
    stored = report.results.arrays(method=hmc_ais.SAMPLED)
    assert stored["positions"].shape == (10, 15)
    assert "length scale of lstat" in stored["names"]
    assert drawn(report.pictures)


# --- Mauna Loa ------------------------------------------------------------------------------------------------


@needs_data
def test_mauna_loa_at_the_books_values_and_on_few_months(tmp_path: Path, drawn: Drawn) -> None:
    load_or_skip("mauna_loa")
    load_or_skip("mauna_loa_2026")
    report = studies.run(studies.load("mauna-loa"), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    book = frame.loc[mauna_loa.AT_THE_BOOK]
    assert book["log evidence"] == pytest.approx(mauna_loa.BOOK_EVIDENCE, abs=0.5)
    assert book["width of the central 95 % after 20 years, ppm"] == pytest.approx(16, abs=1)
    s = report.results.arrays(method=mauna_loa.AT_THE_BOOK)
    assert s["new"][0] > 2004 > s["x"][-1]
    # the components add up to the mean: with the residual they are the record
    total = sum(np.interp(s["x"], s["grid"], s[name]) for name in mauna_loa.COMPONENTS)
    np.testing.assert_allclose(total + s["level"][0] + s["residual"], s["y"], atol=0.2)
    assert drawn(report.pictures)
    markov = frame.loc[
        mauna_loa.MARKOV
    ]  # a trend whose slope wanders forecasts what came; the book's does not
    assert markov["forecast: RMSE to 2026, ppm"] < 0.6 * book["forecast: RMSE to 2026, ppm"]
    assert markov["forecast: inside the central 95 %, percent"] > 90
    # the same evidence as by matrices
    record = datasets.load("mauna_loa")
    X, y = record.X[:120] - record.X[0, 0], np.asarray(record.y, float)[:120] - 320.0
    gp = mauna_loa.markov_model(-1.0)
    dense = GP(gp.kernel, gp.likelihood).evidence(X, y)[0]
    assert gp.evidence(X, y)[0] == pytest.approx(dense, rel=1e-7)


def test_books_values_survive_the_round_trip() -> None:
    gp = mauna_loa.at_the_book()
    found = mauna_loa.in_the_books_units(gp.kernel, float(gp.likelihood.flat[0]))
    np.testing.assert_allclose(found, list(mauna_loa.BOOK.values()))
