"""Moments with one pullback, pending values by exact conditioning, scores as functions of the point."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from cavity import GP
from cavity.design.acquisition.improvement import expected_improvement, log_expected_improvement
from cavity.design.acquisition.pointwise import OfMoments, fantasies, log_ei
from cavity.design.feasibility import log_probability_below
from cavity.kernels import SE, Matern
from cavity.latent.moments import moments_of
from cavity.likelihoods import Gaussian, StudentT
from tests.design import golden


def posteriors():
    rng = np.random.default_rng(0)
    X = rng.random((25, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1]
    y[::6] += 4.0
    lengths = np.array([0.3, 0.6, 2.0])
    return {
        "exact": GP(1.3 * Matern(lengths, nu=2.5), Gaussian(0.01)).condition(X, y),
        "sites": GP(1.3 * SE(lengths), StudentT(0.05, 2.0)).condition(X, y),
    }


@pytest.mark.parametrize("name", ["exact", "sites"])
def test_moments_are_those_of_the_posterior(name):
    posterior = posteriors()[name]
    X = np.random.default_rng(1).random((7, 3)) * 1.2
    mean, variance = moments_of(posterior.process)(X)
    np.testing.assert_allclose(mean[:, 0], posterior.mean(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(variance, posterior.variance(X), rtol=1e-7, atol=1e-10)


def test_sites_of_student_noise_include_negative_ones():
    q = posteriors()["sites"].approximation.q
    assert (q.sites.precision < 0).any()


@pytest.mark.parametrize("name", ["exact", "sites"])
def test_the_pullback_of_both_against_differences(name):
    moments = moments_of(posteriors()[name].process)
    X = np.random.default_rng(2).random((4, 3))
    a, c = np.random.default_rng(3).standard_normal((2, 4))

    def total(X):
        mean, variance = moments(X)
        return float(a @ mean[:, 0] + c @ variance)

    _, _, pull = moments.with_pull(X)
    gradient = pull(a[:, None], c)
    for i in range(4):
        for j in range(3):
            step = np.zeros_like(X)
            step[i, j] = 1e-5
            assert gradient[i, j] == pytest.approx(
                (total(X + step) - total(X - step)) / 2e-5, rel=1e-6, abs=1e-8
            )


def test_the_pullback_of_covariances_against_differences():
    moments = moments_of(posteriors()["exact"].process)
    rng = np.random.default_rng(2)
    X, Y, G = rng.random((3, 3)), rng.random((5, 3)), rng.standard_normal((3, 5))
    value, pull = moments.covariance_with_pull(X, Y)
    np.testing.assert_allclose(value, moments.covariance(X, Y), atol=1e-12)
    gradient = pull(G)
    for i in range(3):
        for j in range(3):
            step = np.zeros_like(X)
            step[i, j] = 1e-5
            change = np.sum(G * (moments.covariance(X + step, Y) - moments.covariance(X - step, Y))) / 2e-5
            assert gradient[i, j] == pytest.approx(change, rel=1e-6, abs=1e-8)


def test_known_values_condition_as_further_observations_do():
    posterior = posteriors()["exact"]
    moments = moments_of(posterior.process)
    P, values = np.array([[0.2, 0.3, 0.4], [0.8, 0.1, 0.9]]), np.array([0.5, -0.7])
    after = moments.given(P, lambda mean, lower: values[None])
    data = posterior.data
    noise = np.concatenate([np.full(len(data.X), 0.01), np.full(2, 1e-10)])
    K = posterior.model.kernel(np.vstack([data.X, P])) + np.diag(noise)
    X = np.random.default_rng(5).random((6, 3))
    cross = posterior.model.kernel(X, np.vstack([data.X, P]))
    mean, variance = after(X)
    np.testing.assert_allclose(
        mean[:, 0], cross @ np.linalg.solve(K, np.concatenate([data.y, values])), atol=1e-7
    )
    np.testing.assert_allclose(
        variance, 1.3 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1), atol=1e-7
    )


@pytest.mark.parametrize("pending", [0, 3])
def test_scores_have_gradients_in_the_point(pending):
    moments = moments_of(posteriors()["exact"].process)
    best: object = -0.4
    if pending:
        moments, best = fantasies(moments, np.random.default_rng(7).random((pending, 3)), -0.4, seed=1)
    limit = OfMoments(moments_of(posteriors()["sites"].process), log_probability_below(0.2), (), False)
    plain = log_ei(moments, best)
    acquisition = OfMoments(plain.moments, plain.score, (limit,))
    X = np.random.default_rng(8).random((5, 3))
    X[0] = [0.0, 1.0, 0.0]  # corners of the box too
    value, gradient = acquisition.with_gradient(X)
    np.testing.assert_allclose(value, acquisition(X), rtol=1e-12)
    for i in range(5):
        for j in range(3):
            step = np.zeros_like(X)
            step[i, j] = 1e-6
            change = (acquisition(X + step)[i] - acquisition(X - step)[i]) / 2e-6
            assert gradient[i, j] == pytest.approx(change, rel=2e-5, abs=1e-6)


def test_log_expected_improvement_of_the_notes_state_and_its_slope():
    """x = 1.7: -2.98810683, and d/dx = 4.01904432 (high-precision arithmetic)."""
    value, gradient = log_ei(golden.state(), golden.BEST).with_gradient(np.array([[1.7]]))
    assert value[0] == pytest.approx(-2.98810683, abs=1e-8)
    assert gradient[0, 0] == pytest.approx(4.01904432, abs=1e-7)


def test_a_feasible_improvement():
    """log EI(2) + log Phi(0.75) = -2.593172377845."""
    mean, variance = golden.state()(np.array([[2.0]]))
    ei = log_expected_improvement(mean[:, 0], variance, golden.BEST).value[0]
    assert ei + norm.logcdf(0.75) == pytest.approx(-2.593172377845, abs=1e-8)
    feasible = log_probability_below(0.75)(np.zeros((1, 1)), np.ones((1, 1))).value
    assert feasible[0, 0] == pytest.approx(norm.logcdf(0.75), rel=1e-14)


def test_a_second_point_of_a_batch_by_fantasies():
    """EI(3 | 2 pending) = 0.014532388615 by quadrature, here by averages over draws."""
    moments, bests = fantasies(golden.state(), np.array([[2.0]]), golden.BEST, seed=0, draws=8192)
    value = np.exp(log_ei(moments, bests)(np.array([[3.0]]))[0])
    one = log_ei(golden.state(), golden.BEST)
    assert np.exp(one(np.array([[2.0]]))[0]) == pytest.approx(0.096696496189, abs=1e-9)
    assert np.exp(one(np.array([[3.0]]))[0]) == pytest.approx(0.014537592230, abs=1e-9)
    mean, variance = moments(np.array([[3.0]]))
    each = expected_improvement(mean, variance[:, None], bests).value[0]
    assert value == pytest.approx(each.mean(), rel=1e-10)
    assert value == pytest.approx(0.014532388615, abs=4 * each.std() / np.sqrt(8192))
    assert value == pytest.approx(0.014532388615, rel=1e-3)  # the draws are evenly spread


def test_nothing_is_left_to_learn_at_a_known_point():
    acquisition = log_ei(golden.state(), golden.BEST)
    assert acquisition(golden.X)[1] == -np.inf
    assert np.isfinite(acquisition(golden.X + 0.05)).all()
