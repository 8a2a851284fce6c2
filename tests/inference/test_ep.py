"""Expectation propagation against enumeration, quadrature, exact inference, refits and published values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from cavity import datasets
from cavity.gp import GP
from cavity.inference.base import InferenceFailedError, UnsupportedPairError
from cavity.inference.ep import EP
from cavity.inference.ep.effort_budget import Effort
from cavity.inference.ep.log_concave import guessed_sites, log_concave_ep, state_at
from cavity.inference.ep.log_concave_newton import krylov, newton_sites
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.rule import certify
from cavity.inference.ep.state import EPProblem, EPState
from cavity.inference.exact import Exact
from cavity.inference.registry import as_inference
from cavity.inference.variational.rule import Variational
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.learning import learn
from cavity.likelihoods import (
    EpsilonInsensitive,
    Gaussian,
    Heaviside,
    HeteroscedasticGaussian,
    KnownNoise,
    Laplace,
    Likelihood,
    Logit,
    MixtureOfGaussians,
    Observations,
    Poisson,
    Probit,
    Softmax,
    StudentT,
)
from cavity.means.basis import Basis
from cavity.means.functions import Constant
from tests.inference.ep_cases import enumerate_mixture, mismatch_and_evidence, one_point, tensor_posterior
from tests.inference.variational_cases import Cauchy, inputs, likelihoods, richardson, targets
from tests.warm import Evaluations

N = 9
NAMES = sorted(likelihoods(N))


def prior_of(X, variance=1.5, length=1.0, mean=None):
    return DensePrior((variance * SE(length)).bind(X.shape[1]), X, mean)


def model(likelihood, variance=1.5, length=1.0, mean=None, inference="ep"):
    return GP(variance * SE(length), likelihood, mean=mean, inference=inference)


# --- Gaussian noise: exact inference ------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), KnownNoise(np.linspace(0.1, 0.5, 15), 0.2)])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_noise_is_exact(likelihood, weighted):
    X, y = inputs(15), targets("real", 15)
    w = np.linspace(0.5, 2.0, 15) if weighted else None
    mean = Constant(0.4)
    ours = EP(tolerance=1e-10).infer(prior_of(X, mean=mean), Observations(likelihood, y, w))
    exact = Exact().infer(prior_of(X, mean=mean), Observations(likelihood, y, w))
    assert ours.status.converged
    assert ours.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    new = np.linspace(-4, 4, 11)[:, None]
    np.testing.assert_allclose(ours.process.mean(new), exact.process.mean(new), atol=1e-8)
    np.testing.assert_allclose(ours.process.variance(new), exact.process.variance(new), atol=1e-8)
    value, gradient, _ = EP(tolerance=1e-10).evidence(prior_of(X, mean=mean), Observations(likelihood, y, w))
    reference, exact_gradient, _ = Exact().evidence(prior_of(X, mean=mean), Observations(likelihood, y, w))
    assert value == pytest.approx(reference, abs=1e-8)
    np.testing.assert_allclose(gradient.flat, exact_gradient.flat, rtol=1e-7, atol=1e-7)


def test_leave_one_out_of_gaussian_noise_is_exact():
    X, y = inputs(15), targets("real", 15)
    ours = EP(tolerance=1e-10).leave_one_out(prior_of(X), Observations(Gaussian(0.01), y))
    exact = Exact().leave_one_out(prior_of(X), Observations(Gaussian(0.01), y))
    np.testing.assert_allclose(ours.mean, exact.mean, atol=1e-7)
    np.testing.assert_allclose(ours.variance, exact.variance, rtol=1e-7)


# --- one observation: moment matching is exact --------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_one_observation_is_exact(name):
    likelihood, kind = likelihoods(1)[name]
    y = targets(kind, 9)[4:5]
    X = np.array([[0.3]])
    found = EP(tolerance=1e-9).infer(prior_of(X, mean=Constant(0.2)), Observations(likelihood, y))

    def log_p(f):
        return likelihood.rows(np.zeros(len(f), dtype=int)).log_prob(np.full(len(f), y[0]), f)

    breaks = likelihood.break_points(y)[:, 0]
    log_evidence, mean, var = one_point(log_p, 0.2, 1.5, breaks[np.isfinite(breaks)])
    assert found.status.converged
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-8)
    assert found.process.mean(X)[0] == pytest.approx(mean, abs=1e-7)
    assert found.process.variance(X)[0] == pytest.approx(var, rel=1e-7)


def test_one_probit_observation_has_the_closed_form():
    # N(f; 0, 25) Phi(f): the reference's worked example
    X = np.zeros((1, 1))
    found = EP(tolerance=1e-9).infer(prior_of(X, variance=25.0), Observations(Probit(), np.ones(1)))
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=1e-10)
    assert found.process.mean(X)[0] == pytest.approx(3.9119509, abs=2e-7)
    assert found.process.variance(X)[0] == pytest.approx(9.6966401, abs=1e-6)


def test_one_heaviside_observation_is_half_a_normal():
    X = np.zeros((1, 1))
    found = EP(tolerance=1e-9).infer(prior_of(X, variance=4.0), Observations(Heaviside(), -np.ones(1)))
    assert found.log_evidence == pytest.approx(np.log(0.5), abs=1e-9)
    assert found.process.mean(X)[0] == pytest.approx(-stats.halfnorm(scale=2).mean(), abs=1e-8)
    assert found.process.variance(X)[0] == pytest.approx(stats.halfnorm(scale=2).var(), abs=1e-8)


# --- few observations: brute force --------------------------------------------------------------------------

FEW = {
    "student-t": (StudentT(0.5, 4.0), lambda y, f: stats.t.logpdf(y - f, 4.0, scale=0.5), [0.4, 0.7, -0.5]),
    "laplace": (Laplace(0.4), lambda y, f: stats.laplace.logpdf(y - f, scale=0.4), [0.4, 1.2, -0.5]),
    "probit": (Probit(), lambda y, f: stats.norm.logcdf(y * f), [1.0, 1.0, -1.0]),
    "poisson": (Poisson(), lambda y, f: stats.poisson.logpmf(y, np.exp(f)), [0.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("name", sorted(FEW))
def test_few_observations_agree_with_tensor_quadrature(name, n):
    likelihood, log_p, y = FEW[name]
    y = np.array(y[:n])
    X = np.array([[0.0], [0.8], [2.0]])[:n]
    prior = prior_of(X)
    log_evidence, mean, var = tensor_posterior(lambda f: log_p(y, f).sum(axis=1), prior.covariance.copy())
    found = EP().infer(prior, Observations(likelihood, y))
    assert found.status.converged
    # EP is not exact for two or three factors; a hundredth of a nat is its usual error, far below the variational one.
    error = abs(found.log_evidence - log_evidence)
    assert error < 0.02
    assert error < 0.5 * (
        log_evidence - Variational().infer(prior_of(X), Observations(likelihood, y)).log_evidence
    )
    np.testing.assert_allclose(found.process.mean(X), mean, atol=0.03)
    np.testing.assert_allclose(found.process.variance(X), var, rtol=0.05)


@pytest.mark.parametrize(("seed", "clear"), [(0, True), (1, True), (2, False), (3, True)])
def test_mixtures_agree_with_enumeration(seed, clear):
    """Where it is `clear` which points are outliers, also the variances; else no single Gaussian has them right."""
    n = 8
    X, y = inputs(n, seed), targets("real", n, seed)
    likelihood = MixtureOfGaussians(fraction=0.2, scale=0.3, outlier_scale=3.0)
    prior = prior_of(X)
    log_evidence, mean, var = enumerate_mixture(prior.covariance.copy(), y, 0.2, 0.3, 3.0)
    found = EP().infer(prior, Observations(likelihood, y))
    assert found.status.converged
    assert found.status.stage == "ep"
    # 0.08 nats is the largest error that the reference study saw of points found by fast EP
    error = abs(found.log_evidence - log_evidence)
    assert error < 0.08
    assert error < log_evidence - Variational().infer(prior_of(X), Observations(likelihood, y)).log_evidence
    assert np.max(np.abs(found.process.mean(X) - mean) / np.sqrt(var)) < 0.25
    if clear:
        np.testing.assert_allclose(found.process.variance(X), var, rtol=0.25)


def test_one_mixture_observation_is_enumerated_exactly():
    X, y = np.zeros((1, 1)), np.array([2.0])
    likelihood = MixtureOfGaussians(fraction=0.3, scale=0.2, outlier_scale=4.0)
    log_evidence, mean, var = enumerate_mixture(np.array([[1.5]]), y, 0.3, 0.2, 4.0)
    found = EP(tolerance=1e-10).infer(prior_of(X), Observations(likelihood, y))
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-10)
    assert found.process.mean(X)[0] == pytest.approx(mean[0], abs=1e-9)
    assert found.process.variance(X)[0] == pytest.approx(var[0], rel=1e-9)


# --- published and golden values ----------------------------------------------------------------------------

GPC_X = np.array([-2, -1, 0.5, 1, 2.5])[:, None]
GPC_Y = np.array([-1.0, -1, 1, -1, 1])


def test_golden_probit_example():
    found = GP(4.0 * SE(1.0), Probit(), inference=EP(tolerance=1e-11)).condition(GPC_X, GPC_Y)
    np.testing.assert_allclose(
        found.mean(GPC_X),
        [-1.7688995172, -1.3842488571, 0.0921765413, -0.0698453025, 1.1118650658],
        atol=1e-9,
    )
    np.testing.assert_allclose(
        found.variance(GPC_X),
        [1.9296865887, 1.6710876797, 0.8688935448, 0.8651268859, 1.7000168617],
        atol=1e-9,
    )
    sites = found.approximation.sites
    np.testing.assert_allclose(
        sites.precision, [0.2082425659, 0.2699803343, 0.5635567229, 0.5685675087, 0.3171457134], atol=1e-9
    )
    np.testing.assert_allclose(
        sites.shift, [-0.627875465, -0.7200428541, 0.8886915939, -0.8890975628, 0.7938715693], atol=1e-9
    )
    assert found.log_evidence == pytest.approx(-4.276611655, abs=1e-9)
    new = np.array([0, 1.75, 4])[:, None]
    np.testing.assert_allclose(found.mean(new), [-0.0101747257, 0.2675515602, 0.5425824503], atol=1e-9)
    np.testing.assert_allclose(found.variance(new), [1.4454603, 1.6143842, 3.7573656], atol=1e-7)
    probability = np.exp(found.predict_y(new).log_prob(np.ones(3)))
    np.testing.assert_allclose(probability, [0.4974043305, 0.5657134965, 0.5982272109], atol=1e-9)
    # the exact answer is an orthant probability
    C = (4.0 * SE(1.0))(GPC_X) + np.eye(5)
    exact = stats.multivariate_normal(np.zeros(5), C * np.outer(GPC_Y, GPC_Y)).logcdf(np.zeros(5), rng=0)
    assert found.log_evidence == pytest.approx(exact, abs=2e-4)


@pytest.mark.data
@pytest.mark.parametrize(
    ("log_length", "log_signal", "expected"), [(2.6, 4.1, -90.283), (2.85, 2.35, -94.891)]
)
def test_usps_evidence_is_the_book_s(log_length, log_signal, expected):
    """The book shows about -90 at (2.6, 4.1); the digits are those of GPy's EP on the same split."""
    try:
        data = datasets.load("usps_3v5")
    except datasets.DatasetNotFoundError:
        pytest.skip("USPS data are not here")
    X, y = np.asarray(data.X, dtype=float)[:767], np.asarray(data.y, dtype=float)[:767]
    y = np.where(y == np.max(y), 1.0, -1.0)
    found = model(Probit(), np.exp(2 * log_signal), np.exp(log_length)).condition(X, y)
    assert found.status.converged
    assert found.log_evidence == pytest.approx(expected, abs=1e-3)


