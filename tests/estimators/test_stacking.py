"""Averages of several regressors, weighted as well as they predict rows that were left out."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import cavity
from cavity import GPRegressor, StackedRegressor
from cavity.estimators.stacking import stacking_weights
from cavity.io import ModelFileError
from cavity.likelihoods import Gaussian, HeteroscedasticGaussian, KnownNoise, MixtureOfGaussians, StudentT


def fixed(kernel: str, noise: object = None, **options: object) -> GPRegressor:
    """A model whose values are not learned."""
    return GPRegressor(kernel, likelihood=noise or Gaussian(0.05), mean="zero", objective=None, **options)


def data(n: int = 25, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 6, n))
    return x[:, None], np.sin(x) + 0.2 * rng.standard_normal(n)


def pair() -> list[tuple[str, GPRegressor]]:
    """Neither is right: the one too smooth, the other too rough."""
    return [
        ("smooth", fixed("1.0 * SE(4.0)", Gaussian(0.1))),
        ("rough", fixed("1.0 * SE(0.3)", Gaussian(0.02))),
    ]


# --- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [1, 2, 5])
def test_weights_maximize_the_log_density_of_the_mixture(members):
    rng = np.random.default_rng(members)
    log_p = stats.norm.logpdf(rng.standard_normal(80), rng.uniform(-2, 2, (members, 1)), 1.0)
    c = rng.uniform(0.2, 2.0, 80)

    def loss(w):
        return -np.sum(c * np.log(w @ np.exp(log_p))) / c.sum()

    found = stacking_weights(log_p, c)
    start = np.full(members, 1.0 / members)
    best = minimize(
        loss,
        start,
        method="SLSQP",
        bounds=[(0, 1)] * members,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12},
    )
    assert found.sum() == pytest.approx(1.0)
    assert np.all(found >= 0)
    assert loss(found) <= best.fun + 2e-6


def test_the_better_of_two_densities_everywhere_has_all_the_weight():
    log_p = np.array([np.full(10, -1.0), np.full(10, -1.5)])
    np.testing.assert_array_equal(stacking_weights(log_p), [1.0, 0.0])


def test_densities_that_are_no_floating_point_numbers_any_more():
    log_p = np.array([[-2000.0, -1.0, -1.0], [-1000.0, -1.1, -1.1]])
    w = stacking_weights(log_p)
    # ln(w2) + 2 ln(1 - w2 (1 - e^-0.1)) has its maximum at w2 = 1 / (3 (1 - e^-0.1)), beyond one
    np.testing.assert_array_equal(w, [0.0, 1.0])


def test_a_row_of_weight_three_counts_as_three_rows():
    rng = np.random.default_rng(0)
    log_p = rng.standard_normal((3, 20))
    weight = np.where(np.arange(20) < 5, 3.0, 1.0)
    repeated = np.hstack([log_p, log_p[:, :5], log_p[:, :5]])
    np.testing.assert_allclose(stacking_weights(log_p, weight), stacking_weights(repeated), atol=1e-9)


def test_a_row_that_no_model_can_explain_is_named():
    with pytest.raises(ValueError, match=r"row 1 .*student-t"):
        stacking_weights([[-1.0, -np.inf, -1.0], [-2.0, -np.inf, -np.inf]])


# --- what the average says ----------------------------------------------------------------------------------


def test_scores_are_those_of_models_that_have_not_seen_the_row():
    X, y = data(12)
    model = StackedRegressor(pair()).fit(X, y)
    left_out = np.array(
        [
            [
                float(
                    clone(m)
                    .fit(np.delete(X, i, 0), np.delete(y, i))
                    .predict_dist(X[i : i + 1])
                    .log_prob(y[i])[0]
                )
                for i in range(12)
            ]
            for _, m in pair()
        ]
    )
    scores = model.comparison_["leave-one-out log density"]
    np.testing.assert_allclose(scores[["smooth", "rough"]], left_out.mean(axis=1), rtol=1e-9)
    mixed = np.log(model.weights_ @ np.exp(left_out))
    assert scores["stacked"] == pytest.approx(mixed.mean(), rel=1e-9)
    assert scores["stacked"] > scores[["smooth", "rough"]].max()
    np.testing.assert_allclose(model.leave_one_out().log_prob(y), mixed, rtol=1e-9)


def test_predictions_are_the_mixture():
    X, y = data()
    model = StackedRegressor(pair()).fit(X, y)
    new = np.linspace(-1, 7, 5)[:, None]
    w = model.weights_
    assert 0.05 < w[0] < 0.95
    parts = [m.predict_dist(new) for m in model.estimators_]
    found = model.predict_dist(new)
    np.testing.assert_allclose(np.exp(found.log_prob(y[:5])), w @ [np.exp(p.log_prob(y[:5])) for p in parts])
    mean, sd = model.predict(new, return_std=True)
    for i in range(5):

        def density(t, i=i):
            return w @ [stats.norm.pdf(t, p.mean[i], p.sd[i]) for p in parts]

        first = integrate.quad(lambda t: t * density(t), -10, 10, points=[mean[i]])[0]
        second = integrate.quad(lambda t: t**2 * density(t), -10, 10, points=[mean[i]])[0]
        assert mean[i] == pytest.approx(first, abs=1e-7)
        assert sd[i] == pytest.approx(np.sqrt(second - first**2), rel=1e-6)
    np.testing.assert_allclose(model.predict(new), mean)
    low, high = found.interval(0.9)
    np.testing.assert_allclose(found.cdf(low), 0.05, rtol=1e-8)
    np.testing.assert_allclose(found.cdf(high), 0.95, rtol=1e-8)


@pytest.mark.parametrize("noise", [True, False])
def test_joint_draws_have_the_covariance_of_the_mixture(noise):
    X, y = data()
    model = StackedRegressor(pair()).fit(X, y)
    new = np.array([[-1.0], [3.0], [7.0]])
    draws = model.sample_y(new, 40_000, random_state=0, noise=noise)
    mean, cov = model.predict(new, return_cov=True, noise=noise)
    assert draws.shape == (3, 40_000)
    error = np.sqrt(np.diag(cov) / 40_000)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 4 * error)
    np.testing.assert_allclose(np.cov(draws), cov, atol=4 * cov.max() * np.sqrt(2 / 40_000))
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), model.predict(new, return_std=True, noise=noise)[1])
    np.testing.assert_array_equal(draws, model.sample_y(new, 40_000, random_state=0, noise=noise))


def test_a_model_that_cannot_explain_outliers_loses_its_weight():
    X, y = data(30)
    y[[5, 20]] += 8.0
    model = StackedRegressor(
        [("gaussian", fixed("1.0 * SE(1.0)")), ("robust", fixed("1.0 * SE(1.0)", StudentT(0.2, 3.0)))]
    ).fit(X, y)
    np.testing.assert_array_equal(model.weights_, [0.0, 1.0])
    np.testing.assert_allclose(model.predict(X), model.named_estimators_["robust"].predict(X))
    np.testing.assert_array_equal(np.flatnonzero(model.outlier_probability_ > 0.5), [5, 20])


def test_outlier_probability_is_that_of_the_mixture_of_models():
    """Bayes' rule over model and component together, the noise averaged over what the others say about f."""
    X, y = data(15)
    y[[3, 9]] += [0.7, 3.0]
    noises = [
        MixtureOfGaussians(0.1, 0.15, outlier_scale=2.0),
        MixtureOfGaussians(0.3, 0.3, outlier_scale=1.0),
    ]
    kernels = ["1.0 * SE(4.0)", "1.0 * SE(0.7)"]
    model = StackedRegressor([(f"m{k}", fixed(kernels[k], noises[k])) for k in range(2)]).fit(X, y)
    assert np.all(model.weights_ > 0)
    regular, outlier = np.zeros(15), np.zeros(15)
    for w, member, noise in zip(model.weights_, model.estimators_, noises):
        mean, var = member._without_own_row()
        pi, scale = noise.fraction, noise.scale
        wide = noise.outlier_scale
        regular += w * (1 - pi) * stats.norm.pdf(y, mean, np.sqrt(var + scale**2))
        outlier += w * pi * stats.norm.pdf(y, mean, np.sqrt(var + wide**2))
    np.testing.assert_allclose(model.outlier_probability_, outlier / (regular + outlier), rtol=1e-8)


