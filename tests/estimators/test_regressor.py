"""`GPRegressor`: fits, predictions, weights, updates, extremes, company of other tools."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cavity import GPRegressor
from cavity.estimators import fit_warnings as reports
from cavity.gp import GP
from cavity.inference.base import ConvergenceWarning
from cavity.kernels import SE, Linear, Matern, Periodic, White, ard
from cavity.learning import optimizer
from cavity.likelihoods import Gaussian, KnownNoise
from cavity.means.basis import Basis
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import LogNormal
from cavity.sampling.mcmc import MCMC

RNG = np.random.default_rng(0)
X = np.column_stack([np.sort(RNG.uniform(0, 6, 40)), RNG.uniform(-1, 1, 40)])
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(40)
POINTS = np.column_stack([np.linspace(0, 6, 9), np.linspace(-1, 1, 9)])
KERNEL = 1.3 * SE([1.1, 2.0])
AS_GIVEN = {"objective": None, "likelihood": Gaussian(0.02), "mean": "zero"}


@pytest.fixture(scope="module")
def fitted() -> GPRegressor:
    return GPRegressor(random_state=0, n_restarts=1).fit(X, Y)


# --- the fit ------------------------------------------------------------------------------------------------


def test_default_fit(fitted):
    assert fitted.score(X, Y) > 0.95
    assert 0.003 < fitted.likelihood_.variance < 0.03
    assert fitted.kernel_.get("se.lengthscale").shape == (2,)
    assert fitted.n_features_in_ == 2
    assert [run.kind for run in fitted.runs_] == ["data", "random"]
    assert max(run.value for run in fitted.runs_) == pytest.approx(fitted.log_evidence_, abs=1e-8)
    assert fitted.posterior_.status.converged


def test_log_evidence_is_for_targets_in_the_users_units(fitted):
    value, gradient = fitted.model_.evidence(X, Y)
    assert fitted.log_evidence_ == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-2)


def test_values_as_given_are_kept_in_the_users_units():
    model = GPRegressor(KERNEL, **AS_GIVEN).fit(X, Y)
    assert model.kernel_ == KERNEL
    assert model.likelihood_ == Gaussian(0.02)
    truth = GP(KERNEL, Gaussian(0.02)).condition(X, Y)
    assert model.log_evidence_ == pytest.approx(truth.log_evidence)
    np.testing.assert_allclose(model.predict(POINTS), truth.mean(POINTS))
    assert model.runs_ == ()


def test_standardize_never_changes_the_model():
    one = GPRegressor(KERNEL, objective=None, standardize=True).fit(X, Y)
    two = GPRegressor(KERNEL, objective=None, standardize=False).fit(X, Y)
    assert one.log_evidence_ == two.log_evidence_
    np.testing.assert_array_equal(one.predict(POINTS), two.predict(POINTS))


def test_without_standardizing_the_first_start_is_the_kernels_own_value():
    model = GPRegressor(KERNEL, standardize=False, n_restarts=0).fit(X, Y)
    np.testing.assert_allclose(np.exp(model.runs_[0].start[:3]), KERNEL.flat)


@pytest.mark.parametrize("a", [1e-9, 1e9])
@pytest.mark.parametrize("b", [1e-12, 1e12])
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_units_of_the_data_scale_the_solution(a, b, mean):
    options = {"n_restarts": 0, "mean": mean}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = GPRegressor(**options).fit(X, Y)
        other = GPRegressor(**options).fit(a * X, b * Y)
    np.testing.assert_allclose(other.predict(a * POINTS), b * one.predict(POINTS), rtol=1e-3, atol=1e-4 * b)
    assert other.log_evidence_ == pytest.approx(one.log_evidence_ - 40 * np.log(b), abs=1e-3)
    # (a second column that a line explains has any long length scale)
    assert other.kernel_.get("se.lengthscale[0]") == pytest.approx(
        a * one.kernel_.get("se.lengthscale[0]"), rel=0.01
    )


def test_objective_by_leave_one_out():
    model = GPRegressor(objective="loo", n_restarts=0).fit(X, Y)
    best = model.model_.leave_one_out_log_prob(X, Y)[0]
    assert model.runs_[0].value == pytest.approx(best)
    other = GPRegressor(n_restarts=0).fit(X, Y).model_.leave_one_out_log_prob(X, Y)[0]
    assert best >= other - 1e-6


def test_leave_one_out_objective_with_repeated_rows():
    twice = np.r_[np.arange(40), np.arange(5)]
    X2, Y2 = X[twice], Y[twice]
    model = GPRegressor(objective="loo", n_restarts=0).fit(X2, Y2)
    left_out = 0.0
    for i in range(len(twice)):
        rest = np.arange(len(twice)) != i
        found = model.model_.condition(X2[rest], Y2[rest]).predict_y(X2[i : i + 1])
        left_out += float(found.log_prob(Y2[i : i + 1])[0])
    assert model.runs_[0].value == pytest.approx(left_out, rel=1e-6)


def test_bounds_priors_fixed_and_tied_values_reach_the_fit():
    kernel = Param(1.0, bounds=(0.5, 2.0)) * SE([Param(1.0).value, 1.0]) + Param(
        0.5, prior=LogNormal(0.0, 0.1)
    ) * Matern(fixed(0.3))
    k = GPRegressor(kernel, n_restarts=1, random_state=0).fit(X, Y).kernel_
    assert 0.5 <= k.get("se.variance") <= 2.0 + 1e-9
    assert k.get("matern.lengthscale") == 0.3
    assert k.get("matern.variance") > 0.3  # the data alone would send it to zero


def test_kernels_as_text():
    model = GPRegressor("1.0 * SE(ard) + 0.1 * Linear()", n_restarts=0).fit(X, Y)
    assert model.kernel_.get("se.lengthscale").shape == (2,)


def test_reproducible_from_random_state():
    fits = [GPRegressor(random_state=s, n_restarts=2).fit(X, Y) for s in (3, 3, np.random.RandomState(3))]
    assert fits[0].log_evidence_ == fits[1].log_evidence_
    np.testing.assert_array_equal(fits[0].predict(POINTS), fits[1].predict(POINTS))
    assert fits[2].log_evidence_ == pytest.approx(fits[0].log_evidence_, abs=1e-4)


def test_processes_give_the_same_fit():
    one, two = (GPRegressor(random_state=0, n_restarts=2, n_jobs=j).fit(X, Y) for j in (None, 2))
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(one.model_.theta, two.model_.theta, atol=1e-9)


# --- interruptions ------------------------------------------------------------------------------------------


def test_ctrl_c_leaves_a_fitted_estimator_with_a_warning(monkeypatch):
    calls = [0]
    original = GP.evidence_of

    def evidence(self, *args, **kwargs):
        calls[0] += 1
        if calls[0] == 8:
            raise KeyboardInterrupt
        return original(self, *args, **kwargs)

    monkeypatch.setattr(GP, "evidence_of", evidence)
    with pytest.warns(ConvergenceWarning, match=r"stopped early \(interrupted\); the best .* are kept"):
        model = GPRegressor().fit(X, Y)
    assert model.predict(POINTS).shape == (9,)
    assert model.runs_[-1].kind == "interrupted"


def test_time_that_is_up_leaves_a_fitted_estimator_with_a_warning():
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model = GPRegressor(max_time=0.0).fit(X, Y)
    assert np.isfinite(model.predict(POINTS)).all()


def test_an_optimizer_that_gives_up_is_reported(monkeypatch):
    original = optimizer.maximize
    monkeypatch.setattr(optimizer, "maximize", lambda *args, **options: original(*args[:-1], 2, **options))
    with pytest.warns(ConvergenceWarning, match="optimizer of the hyperparameters stopped early"):
        GPRegressor(standardize=False, n_restarts=0).fit(1e3 * X, 1e3 * Y)


# --- predictions --------------------------------------------------------------------------------------------


def test_standard_deviations_of_observations_and_of_the_function(fitted):
    mean, sd = fitted.predict(POINTS, return_std=True)
    same, sd_f = fitted.predict(POINTS, return_std=True, noise=False)
    np.testing.assert_array_equal(mean, fitted.predict(POINTS))
    np.testing.assert_array_equal(mean, same)
    np.testing.assert_allclose(sd**2, sd_f**2 + fitted.likelihood_.variance)
    np.testing.assert_allclose(sd_f**2, fitted.posterior_.variance(POINTS))


def test_covariances(fitted):
    _, cov = fitted.predict(POINTS, return_cov=True)
    _, cov_f = fitted.predict(POINTS, return_cov=True, noise=False)
    np.testing.assert_allclose(cov, cov_f + fitted.likelihood_.variance * np.eye(9))
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), fitted.predict(POINTS, return_std=True)[1], rtol=1e-8)
    with pytest.raises(ValueError, match="return_std and return_cov cannot both be True"):
        fitted.predict(POINTS, return_std=True, return_cov=True)


def test_predictive_distributions(fitted):
    y, f = fitted.predict_dist(POINTS), fitted.predict_latent(POINTS)
    mean, sd = fitted.predict(POINTS, return_std=True)
    np.testing.assert_allclose(
        y.quantile([0.025, 0.5, 0.975]), mean + np.outer([-1.959964, 0, 1.959964], sd), atol=1e-5
    )
    assert np.all(f.variance < y.variance)
    inside = [np.mean((low <= Y) & (high >= Y)) for low, high in [fitted.predict_dist(X).interval(0.9)]]
    assert 0.8 <= inside[0] <= 1.0
    assert y.log_prob(mean).shape == (9,)


def test_noise_without_a_variance_gives_infinite_deviations(fitted):
    from cavity.likelihoods import StudentT

    model = clone(fitted).set_params(likelihood=StudentT(0.1, df=1.5), objective=None)
    model.fit(X, Y)
    _, sd = model.predict(POINTS, return_std=True)
    assert np.all(np.isinf(sd))
    assert np.isfinite(model.predict(POINTS, return_std=True, noise=False)[1]).all()


def test_known_noise_of_new_observations_is_given():
    s = np.linspace(0.01, 1.0, 40)
    options = {"objective": None, "mean": "zero"}
    model = GPRegressor(KERNEL, likelihood=KnownNoise(s[:30]), **options).fit(X[:30], Y[:30])
    for ask in (
        lambda: model.predict(X[:30], return_std=True),
        lambda: model.predict(X[:30], return_cov=True),
        lambda: model.predict_dist(X[:30]),
        lambda: model.sample_y(X[:30]),
        lambda: model.update(X[30:], Y[30:]),
    ):
        with pytest.raises(ValueError, match="KnownNoise holds the noise variances of the 30 observations"):
            ask()
    new = np.linspace(0.1, 0.3, len(POINTS))
    f = model.predict_latent(POINTS)
    mean, sd = model.predict(POINTS, return_std=True, noise_variance=new)
    np.testing.assert_allclose(mean, f.mean)
    np.testing.assert_allclose(sd**2, f.variance + new)
    _, cov = model.predict(POINTS, return_cov=True, noise_variance=new)
    np.testing.assert_allclose(np.diagonal(cov), f.variance + new)
    _, smooth = model.predict(POINTS, return_cov=True, noise=False)
    np.testing.assert_allclose(cov - smooth, np.diag(new), atol=1e-12)
    scatter = model.sample_y(POINTS, 4000, noise_variance=new) - model.sample_y(POINTS, 4000, noise=False)
    np.testing.assert_allclose(scatter.var(axis=1), new, rtol=5 * np.sqrt(2 / 4000))
    updated = model.update(X[30:], Y[30:], s[30:])
    whole = GPRegressor(KERNEL, likelihood=KnownNoise(s), **options).fit(X, Y)
    assert updated.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)
    np.testing.assert_allclose(updated.leave_one_out().mean, whole.leave_one_out().mean, atol=1e-8)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda m: m.predict(POINTS, return_std=True, noise="no"), "noise must be True or False, got 'no'"),
        (lambda m: m.predict(POINTS, noise=False, noise_variance=1.0), "noise=False asks for the function"),
        (lambda m: m.predict_dist(POINTS, noise_variance="no"), "noise_variance must be numbers"),
        (lambda m: m.sample_y(POINTS, -1), "n_samples must be an integer >= 0, got -1"),
        (lambda m: m.sample_y(POINTS, 2.5), "n_samples must be an integer >= 0, got 2.5"),
    ],
)
def test_wrong_arguments_of_predictions_are_named(fitted, ask, words):
    with pytest.raises(ValueError, match=words):
        ask(fitted)


def test_noise_variances_are_for_known_noise(fitted):
    with pytest.raises(ValueError, match="noise_variance is for KnownNoise; Gaussian says itself"):
        fitted.predict(POINTS, return_std=True, noise_variance=np.ones(len(POINTS)))


def test_counts_are_predicted_as_counts():
    rate = np.exp(2.0 + np.sin(X[:, 0]))
    counts = np.random.default_rng(1).poisson(rate).astype(float)
    model = GPRegressor(1.0 * SE(1.0), likelihood="poisson", mean=2.0, objective=None).fit(X[:, :1], counts)
    mean, sd = model.predict(X[:, :1], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X[:, :1]))
    assert np.all(np.abs(mean - rate) < 4 * np.sqrt(rate))
    assert np.all(sd > np.sqrt(mean))  # more than Poisson's own
    f, _ = model.predict(X[:, :1], return_std=True, noise=False)
    assert np.all(f < 4)  # its logarithm
    draws = model.sample_y(X[:2, :1], 5)
    np.testing.assert_array_equal(draws, np.round(draws))
    with pytest.raises(ValueError, match="Poisson has no joint covariance of observations"):
        model.predict(X[:, :1], return_cov=True)


def test_a_noise_level_that_is_a_function_too():
    from cavity.likelihoods import HeteroscedasticGaussian

    rng = np.random.default_rng(2)
    x = np.linspace(0, 6, 80)[:, None]
    y = np.sin(x[:, 0]) + 0.05 * np.exp(0.4 * x[:, 0]) * rng.standard_normal(80)
    kernel = [1.0 * SE(1.5), 1.0 * SE(3.0)]
    model = GPRegressor(kernel, likelihood=HeteroscedasticGaussian(0.02), objective=None).fit(x, y)
    mean, sd = model.predict([[0.5], [5.5]], return_std=True)
    np.testing.assert_allclose(mean, np.sin([0.5, 5.5]), atol=0.3)
    assert sd[1] > 2 * sd[0]
    assert model.sample_y(x[:3], 4).shape == (3, 4)


def test_gradients_of_the_prediction(fitted):
    d_mean, d_var = fitted.predict_gradient(POINTS)
    assert d_mean.shape == d_var.shape == (9, 2)
    h = 1e-5
    for d in range(2):
        e = h * np.eye(2)[d]
        slope = (fitted.predict(POINTS + e) - fitted.predict(POINTS - e)) / (2 * h)
        np.testing.assert_allclose(d_mean[:, d], slope, atol=1e-6)


def test_draws(fitted):
    assert fitted.sample_y(POINTS).shape == (9, 1)
    draws = fitted.sample_y(POINTS, 4000, random_state=1)
    np.testing.assert_array_equal(draws, fitted.sample_y(POINTS, 4000, random_state=1))
    mean, cov = fitted.predict(POINTS, return_cov=True)
    assert np.max(np.abs(draws.mean(axis=1) - mean) / np.sqrt(np.diag(cov) / 4000)) < 4.5
    error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / 4000)
    assert np.max(np.abs(np.cov(draws) - cov) / error) < 5.0
    smooth = fitted.sample_y(POINTS, 10, noise=False)
    assert np.std(smooth) > 0


def test_leave_one_out_of_the_estimator(fitted):
    loo = fitted.leave_one_out()
    for i in (0, 17):
        rest = np.delete(np.arange(40), i)
        other = fitted.model_.condition(X[rest], Y[rest]).predict_y(X[[i]])
        assert loo.mean[i] == pytest.approx(other.mean[0], abs=1e-8)
        assert loo.variance[i] == pytest.approx(other.variance[0], rel=1e-8)


@pytest.mark.parametrize("mean", ["constant", Basis("linear")], ids=repr)
def test_leave_one_out_leaves_out_one_of_several_equal_rows(mean):
    twice = np.r_[np.arange(40), np.arange(5), [0]]
    model = GPRegressor(KERNEL, objective=None, likelihood=Gaussian(0.02), mean=mean).fit(X[twice], Y[twice])
    assert len(model.rows_.X) == 40
    loo = model.leave_one_out()
    assert len(loo) == 46
    for i in (0, 3, 20, 40, 45):
        rest = np.delete(twice, i)
        other = model.model_.condition(X[rest], Y[rest]).predict_y(X[[twice[i]]])
        assert loo.mean[i] == pytest.approx(other.mean[0], abs=1e-8)
        assert loo.variance[i] == pytest.approx(other.variance[0], rel=1e-7)


def test_leave_one_out_says_when_rows_were_left_out():
    model = GPRegressor(KERNEL, **AS_GIVEN).fit(X, Y, np.r_[0.0, np.ones(39)])
    with pytest.raises(ValueError, match="1 were left out"):
        model.leave_one_out()


def test_nothing_works_before_the_fit():
    for call in (
        lambda m: m.predict(POINTS),
        lambda m: m.predict_dist(POINTS),
        lambda m: m.sample_y(POINTS),
        lambda m: m.leave_one_out(),
        lambda m: m.update(X, Y),
    ):
        with pytest.raises(NotFittedError):
            call(GPRegressor())


# --- weights ------------------------------------------------------------------------------------------------


def test_integer_weights_are_repeated_rows():
    w = np.arange(40) % 3
    repeated = np.repeat(np.arange(40), w)
    one = GPRegressor(n_restarts=1, random_state=0).fit(X, Y, sample_weight=w)
    two = GPRegressor(n_restarts=1, random_state=0).fit(X[repeated], Y[repeated])
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(one.predict(POINTS), two.predict(POINTS), atol=1e-8)


def test_weight_zero_removes_the_row_before_anything_else():
    w = np.r_[np.zeros(10), np.ones(30)]
    wild = Y.copy()
    wild[:10] = 1e6
    options = {"n_restarts": 1, "random_state": 0, "learn_rows": 30}
    one, two = GPRegressor(**options).fit(X, wild, w), GPRegressor(**options).fit(X[10:], Y[10:])
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(one.predict(POINTS), two.predict(POINTS), atol=1e-6)


def test_weights_are_powers_of_the_likelihood():
    w = np.linspace(0.2, 3.0, 40)
    model = GPRegressor(KERNEL, **AS_GIVEN).fit(X, Y, w)
    equivalent = GP(KERNEL, KnownNoise(0.02 / w)).condition(X, Y)
    np.testing.assert_allclose(model.predict(POINTS), equivalent.mean(POINTS), atol=1e-10)


def test_white_noise_in_the_kernel_keeps_repeated_rows_apart():
    kernel = 1.0 * SE(1.0) + White(0.1)
    twice = np.r_[np.arange(40), np.arange(40)]
    model = GPRegressor(kernel, **AS_GIVEN).fit(X[twice], Y[twice])
    assert len(model.rows_.X) == 80
    truth = GP(kernel, Gaussian(0.02)).condition(X[twice], Y[twice])
    assert model.log_evidence_ == pytest.approx(truth.log_evidence)


def test_known_noise_belongs_to_its_rows():
    s = np.linspace(0.01, 1.0, 40)
    twice = np.r_[np.arange(40), np.arange(5)]
    model = GPRegressor(KERNEL, likelihood=KnownNoise(s[twice]), objective=None, mean="zero")
    w = np.r_[np.zeros(3), np.ones(42)]
    model.fit(X[twice], Y[twice], w)
    truth = GP(KERNEL, KnownNoise(s[twice][3:])).condition(X[twice][3:], Y[twice][3:])
    assert model.log_evidence_ == pytest.approx(truth.log_evidence)
    np.testing.assert_allclose(model.predict(POINTS), truth.mean(POINTS))
    assert np.isfinite(model.predict(POINTS, return_std=True, noise=False)[1]).all()


# --- more data, another start -------------------------------------------------------------------------------


def test_update_equals_a_fit_to_everything():
    options = {"kernel": KERNEL, **AS_GIVEN}
    updated = GPRegressor(**options).fit(X[:30], Y[:30]).update(X[30:35], Y[30:35]).update(X[35:], Y[35:])
    whole = GPRegressor(**options).fit(X, Y)
    assert updated.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)
    np.testing.assert_allclose(updated.predict(POINTS), whole.predict(POINTS), atol=1e-10)
    np.testing.assert_allclose(
        updated.predict(POINTS, return_std=True)[1], whole.predict(POINTS, return_std=True)[1], atol=1e-10
    )
    np.testing.assert_allclose(updated.leave_one_out().mean, whole.leave_one_out().mean, atol=1e-8)


def test_update_after_repeated_rows_and_weights():
    twice = np.r_[np.arange(30), np.arange(5)]
    updated = GPRegressor(KERNEL, **AS_GIVEN).fit(X[twice], Y[twice]).update(X[30:], Y[30:])
    everything = np.r_[twice, np.arange(30, 40)]
    whole = GPRegressor(KERNEL, **AS_GIVEN).fit(X[everything], Y[everything])
    assert updated.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-9)
    np.testing.assert_allclose(updated.leave_one_out().mean, whole.leave_one_out().mean, atol=1e-8)


@pytest.mark.parametrize("known", [False, True])
def test_update_of_a_fit_by_sampling(known):
    """Where nothing is left to sample, exact inference tells what the update must give."""
    s = np.linspace(0.01, 1.0, 40)
    new = {"noise_variance": s[30:]} if known else {}
    exact, sampled = (
        GPRegressor(
            KERNEL,
            likelihood=KnownNoise(s[:30]) if known else Gaussian(0.02),
            mean="zero",
            objective=None,
            inference=rule,
        )
        .fit(X[:30], Y[:30])
        .update(X[30:], Y[30:], **new)
        for rule in ("exact", MCMC(4, 4, 2, progress=False))
    )
    np.testing.assert_allclose(sampled.predict(POINTS), exact.predict(POINTS), atol=1e-8)
    f, truth = (m.predict_latent(POINTS) for m in (sampled, exact))
    np.testing.assert_allclose(f.variance, truth.variance, atol=1e-8)


def test_update_keeps_hyperparameters_and_checks_shapes(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    before = model.kernel_
    model.update([[3.0, 0.0]], [[0.2]])
    assert model.kernel_ == before
    assert len(model.rows_.X) == 41
    with pytest.raises(ValueError, match="X has 3 features"):
        model.update([[3.0, 0.0, 1.0]], [0.2])
    with pytest.raises(ValueError, match=r"y must have the columns of the fit"):
        model.update([[3.0, 0.0]], [[0.2, 0.1]])


def test_warm_start_continues_from_the_last_fit():
    model = GPRegressor(n_restarts=0, warm_start=True).fit(X, Y)
    before, cost = model.model_, model.runs_[0].evaluations
    model.fit(X, Y)
    np.testing.assert_allclose(model.runs_[0].start, before.theta)
    assert model.runs_[0].evaluations < cost
    assert model.log_evidence_ >= before.condition(X, Y).log_evidence - 1e-9


def test_warm_start_after_columns_changed_places():
    frame = pd.DataFrame(X, columns=["time", "depth"])
    model = GPRegressor(1.0 * SE(1.0).on("time"), n_restarts=0, warm_start=True).fit(frame, Y)
    before = model.predict(frame)
    turned = frame[["depth", "time"]]
    np.testing.assert_allclose(model.fit(turned, Y).predict(turned), before, atol=1e-4)


def test_warm_start_of_another_model_starts_afresh():
    model = GPRegressor(n_restarts=0, warm_start=True).fit(X, Y)
    model.set_params(kernel=1.0 * Matern(ard)).fit(X, Y)
    assert "matern.lengthscale[0]" in model.model_.names
    model.fit(X[:, :1], Y)
    assert model.model_.names[:2] == ("matern.variance", "matern.lengthscale[0]")
    assert model.n_features_in_ == 1
    model.fit(X[:, :1], np.column_stack([Y, Y]))
    assert model.predict(POINTS[:, :1]).shape == (9, 2)


# --- several targets ----------------------------------------------------------------------------------------


def test_several_targets_at_once():
    T = np.column_stack([Y, 3 * np.cos(X[:, 0])])
    model = GPRegressor(n_restarts=0).fit(X, T)
    mean, sd = model.predict(POINTS, return_std=True)
    assert mean.shape == sd.shape == (9, 2)
    _, cov = model.predict(POINTS, return_cov=True)
    assert cov.shape == (9, 9)
    for t in range(2):
        alone = model.model_.condition(X, T[:, t])
        np.testing.assert_allclose(mean[:, t], alone.mean(POINTS), atol=1e-9)
    assert model.sample_y(POINTS, 5).shape == (9, 2, 5)
    assert model.predict_dist(POINTS).log_prob(mean).shape == (9, 2)
    assert model.score(X, T) > 0.9
    d_mean, d_var = model.predict_gradient(POINTS)
    assert d_mean.shape == (9, 2, 2)
    assert d_var.shape == (9, 2)
    loo = model.leave_one_out()
    assert loo.mean.shape == (40, 2)
    model.update(X[:2] + 0.01, T[:2])
    assert model.predict(POINTS).shape == (9, 2)


def test_targets_of_very_different_levels_each_have_their_own():
    T = np.column_stack([Y, Y + 1000.0])
    model = GPRegressor(n_restarts=0).fit(X, T)
    np.testing.assert_allclose(model.predict(POINTS)[:, 1] - model.predict(POINTS)[:, 0], 1000.0, atol=1e-4)


# --- company ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_and_column_names(frame):
    data = frame({"time": X[:, 0], "depth": X[:, 1]})
    kernel = 1.0 * SE(1.0).on("time") + 1.0 * Linear(1.0).on("depth")
    model = GPRegressor(kernel, n_restarts=0).fit(data, Y)
    assert list(model.feature_names_in_) == ["time", "depth"]
    same = GPRegressor(1.0 * SE(1.0).on(0) + 1.0 * Linear(1.0).on(1), n_restarts=0).fit(X, Y)
    points = frame({"time": POINTS[:, 0], "depth": POINTS[:, 1]})
    np.testing.assert_allclose(model.predict(points), same.predict(POINTS))
    model.update(points, np.zeros(9))
    with pytest.raises(ValueError, match="unknown column 'size'"):
        GPRegressor(SE(1.0).on("size")).fit(data, Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"depth": POINTS[:, 1], "time": POINTS[:, 0]}))


def test_pipeline_and_cross_validation():
    model = make_pipeline(StandardScaler(), GPRegressor(n_restarts=0))
    assert model.fit(X, Y).score(X, Y) > 0.95
    assert np.mean(cross_val_score(GPRegressor(n_restarts=0), X, Y, cv=3)) > 0.3


def test_grid_search_over_a_kernel_parameter():
    search = GridSearchCV(
        GPRegressor(1.0 * SE(1.0), **AS_GIVEN), {"kernel__se__lengthscale": [0.01, 1.0, 100.0]}, cv=3
    ).fit(X, Y)
    assert search.best_params_ == {"kernel__se__lengthscale": 1.0}
    assert search.best_estimator_.kernel_.get("se.lengthscale") == 1.0


def test_parameters_by_name():
    model = GPRegressor(2.0 * SE([1.0, 2.0]) + Periodic(SE(0.5)), likelihood=Gaussian(0.3))
    params = model.get_params()
    assert params["kernel__se__variance"] == 2.0
    assert params["kernel__periodic__period"] == 1.0
    assert params["likelihood__gaussian__variance"] == 0.3
    old = model.kernel
    model.set_params(kernel__se__variance=5.0, likelihood__gaussian__variance=0.1, n_restarts=7)
    assert model.kernel.get("se.variance") == 5.0
    assert old.get("se.variance") == 2.0
    assert model.likelihood == Gaussian(0.1)
    assert model.n_restarts == 7
    both = model.set_params(kernel=1.0 * SE(1.0), kernel__se__lengthscale=3.0)
    assert both.kernel == 1.0 * SE(3.0)
    with pytest.raises(ValueError, match=r"no parameter is called 'se.size'"):
        model.set_params(kernel__se__size=1.0)
    with pytest.raises(ValueError, match="kernel=None has no parameters of its own"):
        GPRegressor().set_params(kernel__se__variance=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        GPRegressor().set_params(colour=1)


def test_clone_and_repr():
    model = GPRegressor(2.0 * SE(1.0), mean=Basis("linear"), n_restarts=1)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert repr(model).startswith("GPRegressor(kernel=2.0 * SE(lengthscale=1.0), mean=Basis(")
    assert "n_jobs" not in repr(model)  # only what differs from the defaults
    assert not hasattr(clone(model.fit(X, Y)), "posterior_")


def test_pickling(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(POINTS), fitted.predict(POINTS))
    assert copy.log_evidence_ == fitted.log_evidence_


# --- extremes -----------------------------------------------------------------------------------------------

MEANS = ["zero", "constant", "linear", Basis("constant"), Basis("linear", 0.0, 1.0)]


@pytest.mark.parametrize("mean", MEANS, ids=repr)
def test_one_row(mean):
    model = GPRegressor(mean=mean, n_restarts=1, random_state=0).fit([[2.0, 3.0]], [5.0])
    mean_, sd = model.predict([[2.0, 3.0], [100.0, 3.0]], return_std=True)
    assert np.isfinite(mean_).all()
    assert np.all(sd >= 0)
    assert np.isfinite(model.log_evidence_)


@pytest.mark.filterwarnings("ignore:the optimizer of the hyperparameters")
@pytest.mark.parametrize("value", [0.0, 7.0, -1e12, 1e-12])
@pytest.mark.parametrize("mean", ["zero", "constant", "linear"])
def test_constant_targets(value, mean):
    model = GPRegressor(mean=mean, n_restarts=0).fit(X, np.full(40, value))
    prediction, sd = model.predict(POINTS, return_std=True)
    np.testing.assert_allclose(prediction, value, rtol=1e-3, atol=1e-3 * max(abs(value), 1e-300) or 1e-3)
    assert np.isfinite(sd).all()


def test_repeated_rows_with_different_targets():
    twice = np.vstack([X, X])
    targets = np.concatenate([Y + 0.3, Y - 0.3])
    model = GPRegressor(n_restarts=0).fit(twice, targets)
    assert model.likelihood_.variance == pytest.approx(0.09, rel=0.4)
    np.testing.assert_allclose(model.predict(X), Y, atol=0.4)
    single = GPRegressor(n_restarts=0).fit(np.zeros((5, 1)), np.arange(5.0))
    assert single.predict([[0.0]]) == pytest.approx(2.0, abs=0.1)
    assert single.likelihood_.variance == pytest.approx(2.0, rel=0.6)


def test_columns_of_zeros_and_constants():
    padded = np.column_stack([X, np.zeros(40), np.full(40, 1e6)])
    model = GPRegressor(n_restarts=0).fit(padded, Y)
    plain = GPRegressor(n_restarts=0).fit(X, Y)
    points = np.column_stack([POINTS, np.zeros(9), np.full(9, 1e6)])
    np.testing.assert_allclose(model.predict(points), plain.predict(POINTS), atol=0.02)
    line = GPRegressor(n_restarts=0, mean="linear").fit(padded, Y)
    np.testing.assert_allclose(line.predict(points), plain.predict(POINTS), atol=0.1)
    alone = GPRegressor(n_restarts=0).fit(np.zeros((40, 1)), Y)
    np.testing.assert_allclose(alone.predict([[0.0]]), Y.mean(), atol=0.05)


def test_integers_and_other_types_are_taken():
    ints = np.arange(10)[:, None]
    y = np.arange(10) % 3
    a = GPRegressor(n_restarts=0).fit(ints, y).predict(ints)
    b = GPRegressor(n_restarts=0).fit(ints.astype(np.float32), y.astype(float)).predict(ints.astype(float))
    np.testing.assert_allclose(a, b)
    c = GPRegressor(n_restarts=0).fit(ints.tolist(), y.tolist()).predict(ints)
    np.testing.assert_allclose(a, c)


def test_an_exact_line_ends_where_rounding_begins():
    x = np.arange(10.0)[:, None]
    with pytest.warns(ConvergenceWarning, match="rounding errors dominate the objective"):
        model = GPRegressor(n_restarts=0).fit(x, np.arange(10.0))
    np.testing.assert_allclose(model.predict([[4.5], [20.0]]), [4.5, 20.0], atol=0.1)


@pytest.mark.filterwarnings("ignore:the optimizer of the hyperparameters")
def test_noise_free_data():
    x = np.linspace(0, 6, 15)[:, None]
    model = GPRegressor(likelihood="noiseless", n_restarts=0).fit(x, np.sin(x[:, 0]))
    np.testing.assert_allclose(model.predict(x), np.sin(x[:, 0]), atol=1e-6)
    mean, sd = model.predict(x + 0.2, return_std=True)
    np.testing.assert_allclose(mean[:-1], np.sin(x[:-1, 0] + 0.2), atol=1e-3)
    assert np.all(sd[:-1] < 0.01)


def test_a_nearly_singular_fit_is_reported(monkeypatch):
    monkeypatch.setattr(reports, "NEARLY_SINGULAR", 0.0)  # any jitter is too much
    x = np.linspace(0, 1, 30)[:, None]
    doubled = np.vstack([x, x + 1e-13])
    model = GPRegressor(1.0 * SE(1.0), likelihood="noiseless", mean="zero", objective=None)
    with pytest.warns(ConvergenceWarning, match=r"nearly singular: jitter .* was added"):
        model.fit(doubled, np.concatenate([x[:, 0], x[:, 0] + 1e-3]))
    assert model.posterior_.status.jitter > 0


def test_hyperparameters_are_learned_from_some_rows_and_all_are_conditioned_on():
    options = {"n_restarts": 0, "random_state": 1}
    some = GPRegressor(learn_rows=15, **options).fit(X, Y)
    all_rows = GPRegressor(learn_rows=None, **options).fit(X, Y)
    assert some.kernel_ != all_rows.kernel_
    assert some.kernel_ == GPRegressor(learn_rows=15, **options).fit(X, Y).kernel_
    same = GP(some.kernel_, some.likelihood_, mean=some.mean_).condition(X, Y)
    assert some.log_evidence_ == pytest.approx(same.log_evidence, abs=1e-9)
    np.testing.assert_allclose(some.predict(POINTS), same.mean(POINTS), atol=1e-9)
    enough = GPRegressor(learn_rows=100, **options).fit(X, Y)
    assert enough.kernel_ == all_rows.kernel_


def test_tags_of_settings_that_make_no_sense():
    """A damaged model file may hold anything: scikit-learn asks for tags before every prediction."""
    assert not GPRegressor(likelihood=np.zeros(3)).__sklearn_tags__().target_tags.multi_output
    assert GPRegressor(likelihood="gaussian").__sklearn_tags__().target_tags.multi_output


def test_a_fit_does_not_change_with_the_arrays_it_was_given():
    rng = np.random.default_rng(0)
    data = rng.uniform(0, 6, (20, 1))
    targets = np.sin(data[:, 0]) + 0.1 * rng.standard_normal(20)
    model = GPRegressor(n_restarts=0, random_state=0).fit(data, targets)
    left_out, outliers = model.leave_one_out().mean, model.outlier_probability_
    data[:], targets[:] = 0.0, 0.0
    np.testing.assert_array_equal(model.leave_one_out().mean, left_out)
    np.testing.assert_array_equal(model.outlier_probability_, outliers)