def test_book_clusters_ep_is_sure_where_laplace_is_not():
    """Figure 3.6: at x = -6 the 95 % band of Laplace's method reaches below zero, that of EP does not."""
    data = datasets.make_clusters_1d(rng=0)
    y = np.where(data.y == np.max(data.y), 1.0, -1.0)
    at = np.array([[-6.0]])
    bands = {}
    for rule in ("ep", "laplace"):
        posterior = model(Probit(), 49.0, 2.6, inference=rule).condition(data.X, y)
        sign = np.sign(posterior.mean(at)[0])
        bands[rule] = sign * posterior.mean(at)[0] - 2 * np.sqrt(posterior.variance(at)[0])
    assert bands["ep"] > 1.0
    assert bands["laplace"] < 0.0


# --- certified by independent means -------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_moments_match_when_recomputed_from_the_sites(name, weighted):
    """Plain linear algebra and fixed-panel quadrature; evidence from the same."""
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    w = np.linspace(0.5, 2.0, N) if weighted else None
    found = EP(tolerance=1e-8).infer(prior_of(X, mean=Constant(0.1)), Observations(likelihood, y, w))
    assert found.status.converged
    assert found.status.residual <= 1e-8

    def log_p(i, f):
        row = likelihood.rows(np.full(len(f), i))
        return (1.0 if w is None else w[i]) * row.log_prob(np.full(len(f), y[i]), f)

    points = likelihood.break_points(y)
    worst, log_evidence = mismatch_and_evidence(
        log_p,
        prior_of(X).covariance.copy(),
        found.sites,
        y,
        breaks=lambda i: points[np.isfinite(points[:, i]), i],
        prior_mean=0.1,
    )
    assert worst < 1e-6
    assert found.log_evidence == pytest.approx(log_evidence, abs=1e-6)


