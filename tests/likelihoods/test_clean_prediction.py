"""Predictions of observations that are no outliers: by drawing them, and by the rows they are to cover."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GPRegressor, StackedRegressor
from cavity.inference import MCMC
from cavity.likelihoods import (
    EpsilonInsensitive,
    Gaussian,
    Laplace,
    Mixture,
    MixtureOfGaussians,
    Poisson,
    StudentT,
)
from cavity.runtime.errors import InputError

DRAWS = 400_000


def own_sd_and_noise(likelihood, rng):
    """The sd that each of many observations has of its own, and its noise, by the definition of the noise model."""
    if isinstance(likelihood, StudentT):
        sd = likelihood.scale * np.sqrt(likelihood.df / rng.chisquare(likelihood.df, DRAWS))
    elif isinstance(likelihood, Laplace):
        sd = likelihood.scale * np.sqrt(2.0 * rng.exponential(size=DRAWS))
    else:
        wide = rng.random(DRAWS) < likelihood.fraction
        sd = np.where(wide, likelihood.outlier_scale, likelihood.scale)
    return sd, sd * rng.standard_normal(DRAWS)


@pytest.mark.parametrize(
    "likelihood",
    [StudentT(0.5, 1.0), StudentT(2.0, 4.0), StudentT(1.0, 0.3), StudentT(1.0, 500.0), Laplace(0.7)],
    ids=repr,
)
@pytest.mark.parametrize("sd_of_f", [0.0, 0.8])
def test_the_definition_by_monte_carlo(likelihood, sd_of_f):
    """y = f + noise, of those draws whose own noise has a sd of at most three scales."""
    rng = np.random.default_rng(0)
    sd, noise = own_sd_and_noise(likelihood, rng)
    y = 1.0 + sd_of_f * rng.standard_normal(DRAWS) + noise
    y = y[sd <= 3.0 * likelihood.scale]
    prediction = likelihood.clean_predictive(np.ones(1), np.full(1, sd_of_f**2))
    error = 4.0 * np.sqrt(0.25 / len(y))
    for at in 1.0 + likelihood.scale * np.array([-4.0, -1.0, 0.3, 2.0]):
        assert prediction.cdf(np.array([at]))[0] == pytest.approx(np.mean(y <= at), abs=error)
    squares = (y - 1.0) ** 2
    spread = 5.0 * np.std(squares) / np.sqrt(len(y))
    assert prediction.variance[0] == pytest.approx(np.mean(squares), abs=spread)
    assert prediction.mean[0] == pytest.approx(1.0)


def test_noise_without_outliers_stays_as_it_is():
    plain = Gaussian(4.0).predictive(np.zeros(2), np.ones(2))
    clean = StudentT(2.0, 1e6).clean_predictive(np.zeros(2), np.ones(2))
    np.testing.assert_allclose(clean.interval(0.9)[1], plain.interval(0.9)[1], rtol=1e-5)


def test_mixtures_predict_by_their_regular_component():
    regular = Gaussian(0.25).predictive([0.5], [0.1])
    y = np.array([0.9])
    for noise in (
        MixtureOfGaussians(0.2, 0.5, 8.0),
        Mixture([Gaussian(0.25), Laplace(3.0)], [0.7, 0.3]),
    ):
        clean = noise.clean_predictive(np.array([0.5]), np.array([0.1]))
        np.testing.assert_allclose(clean.log_prob(y), regular.log_prob(y), rtol=1e-12)
        np.testing.assert_allclose(clean.variance, regular.variance)


@pytest.mark.parametrize("likelihood", [Gaussian(1.0), EpsilonInsensitive(1.0, 0.1), Poisson()], ids=repr)
def test_other_noise_refuses_by_name(likelihood):
    name = type(likelihood).__name__
    with pytest.raises(
        InputError, match=f"clean needs noise that tells outliers .* which {name} does not; use lik"
    ):
        likelihood.clean_predictive(np.zeros(1), np.ones(1))


# --- through the estimators -----------------------------------------------------------------------------------


def contaminated(n, seed):
    """A smooth function with noise of sd 0.1, and gross errors in 15 % of the rows; which rows have none."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    gross = rng.random(n) < 0.15
    y[gross] += rng.uniform(-4.0, 4.0, gross.sum())
    return X, y, ~gross


@pytest.mark.parametrize("likelihood", ["student-t", "mixture"])
def test_clean_intervals_cover_clean_rows(likelihood):
    X, y, _ = contaminated(200, 0)
    model = GPRegressor(likelihood=likelihood, n_restarts=0, random_state=0).fit(X, y)
    X_new, y_new, clean = contaminated(4000, 1)
    covered = []
    for asked in (False, True):
        low, high = model.predict_dist(X_new, clean=asked).interval(0.9)
        covered.append(np.mean(((y_new >= low) & (y_new <= high))[clean]))
    assert covered[0] > 0.98
    assert 0.87 < covered[1] < 0.93


def test_all_ways_to_ask_agree():
    X, y, _ = contaminated(60, 2)
    model = GPRegressor(likelihood=StudentT(0.1, 2.0), objective=None).fit(X, y)
    clean = model.predict_dist(X[:5], clean=True)
    mean, sd = model.predict(X[:5], return_std=True, clean=True)
    np.testing.assert_allclose(mean, clean.mean)
    np.testing.assert_allclose(sd, np.sqrt(clean.variance))
    assert np.all(np.isfinite(sd))  # while with outliers the noise has no variance
    assert np.all(np.isinf(model.predict(X[:5], return_std=True)[1]))
    _, cov = model.predict(X[:5], return_cov=True, clean=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd)
    stacked = StackedRegressor([("a", model)]).fit(X, y)
    np.testing.assert_allclose(stacked.predict(X[:5], return_std=True, clean=True)[1], sd)
    with pytest.raises(ValueError, match="clean=True is about observations"):
        model.predict(X, noise=False, clean=True)
    with pytest.raises(ValueError, match="clean must be True or False, got 'yes'"):
        model.predict_dist(X, clean="yes")


def test_chains_average_clean_predictions():
    X, y, _ = contaminated(25, 3)
    rule = MCMC(n_draws=20, warmup=20, chains=2)
    model = GPRegressor(likelihood=StudentT(0.1, 2.0), inference=rule, objective=None, random_state=0)
    with pytest.warns(UserWarning, match="draws"):  # so few
        model.fit(X, y)
    clean = model.predict_dist(X[:3], clean=True)
    assert np.all(clean.interval(0.9)[1] < model.predict_dist(X[:3]).interval(0.9)[1])
    assert np.all(np.isfinite(clean.variance))
