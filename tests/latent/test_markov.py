"""The Markov representation against dense matrices, fifty digits and eigenvalues."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from cavity.gp import GP
from cavity.inference import EP, Exact, Laplace, Variational
from cavity.inference.base import Stage
from cavity.inference.ep import state
from cavity.inference.ep.local_steps import local_sweeps
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.state import EPProblem
from cavity.inference.variational import ScaleMixtureEM
from cavity.kernels import (
    SE,
    Celerite,
    Constant,
    Cosine,
    DampedOscillator,
    IntegratedWiener,
    Linear,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Seasonal,
    White,
    Wiener,
)
from cavity.kernels.state_space import NoStateSpaceError
from cavity.latent.base import ImproperPosteriorError, Inputs
from cavity.latent.dense import Dense
from cavity.latent.markov import Markov, has_exact_markov_form, prior
from cavity.latent.sites import Sites
from cavity.likelihoods import Gaussian, MixtureOfGaussians, Observations, Poisson, Probit, StudentT
from cavity.likelihoods import Laplace as LaplaceNoise
from cavity.means import Basis

N = 40
RNG = np.random.default_rng(0)
T = RNG.uniform(0.1, 10.0, N)
T[5], T[7] = T[6], T[8] + 1e-9  # repeated, and nearly so; in no order
X = T[:, None]
KERNELS = {
    str(kernel): kernel.bind(1)
    for kernel in (
        1.3 * Matern(1.5, nu=0.5),
        1.3 * Matern(1.5, nu=1.5),
        0.7 * Matern(1.5, nu=2.5),
        Matern(2.0, nu=3.5),
        1.0 * Cosine(3.0) + 0.5 * Matern(1.0, nu=0.5),
        2.0 * Matern(1.5, nu=1.5) * Cosine(3.0) + Constant(2.0),
        0.3 * IntegratedWiener() + 0.2 * Wiener(),
        Linear(0.5) + Matern(2.0, nu=1.5),
        Matern(2.0, nu=1.5) * Matern(5.0, nu=2.5),
        0.1 * IntegratedWiener() * Matern(3.0, nu=1.5),
        Linear(0.5) * Matern(2.0, nu=1.5),
        Linear(0.2) * Linear(0.3) * Cosine(2.0) + 1.0 * Matern(1.0),
        0.01 * IntegratedWiener(order=2) + Polynomial(2, 0.3, 0.5) + 1.0 * Matern(2.0, nu=0.5),
        (Seasonal(3.0, 0.8, harmonics=3) + 0.3 * Matern(9.0)) ** 2,
        2.0 * Matern(4.0, nu=1.5) * Seasonal(3.0, harmonics=2) + DampedOscillator(2.0, 3.0),
        0.8 * Celerite(2.0, 1.5, 0.4) + Celerite(3.0, 1.5, -0.5) * Matern(5.0, nu=0.5),
        0.5 * DampedOscillator(2.0, 0.2) + 0.5 * DampedOscillator(2.0, 0.5) * Cosine(1.0),
    )
}
every_kernel = pytest.mark.parametrize("name", KERNELS)


def both(kernel, inputs=X):
    return Markov().prior(kernel, None, Inputs(inputs)), Dense().prior(kernel, None, Inputs(inputs))


def close(found, expected, tolerance=1e-8):
    size = np.max(np.abs(expected))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size)


# --- against dense matrices ---------------------------------------------------------------------------------


@every_kernel
def test_sites_of_either_sign(name):
    rng = np.random.default_rng(1)
    mine, dense = both(KERNELS[name])
    U, g = rng.standard_normal((N, 3)), rng.standard_normal(N)
    tau = rng.uniform(0.5, 5.0, N)
    tau[[3, 10]] = 0.0, -0.05
    close(mine.times(U), dense.times(U), 1e-12)
    one, other = mine.condition(tau), dense.condition(tau)
    assert one.log_det == pytest.approx(other.log_det, rel=1e-11)
    for what in ("var", "unexplained"):
        close(getattr(one, what), getattr(other, what), 1e-11)
    close(one.apply(U), other.apply(U), 1e-10)
    for a, b in zip(one.project(U), other.project(U)):
        close(a, b, 1e-11)
    plus, minus = one.reduce(U)
    close(plus.T @ plus - minus.T @ minus, U.T @ other.apply(U), 1e-10)
    close(one.pull_sites(g, g)[1], other.pull_sites(g, g)[1], 1e-10)
    weights = (U, U[:, ::-1].copy(), 0.7, g, g[::-1].copy())
    close(one.pull_prior(*weights).kernel, other.pull_prior(*weights).kernel, 1e-10)


@every_kernel
def test_observations(name):
    rng = np.random.default_rng(2)
    mine, dense = both(KERNELS[name])
    U, g, v = rng.standard_normal((N, 2)), rng.standard_normal(N), rng.uniform(0.1, 1.0, N)
    one, other = mine.observe(v), dense.observe(v)
    assert one.noisy_log_det == pytest.approx(other.noisy_log_det, rel=1e-11)
    close(one.half_solve_transposed(one.half_solve(U)), other.apply(U), 1e-10)
    close(one.apply_squared(g), other.apply_squared(g), 1e-10)
    W = mine.white_root()
    close(W @ W.T, dense.covariance_matrix(), 1e-10)
    close(mine.unwhiten_adjoint(U), W.T @ U, 1e-11)


@every_kernel
def test_the_process_before_between_and_after(name):
    kernel, rng = KERNELS[name], np.random.default_rng(3)
    y = np.sin(T) + 0.1 * rng.standard_normal(N)
    new = np.concatenate([[0.01, 14.0, T[4]], rng.uniform(0.0, 12.0, 5)])[:, None]
    mine, dense = (
        GP(kernel, Gaussian(0.02), Basis("linear"), representation=r).condition(X, y)
        for r in ("markov", "dense")
    )
    close(mine.mean(new), dense.mean(new), 1e-8)
    close(mine.covariance(new), dense.covariance(new), 1e-8)
    close(mine.variance(new), dense.variance(new), 1e-8)


class Units:
    """In the place of random numbers, so that draws are the columns of a root of their covariance."""

    def standard_normal(self, shape):
        n, size, d = shape
        assert size == n * d
        return np.eye(n * d).reshape(n * d, n, d).transpose(1, 0, 2).copy()


@every_kernel
def test_the_posterior_is_a_markov_process_too(name):
    """Draws and white coordinates, for sites of either sign, zero and repeated times."""
    rng = np.random.default_rng(1)
    mine, dense = both(KERNELS[name])
    tau = rng.uniform(0.5, 5.0, N)
    tau[[3, 10]] = 0.0, -0.05
    one, expected = mine.condition(tau), dense.condition(tau).covariance
    draws = one.draw(N * mine.dim, Units())
    close(draws @ draws.T, expected, 1e-9)
    white = one.white()
    W = white.unwhiten(np.eye(N))
    close(W @ W.T, expected, 1e-9)
    U = rng.standard_normal((N, 2))
    close(white.unwhiten_adjoint(U), W.T @ U, 1e-10)
    close(W @ white.whiten(W @ U), W @ U, 1e-8)


def test_joint_draws_anywhere_have_the_covariance_of_the_process():
    new = np.linspace(-1.0, 12.0, 6)[:, None]
    kernel = 1.2 * Matern(0.9, nu=1.5) + 0.1 * Matern(2.0, nu=2.5)
    y = targets("outliers")
    posterior = GP(kernel, StudentT(0.2, 4.0), "constant", EP(), "markov").condition(X, y)
    assert (posterior.approximation.sites.precision < 0).any()
    draws = posterior.sample(new, 20_000, rng=0)
    expected = posterior.covariance(new)
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(new), atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.05 * expected.max())


def test_draws_with_a_vague_trend():
    posterior = GP(
        5.0 * IntegratedWiener(), Gaussian(0.01), Basis("linear"), representation="markov"
    ).condition(X / 10, T)
    new = np.array([[0.5], [0.52]])
    found = np.cov(posterior.sample(new, 20_000, rng=0).T)
    np.testing.assert_allclose(found, posterior.covariance(new), rtol=0.05)


RULES = {
    "exact": (Exact(), Gaussian(0.05), "real"),
    "laplace, student-t": (Laplace(), StudentT(0.2, 4.0), "outliers"),
    "ep, probit": (EP(1e-9), Probit(), "labels"),
    "ep, poisson": (EP(1e-9), Poisson(), "counts"),
    "ep, student-t": (EP(1e-9), StudentT(0.2, 4.0), "outliers"),
    "ep, mixture": (EP(1e-9), MixtureOfGaussians(0.2, 0.1, 10.0), "outliers"),
    "ep, laplace noise": (EP(1e-9), LaplaceNoise(0.2), "outliers"),
    "variational, student-t": (Variational(1e-9), StudentT(0.2, 4.0), "outliers"),
    "scale-mixture em": (ScaleMixtureEM(1e-9), LaplaceNoise(0.2), "outliers"),
}


def targets(kind):
    rng = np.random.default_rng(5)
    f = np.sin(2 * T)
    real = f + 0.2 * rng.standard_normal(N)
    return {
        "real": real,
        "outliers": real + 3.0 * (np.arange(N) % 7 == 3),
        "labels": np.where(f + 0.3 * rng.standard_normal(N) > 0, 1.0, -1.0),
        "counts": rng.poisson(np.exp(f)).astype(float),
    }[kind]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_runs_on_it(name):
    rule, likelihood, kind = RULES[name]
    y, kernel = targets(kind), 1.2 * Matern(0.9, nu=1.5) + 0.1 * Matern(2.0, nu=2.5)
    mine, dense = (GP(kernel, likelihood, "constant", rule, r) for r in ("markov", "dense"))
    one, other = mine.condition(X, y), dense.condition(X, y)
    assert one.status.stage is other.status.stage
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-8)
    new = np.linspace(-1.0, 12.0, 9)[:, None]
    np.testing.assert_allclose(one.mean(new), other.mean(new), atol=1e-8)
    np.testing.assert_allclose(one.variance(new), other.variance(new), atol=1e-8)
    (value, gradient), (same, slope) = mine.evidence(X, y), dense.evidence(X, y)
    assert value == pytest.approx(same, abs=1e-8)
    np.testing.assert_allclose(gradient, slope, atol=1e-7)
    left_out, expected = mine.leave_one_out(X, y), dense.leave_one_out(X, y)
    np.testing.assert_allclose(left_out.log_prob(y), expected.log_prob(y), atol=1e-7)


def test_stretches_of_time_change_nothing(monkeypatch):
    rng = np.random.default_rng(6)
    t = np.sort(rng.uniform(0, 300, 1200))[:, None]
    y = np.sin(t[:, 0])
    kernel = 1.0 * Matern(2.0, nu=2.5) + 0.2 * Cosine(7.0)
    model = GP(kernel, Gaussian(0.1), representation="markov")
    value, gradient = model.evidence(t, y)
    mean = model.condition(t, y).mean(t[:5])
    monkeypatch.setattr(prior, "MEMORY", 1)
    assert len(model.bind(1).prior(t).stretches) == 19
    again, slope = model.evidence(t, y)
    assert again == pytest.approx(value, rel=1e-13)
    np.testing.assert_allclose(slope, gradient, rtol=1e-11)
    np.testing.assert_allclose(model.condition(t, y).mean(t[:5]), mean, rtol=1e-11)


def test_gains_that_came_to_rest_are_taken_and_nothing_changes():
    """A regular grid, up to rounding of its times, with a gap: evidence, gradient and leave-one-out of matrices."""
    rng = np.random.default_rng(15)
    t = np.delete(np.arange(420) / 12.0, np.arange(200, 230))[:, None]
    y = np.sin(t[:, 0]) + 0.3 * rng.standard_normal(len(t))
    kernel = 1.3 * Matern(0.4, nu=1.5) + 0.5 * Matern(0.6, nu=0.5) * Cosine(1.0)
    mine, dense = (GP(kernel, Gaussian(0.09), "constant", representation=r) for r in ("markov", "dense"))
    filtered = mine.bind(1).prior(t).observe(np.full(len(t), 0.09)).filtered
    assert np.sum(np.all(np.diff(filtered.w, axis=0) == 0, axis=1)) > 150
    (value, gradient), (same, slope) = mine.evidence(t, y), dense.evidence(t, y)
    assert value == pytest.approx(same, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-8)
    left_out, expected = mine.leave_one_out(t, y), dense.leave_one_out(t, y)
    np.testing.assert_allclose(left_out.mean, expected.mean, atol=1e-10)
    np.testing.assert_allclose(left_out.variance, expected.variance, rtol=1e-10)


# --- more digits than a factorization has -------------------------------------------------------------------


def matern_in_digits(t, length, order, variance, noise, y):
    """Log density of N(y | 0, K + noise) with fifty digits."""
    with mpmath.workdps(50):
        n = len(t)
        A = mpmath.matrix(n, n)
        rate = mpmath.sqrt(2 * order + 1) / mpmath.mpf(length)
        for i in range(n):
            for j in range(n):
                x = rate * abs(mpmath.mpf(t[i]) - mpmath.mpf(t[j]))
                factor = 1 + x if order == 1 else 1 + x + x * x / 3
                A[i, j] = mpmath.mpf(variance) * factor * mpmath.exp(-x) + (
                    mpmath.mpf(noise) if i == j else 0
                )
        L = mpmath.cholesky(A)
        z = mpmath.lu_solve(A, mpmath.matrix([mpmath.mpf(v) for v in y]))
        quadratic = sum(mpmath.mpf(v) * z[i] for i, v in enumerate(y))
        log_det = 2 * sum(mpmath.log(L[i, i]) for i in range(n))
        return float(-(quadratic + log_det + n * mpmath.log(2 * mpmath.pi)) / 2)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("change", "length", "variance", "noise"),
    [
        ("repeated", 1.0, 1.0, 0.01),
        ("close", 1.0, 1.0, 0.01),
        ("far", 1.0, 1.0, 0.01),
        ("plain", 1e4, 1.0, 1e-8),
        ("plain", 1e5, 1e6, 1e-2),
        ("plain", 1.0, 1.0, 1e-12),
    ],
)
def test_log_evidence_has_eleven_digits(order, change, length, variance, noise):
    rng = np.random.default_rng(7)
    t = np.sort(rng.uniform(0, 10, 16))
    if change == "repeated":
        t[3] = t[4] = t[5]
    elif change == "close":
        t[4] = t[3] + 1e-12
    elif change == "far":
        t[10:] += 1e8
    y = np.sin(t) + 0.1 * rng.standard_normal(16)
    model = GP(variance * Matern(length, nu=order + 0.5), Gaussian(noise), "zero", representation="markov")
    truth = matern_in_digits(t, length, order, variance, noise, y)
    assert model.evidence(t[:, None], y)[0] == pytest.approx(truth, rel=1e-11)


def test_a_sum_has_eleven_digits_at_tiny_noise():
    rng = np.random.default_rng(11)
    t = np.sort(rng.uniform(0, 10, 14))
    y, noise = np.sin(t) + 0.1 * rng.standard_normal(14), 1e-12
    model = GP(
        1.0 * Matern(1.0, nu=1.5) + 2.0 * Matern(3.0, nu=2.5),
        Gaussian(noise),
        "zero",
        representation="markov",
    )
    with mpmath.workdps(50):
        A = mpmath.matrix(14, 14)
        for i in range(14):
            for j in range(14):
                h = abs(mpmath.mpf(t[i]) - mpmath.mpf(t[j]))
                x, z = mpmath.sqrt(3) * h, mpmath.sqrt(5) * h / 3
                A[i, j] = (1 + x) * mpmath.exp(-x) + 2 * (1 + z + z * z / 3) * mpmath.exp(-z)
            A[i, i] += mpmath.mpf(noise)
        L = mpmath.cholesky(A)
        solved = mpmath.lu_solve(A, mpmath.matrix([mpmath.mpf(v) for v in y]))
        quadratic = sum(mpmath.mpf(v) * solved[i] for i, v in enumerate(y))
        log_det = 2 * sum(mpmath.log(L[i, i]) for i in range(14))
        truth = float(-(quadratic + log_det + 14 * mpmath.log(2 * mpmath.pi)) / 2)
    assert model.evidence(t[:, None], y)[0] == pytest.approx(truth, rel=1e-11)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_a_single_process_of_500_rows_equals_dense(nu):
    rng = np.random.default_rng(12)
    t = rng.uniform(0, 60, 500)[:, None]
    y = np.sin(t[:, 0]) + 0.3 * rng.standard_normal(500)
    mine, dense = (
        GP(1.3 * Matern(1.1, nu=nu), Gaussian(0.09), "constant", representation=r)
        for r in ("markov", "dense")
    )
    (value, gradient), (same, slope) = mine.evidence(t, y), dense.evidence(t, y)
    assert value == pytest.approx(same, rel=1e-11)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8)
    left_out, expected = mine.leave_one_out(t, y), dense.leave_one_out(t, y)
    np.testing.assert_allclose(left_out.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(left_out.variance, expected.variance, rtol=1e-9)


def test_learning_along_a_line_finds_its_length_scale():
    rng = np.random.default_rng(13)
    t = np.sort(rng.uniform(0, 900, 9000))
    y = np.sin(2 * t) + 0.3 * rng.standard_normal(9000)
    model = GP(1.0 * Matern(100.0, nu=1.5), Gaussian(1.0), "zero", representation="markov")
    learned = model.learn(t[:, None], y, n_restarts=0, rng=0).model
    assert 0.5 < learned.kernel.get("matern.lengthscale") < 5.0
    assert learned.likelihood.variance == pytest.approx(0.09, rel=0.1)


def test_the_smoothing_spline_is_exact_at_tiny_gaps():
    rng = np.random.default_rng(8)
    t = np.sort(rng.uniform(0, 1, 60))
    t[20] = t[19] + 1e-7
    y = np.sin(6 * t) + 0.1 * rng.standard_normal(60)
    mine, dense = (
        GP(5.0 * IntegratedWiener(), Gaussian(0.01), Basis("linear"), representation=r).condition(
            t[:, None], y
        )
        for r in ("markov", "dense")
    )
    new = np.linspace(0, 1, 33)[:, None]
    np.testing.assert_allclose(mine.mean(new), dense.mean(new), atol=1e-9)
    assert mine.log_evidence == pytest.approx(dense.log_evidence, rel=1e-9)


# --- improper if and only if refused ------------------------------------------------------------------------


@pytest.mark.parametrize("cases", [3000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_improper_posteriors_are_refused_and_no_others(cases):
    rng = np.random.default_rng(9)
    counts = [0, 0]
    for _ in range(cases):
        n = int(rng.integers(2, 7))
        t = np.round(rng.uniform(0, 4, n), int(rng.integers(0, 3)))  # often repeated
        kernel = (1.0 * Matern(rng.uniform(0.3, 3.0), nu=rng.choice([0.5, 1.5, 2.5]))).bind(1)
        tau = rng.standard_normal(n) * np.exp(rng.standard_normal())
        K = kernel(t[:, None])
        values, vectors = np.linalg.eigh(K)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        smallest = np.linalg.eigvalsh(np.eye(n) + root.T @ (tau[:, None] * root))[0]
        if abs(smallest) < 1e-9:
            continue
        prior = Markov().prior(kernel, None, Inputs(t[:, None]))
        try:
            prior.condition(tau)
            proper = True
        except ImproperPosteriorError:
            proper = False
        assert proper == (smallest > 0), (t, tau)
        counts[proper] += 1
    assert min(counts) > 300


# --- approximate forms, on request --------------------------------------------------------------------------

APPROXIMATE = {
    str(kernel): kernel.bind(1)
    for kernel in (
        1.3 * SE(1.2),
        1.1 * RationalQuadratic(1.0, 0.8) + 0.2 * Matern(3.0, nu=1.5),
        SE(10.0) * Periodic(SE(1.1), period=2.0),
    )
}


@pytest.mark.parametrize(("states", "error"), [(3, 5.2e-2), (4, 2.2e-2), (6, 4.3e-3), (8, 9.1e-4)])
def test_a_squared_exponential_is_as_close_as_published(states, error):
    """Errors of the expansion of Hartikainen and Sarkka (2010), as others found them."""
    lags = np.linspace(0.0, 6.0, 121)[:, None]
    found = Markov(states).prior(SE(1.0).bind(1), None, Inputs(lags)).times(np.eye(121))[0]
    assert np.max(np.abs(found - SE(1.0)(lags)[0])) == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("name", APPROXIMATE)
def test_an_approximate_form_is_a_process_of_its_own(name):
    """Evidence against matrices of the covariance that it has, slopes against differences."""
    kernel, rng = APPROXIMATE[name], np.random.default_rng(4)
    y = np.sin(T) + 0.1 * rng.standard_normal(N)
    model = GP(kernel, Gaussian(0.02), "zero", representation=Markov(6)).bind(1)
    A = model.prior(X).times(np.eye(N)) + 0.02 * np.eye(N)
    truth = -0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + N * np.log(2 * np.pi))
    value, gradient = model.evidence(X, y)
    assert value == pytest.approx(truth, rel=1e-9)
    for e, slope in zip(1e-5 * np.eye(len(gradient)), gradient):
        ends = [model.replace(model.theta + side * e).evidence(X, y)[0] for side in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("likelihood", "digits"), [(Gaussian(0.02), 1e-6), (StudentT(0.1, 4.0), 0.1)])
def test_the_cost_of_an_approximate_form_is_in_the_status(likelihood, digits):
    """Sites of EP stay as they are for the comparison; the evidence is stationary in them."""
    y = np.sin(T) + 0.1 * np.random.default_rng(4).standard_normal(N)
    rough, exact = (
        GP(1.3 * SE(1.2), likelihood, "zero", representation=r).condition(X, y) for r in (Markov(6), "dense")
    )
    status, cost = rough.status, abs(rough.log_evidence - exact.log_evidence)
    assert status.gap_kind == "window"
    assert N * status.approximation_gap == pytest.approx(cost, rel=digits)
    assert f"the state-space form changes the log evidence of {N} rows by 0." in status.message


def test_an_exact_form_loses_nothing_though_more_is_allowed():
    posterior = GP(1.0 * Matern(1.0), Gaussian(0.1), representation=Markov(6)).condition(X, T)
    assert posterior.status.gap_kind == "exact"


# --- refusals -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "nearest"),
    [
        (SE(1.0), "Matern(lengthscale, nu=2.5)"),
        (Matern(1.0, nu=1.7), "Matern(lengthscale, nu=1.5)"),
        (White(0.1), "belongs to the likelihood"),
        (Periodic(SE(1.0)), "Seasonal(period, lengthscale"),
    ],
)
def test_a_kernel_without_a_form_is_named_with_the_nearest_one(kernel, nearest):
    with pytest.raises(NoStateSpaceError, match="has no exact state-space form; the nearest kernel") as error:
        GP(Matern(1.0) + kernel, representation="markov").condition(X, T)
    assert type(error.value.term) is type(kernel)
    assert nearest in str(error.value)
    assert not has_exact_markov_form(Matern(1.0) + kernel, X)


def test_a_form_is_for_one_column():
    assert has_exact_markov_form(Matern(1.0) * Seasonal(2.0), X)
    assert not has_exact_markov_form(Matern(1.0), np.ones((3, 2)))


def test_one_column_only():
    with pytest.raises(ValueError, match="for one input column, got X of shape"):
        GP(Matern(1.0), representation="markov").condition(np.ones((3, 2)), np.ones(3))


def test_one_row():
    posterior = GP(Matern(1.0), Gaussian(0.5), "zero", representation="markov").condition([[2.0]], [3.0])
    np.testing.assert_allclose(posterior.mean([[2.0]]), [2.0])
    np.testing.assert_allclose(posterior.variance([[2.0]]), [1.0 / 3.0])


def resisting(n):
    """Irregular times, ten per unit, and two percent of gross errors."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, n / 10, n))
    y = np.sin(t) + np.sin(0.31 * t) + 0.3 * rng.standard_normal(n)
    wrong = rng.random(n) < 0.02
    y[wrong] += rng.choice([-1.0, 1.0], wrong.sum()) * rng.uniform(2.0, 10.0, wrong.sum())
    return t[:, None], y