def test_certification_is_by_moments():
    X, y = inputs(N), targets("sign", N)
    problem = EPProblem(prior_of(X), Observations(Probit(), y))
    solution, _ = log_concave_ep(problem, Sites.zero(N), 1e-9)
    assert certify(problem, solution.sites, 1e-6) is not None
    near = Sites(solution.sites.shift * (1 + 1e-4), solution.sites.precision)
    assert certify(problem, near, 1e-6) is None
    # a state that claims to be converged but whose sites say otherwise
    fake = EPState(problem, Sites.zero(N))
    fake.__dict__["residual"] = 0.0
    assert certify(problem, fake.sites, 1e-6) is None
    assert certify(problem, Sites(np.full(N, np.nan), np.ones(N)), 1e-6) is None
    assert certify(problem, Sites(np.zeros(N), np.full(N, -5.0)), np.inf) is None  # improper posterior


def test_standing_still_is_not_convergence():
    """A site whose update is blocked stops moving; the moments still disagree, so nothing is claimed."""
    X, y = inputs(N), targets("real", N)
    likelihood = StudentT(0.05, 1.0)
    problem = EPProblem(prior_of(X), Observations(likelihood, y))
    found, _, _ = damped(problem, Sites(np.zeros(N), np.full(N, 50.0)), step=1e-12)
    assert found is None


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_those_of_the_evidence(name, weighted):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    w = np.linspace(0.5, 2.0, N) if weighted else None
    gp = model(likelihood, mean=Constant(0.3), inference=EP(tolerance=1e-10)).bind(1)
    workspace = Evaluations()
    _, gradient = workspace.evidence(gp, X, y, w)
    assert gradient.size == 3 + likelihood.theta.size

    def value(theta):
        return workspace.evidence(gp.replace(theta), X, y, w)[0]

    np.testing.assert_allclose(gradient, richardson(value, gp.theta), rtol=1e-5, atol=2e-6)


