"""Draws from the prior have its mean and covariance."""

from __future__ import annotations

import numpy as np

from cavity import GP
from cavity.kernels import SE
from cavity.likelihoods import Softmax
from cavity.means.functions import Linear


def test_moments_within_four_standard_errors() -> None:
    X, size = np.array([[0.0], [0.5], [0.5], [3.0]]), 20_000
    model = GP(2.0 * SE(1.0), mean=Linear(1.0, [0.5]))
    draws = model.sample_prior(X, size=size, rng=1)
    K = 2.0 * np.exp(-0.5 * (X - X.T) ** 2)
    assert np.all(np.abs(draws.mean(axis=0) - (1.0 + 0.5 * X[:, 0])) < 4 * np.sqrt(np.diag(K) / size))
    error = np.cov(draws.T) - K
    assert np.all(np.abs(error) < 4 * np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / size))
    np.testing.assert_allclose(draws[:, 1], draws[:, 2], atol=1e-6)


def test_several_latent_functions_have_an_axis_of_their_own() -> None:
    draws = GP(4.0 * SE(1.0), Softmax(3)).sample_prior([[0.0], [9.0]], size=20_000, rng=0)
    assert draws.shape == (20_000, 2, 3)
    cov = np.cov(draws.reshape(-1, 6).T)
    assert np.all(np.abs(cov - 4.0 * np.eye(6)) < 4 * np.sqrt((16 + 16 * np.eye(6)) / 20_000))
