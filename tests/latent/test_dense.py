"""The dense prior: covariance in tiles, conditioning on observations and on sites, pullbacks, whitening."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels import SE, Constant, Linear, Matern, White
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.dense import DensePrior
from cavity.means.functions import Linear as LinearMean
from cavity.numerics.cholesky import NotPositiveDefiniteError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2))
KERNEL = 1.3 * SE([0.8, 1.5]) + 0.2 * Matern(1.0, nu=1.5)


def prior(**options) -> DensePrior:
    return DensePrior(KERNEL, X, **options)


def lower_as_full(R: np.ndarray) -> np.ndarray:
    return np.tril(R) + np.tril(R, -1).T


PRECISIONS = {
    "positive": np.exp(RNG.standard_normal(12)),
    "with zeros": np.where(np.arange(12) % 3 == 0, 0.0, 2.0),
    "mixed": np.where(np.arange(12) % 4 == 0, -0.3, np.exp(RNG.standard_normal(12))),
    "mixed with zeros": np.array([0, -0.2, 3, 0, 1, -0.1, 2, 0, 5, 1, -0.4, 0.01]),
    "negative": np.full(12, -0.02),
    "none": np.zeros(12),
    "huge and tiny": np.where(np.arange(12) % 2 == 0, 1e8, 1e-9),
}


# --- the covariance matrix ----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 300])
def test_covariance_agrees_with_the_kernel(n):
    Z = np.random.default_rng(1).standard_normal((n, 2))
    p = DensePrior(KERNEL + White(0.1), Z)
    np.testing.assert_allclose(p.covariance, (KERNEL + White(0.1))(Z), rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(p.covariance, p.covariance.T)
    np.testing.assert_allclose(p.diagonal, np.diag(p.covariance), rtol=1e-14)


def test_mean_function_at_the_inputs():
    mean = LinearMean(0.5, [1.0, -2.0])
    np.testing.assert_allclose(prior(mean_function=mean).mean, 0.5 + X @ [1.0, -2.0])
    assert not prior().mean.any()


def test_a_workspace_is_used_by_one_prior_after_the_other():
    space = Inputs(X)
    first = DensePrior(SE(1.0), space).covariance.copy()
    second = DensePrior(SE(2.0), space).covariance
    np.testing.assert_allclose(first, SE(1.0)(X))
    np.testing.assert_allclose(second, SE(2.0)(X))


# --- observations -------------------------------------------------------------------------------------------


def test_observed_correction_is_the_inverse():
    variance = np.exp(RNG.standard_normal(12))
    A = KERNEL(X) + np.diag(variance)
    R = np.linalg.inv(A)
    correction = prior().observe(variance)
    U = RNG.standard_normal((12, 3))
    np.testing.assert_allclose(correction.apply(U), R @ U, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(correction.apply(U[:, 0]), R @ U[:, 0], rtol=1e-11, atol=1e-13)
    minus, plus = correction.reduce(U)
    assert plus is None
    np.testing.assert_allclose(minus.T @ minus, U.T @ R @ U, rtol=1e-11)
    np.testing.assert_allclose(correction.matrix(), R, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(correction.unexplained, np.diag(R), rtol=1e-11)
    np.testing.assert_allclose(correction.apply(U), R @ U, rtol=1e-11, atol=1e-13)  # still there


@pytest.mark.parametrize("k", [1, 7, 11])
def test_more_observations_extend_the_factor(k):
    variance = np.exp(RNG.standard_normal(12))
    known = DensePrior(KERNEL, X[:k]).observe(variance[:k])
    extended = prior().observe_more(known, variance)
    fresh = prior().observe(variance)
    np.testing.assert_allclose(np.tril(extended.factor.lower), np.tril(fresh.factor.lower), atol=1e-13)
    assert extended.factor.log_det == pytest.approx(fresh.factor.log_det, rel=1e-12)


def test_more_observations_that_need_jitter_start_afresh():
    Z = np.vstack([np.linspace(0, 5, 6)[:, None], [[0.0], [1.0]]])
    known = DensePrior(SE(1.0), Z[:6]).observe(np.zeros(6))
    assert known.jitter == 0.0
    extended = DensePrior(SE(1.0), Z).observe_more(known, np.zeros(8))
    assert extended.jitter > 0.0
    np.testing.assert_allclose(
        np.tril(extended.factor.lower), np.tril(DensePrior(SE(1.0), Z).observe(np.zeros(8)).factor.lower)
    )


def test_more_observations_keep_the_jitter_of_the_first():
    Z = np.array([[0.0], [0.0], [3.0]])
    known = DensePrior(SE(1.0), Z[:2]).observe(np.zeros(2))
    extended = DensePrior(SE(1.0), Z).observe_more(known, np.zeros(3))
    assert extended.jitter == known.jitter > 0.0
    L = np.tril(extended.factor.lower)
    np.testing.assert_allclose(L @ L.T, SE(1.0)(Z) + known.jitter * np.eye(3), atol=1e-15)


# --- the error that explains --------------------------------------------------------------------------------


def test_a_singular_covariance_names_repeated_rows_length_scales_and_noise():
    Z = np.vstack([X, X[:2]])
    bad = DensePrior(SE(1.0), Z)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        bad.observe(np.full(14, -1.0))
    text = str(caught.value)
    assert "2 input rows repeat earlier ones (rows 0 and 12, 1 and 13)" in text
    assert "length scales far longer than the data's extent" in text
    assert "no noise" in text
    assert "repeat" not in DensePrior(SE(1.0), X).explain()


# --- sites of either sign -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRECISIONS)
def test_site_correction_agrees_with_dense_inverses(name):
    tau, K = PRECISIONS[name], KERNEL(X)
    sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(tau))
    R = np.linalg.solve(K, np.linalg.solve(K, K - sigma).T)  # K - K R K = sigma
    p = prior()
    correction = p.condition(tau)
    tol = 1e-7 * max(np.abs(tau).max(), 1e-4)
    U = RNG.standard_normal((12, 3))
    np.testing.assert_allclose(correction.apply(U), R @ U, atol=10 * tol)
    np.testing.assert_allclose(correction.apply(U[:, 1]), R @ U[:, 1], atol=10 * tol)
    np.testing.assert_allclose(correction.matrix(), R, atol=tol)
    cross = KERNEL(X, RNG.standard_normal((5, 2)))
    minus, plus = correction.reduce(cross)
    middle = minus.T @ minus - (0.0 if plus is None else plus.T @ plus)
    np.testing.assert_allclose(middle, cross.T @ R @ cross, atol=1e-7)
    sign, log_det = np.linalg.slogdet(np.eye(12) + K * tau)
    assert sign > 0
    assert correction.log_det == pytest.approx(log_det, rel=1e-9, abs=1e-12)
    np.testing.assert_allclose(correction.var, np.diag(sigma), rtol=1e-7)


def test_marginal_variances_keep_their_digits_where_sites_are_sharp():
    """Two nearly equal inputs, one with a site a billion times as precise as the other's."""
    Z = np.array([[0.0], [1e-7], [2.0]])
    tau = np.array([1e9, 1.0, 1e-6])
    p = DensePrior(SE(1.0), Z)
    var = p.condition(tau).var
    import mpmath

    with mpmath.workdps(60):
        K = mpmath.matrix(
            [[mpmath.exp(-((mpmath.mpf(float(a)) - float(b)) ** 2) / 2) for b in Z[:, 0]] for a in Z[:, 0]]
        )
        exact = (K**-1 + mpmath.diag([mpmath.mpf(float(t)) for t in tau])) ** -1
        truth = np.array([float(exact[i, i]) for i in range(3)])
    np.testing.assert_allclose(var, truth, rtol=1e-6)