def test_noise_that_is_known_is_that_of_each_row():
    X, y = data(20)
    variances = np.linspace(0.01, 0.3, 20)
    model = StackedRegressor([("known", fixed("1.0 * SE(1.0)", KnownNoise(variances)))]).fit(X, y)
    left_out = np.empty(20)
    for i in range(20):
        rows = np.setdiff1d(np.arange(20), [i])
        other = fixed("1.0 * SE(1.0)", KnownNoise(variances[rows])).fit(X[rows], y[rows])
        left_out[i] = other.predict_dist(X[i : i + 1], noise_variance=variances[[i]]).log_prob(y[i])[0]
    assert model.comparison_.loc["known"].iloc[1] == pytest.approx(left_out.mean(), rel=1e-9)


def test_only_models_of_known_noise_are_told_that_of_new_rows():
    X, y = data()
    known = ("known", fixed("1.0 * SE(4.0)", KnownNoise(np.full(25, 0.1))))
    model = StackedRegressor([known, pair()[1]]).fit(X, y)
    a, b = model.estimators_
    w = model.weights_
    assert w.min() > 0.01
    new, variances = X[:3] + 0.1, np.array([0.1, 0.2, 0.4])
    parts = a.predict_dist(new, noise_variance=variances), b.predict_dist(new)
    mean = w[0] * parts[0].mean + w[1] * parts[1].mean
    variance = sum(v * (p.variance + (p.mean - mean) ** 2) for v, p in zip(w, parts))
    np.testing.assert_allclose(
        model.predict_dist(new, noise_variance=variances).variance, variance, rtol=1e-12
    )
    _, cov = model.predict(new, return_cov=True, noise_variance=variances)
    np.testing.assert_allclose(np.diag(cov), variance, rtol=1e-12)
    drawn = model.sample_y(new, 20_000, noise_variance=variances).var(axis=1)
    np.testing.assert_allclose(drawn, variance, rtol=0.05)  # five standard errors of a variance are 0.05
    with pytest.raises(ValueError, match="noise variances"):
        model.predict_dist(new)
    with pytest.raises(ValueError, match="is for KnownNoise"):
        StackedRegressor(pair()).fit(X, y).predict_dist(new, noise_variance=variances)


