"""Samplers, annealing and assessment run on a representation they have never seen, and agree with the dense one."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import assess
from cavity.gp import GP
from cavity.kernels import SE, Matern
from cavity.latent import base
from cavity.latent.base import Inputs
from cavity.latent.dense import Dense
from cavity.latent.markov import Markov
from cavity.likelihoods import Gaussian, MixtureOfGaussians, Observations, Probit, StudentT
from cavity.sampling.annealing.path import Bridge
from cavity.sampling.elliptical_slice import elliptical_slice_sampling
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.joint_target import JointTarget
from cavity.sampling.latent_target import LatentTarget
from cavity.sampling.mcmc import MCMC
from tests.latent.naive import Naive

N = 12
RNG = np.random.default_rng(0)
X = np.linspace(-2, 2, N)[:, None]
LABELS = np.where(np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(N) > 0, 1.0, -1.0)
REAL = np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(N)
KERNEL = (1.5 * SE(0.6)).bind(1)
NEW = np.linspace(-3, 3, 5)[:, None]


def targets(metric=None):
    priors = [r.prior(KERNEL, None, Inputs(X)) for r in (Dense(), Naive())]
    return [LatentTarget(prior, Observations(Probit(), LABELS), metric=metric) for prior in priors]


@pytest.mark.parametrize("metric", [None, "ep", "laplace"])
def test_densities_of_latent_values_agree(metric):
    dense, naive = targets(metric)
    F = RNG.standard_normal((4, N))
    for target in (dense, naive):
        np.testing.assert_allclose(target.latent(target.whiten(F)), F, atol=1e-8)
    # white coordinates may be rotated by a metric, latent values and densities may not
    U, V = dense.whiten(F), naive.whiten(F)
    np.testing.assert_allclose(naive.log_density(V), dense.log_density(U), atol=1e-8)
    np.testing.assert_allclose((naive.gradient(V) ** 2).sum(1), (dense.gradient(U) ** 2).sum(1), rtol=1e-8)


def test_chains_agree_draw_by_draw():
    found = []
    for target in targets():
        start = np.zeros((2, N))
        by_slices = elliptical_slice_sampling(
            lambda U, t=target: t.log_likelihood(t.latent(U)), start, n_draws=30, rng=1
        )
        by_leaps = hamiltonian(target, start, n_draws=30, warmup=20, rng=1)
        found.append(np.concatenate([by_slices.positions, by_leaps.positions]))
    np.testing.assert_allclose(found[1], found[0], atol=1e-8)


def test_annealing_paths_agree():
    models = [GP(KERNEL, StudentT(0.2, 3.0), inference="ep", representation=r) for r in ("dense", Naive())]
    F = RNG.standard_normal((3, N))
    for sites in (None, models[0].condition(X, REAL).approximation.sites):
        mine, other = (Bridge(m.prior(X), Observations(m.likelihood, REAL), sites=sites) for m in models)
        assert other.log_mass == pytest.approx(mine.log_mass, abs=1e-8)
        np.testing.assert_allclose(other.position(F), mine.position(F), atol=1e-8)
        np.testing.assert_allclose(other.latent(other.position(F)), F, atol=1e-8)


ROUGH = (1.5 * Matern(0.6, nu=1.5)).bind(1)


@pytest.mark.parametrize("metric", [None, "ep", "laplace"])
def test_densities_by_recursions_are_those_by_matrices(metric, monkeypatch):
    """Of more rows than there are matrices for."""
    dense = LatentTarget(Dense().prior(ROUGH, None, Inputs(X)), Observations(Probit(), LABELS), metric=metric)
    monkeypatch.setattr(base, "COVARIANCE_LIMIT", 5)
    markov = LatentTarget(
        Markov().prior(ROUGH, None, Inputs(X)), Observations(Probit(), LABELS), metric=metric
    )
    F = RNG.standard_normal((4, N))
    U, V = dense.whiten(F), markov.whiten(F)
    np.testing.assert_allclose(markov.latent(V), F, atol=1e-9)
    np.testing.assert_allclose(markov.log_density(V), dense.log_density(U), atol=1e-8)
    value, gradient = markov.value_and_gradient(V)
    np.testing.assert_allclose(value, dense.log_density(U), atol=1e-8)
    np.testing.assert_allclose((gradient**2).sum(1), (dense.gradient(U) ** 2).sum(1), rtol=1e-7)
    np.testing.assert_allclose(markov.gradient(V), gradient)
    spread = markov.latent(markov.draw_prior(4000, np.random.default_rng(0))).var(axis=0)
    np.testing.assert_allclose(spread, 1.5, rtol=0.15)


def test_annealing_paths_by_recursions_are_those_by_matrices(monkeypatch):
    models = [GP(ROUGH, StudentT(0.2, 3.0), inference="ep", representation=r) for r in ("dense", "markov")]
    y = REAL + 3.0 * (np.arange(N) == 4)
    sites = models[0].condition(X, y).approximation.sites
    assert (sites.precision < 0).any()
    F = RNG.standard_normal((3, N))
    for start in (None, sites):
        matrices = Bridge(models[0].prior(X), Observations(models[0].likelihood, y), sites=start)
        with monkeypatch.context() as patch:
            patch.setattr(base, "COVARIANCE_LIMIT", 5)
            recursions = Bridge(models[1].prior(X), Observations(models[1].likelihood, y), sites=start)
        assert recursions.log_mass == pytest.approx(matrices.log_mass, abs=1e-8)
        found, expected = recursions.position(F), matrices.position(F)
        np.testing.assert_allclose((found**2).sum(1), (expected**2).sum(1), rtol=1e-7)
        np.testing.assert_allclose(recursions.latent(found), F, atol=1e-9)
        slopes = [b.pulled_slope(F) for b in (recursions, matrices)]
        np.testing.assert_allclose((slopes[0] ** 2).sum(1), (slopes[1] ** 2).sum(1), rtol=1e-7)


@pytest.mark.parametrize("likelihood", [Gaussian(0.05), MixtureOfGaussians(0.2, 0.1, 5.0)])
def test_posteriors_made_of_draws_agree(likelihood):
    rule = MCMC(n_draws=20, warmup=20, chains=2, rng=0, warn=False, progress=False)
    models = [GP(KERNEL, likelihood, inference=rule, representation=r) for r in ("dense", Naive())]
    mine, other = (model.condition(X, REAL) for model in models)
    np.testing.assert_allclose(other.mean(NEW), mine.mean(NEW), atol=1e-8)
    np.testing.assert_allclose(other.variance(NEW), mine.variance(NEW), atol=1e-8)


def test_joint_densities_of_latent_values_and_hyperparameters_agree():
    # well conditioned, since the slope of a Cholesky factor magnifies rounding by the condition number
    rough = (1.5 * Matern(0.6, nu=1.5)).bind(1)
    models = [GP(rough, Probit(), inference="ep", representation=r) for r in ("dense", Naive())]
    mine, other = (JointTarget(model, X, LABELS) for model in models)
    U = 0.3 * RNG.standard_normal((3, mine.dim))
    for found, expected in zip(other.value_and_gradient(U), mine.value_and_gradient(U)):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_assessment_runs_on_a_stranger():
    found = assess(
        GP(KERNEL, Probit(), representation=Naive()), X, LABELS, max_time=8.0, rng=0, progress=False
    )
    assert found.certified
    assert abs(found["ep"].evidence_error) < 0.1
