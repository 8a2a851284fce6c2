"""Samplers against quadrature over hyperparameters, and simulation-based calibration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2

from cavity.gp import GP
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.likelihoods import Gaussian, Observations, Probit
from cavity.parameters.param import Param
from cavity.parameters.priors import LogNormal
from cavity.sampling.diagnostics import ess_bulk, mcse_mean, mcse_sd
from cavity.sampling.elliptical_slice import elliptical_slice_sampling
from cavity.sampling.hmc import HMCOptions, hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.latent_target import LatentTarget
from cavity.sampling.mcmc import MCMC
from cavity.sampling.slice_sampling import slice_update

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-2, 2, 8))[:, None]
REAL = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(8)


def two_parameters():
    """Length scale and noise free, with priors; signal fixed."""
    kernel = Param(1.0, fixed=True) * SE(Param(0.7, prior=LogNormal(-0.3, 0.6)))
    return GP(kernel, Gaussian(Param(0.2, prior=LogNormal(-2.0, 0.8))))


def quadrature_moments(target, half=4.0, size=41):
    """Means and sds of theta by a product rule on a wide grid."""
    center = target.model.theta
    axes = [np.linspace(c - half, c + half, size) for c in center]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_w = target.log_density(grid)
    w = np.exp(log_w - logsumexp(log_w))
    mean = w @ grid
    return mean, np.sqrt(w @ (grid - mean) ** 2)


@pytest.fixture(scope="module")
def integrated():
    return quadrature_moments(HyperparameterTarget(two_parameters(), X, REAL))


def test_hmc_over_two_hyperparameters_agrees_with_quadrature(integrated):
    mean, sd = integrated
    target = HyperparameterTarget(two_parameters(), X, REAL)
    start = target.model.theta + 0.3 * np.random.default_rng(1).standard_normal((2, 2))
    options = HMCOptions(length=np.pi / 2)
    trace = hamiltonian(target, start, options, n_draws=400, warmup=150, rng=2, progress=False)
    x = trace.positions
    assert ess_bulk(x).min() > 120
    assert np.all(np.abs(x.mean((0, 1)) - mean) < 4 * mcse_mean(x))
    assert np.all(np.abs(x.std((0, 1)) - sd) < 4 * mcse_sd(x))


def test_joint_sampling_of_f_and_hyperparameters_agrees_with_quadrature(integrated):
    """The marginal posterior of the hyperparameters is that with f integrated out."""
    mean, sd = integrated
    rule = MCMC(n_draws=100, warmup=50, chains=6, rng=3, method="joint", warn=False, progress=False)
    model = two_parameters()
    x = GP(model.kernel, model.likelihood, inference=rule).condition(X, REAL).trace.positions
    assert ess_bulk(x).min() > 80
    assert np.all(np.abs(x.mean((0, 1)) - mean) < 4 * mcse_mean(x))
    assert np.all(np.abs(x.std((0, 1)) - sd) < 5 * mcse_sd(x))


def test_slice_sampling_agrees_with_quadrature(integrated):
    mean, sd = integrated
    target = HyperparameterTarget(two_parameters(), X, REAL)
    rng = np.random.default_rng(4)
    chains = []
    for _ in range(2):
        theta, drawn = np.asarray(target.model.theta), []
        for _ in range(300):
            theta = slice_update(lambda u: float(target.log_density(u[None])[0]), theta, rng)
            drawn.append(theta)
        chains.append(drawn[20:])
    x = np.array(chains)
    assert ess_bulk(x).min() > 100
    assert np.all(np.abs(x.mean((0, 1)) - mean) < 4 * mcse_mean(x))
    assert np.all(np.abs(x.std((0, 1)) - sd) < 4 * mcse_sd(x))


# --- simulation-based calibration ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hmc", "hmc metric", "elliptical"])
def test_ranks_of_the_truth_among_draws_are_uniform(how):
    """Talts et al. 2018: draw f from the prior and y given f; the rank of the true f among nearly independent posterior
    draws is uniform. Pearson's statistic over eight bins, for two latent values, below its 99.9 % point. Elliptical
    slices draw once in each of many chains, all from one place: those that hardly move would be seen."""
    inputs = np.linspace(-1, 1, 4)[:, None]
    prior = DensePrior(4.0 * SE(0.7), inputs)
    rng = np.random.default_rng(5)
    replications, kept, bins = 120, 15, 8
    ranks = np.empty((replications, 2), dtype=int)
    for r in range(replications):
        f = prior.unwhiten(rng.standard_normal(4))
        y = Probit().sample(f, rng)
        metric = "laplace" if how == "hmc metric" else None
        target = LatentTarget(prior, Observations(Probit(), y), metric=metric)
        if how == "elliptical":
            trace = elliptical_slice_sampling(
                lambda U, t=target: t.log_likelihood(t.latent(U)), np.ones((kept, 4)), n_draws=1, warmup=29, rng=rng,
                progress=False,
            )  # fmt: skip
        else:
            start = target.draw_prior(5, rng)
            trace = hamiltonian(
                target, start, HMCOptions(length=1.6), n_draws=12, warmup=30, rng=rng, progress=False
            ).thin(4)
        draws = trace.map(target.latent).pooled
        assert len(draws) == kept
        ranks[r] = (draws[:, [0, 2]] < f[[0, 2]]).sum(axis=0)
    for column in ranks.T:
        counts = np.bincount(column * bins // (kept + 1), minlength=bins)
        statistic = ((counts - replications / bins) ** 2).sum() / (replications / bins)
        assert statistic < chi2.ppf(0.999, bins - 1), counts