# --- weights, duplicates ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gaussian", "probit", "student-t", "poisson"])
def test_a_weight_of_two_is_an_observation_made_twice(name):
    """Exactly so for Gaussian noise; EP of a squared factor is otherwise close to, not the same as, EP of two."""
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    weight = np.ones(N)
    weight[[2, 5]] = 2.0
    twice = np.append(np.arange(N), [2, 5])
    gp = model(likelihood, inference=EP(tolerance=1e-9))
    joined, apart = gp.condition(X, y, weight), gp.condition(X[twice], y[twice])
    tolerance = 1e-8 if name == "gaussian" else 0.02
    assert joined.log_evidence == pytest.approx(apart.log_evidence, abs=tolerance)
    np.testing.assert_allclose(joined.mean(X), apart.mean(X), atol=2 * tolerance)


def test_silent_sites_have_a_gradient():
    """A flat likelihood leaves the prior as it is; learning may pass through there."""
    prior = DensePrior((1.5 * SE(0.7)).bind(1), inputs(4), Constant(0.3))
    state = state_at(
        EPProblem(prior, Observations(EpsilonInsensitive(1.0, 100.0), targets("real", 4))), Sites.zero(4)
    )
    assert state.residual < 1e-12
    pulled, same = state.q.pull(2.0), Conditioned(prior, Sites.zero(4)).pull(2.0)
    np.testing.assert_allclose(pulled.prior.kernel, same.prior.kernel, atol=1e-14)
    for part in ("mean_values", "shift", "precision"):
        np.testing.assert_allclose(getattr(pulled, part), getattr(same, part), atol=1e-14)


def test_weights_of_one_change_nothing():
    X, y = inputs(N), targets("real", N)
    gp = model(StudentT(0.3, 3.0))
    plain, weighted = gp.condition(X, y), gp.condition(X, y, np.ones(N))
    assert weighted.log_evidence == pytest.approx(plain.log_evidence, abs=1e-9)


# --- leave-one-out ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probit", "logit", "student-t", "laplace", "poisson"])
def test_leave_one_out_agrees_with_refits(name):
    likelihood, kind = likelihoods(N)[name]
    X, y = inputs(N), targets(kind, N)
    gp = model(likelihood)
    ours = gp.leave_one_out(X, y).log_prob(y)
    inside = gp.condition(X, y).predict_y(X).log_prob(y)
    rest = [np.arange(N) != i for i in range(N)]
    refits = [gp.condition(X[k], y[k]).predict_y(X[~k]).log_prob(y[~k])[0] for k in rest]
    # The other sites would move a little in a refit: with nine points a tenth of a nat, a quarter at worst.
    error, optimism = np.abs(ours - refits), np.abs(inside - refits)
    assert np.mean(error) < 0.1
    assert np.max(error) < 0.25
    assert np.mean(error) < 0.25 * np.mean(optimism)


@pytest.mark.parametrize("rule", [EP(tolerance=1e-10), "exact", "laplace", "variational"])
def test_leave_one_out_leaves_out_the_whole_of_a_weighted_row(rule):
    X, y = inputs(N), targets("real", N)
    weight = np.ones(N)
    weight[3] = 3.0
    weight[6] = 0.5
    ours = model(Gaussian(0.2), inference=rule).leave_one_out(X, y, weight)
    exact = GP(1.5 * SE(1.0), Gaussian(0.2))
    for i in range(N):
        keep = np.arange(N) != i
        refit = exact.condition(X[keep], y[keep], weight[keep]).predict_f(X[i : i + 1])
        assert ours.mean[i] == pytest.approx(refit.mean[0], abs=1e-7)
        assert ours.variance[i] == pytest.approx(refit.variance[0] + 0.2, abs=1e-7)


