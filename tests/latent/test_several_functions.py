"""Several latent functions: every quantity against dense (L n x L n) linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels import SE, Matern
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.dense_multi_latent import (
    BlockConditioning,
    PerLatent,
    SeveralDense,
    SoftmaxConditioning,
)
from cavity.means.functions import Constant
from cavity.means.functions import Linear as LinearMean

RNG = np.random.default_rng(0)
N, L = 9, 3
X = RNG.normal(size=(N, 2))
NEW = RNG.normal(size=(4, 2))
PI = RNG.dirichlet(np.ones(L), size=N)
WEIGHT = RNG.uniform(0.5, 2.0, N)
SHARED = 1.5 * SE(1.0)
OWN = PerLatent([1.5 * SE(1.0), 0.7 * Matern(2.0, 1.5), 2.0 * SE([0.5, 1.0])])


def softmax_W(D):
    """D - D 1 (1'D 1)^-1 1'D, one L x L block per point."""
    return (
        np.einsum("ni,ij->nij", D, np.eye(L)) - D[:, :, None] * D[:, None, :] / D.sum(axis=1)[:, None, None]
    )


def indefinite_W(scale):
    B = RNG.normal(size=(N, L, L)) * scale
    return B + B.transpose(0, 2, 1)


def full_K(prior):
    out = np.zeros((L * N, L * N))
    for c, p in enumerate(prior.functions):
        out[c * N : (c + 1) * N, c * N : (c + 1) * N] = p.covariance
    return out


def full_W(W):
    """Blocks per point as one (L n, L n) matrix, function by function."""
    out = np.zeros((L, N, L, N))
    i = np.arange(N)
    out[:, i, :, i] = W
    return out.reshape(L * N, L * N)


def full_R(prior, W):
    """(K + W^-1)^-1 = W (I + K W)^-1, which needs no inverse of W."""
    return full_W(W) @ np.linalg.inv(np.eye(L * N) + full_K(prior) @ full_W(W))


def stacked(a):
    return a.T.ravel()


CASES = []
for name, kernel in (("shared", SHARED), ("own", OWN)):
    for weight in (np.ones(N), WEIGHT):
        CASES.append((f"softmax-{name}", kernel, SoftmaxConditioning, PI * weight[:, None]))
    CASES.append((f"dense-{name}", kernel, BlockConditioning, softmax_W(PI)))
    CASES.append((f"indefinite-{name}", kernel, BlockConditioning, indefinite_W(0.05)))


@pytest.mark.parametrize(("name", "kernel", "cls", "curvature"), CASES, ids=[c[0] for c in CASES])
def test_corrections_against_dense_algebra(name, kernel, cls, curvature):
    prior = SeveralDense(kernel, X, L)
    correction = cls(prior, curvature)
    W = softmax_W(curvature) if cls is SoftmaxConditioning else curvature
    K, R = full_K(prior), full_R(prior, W)
    assert correction.log_det == pytest.approx(np.linalg.slogdet(np.eye(L * N) + K @ full_W(W))[1], abs=1e-9)
    b = RNG.normal(size=(N, L))
    a, moved = correction.project(b)
    expected = stacked(b) - R @ K @ stacked(b)
    np.testing.assert_allclose(stacked(a), expected, atol=1e-7)
    np.testing.assert_allclose(stacked(moved), K @ expected, atol=1e-8)
    Sigma = (K - K @ R @ K).reshape(L, N, L, N)
    i = np.arange(N)
    np.testing.assert_allclose(correction.training_blocks(), Sigma[:, i, :, i], atol=1e-8)
    for c, Rc in enumerate(correction.into_matrices()):
        block = R[c * N : (c + 1) * N, c * N : (c + 1) * N]
        np.testing.assert_allclose(np.tril(Rc), np.tril(block), atol=1e-8)


@pytest.mark.parametrize(("name", "kernel", "cls", "curvature"), CASES, ids=[c[0] for c in CASES])
def test_posterior_elsewhere_against_dense_algebra(name, kernel, cls, curvature):
    prior = SeveralDense(kernel, X, L)
    a = RNG.normal(size=(N, L))
    posterior = prior.process(a, cls(prior, curvature))
    R = full_R(prior, softmax_W(curvature) if cls is SoftmaxConditioning else curvature)
    m = len(NEW)
    cross, own = np.zeros((L, N, L, m)), np.zeros((L, m, L, m))
    for c, p in enumerate(prior.functions):
        cross[c, :, c, :], own[c, :, c, :] = p.kernel(X, NEW), p.kernel(NEW)
    cross = cross.reshape(L * N, L * m)
    mean = (cross.T @ stacked(a)).reshape(L, m).T
    cov = (own.reshape(L * m, L * m) - cross.T @ R @ cross).reshape(L, m, L, m).transpose(1, 0, 3, 2)
    np.testing.assert_allclose(posterior.mean(NEW), mean, atol=1e-10)
    np.testing.assert_allclose(posterior.covariance(NEW), cov, atol=1e-8)
    i = np.arange(m)
    np.testing.assert_allclose(posterior.blocks(NEW), cov[i, :, i, :], atol=1e-8)
    np.testing.assert_allclose(posterior.variance(NEW), np.einsum("icic->ic", cov), atol=1e-8)


def test_draws_have_the_posterior_s_moments():
    prior = SeveralDense(OWN, X, L, PerLatent([Constant(1.0), Constant(-2.0), LinearMean().bind(2)]))
    posterior = prior.process(RNG.normal(size=(N, L)), SoftmaxConditioning(prior, PI))
    draws = posterior.sample(NEW, 40000, rng=1)
    assert draws.shape == (40000, 4, L)
    se = np.sqrt(posterior.variance(NEW) / 40000)
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean(NEW)) < 5 * se)
    empirical = np.einsum("sic,sid->icd", draws - posterior.mean(NEW), draws - posterior.mean(NEW)) / 40000
    np.testing.assert_allclose(empirical, posterior.blocks(NEW), atol=0.06)
    from_prior = prior.unwhiten(np.random.default_rng(0).standard_normal((40000, N, L)))
    np.testing.assert_allclose(from_prior.var(axis=0), prior.diagonal, rtol=0.05)
    assert np.all(np.abs(from_prior.mean(axis=0) - prior.mean) < 5 * np.sqrt(prior.diagonal / 40000))


@pytest.mark.parametrize("kernel", [SHARED, OWN], ids=["shared", "own"])
def test_pulls_against_finite_differences(kernel):
    kernel = kernel.bind(2)
    means = PerLatent([Constant(0.3), LinearMean(), Constant(1.0)]).bind(2)
    G = RNG.normal(size=(L, N, N))
    G = G + G.transpose(0, 2, 1)
    g = RNG.normal(size=(N, L))

    def value(kernel, means):
        prior = SeveralDense(kernel, X, L, means)
        return sum(np.vdot(G[c], p.covariance) for c, p in enumerate(prior.functions)) + np.vdot(
            g, prior.mean
        )

    prior = SeveralDense(kernel, X, L, means)
    np.testing.assert_allclose(
        prior.times(g), np.column_stack([p.covariance @ g[:, c] for c, p in enumerate(prior.functions)])
    )
    found = [prior.pull(lambda c, rows, columns: G[c][rows, columns].copy()), prior.pull_mean(g)]
    for which, part in enumerate((kernel, means)):
        slopes = []
        for i in range(part.theta.size):
            ends = []
            for sign in (1, -1):
                theta = part.theta.copy()
                theta[i] += sign * 1e-5
                moved = part.replace(theta)
                ends.append(value(moved, means) if which == 0 else value(kernel, moved))
            slopes.append((ends[0] - ends[1]) / 2e-5)
        np.testing.assert_allclose(part.to_theta(found[which]), slopes, rtol=1e-6, atol=1e-6)
    assert SeveralDense(kernel, X, L).pull_mean(g).size == 0


def test_mean_gradient_against_finite_differences():
    prior = SeveralDense(OWN.bind(2), X, L, PerLatent([Constant(1.0), LinearMean(), Constant(0.0)]).bind(2))
    posterior = prior.process(RNG.normal(size=(N, L)), SoftmaxConditioning(prior, PI))
    slopes = posterior.mean_gradient(NEW)
    for d in range(2):
        step = np.zeros(2)
        step[d] = 1e-5
        numeric = (posterior.mean(NEW + step) - posterior.mean(NEW - step)) / 2e-5
        np.testing.assert_allclose(slopes[:, d, :], numeric, atol=1e-8)
    with pytest.raises(ValueError, match="one latent function"):
        posterior.variance_gradient(NEW)


def test_negative_curvature_that_outweighs_the_prior_is_refused():
    prior = SeveralDense(SHARED, X, L)
    with pytest.raises(ImproperPosteriorError, match="improper"):
        BlockConditioning(prior, -softmax_W(5 * PI))


def test_names_are_numbered_and_values_are_replaced():
    assert OWN.names[:2] == ("se.variance", "se.lengthscale")
    assert "se_2.lengthscale[1]" in OWN.names
    assert "matern.variance" in OWN.names
    moved = OWN.replace(OWN.theta + 1.0)
    np.testing.assert_allclose(moved.theta, OWN.theta + 1.0)
    assert len(moved) == 3
    assert moved[0].flat == pytest.approx(np.e * np.array(OWN[0].flat))
    assert repr(PerLatent([SHARED, SHARED])) == f"[{SHARED!r}, {SHARED!r}]"


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="3 latent functions, got 2 kernels"):
        SeveralDense(PerLatent([SHARED, SHARED]), X, 3)
    prior = SeveralDense(SHARED, X, L)
    with pytest.raises(ValueError, match="5 columns"):
        prior.process(np.zeros((N, L)), SoftmaxConditioning(prior, PI)).mean(np.zeros((2, 5)))


def test_memory_is_shared_between_evaluations():
    inputs = Inputs(X)
    first = SeveralDense(OWN, inputs, L).functions[1].covariance
    second = SeveralDense(OWN, inputs, L).functions[1].covariance
    assert np.shares_memory(first, second)
