"""Chains and annealing in white coordinates of inducing inputs and of latent neighbors: there may be more of these than
rows, or fewer."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, Inducing, LatentNeighbors, assess
from cavity.inference import EP
from cavity.io import load, save
from cavity.kernels import SE
from cavity.latent import base
from cavity.latent.base import CapabilityError
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods import Gaussian, Probit
from cavity.likelihoods.observations import Observations
from cavity.sampling import MCMC
from cavity.sampling.annealing.ais import annealed_importance_sampling
from cavity.sampling.annealing.path import Bridge
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.latent_target import LatentTarget
from cavity.sampling.psis import importance_evidence

RNG = np.random.default_rng(0)
N = 30
X = RNG.uniform(0, 4, (N, 1))
Y = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(N)
LABELS = np.where(Y > 0.1, 1.0, -1.0)
KERNEL = 1.2 * SE(0.8)
NEW = np.linspace(-0.5, 4.5, 6)[:, None]
HELD = {
    "fitc": Inducing(6, "fitc"),
    "function of u": Inducing(6, "dtc"),
    "latent neighbors": LatentNeighbors(5, scales=[0.8]),
}
every = pytest.mark.parametrize("held", HELD.values(), ids=HELD)
both_ways = pytest.mark.parametrize("limit", [1000, 5], ids=["matrices", "recursions"])


def prior_of(held):
    return GP(KERNEL, representation=held).bind(1).for_rows(X).prior(X)


@every
@both_ways
@pytest.mark.parametrize("metric", [None, "ep"])
def test_a_gaussian_likelihood_has_its_posterior_in_any_coordinates(held, limit, metric, monkeypatch):
    """The density of positions is the posterior's: its gradient and its maximum, from closed forms."""
    monkeypatch.setattr(base, "COVARIANCE_LIMIT", limit)
    prior, noise = prior_of(held), 0.1
    exact = Conditioned(prior, Sites(Y / noise, np.full(N, 1.0 / noise)))
    target = LatentTarget(prior, Observations(Gaussian(noise), Y), metric=metric)
    top = target.whiten(exact.mean[None])
    np.testing.assert_allclose(target.latent(top)[0], exact.mean, atol=1e-6)
    value, gradient = target.value_and_gradient(top)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-4)
    step = 1e-5 * np.random.default_rng(1).standard_normal(top.shape)
    there = top + 0.3
    slope = (target.log_density(there + step) - target.log_density(there - step)) / 2.0
    np.testing.assert_allclose(slope, np.sum(target.gradient(there) * step, axis=1), rtol=1e-5)
    # integrated by Laplace's method, which is exact here: the log evidence
    H = np.array(
        [target.gradient(top + e)[0] - target.gradient(top - e)[0] for e in 1e-3 * np.eye(target.dim)]
    )
    curvature = np.linalg.slogdet(-H / 2e-3)[1]
    found = value[0] + 0.5 * target.dim * np.log(2 * np.pi) - 0.5 * curvature
    sites = exact.log_normalizer - 0.5 * Y @ Y / noise - 0.5 * N * np.log(2 * np.pi * noise)
    assert found == pytest.approx(sites, abs=1e-3)


@every
def test_chains_have_the_moments_of_the_posterior(held):
    prior, noise = prior_of(held), 0.1
    exact = Conditioned(prior, Sites(Y / noise, np.full(N, 1.0 / noise)))
    target = LatentTarget(prior, Observations(Gaussian(noise), Y), metric="ep")
    start = np.random.default_rng(2).standard_normal((4, target.dim))
    trace = hamiltonian(target, start, n_draws=400, warmup=100, rng=np.random.default_rng(3))
    F = target.latent(trace.pooled)
    error = (F.mean(axis=0) - exact.mean) / np.sqrt(exact.var / len(F))
    assert np.abs(error).max() < 8.0  # draws are not quite independent
    np.testing.assert_allclose(F.var(axis=0), exact.var, rtol=0.3)


@every
@both_ways
def test_annealing_finds_the_evidence(held, limit, monkeypatch):
    """EP is good to some hundredths of a nat for so few labels; annealing is unbiased."""
    monkeypatch.setattr(base, "COVARIANCE_LIMIT", limit)
    model = GP(KERNEL, Probit(), inference=EP(), representation=held).bind(1).for_rows(X)
    known = model.condition(X, LABELS).log_evidence
    found = annealed_importance_sampling(model, X, LABELS, max_time=1.5, rng=np.random.default_rng(4))
    assert found.log_evidence == pytest.approx(known, abs=0.1 + 4 * found.standard_error)


@every
def test_a_bridge_that_starts_at_the_posterior_knows_its_mass(held):
    prior, noise = prior_of(held), 0.1
    sites = Sites(Y / noise, np.full(N, 1.0 / noise))
    bridge = Bridge(prior, Observations(Gaussian(noise), Y), sites=sites, end=Conditioned(prior, sites).mean)
    assert bridge.log_mass == pytest.approx(Conditioned(prior, sites).log_normalizer, rel=1e-8)
    ratio = bridge.log_ratio(bridge.latent(np.random.default_rng(5).standard_normal((4, bridge.dim))))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)


@every
def test_draws_predict_and_are_kept_in_files(held, tmp_path):
    chains = MCMC(hyperparameters=False, n_draws=150, warmup=50, chains=2, rng=0, warn=False, progress=False)
    posterior = GP(KERNEL, Probit(), inference=chains, representation=held).condition(X, LABELS)
    by_ep = GP(KERNEL, Probit(), inference=EP(), representation=held).condition(X, LABELS)
    np.testing.assert_allclose(posterior.predict_f(NEW).mean, by_ep.predict_f(NEW).mean, atol=0.5)
    save(posterior, tmp_path / "draws.cavity")
    again = load(tmp_path / "draws.cavity")
    np.testing.assert_allclose(again.predict_f(NEW).mean, posterior.predict_f(NEW).mean, rtol=1e-9)


@every
def test_assess_holds_all_methods_to_the_same_representation(held):
    model = GP(KERNEL, Probit(), inference=EP(), representation=held).bind(1).for_rows(X)
    found = assess(model, X, LABELS, inference=["ep"], max_time=0.6, rng=0)
    assert found.methods[0].log_evidence == pytest.approx(model.condition(X, LABELS).log_evidence, rel=1e-6)


@every
def test_importance_sampling_corrects_ep(held):
    posterior = GP(KERNEL, Probit(), inference=EP(), representation=held).condition(X, LABELS)
    assert importance_evidence(posterior, rng=0).log_evidence == pytest.approx(
        posterior.log_evidence, abs=0.1
    )


@every
def test_hyperparameters_do_not_move_with_latent_values(held):
    chains = MCMC(method="joint", n_draws=4, warmup=4, chains=2, rng=0, warn=False, progress=False)
    with pytest.raises(CapabilityError, match="white coordinates held fixed"):
        GP(KERNEL, Probit(), inference=chains, representation=held).condition(X, LABELS)
