"""Classification studies: measures by hand, folds and data of the tables, orders that the thesis claims."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from cavity import datasets, studies
from cavity.datasets import make_clusters_1d
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Probit
from cavity.studies import classification_methods as methods
from cavity.studies import classification_table as table
from cavity.studies import synthetic_classification as synthetic
from cavity.studies import usps_10class as digits
from cavity.studies.base import Results
from cavity.studies.folds import stratified_by_class
from tests.studies.conftest import Drawn

needs_data = pytest.mark.skipif(not os.environ.get("CAVITY_DATA"), reason="CAVITY_DATA is not set")


@pytest.fixture(scope="module")
def two_clouds() -> tuple[np.ndarray, np.ndarray]:
    """Sixty points of two well separated classes."""
    rng = np.random.default_rng(3)
    y = np.repeat([-1.0, 1.0], 30)
    return rng.standard_normal((60, 2)) + 2.0 * y[:, None], y


def test_measures_by_hand() -> None:
    log_p = np.log([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]])
    fitted = methods.Fit(np.array([-1.0, 1.0, 1.0]), log_p, 3.0, -2.0, {"ln l": 1.0})
    found = methods.measures(fitted, np.array([-1.0, -1.0, -1.0]))
    assert found["error, percent"] == pytest.approx(200 / 3)
    assert found["information, bits"] == pytest.approx(1 + np.mean(np.log2([0.75, 0.5, 0.125])))
    assert (found["length of the mean"], found["log evidence"], found["ln l"]) == (3.0, -2.0, 1.0)
    assert set(methods.measures(methods.Fit(np.array([1.0])), np.array([1.0]))) == {"error, percent"}


@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_separates_two_clouds(method: str, two_clouds: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = two_clouds
    new = np.array([[-2.0, -2.0], [2.0, 2.0], [2.5, 1.0]])
    fitted = methods.fit(method, X, y, new, seed=0, restarts=0)
    np.testing.assert_array_equal(fitted.decision, [-1.0, 1.0, 1.0])
    found = methods.measures(fitted, fitted.decision)
    if fitted.log_p is not None:
        np.testing.assert_allclose(np.exp(fitted.log_p).sum(axis=1), 1.0)
        assert 0.5 < found["information, bits"] <= 1.0
    assert ("length of the mean" in found) == (method in methods.PROCESSES)


def test_unknown_method_is_refused(two_clouds: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="label regression"):
        methods.fit("tree", *two_clouds, two_clouds[0], seed=0, restarts=0)


@needs_data
def test_data_have_the_sizes_of_the_table() -> None:
    sizes = {
        "ionosphere": (351, 34),
        "wisconsin": (683, 9),
        "pima": (768, 8),
        "crabs": (200, 7),
        "sonar": (208, 60),
        "usps_3v5": (1540, 256),
    }
    assert set(sizes) == set(table.TABLE)
    for name, size in sizes.items():
        X, y = table.problem(name)
        assert X.shape == size
        assert set(np.unique(y)) == {-1.0, 1.0}
        fold = stratified_by_class(y, table.FOLDS, seed=0)
        in_fold = [np.sum(y[fold == k] > 0) for k in range(table.FOLDS)]
        assert max(in_fold) - min(in_fold) <= 1


@needs_data
def test_ep_tells_more_than_laplace_on_a_fold_of_sonar() -> None:
    """By 0.1 bits in table 6.1; the posterior mean is much longer."""
    found = {m: table.fit_fold("sonar", m, 0, restarts=0).measures for m in ("Laplace", "EP")}
    assert found["EP"]["information, bits"] > found["Laplace"]["information, bits"] + 0.03
    assert found["EP"]["length of the mean"] > 2 * found["Laplace"]["length of the mean"]
    assert found["EP"]["log evidence"] > found["Laplace"]["log evidence"]


def as_results(rows: list[dict[str, object]], folder: Path) -> Results:
    labels = ("data", "fold", "method")
    records = [
        {
            "labels": {k: row[k] for k in labels},
            "measures": {k: v for k, v in row.items() if k not in labels},
            "seconds": 1.0,
            "note": "",
            "error": "",
            "slug": "",
        }
        for row in rows
    ]
    return Results(records, folder, quick=False)


def test_paired_differences_and_picture(tmp_path: Path, drawn: Drawn) -> None:
    gain = np.array([0.1, 0.2, 0.3, 0.2, 0.1, 0.2, 0.3, 0.2, 0.1, 0.3])
    rows: list[dict[str, object]] = [
        {"data": "crabs", "fold": k, "method": m, table.ERROR: 2.0 + k % 2, table.INFORMATION: 0.5 + extra}
        for k in range(10)
        for m, extra in (("Laplace", 0.01 * k), ("EP", 0.01 * k + gain[k]))
    ]
    results = as_results(rows, tmp_path)
    (found,) = table.paired_gains(results.frame)
    assert (found.data, found.folds) == ("crabs", 10)
    assert found.mean == pytest.approx(gain.mean())
    assert found.standard_error == pytest.approx(gain.std(ddof=1) / np.sqrt(10))
    text = "\n".join(table.remarks(results))
    assert "on 1 of 1 sets" in text
    # the mean error is 2.5, printed are 2.0, and the standard error of folds is sqrt(10/36/10)
    assert f"crabs, EP: error {0.5 / np.sqrt(1 / 36):+.1f} standard errors" in text
    assert "Errors within 2 standard errors of table 6.1: 0 of 2." in text
    assert table.paired_gains(pd.DataFrame({"data": ["a"], "fold": [0], "method": ["EP"]})) == []
    (picture,) = table.draw(results, tmp_path)
    assert drawn([picture])


def test_published_numbers_are_those_of_the_tables() -> None:
    study = studies.load("classification-table")
    # three numbers for each approximation, two for the SVM, one for each other published method, on six sets
    assert len(study.published) == 6 * (3 + 3 + 2 + 1 + 1)
    assert len(study.cells(False)) == 6 * 10 * 6
    (usps,) = [
        p
        for p in study.published
        if p.labels == {"data": "usps_3v5", "method": "EP"} and p.measure == table.ERROR
    ]
    assert usps.value == 2.21


# --- three clusters on a line ---------------------------------------------------------------------------------


def test_true_probability_against_bayes_rule() -> None:
    x = np.array([-7.0, -3.0, 0.3, 1.4])
    up = 20 * norm.pdf(x, -6, 0.8) + 10 * norm.pdf(x, 2, 0.8)
    down = 30 * norm.pdf(x, 0, 0.8)
    np.testing.assert_allclose(synthetic.true_probability(x), up / (up + down))


def test_moments_given_draws_are_those_of_the_conditional_normal() -> None:
    """One training point: f* given f is normal with mean k*/k f and variance k** - k*^2/k."""
    from cavity.assessment.gold import Chains

    model = GP(4.0 * SE(1.0), Probit())
    chains = Chains(np.array([[[1.0], [3.0]]]), 1.0, 2.0, 0, 0.0)
    mean, sd = synthetic.given_draws(model, np.zeros((1, 1)), chains, np.array([[1.0]]))
    share = np.exp(-0.5)
    np.testing.assert_allclose(mean[:, 0], [share, 3 * share], rtol=1e-6)
    np.testing.assert_allclose(sd, 2 * np.sqrt(1 - share**2), rtol=1e-6)


def test_three_clusters_in_the_quick_version(tmp_path: Path, drawn: Drawn) -> None:
    report = studies.run(studies.load("synthetic-classification"), quick=True, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    gap = {
        m: np.abs(report.results.arrays(method=m)["p"] - report.results.arrays(method="MCMC")["p"]).max()
        for m in ("Laplace", "EP")
    }
    assert gap["EP"] < 0.5 * gap["Laplace"]
    assert frame.loc["EP", "mean - 2 sd at -6"] > frame.loc["Laplace", "mean - 2 sd at -6"]
    assert any("The claim of the thesis" in remark for remark in report.remarks)
    assert drawn(report.pictures)
    x = report.results.arrays(method="EP")["x"]
    np.testing.assert_array_equal(x, make_clusters_1d(rng=0).X[:, 0])


# --- ten digits -----------------------------------------------------------------------------------------------


def test_entropy_of_labels() -> None:
    assert digits.entropy(np.array([0, 1, 2, 3])) == pytest.approx(2.0)
    assert digits.entropy(np.array([0, 0, 0, 1])) == pytest.approx(-0.75 * np.log2(0.75) + 0.5)


@needs_data
def test_digits_on_few_cases(tmp_path: Path, drawn: Drawn) -> None:
    """Ninety cases teach something: far better than guessing (87 % error), on par with the nearest neighbor."""
    try:
        data = datasets.load("usps_10class")
    except datasets.DatasetNotFoundError as error:
        pytest.skip(str(error))
    assert digits.entropy(data.y_test) == pytest.approx(3.27, abs=0.01)  # as the book has it
    cells = [
        studies.Cell(
            {"n": 90, "method": m}, digits.classify, {"method": m, "n": 90, "n_test": 150, "seed": 1}
        )
        for m in (digits.LEARNED, digits.AT_THE_BOOK, digits.LINEAR, digits.NEAREST)
    ]
    whole = studies.load("usps-10class")
    small = studies.Study(
        whole.name,
        whole.title,
        whole.source,
        lambda quick: cells,
        measures=whole.measures,
        by=whole.by,
        draw=whole.draw,
        remarks=whole.remarks,
    )
    report = studies.run(small, out=tmp_path)
    frame = report.results.frame.set_index("method")
    assert not frame["error"].any()
    nearest = frame.loc[digits.NEAREST, "error, percent"]
    assert frame.loc[digits.LEARNED, "error, percent"] < nearest + 10 < 60
    assert frame.loc[digits.LEARNED, "log evidence"] > frame.loc[digits.AT_THE_BOOK, "log evidence"]
    assert frame.loc[digits.AT_THE_BOOK, ["ln l", "ln s"]].tolist() == pytest.approx([2.35, 2.6])
    confusion = report.results.arrays(method=digits.LEARNED)["confusion"]
    wrong = 1 - np.trace(confusion) / confusion.sum()
    assert 100 * wrong == pytest.approx(frame.loc[digits.LEARNED, "error, percent"])
    assert drawn(report.pictures)
