"""`likelihood="auto"` and `kernel="auto"`: the right kind of model on simulated tables, and honest ends."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from cavity import GPClassifier, GPRegressor
from cavity.estimators.automatic import RobustLearning, with_outliers
from cavity.inference.base import ConvergenceWarning
from cavity.io import dumps, loads
from cavity.kernels import SE, Standardized
from cavity.learning.choice import Choice
from cavity.learning.choice.screening import Screen
from cavity.likelihoods import (
    Clipped,
    Gaussian,
    HeteroscedasticGaussian,
    IntervalWarp,
    MixtureOfGaussians,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    PositiveWarp,
    StudentT,
    WarpedTarget,
)
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import Message
from cavity.runtime.progress import Progress


def table(kind: str, seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    f, noise = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], rng.standard_normal(n)
    y = {
        "real": lambda: f + 0.1 * noise,
        "price": lambda: np.exp(11 + 0.6 * f + 0.2 * noise),
        "percent": lambda: 100 / (1 + np.exp(-(1.8 * f + 0.4 * noise))),
        "count": lambda: rng.poisson(np.exp(0.8 + 0.7 * f)).astype(float),
        "many": lambda: rng.poisson(np.exp(2.0 + 0.6 * f) * rng.gamma(1.5, 1 / 1.5, n)).astype(float),
        "rating": lambda: 1.0 + np.digitize(f + 0.4 * noise, [-1, -0.3, 0.3, 1]),
        "changing": lambda: f + 0.1 * np.exp(0.9 * X[:, 1]) * noise,
        "outliers": lambda: f + 0.1 * noise + (np.arange(n) % 25 == 7) * rng.choice([-4.0, 4.0], n),
        "heavy tails": lambda: f + 0.1 * rng.standard_t(1.5, n),
        "tails": lambda: f + 0.1 * rng.standard_t(2.0, n),
        "line": lambda: X @ [1.0, -2.0] + 0.3 * noise,
    }[kind]()
    return X, y


@cache
def chosen(name: str, seed: int) -> GPRegressor:
    """A fit that several tests look at, and none changes."""
    return GPRegressor(likelihood="auto", random_state=0).fit(*table(name, seed))


def kind(likelihood) -> type:
    return type(likelihood.warp) if isinstance(likelihood, WarpedTarget) else type(likelihood)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("real", (Gaussian,)),
        ("price", (PositiveWarp,)),
        ("percent", (IntervalWarp,)),
        ("count", (Poisson, NegativeBinomial)),
        ("many", (NegativeBinomial,)),
        ("rating", (OrdinalProbit,)),
        ("changing", (HeteroscedasticGaussian,)),
        ("line", (Gaussian,)),
    ],
)
def test_the_noise_that_made_the_targets_is_chosen(name, kinds, seed):
    model = chosen(name, seed)
    assert kind(model.likelihood_) in kinds, model.choice_
    assert isinstance(model.choice_, Choice)
    assert "likelihood" in model.choice_.render()
    assert any(one.chosen for one in model.choice_.candidates)


@pytest.mark.parametrize("seed", [0])
def test_outliers_are_found_last_and_the_kernel_is_not_bent_by_them(seed):
    """Every 25th row is off by 4, the others by 0.1: no row is between, as Student-t noise would have it."""
    X, _ = table("outliers", seed)
    model = chosen("outliers", seed)
    noise = model.likelihood_
    assert isinstance(noise, MixtureOfGaussians), model.choice_
    assert noise.fraction == pytest.approx(0.04, abs=0.03)
    assert noise.scale == pytest.approx(0.1, rel=0.3)
    assert "4" in str(model.choice_).split("Rows are either regular or, ")[1][:3]
    clean = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    assert np.sqrt(np.mean((model.posterior_.mean(X) - clean) ** 2)) < 0.1
    assert [one.name for one in model.choice_.candidates if one.chosen] == ["mixture, all rows"]


def test_heavy_tails_stay_those_of_student():
    X, y = table("heavy tails", 0, 100)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    assert isinstance(model.likelihood_, StudentT), model.choice_
    assert any(one.name == "mixture, all rows" and not one.chosen for one in model.choice_.candidates)


@pytest.mark.parametrize(("name", "noise"), [("outliers", "mixture"), ("tails", "student-t")])
def test_one_run_from_values_learned_without_outliers_is_as_good_as_a_search(name, noise):
    X, y = table(name, 3)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    assert len(model.runs_) == 1
    searched = GPRegressor(model.kernel_, likelihood=noise, n_restarts=1, random_state=0).fit(X, y)
    assert kind(model.likelihood_) is kind(searched.likelihood_)
    # the values of highest evidence, before the inflation of a mixture
    assert model.members_[0].search.value > searched.members_[0].search.value - 0.1


def test_gaussian_noise_that_is_kept_is_learned_with_the_rows_that_were_suspected(monkeypatch):
    """Rows were set aside, and Student-t noise then did not explain them better."""
    X, y = table("outliers", 0)
    monkeypatch.setattr("cavity.estimators.automatic.LEAST_GAIN", np.inf)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    assert isinstance(model.likelihood_, Gaussian)
    searched = GPRegressor(model.kernel_, random_state=0).fit(X, y)
    assert model.members_[0].search.value > searched.members_[0].search.value - 0.1
    assert "hardly more probable" in model.choice_.render()


def test_a_copy_for_other_rows_learns_from_the_values_and_checks_no_evidence(monkeypatch):
    X, y = table("outliers", 0)
    model = GPRegressor(likelihood="student-t", random_state=0).fit(X, y)
    checked = []
    monkeypatch.setattr("cavity.assessment.evidence_check.check_evidence", lambda *_: checked.append(True))
    other = model.for_other_rows().fit(X[::2], y[::2])
    assert not checked
    assert len(other.runs_) == 1
    assert len(model.rows_.y) == 2 * len(other.rows_.y)
    model.fit(X, y)
    assert checked


def test_outliers_are_no_level_of_noise():
    """Four columns, of which two matter: the first look sees few of the outliers, and a level of noise that rises at
    single rows would predict the others."""
    rng = np.random.default_rng(13_100)
    X = rng.uniform(-2.0, 2.0, (300, 4))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(300)
    y += np.where(rng.uniform(size=300) < 0.04, rng.normal(0, 4, 300), 0.0)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X[:200], y[:200])
    assert isinstance(model.likelihood_, MixtureOfGaussians), model.choice_


def test_what_others_vouch_for_is_no_outlier():
    """A group of rows far from the rest, which predict each other: a step, not errors."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(0, 8, 72), rng.uniform(8.0, 8.4, 8)])[:, None]
    y = 0.05 * rng.standard_normal(80) + 6.0 * (X[:, 0] > 8.0)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    assert model.predict([[8.2]])[0] > 4.0


