"""The full Gaussian variational approximation against optimization, quadrature, enumeration and refitting."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, UnsupportedPairError
from cavity.inference.exact import Exact
from cavity.inference.registry import as_inference
from cavity.inference.variational.natural_gradient import Local, maximize_bound
from cavity.inference.variational.rule import Variational
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.learning import learn
from cavity.likelihoods import (
    Gaussian,
    Heaviside,
    KnownNoise,
    Laplace,
    MixtureOfGaussians,
    Observations,
    Poisson,
    Probit,
    Softmax,
    StudentT,
)
from cavity.means.basis import Basis
from cavity.means.functions import Constant
from tests.inference.variational_cases import (
    Cauchy,
    expected,
    grid_log_evidence,
    inputs,
    likelihoods,
    mixture_log_evidence,
    normal_panels,
    richardson,
    targets,
)
from tests.warm import Evaluations

N = 9
NAMES = sorted(likelihoods(N))


def prior_of(X, variance=1.5, length=1.0, mean=None):
    return DensePrior((variance * SE(length)).bind(X.shape[1]), X, mean)


# --- Gaussian noise: exact inference ------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), KnownNoise(np.linspace(0.1, 0.5, 15), 0.2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_noise_is_exact(likelihood, weighted):
    X, y = inputs(15), targets("real", 15)
    w = np.linspace(0.5, 2.0, 15) if weighted else None
    mean = Constant(0.4)
    ours = Variational().infer(prior_of(X, mean=mean), Observations(likelihood, y, w))
    exact = Exact().infer(prior_of(X, mean=mean), Observations(likelihood, y, w))
    assert ours.status.converged
    assert ours.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    new = np.linspace(-4, 4, 11)[:, None]
    np.testing.assert_allclose(ours.process.mean(new), exact.process.mean(new), atol=1e-9)
    np.testing.assert_allclose(ours.process.variance(new), exact.process.variance(new), atol=1e-9)
    value, gradient, _ = Variational().evidence(prior_of(X, mean=mean), Observations(likelihood, y, w))
    reference, exact_gradient, _ = Exact().evidence(prior_of(X, mean=mean), Observations(likelihood, y, w))
    assert value == pytest.approx(reference, abs=1e-9)
    np.testing.assert_allclose(gradient.flat, exact_gradient.flat, rtol=1e-7, atol=1e-8)


def test_leave_one_out_of_gaussian_noise_is_exact():
    X, y = inputs(15), targets("real", 15)
    ours = Variational().leave_one_out(prior_of(X), Observations(Gaussian(0.01), y))
    exact = Exact().leave_one_out(prior_of(X), Observations(Gaussian(0.01), y))
    np.testing.assert_allclose(ours.mean, exact.mean, atol=1e-8)
    np.testing.assert_allclose(ours.variance, exact.variance, rtol=1e-8)


# --- the optimum is the optimum -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "log_p", "y"),
    [
        (StudentT(0.5, 3.0), lambda y, f: stats.t.logpdf(y - f, 3.0, scale=0.5), [0.3, 1.5]),
        (Laplace(0.4), lambda y, f: stats.laplace.logpdf(y - f, scale=0.4), [0.3, 1.5]),
        (Probit(), lambda y, f: stats.norm.logcdf(y * f), [1.0, -1.0]),
        (Cauchy(0.5), lambda y, f: stats.cauchy.logpdf(y - f, scale=0.5), [0.3, 1.5]),
    ],
)
def test_no_gaussian_is_closer(likelihood, log_p, y):
    """Maximize the textbook bound over mean and Cholesky factor of an arbitrary Gaussian, for two points."""
    y = np.array(y)
    X = np.array([[0.0], [0.7]])
    prior = prior_of(X)
    K = prior.covariance.copy()
    inverse = np.linalg.inv(K)

    def negative_bound(x):
        m, L = x[:2], np.array([[np.exp(x[2]), 0.0], [x[3], np.exp(x[4])]])
        S = L @ L.T
        data = sum(expected(lambda f, i=i: log_p(y[i], f), m[i], S[i, i], [y[i]]) for i in range(2))
        divergence = np.trace(inverse @ S) - 2 + m @ inverse @ m + np.linalg.slogdet(K)[1] - 2 * (x[2] + x[4])
        return 0.5 * divergence - data

    best = optimize.minimize(negative_bound, [0.2, 0.2, -0.5, 0.0, -0.5], options={"gtol": 1e-7})
    found = Variational().infer(prior_of(X), Observations(likelihood, y))
    assert found.log_evidence == pytest.approx(-best.fun, abs=1e-7)
    np.testing.assert_allclose(found.process.mean(X), best.x[:2], atol=2e-4)
    L = np.array([[np.exp(best.x[2]), 0.0], [best.x[3], np.exp(best.x[4])]])
    np.testing.assert_allclose(found.process.covariance(X), L @ L.T, atol=2e-4)


@pytest.mark.parametrize("name", NAMES)
def test_stationary_when_recomputed_from_the_sites(name):
    """Dense algebra and fixed-panel quadrature: the sites equal the derivatives of E[log p]."""
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    found = Variational(tolerance=1e-8).infer(prior_of(X), Observations(likelihood, y))
    assert found.status.converged
    assert found.status.residual <= 1e-8
    tau, nu = found.sites.precision, found.sites.shift
    K = prior_of(X).covariance.copy()
    S = np.linalg.inv(np.linalg.inv(K + 1e-13 * np.eye(N)) + np.diag(tau))
    m, v = S @ nu, np.diagonal(S)
    for i in range(N):
        row = likelihood.rows(np.array([i]))
        centers = likelihood.break_points(y)[:, i]

        def log_p(f, row=row, i=i):
            one = row.rows(np.zeros(len(f), dtype=int))
            return one.log_prob(np.full(len(f), y[i]), f)

        f, w = normal_panels(m[i], v[i], centers)
        d_mean = w @ (log_p(f) * (f - m[i])) / v[i]
        d_var = w @ (log_p(f) * ((f - m[i]) ** 2 / v[i] - 1)) / (2 * v[i])
        assert abs(d_mean - (nu[i] - tau[i] * m[i])) * np.sqrt(v[i]) < 1e-6
        assert abs(-2 * d_var - tau[i]) * v[i] < 1e-6


# --- a lower bound ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_below_the_exact_evidence_of_mixtures(seed):
    X, y = inputs(8, seed), targets("real", 8, seed)
    likelihood = MixtureOfGaussians(0.2, 0.2, 8.0)
    found = Variational().infer(prior_of(X), Observations(likelihood, y))
    truth = mixture_log_evidence(likelihood, prior_of(X).covariance, y)
    assert found.log_evidence < truth
    assert found.log_evidence > truth - 1.5


@pytest.mark.parametrize(
    ("likelihood", "log_p", "y"),
    [
        (StudentT(0.5, 3.0), lambda y, f: stats.t.logpdf(y - f, 3.0, scale=0.5), [0.3, 1.5, -0.4]),
        (Probit(), lambda y, f: stats.norm.logcdf(y * f), [1.0, -1.0, 1.0]),
        (Poisson(), lambda y, f: stats.poisson.logpmf(y, np.exp(f)), [3.0, 0.0, 2.0]),
    ],
)
def test_just_below_the_evidence_by_tensor_quadrature(likelihood, log_p, y):
    X, y = np.array([[0.0], [0.7], [1.9]]), np.array(y)
    found = Variational().infer(prior_of(X), Observations(likelihood, y))
    truth = grid_log_evidence(lambda f: log_p(y, f).sum(axis=1), prior_of(X).covariance)
    assert truth - 0.25 < found.log_evidence < truth


@pytest.mark.parametrize("name", NAMES)
def test_bound_never_falls(name):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    climb = maximize_bound(prior_of(X), lambda m, v: Local(*likelihood.expected_log_prob(y, m, v)))
    assert climb.converged
    scale = 1.0 + abs(climb.iterate.local.value).sum()
    assert np.all(np.diff(climb.bounds) >= -1e-11 * scale)


def test_negative_sites_are_used():
    X, y = inputs(12), targets("real", 12)
    found = Variational().infer(prior_of(X), Observations(MixtureOfGaussians(0.3, 0.1, 30.0), y))
    assert found.status.converged
    assert found.sites.precision.min() < 0


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "weighted"),
    [(name, False) for name in NAMES] + [("student-t", True), ("probit", True), ("user", True)],
)
def test_gradient_of_the_reoptimized_bound(name, weighted):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    w = np.linspace(0.5, 1.5, N) if weighted else None
    rule = Variational(tolerance=1e-9)
    model = GP(1.5 * SE(1.0), likelihood, "constant", rule).bind(1)
    workspace = Evaluations()
    value, gradient = workspace.evidence(model, X, y, w)
    numeric = richardson(lambda theta: workspace.evidence(model.replace(theta), X, y, w)[0], model.theta)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5 * max(1.0, np.abs(numeric).max()))
    assert value == pytest.approx(
        rule.infer(model.prior(X), Observations(model.likelihood, y, w)).log_evidence, abs=1e-8
    )


# --- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["student-t", "laplace", "probit", "user"])
def test_weight_two_is_two_observations(name):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    w = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(N), w.astype(int))
    a = Variational().infer(prior_of(X), Observations(likelihood, y, w))
    b = Variational().infer(prior_of(X[twice]), Observations(likelihood, y[twice]))
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-7)
    new = np.linspace(-3, 3, 7)[:, None]
    np.testing.assert_allclose(a.process.mean(new), b.process.mean(new), atol=1e-5)


def test_weight_zero_removes_an_observation():
    X, y = inputs(N), targets("real", N)
    w = np.ones(N)
    w[N // 2] = 0.0
    keep = w > 0
    likelihood = StudentT(0.3, 3.0)
    a = Variational().infer(prior_of(X), Observations(likelihood, y, w))
    b = Variational().infer(prior_of(X[keep]), Observations(likelihood, y[keep]))
    assert a.log_evidence == pytest.approx(b.log_evidence, abs=1e-8)


# --- leave-one-out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["student-t", "laplace", "probit", "poisson"])
def test_leave_one_out_is_close_to_refitting(name):
    """Taking a site away removes four fifths of the optimism of a posterior that has seen the point."""
    n = 14
    likelihood, kind = likelihoods(n)[name]
    X, y = inputs(n, 3), targets(kind, n, 3)
    quick = Variational().leave_one_out(prior_of(X), Observations(likelihood, y)).log_prob(y)
    process = Variational().infer(prior_of(X), Observations(likelihood, y)).process
    seen = likelihood.predictive(process.mean(X), process.variance(X)).log_prob(y)
    refitted = np.empty(n)
    for i in range(n):
        keep = np.arange(n) != i
        process = Variational().infer(prior_of(X[keep]), Observations(likelihood, y[keep])).process
        moments = process.mean(X[i : i + 1]), process.variance(X[i : i + 1])
        refitted[i] = likelihood.predictive(*moments).log_prob(y[i : i + 1])[0]
    assert np.abs(quick - refitted).sum() < 0.2 * np.abs(seen - refitted).sum()
    assert np.abs(quick - refitted).max() < 0.25


def improper_case():
    """A seeded problem in which other points' negative sites leave no proper marginal behind."""
    for seed in range(40):
        X, y = inputs(16, seed), targets("real", 16, seed)
        y[::4] += 1.5
        likelihood = MixtureOfGaussians(0.3, 0.05, 30.0)
        found = Variational().infer(prior_of(X), Observations(likelihood, y))
        _, var = Conditioned(prior_of(X), found.sites).cavities()
        if np.isnan(var).any():
            return X, y, likelihood, np.flatnonzero(np.isnan(var))
    raise AssertionError("no problem with an improper cavity among the seeds")