def test_rows_of_weight_zero_do_not_count():
    X, y = data(20)
    spoiled = y.copy()
    spoiled[7] = 1e3
    weighted = StackedRegressor(pair()).fit(X, spoiled, np.where(np.arange(20) == 7, 0.0, 1.0))
    without = StackedRegressor(pair()).fit(np.delete(X, 7, 0), np.delete(y, 7))
    np.testing.assert_allclose(weighted.weights_, without.weights_, atol=1e-8)
    np.testing.assert_allclose(weighted.predict(X), without.predict(X), atol=1e-8)
    assert np.isnan(weighted.outlier_probability_[7])
    assert np.isfinite(np.delete(weighted.outlier_probability_, 7)).all()


# --- the estimator contract, files, errors ------------------------------------------------------------------


def test_parameters_of_members_are_reached_by_name():
    model = StackedRegressor(pair())
    model.set_params(smooth__kernel="1.0 * SE(2.0)", rough__learn_rows=9)
    assert dict(model.estimators)["smooth"].kernel == "1.0 * SE(2.0)"
    assert model.get_params()["rough__learn_rows"] == 9
    model.set_params(rough=fixed("1.0 * SE(0.5)"))
    assert model.get_params()["rough__kernel"] == "1.0 * SE(0.5)"
    assert clone(model).get_params()["rough__kernel"] == "1.0 * SE(0.5)"


