"""Least-squares classification: published figures, gradients against differences, left-out labels against refits."""

import numpy as np
import pytest
from scipy.special import ndtr

import cavity
from cavity import GP, GPClassifier
from cavity.kernels import SE, Linear
from cavity.likelihoods import LeastSquares, OneVsRest
from cavity.means import Basis
from cavity.parameters import Param

X = np.array([[-2.0], [-1.0], [0.5], [1.0], [2.5]])
Y = np.array([-1.0, -1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize(("alpha", "beta", "value"), [(1.0, 0.0, -6.2117857056), (2.0, 0.3, -7.2934542106)])
def test_published_objective(alpha, beta, value):
    model = GP(4.0 * SE(1.0), LeastSquares(0.1, 1 / alpha, beta / alpha, lapse=1e-13))
    assert model.inference.name == "least-squares"
    assert model.evidence(X, Y)[0] == pytest.approx(value, abs=1e-9)
    assert model.condition(X, Y).log_evidence == pytest.approx(value, abs=1e-9)


def differences(model, X, y, step=1e-5):
    theta = model.theta
    return [
        (
            model.replace(theta + step * e).evidence(X, y)[0]
            - model.replace(theta - step * e).evidence(X, y)[0]
        )
        / (2 * step)
        for e in np.eye(len(theta))
    ]


@pytest.mark.parametrize("mean", ["zero", "constant", Basis("constant")])
def test_gradient_of_two_classes(mean):
    model = GP(4.0 * SE(0.8) + Linear(0.3), LeastSquares(0.2, 0.7, 0.2, Param(0.05)), mean=mean)
    assert model.evidence(X, Y)[1] == pytest.approx(differences(model, X, Y), rel=1e-6, abs=1e-8)


def test_gradient_of_several_classes():
    rng = np.random.default_rng(0)
    Z, labels = rng.standard_normal((12, 2)), rng.integers(0, 3, 12).astype(float)
    model = GP(2.0 * SE([0.8, 1.5]), OneVsRest(3, LeastSquares(0.2, 0.7, 0.2, Param(0.05))))
    assert model.evidence(Z, labels)[1] == pytest.approx(differences(model, Z, labels), rel=1e-6, abs=1e-8)


def test_left_out_labels_are_those_of_refits():
    labels = LeastSquares(0.2, 0.7, 0.2, 0.05)
    model = GP(4.0 * SE(0.8), labels)
    left_out = model.leave_one_out(X, Y).probabilities
    total = 0.0
    for i in range(5):
        rest = np.arange(5) != i
        new = model.condition(X[rest], Y[rest]).predict_y(X[i : i + 1])
        assert left_out[i] == pytest.approx(new.probabilities[0], rel=1e-8)
        total += float(new.log_prob(Y[i : i + 1])[0])
    assert model.evidence(X, Y)[0] == pytest.approx(total, rel=1e-10)


def test_probabilities_are_squashed_regression():
    K = 4.0 * np.exp(-0.5 * (X - X.T) ** 2) + 0.1 * np.eye(5)
    k = 4.0 * np.exp(-0.5 * (X - 0.3) ** 2)[:, 0]
    mean, var = k @ np.linalg.solve(K, Y), 4.1 - k @ np.linalg.solve(K, k)
    expected = 0.005 + 0.99 * ndtr((mean + 0.2) / np.sqrt(0.49 + var))
    found = GP(4.0 * SE(1.0), LeastSquares(0.1, 0.7, 0.2, 0.01)).condition(X, Y).predict_y([[0.3]])
    assert found.probabilities[0, 1] == pytest.approx(expected, rel=1e-10)


def test_several_classes_agree_with_one_at_a_time():
    rng = np.random.default_rng(1)
    Z, labels = rng.standard_normal((15, 2)), rng.integers(0, 3, 15)
    answer = LeastSquares(0.2, 0.7)
    together = GP(2.0 * SE(1.0), OneVsRest(3, answer)).condition(Z, labels)
    alone = [GP(2.0 * SE(1.0), answer).condition(Z, np.where(labels == c, 1.0, -1.0)) for c in range(3)]
    new = rng.standard_normal((4, 2))
    assert together.mean(new) == pytest.approx(np.column_stack([p.mean(new) for p in alone]), rel=1e-9)
    assert together.log_evidence == pytest.approx(sum(p.log_evidence for p in alone), rel=1e-10)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_estimator(classes, tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((90, 2))
    labels = np.digitize(Z[:, 0] + 0.2 * rng.standard_normal(90), [0.0] if classes == 2 else [-0.6, 0.6])
    model = GPClassifier(likelihood="least-squares", random_state=0, n_restarts=0).fit(Z[:60], labels[:60])
    assert model.score(Z[60:], labels[60:]) > 0.8
    probabilities = model.predict_proba(Z[60:])
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(30))
    model.save(tmp_path / "labels.cavity")
    assert cavity.load(tmp_path / "labels.cavity").predict_proba(Z[60:]) == pytest.approx(
        probabilities, rel=1e-8
    )


def test_a_mislabelled_row_costs_no_more_than_the_lapse():
    y = Y.copy()
    y[0] = 1.0
    far = GP(100.0 * SE(3.0), LeastSquares(1e-4, 1e-3, lapse=0.01))
    assert far.leave_one_out(X, y).log_prob(y).min() >= np.log(0.005) - 1e-12
