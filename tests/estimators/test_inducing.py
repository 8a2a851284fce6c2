"""Estimators on inducing inputs: the same contract, without the memory of a dense fit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import cavity
from cavity import GPClassifier, GPRegressor
from cavity.latent.inducing import Inducing
from cavity.likelihoods import Gaussian, StudentT
from cavity.numerics import memory

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (300, 2))
F = np.sin(X[:, 0]) + 0.5 * np.cos(2 * X[:, 1])
Y = F + 0.1 * RNG.standard_normal(300)
NEW = RNG.uniform(-3, 3, (50, 2))
TRUE = np.sin(NEW[:, 0]) + 0.5 * np.cos(2 * NEW[:, 1])


@pytest.fixture(scope="module")
def fitted():
    return GPRegressor(representation="inducing", n_inducing=60, n_restarts=0, random_state=0).fit(X, Y)


def test_a_regressor_learns_predicts_and_leaves_out(fitted):
    mean, sd = fitted.predict(NEW, return_std=True)
    assert np.sqrt(np.mean((mean - TRUE) ** 2)) < 0.08
    assert np.all(sd > 0.05)
    assert fitted.model_.representation.inputs.shape == (60, 2)
    assert fitted.model_.representation.learn
    dense = GPRegressor(n_restarts=0, random_state=0).fit(X, Y)
    assert dense.log_evidence_ - 10.0 < fitted.log_evidence_ < dense.log_evidence_
    np.testing.assert_allclose(mean, dense.predict(NEW), atol=0.1)
    assert np.mean(np.abs(fitted.leave_one_out().mean - Y)) < 0.15


def test_it_is_cloned_saved_and_updated(fitted, tmp_path):
    copy = clone(fitted)
    assert (copy.representation, copy.n_inducing) == ("inducing", 60)
    np.testing.assert_allclose(copy.fit(X, Y).predict(NEW), fitted.predict(NEW), rtol=1e-9)
    fitted.save(tmp_path / "model.cavity")
    np.testing.assert_array_equal(cavity.load(tmp_path / "model.cavity").predict(NEW), fitted.predict(NEW))
    more = copy.update(NEW, TRUE)
    assert np.abs(more.predict(NEW) - TRUE).mean() < np.abs(fitted.predict(NEW) - TRUE).mean()


def test_memory_of_a_dense_fit_is_not_asked_for(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 300.0**2)
    few = {"kernel": "1.0 * SE(1.0)", "objective": None}
    with pytest.raises(MemoryError):
        GPRegressor(**few).fit(X, Y)
    GPRegressor(**few, representation=Inducing(20)).fit(X, Y)
    GPClassifier(**few, representation="inducing", n_inducing=20).fit(X, F > 0)


def test_robust_noise_finds_outliers():
    y = np.where(np.arange(300) % 30 == 3, Y + 3.0, Y)
    model = GPRegressor(
        "1.0 * SE(1.5)",
        likelihood=StudentT(0.1, 4.0),
        representation="inducing",
        n_inducing=50,
        objective=None,
    ).fit(X, y)
    far = model.outlier_probability_ > 0.5
    assert np.all(far[3::30])
    assert far.sum() < 25


def test_a_classifier_by_ep_and_what_is_refused():
    labels = np.where(F > 0, "up", "down")
    model = GPClassifier(
        "4.0 * SE(1.5)", representation="inducing", n_inducing=40, objective=None, random_state=0
    ).fit(X, labels)
    assert np.mean(model.predict(NEW) == np.where(TRUE > 0, "up", "down")) > 0.9
    assert model.posterior_.status.converged
    assert not model.model_.representation.learn
    with pytest.raises(ValueError, match="n_inducing must be an integer >= 1 or 'auto', got 0"):
        GPRegressor(n_inducing=0).fit(X, Y)
    with pytest.raises(ValueError, match="representation must be one of 'dense', 'inducing'"):
        GPRegressor(representation="sparse").fit(X, Y)


def test_the_exact_mean_after_a_fit_with_few_inducing_inputs(tmp_path):
    asked = {"likelihood": Gaussian(0.01), "mean": "zero", "objective": None, "random_state": 0}
    exact = GPRegressor("1.0 * SE(0.7)", representation="dense", **asked).fit(X, Y)
    rough = GPRegressor("1.0 * SE(0.7)", representation=Inducing(12), **asked).fit(X, Y)
    refined = GPRegressor("1.0 * SE(0.7)", representation=Inducing(12), refine=True, **asked).fit(X, Y)
    assert np.abs(rough.predict(NEW) - exact.predict(NEW)).max() > 0.05
    np.testing.assert_allclose(refined.predict(NEW), exact.predict(NEW), atol=0.01)
    np.testing.assert_allclose(
        refined.predict(NEW, return_std=True)[1], rough.predict(NEW, return_std=True)[1], rtol=1e-9
    )
    refined.save(tmp_path / "m.cavity")
    np.testing.assert_allclose(
        cavity.load(tmp_path / "m.cavity").predict(NEW), refined.predict(NEW), atol=1e-9
    )
    # what is exact stays as it is, and what has no exact mean says so
    np.testing.assert_array_equal(
        clone(exact).set_params(refine=True).fit(X, Y).predict(NEW), exact.predict(NEW)
    )
    with pytest.raises(ValueError, match="needs Gaussian noise"):
        GPRegressor(likelihood="student-t", representation=Inducing(12), refine=True, objective=None).fit(
            X, Y
        )
