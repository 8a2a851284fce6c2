"""Prior times sites: moments against dense algebra, every pullback against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from cavity.kernels import SE, Matern
from cavity.latent.conditioned import Conditioned
from cavity.latent.dense import DensePrior
from cavity.latent.sites import Sites
from cavity.means.functions import Linear as LinearMean

RNG = np.random.default_rng(0)
N = 10
X = RNG.standard_normal((N, 2))
KERNEL = 1.3 * SE([0.8, 1.5]) + 0.3 * Matern(1.0, nu=1.5)
MEAN = LinearMean(0.4, [0.3, -0.7])
SHIFT = RNG.standard_normal(N)
PRECISIONS = {
    "positive": np.exp(RNG.standard_normal(N)),
    "mixed": np.where(np.arange(N) % 4 == 0, -0.25, 1.5),
    "mixed with zeros": np.array([0, -0.2, 3, 0, 1, -0.1, 2, 0, 5, 1.0]),
    "negative": np.full(N, -0.05),
}


def condition(tau, shift=SHIFT, kernel=KERNEL, mean=MEAN) -> Conditioned:
    return Conditioned(DensePrior(kernel, X, mean), Sites(shift, tau))


@pytest.mark.parametrize("name", PRECISIONS)
def test_moments_and_normalizer_against_dense_algebra(name):
    tau, K, m = PRECISIONS[name], KERNEL(X), MEAN(X)
    precision = np.linalg.inv(K) + np.diag(tau)
    sigma = np.linalg.inv(precision)
    mean = sigma @ (np.linalg.solve(K, m) + SHIFT)
    c = condition(tau)
    np.testing.assert_allclose(c.mean, mean, atol=1e-9)
    np.testing.assert_allclose(c.var, np.diag(sigma), rtol=1e-9)
    np.testing.assert_allclose(c.covariance, sigma, atol=1e-10)
    U = RNG.standard_normal((N, 2))
    np.testing.assert_allclose(c.cov_times(U), sigma @ U, atol=1e-9)
    b = np.linalg.solve(K, m) + SHIFT
    log_z = 0.5 * (
        b @ mean - m @ np.linalg.solve(K, m) - np.linalg.slogdet(precision)[1] - np.linalg.slogdet(K)[1]
    )
    assert c.log_normalizer == pytest.approx(log_z, abs=1e-9)


def test_normalizer_of_observations_is_the_evidence_up_to_their_constants():
    y, s = RNG.standard_normal(N), np.exp(RNG.standard_normal(N))
    sites = Sites.of_observations(y, s)
    c = Conditioned(DensePrior(KERNEL, X, MEAN), sites)
    constants = -0.5 * np.sum(np.log(2 * np.pi * s) + y**2 / s)
    truth = multivariate_normal(MEAN(X), KERNEL(X) + np.diag(s)).logpdf(y)
    assert c.log_normalizer + constants == pytest.approx(truth, rel=1e-10)


@pytest.mark.parametrize("name", PRECISIONS)
def test_process_at_the_training_inputs_agrees_with_the_marginals(name):
    c = condition(PRECISIONS[name])
    process = c.process()
    np.testing.assert_allclose(process.mean(X), c.mean, atol=1e-10)
    np.testing.assert_allclose(process.variance(X), c.var, rtol=1e-8)
    np.testing.assert_allclose(process.covariance(X), c.covariance, atol=1e-10)


# --- pullbacks ----------------------------------------------------------------------------------------------


def scalar(c: Conditioned, a: float, u: np.ndarray, v: np.ndarray) -> float:
    return float(a * c.log_normalizer + u @ c.mean + v @ c.var)


def numerical(f, x, h=1e-6) -> np.ndarray:
    out = np.empty(len(x))
    for i in range(len(x)):
        e = np.zeros(len(x))
        e[i] = h * max(1.0, abs(x[i]))
        out[i] = (f(x + e) - f(x - e)) / (2 * e[i])
    return out


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("parts", ["normalizer", "mean", "var", "all"])
def test_every_pullback_against_finite_differences(name, parts):
    tau = PRECISIONS[name]
    rng = np.random.default_rng(3)
    a = 0.7 if parts in ("normalizer", "all") else 0.0
    u = rng.standard_normal(N) * (parts in ("mean", "all"))
    v = rng.standard_normal(N) * (parts in ("var", "all"))
    c = condition(tau)
    pulled = c.pull(a, u if parts in ("mean", "all") else None, v if parts in ("var", "all") else None)
    tol = {"rtol": 2e-6, "atol": 2e-7}
    np.testing.assert_allclose(
        KERNEL.to_theta(pulled.kernel),
        numerical(lambda x: scalar(condition(tau, kernel=KERNEL.replace(x)), a, u, v), KERNEL.theta),
        **tol,
    )
    np.testing.assert_allclose(
        pulled.mean,
        numerical(lambda x: scalar(condition(tau, mean=MEAN.with_flat(x)), a, u, v), MEAN.flat),
        **tol,
    )
    np.testing.assert_allclose(
        pulled.shift, numerical(lambda x: scalar(condition(tau, shift=x), a, u, v), SHIFT), **tol
    )
    # a site of precision zero moves to either sign: another branch of the algebra, the same function
    np.testing.assert_allclose(
        pulled.precision, numerical(lambda x: scalar(condition(x), a, u, v), tau), **tol
    )
