"""Relevance vectors: published figures, the evidence against a dense formula, scikit-learn's contract."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity import RelevanceVectorClassifier, RelevanceVectorRegressor
from cavity.bayes import laplace
from cavity.runtime.errors import InputError

X = np.linspace(-4, 4, 8)[:, None]
Y = np.sin(X[:, 0]) / X[:, 0] + np.array([0.05, -0.04, 0.02, 0.06, -0.05, 0.01, -0.03, 0.04])
NEW = np.array([[0.0], [2.0], [6.0], [12.0]])


@parametrize_with_checks([RelevanceVectorRegressor(3.0), RelevanceVectorClassifier(3.0)])
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


# --- classes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_classes():
    rng = np.random.default_rng(1)
    x = rng.uniform(-4, 4, (90, 1))
    labels = rng.uniform(size=90) < norm.cdf(3.0 * np.cos(x[:, 0]))
    return x, labels, RelevanceVectorClassifier(1.2).fit(x, labels)


def test_classes_have_the_evidence_and_weights_of_laplaces_method(two_classes):
    x, labels, model = two_classes
    active = model._mode.bumps.active
    alpha, sign = model._mode.bumps.alpha, 2.0 * labels - 1.0
    Phi = np.exp(-0.5 * (x - x[active].T) ** 2 / 1.2**2)

    def log_joint(w):
        prior = 0.5 * np.sum(np.log(alpha / (2 * np.pi)) - alpha * w * w)
        return float(np.sum(log_ndtr(sign * (Phi @ w))) + prior)

    found = laplace(log_joint, np.zeros(len(alpha)))
    assert model.log_evidence_ == pytest.approx(found.log_integral, abs=1e-5)
    assert model._mode.bumps.weights == pytest.approx(found.gaussian.mean, abs=1e-4)
    # the fixed point: each precision is its share of determined weight over the squared weight
    determined = 1.0 - alpha * np.diag(found.gaussian.covariance)
    assert determined / found.gaussian.mean**2 == pytest.approx(alpha, rel=0.02)
    new = np.array([[0.3], [2.0]])
    plain = RelevanceVectorClassifier(1.2, collapse=True).fit(x, labels).predict_latent(new)
    phi = np.exp(-0.5 * (new - x[active].T) ** 2 / 1.2**2)
    assert plain.mean == pytest.approx(phi @ found.gaussian.mean, abs=1e-4)
    assert plain.variance == pytest.approx(np.diag(phi @ found.gaussian.covariance @ phi.T), rel=1e-4)


def test_classes_by_few_bumps(two_classes):
    x, _, model = two_classes
    truth = norm.cdf(3.0 * np.cos(x[:, 0]))
    assert len(model.relevance_) < 10
    assert np.mean(np.abs(model.predict_proba(x)[:, 1] - truth)) < 0.1
    assert np.mean(model.predict(x) == (truth > 0.5)) > 0.9
    far = model.predict_latent([[60.0]])
    assert far.variance[0] >= 0.5 * np.mean(1.0 / model.alpha_)
    assert model.predict_proba([[60.0]])[0, 1] == pytest.approx(0.5, abs=1e-6)


def test_bad_classes():
    with pytest.raises(InputError, match="positive number"):
        RelevanceVectorClassifier(0.0).fit(X, Y > 0)
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        RelevanceVectorClassifier(1.0).fit(X, np.arange(8) % 3)
    apart = RelevanceVectorClassifier().fit(X, X[:, 0] > 0)  # a plane separates them
    assert (apart.predict(X) == (X[:, 0] > 0)).all()