def test_an_improper_posterior_is_refused_by_name_of_the_point():
    tau = np.ones(12)
    tau[7] = -50.0
    with pytest.raises(ImproperPosteriorError, match=r"improper.*largest at point 7"):
        prior().condition(tau)


def test_the_edge_of_impropriety_is_where_the_precision_matrix_loses_definiteness():
    K = KERNEL(X)
    tau = np.ones(12)
    tau[7] = 0.0
    edge = -1.0 / np.linalg.inv(np.linalg.inv(K) + np.diag(tau))[7, 7]
    tau[7] = edge * (1 - 1e-6)
    assert np.isfinite(prior().condition(tau).log_det)
    tau[7] = edge * (1 + 1e-6)
    with pytest.raises(ImproperPosteriorError):
        prior().condition(tau)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_sites_that_are_not_finite_are_refused(bad):
    tau = np.ones(12)
    tau[3] = bad
    with pytest.raises(ImproperPosteriorError, match="not finite"):
        prior().condition(tau)


# --- pullbacks and whitening --------------------------------------------------------------------------------


def test_pull_agrees_with_the_kernels_own_pullback():
    Z = np.random.default_rng(4).standard_normal((260, 2))
    G = np.random.default_rng(5).standard_normal((260, 260))
    G += G.T
    p = DensePrior(KERNEL, Z)
    _, pullback = KERNEL.forward(Z)
    pulled = KERNEL.to_theta(p.pull(lambda r, c: G[r, c].copy()))
    np.testing.assert_allclose(pulled, pullback(G), rtol=1e-10)


def test_pull_of_the_mean():
    g = RNG.standard_normal(12)
    p = prior(mean_function=LinearMean(0.0, [0.0, 0.0]))
    np.testing.assert_allclose(p.pull_mean(g), [g.sum(), *(g @ X)])
    assert prior().pull_mean(g).shape == (0,)


def test_unwhitened_draws_have_the_prior_moments():
    mean = LinearMean(0.5, [1.0, -2.0])
    p = prior(mean_function=mean)
    np.testing.assert_allclose(p.unwhiten(np.zeros(12)), mean(X))
    M = p.unwhiten(np.eye(12)) - mean(X)[:, None]
    np.testing.assert_allclose(M @ M.T, KERNEL(X), atol=1e-12)


def test_whitening_a_degenerate_kernel_takes_jitter():
    p = DensePrior(Linear(1.0) + Constant(1.0), X)
    M = p.unwhiten(np.eye(12))
    assert 0 < p.factor.jitter < 1e-9
    np.testing.assert_allclose(M @ M.T, p.covariance, atol=1e-9)
