"""Several functions that the likelihood keeps apart, in representations other than the dense one."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPClassifier, Inducing, load
from cavity.kernels import SE, Matern
from cavity.latent import Committee, Markov
from cavity.latent.base import CapabilityError, Inputs
from cavity.likelihoods import OneVsRest, Probit, Softmax
from tests.latent.naive import Naive

RNG = np.random.default_rng(0)
N = 24
X = np.sort(RNG.uniform(-3, 3, N))[:, None]
Y = np.digitize(X[:, 0] + 0.3 * RNG.standard_normal(N), [-1.0, 1.0]).astype(float)
NEW = np.linspace(-3.5, 3.5, 7)[:, None]
KERNEL = 2.0 * Matern(1.2, nu=1.5)
OWN = [2.0 * Matern(1.2, nu=1.5), 1.5 * Matern(0.8, nu=2.5), 1.0 * Matern(2.0, nu=0.5)]
EXACT = {"naive": Naive(), "markov": Markov(), "all rows induce": Inducing(kind="fitc", inputs=X)}


@pytest.mark.parametrize("rule", ["ep", "laplace", "variational"])
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("kernel", [KERNEL, OWN], ids=["shared", "own"])
def test_exact_representations_agree_with_the_dense_one(rule, name, kernel):
    means = ["constant", "zero", "zero"]
    dense, other = (GP(kernel, OneVsRest(3), means, rule, r) for r in ("dense", EXACT[name]))
    (value, gradient), (mine, its_gradient) = dense.evidence(X, Y), other.evidence(X, Y)
    assert mine == pytest.approx(value, abs=2e-5)
    np.testing.assert_allclose(its_gradient, gradient, atol=2e-4)
    a, b = dense.condition(X, Y), other.condition(X, Y)
    np.testing.assert_allclose(b.mean(NEW), a.mean(NEW), atol=2e-4)
    np.testing.assert_allclose(b.variance(NEW), a.variance(NEW), rtol=2e-4)
    np.testing.assert_allclose(b.covariance(NEW), a.covariance(NEW), atol=2e-4)
    np.testing.assert_allclose(b.predict_y(NEW).probabilities, a.predict_y(NEW).probabilities, atol=1e-4)
    assert b.sample(NEW, 5, 0).shape == (5, 7, 3)


@pytest.mark.parametrize("kernel", [KERNEL, OWN], ids=["shared", "own"])
def test_the_gradient_reaches_inducing_inputs(kernel):
    Z = np.linspace(-2.5, 2.5, 6)[:, None]
    model = GP(
        kernel, OneVsRest(3), inference="laplace", representation=Inducing(kind="fitc", inputs=Z, learn=True)
    )
    gradient = model.evidence(X, Y)[1]
    assert gradient.shape == model.theta.shape
    for i, step in enumerate(1e-5 * np.eye(len(model.theta))):
        ends = [model.replace(model.theta + s * step).evidence(X, Y)[0] for s in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-4)


def test_each_function_is_the_binary_model_of_its_class():
    sparse = Inducing(7, "fitc").for_rows(KERNEL, X)
    several = GP(KERNEL, OneVsRest(3), inference="ep", representation=sparse).condition(X, Y)
    total = 0.0
    for c in range(3):
        alone = GP(KERNEL, Probit(), inference="ep", representation=sparse).condition(
            X, np.where(c == Y, 1.0, -1.0)
        )
        np.testing.assert_allclose(several.mean(NEW)[:, c], alone.mean(NEW), atol=1e-8)
        np.testing.assert_allclose(several.variance(NEW)[:, c], alone.variance(NEW), rtol=1e-8)
        total += alone.log_evidence
    assert several.log_evidence == pytest.approx(total, abs=1e-8)


def test_functions_that_the_likelihood_couples_are_refused():
    prior = Committee(5).several(KERNEL, None, Inputs(X), 3)
    for refused in (
        lambda: prior.condition(np.zeros((N, 3, 3))),
        lambda: prior.condition_softmax(np.ones((N, 3))),
        lambda: prior.downward(np.zeros((N, 3, 3))),
        lambda: prior.unwhiten(np.zeros((1, N, 3))),
        lambda: prior.whiten(np.zeros((1, N, 3))),
        lambda: GP(KERNEL, Softmax(3), representation="committee").condition(X, Y),
        lambda: GPClassifier(multi_class="softmax", representation="committee", objective=None).fit(X, Y),
    ):
        with pytest.raises(
            CapabilityError, match="'committee' does not give several latent functions that the"
        ):
            refused()
    assert prior.rows(np.arange(4)).n == 4
    np.testing.assert_allclose(prior.at(KERNEL, None).diagonal, prior.diagonal)


def test_three_classes_of_two_columns_with_learning_and_a_file(tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((240, 2))
    labels = np.array(["a", "b", "c"])[np.digitize(rows[:, 0] + rows[:, 1] ** 2, [0.0, 1.5])]
    options = {"kernel": 2.0 * SE([1.0, 1.0]), "n_restarts": 0, "random_state": 0}
    model = GPClassifier(representation="inducing", n_inducing=40, **options).fit(rows[:200], labels[:200])
    dense = GPClassifier(**options).fit(rows[:200], labels[:200])
    p, q = model.predict_proba(rows[200:]), dense.predict_proba(rows[200:])
    assert np.abs(p - q).max() < 0.05
    assert np.mean(model.predict(rows[200:]) == labels[200:]) > 0.85
    model.save(tmp_path / "three.cavity")
    np.testing.assert_allclose(load(tmp_path / "three.cavity").predict_proba(rows[200:]), p, atol=1e-9)