@pytest.mark.parametrize(
    ("y", "low", "high"),
    [
        (lambda f, r: np.maximum(f, 0) * 5.0, 0.0, np.inf),  # prices with zeros
        (lambda f, r: np.clip(50 + 60 * f, 0, 100), 0.0, 100.0),  # percentages at both ends
        (lambda f, r: np.append(r.poisson(np.exp(f[1:])), 400.0), 0.0, np.inf),  # counts with an outlier
        (lambda f, r: np.exp(f) * (1 + 20.0 * (np.arange(len(f)) == 3)), 0.0, np.inf),  # skew and an outlier
    ],
    ids=["zeros", "ends", "count", "skew"],
)
def test_hostile_mixtures_stay_in_range(y, low, high):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    targets = y(np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60), rng)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, targets)
    ends = model.predict_dist(np.linspace(-3, 3, 50)[:, None]).quantile([0.01, 0.99])
    assert ends.min() >= low
    assert ends.max() <= high
    assert np.isfinite(model.predict(X)).all()


def test_a_given_kernel_or_noise_stays():
    X, y = table("price", 0)
    model = GPRegressor(1.0 * SE(0.7), likelihood="auto", random_state=0).fit(X, y)
    assert isinstance(model.kernel_.kernel, SE)
    assert "a logarithm of it" in str(model.choice_)
    model = GPRegressor("auto", likelihood="gaussian", random_state=0).fit(*table("real", 0))
    assert isinstance(model.likelihood_, Gaussian)
    assert any(
        isinstance(part, Standardized)
        for part in (model.kernel_, *model.kernel_.parts, *_deep(model.kernel_))
    )


