"""Functions that the likelihood couples, on inducing inputs: against matrices, differences and dense processes."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, Inducing
from cavity.io import load, save
from cavity.kernels import SE, Matern
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.inducing import prior as inducing_prior
from cavity.likelihoods import HeteroscedasticGaussian, OneVsRest, Softmax
from cavity.parameters.per_latent import PerLatent

RNG = np.random.default_rng(0)
N, L, M = 13, 3, 5
X, NEW = RNG.normal(size=(N, 2)), RNG.normal(size=(4, 2))
Z = RNG.normal(size=(M, 2))
SHARED = (1.5 * SE(1.0)).bind(2)
OWN = PerLatent([1.5 * SE(1.0), 0.7 * Matern(2.0, 1.5), 2.0 * SE([0.5, 1.0])]).bind(2)
D = RNG.dirichlet(np.ones(L), size=N) * RNG.uniform(0.5, 2.0, (N, 1))


def softmax_W(D):
    rank_one = D[:, :, None] * D[:, None, :] / D.sum(axis=1)[:, None, None]
    return np.einsum("ni,ij->nij", D, np.eye(L)) - rank_one


def indefinite_W(scale):
    B = np.random.default_rng(1).normal(size=(N, L, L)) * scale
    return B + B.transpose(0, 2, 1)


def explicit(prior, W):
    """K and W of all functions and rows, function by function, and R."""
    K, full = np.zeros((L, N, L, N)), np.zeros((L, N, L, N))
    for c, p in enumerate(prior.functions):
        K[c, :, c] = p.times(np.eye(N))
    i = np.arange(N)
    full[:, i, :, i] = W
    K, full = K.reshape(L * N, L * N), full.reshape(L * N, L * N)
    return K, full, full @ np.linalg.inv(np.eye(L * N) + K @ full)


def stacked(a):
    return a.T.ravel()


def prior_of(kernel, kind="fitc", Z=Z, learn=False):
    return Inducing(kind=kind, inputs=Z, learn=learn).several(kernel, None, Inputs(X), L)


@pytest.mark.parametrize("keep", [True, False], ids=["kept", "anew"])
@pytest.mark.parametrize("curvature", ["softmax", "indefinite"])
@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
@pytest.mark.parametrize("kind", ["fitc", "dtc"])
def test_conditioning_against_explicit_matrices(kind, kernel, curvature, keep, monkeypatch):
    if not keep:
        monkeypatch.setattr(inducing_prior, "KEPT_DOUBLES", 0)
    prior = prior_of(kernel, kind)
    W = softmax_W(D) if curvature == "softmax" else indefinite_W(0.05)
    found = prior.condition_softmax(D) if curvature == "softmax" else prior.condition(W)
    K, full, R = explicit(prior, W)
    assert found.log_det == pytest.approx(np.linalg.slogdet(np.eye(L * N) + K @ full)[1], abs=1e-9)
    b = RNG.normal(size=(N, L))
    weights, moved = found.project(b)
    expected = stacked(b) - R @ K @ stacked(b)
    np.testing.assert_allclose(stacked(weights), expected, atol=1e-9)
    np.testing.assert_allclose(stacked(moved), K @ expected, atol=1e-9)
    Sigma, i = (K - K @ R @ K).reshape(L, N, L, N), np.arange(N)
    np.testing.assert_allclose(found.training_blocks(), Sigma[:, i, :, i], atol=1e-9)
    # in coordinates of any root of K the eigenvalues of I + K W are those of I + Y'W Y
    least = np.linalg.eigvals(np.eye(L * N) + K @ full).real.min()
    assert found.smallest_curvature == pytest.approx(min(1.0, least), abs=1e-3)


@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
@pytest.mark.parametrize("kind", ["fitc", "dtc"])
def test_pullback_against_differences(kind, kernel):
    left, right = RNG.normal(size=(N, L)), RNG.normal(size=(N, L))
    prior = prior_of(kernel, kind, learn=True)
    W = indefinite_W(0.05)
    R = explicit(prior, W)[2].reshape(L, N, L, N)
    G = [0.5 * (np.outer(a, b) + np.outer(b, a)) for a, b in zip(left.T, right.T)]

    def value(kernel, Z):
        moved = prior_of(kernel, kind, Z)
        return sum(
            np.vdot(G[c] - 0.7 * R[c, :, c], p.times(np.eye(N))) for c, p in enumerate(moved.functions)
        )

    found = prior.condition(W).pull_prior(left, right, -0.7)
    slopes = []
    for k in range(kernel.theta.size):
        step = 1e-5 * np.eye(kernel.theta.size)[k]
        ends = [value(kernel.replace(kernel.theta + s * step), Z) for s in (1, -1)]
        slopes.append((ends[0] - ends[1]) / 2e-5)
    np.testing.assert_allclose(kernel.to_theta(found.kernel), slopes, rtol=1e-5, atol=1e-6)
    slopes = []
    for k in range(Z.size):
        step = 1e-5 * np.eye(Z.size)[k].reshape(Z.shape)
        slopes.append((value(kernel, Z + step) - value(kernel, Z - step)) / 2e-5)
    np.testing.assert_allclose(found.representation, slopes, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
def test_sites_of_each_function_alone_are_a_diagonal_curvature(kernel):
    prior = prior_of(kernel, learn=True)
    tau = RNG.uniform(0.1, 2.0, (N, L))
    alone, coupled = prior.condition_separately(tau), prior.condition(np.einsum("ni,ij->nij", tau, np.eye(L)))
    assert coupled.log_det == pytest.approx(alone.log_det, abs=1e-9)
    np.testing.assert_allclose(coupled.training_blocks(), alone.training_blocks(), atol=1e-9)
    left, right = RNG.normal(size=(N, L)), RNG.normal(size=(N, L))
    for mine, theirs in zip(coupled.pull_prior(left, right, -0.5), alone.pull_prior(left, right, -0.5)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-8)
    a = RNG.normal(size=(N, L))
    one, other = prior.process(a, coupled), prior.process(a, alone)
    np.testing.assert_allclose(one.mean(NEW), other.mean(NEW), atol=1e-9)
    np.testing.assert_allclose(one.covariance(NEW), other.covariance(NEW), atol=1e-9)


def test_negative_curvature_that_outweighs_the_prior_is_refused_and_points_downwards():
    prior = prior_of(SHARED)
    W = indefinite_W(3.0)
    with pytest.raises(ImproperPosteriorError):
        prior.condition(W)
    K, full, _ = explicit(prior, W)
    da, moved = prior.downward(W)
    np.testing.assert_allclose(stacked(moved), K @ stacked(da), atol=1e-9)
    length, curved = stacked(da) @ stacked(moved), stacked(moved) @ full @ stacked(moved)
    assert curved / length == pytest.approx(np.linalg.eigvals(K @ full).real.min(), rel=1e-2)
    # weak enough for B, but not for one row given the inducing inputs
    W = np.zeros((N, L, L))
    row = int(np.argmax(prior.functions[0].residual))
    W[row, 0, 0] = -1.01 / prior.functions[0].residual[row]
    with pytest.raises(ImproperPosteriorError) as refused:
        prior.condition(W)
    assert refused.value.row == row


def test_bounds_are_refused_by_name():
    with pytest.raises(ValueError, match="'auto', 'fitc' or 'dtc', got 'vfe'"):
        prior_of(SHARED, "vfe").condition_softmax(D)


# --- whole models -------------------------------------------------------------------------------------------

CLASSES = np.argmax(np.column_stack([X[:, 0], X[:, 1], -X.sum(axis=1)]), axis=1)
LEVEL = np.sin(X[:, 0]) + np.exp(0.5 * X[:, 1] - 1.0) * RNG.normal(size=N)
MODELS = {
    "softmax": (SHARED, Softmax(3), CLASSES),
    "softmax, own kernels": (list(OWN), Softmax(3), CLASSES),
    "heteroscedastic": ([1.5 * SE(1.0), 0.5 * SE(2.0)], HeteroscedasticGaussian(), LEVEL),
}


@pytest.mark.parametrize("name", MODELS)
def test_with_all_rows_inducing_it_is_the_dense_model(name):
    kernel, likelihood, y = MODELS[name]
    exact = GP(kernel, likelihood, inference="laplace")
    induced = GP(kernel, likelihood, inference="laplace", representation=Inducing(inputs=X))
    dense, sparse = exact.condition(X, y), induced.condition(X, y)
    assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    np.testing.assert_allclose(sparse.mean(NEW), dense.mean(NEW), atol=1e-6)
    np.testing.assert_allclose(sparse.process.blocks(NEW), dense.process.blocks(NEW), atol=1e-6)
    out, others = induced.leave_one_out(X, y), exact.leave_one_out(X, y)
    np.testing.assert_allclose(out.log_prob(y), others.log_prob(y), atol=1e-5)
    assert dense.loss().kind == "exact"
    assert sparse.loss().information < 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_the_gradient_of_the_evidence(name):
    kernel, likelihood, y = MODELS[name]
    sparse = Inducing(inputs=Z, learn=True)
    model, data = GP(kernel, likelihood, inference="laplace", representation=sparse).training(X, y)
    _, gradient, warm = model.evidence_of(data)
    for k in RNG.choice(model.theta.size, 6, replace=False):
        ends = []
        for sign in (1, -1):
            theta = model.theta.copy()
            theta[k] += sign * 1e-5
            ends.append(model.replace(theta).evidence_of(data, warm)[0])
        slope = (ends[0] - ends[1]) / 2e-5
        assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-6), k


def test_what_is_lost_falls_with_more_inducing_inputs_and_files_repeat_predictions(tmp_path):
    lost = []
    for m in (2, 6):
        model = GP(SHARED, Softmax(3), representation=Inducing(m))
        posterior = model.condition(X, CLASSES)
        lost.append(posterior.loss().information)
    assert 1.0 > lost[0] > lost[1] > 0.0
    separate = GP(SHARED, OneVsRest(3), inference="ep", representation=Inducing(2)).condition(X, CLASSES)
    assert 0.0 < separate.loss().information < 1.0
    save(posterior, tmp_path / "classes.cavity")
    again = load(tmp_path / "classes.cavity")
    np.testing.assert_allclose(again.predict_y(NEW).probabilities, posterior.predict_y(NEW).probabilities)
