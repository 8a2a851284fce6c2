"""Autoregressions and moving averages at whole times: Yule-Walker equations, responses to single shocks, likelihoods of
statsmodels, state-space form against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from cavity import GP
from cavity.inference import EP
from cavity.kernels import Autoregressive, Cosine, Linear, Matern, OnCircle
from cavity.latent import Dense, Markov
from cavity.latent.base import Inputs
from cavity.likelihoods import Gaussian, StudentT
from cavity.parameters.param import fixed

PARTIALS = [[0.5], [-0.97], [5 / 7, 0.3], [0.6, -0.9], [0.3, -0.5, 0.8, 0.2, -0.6]]
T = np.array([3.0, 0.0, 1.0, 1.0, 5.0, 40.0, 41.0, 7.0, 200.0, -6.0, 8.0, 9.0, 10.0, 12.0])[:, None]
GAPS = np.array([0.0, 1.0, 1e8, 1e8 + 3.0])[:, None]


def yule_walker(coefficients: np.ndarray, lags: int) -> np.ndarray:
    """Covariances of lags 0, ..., with noise of variance one, by solving their linear equations."""
    p = len(coefficients)
    a = np.concatenate([[-1.0], coefficients])
    equations, noise = np.zeros((p + 1, p + 1)), np.zeros(p + 1)
    noise[0] = -1.0
    for j in range(p + 1):
        for k in range(p + 1):
            equations[j, abs(j - k)] += a[k]
    r = list(np.linalg.solve(equations, noise))
    while len(r) < lags:
        r.append(float(coefficients @ r[: -p - 1 : -1]))
    return np.array(r[:lags])


def test_the_golden_values_of_an_autoregression_of_order_two():
    kernel = Autoregressive([5 / 7, 0.3])
    np.testing.assert_allclose(kernel.coefficients, [0.5, 0.3], rtol=1e-15)
    found = kernel([[0.0], [1.0], [2.0]])[0] / kernel.innovation_variance
    np.testing.assert_allclose(found, [2.243590, 1.602564, 1.474359], atol=5e-7)


@pytest.mark.parametrize("partial", PARTIALS, ids=str)
def test_correlations_solve_the_equations_of_yule_and_walker(partial):
    kernel, lags = Autoregressive(partial), np.arange(60.0)
    expected = yule_walker(kernel.coefficients, 60)
    assert 1.0 / kernel.innovation_variance == pytest.approx(expected[0], rel=1e-11)
    np.testing.assert_allclose(kernel(lags[:, None])[0], expected / expected[0], atol=1e-12)
    roots = np.roots(np.concatenate([[1.0], -kernel.coefficients]))
    assert np.all(np.abs(roots) < 1)


@pytest.mark.parametrize("partial", PARTIALS, ids=str)
def test_partial_autocorrelations_are_what_they_are_called(partial):
    """The correlation of the two ends of a stretch given what is in between, from the inverse of its covariance."""
    r = Autoregressive(partial)(np.arange(9.0)[:, None])[0]
    for i in range(1, 9):
        P = np.linalg.inv(toeplitz(r[: i + 1]))
        expected = partial[i - 1] if i <= len(partial) else 0.0
        assert -P[0, i] / np.sqrt(P[0, 0] * P[i, i]) == pytest.approx(expected, abs=1e-9)


def test_an_autoregression_of_order_one_is_a_sampled_exponential():
    np.testing.assert_allclose(Autoregressive(0.6)(T), Matern(-1 / np.log(0.6), nu=0.5)(T), atol=1e-13)


def test_lags_in_the_hundred_millions():
    found = Autoregressive([1 - 1e-9])(GAPS)
    np.testing.assert_allclose(found[0], (1 - 1e-9) ** GAPS[:, 0], rtol=1e-6)
    assert found[2, 3] == pytest.approx((1 - 1e-9) ** 3, rel=1e-14)


MIXED = [
    (0.5, 0.4),
    ([5 / 7, 0.3], [0.3, -0.2]),
    ([0.3, -0.5, 0.8, 0.2, -0.6], [-0.5]),
    (-0.3, [0.5, -0.6, 0.2, 0.9]),
]


@pytest.mark.parametrize(("partial", "moving"), MIXED, ids=str)
def test_a_moving_average_has_the_correlations_of_its_response_to_single_shocks(partial, moving):
    """f(t) = sum_j psi_j e(t - j), so that the covariance at lag h is sum_j psi_j psi_{j+h}."""
    kernel, count = Autoregressive(partial, moving), 3000
    a, theta = kernel.coefficients, kernel.moving_coefficients
    psi = np.zeros(count)
    psi[: len(theta) + 1] = [1.0, *theta]
    for j in range(count):
        past = psi[max(0, j - len(a)) : j][::-1]
        psi[j] += a[: len(past)] @ past
    expected = np.array([psi[: count - h] @ psi[h:] for h in range(60)])
    np.testing.assert_allclose(kernel(np.arange(60.0)[:, None])[0], expected / expected[0], atol=1e-12)
    assert kernel.innovation_variance * expected[0] == pytest.approx(1.0, rel=1e-12)
    assert np.all(np.abs(np.roots([1.0, *theta])) < 1)  # invertible


def partials(coefficients: list[float]) -> list[float]:
    """Partial autocorrelations of the coefficients of an autoregression, the recursion of Levinson backwards."""
    a, found = np.array(coefficients), []
    while len(a):
        k, rest = a[-1], a[:-1]
        found.insert(0, float(k))
        a = (rest + k * rest[::-1]) / (1 - k**2)
    return found


STATSMODELS = [  # SARIMAX(y, order=(p, 0, q), measurement_error=True).loglike of statsmodels 0.15.0, ssm.tolerance = 0
    ([0.5], [0.4], 0.6, 0.1, -68.36740037317728),
    ([0.5, 0.3], [-0.5, 0.2], 0.6, 0.1, -73.88509960607308),
    ([], [0.9, 0.3, -0.2], 0.6, 0.05, -64.8332909741698),
    ([1.2, -0.5, 0.1], [0.3], 0.2, 0.3, -64.19805726790264),
]


@pytest.mark.parametrize(("regression", "moving", "shocks", "noise", "expected"), STATSMODELS, ids=str)
@pytest.mark.parametrize("form", ["markov", "dense"])
def test_the_likelihood_of_statsmodels(regression, moving, shocks, noise, expected, form):
    """With noise of measurement, and three values missing."""
    t = np.arange(60.0)
    y = np.sin(0.7 * t) + 0.5 * np.cos(1.9 * t**1.1)
    known = np.delete(np.arange(60), [7, 8, 30])
    m = -np.array(partials([-c for c in moving]))
    kernel = Autoregressive(partials(regression) if regression else fixed(0.0), m)
    np.testing.assert_allclose(kernel.moving_coefficients, moving, atol=1e-14)
    model = GP(shocks / kernel.innovation_variance * kernel, Gaussian(noise), representation=form)
    assert model.evidence(t[known, None], y[known])[0] == pytest.approx(expected, abs=1e-9)


KERNELS = [
    1.7 * Autoregressive(-0.6),
    0.8 * Autoregressive([0.6, -0.9]),
    Autoregressive([0.3, -0.5, 0.8, 0.2, -0.6]) + 0.5 * Matern(4.0, nu=1.5),
    Autoregressive([0.9, -0.3]) * Autoregressive([0.2, 0.1, 0.5]) + Linear(0.01),
    2.0 * Autoregressive([0.9, -0.3, 0.2]) * Cosine(7.0) + Autoregressive([0.9, -0.3, 0.2]),
    1.3 * Autoregressive(0.5, moving=-0.9),
    Autoregressive([0.6, -0.9], moving=[0.3, -0.7, 0.2]) * Cosine(7.0)
    + 0.5 * Autoregressive([0.3, 0.2, -0.5], 0.4),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_the_state_space_form_is_exact(kernel):
    rng = np.random.default_rng(0)
    U, g, v = rng.standard_normal((len(T), 2)), rng.standard_normal(len(T)), rng.uniform(0.1, 1.0, len(T))
    mine, dense = (form.prior(kernel.bind(1), None, Inputs(T)) for form in (Markov(), Dense()))
    np.testing.assert_allclose(mine.times(U), dense.times(U), atol=1e-11)
    one, other = mine.observe(v), dense.observe(v)
    assert one.noisy_log_det == pytest.approx(other.noisy_log_det, rel=1e-11)
    weights = (U, U[:, ::-1].copy(), 0.7, g, g[::-1].copy())
    np.testing.assert_allclose(one.pull_prior(*weights).kernel, other.pull_prior(*weights).kernel, rtol=1e-8)


@pytest.mark.parametrize(("likelihood", "rule"), [(Gaussian(0.1), "exact"), (StudentT(0.3, 4.0), EP(1e-9))])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[-1]], ids=["AR", "ARMA"])
def test_evidence_and_its_gradient_equal_those_of_dense_matrices(kernel, likelihood, rule):
    rng = np.random.default_rng(1)
    t = np.delete(np.arange(80.0), [3, 4, 30])[:, None]
    y = np.sin(t[:, 0]) + 0.2 * rng.standard_normal(len(t))
    models = [GP(kernel, likelihood, inference=rule, representation=form) for form in ("markov", "dense")]
    (value, gradient), (same, slope) = (model.evidence(t, y) for model in models)
    assert value == pytest.approx(same, rel=1e-8)
    np.testing.assert_allclose(gradient, slope, rtol=1e-7, atol=1e-7)
    found = [model.condition(t, y) for model in models]
    new = np.array([[-2.0], [3.0], [95.0]])
    np.testing.assert_allclose(found[0].mean(new), found[1].mean(new), atol=1e-8)
    np.testing.assert_allclose(found[0].variance(new), found[1].variance(new), atol=1e-8)


@pytest.mark.parametrize("form", ["markov", "dense"])
def test_times_off_the_grid_are_refused_by_name(form):
    model = GP(1.0 * Autoregressive(0.5), Gaussian(0.1), representation=form)
    with pytest.raises(ValueError, match=r"Autoregressive is a process at whole times, got 1.5;"):
        model.condition([[0.0], [2.0], [1.5]], [0.0, 1.0, 0.5])
    posterior = model.condition([[0.0], [2.0], [1.0]], [0.0, 1.0, 0.5])
    with pytest.raises(ValueError, match=r"whole times, got 0.25"):
        posterior.mean([[0.25]])


def test_a_moving_average_that_nearly_undoes_the_regression_is_nearly_white():
    """Equal numbers of either sign cancel: f is the white noise itself."""
    k = 1 - 1e-9
    for form in (Markov(), Dense()):
        prior = form.prior(Autoregressive(k, moving=-k).bind(1), None, Inputs(T))
        np.testing.assert_allclose(prior.times(np.eye(len(T))), T == T.T, atol=1e-6)


def test_what_is_no_partial_autocorrelation_is_refused():
    with pytest.raises(ValueError, match="partial"):
        Autoregressive([0.5, 1.0])
    with pytest.raises(ValueError, match="one per lag"):
        Autoregressive([[0.5]])
    with pytest.raises(ValueError, match="moving must be a number, or a vector with one per lag, got"):
        Autoregressive(0.5, moving=[[0.5]])


# --- the process on a circle --------------------------------------------------------------------------------


@pytest.mark.parametrize("lengthscale", [0.05, 1.0, 30.0])
def test_the_process_on_a_circle_is_a_wrapped_exponential(lengthscale):
    period, t = 3.0, np.linspace(-7.0, 7.0, 41)
    wraps = np.arange(-400, 401)
    wrapped = np.exp(-np.abs(np.subtract.outer(t, period * wraps)) / lengthscale).sum(axis=1)
    expected = wrapped / np.exp(-np.abs(period * wraps) / lengthscale).sum()
    found = OnCircle(period, lengthscale)(t[:, None], [[0.0]])[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_sampled_at_a_polygon_it_is_the_autoregression_of_the_polygon():
    """Precision with 1 + a^2 on the diagonal and -a beside it, around the circle."""
    N, a = 6, np.exp(-1 / 2.5)
    K = OnCircle(6.0, 2.5)(np.arange(6.0)[:, None])
    P = np.linalg.inv(K)
    P *= (1 + a**2) / P[0, 0]
    expected = (1 + a**2) * np.eye(N) - a * (np.roll(np.eye(N), 1, axis=0) + np.roll(np.eye(N), -1, axis=0))
    np.testing.assert_allclose(P, expected, atol=1e-13)


def test_extremes_of_the_circle():
    x = np.array([[0.0], [0.3], [1e9]])
    np.testing.assert_allclose(OnCircle(1.0, 1e-6)(x), [[1, 0, 1], [0, 1, 0], [1, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(OnCircle(1.0, 1e9)(x), 1.0, atol=1e-12)


def test_on_the_line_the_process_on_a_circle_is_not_markov():
    with pytest.raises(ValueError, match=r"OnCircle.*no exact state-space form; the nearest.*Seasonal"):
        GP(1.0 * OnCircle(3.0), Gaussian(0.1), representation="markov").condition([[0.0], [1.0]], [0.0, 1.0])
