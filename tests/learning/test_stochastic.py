"""Learning from batches: the gradient of the estimated bound, where it ends, streams, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from cavity import GP, GPRegressor, Inducing
from cavity.inference import Exact, Variational
from cavity.kernels import SE
from cavity.latent.base import Inputs
from cavity.latent.inducing.dual_sites import BatchBound, DualSites
from cavity.learning.fit import learn
from cavity.learning.stochastic import StochasticLearner, learn_in_batches
from cavity.likelihoods import Gaussian, Probit, StudentT
from cavity.rows import read_parquet

RNG = np.random.default_rng(0)
N = 5000
X = RNG.uniform(-2, 2, (N, 3))
F = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * X[:, 2] ** 2
Y = F + 0.1 * RNG.standard_normal(N)
LABELS = np.where(F + 0.3 * RNG.standard_normal(N) > 0.3, 1.0, -1.0)
NEAR = 0.02
"""Nats a row that batches may lose."""


def on_rows(model, dual, X, y, scale):
    prior = model.representation.prior(model.kernel, model.mean, Inputs(X))
    bound = BatchBound(prior, dual, lambda m, v: model.likelihood.expected_log_prob(y, m, v), scale)
    return prior, bound


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [(Gaussian(0.1), Y), (Probit(), LABELS), (StudentT(0.3, 4.0), Y)],
    ids=["gaussian", "probit", "student-t"],
)
def test_the_gradient_of_the_bound_at_fixed_sites_of_the_inducing_values(likelihood, y):
    few, y, rng = X[:40], y[:40], np.random.default_rng(1)
    held = Inducing(8, "vfe", learn=True)
    model = GP(1.3 * SE([1.0, 1.5, 2.0]), likelihood, mean="constant", representation=held)
    model = model.bind(3).for_rows(few)
    root, scale = rng.standard_normal((8, 8)), rng.uniform(1, 3, 40)
    dual = DualSites(rng.standard_normal(8), root @ root.T)
    prior, bound = on_rows(model, dual, few, y, scale)
    of_prior, of_mean = bound.gradient()
    flat = np.concatenate([of_prior.kernel, of_mean, bound.d_flat, of_prior.representation])

    def value(theta):
        moved = model.replace(theta)
        there = moved.representation.prior(moved.kernel, moved.mean, Inputs(few))
        return on_rows(moved, dual.moved(prior, there), few, y, scale)[1].value

    steps = 1e-5 * np.eye(len(model.theta))
    slopes = [(value(model.theta + e) - value(model.theta - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(model.to_theta(flat), slopes, rtol=1e-6, atol=1e-6 * np.abs(slopes).max())


def test_all_rows_in_one_batch_give_the_bound_of_titsias():
    model = GP(1.0 * SE(1.0), Gaussian(0.1), representation=Inducing(20, "vfe")).bind(3).for_rows(X[:200])
    dual, scale = DualSites.zero(20), np.ones(200)
    _, bound = on_rows(model, dual, X[:200], Y[:200], scale)
    _, bound = on_rows(model, bound.sites, X[:200], Y[:200], scale)  # a natural-gradient step of length one
    assert bound.value == pytest.approx(model.condition(X[:200], Y[:200]).log_evidence, rel=1e-9)


@pytest.mark.parametrize(
    ("likelihood", "y", "rule", "n"),
    [(Gaussian(0.1), Y, Exact(), N), (Probit(), LABELS, Variational(), 800)],
    ids=["gaussian", "probit"],
)
def test_batches_lead_where_all_rows_lead(likelihood, y, rule, n):
    held = Inducing(50 if n == N else 30, "vfe")
    model = GP(1.0 * SE([1.0, 1.0, 1.0]), likelihood, inference=rule, representation=held)
    model, rows, y = model.bind(3).for_rows(X[:n]), X[:n], y[:n]
    whole = learn(model, rows, y, n_restarts=0, data_driven=False)
    found = learn_in_batches(model, rows, y, steps=400, batch_rows=min(256, n // 4))
    assert found.condition(rows, y).log_evidence > whole.value - NEAR * n


def test_the_order_depends_on_the_seed_alone():
    model = GP(1.0 * SE(1.0), Gaussian(0.1), representation=Inducing(10))
    first, again, other = (
        learn_in_batches(model, X[:300], Y[:300], steps=20, batch_rows=50, seed=seed).theta
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)


def test_a_stream_is_learned_from_as_it_comes():
    model = GP(1.0 * SE(1.0), Gaussian(0.5), representation=Inducing(30)).bind(3).for_rows(X[:500])
    learner = StochasticLearner(model, N, steps=150)
    values = [learner.step(X[at : at + 250], Y[at : at + 250]) for at in 250 * (np.arange(150) % 20)]
    assert np.mean(values[-20:]) > np.mean(values[:20]) + 0.3 * N
    assert learner.averaged.likelihood.get("gaussian.variance") < 0.15


def test_rows_on_disk_are_all_learned_from_if_no_number_of_rows_is_given(tmp_path, monkeypatch):
    frame = pd.DataFrame(X[:600], columns=["a", "b", "c"]).assign(y=Y[:600])
    frame.to_parquet(tmp_path / "rows.parquet")
    rows, y = read_parquet(tmp_path, "y")
    monkeypatch.setattr("cavity.learning.stochastic.STEPS", 60)
    monkeypatch.setattr("cavity.learning.large_data.START_ROWS", 100)
    model = GPRegressor(
        representation="inducing", n_inducing=30, learn_rows=None, n_restarts=0, random_state=0
    )
    model.fit(rows, y)
    assert np.mean((model.predict(X[600:900]) - F[600:900]) ** 2) < 0.1 * np.var(F)


def test_what_cannot_be_learned_from_batches_is_refused():
    with pytest.raises(ValueError, match="needs inducing inputs"):
        StochasticLearner(GP(1.0 * SE(1.0), Gaussian(0.1)).bind(3), N)