def test_where_no_proper_marginal_is_left_the_point_is_left_out_in_earnest():
    X, y, likelihood, bad = improper_case()
    quick = Variational().leave_one_out(prior_of(X), Observations(likelihood, y))
    assert np.isfinite(quick.log_prob(y)).all()
    i = int(bad[0])
    w = np.ones(len(y))
    w[i] = 0.0
    process = Variational().infer(prior_of(X), Observations(likelihood, y, w)).process
    truth = likelihood.predictive(process.mean(X[i : i + 1]), process.variance(X[i : i + 1]))
    assert quick.log_prob(y)[i] == pytest.approx(truth.log_prob(y[i : i + 1])[0], abs=1e-6)


def test_marginals_without_a_site_agree_with_dense_algebra():
    X = inputs(6)
    sites = Sites(np.array([1.0, -2.0, 0.5, 0.0, 3.0, 1.0]), np.array([2.0, 1e9, -0.2, 0.0, 1.0, 0.3]))
    mean, var = Conditioned(prior_of(X), sites).cavities()
    for i in range(6):
        nu, tau = sites.shift.copy(), sites.precision.copy()
        nu[i] = tau[i] = 0.0
        q = Conditioned(prior_of(X), Sites(nu, tau))
        assert mean[i] == pytest.approx(q.mean[i], rel=1e-6, abs=1e-8)
        assert var[i] == pytest.approx(q.var[i], rel=1e-6)


