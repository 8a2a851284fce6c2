"""Folds, measures and cells of the robust regression studies."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from cavity import studies
from cavity.datasets import make_sinc
from cavity.estimators import GPRegressor
from cavity.gp import GP
from cavity.prediction import GaussianPrediction
from cavity.studies import boston, robust_methods, robust_synthetic
from cavity.studies.folds import standardized, stratified_by_class, stratified_by_value
from cavity.studies.pictures import box_plots


def test_folds_by_value_spread_the_target() -> None:
    y = np.random.default_rng(0).standard_normal(506)
    fold = stratified_by_value(y, 10, seed=1)
    assert set(np.bincount(fold)) <= {50, 51}
    lowest = np.argsort(y)[:10]
    assert sorted(fold[lowest]) == list(range(10))
    assert np.array_equal(fold, stratified_by_value(y, 10, seed=1))
    assert not np.array_equal(fold, stratified_by_value(y, 10, seed=2))


def test_folds_by_class_are_balanced() -> None:
    y = np.repeat([-1.0, 1.0], [126, 225])
    fold = stratified_by_class(y, 10, seed=0)
    assert set(np.bincount(fold)) <= {35, 36}
    assert set(np.bincount(fold[y < 0])) <= {12, 13}


def test_standardized_uses_the_training_part_alone() -> None:
    train, test = np.array([[0.0, 3.0], [2.0, 3.0]]), np.array([[3.0, 4.0]])
    a, b = standardized(train, test)
    np.testing.assert_allclose(a, [[-1, 0], [1, 0]])
    np.testing.assert_allclose(b, [[2, 1]])


def test_measures_against_their_definitions() -> None:
    f = GaussianPrediction(np.array([0.0, 1.0]), np.array([1.0, 4.0]))
    y = GaussianPrediction(np.array([0.0, 1.0]), np.array([2.0, 5.0]))
    fitted = robust_methods.Fit(f.mean, f, y, -3.0, extras={"noise": 2.0})
    target = np.array([1.0, -1.0])
    found = robust_methods.measures(fitted, target, noisy=False)
    assert found["RMSE"] == pytest.approx(np.sqrt(2.5))
    assert found["MAE"] == pytest.approx(1.5)
    assert found["NLP"] == pytest.approx(-np.mean(norm.logpdf(target, [0, 1], [1, 2])))
    assert (found["log evidence"], found["noise"]) == (-3.0, 2.0)
    noisy = robust_methods.measures(fitted, target, noisy=True)
    assert noisy["NLP"] == pytest.approx(-np.mean(norm.logpdf(target, [0, 1], np.sqrt([2, 5]))))


def test_least_squares_and_support_vectors() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = 1 + X @ [2.0, -1.0]
    exact = robust_methods.fit("OLS", X, y, X[:5], seed=0)
    np.testing.assert_allclose(exact.mean, y[:5], atol=1e-10)
    near = robust_methods.fit("SVR", X, y, X[:5], seed=0)
    np.testing.assert_allclose(near.mean, y[:5], atol=0.6)
    assert "NLP" not in robust_methods.measures(near, y[:5], noisy=True)


def test_competitor_needs_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAVITY_PEERS", raising=False)
    d = make_sinc(rng=0)
    with pytest.raises(RuntimeError, match="CAVITY_PEERS"):
        robust_methods.fit("RRP", d.X, d.y, d.X, seed=0)


@pytest.mark.parametrize("name", ["sinc", "friedman", "boston"])
def test_competitor_is_left_out_without_its_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    study = studies.load(name)
    monkeypatch.delenv("CAVITY_PEERS", raising=False)
    without = study.cells(False)
    assert "RRP" not in {c.labels["method"] for c in without}
    monkeypatch.setenv("CAVITY_PEERS", "python-of-peers")
    more = [c for c in study.cells(False) if c.labels["method"] == "RRP"]
    assert len(more) == (1 if name == "boston" else 10)
    assert len(study.cells(False)) == len(without) + len(more)
    assert "RRP" not in {c.labels["method"] for c in study.cells(True)}


def test_errors_beside_the_competitor() -> None:
    rows = [
        {"set": k, "method": m, "RMSE": r, "cpu_seconds": 1.0}
        for k, (ours, theirs) in enumerate([(0.1, 0.2), (0.2, 0.1), (0.3, 0.5), (9.0, np.nan)])
        for m, r in (("tVar", ours), ("RRP", theirs))
    ]
    (told,) = robust_synthetic._beside_competitor(pd.DataFrame(rows))
    assert told == "tVar beside RRP: median RMSE 0.200 and 0.200, smaller on 2 of 3 sets"
    assert robust_synthetic._beside_competitor(pd.DataFrame(rows[::2])) == []


def test_time_beside_the_competitor() -> None:
    rows = [
        {"set": k, "method": m, "cpu_seconds": s, "seconds of the fit": t}
        for k in range(3)
        for m, s, t in (("tVar", 2.0 + k, np.nan), ("RRP", 99.0, 12.0))
    ]
    time, ratio = robust_methods.remarks(pd.DataFrame(rows))
    assert time == "CPU seconds per fit: tVar 3, RRP 99"
    assert ratio.endswith("(median over 3 cells): tVar 4")
    alone = pd.DataFrame(rows).query("method == 'tVar'")
    assert "left out" in robust_methods.remarks(alone)[1]


def test_health_of_chains_is_told() -> None:
    rows = [
        {"set": k, "method": "tMCMC", "cpu_seconds": 1.0, "chains converged": float(k > 0)}
        | {"worst R-hat": 1.05 - 0.01 * k, "smallest ESS": 100.0 * k, "draws": 400.0 * 2**k}
        for k in range(3)
    ]
    told = robust_methods.remarks(pd.DataFrame(rows))[-1]
    assert told.startswith("chains of tMCMC: 2 of 3 fits pass")
    assert "worst R-hat 1.050 (median 1.040)" in told
    assert told.endswith("effective sample size 0 (median 100); 400 to 1600 draws of each chain")


@pytest.mark.usefixtures("interrupts")
def test_interrupted_learning_is_not_a_finished_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimators keep the best so far on Ctrl-C; a study must not store that as a cell."""
    calls = 0
    evidence = GP.evidence_of

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 5:
            signal.raise_signal(signal.SIGINT)
        return evidence(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(GP, "evidence_of", interrupted)
    report = studies.run(studies.load("sinc"), quick=True, only=["snMLII"], out=tmp_path)
    assert calls >= 5
    assert not report.finished
    assert not report.results.records


def test_robust_noise_beats_gaussian_noise_on_sinc() -> None:
    """The report's main claim, on one set: outliers found, error a tenth."""
    robust = robust_synthetic.fit_synthetic("sinc", "tVar", seed=0, restarts=1)
    plain = robust_synthetic.fit_synthetic("sinc", "snMLII", seed=0, restarts=1)
    oracle = robust_synthetic.fit_synthetic("sinc", "oracle", seed=0, restarts=1)
    assert robust.measures["RMSE"] < 0.1 * plain.measures["RMSE"]
    assert robust.measures["RMSE"] < 2 * oracle.measures["RMSE"]
    assert robust.measures["outliers found"] >= 4
    assert "noise: studentt.df" in robust.measures


def test_prior_on_length_scales_is_normal_in_their_logarithm() -> None:
    """For MAP estimates, which maximize the density over l: its log is that of a normal on ln l up to a constant."""
    X = np.random.default_rng(0).standard_normal((50, 4)) * [1.0, 2.0, 3.0, 0.5]
    mode = np.sqrt(np.sum(np.var(X, axis=0)))
    lengths = mode * np.array([0.3, 1.0, 2.0, 7.0])
    expected = norm.logpdf(np.log(lengths), np.log(mode), robust_methods.LOG_LENGTH_SD)
    difference = robust_methods.length_prior(X).log_density(lengths) - expected
    np.testing.assert_allclose(difference, difference[0], atol=1e-12)


def test_prior_pulls_length_scales_and_leaves_the_evidence_what_it_is() -> None:
    """An input that does not matter: without a prior its length scale is long, with one it is near the mode."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    plain, held = (
        robust_methods.fit(method, X, y, X[:5], seed=0, restarts=0) for method in ("snMLII", "snMLII+prior")
    )
    assert held.log_evidence < plain.log_evidence - 0.5
    assert set(held.extras or {}) == set(plain.extras or {})
    kernel = robust_methods.default_kernel(X, robust_methods.length_prior(X))
    lengths = [
        GPRegressor(k, n_restarts=0).fit(X, y).kernel_.get("se.lengthscale")[1]
        for k in (robust_methods.default_kernel(X), kernel)
    ]
    mode = np.sqrt(np.sum(np.var(X, axis=0)))
    assert lengths[0] > 10 * mode
    assert 0.5 * mode < lengths[1] < 4 * mode


def test_degrees_of_freedom_that_are_not_learned() -> None:
    d = make_sinc(rng=0)
    learned, held = (
        robust_methods.fit(method, d.X, d.y, d.X, seed=0, restarts=0)
        for method in ("tVar", "tVar,nu=4+prior")
    )
    assert (held.extras or {})["noise: studentt.df"] == 4.0
    assert (learned.extras or {})["noise: studentt.df"] != 4.0
    assert robust_methods.plain("tVar,nu=4+prior") == "tVar"


def test_one_start_is_the_solution_for_gaussian_noise() -> None:
    """It leads away from there, to a noise model with outliers."""
    d = make_sinc(rng=2)
    gaussian, one, prior = (
        robust_methods.fit(method, d.X, d.y, d.X, seed=0, restarts=3)
        for method in ("snMLII", "tVar, one start", "tVar+prior, one start")
    )
    assert robust_methods.plain("tVar+prior, one start") == robust_methods.plain("tVar, one start") == "tVar"
    assert one.log_evidence > gaussian.log_evidence
    assert one.log_evidence > prior.log_evidence  # which does not count the prior's own density
    assert one.of_y is not None
    assert one.of_f is not None
    assert np.all(one.of_y.variance > one.of_f.variance)


def test_stacked_is_an_average_of_the_solutions_with_and_without_prior() -> None:
    d = make_sinc(rng=0)
    both, plain, prior = (
        robust_methods.fit(method, d.X, d.y, d.X, seed=0)
        for method in ("lapEP, stacked", "lapEP, one start", "lapEP+prior, one start")
    )
    assert robust_methods.plain("lapEP, stacked") == "lapEP"
    assert both.extras is not None
    w = [both.extras["weight: plain"], both.extras["weight: prior"]]
    assert sum(w) == pytest.approx(1.0)
    np.testing.assert_allclose(both.mean, w[0] * plain.mean + w[1] * prior.mean, rtol=1e-6, atol=1e-8)
    assert set(robust_methods.measures(both, d.y, noisy=True)) >= {"RMSE", "NLP", "weight: prior"}
    assert both.outlier_probability is not None
    gaussian = robust_methods.fit("snMLII, stacked", d.X, d.y, d.X, seed=0)
    assert gaussian.outlier_probability is None  # tails of Gaussian noise are no outliers


def test_cells_of_the_full_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CAVITY_PEERS", raising=False)
    sampled = list(robust_methods.SAMPLED)
    sinc = studies.load("sinc").cells(False)
    last = len(sampled) * robust_synthetic.SAMPLED_SETS["sinc"]
    assert len(sinc) == 10 * len(robust_synthetic.METHODS) + last
    assert {c.labels["method"] for c in sinc[-last:]} == set(sampled)
    friedman = {c.labels["method"] for c in studies.load("friedman").cells(False)}
    assert {"lapEP", "lapEP+prior", "snMLII+prior"} <= friedman
    full = studies.load("boston").cells(False)
    restarts = {c.labels["method"]: c.arguments["restarts"] for c in full}
    assert all(restarts[m] == restarts[robust_methods.plain(m)] for m in restarts)
    targets = {t.labels["method"] for t in studies.load("boston").targets}
    assert {"tEP", "tEP+prior", "tEP,nu=4+prior", "tVar, one start", "mnEP, stacked"} <= targets
    assert "snMLII+prior" not in targets
    assert len(full) == 30 * len(boston.METHODS) + boston.SAMPLED_FOLDS * len(sampled)
    assert [c.labels["method"] for c in full[-3:]] == sampled
    assert {c.labels["method"] for c in studies.load("boston").cells(True)} == {"snMLII", "tVar", "lapEP"}


def test_five_splits_repeat_the_first_three_and_add_two() -> None:
    study = studies.load("boston-five-splits")
    cells = study.cells(False)
    forms = (*boston.ONE_START, *boston.AVERAGES)
    assert len(cells) == 50 * (1 + len(forms)) == len({c.slug for c in cells})
    known = {c.slug: c.arguments for c in studies.load("boston").cells(False)}
    shared = [c for c in cells if c.labels["split"] < 3]
    assert all(known[c.slug] == c.arguments for c in shared)
    assert {c.labels["split"] for c in cells if c.slug not in known} == {3, 4}
    assert {t.labels["method"] for t in study.targets} == set(forms) - {"snMLII, stacked"}
    assert {c.labels["method"] for c in study.cells(True)} == {"snMLII", "lapEP, one start"}


def test_the_cut_down_version_is_not_judged_by_its_gains(tmp_path: Path) -> None:
    rest = {"seconds": 1.0, "cpu_seconds": 1.0, "note": "", "error": "", "slug": ""}
    records = [
        {
            "labels": {"split": 0, "fold": k, "method": m},
            "measures": {"RMSE": 2.0, "NLP": v + 0.01 * k**2},
            **rest,
        }
        for k in range(3)
        for m, v in (("snMLII", 0.2), ("lapEP", 0.1 + 0.02 * k))
    ]
    for quick in (False, True):
        text = "\n".join(boston.remarks(studies.Results(records, tmp_path, quick)))
        assert "NLP gain of lapEP over snMLII: 0.080" in text
        assert ("target" in text) is not quick


def test_paired_gains_are_within_splits() -> None:
    rows = [
        {"split": s, "fold": k, "method": m, "NLP": value + 0.1 * k}
        for s in range(2)
        for k in range(3)
        for m, value in (("snMLII", 1.0), ("tVar", 0.5 - 0.2 * k))
    ]
    (gain,) = boston.paired_gains(pd.DataFrame(rows))
    assert (gain.method, gain.wins, gain.folds) == ("tVar", 6, 6)
    assert gain.mean == pytest.approx(0.7)
    assert gain.standard_error == pytest.approx(0.2 / np.sqrt(3))
    assert gain.if_independent == pytest.approx(np.std([0.5, 0.7, 0.9] * 2, ddof=1) / np.sqrt(6))


def test_remarks_of_boston() -> None:
    rng = np.random.default_rng(0)
    records = [
        {
            "labels": {"split": 0, "fold": k, "method": m},
            "measures": {"RMSE": 3.0, "NLP": value + 0.01 * rng.standard_normal()}
            | ({"noise: mixtureofgaussians.fraction": 0.02 + 0.01 * k} if m == "mnEP" else {}),
            "seconds": 100.0,
            "cpu_seconds": 60.0,
            "note": "",
            "error": "",
        }
        for k in range(3)
        for m, value in (("snMLII", 0.2), ("mnEP", 0.08), ("tVar", 0.2), ("SVR", 0.2), ("mnEP+prior", 0.1))
    ]
    text = "\n".join(boston.remarks(studies.Results(records, Path(), False)))
    assert "NLP gain of mnEP over snMLII: 0.1" in text
    assert text.count(">= 2: met") == 2
    assert text.count(">= 2: missed") == 1
    assert "median 3.0 %, range 2.0 to 4.0" in text
    assert "deterministic methods: 9.0 CPU minutes for 9 fits, 4.5 minutes on two cores" in text
    assert "with a prior: 3.0 CPU minutes for 3 fits" in text


def test_box_plots_of_wild_values(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"method": ["a"] * 4 + ["b"] * 4, "NLP": [0, 1, 2, 900.0, 0, 1, 2, 3], "RMSE": np.arange(1.0, 9)}
    )
    path = box_plots(frame, ("RMSE", "NLP", "absent"), tmp_path / "box.png", log=("RMSE",))
    assert path.stat().st_size > 5000


def test_few_cells_have_no_box_and_their_number_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    monkeypatch.setattr("cavity.studies.pictures.save", lambda figure, path: drawn.append(figure) or path)
    frame = pd.DataFrame({"method": ["a"] * 6 + ["b"] * 2, "RMSE": np.arange(8.0), "NLP": np.arange(8.0)})
    box_plots(frame, ("RMSE", "NLP"), tmp_path / "box.png", units={"RMSE": "kg"})
    rmse, nlp = drawn[0].axes
    assert [text.get_text() for text in rmse.get_xticklabels()] == ["a", "b (2)"]
    assert (rmse.get_ylabel(), nlp.get_ylabel()) == ("RMSE, kg", "NLP")
    points = 2
    assert len(rmse.lines) == points + 6  # a box, its median, two whiskers and two caps for a
    (median,) = rmse.collections
    assert {y for _, y in median.get_segments()[0]} == {6.5}
    box_plots(frame[6:], ("RMSE",), tmp_path / "few.png")
    assert len(drawn[1].axes[0].lines) == 1