def test_leave_one_out_refits_where_a_cavity_is_improper(monkeypatch):
    """Pretend that one cavity is improper: its answer must be that of a fit without the point."""
    X, y = inputs(N), targets("real", N)
    likelihood = MixtureOfGaussians(0.2, 0.2, outlier_scale=3.0)
    gp = model(likelihood)
    rest = np.arange(N) != 4
    refit = gp.condition(X[rest], y[rest]).predict_f(X[4:5])
    found = EP()._solve(EPProblem(gp.bind(1).prior(X), Observations(likelihood, y)))
    found.state.q.__dict__["left"] = np.where(rest, found.state.q.left, -1e-3)
    solve = EP._solve
    monkeypatch.setattr(
        EP, "_solve", lambda self, problem: found if len(problem.y) == N else solve(self, problem)
    )
    ours = EP().leave_one_out(gp.bind(1).prior(X), Observations(likelihood, y))
    expected = likelihood.predictive(refit.mean, refit.variance)
    assert ours.log_prob(y)[4] == pytest.approx(expected.log_prob(y[4:5])[0], abs=1e-9)


def test_degrees_of_freedom_are_those_of_exact_inference():
    X, y = inputs(15), targets("real", 15)
    ours = EP(tolerance=1e-10).degrees_of_freedom(prior_of(X), Observations(Gaussian(0.3), y))
    assert ours == pytest.approx(GP(1.5 * SE(1.0), Gaussian(0.3)).degrees_of_freedom(X, y), abs=1e-7)


# --- what the status says, what is refused ------------------------------------------------------------------


def test_status_tells_stage_residual_and_sweeps():
    X, y = inputs(N), targets("sign", N)
    status = model(Probit()).condition(X, y).status
    assert status.converged
    assert status.stage == "ep"
    assert 0 < status.residual <= 1e-6
    assert status.iterations > 1
    assert status.jitter == 0.0
    assert status.message == ""


def test_auto_means_ep_for_one_latent_function():
    assert isinstance(as_inference(None, Probit()), EP)
    assert isinstance(as_inference("ep"), EP)
    assert repr(EP(1e-7)) == "EP(tolerance=1e-07, effort=10.0)"


@pytest.mark.parametrize("likelihood", [Softmax(3), HeteroscedasticGaussian()])
def test_several_latent_functions_are_refused_by_name(likelihood):
    X = inputs(6)
    y = np.array([0.0, 1, 2, 0, 1, 2])
    assert not EP().supports(likelihood)
    with pytest.raises(UnsupportedPairError, match=rf"{type(likelihood).__name__} has {likelihood.n_latent}"):
        EP().infer(prior_of(X), Observations(likelihood, y))


def test_basis_functions_with_integrated_weights_are_refused_by_the_rule():
    X, y = inputs(6), targets("real", 6)
    with pytest.raises(UnsupportedPairError, match="weights are integrated out"):
        EP().infer(prior_of(X, mean=Basis("linear").bind(1)), Observations(Laplace(0.3), y))


def test_several_targets_and_leave_one_out_learning_are_refused():
    X, y = inputs(6), targets("real", 6)
    with pytest.raises(UnsupportedPairError, match=r"one target at a time.*\(6, 2\)"):
        EP().infer(prior_of(X), Observations(Laplace(0.3), np.column_stack([y, y])))
    with pytest.raises(UnsupportedPairError, match="leave-one-out learning"):
        model(Laplace(0.3)).leave_one_out_log_prob(X, y)


def test_contradictory_certain_labels_have_no_posterior():
    with pytest.raises(InferenceFailedError, match="contradict"):
        model(Heaviside()).condition(np.zeros((2, 1)), [1.0, -1.0])


# --- extremes -----------------------------------------------------------------------------------------------


def test_duplicated_inputs():
    X = np.repeat(np.linspace(-2, 2, 4), 5)[:, None]
    y = np.tile([1.0, -1.0, 1.0, 1.0], 5)
    found = model(Probit()).condition(X, y)
    assert found.status.converged
    assert np.ptp(found.mean(X[:5])) < 1e-9
    tenfold = model(StudentT(0.1, 3.0)).condition(X, y + 0.01 * np.arange(20))
    assert tenfold.status.converged


@pytest.mark.parametrize("likelihood", [StudentT(0.2, 3.0), StudentT(0.2, 1.0), Laplace(0.2)])
def test_a_target_a_million_sd_away_is_ignored_or_bounded(likelihood):
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.sin(X[:, 0])
    without = model(likelihood).condition(np.delete(X, 5, axis=0), np.delete(y, 5))
    y[5] = 1e6
    found = model(likelihood).condition(X, y)
    assert found.status.converged
    assert np.isfinite(found.log_evidence)
    moved = np.max(np.abs(found.mean(X) - without.mean(X)))
    if isinstance(likelihood, StudentT):
        assert moved < 1e-4  # redescending: the outlier has no say
    else:
        assert moved < 1.5 / 0.2  # a bounded slope of 1/scale times the prior variance


