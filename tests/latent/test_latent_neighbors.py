"""Latent values conditioned on their neighbors: rules, learning, predictions, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPClassifier, LatentNeighbors
from cavity.inference import EP, Exact, Laplace, Variational
from cavity.io import load, save
from cavity.kernels import SE, Matern
from cavity.latent.base import Inputs
from cavity.latent.latent_neighbors import precision
from cavity.likelihoods import Gaussian, MixtureOfGaussians, Poisson, Probit, StudentT
from cavity.means import Polynomial
from cavity.numerics.cholesky import NotPositiveDefiniteError

RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(0, 4, (N, 2))
F = np.sin(2 * X[:, 0]) + np.cos(X[:, 1])
NEW = np.random.default_rng(1).uniform(-0.5, 4.5, (7, 2))
TARGETS = {
    "real": F + 0.2 * RNG.standard_t(3, N),
    "labels": np.where(F > 0.3, 1.0, -1.0),
    "counts": RNG.poisson(np.exp(F)).astype(float),
}
KERNEL = 1.3 * Matern([0.9, 1.4], nu=2.5)
ALL = LatentNeighbors(N - 1, nugget=0.0)
RULES = {
    "gaussian": (Gaussian(0.1), "real", Exact()),
    "probit, ep": (Probit(), "labels", EP()),
    "probit, laplace": (Probit(), "labels", Laplace()),
    "student-t, ep": (StudentT(0.15, 3.0), "real", EP()),
    "student-t, laplace": (StudentT(0.15, 3.0), "real", Laplace()),
    "student-t, variational": (StudentT(0.15, 3.0), "real", Variational()),
    "mixture, ep": (MixtureOfGaussians(0.02, 0.1, 4.0), "real", EP()),
    "poisson, laplace": (Poisson(), "counts", Laplace()),
}


@pytest.mark.parametrize("name", RULES)
def test_all_earlier_rows_as_neighbors_are_the_dense_process(name):
    likelihood, target, rule = RULES[name]
    models = [GP(KERNEL, likelihood, inference=rule, representation=r) for r in ("dense", ALL)]
    dense, near = (model.condition(X, TARGETS[target]) for model in models)
    assert near.log_evidence == pytest.approx(dense.log_evidence, rel=1e-8)
    a, b = dense.predict_f(NEW), near.predict_f(NEW)
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    # rules end at matches of 1e-6, along different paths; the contract test compares at the same sites, to 1e-8
    np.testing.assert_allclose(b.variance, a.variance, rtol=3e-6)
    np.testing.assert_allclose(near.process.covariance(NEW), dense.process.covariance(NEW), atol=2e-6)


@pytest.mark.parametrize("name", ["probit, ep", "student-t, ep", "student-t, laplace", "gaussian"])
def test_the_gradient_of_the_evidence_with_few_neighbors(name):
    likelihood, target, rule = RULES[name]
    y, model = TARGETS[target], None
    few = LatentNeighbors(5, scales=[1.0, 1.5])
    model = GP(KERNEL, likelihood, inference=rule, representation=few).bind(2)

    def value(theta):
        bound, rows = model.replace(theta).training(X, y)
        return bound.evidence_of(rows)

    gradient = value(model.theta)[1]
    for j in range(len(model.theta)):
        step = 1e-5 * (np.arange(len(model.theta)) == j)
        slope = (value(model.theta + step)[0] - value(model.theta - step)[0]) / 2e-5
        assert gradient[j] == pytest.approx(slope, rel=2e-4, abs=2e-5)


def test_few_neighbors_lose_little_and_more_lose_less():
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 8, (500, 2))
    y = np.where(np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.standard_normal(500) > 0, 1.0, -1.0)
    kernel = 2.0 * Matern(1.5, nu=1.5)
    exact = GP(kernel, Probit()).condition(X, y).log_evidence
    lost = [
        abs(GP(kernel, Probit(), representation=LatentNeighbors(k)).condition(X, y).log_evidence - exact)
        for k in (5, 30)
    ]
    assert lost[1] < 0.3
    assert lost[1] < 0.2 * lost[0]


def test_a_smooth_process_of_many_near_rows_keeps_its_digits():
    """Values that neighbors determine to 1e-8 of their variance: against the dense process with the same nugget."""
    X = np.random.default_rng(4).uniform(0, 1, (150, 2))
    y = TARGETS["labels"][np.arange(150) % N]
    kernel, nugget = 1.0 * SE(1.0), 1e-8
    near = LatentNeighbors(149, nugget=nugget).prior(kernel, None, Inputs(X)).condition(np.full(150, 0.5))
    K = kernel.bind(2)(X) + nugget * np.eye(150)
    exact = K - K @ np.linalg.solve(K + 2.0 * np.eye(150), K)
    np.testing.assert_allclose(near.var, np.diag(exact), rtol=1e-6)
    assert np.isfinite(GP(kernel, Probit(), representation=LatentNeighbors()).condition(X, y).log_evidence)


def test_repeated_rows_have_the_same_value():
    twice = np.vstack([X, X[:20]])
    y = np.concatenate([TARGETS["real"], TARGETS["real"][:20] + 0.1])
    kernel = KERNEL.bind(2)
    near = (
        LatentNeighbors(len(twice) - 1).prior(kernel, None, Inputs(twice)).observe(np.full(len(twice), 0.1))
    )
    K = kernel(twice)
    assert near.noisy_log_det == pytest.approx(np.linalg.slogdet(K + 0.1 * np.eye(len(K)))[1], abs=1e-4)
    assert np.all(np.isfinite(near.apply(y)))


def test_basis_functions_with_their_weights_integrated_out():
    models = [GP(KERNEL, Gaussian(0.1), mean=Polynomial(1), representation=r) for r in ("dense", ALL)]
    dense, near = (model.condition(X, TARGETS["real"] + 3.0 * X[:, 0]) for model in models)
    assert near.log_evidence == pytest.approx(dense.log_evidence, rel=1e-8)
    a, b = dense.predict_f(NEW), near.predict_f(NEW)
    np.testing.assert_allclose(b.mean, a.mean, atol=1e-6)
    np.testing.assert_allclose(b.variance, a.variance, rtol=1e-6)
    np.testing.assert_allclose(near.process.covariance(NEW), dense.process.covariance(NEW), atol=1e-6)


def test_posterior_coordinates_are_white():
    tau = np.where(np.arange(N) % 5 == 0, -0.1, 1.0)
    given = LatentNeighbors(8).prior(KERNEL.bind(2), None, Inputs(X)).condition(tau)
    white, eye = given.white(), np.eye(N)
    W = white.unwhiten(eye)
    np.testing.assert_allclose(W @ W.T, given.covariance, atol=1e-10)
    np.testing.assert_allclose(white.unwhiten_adjoint(eye), W.T, atol=1e-12)
    np.testing.assert_allclose(white.whiten(W), eye, atol=1e-9)


def test_estimators_learn_with_them_and_files_keep_them(tmp_path):
    classifier = GPClassifier(representation="latent_neighbors", n_restarts=0, random_state=0)
    classifier.fit(X, TARGETS["labels"])
    assert classifier.score(X, TARGETS["labels"]) > 0.9
    save(classifier, tmp_path / "model.cavity")
    again = load(tmp_path / "model.cavity")
    assert repr(again.model_.representation) == repr(classifier.model_.representation)
    np.testing.assert_allclose(again.predict_proba(NEW), classifier.predict_proba(NEW), rtol=1e-10)


def test_what_cannot_be_is_refused_with_a_remedy(monkeypatch):
    kernel = KERNEL.bind(2)
    with pytest.raises(ValueError, match=r"nugget must be a share.*got -1"):
        LatentNeighbors(nugget=-1.0)
    with pytest.raises(NotPositiveDefiniteError, match="give the noise a variance"):
        ALL.prior(kernel, None, Inputs(X)).observe(np.zeros(N))
    monkeypatch.setattr(precision, "MOST_FILL", 100)
    with pytest.raises(ValueError, match="not near each other along few columns"):
        LatentNeighbors(4).prior(kernel, None, Inputs(X)).condition(np.ones(N))