def test_neighborhoods_that_resist_take_steps_of_their_own():
    """Parallel sweeps do not converge here; the fixed point is that of Newton's method on matrices."""
    t, y = resisting(250)
    likelihood, kernel = StudentT(0.15, 2.2), 2.0 * Matern(1.0, nu=1.5)
    problem = EPProblem(
        GP(kernel, likelihood, "zero", representation="markov").bind(1).prior(t), Observations(likelihood, y)
    )
    assert damped(problem, Sites.zero(len(y)))[0] is None
    found, _ = local_sweeps(problem, 1e-8)
    expected = GP(kernel, likelihood, "zero", EP(1e-8)).condition(t, y)
    assert expected.status.stage is not Stage.EP
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-7)
    np.testing.assert_allclose(found.q.mean, expected.mean(t), atol=1e-6)


def test_learning_with_gross_errors_along_a_line():
    """Some rows of a line see nothing but noise: no start of theirs could be evaluated on all rows."""
    t, y = resisting(1500)
    model = GP(1.0 * Matern(3.0, nu=1.5), StudentT(1.0, 4.0), "zero", EP(), "markov")
    learned = model.learn(t, y, n_restarts=0, rng=0)
    assert learned.posterior.status.converged
    assert 1.5 < learned.model.kernel.get("matern.lengthscale") < 5.0
    assert learned.model.likelihood.scale == pytest.approx(0.23, abs=0.05)


def test_many_points_are_swept_in_blocks_to_the_same_end(monkeypatch):
    """Of more points than `MANY`, less is kept, and moments are asked for block by block."""
    y = targets("outliers")
    weight = np.where(np.arange(N) % 5 == 0, 2.0, 1.0)
    model = GP(1.2 * Matern(0.9, nu=1.5), StudentT(0.2, 4.0), "constant", EP(1e-9), "markov")
    one, (value, gradient) = model.condition(X, y, weight), model.evidence(X, y, weight)
    monkeypatch.setattr(state, "MANY", 10)
    monkeypatch.setattr(state, "BLOCK", 7)
    other, (same, slope) = model.condition(X, y, weight), model.evidence(X, y, weight)
    assert other.log_evidence == pytest.approx(one.log_evidence, abs=1e-10)
    assert same == pytest.approx(value, abs=1e-10)
    np.testing.assert_allclose(slope, gradient, atol=1e-8)
    np.testing.assert_allclose(other.variance(X), one.variance(X), rtol=1e-9)
