"""Rules for one latent function, applied to each function of a likelihood that keeps them apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_ndtr

from cavity.gp import GP
from cavity.inference import EP, Exact
from cavity.inference.base import Approximation, Status
from cavity.inference.function_by_function import FunctionByFunction, _status
from cavity.kernels import SE, Matern
from cavity.learning import learn
from cavity.likelihoods import Gaussian, LapseProbit, OneVsRest, Probit
from tests.inference.test_multilatent import finite_differences

RNG = np.random.default_rng(4)
N, C = 14, 3
X = RNG.normal(size=(N, 2))
LABELS = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=N), [-0.5, 0.5]).astype(float)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
SHARED = 2.0 * SE([1.0, 2.0])
OWN = [2.0 * SE(1.0), 0.7 * Matern(1.5, nu=2.5), 1.2 * SE([0.7, 1.5])]
MEANS = ["constant", "zero", "linear"]
NEW = RNG.normal(size=(5, 2))
KINDS = {"shared": (SHARED, None), "own": (OWN, None), "means": (SHARED, MEANS)}


def model(kind="shared", rule="ep", answer=None):
    kernel, mean = KINDS[kind]
    return GP(kernel, OneVsRest(C, answer), mean=mean, inference=rule).bind(2)


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_the_evidence(kind, weight):
    gp = model(kind)
    gp = gp.replace(gp.theta + 0.1)
    numeric = finite_differences(gp, X, LABELS, weight)
    np.testing.assert_allclose(gp.evidence(X, LABELS, weight)[1], numeric, atol=1e-5)


@pytest.mark.parametrize("rule", ["laplace", "variational"])
def test_gradient_of_the_evidence_by_other_rules(rule):
    gp = model(rule=rule, answer=LapseProbit(0.1))
    np.testing.assert_allclose(gp.evidence(X, LABELS)[1], finite_differences(gp, X, LABELS), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_posterior_is_that_of_a_model_for_each_function(kind):
    gp = model(kind)
    posterior = gp.condition(X, LABELS, WEIGHTS)
    kernels = OWN if kind == "own" else [SHARED] * C
    means = MEANS if kind == "means" else [None] * C
    total = 0.0
    for c in range(C):
        one = GP(kernels[c], Probit(), mean=means[c]).condition(X, np.where(c == LABELS, 1.0, -1.0), WEIGHTS)
        total += one.log_evidence
        np.testing.assert_allclose(posterior.mean(NEW)[:, c], one.mean(NEW), atol=1e-9)
        np.testing.assert_allclose(posterior.variance(NEW)[:, c], one.variance(NEW), atol=1e-9)
        np.testing.assert_allclose(posterior.covariance(NEW)[:, c, :, c], one.covariance(NEW), atol=1e-9)
    assert posterior.log_evidence == pytest.approx(total, abs=1e-9)
    assert gp.evidence(X, LABELS, WEIGHTS)[0] == pytest.approx(total, abs=1e-6)
    assert np.all(posterior.covariance(NEW)[:, 0, :, 1] == 0.0)


def test_the_evidence_is_the_probability_of_all_answers():
    """Three rows, by draws from the prior: EP is close, and the error of the draws is known."""
    few, labels = X[:3], np.array([0.0, 1.0, 2.0])
    found = model().condition(few, labels).log_evidence
    K = SHARED(few)
    F = np.linalg.cholesky(K) @ np.random.default_rng(0).standard_normal((C, 3, 200000))
    signs = 2.0 * np.eye(3)[:, :, None] - 1.0
    p = np.exp(log_ndtr(signs * F).sum(axis=(0, 1)))
    assert found == pytest.approx(np.log(p.mean()), abs=0.01 + 4 * p.std() / p.mean() / np.sqrt(len(p)))


def test_leaving_out_is_conditioning_on_the_others():
    loo = model().leave_one_out(X, LABELS)
    for i in (0, 5):
        keep = np.arange(N) != i
        without = model().condition(X[keep], LABELS[keep]).predict_y(X[i : i + 1])
        np.testing.assert_allclose(loo.probabilities[i], without.probabilities[0], atol=0.02)
    weighted = model().leave_one_out(X, LABELS, WEIGHTS)
    assert np.max(np.abs(weighted.probabilities - loo.probabilities)) > 0.01


def test_learning_goes_on_from_the_last_solution_of_each_function():
    gp = GP(1.0 * SE(1.0), OneVsRest(C)).bind(2)
    assert gp.inference.name == "ep"  # what "auto" chooses
    found = learn(gp, X, LABELS, n_restarts=0, rng=0)
    assert found.winner.converged
    assert len(found.winner.warm) == C
    np.testing.assert_allclose(found.model.evidence(X, LABELS)[1], 0.0, atol=1e-2)
    assert gp.degrees_of_freedom(X, LABELS) > 0


def test_the_status_is_that_of_the_worst_function():
    good, bad = Status(iterations=3, residual=1e-9), Status(False, iterations=4, message="no fixed point")
    found = [Approximation(None, 0.0, status) for status in (good, bad, replace(good, residual=1e-3))]
    status = _status(found)
    assert not status.converged
    assert status.iterations == 10
    assert status.message == "no fixed point"
    assert _status(found[::2]).residual == 1e-3


def test_what_one_function_cannot_have_several_cannot():
    assert FunctionByFunction(EP()).supports(OneVsRest(C))
    assert not FunctionByFunction(Exact()).supports(OneVsRest(C))
    assert FunctionByFunction.if_separable(EP(), Gaussian()).supports(Gaussian())
    with pytest.raises(ValueError, match="Gaussian"):
        model(rule="exact").condition(X, LABELS)
