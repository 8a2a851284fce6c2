"""The rule "mcmc": choice of method, seeds, joint sampling, estimators."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from cavity import GP, GPClassifier, GPRegressor, Param, fixed
from cavity.inference.base import ConvergenceWarning, UnsupportedPairError
from cavity.inference.registry import as_inference
from cavity.kernels import SE, Matern
from cavity.latent.sites import Sites
from cavity.likelihoods import (
    EpsilonInsensitive,
    Gaussian,
    HeteroscedasticGaussian,
    Laplace,
    MixtureOfGaussians,
    Observations,
    OneVsRest,
    Poisson,
    Probit,
    Softmax,
    StudentT,
)
from cavity.parameters.priors import LogNormal
from cavity.sampling.joint_target import JointTarget
from cavity.sampling.mcmc import MCMC
from cavity.sampling.posterior import SamplePosterior
from cavity.sampling.samplers import sampler_for

SHORT = MCMC(12, 12, 2, rng=0, warn=False, progress=False)


def data(n=10):
    X = np.linspace(0, 4, n)[:, None]
    return X, np.sin(2 * X[:, 0])


TARGETS = {
    "probit": (Probit(), lambda y: np.where(y >= 0, 1.0, -1.0)),
    "poisson": (Poisson(), lambda y: np.round(2 * np.exp(y))),
    "student": (StudentT(0.3, 4.0), lambda y: y),
    "softmax": (Softmax(3), lambda y: np.round(y + 1)),
    "one vs rest": (OneVsRest(3), lambda y: np.round(y + 1)),
    "heteroscedastic": (HeteroscedasticGaussian(0.3), lambda y: y),
}


@pytest.mark.parametrize(("case", "precision"), [*((case, None) for case in TARGETS), ("probit", 3.0)])
def test_gradient_of_the_joint_density(case, precision):
    likelihood, of = TARGETS[case]
    X, y = data(7)
    weight = np.linspace(0.5, 2.0, 7)
    means = "zero" if precision is None else "constant"
    sites = None if precision is None else Sites(y, precision * np.linspace(-0.2, 1.0, 7))
    target = JointTarget(GP(1.2 * Matern(0.8, nu=1.5), likelihood, mean=means), X, of(y), weight).given(sites)
    u = target.start(1, np.random.default_rng(0), None, 0.3)[0]
    _, gradient = target.value_and_gradient(u[None])
    h = 1e-5
    numeric = [
        (target.log_density((u + h * e)[None])[0] - target.log_density((u - h * e)[None])[0]) / (2 * h)
        for e in np.eye(target.dim)
    ]
    np.testing.assert_allclose(gradient[0], numeric, rtol=2e-5, atol=2e-5)
    assert target.log_density(np.full((1, target.dim), 800.0))[0] == -np.inf


def test_sites_change_the_coordinates_and_not_the_density():
    X, y = data(6)
    model, sites = (
        GP(1.2 * Matern(0.8, nu=1.5), Poisson(), mean="constant"),
        Sites(y, np.linspace(-1.0, 4.0, 6)),
    )
    plain, white = (
        JointTarget(model, X, np.round(np.exp(y))),
        JointTarget(model, X, np.round(np.exp(y))).given(sites),
    )
    place = white.start(1, np.random.default_rng(1), None, 0.3)

    def prior_white(v):
        moved = place.copy()
        moved[0, :6] = v
        return white.prior_white(moved)[0][0]

    v, h = place[0, :6], 1e-5
    jacobian = [(prior_white(v + h * e) - prior_white(v - h * e)) / (2 * h) for e in np.eye(6)]
    same = np.concatenate([prior_white(v), place[0, 6:]])
    np.testing.assert_allclose(plain.latent(same[None]), white.latent(place))
    expected = plain.log_density(same[None]) + np.linalg.slogdet(np.array(jacobian))[1]
    np.testing.assert_allclose(white.log_density(place), expected, rtol=1e-9)


def test_under_gaussian_noise_the_sites_leave_a_white_posterior():
    X, y = data(6)
    model = GP(1.2 * Matern(0.8, nu=1.5), Gaussian(0.3))
    target = JointTarget(model, X, y).given(Sites.of_observations(y, np.array(0.3)))
    place = target.start(3, np.random.default_rng(0), None, 0.0)
    place[:, 6:8] += np.random.default_rng(1).standard_normal(
        (3, 2)
    )  # the kernel's hyperparameters, not the noise
    np.testing.assert_allclose(target.value_and_gradient(place)[1][:, :6], -place[:, :6], atol=1e-6)


@pytest.mark.parametrize(
    ("likelihood", "weighted", "method"),
    [
        (Gaussian(), False, "integrated"),
        (Gaussian(), True, "integrated"),
        (MixtureOfGaussians(), False, "gibbs"),
        (MixtureOfGaussians(), True, "joint"),
        (StudentT(), False, "scale-mixture"),
        (Laplace(), False, "scale-mixture"),
        (Probit(), False, "joint"),
    ],
)
def test_method_follows_the_likelihood(likelihood, weighted, method):
    assert sampler_for("auto", likelihood, weighted).name == method


def test_refusals():
    with pytest.raises(UnsupportedPairError, match="'gibbs' does not fit Probit"):
        sampler_for("gibbs", Probit(), False)
    with pytest.raises(ValueError, match="method must be one of"):
        MCMC(method="nuts")
    with pytest.raises(ValueError, match="chains"):
        MCMC(chains=0)
    with pytest.raises(ValueError, match="fast rule"):
        MCMC(start="mcmc")
    X, y = data()
    with pytest.raises(ValueError, match="one target"):
        GP(SE(1.0), inference="mcmc").condition(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="hyperparameters=False"):
        GP(SE(1.0), Probit(), inference=MCMC(method="elliptical")).condition(X, TARGETS["probit"][1](y))
    with pytest.raises(ValueError, match="whole model"):
        MCMC().infer(None, Observations(Gaussian(), y))


def test_registered_by_name():
    assert isinstance(as_inference("mcmc", Probit()), MCMC)
    assert repr(MCMC(10, rng=3)) == "MCMC(n_draws=10, rng=3)"
    assert MCMC(10) == MCMC(10)
    assert MCMC(10) != MCMC(11)
    assert hash(MCMC(10)) == hash(MCMC(10))


def test_gaussian_noise_against_quadrature():
    """One free hyperparameter: posterior mean of log length scale and of f by quadrature over it."""
    X, y = data(8)
    kernel = fixed(1.0) * SE(Param(1.0, prior=LogNormal(0.0, 0.5)))
    rule = MCMC(300, 80, 2, rng=1, max_draws=600, warn=False, progress=False)
    posterior = GP(kernel, Gaussian(fixed(0.1)), inference=rule).condition(X, y)
    grid = np.linspace(-2.5, 2.5, 121)
    model = GP(kernel, Gaussian(fixed(0.1))).bind(1)
    points = [model.replace([u]) for u in grid]
    log_p = np.array([m.evidence(X, y)[0] + m.log_prior(jacobian=True)[0] for m in points])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    table = posterior.diagnostics()
    assert table.loc["se.lengthscale", "mcse_mean"] < 0.02
    exact = p @ np.exp(grid)
    error = table.loc["se.lengthscale", "mcse_mean"]
    assert abs(table.loc["se.lengthscale", "mean"] - exact) < 4 * error
    near = [i for i in range(121) if p[i] > 1e-6]
    f = np.array([points[i].condition(X, y).mean([[1.3]])[0] for i in near])
    draws = np.concatenate([c.means(np.array([[1.3]]))[:, 0] for c in posterior.process.components])
    assert abs(posterior.mean([[1.3]])[0] - p[near] @ f) < 4 * draws.std() / np.sqrt(200)


def test_fixed_hyperparameters_are_exact_for_gaussian_noise():
    X, y = data()
    model = GP(1.0 * SE(0.8), Gaussian(0.1))
    rule = SHORT.with_options(hyperparameters=False)
    drawn = GP(model.kernel, model.likelihood, inference=rule).condition(X, y)
    np.testing.assert_allclose(drawn.mean(X), model.condition(X, y).mean(X), rtol=1e-10)
    assert drawn.problem is None


@pytest.mark.parametrize("case", ["probit", "poisson", "softmax", "one vs rest"])
@pytest.mark.parametrize("hyperparameters", [True, False])
def test_other_likelihoods_sample_jointly_or_f_alone(case, hyperparameters):
    likelihood, of = TARGETS[case]
    X, y = data()
    rule = SHORT.with_options(hyperparameters=hyperparameters)
    run = [GP(1.0 * SE(0.8), likelihood, inference=rule).condition(X, of(y)) for _ in range(2)]
    np.testing.assert_array_equal(run[0].draws.latent, run[1].draws.latent)
    assert run[0].trace.dim == (2 if hyperparameters else 0)
    assert run[0].predict_y(X).mean.shape == (10,)
    # the latent values that were recorded are those that predictions go through
    f = run[0].draws.latent.reshape(24, -1).mean(axis=0)
    np.testing.assert_allclose(run[0].mean(X).ravel(), f, atol=1e-2)


def test_update_and_interrupt():
    X, y = data()

    def stop(done, total):
        if done == 20:
            raise KeyboardInterrupt

    rule = SHORT.with_options(progress=stop)
    model = GP(1.0 * SE(0.8), Gaussian(0.1), inference=rule)
    stopped = model.condition(X, y)
    assert stopped.trace.draws == 8
    assert "interrupted" in stopped.status.message
    more = GP(1.0 * SE(0.8), Gaussian(0.1), inference=SHORT).condition(X, y).update([[5.0]], [0.3])
    assert len(more.X) == 11


# --- estimators ---------------------------------------------------------------------------------------------


def test_regressor():
    X, y = data(14)
    y = y.copy()
    y[5] += 3.0
    rule = MCMC(15, 15, 2, progress=False)
    model = GPRegressor(likelihood="mixture", inference=rule, n_restarts=0, random_state=0)
    copy = clone(model)
    assert copy.get_params()["inference"] == rule
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [m.fit(X, y) for m in (model, copy)]
    assert isinstance(model.posterior_, SamplePosterior)
    np.testing.assert_array_equal(*(m.predict(X) for m in fits))
    assert model.score(np.delete(X, 5, 0), np.delete(y, 5)) > 0.8
    assert int(np.argmax(model.outlier_probability_)) == 5
    mean, sd = model.predict(X, return_std=True)
    _, cov = model.predict(X, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diagonal(cov)), sd)
    assert model.sample_y(X, 3).shape == (14, 3)
    assert mean.shape == (14,)


def test_regressor_keeps_values_where_nothing_is_learned_and_warns():
    X, y = data()
    rule = MCMC(8, 8, 2, progress=False)
    model = GPRegressor(1.0 * SE(0.8), inference=rule, objective=None, random_state=0).fit(X, y)
    assert model.posterior_.trace.dim == 0
    with pytest.warns(ConvergenceWarning, match="the chains have not converged"):
        GPRegressor(1.0 * SE(0.8), inference=rule, n_restarts=0, random_state=0).fit(X, y)


@pytest.mark.filterwarnings("ignore::cavity.inference.base.ConvergenceWarning")
def test_classifier():
    X, y = data(14)
    rule = MCMC(10, 10, 2, progress=False)
    two = GPClassifier(1.0 * SE(0.8), inference=rule, n_restarts=0, random_state=0).fit(X, y > 0)
    assert two.score(X, y > 0) > 0.85
    np.testing.assert_allclose(two.predict_proba(X).sum(axis=1), 1.0)
    three = GPClassifier(
        fixed(4.0) * SE(fixed(0.8)), inference=rule, multi_class="softmax", n_restarts=0, random_state=0
    ).fit(X, np.round(y + 1))
    assert three.predict_proba(X).shape == (14, 3)
    assert three.score(X, np.round(y + 1)) > 0.6


def test_a_place_whose_square_overflows_has_no_density():
    """A trajectory may go there: it is a place like any other that is not to be accepted, not an error."""
    x = np.linspace(0, 1, 4)
    target = JointTarget(GP(1.0 * SE(1.0), EpsilonInsensitive(0.1, 0.1)), x[:, None], x)
    position = np.zeros((1, target.dim))
    position[0, target.white_dim + 2] = 400.0  # log of the scale
    value, gradient = target.value_and_gradient(position)
    assert value[0] == -np.inf
    assert not gradient.any()


# --- chains that go on until they pass ------------------------------------------------------------------------

OF_EACH = {
    "integrated": (Gaussian(0.1), lambda y: y, {}),
    "gibbs": (MixtureOfGaussians(0.1, 0.2, 10.0), lambda y: y, {}),
    "gibbs in processes": (MixtureOfGaussians(0.1, 0.2, 10.0), lambda y: y, {"n_jobs": 2}),
    "scale-mixture": (StudentT(0.3, 4.0), lambda y: y, {}),
    "joint": (Probit(), lambda y: np.where(y >= 0, 1.0, -1.0), {}),
    "latent": (Probit(), lambda y: np.where(y >= 0, 1.0, -1.0), {"hyperparameters": False}),
    "elliptical": (
        Poisson(),
        lambda y: np.round(2 * np.exp(y)),
        {"hyperparameters": False, "method": "elliptical"},
    ),
}


@pytest.mark.parametrize("case", OF_EACH)
def test_chains_that_fail_go_on_as_the_longer_run_would(case):
    """With eight draws no check is passed: chains go on to the limit, and are then those of one long run."""
    likelihood, of, options = OF_EACH[case]
    X, y = data(8)
    model = GP(1.0 * SE(1.0), likelihood)
    common = {"warmup": 12, "chains": 2, "rng": 3, "warn": False, "progress": False, **options}

    def posterior(rule):
        found = GP(model.kernel, model.likelihood, inference=rule).condition(X, of(y))
        return found

    long = posterior(MCMC(n_draws=20, **common))
    grown = posterior(MCMC(n_draws=8, extend_to=20, **common))
    assert grown.trace.draws == 20
    np.testing.assert_array_equal(grown.trace.positions, long.trace.positions)
    np.testing.assert_array_equal(grown.trace.log_density, long.trace.log_density)
    if long.draws.latent is not None:
        np.testing.assert_array_equal(grown.draws.latent, long.draws.latent)
    if long.draws.noise is not None:
        np.testing.assert_array_equal(grown.draws.noise, long.draws.noise)


def test_chains_stop_once_they_pass():
    X, y = data(12)
    options = {"warmup": 60, "chains": 4, "rng": 0, "progress": False}
    rule = MCMC(n_draws=25, extend_to=6400, **options)  # 100 draws are not 400 effective ones
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        posterior = GP(1.0 * SE(1.0), Gaussian(0.1), inference=rule).condition(X, y)
    assert posterior.status.converged
    assert posterior.trace.draws in 25 * 2 ** np.arange(3, 9)
    half = GP(1.0 * SE(1.0), Gaussian(0.1), inference=MCMC(posterior.trace.draws // 2, warn=False, **options))
    assert half.condition(X, y).problem  # it was not enough before


def test_limit_of_draws_is_checked():
    with pytest.raises(ValueError, match="extend_to must be an integer >= n_draws, 100, or None, got 50"):
        MCMC(n_draws=100, extend_to=50)
    with pytest.raises(ValueError, match="extend_to"):
        MCMC(extend_to=1e4)
    assert MCMC(extend_to=4000) == eval(repr(MCMC(extend_to=4000))) != MCMC()


def test_draws_that_are_not_given_a_number_may_be_more():
    """By default chains go on until they pass, up to a limit; a number given is kept to."""
    assert (MCMC().n_draws, MCMC().extend_to) == (500, 2000)
    assert MCMC(500).extend_to is None
    assert MCMC(500) == eval(repr(MCMC(500))) != MCMC() == eval(repr(MCMC()))
    assert repr(MCMC(500)) == "MCMC(n_draws=500)"
    with pytest.raises(ValueError, match="extend_to must be an integer >= n_draws, 500"):
        MCMC(extend_to=100)
