"""Lower bound, divergence and WAIC against dense algebra, sampling and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from cavity.assessment.waic import log_prob_variance, waic, waic_from_marginals
from cavity.inference.base import Approximation, UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.inference.laplace.rule import Laplace as LaplaceRule
from cavity.inference.variational.elbo import evidence_lower_bound, lower_bound
from cavity.inference.variational.rule import Variational
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods import (
    Gaussian,
    KnownNoise,
    Laplace,
    MixtureOfGaussians,
    Observations,
    Softmax,
    StudentT,
)
from cavity.means.basis import Basis
from cavity.means.functions import Constant
from tests.inference.variational_cases import (
    inputs,
    likelihoods,
    mixture_log_evidence,
    normal_panels,
    targets,
)


def prior_of(X, variance=1.5, length=1.0, mean=None):
    return DensePrior((variance * SE(length)).bind(X.shape[1]), X, mean)


def dense(prior, sites):
    """Mean and covariance of prior times sites by textbook algebra."""
    K, m0 = prior.covariance.copy(), prior.mean
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(sites.precision))
    return S @ (np.linalg.solve(K, m0) + sites.shift), S, K


MIXED = Sites(np.array([1.0, -2.0, 0.5, 0.3, 3.0]), np.array([2.0, 0.0, -0.3, 5.0, 1.0]))


# --- divergence ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [None, Constant(0.7)])
def test_divergence_of_sites_of_any_sign(mean):
    prior = prior_of(np.linspace(-3, 3, 5)[:, None], mean=mean)
    m, S, K = dense(prior, MIXED)
    d = m - prior.mean
    truth = 0.5 * (
        np.trace(np.linalg.solve(K, S))
        - 5
        + d @ np.linalg.solve(K, d)
        + np.linalg.slogdet(K)[1]
        - np.linalg.slogdet(S)[1]
    )
    assert Conditioned(prior, MIXED).kl == pytest.approx(truth, rel=1e-10)


def test_divergence_by_sampling():
    prior = prior_of(np.linspace(-3, 3, 5)[:, None])
    m, S, K = dense(prior, MIXED)
    draws = np.random.default_rng(0).multivariate_normal(m, S, 40_000)
    ratio = stats.multivariate_normal(m, S).logpdf(draws) - stats.multivariate_normal(np.zeros(5), K).logpdf(
        draws
    )
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(Conditioned(prior, MIXED).kl - ratio.mean()) < 4 * error


def test_divergence_survives_a_singular_prior():
    """Repeated inputs: K has no inverse, the divergence is that of the distinct points with added sites."""
    X = np.array([[0.0], [0.0], [1.0]])
    q = Conditioned(prior_of(X), Sites(np.array([1.0, 2.0, -1.0]), np.array([1.0, 3.0, 2.0])))
    merged = Conditioned(prior_of(X[1:]), Sites(np.array([3.0, -1.0]), np.array([4.0, 2.0])))
    assert q.kl == pytest.approx(merged.kl, rel=1e-10)


def test_sites_that_say_nothing_have_no_divergence():
    assert Conditioned(prior_of(inputs(4)), Sites.zero(4)).kl == 0.0


# --- the bound ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), KnownNoise(np.linspace(0.1, 0.5, 12), 0.2)])
def test_bound_is_tight_at_the_exact_posterior(likelihood):
    X, y = inputs(12), targets("real", 12)
    exact = Exact().infer(prior_of(X, mean=Constant(0.4)), Observations(likelihood, y))
    assert lower_bound(exact, Observations(likelihood, y)) == pytest.approx(exact.log_evidence, abs=1e-9)


def test_bound_with_weights_is_tight_too():
    X, y, w = inputs(12), targets("real", 12), np.linspace(0.5, 2.0, 12)
    exact = Exact().infer(prior_of(X), Observations(Gaussian(0.3), y, w))
    assert lower_bound(exact, Observations(Gaussian(0.3), y, w)) == pytest.approx(
        exact.log_evidence, abs=1e-9
    )


@pytest.mark.parametrize("seed", range(3))
def test_any_gaussian_is_below_the_evidence_and_the_variational_one_is_highest(seed):
    X, y = inputs(8, seed), targets("real", 8, seed)
    likelihood = MixtureOfGaussians(0.2, 0.2, 8.0)
    truth = mixture_log_evidence(likelihood, prior_of(X).covariance, y)
    best = Variational().infer(prior_of(X), Observations(likelihood, y))
    assert lower_bound(best, Observations(likelihood, y)) == pytest.approx(best.log_evidence, abs=1e-9)
    rng = np.random.default_rng(seed)
    for _ in range(10):
        precision = best.sites.precision * rng.uniform(0.7, 1.4, 8)
        sites = Sites(best.sites.shift + 0.3 * rng.standard_normal(8), precision)
        value = evidence_lower_bound(Conditioned(prior_of(X), sites), Observations(likelihood, y))
        assert value < best.log_evidence < truth


def test_bound_at_laplaces_approximation():
    likelihood, kind = likelihoods(10)["probit"]
    X, y = inputs(10), targets(kind, 10)
    found = LaplaceRule().infer(prior_of(X), Observations(likelihood, y))
    best = Variational().infer(prior_of(X), Observations(likelihood, y))
    assert best.log_evidence - 0.5 < lower_bound(found, Observations(likelihood, y)) < best.log_evidence


def test_bound_by_sampling():
    """E_q[log p(y, f) - log q(f)] from draws, with its standard error."""
    X, y, likelihood = np.linspace(-3, 3, 5)[:, None], targets("real", 5), StudentT(0.4, 3.0)
    prior = prior_of(X)
    m, S, K = dense(prior, MIXED)
    f = np.random.default_rng(1).multivariate_normal(m, S, 40_000)
    log_joint = stats.t.logpdf(y - f, 3.0, scale=0.4).sum(axis=1)
    log_joint += stats.multivariate_normal(np.zeros(5), K).logpdf(f)
    terms = log_joint - stats.multivariate_normal(m, S).logpdf(f)
    value = evidence_lower_bound(Conditioned(prior, MIXED), Observations(likelihood, y))
    assert abs(value - terms.mean()) < 4 * terms.std() / np.sqrt(len(terms))


FINITE = Basis("linear", prior_mean=[0.5, -1.0], prior_covariance=[[4.0, 1.0], [1.0, 9.0]]).bind(1)
VAGUE = Basis("linear").bind(1)
NOISE = KnownNoise(np.linspace(0.05, 0.5, 12), 0.2)


def gaussian_with_basis(X, y, variance, B, b):
    """Mean and covariance of f given y, and log evidence, by explicit matrices with weights ~ N(b, B)."""
    H = np.column_stack([np.ones(len(X)), X[:, 0]])
    K, m = prior_of(X, length=0.3).covariance + H @ B @ H.T, H @ b
    A, r = K + np.diag(variance), y - H @ b
    mean, S = m + K @ np.linalg.solve(A, r), K - K @ np.linalg.solve(A, K)
    log_evidence = -0.5 * (r @ np.linalg.solve(A, r) + np.linalg.slogdet(2 * np.pi * A)[1])
    return mean, S, K, m, log_evidence


def test_marginals_and_divergence_with_basis_functions_integrated_out():
    X, y = inputs(12), targets("real", 12)
    variance = NOISE.noise_variances(12)[0]
    q = Exact().infer(prior_of(X, length=0.3, mean=FINITE), Observations(NOISE, y)).q
    mean, S, K, m, _ = gaussian_with_basis(X, y, variance, FINITE.prior_covariance, FINITE.prior_mean)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(q.var, np.diag(S), rtol=1e-8)
    d, of_K, of_S = mean - m, np.linalg.slogdet(K)[1], np.linalg.slogdet(S)[1]
    truth = 0.5 * (np.trace(np.linalg.solve(K, S)) - 12 + d @ np.linalg.solve(K, d) + of_K - of_S)
    assert q.kl == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("basis", [FINITE, VAGUE])
@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 12)])
def test_bound_with_basis_functions_is_tight(basis, weight):
    """At the exact posterior the bound is the evidence, also in the limit of vague weights."""
    X, y = inputs(12), targets("real", 12)
    exact = Exact().infer(prior_of(X, length=0.3, mean=basis), Observations(NOISE, y, weight))
    assert lower_bound(exact, Observations(NOISE, y, weight)) == pytest.approx(exact.log_evidence, abs=1e-9)


def test_vague_weights_are_the_limit_of_wide_ones():
    """With weights ~ N(0, c I) the bound loses log c as c grows: 2 weights, each log sqrt(2 pi c)."""
    X, y, c = inputs(12), targets("real", 12), 1e6
    variance = NOISE.noise_variances(12)[0]
    vague = Exact().infer(prior_of(X, length=0.3, mean=VAGUE), Observations(NOISE, y))
    mean, S, *_, log_evidence = gaussian_with_basis(X, y, variance, c * np.eye(2), np.zeros(2))
    np.testing.assert_allclose(vague.q.mean, mean, atol=1e-4)
    np.testing.assert_allclose(vague.q.var, np.diag(S), atol=1e-4)
    assert lower_bound(vague, Observations(NOISE, y)) == pytest.approx(
        log_evidence + np.log(2 * np.pi * c), abs=1e-4
    )


def test_approximations_without_a_bound_are_refused():
    X, y = inputs(6), targets("real", 6)
    variational = Variational().infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    with pytest.raises(UnsupportedPairError, match="noise of positive variance"):
        lower_bound(Approximation(variational.process, 0.0), Observations(StudentT(0.3, 3.0), y))


# --- WAIC ---------------------------------------------------------------------------------------------------


def test_waic_of_gaussian_noise_in_closed_form():
    X, y, s = inputs(12), targets("real", 12), 0.3
    found = Exact().infer(prior_of(X), Observations(Gaussian(s), y))
    m, v = found.process.mean(X), found.process.variance(X)
    result = waic(found, Gaussian(s), y)
    np.testing.assert_allclose(result.log_density, stats.norm.logpdf(y, m, np.sqrt(v + s)), rtol=1e-9)
    penalty = 0.5 * (v / s) ** 2 + (y - m) ** 2 * v / s**2  # variance of a noncentral chi-square
    np.testing.assert_allclose(result.variance, penalty, rtol=1e-9)
    elpd = stats.norm.logpdf(y, m, np.sqrt(v + s)) - penalty
    np.testing.assert_allclose(result.pointwise, elpd, rtol=1e-9)
    assert result.elpd == pytest.approx(elpd.sum(), rel=1e-9)
    assert result.deviance == pytest.approx(-2 * elpd.sum(), rel=1e-9)
    assert result.effective_parameters == pytest.approx(penalty.sum(), rel=1e-9)
    assert result.standard_error == pytest.approx(np.sqrt(12 * elpd.var(ddof=1)), rel=1e-9)
    assert result.unreliable.tolist() == np.flatnonzero(penalty > 0.4).tolist()


@pytest.mark.parametrize("basis", [FINITE, VAGUE])
def test_waic_with_basis_functions_by_sampling(basis):
    """Draws of the weights and of f together, given the data, from explicit matrices."""
    X, y = inputs(12), targets("real", 12)
    result = waic(Exact().infer(prior_of(X, length=0.3, mean=basis), Observations(NOISE, y)), NOISE, y)
    B = 1e6 * np.eye(2) if basis.vague else basis.prior_covariance
    mean, S, *_ = gaussian_with_basis(X, y, NOISE.noise_variances(12)[0], B, basis.prior_mean)
    f = np.random.default_rng(3).multivariate_normal(mean, S, 100_000)
    log_p = stats.norm.logpdf(y, f, np.sqrt(NOISE.noise_variances(12)[0]))
    p = np.exp(log_p)
    error = p.std(axis=0) / p.mean(axis=0) / np.sqrt(len(p))
    assert np.all(np.abs(result.log_density - np.log(p.mean(axis=0))) < 4.5 * error)
    squares = (log_p - log_p.mean(axis=0)) ** 2
    assert np.all(
        np.abs(result.variance - squares.mean(axis=0)) < 4.5 * squares.std(axis=0) / np.sqrt(len(p))
    )


@pytest.mark.parametrize("name", sorted(likelihoods(6)))
def test_variance_of_the_log_density_by_fixed_panels(name):
    likelihood, kind = likelihoods(6)[name]
    y = targets(kind, 6)
    m, v = np.linspace(-1, 1, 6), np.array([1e-6, 1e-2, 0.3, 1.0, 4.0, 9.0])
    found = log_prob_variance(likelihood, y, m, v)
    for i in range(6):
        f, w = normal_panels(m[i], v[i], likelihood.break_points(y)[:, i])
        row = likelihood.rows(np.full(len(f), i))
        values = row.log_prob(np.full(len(f), y[i]), f)
        truth = w @ (values - w @ values) ** 2
        assert found[i] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("likelihood", [StudentT(0.3, 3.0), Laplace(0.3), MixtureOfGaussians(0.2, 0.2, 8.0)])
def test_waic_by_sampling(likelihood):
    y, m, v = np.array([0.2, 1.5, -3.0]), np.array([0.0, 0.5, 0.3]), np.array([0.1, 0.5, 1.0])
    result = waic_from_marginals(likelihood, y, m, v)
    f = m + np.sqrt(v) * np.random.default_rng(2).standard_normal((200_000, 3))
    log_p = likelihood.log_prob(y, f)
    p = np.exp(log_p)
    density_error = p.std(axis=0) / p.mean(axis=0) / np.sqrt(len(p))
    assert np.all(np.abs(result.log_density - np.log(p.mean(axis=0))) < 4 * density_error)
    squares = (log_p - log_p.mean(axis=0)) ** 2
    variance_error = squares.std(axis=0) / np.sqrt(len(squares))
    assert np.all(np.abs(result.variance - squares.mean(axis=0)) < 4 * variance_error)


def test_waic_is_close_to_refitting_without_each_point():
    """On regular data all that WAIC estimates is the leave-one-out log density."""
    n = 30
    X = np.linspace(-3, 3, n)[:, None]
    likelihood = StudentT(0.3, 5.0)
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).standard_t(5.0, n)
    found = Variational().infer(prior_of(X), Observations(likelihood, y))
    result = waic(found, likelihood, y)
    refitted = np.empty(n)
    for i in range(n):
        w = np.ones(n)
        w[i] = 0.0
        process = Variational().infer(prior_of(X), Observations(likelihood, y, w)).process
        moments = process.mean(X[i : i + 1]), process.variance(X[i : i + 1])
        refitted[i] = likelihood.predictive(*moments).log_prob(y[i : i + 1])[0]
    optimism = result.log_density.sum() - refitted.sum()
    assert abs(result.elpd - refitted.sum()) < 0.25 * optimism


def test_waic_needs_one_latent_value():
    X, y = inputs(6), targets("real", 6)
    found = Variational().infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    with pytest.raises(UnsupportedPairError, match="Softmax with 3 latent values"):
        waic(found, Softmax(3), np.zeros(6))


def test_standard_error_needs_two_points():
    assert np.isnan(waic_from_marginals(Gaussian(1.0), np.zeros(1), np.zeros(1), np.ones(1)).standard_error)