# --- status, memory, errors ---------------------------------------------------------------------------------


def test_an_unfinished_climb_says_so():
    X, y = inputs(N), targets("real", N)
    rule = Variational(max_evaluations=3)
    found = rule.infer(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    assert not found.status.converged
    assert found.status.residual > rule.tolerance
    assert "3 evaluations" in found.status.message
    with pytest.raises(InferenceFailedError, match="did not converge"):
        rule.evidence(prior_of(X), Observations(StudentT(0.3, 3.0), y))


def test_unreachable_tolerance_ends_honestly():
    X, y = inputs(N), targets("real", N)
    found = Variational(tolerance=1e-30, max_evaluations=150).infer(
        prior_of(X), Observations(StudentT(0.3, 3.0), y)
    )
    assert not found.status.converged
    assert 0 < found.status.residual < 1e-6


def test_a_finished_climb_says_how():
    X, y = inputs(N), targets("real", N)
    status = Variational().infer(prior_of(X), Observations(StudentT(0.3, 3.0), y)).status
    assert status.converged
    assert status.stage == "variational"
    assert 0 < status.iterations < 100
    assert status.residual <= 1e-6


def test_the_next_evaluation_starts_where_the_best_one_ended():
    X, y = inputs(N), targets("real", N)
    likelihood, workspace = StudentT(0.3, 3.0), Evaluations()
    counted = []

    class Counting(StudentT):
        def expected_log_prob(self, y, mean, var):
            counted.append(1)
            return super().expected_log_prob(y, mean, var)

    likelihood = Counting(0.3, 3.0)
    value, _ = workspace.of_rule(Variational(), prior_of(X), likelihood, y)
    cold = len(counted)
    worse, _ = workspace.of_rule(Variational(), prior_of(X, 0.05, 0.1), likelihood, y)
    assert worse < value
    counted.clear()
    again, _ = workspace.of_rule(Variational(), prior_of(X), likelihood, y)
    assert again == pytest.approx(value, abs=1e-10)
    assert len(counted) <= 2 < cold


def test_remembered_sites_that_outweigh_a_new_prior_are_survived():
    X, y = inputs(12), targets("real", 12)
    likelihood, workspace = MixtureOfGaussians(0.3, 0.1, 30.0), Evaluations()
    workspace.of_rule(Variational(), prior_of(X, 1.5), likelihood, y)
    assert workspace.warm.sites.precision.min() < 0
    value, _ = workspace.of_rule(Variational(), prior_of(X, 1e6), likelihood, y)
    assert np.isfinite(value)
    # memory of other data is not used
    workspace.of_rule(Variational(), prior_of(X[:8]), likelihood, y[:8])


def test_a_vague_prior_with_an_infinite_expectation_is_no_obstacle():
    X, y = inputs(N), targets("count", N)
    found = Variational().infer(prior_of(X, 4000.0), Observations(Poisson(), y))
    assert found.status.converged
    assert np.isfinite(found.log_evidence)


def test_no_finite_start_is_a_failed_evaluation():
    class Impossible(Gaussian):
        def expected_log_prob(self, y, mean, var):
            out = super().expected_log_prob(y, mean, var)
            return out._replace(value=np.full(len(y), -np.inf))

    with pytest.raises(InferenceFailedError, match="not finite at any start"):
        Variational().infer(prior_of(inputs(3)), Observations(Impossible(1.0), np.zeros(3)))


def test_unsupported_pairs_name_alternatives():
    X = inputs(4)
    with pytest.raises(UnsupportedPairError, match="Heaviside; use inference='ep'"):
        Variational().infer(prior_of(X), Observations(Heaviside(), np.ones(4)))
    with pytest.raises(UnsupportedPairError, match="Softmax has 3; use inference='laplace'"):
        Variational().infer(prior_of(X), Observations(Softmax(3), np.zeros(4)))
    with pytest.raises(UnsupportedPairError, match="one target at a time"):
        Variational().infer(prior_of(X), Observations(Gaussian(), np.zeros((4, 2))))
    with pytest.raises(UnsupportedPairError, match="objective='evidence'"):
        Variational().leave_one_out_log_prob(prior_of(X), Observations(Gaussian(), np.zeros(4)))
    basis = Basis("linear").bind(1)
    with pytest.raises(UnsupportedPairError, match="basis functions whose weights are integrated out"):
        Variational().infer(prior_of(X, mean=basis), Observations(Gaussian(), np.zeros(4)))
    with pytest.raises(ValueError, match="tolerance must be positive"):
        Variational(tolerance=0.0)
    with pytest.raises(ValueError, match="max_evaluations must be at least 1"):
        Variational(max_evaluations=0)


def test_by_name():
    assert isinstance(as_inference("variational"), Variational)
    assert repr(Variational()) == "Variational(tolerance=1e-06, max_evaluations=1000)"


def test_degrees_of_freedom_of_gaussian_noise():
    X, y = inputs(15), targets("real", 15)
    model = GP(1.5 * SE(1.0), Gaussian(0.3), inference=Variational())
    exact = GP(1.5 * SE(1.0), Gaussian(0.3))
    assert model.degrees_of_freedom(X, y) == pytest.approx(exact.degrees_of_freedom(X, y), rel=1e-8)


def test_learning_ends_at_a_maximum():
    X, y = inputs(20), targets("real", 20)
    model = GP(1.0 * SE(1.0), StudentT(0.3, 4.0), inference=Variational()).bind(1)
    found = learn(model, X, y, n_restarts=0)
    assert found.converged
    assert found.runs[0].failures == 0
    _, gradient = found.model.evidence(X, y)
    assert np.abs(gradient[:2]).max() < 1e-2
