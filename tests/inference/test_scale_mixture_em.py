"""Variational EM with latent noise precisions against the thesis, enumeration and exact inference."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize
from scipy.special import digamma, gammaln

from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.inference.variational.natural_gradient import maximize_bound
from cavity.inference.variational.rule import Variational
from cavity.inference.variational.scale_mixture_em import ScaleMixtureEM, squared_residual_bound
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.likelihoods import Gaussian, Laplace, MixtureOfGaussians, Observations, Probit, StudentT
from tests.inference.variational_cases import (
    grid_log_evidence,
    inputs,
    mixture_log_evidence,
    richardson,
    targets,
)
from tests.warm import Evaluations

NOISE = {
    "student-t": StudentT(0.3, 3.0),
    "heavy": StudentT(0.2, 1.2),
    "laplace": Laplace(0.3),
    "mixture": MixtureOfGaussians(0.2, 0.2, 8.0),
}


def prior_of(X, variance=1.5, length=1.0):
    return DensePrior((variance * SE(length)).bind(X.shape[1]), X)


def algorithm_2(K, y, alpha, beta, sweeps=400):
    """The E-step of the thesis, iterated, with its bound V = (5.39) + ... + (5.43) after every half step."""
    m_count = len(y)
    a, b = np.full(m_count, alpha + 0.5), np.ones(m_count)
    history = []

    def bound(m, A):
        ratio = a / b
        e39 = -0.5 * m_count * np.log(2 * np.pi) - 0.5 * np.sum(np.log(b) - digamma(a))
        e39 -= 0.5 * np.sum(ratio * ((y - m) ** 2 + np.diagonal(A)))
        e40 = np.sum(
            -ratio * beta + alpha * np.log(beta) - gammaln(alpha) + (1 + alpha) * (digamma(a) - np.log(b))
        )
        e41 = -0.5 * m_count * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(K)[1]
        e41 -= 0.5 * m @ np.linalg.solve(K, m) + 0.5 * np.trace(np.linalg.solve(K, A))
        e42 = 0.5 * m_count * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(A)[1] + 0.5 * m_count
        e43 = np.sum(a + np.log(b) + gammaln(a) - (1 + a) * digamma(a))
        return e39 + e40 + e41 + e42 + e43

    for _ in range(sweeps):
        A = np.linalg.inv(np.linalg.inv(K) + np.diag(a / b))
        m = A @ (a / b * y)
        history.append(bound(m, A))
        b = beta + 0.5 * ((y - m) ** 2 + np.diagonal(A))
        history.append(bound(m, A))
    return np.array(history), m, A


# --- the thesis' algorithm ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "df"), [(0.3, 3.0), (0.5, 1.0), (0.2, 8.0)])
def test_same_fixed_point_and_bound_as_algorithm_2(scale, df):
    X = np.linspace(-4, 4, 10)[:, None]
    y = targets("real", 10)
    likelihood = StudentT(scale, df)
    history, m, A = algorithm_2(prior_of(X).covariance.copy(), y, 0.5 * df, 0.5 * df * scale**2)
    assert np.all(np.diff(history) > -1e-9)
    found = ScaleMixtureEM(tolerance=1e-9).infer(prior_of(X), Observations(likelihood, y))
    assert found.status.converged
    assert found.log_evidence == pytest.approx(history[-1], abs=1e-8)
    np.testing.assert_allclose(found.process.mean(X), m, atol=1e-6)
    np.testing.assert_allclose(found.process.variance(X), np.diagonal(A), atol=1e-6)


def test_site_precisions_are_the_expected_noise_precisions():
    X, y = np.linspace(-4, 4, 15)[:, None], targets("real", 15)
    likelihood = StudentT(0.3, 3.0)
    found = ScaleMixtureEM(tolerance=1e-9).infer(prior_of(X), Observations(likelihood, y))
    m, v = found.process.mean(X), found.process.variance(X)
    alpha, beta = 1.5 + 0.5, 0.5 * 3.0 * 0.09 + 0.5 * ((y - m) ** 2 + v)
    np.testing.assert_allclose(found.sites.precision, alpha / beta, rtol=1e-6)
    np.testing.assert_allclose(found.sites.shift, found.sites.precision * y, rtol=1e-6, atol=1e-9)
    assert found.sites.precision.argmin() == 15 // 2  # the outlier


# --- a lower bound that never falls -------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(NOISE))
@pytest.mark.parametrize("seed", range(3))
def test_bound_never_falls(name, seed):
    X, y = inputs(20, seed), targets("real", 20, seed)
    climb = maximize_bound(prior_of(X), squared_residual_bound(NOISE[name], y))
    assert climb.converged
    scale = 1.0 + np.abs(climb.iterate.local.value).sum()
    assert np.all(np.diff(climb.bounds) >= -1e-11 * scale)
    assert climb.bounds[-1] > climb.bounds[0] + 1.0


@pytest.mark.parametrize("name", sorted(NOISE))
@pytest.mark.parametrize("seed", range(3))
def test_below_the_bound_of_the_full_gaussian(name, seed):
    X, y = inputs(12, seed), targets("real", 12, seed)
    em = ScaleMixtureEM().infer(prior_of(X), Observations(NOISE[name], y))
    full = Variational().infer(prior_of(X), Observations(NOISE[name], y))
    assert em.status.converged
    assert full.status.converged
    assert em.log_evidence < full.log_evidence


@pytest.mark.parametrize("seed", range(3))
def test_below_the_exact_evidence_of_mixtures(seed):
    X, y = inputs(8, seed), targets("real", 8, seed)
    found = ScaleMixtureEM().infer(prior_of(X), Observations(NOISE["mixture"], y))
    truth = mixture_log_evidence(NOISE["mixture"], prior_of(X).covariance, y)
    assert truth - 3.0 < found.log_evidence < truth


@pytest.mark.parametrize("name", ["student-t", "laplace"])
def test_below_the_evidence_by_tensor_quadrature(name):
    X, y = np.array([[0.0], [0.7]]), np.array([0.3, 1.5])
    likelihood = NOISE[name]
    found = ScaleMixtureEM().infer(prior_of(X), Observations(likelihood, y))
    truth = grid_log_evidence(
        lambda f: likelihood.log_prob(y, f).sum(axis=1), prior_of(X).covariance, count=1601
    )
    assert truth - 1.0 < found.log_evidence < truth


def test_many_degrees_of_freedom_are_gaussian_noise():
    """The difference vanishes like one over the degrees of freedom."""
    X, y = inputs(15), targets("real", 15)
    exact = Exact().infer(prior_of(X), Observations(Gaussian(0.25), y))
    new = np.linspace(-4, 4, 9)[:, None]
    gaps = []
    for df in (1e5, 1e6):
        found = ScaleMixtureEM(tolerance=1e-9).infer(prior_of(X), Observations(StudentT(0.5, df), y))
        moments = [found.process.mean(new), found.process.variance(new)]
        limit = [exact.process.mean(new), exact.process.variance(new)]
        differences = np.abs(np.subtract(moments, limit))
        gaps.append([abs(found.log_evidence - exact.log_evidence), *differences.max(axis=1)])
    assert np.max(gaps[1]) < 1e-4
    np.testing.assert_allclose(np.divide(gaps[0], gaps[1]), 10.0, rtol=0.02)


@pytest.mark.parametrize("name", sorted(NOISE))
def test_no_gaussian_has_a_higher_bound(name):
    """Maximize sum_i log p(sqrt(E[(y_i - f_i)^2])) - KL over mean and Cholesky factor, for two points."""
    X, y, likelihood = np.array([[0.0], [0.7]]), np.array([0.3, 1.5]), NOISE[name]
    K = prior_of(X).covariance.copy()
    inverse = np.linalg.inv(K)

    def negative_bound(x):
        m, L = x[:2], np.array([[np.exp(x[2]), 0.0], [x[3], np.exp(x[4])]])
        S = L @ L.T
        data = likelihood.log_prob(np.sqrt((y - m) ** 2 + np.diagonal(S)), np.zeros(2)).sum()
        divergence = np.trace(inverse @ S) - 2 + m @ inverse @ m + np.linalg.slogdet(K)[1] - 2 * (x[2] + x[4])
        return 0.5 * divergence - data

    starts = ([0.3, 1.0, -1.0, 0.0, -1.0], [0.2, 0.2, 0.0, 0.0, 0.0], [0.3, 0.3, -2.0, 0.0, -1.0])
    best = min((optimize.minimize(negative_bound, x) for x in starts), key=lambda r: r.fun)
    found = ScaleMixtureEM().infer(prior_of(X), Observations(likelihood, y))
    assert found.log_evidence == pytest.approx(-best.fun, abs=1e-7)
    np.testing.assert_allclose(found.process.mean(X), best.x[:2], atol=1e-3)


# --- several maxima -----------------------------------------------------------------------------------------


def test_several_starts_avoid_calling_everything_an_outlier():
    """From no sites at all, the wide component explains every point and keeps doing so."""
    X = np.linspace(-3, 3, 25)[:, None]
    y = np.sin(X[:, 0])
    y[[5, 17]] += 3.0
    likelihood = MixtureOfGaussians(0.1, 0.05, 60.0)
    one = maximize_bound(prior_of(X), squared_residual_bound(likelihood, y))
    best = ScaleMixtureEM().infer(prior_of(X), Observations(likelihood, y))
    assert one.converged
    assert best.log_evidence > one.iterate.bound + 20
    outlier = best.sites.precision < 1.0
    assert np.flatnonzero(outlier).tolist() == [5, 17]


def test_widened_noise_is_the_density_of_the_widened_variable():
    y, m, v = np.array([0.3, -1.0]), np.array([0.0, 0.2]), np.array([0.4, 0.1])
    wide = squared_residual_bound(StudentT(0.3, 3.0), y, 2.5)(m, v)
    same = squared_residual_bound(StudentT(0.75, 3.0), y)(m, v)
    for a, b in zip(wide[:3], same[:3]):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(NOISE))
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_of_the_reoptimized_bound(name, weighted):
    X, y = inputs(12), targets("real", 12)
    w = np.linspace(0.5, 1.5, 12) if weighted else None
    model = GP(1.5 * SE(1.0), NOISE[name], "constant", ScaleMixtureEM(tolerance=1e-9)).bind(1)
    workspace = Evaluations()
    _, gradient = workspace.evidence(model, X, y, w)
    numeric = richardson(lambda theta: workspace.evidence(model.replace(theta), X, y, w)[0], model.theta)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5 * max(1.0, np.abs(numeric).max()))


def test_weight_two_is_two_observations():
    X, y = inputs(9), targets("real", 9)
    w = np.where(np.arange(9) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(9), w.astype(int))
    for likelihood in (NOISE["student-t"], NOISE["laplace"]):
        a = ScaleMixtureEM().infer(prior_of(X), Observations(likelihood, y, w))
        b = ScaleMixtureEM().infer(prior_of(X[twice]), Observations(likelihood, y[twice]))
        assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-7)


# --- leave-one-out, status, errors --------------------------------------------------------------------------


def test_leave_one_out_is_close_to_refitting():
    n = 14
    X, y, likelihood = inputs(n, 3), targets("real", n, 3), NOISE["student-t"]
    quick = ScaleMixtureEM().leave_one_out(prior_of(X), Observations(likelihood, y)).log_prob(y)
    process = ScaleMixtureEM().infer(prior_of(X), Observations(likelihood, y)).process
    seen = likelihood.predictive(process.mean(X), process.variance(X)).log_prob(y)
    refitted = np.empty(n)
    for i in range(n):
        keep = np.arange(n) != i
        process = ScaleMixtureEM().infer(prior_of(X[keep]), Observations(likelihood, y[keep])).process
        moments = process.mean(X[i : i + 1]), process.variance(X[i : i + 1])
        refitted[i] = likelihood.predictive(*moments).log_prob(y[i : i + 1])[0]
    assert np.abs(quick - refitted).sum() < 0.2 * np.abs(seen - refitted).sum()
    assert np.abs(quick - refitted).max() < 0.25


def test_status():
    X, y = inputs(12), targets("real", 12)
    found = ScaleMixtureEM().infer(prior_of(X), Observations(NOISE["student-t"], y))
    assert found.status.converged
    assert found.status.stage == "scale-mixture EM"
    short = ScaleMixtureEM(max_evaluations=2)
    assert not short.infer(prior_of(X), Observations(NOISE["student-t"], y)).status.converged
    with pytest.raises(InferenceFailedError, match="scale-mixture EM did not converge"):
        short.evidence(prior_of(X), Observations(NOISE["student-t"], y))


def test_other_likelihoods_are_refused_with_alternatives():
    with pytest.raises(UnsupportedPairError, match="got Probit; use inference='variational'"):
        ScaleMixtureEM().infer(prior_of(inputs(4)), Observations(Probit(), np.ones(4)))


def test_by_name():
    X, y = inputs(8), targets("real", 8)
    by_name = GP(SE(1.0), NOISE["student-t"], inference="scale-mixture-em").condition(X, y)
    given = GP(SE(1.0), NOISE["student-t"], inference=ScaleMixtureEM()).condition(X, y)
    assert by_name.status.stage == "scale-mixture EM"
    assert by_name.log_evidence == given.log_evidence
