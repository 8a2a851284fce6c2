"""Noisy expected improvement: its limits, brute force, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP
from cavity.design.acquisition import log_expected_improvement, log_noisy_ei
from cavity.kernels import SE
from cavity.latent.moments import moments_of
from cavity.likelihoods import Gaussian
from tests.design import golden

NEW = golden.GRID[~golden.SEEN]


def test_without_noise_it_is_expected_improvement():
    moments = golden.state()
    mean, variance = moments(NEW)
    expected = log_expected_improvement(mean[:, 0], variance, golden.BEST).value
    # known values are drawn with the jitter of a Cholesky factor, 1e-5 standard deviations of the prior
    np.testing.assert_allclose(log_noisy_ei(moments, golden.X, 0)(NEW), expected, atol=1e-4)


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(4)
    X = rng.random((7, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] + 0.4 * rng.standard_normal(7)
    return X, moments_of(GP(1.0 * SE([0.5, 0.7]), Gaussian(0.16)).condition(X, y).process)


def test_against_brute_force(noisy):
    """E max(min f(rows) - f(x), 0) by joint draws of all of them."""
    X, moments = noisy
    points = np.array([[0.1, 0.1], [0.9, 0.3], [0.5, 0.05]])
    mean, covariance = moments.at(np.vstack([X, points]))
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 400_000)
    gain = np.maximum(draws[:, :7].min(axis=1)[:, None] - draws[:, 7:], 0.0)
    error = gain.std(axis=0) / np.sqrt(len(gain))
    found = np.exp(log_noisy_ei(moments, X, 0, draws=4096)(points))
    # rows that are hardly ever best are left out, which changes little where much can be gained
    assert (np.abs(found - gain.mean(axis=0)) < 4 * error + 1e-4).all()


def test_pending_points_lower_it(noisy):
    X, moments = noisy
    point = np.array([[0.1, 0.1]])
    alone = log_noisy_ei(moments, X, 0)(point)[0]
    assert log_noisy_ei(moments, X, 0, pending=point + 0.05)(point)[0] < alone
    assert log_noisy_ei(moments, X, 0, pending=point)(point)[0] < alone - 5


def test_its_gradient_against_differences(noisy):
    X, moments = noisy
    score = log_noisy_ei(moments, X, 0, pending=np.array([[0.3, 0.9]]))
    points = np.array([[0.15, 0.1], [0.9, 0.3], [0.5, 0.95]])
    value, gradient = score.with_gradient(points)
    np.testing.assert_allclose(value, score(points), rtol=1e-10)
    for i in range(2):
        step = 1e-5 * np.eye(2)[i]
        np.testing.assert_allclose(
            gradient[:, i], (score(points + step) - score(points - step)) / 2e-5, rtol=1e-5, atol=1e-7
        )
