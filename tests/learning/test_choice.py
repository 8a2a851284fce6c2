"""Which kind of model is chosen: kinds of targets, kernels, and what is no counterexample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cavity import GP
from cavity.kernels import SE
from cavity.learning.choice.inflation import inflated, inflation
from cavity.learning.choice.kinds import Kind, kind_of, likelihood_for
from cavity.learning.choice.screening import Screen, Trial, log_density
from cavity.learning.choice.structures import Season, seen
from cavity.likelihoods import (
    Gaussian,
    IntervalWarp,
    MixtureOfGaussians,
    OrdinalProbit,
    Poisson,
    PositiveWarp,
    WarpedTarget,
)
from cavity.prediction import GaussianPrediction
from cavity.runtime.deadlines import Deadline

SEEDS = range(5)


def targets(kind: str, seed: int, n: int = 200) -> np.ndarray:
    rng = np.random.default_rng(seed)
    f = rng.standard_normal(n)
    return {
        "count": lambda: rng.poisson(np.exp(0.5 + 0.7 * f)).astype(float),
        "price": lambda: np.exp(11 + 0.5 * f),
        "percent": lambda: 100.0 / (1.0 + np.exp(-2.0 * f)),
        "share": lambda: rng.binomial(10, 1.0 / (1.0 + np.exp(-2.0 * f))) / 10.0,
        "rating": lambda: 1.0 + np.digitize(f, [-1.0, -0.3, 0.3, 1.0]),
        "real": lambda: f,
        "rain": lambda: np.maximum(f, 0.0) * 3.7,  # half of the days without
    }[kind]()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("count", Kind.COUNT),
        ("price", Kind.POSITIVE),
        ("percent", Kind.SHARE),
        ("share", Kind.SHARE),
        ("rating", Kind.FEW),
        ("real", Kind.REAL),
        ("rain", Kind.POSITIVE),
    ],
)
def test_kinds_are_read_off_the_targets(name, kind, seed):
    assert kind_of(targets(name, seed)).kind is kind


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (1000.0 + np.random.default_rng(0).standard_normal(100), Kind.REAL),  # positive, far from zero
        (np.arange(100.0) * 1.3, Kind.POSITIVE),  # percentages beyond 100
        (np.linspace(0.3, 0.6, 50), Kind.REAL),  # between 0 and 1, but nowhere near
        (
            np.array([10.0, 20, 30, 50, 80, 10, 20, 40, 120, 20, 30, 40]),
            Kind.POSITIVE,
        ),  # multiples of a scale
        (np.random.default_rng(0).poisson(5000.0, 100).astype(float), Kind.REAL),  # counts like numbers
        (np.append(np.random.default_rng(0).poisson(3.0, 100), 4000.0), Kind.COUNT),  # and an outlier
        (np.array([-1.0, 0, 1, 2] * 10), Kind.REAL),  # whole, but negative
        (np.array([1.0, 2.0, 5.0, 9.0]), Kind.REAL),  # too few rows to tell
        (np.full(50, 3.0), Kind.REAL),
    ],
    ids=["level", "beyond", "middle", "scale", "large", "outlier", "negative", "few", "constant"],
)
def test_what_only_looks_like_a_kind(y, kind):
    assert kind_of(y).kind is kind


def test_likelihoods_that_are_made_for_targets():
    zeros = likelihood_for("positive", np.array([0.0, 2.0, 4.0]))
    assert isinstance(zeros, WarpedTarget)
    assert isinstance(zeros.warp, PositiveWarp)
    assert (zeros.warp.shift, zeros.warp.center) == (1.0, 3.0)
    ends = likelihood_for("share", np.array([0.0, 20.0, 100.0]))
    assert isinstance(ends, WarpedTarget)
    assert isinstance(ends.warp, IntervalWarp)
    assert ends.warp.upper == 100.0
    assert 0 < ends.warp.squeeze <= 0.05
    grades = likelihood_for("ordinal", np.array([3.0, 4.0, 6.0, 4.0]))
    assert isinstance(grades, OrdinalProbit)
    assert (grades.lowest, grades.n_categories) == (3, 4)
    assert isinstance(likelihood_for("poisson", np.zeros(3)), Poisson)
    with pytest.raises(ValueError, match="between 0 and 1, or 0 and 100, got 120"):
        likelihood_for("share", np.array([0.0, 120.0]))
    with pytest.raises(ValueError, match="'positive', 'share', 'ordinal'"):
        likelihood_for("lognormal", np.array([1.0]))


def test_categories_may_start_anywhere():
    """The same as from zero on."""
    y, f = np.array([3.0, 4.0, 5.0]), np.array([-0.5, 0.2, 1.0])
    here, there = OrdinalProbit([-1.0, 1.0], lowest=3), OrdinalProbit([-1.0, 1.0])
    np.testing.assert_array_equal(here.log_prob(y, f), there.log_prob(y - 3, f))
    np.testing.assert_allclose(here.predictive(f, np.ones(3)).mean, 3 + there.predictive(f, np.ones(3)).mean)
    np.testing.assert_array_equal(
        here.parameter_derivatives(y, f).log_prob, there.parameter_derivatives(y - 3, f).log_prob
    )
    with pytest.raises(ValueError, match=r"categories must be 3\.\.5, got 2"):
        here.check([2.0])


def test_densities_of_whole_numbers_are_probabilities():
    from scipy.stats import norm

    prediction = GaussianPrediction(np.array([2.0, 3.0]), np.array([4.0, 1.0]))
    expected = np.log(norm.cdf([2.5, 9.5], [2, 3], [2, 1]) - norm.cdf([1.5, 8.5], [2, 3], [2, 1]))
    np.testing.assert_allclose(log_density(prediction, np.array([2.0, 9.0]), whole=True), expected, rtol=1e-6)


def test_a_season_needs_two_cycles_and_several_places_in_them():
    year = Season(0, 1.0, "year")
    monthly = np.arange(0, 3, 1 / 12)[:, None]
    assert seen([year], monthly) == [year]
    assert not seen([year], monthly[:20])
    assert not seen([year], np.arange(1990.0, 2020.0)[:, None])  # once a year


def test_rows_that_are_left_out_are_not_learned_from():
    """Folds and held-out rows partition the rows; classes have the same share in each."""
    rng = np.random.default_rng(0)
    for n in (90, 700):
        groups = (rng.uniform(size=n) < 0.2).astype(np.intp)
        screen = Screen(np.arange(n)[:, None] * 1.0, groups * 1.0, None, rng, Deadline(None), groups=groups)
        for train, test in screen._splits:
            assert not set(train) & set(test)
            shares = [screen.y[part].mean() for part in (train, test)]
            np.testing.assert_allclose(shares, groups.mean(), atol=0.05)


@pytest.mark.parametrize("n", [120, 460])
def test_gross_errors_are_far_also_among_rows_that_a_candidate_was_learned_from(n):
    """In folds every row is predicted; of many rows those that were learned from are left out one by one."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 6.0, n)
    wrong = np.arange(n) % 23 == 0
    y = np.sin(x) + 0.1 * rng.standard_normal(n) + 4.0 * wrong
    screen = Screen(x[:, None], y, None, rng, Deadline(None))
    model = GP(1.0 * SE(1.0), Gaussian(1.0), mean="constant").bind(1)
    trial = screen.run("gaussian", model)
    far = screen.far(trial)
    np.testing.assert_array_equal(np.sort(screen.X[far, 0]), np.sort(x[wrong]))
    screen.without(far)
    assert len(screen.y) == n - wrong.sum()
    assert screen.y.max() < 2.0


