"""Studies of evidence over hyperparameters: places on the grid, measures by hand, the orders that the thesis claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from cavity import studies
from cavity.assessment.gold import Chains
from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Probit
from cavity.studies import evidence_grids, evidence_point
from cavity.studies import evidence_problem as at
from cavity.studies.base import Cell, Outcome, Results
from cavity.studies.store import Store
from tests.studies.conftest import Drawn

needs_data = pytest.mark.skipif(not os.environ.get("CAVITY_DATA"), reason="CAVITY_DATA is not set")


def never() -> Outcome:
    """The function of a cell that is stored already."""
    raise AssertionError


def stored(folder: Path, cells: list[tuple[dict[str, Any], dict[str, float], dict[str, Any]]]) -> Results:
    """Results of cells with given labels, measures and arrays."""
    store = Store(folder, "test")
    records = [
        store.put(Cell(labels, never), {"measures": m, "note": "", "error": "", "seconds": 1.0}, arrays)
        for labels, m, arrays in cells
    ]
    return Results(records, folder, quick=False)


@pytest.fixture
def made_up(tmp_path: Path) -> Results:
    """A whole study: both methods are quadratic in (ln l, ln s), annealing is 0.5 above EP, one point has no sign."""
    lengths, signals = at.RANGES["ionosphere"].axes()
    cells: list[tuple[dict[str, Any], dict[str, float], dict[str, Any]]] = []

    def ep(ln_l: float, ln_s: Any) -> Any:
        return -60.0 - 4 * (ln_l - 2.5) ** 2 - 2 * (ln_s - 2.5) ** 2

    for k, ln_l in enumerate(lengths):
        for method, shift in (("laplace", 3.0), ("ep", 0.0)):
            evidence = ep(ln_l, signals) - shift
            arrays = {"evidence": evidence, "information": 0.7 + 0.01 * evidence, "bound": evidence - 2}
            cells.append(({"method": method, "column": k, "row": -1}, {"not converged": 0}, arrays))
    for c in at.COARSE:
        for r in at.COARSE:
            value = ep(lengths[c], signals[r])
            certified = (c, r) != (1, 19)
            measures = {
                "AIS log evidence": value + 0.5,
                "certified, percent": 100.0 * certified,
                "EP within a nat, percent": 100.0 * certified,
                "EP minus AIS": -0.5,
                "Laplace minus AIS": -3.5,
                "information of MCMC": 0.7 + 0.01 * value,
                "information of EP": 0.71 + 0.01 * value,
                "information of Laplace": 0.66 + 0.01 * value,
            }
            cells.append(({"method": at.GOLD, "column": c, "row": r}, measures, {}))
    return stored(tmp_path, cells)


def test_values_of_the_subgrid_are_at_their_places(made_up: Results) -> None:
    lengths, signals = at.RANGES["ionosphere"].axes()
    found = at.coarse_surface(made_up, "AIS log evidence")
    assert found.shape == (7, 7)
    # second row of the subgrid is ln s = 0.4, sixth column ln l = 4.0
    assert (signals[at.COARSE[1]], lengths[at.COARSE[5]]) == (pytest.approx(0.4), pytest.approx(4.0))
    assert found[1, 5] == pytest.approx(-59.5 - 4 * 1.5**2 - 2 * 2.1**2)
    assert np.isnan(at.coarse_surface(made_up, "no such measure")).all()
    whole = at.surface(made_up, "ep", "evidence")
    np.testing.assert_allclose(whole[np.ix_(at.COARSE, at.COARSE)] + 0.5, found)


def test_remarks_and_contours(made_up: Results, tmp_path: Path, drawn: Drawn) -> None:
    study = studies.load("ionosphere")
    text = "\n".join(study.remarks(made_up))
    assert "EP: greatest value -60.00 at (ln l, ln s) = (2.50, 2.50), information there 0.100" in text
    assert "lower bound: greatest value -62.00" in text
    assert "EP within 1 nat of certified AIS at 48 of 49 points of the subgrid; 48 are certified" in text
    assert "EP 0.010 bits, Laplace 0.040 bits" in text
    pictures = study.draw(made_up, tmp_path)
    assert [p.name for p in pictures] == ["grids.png", "bound.png"]
    assert drawn(pictures)


def test_the_target_counts_points_without_a_certificate(made_up: Results) -> None:
    (target,) = studies.load("ionosphere").targets
    frame = made_up.frame
    gold = frame[frame["method"] == target.labels["method"]][target.measure]
    assert gold.mean() == pytest.approx(100 * 48 / 49)
    assert target.met(gold.mean())
    assert not target.met(100 * 46 / 49)


def test_levels_are_common_and_round() -> None:
    low, high, unknown = np.array([[-70.2, -64.9]]), np.array([[-60.5, np.nan]]), np.full((1, 2), np.nan)
    levels = evidence_grids.evidence_levels(low, high, unknown)
    assert (levels[-1], levels[-2]) == (-61, -62)
    bits = evidence_grids.information_levels(np.array([[0.648, 0.7]]), np.array([[0.7391]]))
    np.testing.assert_allclose(bits[-3:], [0.70, 0.72, 0.73])


def test_few_columns_give_no_contours() -> None:
    values = np.full((at.POINTS, at.POINTS), np.nan)
    for columns, text in ((0, "not run"), (3, "3 of 21 columns run:\ntoo few for contours")):
        values[:, :columns] = 1.0
        _, (axis,) = evidence_grids.new_panels()
        levels = evidence_grids.evidence_levels(values)
        evidence_grids.contours(axis, at.RANGES["usps"].axes(), values, "few", levels)
        assert [t.get_text() for t in axis.texts] == [text]
        assert not axis.collections


def test_contours_over_the_columns_of_the_quick_version() -> None:
    lengths, signals = at.RANGES["ionosphere"].axes()
    values = np.full((at.POINTS, at.POINTS), np.nan)
    values[:, at.COARSE] = -60 - (lengths[list(at.COARSE)] - 2.5) ** 2 - (signals[:, None] - 2.5) ** 2
    _, (axis,) = evidence_grids.new_panels()
    levels = evidence_grids.evidence_levels(values)
    evidence_grids.contours(axis, (lengths, signals), values, "quick", levels)
    assert "greatest: -60.0 (7 of 21 columns)" in [t.get_text() for t in axis.texts]
    assert sum(len(path.vertices) for lines in axis.collections for path in lines.get_paths()) > 100


def test_every_point_is_a_cell_once() -> None:
    for name in ("ionosphere", "usps"):
        cells = studies.load(name).cells(False)
        methods = [c.labels["method"] for c in cells]
        assert [methods.count(m) for m in ("laplace", "ep", at.GOLD, evidence_point.LABEL)] == [21, 21, 49, 1]
        assert len({c.slug for c in cells}) == len(cells)
    (point,) = [c for c in cells if c.labels["method"] == evidence_point.LABEL]
    assert (point.arguments["ln_s"], point.arguments["ln_l"]) == (3.35, 2.85)  # as in the thesis


# --- one point ------------------------------------------------------------------------------------------------


def test_probabilities_averaged_over_draws() -> None:
    """One training point: f* given f is normal with mean k*/k f and variance k** - k*^2/k."""
    model = GP(4.0 * SE(1.0), Probit())
    chains = Chains(np.array([[[1.0], [3.0]]]), 1.0, 2.0, 0, 0.0)
    found = at.sampled_log_p(model, np.zeros((1, 1)), chains, np.array([[1.0]]))
    share = np.exp(-0.5)
    variance = 4 * (1 - share**2)
    p = np.mean(norm.cdf(np.array([1.0, 3.0]) * share / np.sqrt(1 + variance)))
    np.testing.assert_allclose(np.exp(found), [[1 - p, p]], rtol=1e-6)


def test_distances_by_hand() -> None:
    gold = {"mean": np.array([2.0, -4.0]), "sd": np.array([1.0, 2.0]), "train": np.array([0.9, 0.1])}
    gold["test"] = np.array([0.5])
    ours = {"mean": 0.5 * gold["mean"], "sd": np.array([1.0, 1.0]), "train": np.array([0.8, 0.3])}
    ours["test"] = np.array([0.55])
    found = evidence_point.distances(ours, gold, "EP")
    assert list(found.values()) == pytest.approx([0.5, 0.75, 0.15, 0.05, 0.2])


def test_rows_of_the_histograms() -> None:
    rng = np.random.default_rng(0)
    F = rng.standard_normal((4000, 6))
    for column, size in ((4, 3.0), (1, 2.0), (2, 1.5)):  # skewness grows with the share of the exponential
        F[:, column] = F[:, column] - size * rng.exponential(size=4000)
    laplace, ep = np.full(6, 0.3), np.array([0.2, 0.3, 0.9, 0.1, 0.3, 0.3])
    np.testing.assert_array_equal(evidence_point.chosen_rows(F, laplace, ep), [4, 1, 2, 3])


@needs_data
def test_one_point_of_ionosphere(tmp_path: Path, drawn: Drawn) -> None:
    """Thesis 6.3.3: EP agrees with the chains, Laplace's means are a fraction and its probabilities too uncertain."""
    ln_l, ln_s = at.CLOSELY["ionosphere"]
    outcome = evidence_point.compare("ionosphere", ln_l, ln_s, 4.0, 0.3)
    found = outcome.measures
    assert found["EP: means as a share of MCMC's"] == pytest.approx(1.0, abs=0.1)
    assert found["Laplace: means as a share of MCMC's"] < 0.6
    for part in ("training", "test"):
        key = f"difference of {part} probabilities"
        assert found[f"EP: {key}"] < 0.03 < 0.05 < found[f"Laplace: {key}"]
    assert abs(found["EP: log evidence"] - found["log evidence"]) < 1 < 5
    assert found["Laplace: log evidence"] < found["log evidence"] - 5
    labels = {"method": evidence_point.LABEL, "column": -1, "row": -1}
    results = stored(tmp_path, [(labels, dict(found), dict(outcome.arrays))])
    assert any("Laplace there" in text for text in evidence_point.remarks(results, "ionosphere"))
    pictures = evidence_point.draw(results, tmp_path, "ionosphere")
    assert [p.name for p in pictures] == ["scatter.png", "marginals.png"]
    assert drawn(pictures)


