"""Forecasts, components and anomalies of series whose truth is known."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm, norm
from sklearn.base import clone

import cavity
from cavity import GP, GPForecaster
from cavity.forecasting import fit_many
from cavity.forecasting.components import components
from cavity.forecasting.members import PER_WINDOW, STAYS, fit_member, held_out_scores, mixed_weights, spikes
from cavity.forecasting.scales import LOG, Rescaled, Scale
from cavity.likelihoods import Gaussian
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import InputError

N, AHEAD = 96, 12
MONTHS = pd.date_range("2010-01-01", periods=N + AHEAD, freq="MS")
STEPS = np.arange(N + AHEAD)
LINE = 50.0 + 0.4 * STEPS
WAVE = 5.0 * np.sin(2 * np.pi * STEPS / 12) + 2.0 * np.cos(4 * np.pi * STEPS / 12)
NOISE = 0.5 * np.random.default_rng(0).standard_normal(N + AHEAD)
ONE = {"trend": "slope", "link": "identity"}
"""One model: quick, and every answer is that of one Gaussian process."""


def series(change: float = 0.0, place: int = 40) -> pd.Series:
    y = pd.Series(LINE + WAVE + NOISE, MONTHS, name="sales")[:N].copy()
    y.iloc[place] += change
    return y


@pytest.fixture(scope="module")
def plain() -> GPForecaster:
    return GPForecaster(**ONE).fit(series())


@pytest.fixture(scope="module")
def averaged() -> GPForecaster:
    return GPForecaster().fit(series())


def test_line_and_season_go_on(averaged: GPForecaster) -> None:
    frame = averaged.forecast(AHEAD)
    assert frame.index.equals(MONTHS[N:])
    assert averaged.seasons_ == {"year": 12.0}
    truth = (LINE + WAVE)[N:]
    assert np.sqrt(np.mean((frame["median"] - truth) ** 2)) < 1.0
    inside = (frame["lower"] < LINE[N:] + WAVE[N:] + NOISE[N:]) & (
        frame["upper"] > LINE[N:] + WAVE[N:] + NOISE[N:]
    )
    assert inside.mean() >= 0.9
    assert (frame["upper"] - frame["lower"]).median() < 10.0
    assert sum(member.weight for member in averaged.members_) == pytest.approx(1.0)


def test_one_gross_error_changes_little_and_is_named(plain: GPForecaster) -> None:
    wrong = GPForecaster(**ONE).fit(series(60.0))
    before, after = plain.forecast(AHEAD), wrong.forecast(AHEAD)
    assert np.abs(after["median"] - before["median"]).max() < 0.5
    found = wrong.anomalies(0.9)
    assert found.index.tolist() == [MONTHS[40]]
    assert found["expected"].iloc[0] == pytest.approx(LINE[40] + WAVE[40], abs=1.5)
    assert plain.anomalies(0.9).empty


def test_spikes_are_told_from_steps_and_slopes() -> None:
    t = np.arange(60.0)
    z = 2.0 * t + 30.0 * (t > 50) + 20.0 * np.sin(np.pi * t / 6)
    z[[20, 45]] += [25.0, -25.0]
    assert np.flatnonzero(spikes(z, 12)).tolist() == [20, 45]
    assert not spikes(z[:40], 12).any()  # too short to tell


def test_a_trend_that_changes_more_than_expected_is_learned() -> None:
    """Half of the changes are tiny and the others large: the unit of the scale is far below what is to be learned."""
    rng = np.random.default_rng(2)
    y = np.where(rng.random(150) < 0.5, 0.1, 4.0) * rng.standard_normal(150)
    t, y = np.arange(150.0), y.cumsum()
    damped, level = (fit_member(trend, "identity", "student-t", t, y, []) for trend in ("damped", "level"))
    assert damped.posterior.log_evidence > level.posterior.log_evidence - 3.0


def test_missing_and_repeated_values(plain: GPForecaster) -> None:
    y = series()
    y.iloc[[3, 50, 51]] = np.nan
    twice = pd.concat([y, y.iloc[[60, 61]] + 0.3]).sample(frac=1.0, random_state=0)
    model = GPForecaster(**ONE).fit(twice)
    assert len(model.y_) == N - 3 + 2
    assert model.y_.index.is_monotonic_increasing
    assert np.abs(model.forecast(6)["median"] - plain.forecast(6)["median"]).max() < 1.0


def parts_of(member):
    """The kernel of each component: terms of the same name are added."""
    found = {}
    for name, term in zip(member.names, member.posterior.model.kernel.terms):
        shown = "short term" if name in ("short", "cycle") else name
        found[shown] = found[shown] + term if shown in found else term
    return found


def test_components_add_up_and_match_dense_matrices(plain: GPForecaster) -> None:
    """Against the representation by matrices, which computes each term from its own covariance."""
    member = plain.members_[0]
    model = member.posterior.model
    t, z = member.posterior.data.X, member.posterior.data.y
    sites = member.posterior.approximation.sites
    # the same Gaussian: pseudo-observations nu / tau with variance 1 / tau stand for sites of positive precision
    good = sites.precision > 1e-6
    new = np.array([[5.5], [100.0]])
    gaussian = GP(model.kernel, Gaussian(0.3))
    dense = gaussian.condition(t, z)
    markov = GP(model.kernel, Gaussian(0.3), representation="markov").condition(t, z)
    again = type(member)(member.trend, member.scale, member.names, markov)
    computed = components(again, new[:, 0])
    for name, part in parts_of(again).items():
        found = computed[name]
        np.testing.assert_allclose(found.mean, dense.process.component_mean(part, new), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            found.var, dense.process.component_variance(part, new), rtol=1e-5, atol=1e-5, err_msg=name
        )
    assert good.any()
    parts = plain.components()
    terms = [name for name in dict.fromkeys(parts.columns.get_level_values(0)) if name != "slope"]
    total = sum(parts[name]["mean"] for name in terms)
    fitted = member.scale.from_model(member.posterior.mean(t))
    np.testing.assert_allclose(total, fitted, rtol=1e-8)


def test_slope_of_a_line(plain: GPForecaster) -> None:
    found = plain.components()["slope"].iloc[10:-10]
    assert np.median(found["mean"]) == pytest.approx(0.4, abs=0.05)
    assert ((found["lower"] < 0.4) & (found["upper"] > 0.4)).mean() > 0.9


def test_slopes_match_dense_matrices(plain: GPForecaster) -> None:
    """Of irregular and repeated times, asked for in any order: differences by the covariance of the trend itself."""
    member = plain.members_[0]
    t = np.array([3.0, 20.2, 0.0, 83.0, 20.2, 100.0])
    rows = np.arange(0.0, 84.0)[[*range(80), 40, 41]][:, None]
    z = np.sin(rows[:, 0]) + 0.1 * rows[:, 0]
    kernel, noise = member.posterior.model.kernel, 0.3
    markov = GP(kernel, Gaussian(noise), representation="markov").condition(rows, z)
    found = components(type(member)(member.trend, member.scale, member.names, markov), t)["slope"]
    part = parts_of(member)["trend"]
    R = np.linalg.inv(kernel(rows) + noise * np.eye(len(rows)))
    ends = np.concatenate([t + 0.5, t - 0.5])[:, None]
    difference = np.hstack([np.eye(len(t)), -np.eye(len(t))])
    cross = difference @ part(ends, rows)
    mean = markov.process.prior.mean_function(rows) if markov.process.prior.mean_function else 0.0
    np.testing.assert_allclose(found.mean, cross @ R @ (z - mean), rtol=1e-6, atol=1e-8)
    var = np.diag(difference @ part(ends) @ difference.T - cross @ R @ cross.T)
    np.testing.assert_allclose(found.var, var, rtol=1e-5, atol=1e-8)


def test_season_is_recovered(plain: GPForecaster) -> None:
    found = plain.components(AHEAD)["year"]
    assert np.abs(found["mean"] - WAVE).max() < 1.0


def test_update_is_conditioning_on_all(plain: GPForecaster) -> None:
    half = GPForecaster(**ONE).fit(series()[: N - 6])
    member = half.members_[0]
    half.update(series()[N - 6 :])
    expected = member.given(STEPS[:N].astype(float), series().to_numpy())
    new = half.forecast(4)["median"]
    np.testing.assert_allclose(new, expected.prediction(STEPS[N : N + 4].astype(float), clean=True).median)
    assert new.index[0] == MONTHS[N]


def test_numbers_as_times_and_an_array_alone() -> None:
    t = 10.0 + 0.25 * STEPS[:N]
    model = GPForecaster(**ONE).fit(t, (LINE + WAVE + NOISE)[:N])
    assert list(model.seasons_.values()) == [12.0]
    assert list(model.seasons_) == ["3"]  # in the units of the times
    np.testing.assert_allclose(model.forecast(2).index, [t[-1] + 0.25, t[-1] + 0.5])
    bare = GPForecaster([], **ONE).fit(np.arange(20.0))
    assert bare.forecast(1)["median"].iloc[0] == pytest.approx(20.0, abs=0.5)


def test_names_of_sktime(plain: GPForecaster) -> None:
    frame = plain.predict_interval(fh=3, coverage=[0.5, 0.9])
    assert list(frame.columns) == [("sales", c, side) for c in (0.5, 0.9) for side in ("lower", "upper")]
    assert plain.predict(fh=3).name == "sales"
    wide, narrow = frame["sales"][0.9], frame["sales"][0.5]
    assert (wide["lower"] < narrow["lower"]).all()
    np.testing.assert_allclose(plain.forecast(3, 0.9)["upper"], wide["upper"])
    some = plain.predict(fh=[1, 3])
    assert some.index.equals(MONTHS[[N, N + 2]])
    np.testing.assert_allclose(some, plain.predict(fh=3).iloc[[0, 2]])
    with pytest.raises(InputError, match=r"horizon must be at least one step, got \[0, 2\]"):
        plain.predict(fh=[0, 2])


def test_a_last_date_and_dates_of_ones_own(plain: GPForecaster) -> None:
    assert plain.forecast("2018-03-15").index.equals(MONTHS[N : N + 3])
    chosen = plain.forecast(MONTHS[[N + 1, N + 4]])
    np.testing.assert_allclose(chosen["median"], plain.forecast(5)["median"].iloc[[1, 4]])


def test_backtest(plain: GPForecaster) -> None:
    again = plain.backtest(3, 6, refit=True)
    fixed = plain.backtest(3, 6, refit=False)
    assert list(again.columns) == ["origin", "ahead", "actual", "median", "lower", "upper", "inside"]
    assert len(again) == 18
    assert (again.index > pd.DatetimeIndex(again["origin"])).all()
    known = plain.y_[: again["origin"].iloc[0]]
    alone = clone(plain).fit(known).forecast(6)["median"]
    np.testing.assert_allclose(again["median"].iloc[:6], alone)
    assert np.abs(fixed["median"] - again["median"]).max() < 2.0
    assert again["inside"].mean() > 0.8
    assert plain.backtest(["2014-06-30"], 2, refit=False)["origin"].iloc[0] == pd.Timestamp("2014-06-01")


def test_growth_is_multiplied() -> None:
    rng = np.random.default_rng(1)
    y = np.exp(
        3.0 + 0.02 * STEPS[:72] + 0.3 * np.sin(2 * np.pi * STEPS[:72] / 12) + 0.03 * rng.standard_normal(72)
    )
    model = GPForecaster(trend="slope").fit(pd.Series(y, MONTHS[:72]))
    assert model.members_[0].scale.link == "log"
    truth = np.exp(3.0 + 0.02 * STEPS[72:84] + 0.3 * np.sin(2 * np.pi * STEPS[72:84] / 12))
    frame = model.forecast(12)
    assert (np.abs(np.log(frame["median"] / truth)) < 0.1).all()
    assert (frame["lower"] > 0).all()
    parts = model.components()
    assert parts["slope"]["mean"].median() == pytest.approx(np.expm1(0.02), abs=0.004)
    assert parts["year"]["mean"].between(0.6, 1.6).all()  # factors


def test_counts_have_whole_quantiles() -> None:
    rng = np.random.default_rng(2)
    y = rng.poisson(np.exp(0.7 + 0.8 * np.sin(2 * np.pi * STEPS[:96] / 12)))
    model = GPForecaster(trend="level").fit(pd.Series(y, MONTHS[:96]))
    assert [member.counts for member in model.members_] == [True]
    frame = model.forecast(6)
    assert (frame == frame.round()).all().all()
    assert (frame["lower"] >= 0).all()


def test_many_series(plain: GPForecaster) -> None:
    frame = pd.DataFrame({"a": series(), "b": -series()})
    frame.loc[MONTHS[:20], "b"] = np.nan
    with joblib.parallel_config(backend="threading"):
        models = fit_many(frame, GPForecaster(**ONE), n_jobs=2)
    assert len(models) == 2
    np.testing.assert_allclose(models.forecast(3).loc["a", "median"], plain.forecast(3)["median"])
    assert len(models["b"].y_) == N - 20
    assert set(models.anomalies().index.get_level_values("series")) == {"a", "b"}
    frame["c"] = np.nan
    with pytest.raises(InputError, match="series 'c': y is too short: all values are missing"):
        fit_many(frame[["c"]])


def test_many_series_on_a_dask_cluster(plain: GPForecaster) -> None:
    distributed = pytest.importorskip("distributed")
    frame = pd.DataFrame({"a": series(), "b": 2 * series()})
    with (
        distributed.LocalCluster(1, processes=False, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local),
        joblib.parallel_config(backend="dask"),
    ):
        models = fit_many(frame, GPForecaster(**ONE))
    np.testing.assert_allclose(models.forecast(3).loc["a", "median"], plain.forecast(3)["median"])


def test_counts_have_few_anomalies() -> None:
    """Half of all counts lie outside the central half; gross errors are values that so many counts would not have."""
    rng = np.random.default_rng(4)
    y = pd.Series(rng.poisson(4.0, 80).astype(float), MONTHS[:80])
    y.iloc[50] = 60
    found = GPForecaster([], trend="level", likelihood="poisson").fit(y).anomalies(0.5)
    assert found.index.tolist() == [MONTHS[50]]


@pytest.mark.parametrize("kind", ["dates", "periods", "zone", "numbers"])
def test_files_repeat_forecasts(kind: str, tmp_path: object) -> None:
    y = series()[:30]
    if kind == "periods":
        y.index = y.index.to_period("M")
    elif kind == "zone":
        y.index = y.index.tz_localize("Europe/Paris")
    elif kind == "numbers":
        y.index = pd.Index(np.arange(30.0))
    model = GPForecaster([], trend="level", link="identity").fit(y)
    path = f"{tmp_path}/model.cavity"
    model.save(path)
    loaded = cavity.load(path)
    pd.testing.assert_frame_equal(loaded.forecast(4), model.forecast(4))
    pd.testing.assert_series_equal(loaded.y_, model.y_, check_freq=False)
    assert loaded.get_params() == model.get_params()
    pd.testing.assert_frame_equal(loaded.components(2), model.components(2), check_freq=False)


# --- parts ------------------------------------------------------------------------------------------------------


def test_a_log_scale_is_a_lognormal() -> None:
    scale = Scale(LOG, 1.0, 0.5)
    prediction = Rescaled(GaussianPrediction(np.array([0.3]), np.array([0.8])), scale)
    truth = lognorm(s=0.5 * np.sqrt(0.8), scale=np.exp(1.0 + 0.5 * 0.3))
    np.testing.assert_allclose(prediction.quantile([0.1, 0.9])[:, 0], truth.ppf([0.1, 0.9]))
    np.testing.assert_allclose(prediction.log_prob([2.0]), truth.logpdf(2.0))
    np.testing.assert_allclose(prediction.cdf([2.0]), truth.cdf(2.0))
    np.testing.assert_allclose(prediction.mean, truth.mean())
    np.testing.assert_allclose(prediction.variance, truth.var())
    assert prediction.log_prob([-1.0])[0] == -np.inf
    assert prediction.cdf([-1.0])[0] == 0


def test_weights_follow_densities_and_stay_with_the_prior() -> None:
    y = np.random.default_rng(0).standard_normal(64)
    density = np.column_stack([norm.logpdf(y), norm.logpdf(y, 3.0), norm.logpdf(y)])
    scores = held_out_scores(density, 128, 8)
    assert scores[0] - scores[1] == pytest.approx(PER_WINDOW * 8 * np.mean(density[:, 0] - density[:, 1]))
    w = mixed_weights(scores, np.array([2.0, 1.0, 1.0]))
    assert w.sum() == pytest.approx(1.0)
    assert w[0] == pytest.approx(2 * w[2])
    assert w[1] == pytest.approx(STAYS / 4, abs=1e-3)


def test_the_evidence_alone_would_be_overconfident() -> None:
    """A random walk that happens to look like a line must not be forecast as one."""
    rng = np.random.default_rng(5)
    inside, count = 0, 0
    for _ in range(4):
        walk = rng.standard_normal(60).cumsum()
        frame = GPForecaster([], trend=["slope", "level"], link="identity").fit(walk[:48]).forecast(12)
        inside += int(((frame["lower"] <= walk[48:]) & (walk[48:] <= frame["upper"])).sum())
        count += 12
    assert inside / count > 0.8


# --- bad input ----------------------------------------------------------------------------------------------


def bad(match: str, y: object = None, **options: object) -> None:
    with pytest.raises(InputError, match=match):
        GPForecaster(**options).fit(series() if y is None else y)


def test_values_that_cannot_be_used() -> None:
    infinite = series()
    infinite.iloc[7] = np.inf
    bad("y has the value inf for 2010-08-01.* at row 7; use nan", infinite)
    bad("y is too short: all values are missing", pd.Series(np.nan, MONTHS))
    bad("y is too short: there are 2 values, and 4 or more", series()[:2])
    bad("y must be numbers", pd.Series(["a", "b", "c", "d"], MONTHS[:4]))
    bad("fit_many", series().to_frame())
    with pytest.raises(InputError, match="y has 3 values for 2 times"):
        GPForecaster().fit([1.0, 2.0], [1.0, 2.0, 3.0])


def test_seasons_that_cannot_be_had() -> None:
    bad(
        "seasons has 'year', a season of 12 steps, of which the series has 1.7 cycles, and two",
        series()[:20],
        seasons=["year"],
    )
    bad("seasons has 'week', which times of this kind cannot show", seasons=["week"])
    bad("seasons must be 'auto' or a list of 'day', 'week', 'year' and numbers, got 'tide'", seasons="tide")


def test_options_that_cannot_be() -> None:
    bad("trend must be some of .*got 'steep'", trend="steep")
    bad("link must be 'auto', 'identity' or 'log', got 'root'", link="root")
    bad("link 'log' needs positive values, but the smallest is", -series(), link="log")
    bad("horizon must be an integer >= 1, got 0", horizon=0)


def test_horizons_that_cannot_be(plain: GPForecaster) -> None:
    for horizon in ("2017-12-01", "1999", MONTHS[[N, 3]]):
        with pytest.raises(
            InputError, match=r"horizon has .*not after the last time of the series, 2017-12-01"
        ):
            plain.forecast(horizon)
    for ask in (
        lambda: plain.forecast(0),
        lambda: plain.forecast(3, coverage=1.5),
        lambda: plain.forecast(12.5),
        lambda: plain.backtest(0),
        lambda: plain.backtest(["1999-01-01"]),
        lambda: plain.forecast(pd.DatetimeIndex(["2030-01-01"], tz="UTC")),
    ):
        with pytest.raises(InputError):
            ask()
    with pytest.raises(InputError, match="must be positive, as all values before"):
        GPForecaster([], trend="level", link="log").fit(series()).update(pd.Series([-1.0], MONTHS[[N]]))


def test_a_far_gross_error_is_drawn_at_the_edge() -> None:
    import matplotlib

    matplotlib.use("Agg")
    y = series()
    y.iloc[20] = 1e4
    axis = GPForecaster([], trend="level", link="identity").fit(y).plot(6)
    assert axis.get_ylim()[1] < 1e3
    assert [text.get_text() for text in axis.texts] == ["1e+04"]