def test_a_far_row_does_not_decide_between_kernels():
    """The first candidate is closer to nine rows of ten, and pays for the tenth in normal tails alone."""
    rng = np.random.default_rng(0)
    r = np.abs(rng.standard_normal(50))
    there = np.append(r, 4.0)
    here = np.append(r, 9.0)
    closer = trial("closer", here, sd=0.8)
    assert np.sum(closer.density) < np.sum(trial("other", there, sd=1.0).density)
    assert closer.beats(trial("other", there, sd=1.0))
    discrete = replace(closer, gaussian=False)
    assert not discrete.beats(trial("other", there, sd=1.0))


def trial(name: str, residual: np.ndarray, sd: float) -> Trial:
    density = -0.5 * residual**2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
    return Trial(name, None, density, residual, True, (-np.inf, np.inf))  # type: ignore[arg-type]


def test_heavy_densities_are_densities():
    """They integrate to one, and a normal residual in its own sd has the highest expected log density."""
    x = np.linspace(-200, 200, 400_001)
    heavy = trial("", np.abs(x), 1.0).heavy_density
    inside = np.exp(heavy)[np.abs(x) < 37]  # beyond, normal densities are called impossible
    assert np.sum(inside) * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-4)
    z = np.linspace(-8, 8, 20_001)
    weight = np.exp(-0.5 * z**2) / np.sum(np.exp(-0.5 * z**2))
    expected = [float(weight @ trial("", np.abs(z / s), s).heavy_density) for s in (0.97, 1.0, 1.03)]
    assert np.argmax(expected) == 1


def test_inflation_leaves_means_and_scales_variances():
    from cavity import GP
    from cavity.kernels import SE, Linear

    X = np.linspace(0, 5, 20)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(20)
    model = GP(1.5 * SE(1.0) + Linear(0.3), Gaussian(0.02)).bind(1)
    wider = inflated(model, 2.5)
    assert wider is not None
    new = np.array([[0.3], [9.0]])
    here, there = model.condition(X, y).predict_y(new), wider.condition(X, y).predict_y(new)
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-8)
    np.testing.assert_allclose(there.variance, 2.5 * here.variance, rtol=1e-7)
    assert inflated(GP(1.5 * SE(1.0), Poisson()).bind(1), 2.0) is None
    mixed = inflated(GP(1.5 * SE(1.0), MixtureOfGaussians(0.1, 0.2, 7.0)).bind(1), 4.0)
    assert mixed is not None
    np.testing.assert_allclose(mixed.kernel.flat, [6.0, 1.0])
    np.testing.assert_allclose(mixed.likelihood.flat, [0.1, 0.4, 7.0])


def test_inflation_is_that_of_residuals():
    r = np.abs(np.random.default_rng(0).standard_normal(20_000))
    assert inflation(1.3 * r) == pytest.approx(1.69, rel=0.03)
    assert inflation(0.8 * r) == 1.0
    assert inflation(3.0 * r[:5]) < inflation(3.0 * r)
