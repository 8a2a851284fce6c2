"""The search for robust noise on some of the rows, then on all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity import GPRegressor
from cavity.gp import GP
from cavity.kernels import SE
from cavity.learning import Learned, learn, robust_search
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.starts import Starts
from cavity.likelihoods import Laplace, StudentT
from cavity.runtime.stop_reason import StopReason

RNG = np.random.default_rng(0)
X = np.linspace(0.0, 10.0, 60)[:, None]
F = np.sin(X[:, 0])
Y = F + 0.1 * RNG.standard_normal(60)
Y[::9] += RNG.normal(0, 3, len(Y[::9]))
MODEL = GP(1.0 * SE(1.0), StudentT(0.3, 4.0), "constant").bind(1)


def searched(monkeypatch: pytest.MonkeyPatch, rows: int, model: GP = MODEL, **options) -> Learned:
    monkeypatch.setattr(robust_search, "SEARCH_ROWS", rows)
    return learn(model, X, Y, rng=0, **options)


@pytest.mark.parametrize("noise", [StudentT(0.3, 4.0), Laplace(0.3)])
def test_some_rows_tell_where_the_optimum_of_all_is(monkeypatch, noise):
    model = MODEL.with_likelihood(noise)
    few, all_rows = (searched(monkeypatch, rows, model, n_restarts=1) for rows in (25, 100))
    assert len(few.runs) < len(all_rows.runs)
    assert few.value == pytest.approx(all_rows.value, abs=1e-3)
    np.testing.assert_allclose(few.posterior.mean(X), all_rows.posterior.mean(X), atol=1e-2)
    assert few.posterior.status.residual < 1e-6  # learned to a few digits, and conditioned to all of them
    assert few.posterior.model.inference.tolerance == MODEL.inference.tolerance


def test_what_is_spent_on_all_rows_is_one_run(monkeypatch):
    asked = []
    evidence_of = GP.evidence_of

    def noted(self, data, *arguments):
        asked.append((type(self.likelihood).__name__, len(data.y)))
        return evidence_of(self, data, *arguments)

    monkeypatch.setattr(GP, "evidence_of", noted)
    found = searched(monkeypatch, 25, n_restarts=1)
    on_all = [name for name, n in asked if n == 60]
    assert set(on_all) == {"StudentT"}
    assert len(on_all) == sum(run.evaluations for run in found.runs)
    assert {name for name, n in asked if n == 25} == {"Gaussian", "Laplace", "StudentT"}


def test_weights_and_noise_of_single_rows_go_with_the_rows(monkeypatch):
    weight = np.where(np.arange(60) % 9 == 0, 0.1, 1.0)
    seen = []
    from_all_starts = robust_search.from_all_starts

    def noted(model, rows, *arguments):
        seen.append(rows)
        return from_all_starts(model, rows, *arguments)

    monkeypatch.setattr(robust_search, "from_all_starts", noted)
    found = searched(monkeypatch, 25, sample_weight=weight, n_restarts=0)
    (rows,) = seen
    index = np.searchsorted(X[:, 0], rows.X[:, 0])
    np.testing.assert_array_equal(rows.y, Y[index])
    np.testing.assert_array_equal(rows.weight, weight[index])
    assert np.isfinite(found.value)


def test_ends_that_are_different_and_good_are_the_starts_on_all_rows():
    def run(value: float, place: float) -> Run:
        return Run("data", np.zeros(1), np.array([place]), value, True, 1, 0, "")

    runs = [run(1.0, 1.0), run(5.0, 2.0), run(4.0, 3.0), run(4.99, 4.0), run(-np.inf, 5.0), run(3.9, 6.0)]
    seen = SearchResult(MODEL, 5.0, tuple(runs))
    assert [theta[0] for _, theta in robust_search._ends(seen)] == [2.0, 3.0, 6.0]


def test_a_length_scale_that_few_rows_leave_open_is_brought_back():
    starts = Starts.of(MODEL, X, Y)
    far = starts.first + np.array([0.0, 9.0, 0.1, -9.0, 0.0]) * starts.scale
    near = robust_search._brought_back(far, MODEL, starts)
    unit = (near - starts.first) / starts.scale
    np.testing.assert_allclose(unit, [0.0, robust_search.OPEN, 0.1, -9.0, 0.0], atol=1e-12)


def test_ctrl_c_on_some_rows_leaves_a_model_of_all(monkeypatch):
    multistart = robust_search.multistart
    monkeypatch.setattr(
        robust_search,
        "multistart",
        lambda *a, **k: replace(multistart(*a, **k), stopped=StopReason.INTERRUPTED),
    )
    found = searched(monkeypatch, 25, n_restarts=0)
    assert found.stopped is StopReason.INTERRUPTED
    (run,) = found.runs
    assert run.evaluations == 1  # of the best end so far, on all rows
    assert found.value == run.value
    assert len(found.posterior.data.y) == 60
    assert np.sqrt(np.mean((found.posterior.mean(X) - F) ** 2)) < 0.1


def test_time_that_is_up_on_some_rows_leaves_a_model_of_all(monkeypatch):
    found = searched(monkeypatch, 25, max_time=0.0)
    assert found.stopped is StopReason.OUT_OF_TIME
    assert len(found.posterior.data.y) == 60


def test_fits_of_many_rows_can_be_repeated(monkeypatch):
    monkeypatch.setattr(robust_search, "SEARCH_ROWS", 25)
    one, other = (
        GPRegressor(1.0 * SE(1.0), likelihood="student-t", n_restarts=1, random_state=3).fit(X, Y)
        for _ in range(2)
    )
    assert one.log_evidence_ == other.log_evidence_