def _deep(kernel) -> list:
    return [inner for part in kernel.parts for inner in (part, *_deep(part))]


def test_many_columns_do_not_overfit():
    """Of forty columns one matters; a length scale for each by evidence alone loses."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 40))
    y = X[:, 0] + 0.5 * rng.standard_normal(120)
    new = rng.standard_normal((400, 40))
    target = new[:, 0] + 0.5 * rng.standard_normal(400)

    def score(model):
        return float(np.mean(model.fit(X, y).predict_dist(new).log_prob(target)))

    chosen = score(GPRegressor(likelihood="auto", random_state=0))
    assert chosen > score(GPRegressor(n_restarts=0, random_state=0)) + 0.1


def test_a_season_is_found_if_it_is_looked_for_and_no_outlier():
    t = np.arange(60) / 12.0
    y = 10 + t + 3.0 * (np.arange(60) % 12 == 6) + 0.1 * np.random.default_rng(0).standard_normal(60)
    model = GPRegressor(likelihood="auto", seasons={0: {"year": 1.0}}, random_state=0).fit(t[:, None], y)
    assert "a season" in str(model.choice_)
    assert not isinstance(model.likelihood_, StudentT)
    assert model.predict([[5.5]])[0] > 16.5  # next July
    with pytest.raises(ValueError, match="names the column 'month', which X does not have"):
        GPRegressor(likelihood="auto", seasons={"month": 1.0}).fit(t[:, None], y)


def test_the_choice_is_stored_kept_by_a_warm_start_and_the_same_again():
    X, y = table("count", 0)
    model = chosen("count", 0)
    again = loads(dumps(model))
    assert again.choice_ == model.choice_
    assert again.inflation_ == model.inflation_
    np.testing.assert_array_equal(again.predict(X[:5]), model.predict(X[:5]))
    repeated = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    np.testing.assert_array_equal(repeated.predict(X[:5]), model.predict(X[:5]))
    before = repeated.choice_
    repeated.set_params(warm_start=True).fit(X[:100], y[:100])
    assert repeated.choice_ is before
    assert kind(repeated.likelihood_) in (Poisson, NegativeBinomial)


def test_classes_choose_a_kernel():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 15)) * np.logspace(-2, 2, 15)
    labels = np.where(X[:, 3] / X[:, 3].std() + 0.5 * rng.standard_normal(120) > 0, "a", "b")
    model = GPClassifier("auto", random_state=0).fit(X, labels)
    assert {one.name for one in model.choice_.candidates} >= {"isotropic", "relevance", "linear"}
    assert model.score(X, labels) > 0.8
    again = loads(dumps(model))
    assert again.choice_ == model.choice_
    three = GPClassifier("auto", random_state=0).fit(X[:, 3:5], np.digitize(X[:, 3], [-0.01, 0.01]))
    assert three.predict_proba(X[:4, 3:5]).shape == (4, 3)


def test_no_time_is_said_and_something_is_learned():
    X, y = table("outliers", 0)
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        model = GPRegressor(likelihood="auto", max_time=0.0, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    fitted = GPRegressor(likelihood="gaussian", n_restarts=0).fit(X, y).members_[0]
    from cavity.learning.run_choice import Learned

    learned, reasons = with_outliers(
        Learned(fitted.search, fitted.posterior),
        fitted.rows,
        Choice(Message(("x",))),
        RobustLearning(lambda *_, **__: pytest.fail("there is no time"), "auto", 1, fitted.posterior.model),
        Deadline(0.0),
    )
    assert learned.posterior is fitted.posterior
    assert str(reasons).endswith("no time was left to try Student-t noise; give more max_time.")


@pytest.mark.parametrize("likelihood", ["gaussian", "auto", "student-t"])
@pytest.mark.parametrize(("X", "y"), [([[1.0]], [5.0]), ([[1.0], [2.0], [3.0]], [5.0, 5.0, 5.0])])
def test_targets_that_do_not_vary_leave_the_prior(X, y, likelihood):
    with pytest.warns(ConvergenceWarning, match="the targets do not vary"):
        model = GPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    mean, sd = model.predict([[100.0]], return_std=True)
    assert mean[0] == pytest.approx(5.0)
    assert sd[0] >= 1.0  # of a kernel of variance one
    wider = GPRegressor(9.0 * SE(1.0), likelihood=likelihood, random_state=0)
    with pytest.warns(ConvergenceWarning, match="do not vary"):
        assert wider.fit(X, y).predict([[100.0]], return_std=True)[1][0] > 3.0


def test_several_targets_cannot_be_chosen_for():
    with pytest.raises(ValueError, match="several targets"):
        GPRegressor(likelihood="auto").fit(np.arange(5.0)[:, None], np.ones((5, 2)))


def test_clipping_is_for_what_would_leave_the_range():
    """Shares with many at both ends: a logit would stretch them without end."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.clip(0.5 + 0.6 * X[:, 0] + 0.05 * rng.standard_normal(60), 0.0, 1.0)
    model = GPRegressor(likelihood="auto", random_state=0).fit(X, y)
    assert kind(model.likelihood_) in (Clipped, IntervalWarp)
    low, high = model.predict_dist(X).interval(0.9)
    assert low.min() >= 0.0
    assert high.max() <= 1.0


