"""Linear models in weight space against Gaussian processes with the linear kernel, closed forms and differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.utils.estimator_checks import parametrize_with_checks

from cavity import GP
from cavity.bayes import BayesianLinearRegression, BayesianLogisticRegression, ImproperPriorError
from cavity.bayes.linear_models import _reduced
from cavity.kernels import Linear
from cavity.likelihoods import Gaussian, Logit, Probit
from cavity.runtime.errors import InputError


@parametrize_with_checks([BayesianLinearRegression(), BayesianLogisticRegression()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3)) * [1.0, 2.0, 0.3] + [0.0, 1.0, -1.0]
    f = X @ [0.8, -0.4, 1.5] + 0.7
    return X, f + 0.5 * rng.standard_normal(40), (f + rng.logistic(size=40) > 0).astype(int)


def test_the_linear_gaussian_process_is_the_same_model(data):
    X, y, _ = data
    model = BayesianLinearRegression(1.3, 2.0, 0.6).fit(X, y)
    process = GP(Linear(1.3**2, 4.0), Gaussian(0.36)).condition(X, y)
    assert model.log_evidence_ == pytest.approx(process.log_evidence, rel=1e-10)
    new = X[:5] + 0.3
    mean, sd = model.predict(new, return_std=True)
    expected = process.predict_y(new)
    assert mean == pytest.approx(expected.mean, rel=1e-8)
    assert sd == pytest.approx(expected.sd, rel=1e-8)
    assert model.predict_latent(new).variance == pytest.approx(process.predict_f(new).variance, rel=1e-7)


@pytest.mark.parametrize(("link", "likelihood"), [("logit", Logit()), ("probit", Probit())])
def test_logistic_regression_is_laplaces_method_of_the_linear_process(data, link, likelihood):
    X, _, labels = data
    model = BayesianLogisticRegression(1.3, 2.0, link).fit(X, labels)
    process = GP(Linear(1.3**2, 4.0), likelihood, inference="laplace").condition(X, 2 * labels - 1)
    assert model.log_evidence_ == pytest.approx(process.log_evidence, rel=1e-8)
    assert model.decision_function(X) == pytest.approx(process.mean(X), abs=1e-7)
    assert np.log(model.predict_proba(X)[:, 1]) == pytest.approx(
        process.predict_y(X).log_prob(np.ones(40)), abs=1e-7
    )


def test_published_figures():
    model = BayesianLinearRegression(2.0, 2.0, 0.5).fit(np.arange(4.0)[:, None], [1, 3, 2, 5])
    assert model.weights_.mean == pytest.approx([1.0737659456, 1.1063043076], abs=1e-9)
    assert model.log_evidence_ == pytest.approx(-10.900834826, abs=1e-8)
    assert model.predict_dist([[4.0]]).variance == pytest.approx([0.617535589], abs=1e-8)
    x = np.array([-2, -1, -0.5, 0.5, 1, 2])[:, None]
    flat = BayesianLogisticRegression(np.inf, np.inf).fit(x, [0, 0, 1, 0, 1, 1])
    assert flat.coef_[0, 0] == pytest.approx(1.3511121597, abs=1e-8)  # maximum likelihood
    with pytest.raises(ImproperPriorError):
        _ = flat.log_evidence_
    probit = BayesianLogisticRegression(2.0, 2.0, "probit").fit(x, [0, 0, 1, 0, 1, 1])
    assert probit.predict_proba([[1.5]])[0, 1] == pytest.approx(0.793156977, abs=1e-8)


def test_gradients_of_evidences(data):
    X, y, labels = data
    Z = np.column_stack([np.ones(40), X])
    at = np.log([0.7, 1.4, 0.5])

    def linear(logs):
        return BayesianLinearRegression._evidence(*_reduced(Z, y), 40, np.exp(logs))

    assert linear(at)[1] == pytest.approx(approx_fprime(at, lambda t: linear(t)[0], 1e-6), rel=1e-4)
    for link in ("logit", "probit"):
        model = BayesianLogisticRegression(link=link)

        def logistic(logs, model=model):
            return model._laplace(Z, 2.0 * labels - 1.0, np.exp(logs))

        difference = approx_fprime(at[:2], lambda t, f=logistic: f(t)[0], 1e-6)
        assert logistic(at[:2])[1] == pytest.approx(difference, rel=1e-4, abs=1e-5)


def test_learned_scales_have_the_highest_evidence(data):
    X, y, labels = data
    best = BayesianLinearRegression().fit(X, y)
    for factor in (0.9, 1.1):
        other = BayesianLinearRegression(best.weight_sd_ * factor, best.intercept_sd_, best.noise_sd_).fit(
            X, y
        )
        assert other.log_evidence_ < best.log_evidence_
    assert best.coef_ == pytest.approx([0.8, -0.4, 1.5], abs=4 * 0.5 / np.sqrt(40) / 0.3)
    classes = BayesianLogisticRegression().fit(X, labels)
    for factor in (0.8, 1.25):
        other = BayesianLogisticRegression(classes.weight_sd_ * factor, classes.intercept_sd_).fit(X, labels)
        assert other.log_evidence_ < classes.log_evidence_


def test_probabilities_are_moderated(data):
    X, _, labels = data
    model = BayesianLogisticRegression(2.0, 2.0).fit(X, labels)
    plain = 1 / (1 + np.exp(-model.decision_function(X)))
    moderated = model.predict_proba(X)[:, 1]
    assert np.all(np.abs(moderated - 0.5) < np.abs(plain - 0.5))
    assert np.all((moderated > 0.5) == (plain > 0.5))


@pytest.mark.parametrize(
    ("labels", "words"),
    [([0, 0, 0, 1, 1, 1], "a plane separates"), ([0, 0, 1, 1, 1, 1], "a plane separates")],
)
def test_separable_labels_need_a_prior(labels, words):
    x = np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])[:, None]
    with pytest.raises(InputError, match=words):
        BayesianLogisticRegression(np.inf, np.inf).fit(x, labels)
    BayesianLogisticRegression(2.5, 2.5).fit(x, labels)


def test_other_bad_input():
    x, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    with pytest.raises(InputError, match="depend on each other"):
        BayesianLogisticRegression(np.inf, np.inf).fit(np.hstack([x, x]), y)
    with pytest.raises(InputError, match="logit, probit"):
        BayesianLogisticRegression(link="cauchit").fit(x, y)
    with pytest.raises(InputError, match="positive number"):
        BayesianLinearRegression(-1.0).fit(x, y)
    constant = BayesianLinearRegression().fit(x, np.full(4, 3.0))
    assert constant.predict(x) == pytest.approx(np.full(4, 3.0), abs=1e-3)


@pytest.mark.parametrize("level", [1e4, 1e8])
def test_a_large_level_does_not_hide_the_noise(level):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.standard_normal(200)
    plain = BayesianLinearRegression().fit(X, y)
    for model in (
        BayesianLinearRegression().fit(X, y + level),
        BayesianLinearRegression().fit(X + level / 1e4, y),
    ):
        assert model.noise_sd_ == pytest.approx(plain.noise_sd_, rel=0.02)
        assert model.coef_ == pytest.approx(plain.coef_, abs=1e-3)


def test_fewer_rows_than_columns():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 12)), rng.standard_normal(5)
    model = BayesianLinearRegression(1.3, 2.0, 0.6).fit(X, y)
    process = GP(Linear(1.3**2, 4.0), Gaussian(0.36)).condition(X, y)
    assert model.log_evidence_ == pytest.approx(process.log_evidence, rel=1e-10)
    assert model.predict(X + 0.1) == pytest.approx(process.mean(X + 0.1), rel=1e-8)


def test_far_inputs_do_not_bend_the_weights_of_a_classifier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    labels = (X @ [1.0, -2.0] + rng.logistic(size=200) > 0).astype(int)
    near, far = (BayesianLogisticRegression().fit(X + level, labels) for level in (0.0, 1e4))
    assert far.coef_ == pytest.approx(near.coef_, rel=0.05)