@needs_data
def test_a_column_and_a_point_of_the_grid() -> None:
    """For small signals both approximations coincide; the bound is below EP's evidence, and near it there."""
    column = 7
    found = {m: evidence_grids.approximate_column("ionosphere", m, column).arrays for m in ("laplace", "ep")}
    assert found["ep"]["evidence"][0] == pytest.approx(found["laplace"]["evidence"][0], abs=0.05)
    assert found["ep"]["information"][0] == pytest.approx(found["laplace"]["information"][0], abs=0.01)
    assert np.all(found["ep"]["evidence"][12:] > found["laplace"]["evidence"][12:] + 5)
    assert np.all(found["ep"]["bound"] < found["ep"]["evidence"] + 1e-6)
    assert found["ep"]["bound"][0] == pytest.approx(found["ep"]["evidence"][0], abs=0.1)
    point = evidence_grids.gold_point("ionosphere", column, 4, 6.0, 0.3).measures
    assert point["certified, percent"] == 100
    assert abs(point["EP minus AIS"]) < 1
    assert point["EP minus AIS"] + point["AIS log evidence"] == pytest.approx(found["ep"]["evidence"][4])
    assert point["information of MCMC"] == pytest.approx(found["ep"]["information"][4], abs=0.02)


@needs_data
def test_sizes_of_the_problems() -> None:
    for name, sizes in (("ionosphere", (200, 151, 34)), ("usps", (767, 773, 256))):
        X, y, X_test, y_test = at.problem(name)
        assert (len(X), len(X_test), X.shape[1]) == sizes
        assert (len(y), len(y_test)) == sizes[:2]
        assert set(np.unique(y)) == set(np.unique(y_test)) == {-1.0, 1.0}


def test_few_colors_keep_a_rare_one(tmp_path: Path) -> None:
    """A small mark in color on a large grey picture stays colored."""
    from PIL import Image

    figure, (axis,) = evidence_grids.new_panels()
    axis.imshow(np.linspace(0, 1, 10_000).reshape(100, 100), cmap="gray")
    axis.plot(50, 50, "s", color="#d55e00", markersize=4)
    path = evidence_grids.save(figure, tmp_path / "few.png", few_colors=True)
    with Image.open(path) as image:
        assert image.mode == "P"
        colors = np.asarray(image.convert("RGB"), dtype=int).reshape(-1, 3)
    assert np.min(np.abs(colors - [0xD5, 0x5E, 0x00]).max(axis=1)) < 25
