"""Digits of posterior moments where sites are far sharper than the prior, against multiprecision algebra."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites

X = np.random.default_rng(0).uniform(-10, 10, (15, 1))


def truth(K, sites):
    """Mean, variances and weights of prior times sites, in 60 digits."""
    with mpmath.workdps(60):
        n = len(K)
        A = mpmath.eye(n) + mpmath.matrix(K.tolist()) * mpmath.diag(sites.precision.tolist())
        inverse = A**-1
        S = inverse * mpmath.matrix(K.tolist())
        nu = mpmath.matrix(sites.shift.tolist())
        mean, weights = S * nu, inverse.T * nu
        return (
            np.array([float(x) for x in mean]),
            np.array([float(S[i, i]) for i in range(n)]),
            np.array([float(x) for x in weights]),
        )


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(("sharpness", "digits"), [(1e2, 1e-12), (1e5, 1e-9), (1e8, 1e-6)])
def test_moments_keep_their_digits_next_to_sharp_sites(sharpness, digits, negative):
    """Errors grow with precision times prior variance, not with its product with the sites' shifts."""
    rng = np.random.default_rng(1)
    tau = sharpness * rng.uniform(0.1, 1.0, 15)
    nu = tau * np.sin(X[:, 0])
    tau[3], nu[3] = 0.0, 0.4
    if negative:
        tau[[5, 9]], nu[[5, 9]] = -0.02, 0.1
    prior = DensePrior((2.0 * SE(2.0)).bind(1), X)
    mean, var, weights = truth(prior.covariance.copy(), Sites(nu, tau))
    q = Conditioned(prior, Sites(nu, tau))
    np.testing.assert_allclose(q.var, var, rtol=digits)
    assert np.max(np.abs(q.mean - mean) / np.sqrt(var)) < digits
    assert np.max(np.abs(q.weights - weights) * np.sqrt(var)) < digits


def test_sites_of_no_information_leave_the_shift_alone():
    prior = DensePrior((2.0 * SE(2.0)).bind(1), X)
    nu = np.linspace(-1, 1, 15)
    q = Conditioned(prior, Sites(nu, np.zeros(15)))
    np.testing.assert_array_equal(q.weights, nu)
