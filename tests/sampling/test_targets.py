"""Targets: gradients by finite differences, samplers against exact Gaussian process regression and quadrature, and
simulation-based calibration."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.gp import GP
from cavity.kernels import SE
from cavity.latent.dense import DensePrior
from cavity.latent.dense_multi_latent import SeveralDense
from cavity.likelihoods import Gaussian, Logit, Observations, Poisson, Probit, Softmax, StudentT
from cavity.means.functions import Constant
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import Beta, LogNormal, Normal
from cavity.sampling.default_priors import with_proper_priors
from cavity.sampling.diagnostics import ess_bulk, mcse_mean, mcse_sd
from cavity.sampling.elliptical_slice import elliptical_slice_sampling
from cavity.sampling.hmc import hamiltonian
from cavity.sampling.hyperparameter_target import HyperparameterTarget
from cavity.sampling.latent_target import LatentTarget

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-2, 2, 12))[:, None]
KERNEL = 2.0 * SE(0.8)
SIGNS = np.where(X[:, 0] + 0.5 * RNG.standard_normal(12) > 0, 1.0, -1.0)
REAL = np.sin(2 * X[:, 0]) + 0.3 * RNG.standard_normal(12)
CASES = {
    "probit": (Probit(), SIGNS),
    "logit": (Logit(), SIGNS),
    "gaussian": (Gaussian(0.1), REAL),
    "student": (StudentT(4.0, 0.2), REAL),
    "poisson": (Poisson(), np.floor(np.exp(REAL))),
}


def finite_difference(function, U, step=1e-5):
    out = np.empty(U.shape)
    for i in range(U.shape[1]):
        move = np.zeros(U.shape[1])
        move[i] = step
        out[:, i] = (function(U + move) - function(U - move)) / (2 * step)
    return out


@pytest.mark.parametrize("metric", [None, "laplace", "ep", "array"])
@pytest.mark.parametrize("name", CASES)
def test_gradient_of_latent_target(name, metric):
    likelihood, y = CASES[name]
    if metric in ("laplace", "ep") and name in ("gaussian", "student"):
        pytest.skip("one case per approximation is enough")
    chosen = np.linspace(0.0, 2.0, 12) if metric == "array" else metric
    weight = np.linspace(0.5, 2.0, 12)
    target = LatentTarget(DensePrior(KERNEL, X, Constant(0.3)), Observations(likelihood, y, weight), chosen)
    U = np.random.default_rng(1).standard_normal((3, 12))
    value, gradient = target.value_and_gradient(U)
    np.testing.assert_allclose(gradient, finite_difference(target.log_density, U), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(target.gradient(U), gradient, rtol=1e-12)
    np.testing.assert_allclose(value, target.log_density(U), rtol=1e-12)
    np.testing.assert_allclose(target.whiten(target.latent(U)), U, atol=1e-7)
    np.testing.assert_allclose(target.log_likelihood(target.latent(U)) + target.log_prior(U), value)


def test_the_metric_changes_coordinates_and_nothing_else():
    """The density of f, with the Jacobian, is the same in both coordinates."""
    prior = DensePrior(KERNEL, X)
    white, near = (
        LatentTarget(prior, Observations(Probit(), SIGNS)),
        LatentTarget(prior, Observations(Probit(), SIGNS), metric="ep"),
    )
    U = np.random.default_rng(1).standard_normal((4, 12))
    log_det = -0.5 * np.log(near.prior_variance).sum()  # |du / dv|
    there = near.whiten(white.latent(U))
    np.testing.assert_allclose(near.log_density(there), white.log_density(U) + log_det, rtol=1e-8)
    assert near.center is not None
    draws = near.draw_prior(4000, np.random.default_rng(2))
    np.testing.assert_allclose(np.cov(near.latent(draws).T), prior.covariance, atol=0.25)


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_with_several_latent_functions(shared):
    from cavity.parameters.per_latent import PerLatent

    kernel = KERNEL if shared else PerLatent([SE(0.5), 2.0 * SE(1.0), SE(0.3)])
    labels = np.arange(12) % 3
    target = LatentTarget(
        SeveralDense(kernel, X, 3), Observations(Softmax(3), labels, np.linspace(0.5, 2.0, 12))
    )
    U = np.random.default_rng(1).standard_normal((2, 36))
    _value, gradient = target.value_and_gradient(U)
    np.testing.assert_allclose(gradient, finite_difference(target.log_density, U), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(target.gradient(U), gradient)
    np.testing.assert_allclose(target.whiten(target.latent(U)), U, atol=1e-7)
    with pytest.raises(ValueError, match="one latent function only"):
        LatentTarget(SeveralDense(kernel, X, 3), Observations(Softmax(3), labels), metric="ep")


def test_wrong_combinations_are_refused():
    prior = DensePrior(KERNEL, X)
    with pytest.raises(ValueError, match="does not match"):
        LatentTarget(prior, Observations(Softmax(3), np.arange(12) % 3))
    with pytest.raises(ValueError, match="metric must be one of"):
        LatentTarget(prior, Observations(Probit(), SIGNS), metric="newton")
    with pytest.raises(ValueError, match="12 finite site precisions"):
        LatentTarget(prior, Observations(Probit(), SIGNS), metric=np.ones(3))


def test_gradient_of_hyper_target_and_its_failures():
    model = GP(1.5 * SE(0.7), Gaussian(0.2), mean=Constant(0.1))
    target = HyperparameterTarget(model, X, REAL)
    assert target.names == target.model.names
    U = target.model.theta + 0.3 * np.random.default_rng(1).standard_normal((3, 4))
    value, gradient = target.value_and_gradient(U)
    np.testing.assert_allclose(gradient, finite_difference(target.log_density, U), rtol=1e-5, atol=1e-6)
    # Evidence, priors of natural values, Jacobian of the logarithms (three of the four parameters)
    at = target.model.replace(U[0])
    by_hand = at.evidence(X, REAL)[0] + at.log_prior()[0] + np.log(target.natural(U[:1])[0, [0, 1, 3]]).sum()
    assert np.isclose(value[0], by_hand)
    far = U.copy()
    far[0, 0] = 1e4
    value, gradient = target.value_and_gradient(far)
    assert value[0] == -np.inf
    assert np.all(gradient[0] == 0)
    assert np.isfinite(value[1:]).all()
    assert target.draw_prior(3, np.random.default_rng(0)).shape == (3, 4)
    bounded = HyperparameterTarget(GP(1.0 * SE(Param(1.0, bounds=(0.5, 2.0))), Gaussian(0.2)), X, REAL)
    assert bounded.log_density(np.log([[1.0, 3.0, 0.2]]))[0] == -np.inf


def test_weak_priors_are_proper_and_leave_the_users_alone():
    own = LogNormal(0.0, 0.1)
    model = GP(1.0 * SE(Param([1.0, 2.0], prior=own)), Gaussian(fixed(0.1)), mean=Constant(0.0))
    wide = np.column_stack([X[:, 0], 1000.0 * X[:, 0] ** 2])
    found = with_proper_priors(model, wide, 50.0 * REAL)
    priors = {e.name: e.prior for e in found.entries}
    assert priors["se.lengthscale[0]"] is own
    assert priors["gaussian.variance"] is None
    assert isinstance(priors["se.variance"], LogNormal)
    assert any(isinstance(prior, Normal) for prior in priors.values())  # of the constant mean
    # In the users' units: a hundred times the targets, a hundred times the sd
    more = with_proper_priors(model, wide, 5000.0 * REAL)
    moved = {e.name: e.prior for e in more.entries}["se.variance"].mu - priors["se.variance"].mu
    assert np.isclose(moved, 2 * np.log(100.0))
    assert with_proper_priors(found, wide, REAL) is not None
    ard = with_proper_priors(GP(1.0 * SE([1.0, 1.0]), Gaussian(0.1)), wide, REAL)
    shared = {e.name: e.prior for e in ard.entries}["se.lengthscale[0]"]
    assert shared.sigma > 2.0  # wide enough for columns whose units differ by a factor of a thousand
    from cavity.likelihoods import LapseProbit

    lapse = with_proper_priors(GP(1.0 * SE(1.0), LapseProbit(0.1)), X, SIGNS)
    assert {e.name: e.prior for e in lapse.entries}["lapseprobit.lapse"] == Beta(1.0, 1.0)


# --- exact regression ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hmc", "hmc metric", "elliptical"])
def test_samplers_agree_with_exact_regression(how):
    prior = DensePrior(KERNEL, X)
    noise = 0.1
    K = prior.covariance
    cov = K - K @ np.linalg.solve(K + noise * np.eye(12), K)
    mean = K @ np.linalg.solve(K + noise * np.eye(12), REAL)
    metric = np.full(12, 1 / noise) if how == "hmc metric" else None
    target = LatentTarget(prior, Observations(Gaussian(noise), REAL), metric=metric)
    start = target.draw_prior(4, np.random.default_rng(1))
    if how == "elliptical":
        trace = elliptical_slice_sampling(
            lambda U: target.log_likelihood(target.latent(U)), start, n_draws=6000, warmup=300, rng=2,
            progress=False,
        )  # fmt: skip
    else:
        trace = hamiltonian(target, start, n_draws=1200, warmup=300, rng=2, progress=False)
    F = trace.map(target.latent).positions
    assert ess_bulk(F).min() > 250
    assert np.all(np.abs(F.mean((0, 1)) - mean) < 4.5 * mcse_mean(F))
    assert np.all(np.abs(F.std((0, 1)) - np.sqrt(np.diag(cov))) < 4.5 * mcse_sd(F))
    flat = F.reshape(-1, 12)
    assert np.abs(np.cov(flat.T) - cov).max() < 0.15 * np.diag(cov).max()