def test_data_frames_keep_their_column_names(recwarn):
    X, y = data()
    frame = pd.DataFrame({"time": X[:, 0]})
    model = StackedRegressor([("a", GPRegressor("1.0 * SE(1.0).on('time')", objective=None))]).fit(frame, y)
    assert list(model.feature_names_in_) == ["time"]
    np.testing.assert_allclose(model.predict(frame), model.estimators_[0].predict(frame))
    assert not recwarn.list


def test_model_files_keep_predictions_to_the_bit(tmp_path):
    X, y = data()
    model = StackedRegressor(pair()).fit(pd.DataFrame({"time": X[:, 0]}), y)
    model.save(tmp_path / "stack.cavity")
    again = cavity.load(tmp_path / "stack.cavity")
    new = pd.DataFrame({"time": np.linspace(-1, 7, 9)})
    np.testing.assert_array_equal(again.predict(new, return_std=True), model.predict(new, return_std=True))
    pd.testing.assert_frame_equal(again.comparison_, model.comparison_)
    assert repr(again) == repr(model)
    again.fit(new.iloc[:5], np.arange(5.0))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("weights", np.array([0.7, 0.7]), "add up to one"),
        ("weights", np.array([1.0]), "add up to one"),
        ("names", ["a", "a"], "name of its own"),
        ("scores", np.zeros(2), "score"),
        ("members", [], "name of its own"),
        ("columns", {"n_features_in_": 2}, "same columns"),
    ],
)
def test_files_whose_parts_do_not_fit_are_refused(name, value, words):
    from cavity.estimators import files

    X, y = data()
    fields = files._stacked_fields(StackedRegressor(pair()).fit(X, y))
    assert isinstance(files._stacked(**fields), StackedRegressor)
    with pytest.raises(ModelFileError, match=words):
        files._stacked(**{**fields, name: value})


@pytest.mark.parametrize(
    ("estimators", "words"),
    [
        ([], "list of pairs"),
        (GPRegressor(), "list of pairs"),
        ([GPRegressor()], "list of pairs"),
        ([("a", LinearRegression())], "StackingRegressor"),
        ([(1, GPRegressor())], "texts, got 1"),
        ([("a", GPRegressor()), ("a", GPRegressor())], "not unique"),
        ([("estimators", GPRegressor())], "conflict"),
        ([("a__b", GPRegressor())], "a__b"),
        ([("stacked", GPRegressor())], "'stacked' is that of the average"),
        (
            [("a", GPRegressor(likelihood="poisson")), ("b", GPRegressor(likelihood="laplace"))],
            "'a' of counts, 'b' of real numbers",
        ),
    ],
)
def test_what_cannot_be_stacked_is_named(estimators, words):
    with pytest.raises(ValueError, match=words):
        StackedRegressor(estimators).fit(data(8)[0], np.arange(8.0))


def test_pictures_and_assessments_are_of_members():
    X, y = data(8)
    model = StackedRegressor(pair()).fit(X, y)
    with pytest.raises(ValueError, match=r"estimators_\[0\]\.plot"):
        cavity.plots.plot(model)
    with pytest.raises(ValueError, match=r"estimators_\[0\]"):
        cavity.assess(model, X, y)
    assert model.sample_y(X, 0).shape == (8, 0)


