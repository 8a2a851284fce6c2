"""Relevance vectors: published figures, the evidence against a dense formula, scikit-learn's contract."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity import RelevanceVectorRegressor
from cavity.runtime.errors import InputError

X = np.linspace(-4, 4, 8)[:, None]
Y = np.sin(X[:, 0]) / X[:, 0] + np.array([0.05, -0.04, 0.02, 0.06, -0.05, 0.01, -0.03, 0.04])
NEW = np.array([[0.0], [2.0], [6.0], [12.0]])


@parametrize_with_checks([RelevanceVectorRegressor(1.0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_published_figures():
    model = RelevanceVectorRegressor(1.5, 0.01, collapse=True).fit(X, Y)
    assert model.relevance_.tolist() == [0, 3, 4, 7]
    assert model.alpha_ == pytest.approx([29.0156383, 2.3825404, 3.9703099, 41.5095500], rel=1e-6)
    assert model.log_evidence_ == pytest.approx(3.2905808070, abs=1e-8)
    assert model.predict_latent(NEW).variance == pytest.approx([4.21e-3, 3.39e-3, 9.56e-4, 2.5e-15], rel=0.02)
    honest = RelevanceVectorRegressor(1.5, 0.01).fit(X, Y)
    assert honest.predict_latent(NEW).variance == pytest.approx([4.40e-3, 5.14e-3, 7.19e-2, 0.1825], rel=0.01)
    assert (model.predict([[6.0]])[0], honest.predict([[6.0]])[0]) == pytest.approx(
        (-0.055, -0.250), abs=6e-4
    )


def test_the_evidence_is_that_of_a_gaussian_and_at_a_maximum():
    model = RelevanceVectorRegressor(1.5, 0.01).fit(X, Y)
    Phi = np.exp(-0.5 * (X - X.T) ** 2 / 1.5**2)

    def evidence(alpha):
        P = Phi[:, model.relevance_]
        return multivariate_normal(np.zeros(8), 0.01 * np.eye(8) + P / alpha @ P.T).logpdf(Y)

    assert model.log_evidence_ == pytest.approx(evidence(model.alpha_), abs=1e-9)
    for j in range(len(model.alpha_)):
        for factor in (0.8, 1.25):
            other = model.alpha_.copy()
            other[j] *= factor
            assert evidence(other) < model.log_evidence_


def test_far_away_the_variance_is_that_of_the_prior():
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (80, 1))
    y = np.sinc(x[:, 0]) + 0.1 * rng.standard_normal(80)
    model = RelevanceVectorRegressor().fit(x, y)
    assert len(model.relevance_) < 20
    assert model.noise_variance_ == pytest.approx(0.01, rel=0.5)
    prior = np.mean(1.0 / model.alpha_)
    assert model.predict_latent([[50.0]]).variance[0] >= 0.5 * prior
    assert np.sqrt(np.mean((model.predict(x) - np.sinc(x[:, 0])) ** 2)) < 0.06


def test_bad_input():
    with pytest.raises(InputError, match="positive number"):
        RelevanceVectorRegressor(-1.0).fit(X, Y)
    constant = RelevanceVectorRegressor().fit(np.zeros((3, 1)), [1.0, 1.0, 1.0])
    assert np.isfinite(constant.predict([[0.0]])[0])