@pytest.mark.parametrize("likelihood", [MixtureOfGaussians(0.1, 0.2, outlier_scale=2.0), Gaussian(0.1)])
def test_a_far_target_of_gaussian_tails_is_exact_in_the_limit(likelihood):
    """So far out, the wide component is responsible for certain: Gaussian regression with its variance there."""
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.sin(X[:, 0]) + 1e6
    found = model(likelihood).condition(X, y)
    variance = 4.0 if isinstance(likelihood, MixtureOfGaussians) else 0.1
    exact = GP(1.5 * SE(1.0), Gaussian(variance)).condition(X, y)
    np.testing.assert_allclose(found.mean(X), exact.mean(X), rtol=1e-9)
    constant = 12 * np.log(0.1) if isinstance(likelihood, MixtureOfGaussians) else 0.0
    assert found.log_evidence == pytest.approx(exact.log_evidence + constant, rel=1e-12)


@pytest.mark.parametrize("variance", [1e8, 1e16])
def test_huge_signal_with_probit_tends_to_certain_labels(variance):
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.where(np.sin(3 * X[:, 0] + 0.1) > 0, 1.0, -1.0)
    found = model(Probit(), variance).condition(X, y)
    limit = model(Heaviside(), 1.0).condition(X, y)
    assert found.status.converged
    assert found.log_evidence == pytest.approx(limit.log_evidence, abs=1e-6)
    np.testing.assert_allclose(found.mean(X) / np.sqrt(variance), limit.mean(X), atol=1e-5)


def test_no_signal_leaves_the_prior():
    X, y = inputs(N), targets("sign", N)
    found = model(Probit(), 1e-12).condition(X, y)
    assert found.log_evidence == pytest.approx(N * np.log(0.5), abs=1e-6)
    np.testing.assert_allclose(found.variance(X), 1e-12, rtol=1e-6)


@pytest.mark.parametrize("likelihood", [StudentT(1e-6, 4.0), Laplace(1e-6)])
def test_vanishing_noise_is_interpolation(likelihood):
    """Sites of precision 1e12: the evidence must keep its digits, and tend to the density of y itself."""
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.sin(X[:, 0])
    found = model(likelihood, 1.0).condition(X, y)
    K = SE(1.0)(X)
    # Var of the noise: 2e-12 for both, far below the smallest eigenvalue of K
    expected = stats.multivariate_normal(np.zeros(12), K).logpdf(y)
    assert found.status.converged
    assert found.log_evidence == pytest.approx(expected, abs=1e-3)
    np.testing.assert_allclose(found.mean(X), y, atol=1e-5)


def test_large_counts_keep_their_digits():
    """Counts of a million make sites of precision 1e6; Laplace's method is then all but exact."""
    X = np.linspace(-3, 3, 12)[:, None]
    y = np.full(12, 1e6)
    found = model(Poisson(), 1.0).condition(X, y)
    assert found.status.converged
    assert found.status.residual <= 1e-6
    reference = model(Poisson(), 1.0, inference="laplace").condition(X, y)
    assert found.log_evidence == pytest.approx(reference.log_evidence, abs=1e-4)


def test_many_zero_counts_with_a_vague_prior():
    X = np.linspace(-3, 3, 12)[:, None]
    found = model(Poisson(), 1e4).condition(X, np.zeros(12))
    assert found.status.converged
    assert np.all(found.mean(X) < 0)


# --- learning -----------------------------------------------------------------------------------------------


def test_learning_a_probit_classifier():
    X, y = inputs(30, 1), targets("sign", 30, 1)
    gp = model(Probit(), 0.3, 0.4).bind(1)
    start, _ = gp.evidence(X, y)
    learned = learn(gp, X, y, n_restarts=0, warm=True, progress=False)
    assert learned.converged
    assert learned.value > start + 0.5
    _, gradient = learned.model.evidence(X, y)
    assert np.max(np.abs(gradient)) < 1e-2


def test_learning_student_t_with_outliers():
    rng = np.random.default_rng(4)
    X = np.sort(rng.uniform(-3, 3, 40))[:, None]
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    y[::8] += rng.uniform(2, 4, 5)
    gp = model(StudentT(0.5, 4.0), 0.5, 2.0).bind(1)
    start, _ = gp.evidence(X, y)
    learned = learn(gp, X, y, n_restarts=0, warm=True, progress=False)
    assert learned.value > start + 5
    posterior = learned.model.condition(X, y)
    assert posterior.log_evidence == pytest.approx(learned.value, abs=1e-5)
    new = np.linspace(-2.5, 2.5, 50)[:, None]
    assert np.sqrt(np.mean((posterior.mean(new) - np.sin(2 * new[:, 0])) ** 2)) < 0.1
    gaussian = learn(GP(0.5 * SE(2.0), Gaussian(0.3)).bind(1), X, y, n_restarts=0, warm=True, progress=False)
    assert learned.value > gaussian.value + 5


