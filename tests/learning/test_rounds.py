"""Learning with neighbors that follow the length scales."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPRegressor, Neighbors
from cavity.kernels import SE, Matern
from cavity.learning import rounds
from cavity.likelihoods import Gaussian
from cavity.runtime.stop_reason import StopReason


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 4)) * [1.0, 10.0, 1.0, 0.1]
    f = np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(0.2 * X[:, 1])  # the others do not matter
    return X, f + 0.1 * rng.standard_normal(n), f


def test_few_rows_as_a_dense_fit_and_neighbors_of_the_learned_scales():
    X, y, _ = data(60)
    dense = GPRegressor(1.0 * SE([1.0] * 4), n_restarts=1, random_state=0).fit(X, y)
    near = GPRegressor(1.0 * SE([1.0] * 4), n_restarts=1, random_state=0, representation=Neighbors(59)).fit(
        X, y
    )
    assert near.log_evidence_ == pytest.approx(dense.log_evidence_, abs=0.02)
    np.testing.assert_allclose(near.predict(X[:20]), dense.predict(X[:20]), atol=0.02)
    np.testing.assert_allclose(
        near.model_.representation.scales, near.kernel_.get("se.lengthscale"), rtol=1e-12
    )
    assert near.runs_[-1].kind.startswith("round")
    assert near.runs_[-1].converged
    assert near.log_evidence_ == pytest.approx(near.runs_[-1].value, abs=0.02)


def test_some_rows_find_the_basin_and_all_rows_end_the_search(monkeypatch):
    monkeypatch.setattr(rounds, "SOME_ROWS", 300)
    X, y, _ = data(1200)
    model = GPRegressor(1.0 * Matern([1.0] * 4, nu=2.5), random_state=0, representation="neighbors").fit(X, y)
    assert {run.kind for run in model.runs_} >= {"data", "round 1"}
    assert 0.008 < model.likelihood_.get("gaussian.variance") < 0.012  # drawn with 0.01
    X_new, _, truth = data(400, 1)
    inside = np.mean((model.predict(X_new) - truth) ** 2) / np.var(truth)
    assert inside < 0.01
    short, other = model.kernel_.get("matern.lengthscale")[[0, 2]]
    assert other > 5 * short  # a column that does not matter


def test_scales_of_a_user_stay():
    X, y, _ = data(120)
    given = Neighbors(8, scales=[1.0, 10.0, 1.0, 0.1], follow=False)
    model = GPRegressor(random_state=0, n_restarts=0, representation=given).fit(X, y)
    np.testing.assert_array_equal(model.model_.representation.scales, given.scales)
    assert [run.kind for run in model.runs_] == ["data"]


def test_time_is_up_and_interrupts_keep_the_best(monkeypatch):
    X, y, _ = data(200)
    model = GP(1.0 * SE([1.0] * 4), Gaussian(0.1), representation=Neighbors(10))
    short = model.learn(X, y, max_time=0.0, rng=0)
    assert short.stopped is StopReason.OUT_OF_TIME
    assert np.isfinite(short.posterior.log_evidence)
    calls = 0
    honest = rounds.maximize

    def interrupted(goal, *args, **options):
        nonlocal calls
        calls += 1
        run = honest(goal, *args, **options)
        if calls == 2:
            raise KeyboardInterrupt
        return run

    monkeypatch.setattr(rounds, "maximize", interrupted)
    found = model.learn(X, y, rng=0)
    assert found.stopped is StopReason.INTERRUPTED
    assert found.posterior.log_evidence == pytest.approx(found.value, abs=2.0)


def test_a_warm_start_goes_on_from_the_last_fit():
    X, y, _ = data(300)
    model = GPRegressor(random_state=0, warm_start=True, representation="neighbors").fit(X, y)
    first = sum(run.evaluations for run in model.runs_)
    model.fit(X, y)
    assert sum(run.evaluations for run in model.runs_) < first