def test_every_candidate_is_a_step_of_the_bar(monkeypatch):
    seen = []

    class Watched(Progress):
        def __exit__(self, *why):
            seen.append((self.label, self.done, self.total))
            super().__exit__(*why)

    monkeypatch.setattr("cavity.learning.choice.automatic.Progress", Watched)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (40, 1))
    model = GPRegressor("auto", likelihood="auto", random_state=0).fit(X, rng.poisson(np.exp(X[:, 0])))
    ((label, done, total),) = seen
    assert label == "comparing kinds of model"
    assert done == total >= len(model.choice_.candidates) > 5


@pytest.mark.parametrize(
    "estimator", [GPRegressor(likelihood="auto"), GPClassifier("auto")], ids=["numbers", "classes"]
)
def test_an_interrupt_of_the_choice_ends_learning_too(estimator, monkeypatch):
    """What is learned then is the best so far, at once, and nobody is told that time was up."""
    run, calls = Screen.run, []

    def interrupted(self, *arguments, **options):
        calls.append(True)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(self, *arguments, **options)

    monkeypatch.setattr(Screen, "run", interrupted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=30)
    with pytest.warns(ConvergenceWarning, match=r"stopped early \(interrupted\)"):
        estimator.fit(X, y if isinstance(estimator, GPRegressor) else y > 0)
    assert len(calls) == 2
    assert estimator.members_[0].interrupted
    assert sum(r.evaluations for r in estimator.runs_) <= 3


def test_dates_of_a_data_frame_bring_their_seasons():
    months = pd.date_range("2015-01-01", periods=72, freq="MS")
    t = np.arange(72)
    y = 100 + 20 * np.sin(2 * np.pi * t / 12) + t + 3 * np.random.default_rng(0).standard_normal(72)
    table = pd.DataFrame({"month": months.strftime("%Y-%m")})
    model = GPRegressor(likelihood="auto", random_state=0).fit(table, y)
    assert "a season" in model.choice_.chosen.render()
    plain = GPRegressor(likelihood="auto", seasons={}, random_state=0).fit(table, y)
    assert "a season" not in plain.choice_.chosen.render()
