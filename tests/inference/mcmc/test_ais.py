"""Annealed importance sampling: against closed forms and enumeration, and what it must refuse to certify."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from cavity.gp import GP
from cavity.inference.mcmc.ais import annealed_importance_sampling
from cavity.kernels import SE
from cavity.likelihoods import (
    Gaussian,
    MixtureOfGaussians,
)


def regression(n=30, noise=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-3, 3, n))[:, None]
    return X, np.sin(2 * X[:, 0]) + noise * rng.standard_normal(n)


def labels(n=30, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.where(X[:, 0] * X[:, 1] + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


def within(result, truth, errors=3.0):
    assert abs(result.log_evidence - truth) <= errors * max(result.standard_error, 1e-7)


# --- closed forms ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moves", ["hmc", "elliptical"])
def test_gaussian_noise_from_the_prior(moves):
    X, y = regression(12 if moves == "elliptical" else 30)
    model = GP(1.0 * SE(0.8), Gaussian(0.25 if moves == "elliptical" else 0.04))
    truth = model.condition(X, y).log_evidence
    result = annealed_importance_sampling(
        model, X, y, start="prior", moves=moves, steps=500, runs=24, target_error=0.3, seed=2
    )
    assert result.certified, result.reason
    assert result.start == "prior"
    within(result, truth)


def test_gaussian_noise_from_its_own_posterior_is_exact():
    X, y = regression()
    model = GP(1.0 * SE(0.8), Gaussian(0.04))
    result = annealed_importance_sampling(model, X, y, seed=3)
    assert result.certified
    assert result.start == "ep"
    np.testing.assert_allclose(result.log_evidence, model.condition(X, y).log_evidence, atol=1e-6)
    assert result.sd_log_weights < 1e-6


def contaminated(pi=0.2, narrow=0.2, wide=1.5):
    """Ten observations, two of them outliers, under a mixture: the log evidence is a sum over 2^10 explanations."""
    X, _ = regression(10, seed=4)
    y = np.sin(2 * X[:, 0])
    y[[2, 7]] += [2.0, -1.5]
    model = GP(1.0 * SE(0.8), MixtureOfGaussians(fraction=pi, scale=narrow, outlier_scale=wide))
    K, terms = SE(0.8)(X), []
    for pattern in itertools.product([False, True], repeat=10):
        c = np.array(pattern)
        log_prior = c.sum() * np.log(pi) + (~c).sum() * np.log1p(-pi)
        noise = np.diag(np.where(c, wide, narrow) ** 2)
        terms.append(log_prior + multivariate_normal(np.zeros(10), K + noise).logpdf(y))
    return model, X, y, logsumexp(terms)


@pytest.mark.parametrize("start", ["prior", "ep"])
def test_mixture_noise_against_enumeration(start):
    model, X, y, truth = contaminated()
    result = annealed_importance_sampling(model, X, y, start=start, seed=5, runs=32, target_error=0.1)
    within(result, truth)
    assert result.certified, result.reason
    assert result.second.start != result.start  # several modes: another start confirms


def test_a_start_that_misses_a_mode_is_found_out():
    # The Gaussian at one mode does not reach the other: its runs agree with each other and are wrong.
    model, X, y, truth = contaminated()
    result = annealed_importance_sampling(model, X, y, start="laplace", seed=5, runs=32, target_error=0.1)
    assert result.log_evidence < truth - 3 * result.standard_error
    assert not result.certified
    assert "disagree" in result.reason
    within(result.second, truth)