def test_a_likelihood_with_nothing_but_a_log_density_is_enough():
    """Cauchy noise written by a user against the library's own Student-t with one degree of freedom."""
    X, y = inputs(12), targets("real", 12)
    ours, own = model(Cauchy(0.3)).condition(X, y), model(StudentT(0.3, 1.0)).condition(X, y)
    assert ours.status.converged
    assert ours.log_evidence == pytest.approx(own.log_evidence, abs=1e-6)
    np.testing.assert_allclose(ours.mean(X), own.mean(X), atol=1e-6)
    value, gradient = model(Cauchy(0.3)).evidence(X, y)
    other, reference = model(StudentT(0.3, 1.0)).evidence(X, y)
    assert value == pytest.approx(other, abs=1e-6)
    np.testing.assert_allclose(gradient, reference[:3], atol=1e-4)


class CertainSteps(Likelihood):
    """log p = -inf on half the line, and no other method: the hardest a user may write."""

    log_concave = True

    def __init__(self):
        self._set_up({})

    def log_prob(self, y, f):
        with np.errstate(divide="ignore"):
            return np.log(stats.norm.cdf(y * f))

    def break_points(self, y):
        return np.zeros((1, len(y)))


def test_a_user_s_classifier_equals_the_probit():
    X, y = inputs(N), targets("sign", N)
    ours, own = model(CertainSteps()).condition(X, y), model(Probit()).condition(X, y)
    assert ours.log_evidence == pytest.approx(own.log_evidence, abs=1e-7)


def test_where_a_bound_on_rounding_is_too_pessimistic_it_is_measured(monkeypatch):
    X, y = inputs(N), targets("real", N)
    problem = EPProblem(
        prior_of(X), Observations(StudentT(0.3, 3.0), y, np.where(np.arange(N) < 3, 2.0, 1.0))
    )
    state = EP(tolerance=1e-12)._solve(problem).state
    monkeypatch.setattr("cavity.inference.ep.rule._rounding", lambda state: 1e-5)
    assert certify(problem, state.sites, 1e-6) is not None
    near = Sites(state.sites.shift * (1 + 2e-7), state.sites.precision)
    assert 0.3e-6 < EPState(problem, near).residual <= 1e-6
    assert certify(problem, near, 1e-6) is None  # what rounding may add to it cannot be told
    monkeypatch.setattr("cavity.inference.ep.rule._rounding", lambda state: 1.0)
    assert certify(problem, state.sites, 1e-6) is None


# --- parallel updates themselves ----------------------------------------------------------------------------


