"""`SamplePosterior` against closed forms; diagnostics, ArviZ, pictures."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import norm

from cavity import GP
from cavity.assessment.waic import waic
from cavity.inference.base import ConvergenceWarning
from cavity.kernels import SE, Matern
from cavity.likelihoods import Gaussian, MixtureOfGaussians, Poisson, Probit, Softmax, StudentT
from cavity.plots import plot_autocorrelation, plot_trace
from cavity.prediction import (
    CategoricalPrediction,
    MixedCounts,
    MixedPrediction,
    MixturePrediction,
    Slices,
    average,
)
from cavity.sampling import process_given_draw
from cavity.sampling.diagnostics import mcse_mean
from cavity.sampling.draws import Draws
from cavity.sampling.mcmc import MCMC
from cavity.sampling.noise_given_f import draw_residuals
from cavity.sampling.posterior import SamplePosterior
from cavity.sampling.trace import Trace

XS = np.linspace(-0.5, 3.5, 5)[:, None]


def data(n=7):
    X = np.linspace(0, 3, n)[:, None]
    return X, np.sin(2 * X[:, 0])


def repeated(model, X, y, chains=2, draws=6, spread=0.0, **more):
    """A posterior whose draws are (nearly) the model itself."""
    model = model.bind(X.shape[1])
    rng = np.random.default_rng(0)
    theta = model.theta + spread * rng.standard_normal((chains, draws, len(model.theta)))
    trace = Trace(theta, rng.standard_normal((chains, draws)), names=model.names)
    return SamplePosterior(Draws(model, X, y, trace, method="test", **more), warn=False)


@pytest.mark.parametrize("limit", [process_given_draw.FACTOR_BYTES, 0])
def test_equal_draws_are_the_gaussian_posterior(limit, monkeypatch):
    monkeypatch.setattr(process_given_draw, "FACTOR_BYTES", limit)
    X, y = data()
    model = GP(1.3 * SE(0.7), Gaussian(0.05), "constant")
    exact, drawn = model.condition(X, y), repeated(model, X, y)
    for method in ("mean", "variance", "covariance", "mean_gradient", "variance_gradient"):
        np.testing.assert_allclose(
            getattr(drawn, method)(XS), getattr(exact, method)(XS), rtol=1e-9, atol=1e-12
        )
    np.testing.assert_allclose(
        drawn.predict_y(XS).log_prob(0.3), exact.predict_y(XS).log_prob(0.3), rtol=1e-10
    )
    np.testing.assert_allclose(
        drawn.predict_f(XS).quantile(0.9), exact.predict_f(XS).quantile(0.9), rtol=1e-8
    )
    joint = drawn.predict_f(XS, joint=True)
    np.testing.assert_allclose(joint.covariance, exact.covariance(XS), atol=1e-12)
    assert np.isnan(drawn.log_evidence)
    np.testing.assert_array_equal(drawn.process.X, X)
    assert drawn.basis is None
    assert drawn.approximation.sites is None


def test_different_draws_average():
    X, y = data()
    drawn = repeated(GP(1.3 * SE(0.7), Gaussian(0.05)), X, y, spread=0.4)
    each = [drawn.draws.model.replace(t).condition(X, y) for t in drawn.trace.pooled]
    means, variances = np.array([p.mean(XS) for p in each]), np.array([p.variance(XS) for p in each])
    np.testing.assert_allclose(drawn.mean(XS), means.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(drawn.variance(XS), variances.mean(axis=0) + means.var(axis=0), rtol=1e-9)
    covariance = np.mean([p.covariance(XS) for p in each], axis=0) + np.cov(means.T, bias=True)
    np.testing.assert_allclose(drawn.covariance(XS), covariance, rtol=1e-8, atol=1e-12)
    noise = np.array([p.model.likelihood.variance for p in each])[:, None]
    density = norm.pdf(0.3, means, np.sqrt(variances + noise)).mean(axis=0)
    np.testing.assert_allclose(np.exp(drawn.predict_y(XS).log_prob(0.3)), density, rtol=1e-9)
    h = 1e-5
    numeric = (drawn.variance(XS + h) - drawn.variance(XS - h)) / (2 * h)
    np.testing.assert_allclose(drawn.variance_gradient(XS)[:, 0], numeric, rtol=1e-5, atol=1e-7)
    numeric = (drawn.mean(XS + h) - drawn.mean(XS - h)) / (2 * h)
    np.testing.assert_allclose(drawn.mean_gradient(XS)[:, 0], numeric, rtol=1e-5, atol=1e-7)


def test_noise_variances_take_the_place_of_the_likelihood():
    X, y = data()
    v = np.linspace(0.1, 2.0, len(y))
    drawn = repeated(GP(1.0 * SE(0.7), StudentT(0.3, 4.0)), X, y, noise=np.broadcast_to(v, (2, 6, len(y))))
    K = np.exp(-0.5 * (X - X.T) ** 2 / 0.7**2)
    cross = np.exp(-0.5 * (X - XS.T) ** 2 / 0.7**2)
    np.testing.assert_allclose(drawn.mean(XS), cross.T @ np.linalg.solve(K + np.diag(v), y), rtol=1e-9)
    assert isinstance(drawn.predict_y(XS), MixedPrediction)
    assert np.array_equal(drawn.outlier_probability, (v > 0.9**2).astype(float))


def latent_posterior(likelihood, y, X, fixed):
    n, L = len(X), likelihood.n_latent
    model = GP(1.0 * Matern(0.7, nu=1.5), likelihood).bind(1)
    shape = (2, 6, n) if L == 1 else (2, 6, n, L)
    u = np.random.default_rng(1).standard_normal(shape)
    if fixed:
        model = model.freeze()
    d = np.sqrt(3) * np.abs(X - X.T) / 0.7
    root = np.linalg.cholesky((1 + d) * np.exp(-d))
    f = np.einsum("ij,ctj...->cti...", root, u)
    return repeated(model, X, y, white=u, latent=f), f.reshape(12, *shape[2:])


@pytest.mark.parametrize("fixed", [True, False])
def test_latent_draws_are_interpolated(fixed):
    X, y = data()
    drawn, f = latent_posterior(Probit(), np.sign(y), X, fixed)
    assert len(drawn.process.components) == (1 if fixed else 12)
    np.testing.assert_allclose(drawn.mean(X), f.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(drawn.variance(X), f.var(axis=0), atol=1e-8)
    found = drawn.predict_y(X)
    assert isinstance(found, CategoricalPrediction)
    np.testing.assert_allclose(found.probabilities[:, 1], norm.cdf(f).mean(axis=0), atol=1e-6)
    draws = drawn.sample(X, 5, 0)
    assert all(np.min(np.abs(f - one).max(axis=1)) < 1e-3 for one in draws)
    assert set(np.unique(drawn.sample_y(X, 3, 0))) <= {-1.0, 1.0}
    assert drawn.outlier_probability is None


def test_several_latent_functions():
    X, _ = data()
    drawn, f = latent_posterior(Softmax(3), np.arange(7.0) % 3, X, False)
    np.testing.assert_allclose(drawn.mean(X), f.mean(axis=0), atol=1e-8)
    p = np.exp(f) / np.exp(f).sum(axis=2, keepdims=True)
    np.testing.assert_allclose(drawn.predict_y(X).probabilities, p.mean(axis=0), atol=1e-6)
    assert drawn.predict_f(X).mean.shape == (7, 3)
    assert drawn.sample(X, 2, 0).shape == (2, 7, 3)
    with pytest.raises(ValueError, match="one latent function"):
        drawn.covariance(X)


def test_counts_in_one_call_and_one_by_one():
    mean, var = (
        np.array([[0.2, 1.5], [0.9, 0.1], [2.0, -1.0]]),
        np.array([[0.1, 0.2], [0.3, 0.1], [0.0, 0.5]]),
    )
    parts = MixedCounts(np.full(3, 1 / 3), [Poisson().predictive(m, v) for m, v in zip(mean, var)])
    whole = Slices(Poisson().predictive(mean.ravel(), var.ravel()), 3)
    for y in (0.0, 3.0, np.array([1.0, 2.0])):
        np.testing.assert_allclose(parts.log_prob(y), whole.log_prob(y), rtol=1e-10)
        np.testing.assert_allclose(parts.cdf(y), whole.cdf(y), rtol=1e-10)
    np.testing.assert_allclose(parts.mean, whole.mean)
    np.testing.assert_allclose(parts.variance, whole.variance)
    total = sum(np.exp(whole.log_prob(float(k))) for k in range(18))
    np.testing.assert_allclose(total, whole.cdf(17.0), atol=1e-8)
    q = whole.quantile([0.1, 0.5, 0.99])
    assert np.array_equal(q, parts.quantile([0.1, 0.5, 0.99]))
    for level, k in zip((0.1, 0.5, 0.99), q):
        assert np.all(whole.cdf(k) >= level - 1e-12)
        assert np.all(whole.cdf(k - 1) < level)
    assert np.all(np.isinf(whole.quantile(1.0)))
    for one in (parts, whole):
        drawn = one.sample(20000, 0)
        np.testing.assert_allclose(drawn.mean(axis=0), whole.mean, rtol=0.05)


def test_mixtures_of_normals_stay_mixtures():
    noise = MixtureOfGaussians(0.2, 0.3, 5.0)
    parts = [noise.predictive(np.array([m]), np.array([v])) for m, v in ((0.0, 1.0), (2.0, 0.1))]
    found = average(parts)
    assert isinstance(found, MixturePrediction)
    np.testing.assert_allclose(np.exp(found.log_prob(1.0)), np.mean([np.exp(p.log_prob(1.0)) for p in parts]))
    np.testing.assert_allclose(found.variance, np.mean([p.variance for p in parts]) + 1.0)


def test_thinning_is_bounded_and_spread_over_the_chains():
    X, y = data()
    full = repeated(GP(1.0 * SE(1.0)), X, y, draws=50)
    drawn = SamplePosterior(full.draws, max_draws=10, warn=False)
    assert len(drawn.process.components) == 10
    assert sorted(np.unique(drawn.process.chosen // 50)) == [0, 1]
    with pytest.raises(ValueError, match="max_draws"):
        SamplePosterior(full.draws, max_draws=0)
    with pytest.raises(ValueError, match="columns"):
        drawn.mean(np.zeros((2, 3)))


# --- diagnostics --------------------------------------------------------------------------------------------


def chains(draws, offset=0.0):
    X, y = data()
    model = GP(1.0 * SE(1.0)).bind(1)
    rng = np.random.default_rng(0)
    theta = 0.3 * rng.standard_normal((4, draws, 3))
    theta[0] += offset
    return Draws(model, X, y, Trace(theta, rng.standard_normal((4, draws)), names=model.names), method="test")


def test_warns_with_reason_and_remedy_or_not_at_all():
    with pytest.warns(ConvergenceWarning, match=r"R-hat of .*MCMC\(n_draws="):
        SamplePosterior(chains(500, offset=3.0))
    with pytest.warns(ConvergenceWarning, match="effective sample size"):
        SamplePosterior(chains(50))
    with pytest.warns(ConvergenceWarning, match="only 3 draws"):
        SamplePosterior(chains(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = SamplePosterior(chains(500))
    assert good.status.converged
    assert good.status.message == ""


def test_table_and_arviz_agree():
    arviz = pytest.importorskip("arviz")
    posterior = SamplePosterior(chains(400), warn=False)
    table = posterior.diagnostics()
    assert list(table.index) == ["se.variance", "se.lengthscale", "gaussian.variance", "log_density"]
    summary = arviz.summary(posterior.to_arviz(), round_to="none")
    names = [i for i in table.index if i != "log_density"]
    np.testing.assert_allclose(table.loc[names, "rhat"], summary.loc[names, "r_hat"], rtol=1e-6)
    np.testing.assert_allclose(table.loc[names, "ess_bulk"], summary.loc[names, "ess_bulk"], rtol=1e-6)
    np.testing.assert_allclose(table.loc[names, "ess_tail"], summary.loc[names, "ess_tail"], rtol=1e-6)


def test_latent_values_in_table_and_arviz():
    pytest.importorskip("arviz")
    X, y = data()
    drawn, _ = latent_posterior(Probit(), np.sign(y), X, True)
    assert drawn.diagnostics().shape[0] == 1
    assert drawn.diagnostics(latent=True).shape[0] == 1 + len(y)
    assert drawn.to_arviz().posterior["f"].shape == (2, 6, len(y))


def test_leave_one_out_and_waic_of_arviz_are_those_of_the_exact_posterior():
    """Draws of f at fixed hyperparameters: our own closed forms are the truth, within the error of the draws."""
    arviz = pytest.importorskip("arviz")
    X, y = data(16)
    y = y + 0.6 * np.random.default_rng(2).standard_normal(16)
    model = GP(1.3 * SE(1.0), Gaussian(0.5), "constant")
    exact, given = model.condition(X, y), repeated(model, X, y, chains=4, draws=1000).to_arviz()
    log_p = given.log_likelihood["y"].to_numpy()
    assert log_p.shape == (4, 1000, 16)
    ours = waic(exact.approximation, model.likelihood, y)
    p = np.exp(log_p).reshape(-1, 16)
    error = p.std(axis=0) / p.mean(axis=0) / np.sqrt(len(p))
    assert np.all(np.abs(np.log(p.mean(axis=0)) - ours.log_density) < 4 * error)
    theirs = arviz.waic(given, pointwise=True)
    squares = (log_p - log_p.mean(axis=(0, 1))).reshape(-1, 16) ** 2
    error = error + squares.std(axis=0) / np.sqrt(len(p))
    assert np.all(np.abs(theirs.waic_i.to_numpy() - ours.pointwise) < 4 * error)
    loo = arviz.loo(given, pointwise=True)
    truth = model.leave_one_out(X, y).log_prob(y)
    # the estimate is a mean of 1 / p under the draws
    error = (1 / p).std(axis=0) / (1 / p).mean(axis=0) / np.sqrt(len(p))
    assert np.all(np.abs(loo.loo_i.to_numpy() - truth) < 5 * error)
    assert "log_likelihood" not in repeated(model, X, y).to_arviz(log_likelihood=False)


@pytest.mark.parametrize("likelihood", [StudentT(0.2, 3.0), MixtureOfGaussians(0.2, 0.2, 6.0), Probit()])
def test_log_likelihood_of_draws_averages_to_the_predictive_density(likelihood):
    """With f integrated out given each draw, or drawn with it: the mean of p(y_i | f_i) is that of a prediction."""
    X, y = data(8)
    y = np.sign(y + 0.1) if likelihood.discrete else y + np.where(np.arange(8) == 3, 2.0, 0.0)
    rule = MCMC(400, 100, 2, rng=0, hyperparameters=False, max_draws=800, warn=False, progress=False)
    posterior = GP(1.0 * SE(0.8), likelihood, inference=rule).condition(X, y)
    p = np.exp(posterior.draws.log_likelihood(1))
    truth = np.exp(posterior.predict_y(X).log_prob(y))
    spread = np.array([mcse_mean(p[:, :, i]) for i in range(8)])
    assert np.all(np.abs(p.mean(axis=(0, 1)) - truth) < 4 * spread + 1e-12)


def test_weights_are_powers_of_the_likelihood():
    X, y = data(5)
    weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    once = repeated(GP(1.3 * SE(0.7), Gaussian(0.2)), X, y, weight=weight).draws
    f = y - draw_residuals(once.model, X, y, 0.2 / weight, np.random.default_rng(0))
    expected = weight * norm.logpdf(y, f, np.sqrt(0.2))
    np.testing.assert_allclose(once.log_likelihood(0)[0, 0], expected, rtol=1e-9)


def test_pictures():
    posterior = SamplePosterior(chains(100), warn=False)
    ax = plot_trace(posterior, "se.lengthscale")
    assert ax.get_ylabel() == "se.lengthscale"
    assert len(ax.get_lines()) == 5
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), posterior.natural[0, :, 1])
    assert plot_trace(posterior.trace, ax=ax) is ax
    assert plot_trace(posterior, "log_density").get_ylabel() == "log_density"
    with pytest.raises(ValueError, match="name must be one of"):
        plot_trace(posterior, "nothing")
    with pytest.raises(ValueError, match="shape"):
        plot_trace(np.zeros((2, 3, 4)))
    rng = np.random.default_rng(0)
    x = np.zeros((1, 4000))
    for t in range(1, 4000):
        x[0, t] = 0.8 * x[0, t - 1] + rng.standard_normal()
    line = plot_autocorrelation(x, lags=5).get_lines()[1].get_ydata()
    np.testing.assert_allclose(line, 0.8 ** np.arange(6), atol=0.06)
    still = plot_autocorrelation(np.ones((1, 3)))
    np.testing.assert_array_equal(still.get_lines()[1].get_ydata(), [1.0, 0.0, 0.0])
