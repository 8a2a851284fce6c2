"""Pareto-smoothed importance sampling: against ArviZ, known tails, and evidences known otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import genpareto

from cavity.gp import GP
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, Probit, Softmax, StudentT
from cavity.sampling.psis import fit_generalized_pareto, importance_evidence, pareto_smoothed


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("draws", [200, 1000, 20_000])
def test_smoothing_agrees_with_arviz(scale, draws):
    arviz = pytest.importorskip("arviz")
    log_w = scale * np.random.default_rng(draws).standard_t(5, draws) - 700.0
    ours, k = pareto_smoothed(log_w)
    theirs, their_k = arviz.psislw(log_w.copy())
    np.testing.assert_allclose(k, float(their_k), rtol=1e-10)
    np.testing.assert_allclose(ours - logsumexp(ours), np.asarray(theirs), atol=1e-9)


@pytest.mark.parametrize("k", [-0.3, 0.2, 0.7, 1.5])
def test_shape_and_scale_of_a_known_tail(k):
    x = genpareto(k, scale=2.5).rvs(20_000, random_state=np.random.default_rng(1))
    shape, sigma = fit_generalized_pareto(x)
    assert shape == pytest.approx(k, abs=0.05)
    assert sigma == pytest.approx(2.5, rel=0.05)


def test_ratios_of_normals_have_the_shape_of_theory():
    # Draws of N(0, s^2), s < 1, for N(0, 1): P(ratio > t) falls as t^(-1/k) with k = 1 - s^2.
    rng = np.random.default_rng(2)
    for s, heavy in ((0.9, False), (0.4, True)):
        x = s * rng.standard_normal(100_000)
        _, k = pareto_smoothed(-0.5 * x**2 + 0.5 * (x / s) ** 2)
        assert (k > 0.7) == heavy


def test_smoothing_keeps_order_and_never_exceeds_the_largest():
    log_w = 4.0 * np.random.default_rng(3).standard_normal(500)
    smoothed, _ = pareto_smoothed(log_w)
    assert smoothed.max() <= log_w.max()
    assert np.all(np.diff(smoothed[np.argsort(log_w)]) >= 0)


def test_degenerate_weights():
    equal, k = pareto_smoothed(np.full(300, -5.0))
    assert k == -np.inf
    np.testing.assert_array_equal(equal, -5.0)
    few = np.array([0.0, 1.0, 2.0])
    assert pareto_smoothed(few)[1] == np.inf
    assert pareto_smoothed(np.full(300, -np.inf))[1] == np.inf
    some = np.where(np.arange(300) < 150, -np.inf, np.linspace(0, 1, 300))
    smoothed, k = pareto_smoothed(some)
    assert np.isfinite(k)
    assert not np.isnan(smoothed).any()
    spike = np.full(300, -800.0)
    spike[7] = 0.0
    assert pareto_smoothed(spike)[1] == np.inf  # one draw has it all


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 2)), np.zeros(0), np.array([0.0, np.nan]), np.array([np.inf, 0.0])]
)
def test_bad_weights_are_named(bad):
    with pytest.raises(ValueError, match="log_weights"):
        pareto_smoothed(bad)


def test_bad_exceedances_are_named():
    with pytest.raises(ValueError, match="exceedances"):
        fit_generalized_pareto(np.array([-1.0, 2.0]))


# --- the evidence from a Gaussian approximation ---------------------------------------------------------------


def two_labels():
    X, y = np.array([[0.0], [0.7]]), np.array([1.0, -1.0])
    K = 9.0 * SE(1.0)(X)
    # by brute force: a fine grid in two dimensions
    from scipy.special import log_ndtr

    g = np.linspace(-25, 25, 1501)
    A, B = np.meshgrid(g, g, indexing="ij")
    F = np.stack([A.ravel(), B.ravel()], axis=1)
    log_p = -0.5 * np.sum(F * np.linalg.solve(K, F.T).T, axis=1) - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    truth = logsumexp(log_p + log_ndtr(F * y).sum(axis=1)) + 2 * np.log(g[1] - g[0])
    return X, y, truth


@pytest.mark.parametrize("rule", ["ep", "variational"])
def test_evidence_of_two_labels(rule):
    X, y, truth = two_labels()
    model = GP(9.0 * SE(1.0), Probit(), inference=rule)
    found = importance_evidence(model.condition(X, y), 40_000, rng=0)
    assert found.certified
    assert found.effective_size > 10_000
    assert abs(found.log_evidence - truth) < 4 * found.standard_error
    assert found.standard_error < 0.02


def test_weights_and_means_are_taken_into_account():
    # powers of Gaussian noise have a closed form, and EP is exact there: every ratio is the same
    rng = np.random.default_rng(4)
    X, w = rng.uniform(-2, 2, (15, 1)), rng.uniform(0.5, 2.0, 15)
    y = np.sin(X[:, 0]) + 3.0
    model = GP(1.0 * SE(1.0), Gaussian(0.1), mean="constant", inference="ep")
    posterior = model.condition(X, y, sample_weight=w)
    found = importance_evidence(posterior, 500, rng=0)
    np.testing.assert_allclose(found.log_evidence, posterior.log_evidence, atol=1e-6)
    assert found.standard_error < 1e-6


def test_many_points_are_refused():
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (150, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    found = importance_evidence(GP(400.0 * SE(1.0), Probit(), inference="ep").condition(X, y), 4000, rng=0)
    assert not found.certified
    assert found.k_hat > 0.7
    assert "annealed" in found.reason


def test_misuse_is_explained():
    X, y = np.linspace(0, 1, 6)[:, None], np.arange(6.0)
    with pytest.raises(ValueError, match="no sites"):
        importance_evidence(GP(1.0 * SE(1.0)).condition(X, y))
    posterior = GP(1.0 * SE(1.0), StudentT(), inference="ep").condition(X, y)
    with pytest.raises(ValueError, match="size must be"):
        importance_evidence(posterior, 10)
    several = GP(1.0 * SE(1.0), Softmax(3), inference="laplace").condition(X, np.array([0, 1, 2, 0, 1, 2]))
    with pytest.raises(ValueError, match=r"no sites|one latent"):
        importance_evidence(several)