def test_newton_saves_sweeps_and_finds_the_same_point():
    X, y = inputs(40, 2), targets("sign", 40, 2)
    problem = EPProblem(prior_of(X, 20.0), Observations(Logit(), y))
    fast, sweeps = log_concave_ep(problem, Sites.zero(40))
    slow, _, more = damped(problem, Sites.zero(40), 1e-9)
    assert sweeps <= 8 < more
    np.testing.assert_allclose(fast.sites.precision, slow.sites.precision, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(fast.q.mean, slow.q.mean, atol=1e-5)


@pytest.mark.parametrize(
    ("likelihood", "kind"), [(Probit(), "sign"), (Poisson(), "count"), (Laplace(0.3), "real")]
)
def test_newton_steps_are_quadratic(likelihood, kind):
    X, y = inputs(40, 2), targets(kind, 40, 2)
    problem = EPProblem(prior_of(X, 5.0, mean=Constant(0.2)), Observations(likelihood, y))
    state, _ = log_concave_ep(problem, Sites.zero(40), 1e-9)
    sizes = []
    for move in (1e-2, 1e-3):
        near = Sites(state.sites.shift * (1 + move), state.sites.precision * (1 + move))
        after = state_at(problem, newton_sites(state_at(problem, near), 1e-12))
        sizes.append(after.merit)
    # a tenth of the distance, a hundredth of the error
    assert sizes[1] < 0.02 * sizes[0]


def test_guessed_sites_are_nearer_than_those_of_a_sweep():
    X, y = inputs(60, 2), targets("sign", 60, 2)
    for variance in (5.0, 50.0, 500.0):
        problem = EPProblem(prior_of(X, variance, mean=Constant(0.3)), Observations(Probit(), y))
        swept = state_at(problem, state_at(problem, Sites.zero(60)).target)
        guessed = state_at(problem, guessed_sites(problem))
        assert guessed.residual < 0.5 * swept.residual


def test_a_useless_guess_does_no_harm(monkeypatch):
    X, y = inputs(40, 2), targets("sign", 40, 2)
    problem = EPProblem(prior_of(X, 20.0), Observations(Probit(), y))
    usual, _ = log_concave_ep(problem, Sites.zero(40), 1e-9)
    nothing = Sites(np.full(40, np.nan), np.ones(40))
    monkeypatch.setattr("cavity.inference.ep.log_concave.guessed_sites", lambda problem: nothing)
    without, _ = log_concave_ep(problem, Sites.zero(40), 1e-9)
    assert without.log_evidence == pytest.approx(usual.log_evidence, abs=1e-9)


def test_sites_that_say_nothing_do_not_stop_newton():
    # a prior mean far on the right side of the boundary for most labels: site precisions of rounding size
    X = np.linspace(-30, 30, 60)[:, None]
    problem = EPProblem(
        prior_of(X, 2.0, 2.0, Constant(12.0)), Observations(Probit(), np.where(X[:, 0] > 28, -1.0, 1.0))
    )
    state, sweeps = log_concave_ep(problem, Sites.zero(60))
    assert state is not None
    assert sweeps <= 15
    assert np.min(state.sites.precision * state.q.var) < 1e-6
    full = certify(problem, state.sites, 1e-6)
    assert full is not None
    np.testing.assert_allclose(state.q.var, full.q.var, rtol=1e-7)
    assert state.log_evidence == pytest.approx(full.log_evidence, abs=1e-7)


def test_unusable_sites_have_no_state():
    X, y = inputs(N), targets("sign", N)
    problem = EPProblem(prior_of(X), Observations(Probit(), y))
    assert state_at(problem, Sites(np.full(N, np.nan), np.ones(N))) is None
    assert log_concave_ep(problem, Sites(np.full(N, np.inf), np.ones(N))) == (None, 0)


def test_krylov_solves_linear_equations():
    rng = np.random.default_rng(3)
    A, b = np.eye(30) + 0.5 * rng.standard_normal((30, 30)) / 30**0.5, rng.standard_normal(30)
    np.testing.assert_allclose(krylov(lambda x: A @ x, b, 1e-11), np.linalg.solve(A, b), rtol=1e-8)
    assert np.linalg.norm(A @ krylov(lambda x: A @ x, b, 0.1) - b) <= 0.1
    np.testing.assert_array_equal(krylov(lambda x: x, b, 100.0), b)
    np.testing.assert_allclose(krylov(lambda x: 2 * x, b, 1e-9), 0.5 * b)  # exact after one step
    np.testing.assert_array_equal(krylov(lambda x: 0 * x, b, 1e-9), b)  # singular: nothing is known


def test_warm_starts_reproduce_the_cold_value_in_fewer_sweeps():
    X, y = inputs(40, 2), targets("sign", 40, 2)
    gp = model(Probit(), 20.0, inference=EP(tolerance=1e-9)).bind(1)
    workspace = Evaluations()
    workspace.evidence(gp, X, y)
    moved = gp.replace(gp.theta + 0.05)
    warm, warm_gradient = workspace.evidence(moved, X, y)
    cold, cold_gradient = moved.evidence(X, y)
    assert warm == pytest.approx(cold, abs=1e-8)
    np.testing.assert_allclose(warm_gradient, cold_gradient, atol=1e-6)
    strong, near = (model(Probit(), v).bind(1).prior(X) for v in (2000.0, 2100.0))
    problem, near = EPProblem(strong, Observations(Probit(), y)), EPProblem(near, Observations(Probit(), y))
    _, from_zero = log_concave_ep(problem, Sites.zero(40))
    _, from_near = log_concave_ep(problem, log_concave_ep(near, Sites.zero(40))[0].sites)
    assert from_near < from_zero


@pytest.mark.parametrize("wrong", [-1.0, np.nan, None, "10s"])
def test_limits_that_would_fail_or_never_be_reached_are_refused(wrong):
    with pytest.raises(ValueError, match=f"effort must be a number of seconds .* got {wrong!r}"):
        EP(effort=wrong)
    with pytest.raises(ValueError, match=f"tolerance must be a positive number, got {wrong!r}"):
        EP(tolerance=wrong)


def test_an_iteration_whose_effort_is_spent_stops():
    X, y = inputs(N), targets("real", N)
    problem = EPProblem(prior_of(X), Observations(StudentT(0.3, 3.0), y))
    found, best, sweeps = damped(replace(problem, effort=Effort(0.0)), Sites.zero(N))
    assert found is None
    assert best is None
    assert sweeps == 0
    improper, _, _ = damped(problem, Sites(np.zeros(N), np.full(N, -10.0)))
    assert improper is None