def test_what_was_not_fitted_says_so_also_after_a_fit_that_failed():
    X, y = data(8)
    model = StackedRegressor([("a", GPRegressor(n_restarts=-1))])
    with pytest.raises(ValueError, match="n_restarts"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_wrong_inputs_are_named():
    X, y = data(8)
    with pytest.raises(ValueError, match="X holds text, for instance 'Oslo'"):
        StackedRegressor(pair()).fit(np.column_stack([X[:, 0].astype(object), ["Oslo"] * 8]), y)
    model = StackedRegressor(pair()).fit(X, y)
    for size in (-1, 2.5, True):
        with pytest.raises(ValueError, match=f"n_samples must be an integer >= 0, got {size}"):
            model.sample_y(X, size)


def test_latent_functions_of_a_model_that_has_two_are_not_mixed():
    X, y = data(8)
    two = fixed("1.0 * SE(1.0)", HeteroscedasticGaussian())
    model = StackedRegressor([("two", two)]).fit(X, y)
    np.testing.assert_allclose(model.predict_dist(X).mean, model.estimators_[0].predict_dist(X).mean)
    asks = [
        lambda: model.predict_latent(X),
        lambda: model.sample_y(X, noise=False),
        lambda: model.predict(X, return_std=True, noise=False),
        lambda: model.predict(X, return_cov=True, noise=False),
    ]
    for ask in asks:
        with pytest.raises(ValueError, match="HeteroscedasticGaussian has 2 latent functions"):
            ask()


def test_several_targets_are_refused():
    X, y = data(8)
    with pytest.raises(ValueError, match="1d array"):
        StackedRegressor(pair()).fit(X, np.column_stack([y, y]))


def test_an_interrupt_in_one_member_ends_the_fit(monkeypatch):
    X, y = data(8)
    real, calls = GPRegressor.fit, []

    def pressed(self, *args):
        calls.append(1)
        found = real(self, *args)
        with suppress(KeyboardInterrupt):  # as learning does, which keeps what it has
            os.kill(os.getpid(), signal.SIGINT)
        return found

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(GPRegressor, "fit", pressed)
        with pytest.raises(KeyboardInterrupt):
            StackedRegressor(pair()).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) == 1


def test_mixtures_keep_the_kind_of_their_parts():
    """Counts have whole quantiles; normals of different models keep their digits in both tails."""
    X, y = data(12)
    counts = np.random.default_rng(0).poisson(np.exp(np.sin(3 * X[:, 0])))
    members = [
        (f"m{k}", GPRegressor(f"1.0 * SE({v})", likelihood="poisson", objective=None))
        for k, v in enumerate((0.3, 2.0))
    ]
    model = StackedRegressor(members).fit(X, counts)
    w = model.weights_ = np.array([0.4, 0.6])
    found = model.predict_dist(X)
    parts = [m.predict_dist(X) for m in model.estimators_]
    levels = np.arange(40)[:, None] * np.ones(12)
    mass = np.array([w @ [np.exp(p.log_prob(level)) for p in parts] for level in levels])
    np.testing.assert_allclose(found.quantile(0.9), np.argmax(np.cumsum(mass, axis=0) >= 0.9, axis=0))
    np.testing.assert_allclose(found.mean, w @ [p.mean for p in parts])
    normal = StackedRegressor(pair()).fit(X, y).predict_dist(X)
    high, low = normal.quantile(1 - 1e-12), normal.quantile(1e-12)
    np.testing.assert_allclose(normal.survival(high), 1e-12, rtol=1e-4)
    np.testing.assert_allclose(normal.cdf(low), 1e-12, rtol=1e-8)


def test_weights_by_evidence_are_posterior_probabilities(tmp_path):
    X, y = data()
    model = StackedRegressor(pair(), weights="evidence").fit(X, y)
    evidence = np.array(
        [stats.multivariate_normal(np.zeros(25), _covariance(X, k)).logpdf(y) for k in range(2)]
    )
    expected = np.exp(evidence - evidence.max())
    assert model.weights_ == pytest.approx(expected / expected.sum(), rel=1e-8)
    model.save(tmp_path / "m.cavity")
    assert cavity.load(tmp_path / "m.cavity").weights == "evidence"
    with pytest.raises(ValueError, match="'left-out' or 'evidence'"):
        StackedRegressor(pair(), weights="equal").fit(X, y)


def _covariance(X, k):
    length, noise = ((4.0, 0.1), (0.3, 0.02))[k]
    return np.exp(-0.5 * (X - X.T) ** 2 / length**2) + noise * np.eye(len(X))
