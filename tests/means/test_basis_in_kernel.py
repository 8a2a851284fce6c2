"""Basis functions with rules other than the exact one: integrated out through the covariance."""

import numpy as np
import pytest

from cavity.gp import GP
from cavity.kernels import SE
from cavity.kernels.basis_functions import FeatureKernel
from cavity.likelihoods import Gaussian, StudentT
from cavity.means.basis import Basis


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (25, 1))
    return X, 1.0 + 2.0 * X[:, 0] + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(25)


def test_gaussian_noise_gives_the_exact_answer_for_a_finite_prior(data):
    X, y = data
    mean = Basis("linear", prior_mean=[0.5, -1.0], prior_covariance=[4.0, 9.0])
    exact = GP(1.5 * SE(1.0), Gaussian(0.01), mean)
    other = GP(1.5 * SE(1.0), Gaussian(0.01), mean, inference="ep")
    Z = np.array([[-4.0], [0.3], [5.0]])
    for model in (other,):
        value, gradient = model.evidence(X, y)
        expected, expected_gradient = exact.evidence(X, y)
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-6, atol=1e-8)
        a, b = model.condition(X, y), exact.condition(X, y)
        np.testing.assert_allclose(a.mean(Z), b.mean(Z), rtol=1e-8)
        np.testing.assert_allclose(a.variance(Z), b.variance(Z), rtol=1e-6)
        np.testing.assert_allclose(a.mean_gradient(Z), b.mean_gradient(Z), rtol=1e-7)
        np.testing.assert_allclose(a.variance_gradient(Z), b.variance_gradient(Z), rtol=1e-5, atol=1e-9)


def test_vague_weights_get_a_finite_prior_that_is_stated(data):
    X, y = data
    vague = GP(1.5 * SE(1.0), Gaussian(0.01), Basis("linear"))
    posterior = GP(1.5 * SE(1.0), StudentT(0.1, 50.0), Basis("linear"), inference="ep").condition(X, y)
    assert "finite prior" in posterior.status.message
    Z = np.array([[-4.0], [5.0]])
    np.testing.assert_allclose(posterior.mean(Z), vague.condition(X, y).mean(Z), atol=0.2)


def test_the_covariance_is_that_of_the_weights():
    basis = Basis("linear", prior_covariance=[[2.0, 0.3], [0.3, 1.0]]).bind(1)
    X = np.array([[0.5], [-1.0], [2.0]])
    H = np.column_stack([np.ones(3), X[:, 0]])
    kernel = FeatureKernel(basis)
    np.testing.assert_allclose(kernel(X), H @ [[2.0, 0.3], [0.3, 1.0]] @ H.T, rtol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), np.diag(kernel(X)), rtol=1e-12)
    with pytest.raises(ValueError, match="finite prior"):
        FeatureKernel(Basis("linear").bind(1))
