"""Regions, tests and decisions against published figures, closed forms and enumeration."""

import numpy as np
import pytest
from scipy import stats

from cavity import GP
from cavity.bayes import (
    Beta,
    Mixture,
    bayes_risk,
    bayes_rule,
    best_action,
    best_actions,
    best_hypothesis,
    binomial,
    binomial_test,
    compare_models,
    dominates,
    from_scipy,
    normal,
    risk,
    simulated_p_value,
    student_t,
)
from cavity.kernels import SE
from cavity.likelihoods import Gaussian as Normal
from cavity.likelihoods import StudentT
from cavity.runtime.errors import InputError


def squared(theta, action):
    return (theta - action) ** 2


@pytest.mark.parametrize(("level", "interval"), [(0.5, (0.553456, 0.645369)), (0.95, (0.463719, 0.726552))])
def test_highest_density_of_one_mode(level, interval):
    region = Beta(31, 21).highest_density(level)
    assert region.intervals[0] == pytest.approx(interval, abs=6e-7)
    assert region.probability == pytest.approx(level, abs=1e-12)
    low, high = region.intervals[0]
    assert Beta(31, 21).log_prob(low) == pytest.approx(Beta(31, 21).log_prob(high), abs=1e-9)


def test_highest_density_of_two_modes():
    two = Mixture([normal(-2.0, 0.5), normal(2.0, 0.5)], [0.5, 0.5])
    region = two.highest_density(0.95)
    assert np.ravel(region.intervals) == pytest.approx(
        [-2.9799819786, -1.0200180006, 1.0200180006, 2.9799819786], abs=1e-9
    )
    assert np.exp(region.log_density) == pytest.approx(0.0584450729, abs=1e-9)
    assert two.quantile([0.25, 0.5, 0.9]) == pytest.approx([-2.0, 0.0, stats.norm(2, 0.5).ppf(0.8)], abs=1e-9)


def test_highest_density_touches_an_edge():
    ((low, high),) = from_scipy(stats.expon(scale=2.0)).highest_density(0.9).intervals
    assert (low, high) == pytest.approx((0.0, -2.0 * np.log(0.1)), abs=1e-9)
    ((low, high),) = Beta(1, 3).highest_density(0.5).intervals
    assert (low, high) == pytest.approx((0.0, 1.0 - 0.5 ** (1 / 3)), abs=1e-9)
    region = Beta(0.5, 0.5).highest_density(0.8)  # infinite at both edges: the middle is left out
    assert len(region.intervals) == 2
    assert (region.intervals[0][0], region.intervals[1][1]) == (0.0, 1.0)
    assert region.probability == pytest.approx(0.8, abs=1e-10)
    assert Beta(1, 1).highest_density(0.5).intervals[0] == pytest.approx((0.25, 0.75))


def test_highest_density_of_whole_numbers_holds_at_least_the_level():
    counts = binomial(10, 0.3)
    region = counts.highest_density(0.9)
    pmf = stats.binom(10, 0.3).pmf(np.arange(11))
    best = np.sort(pmf)[::-1].cumsum()
    assert region.probability == pytest.approx(best[np.argmax(best >= 0.9)], rel=1e-12)
    inside = [x for a, b in region.intervals for x in np.arange(a, b + 1)]
    assert pmf[np.array(inside, dtype=int)].min() >= np.delete(pmf, np.array(inside, dtype=int)).max()


@pytest.mark.parametrize(
    ("around", "interval"),
    [("mean", (0.464722, 0.727586)), ("median", (0.465903, 0.728888)), ("mode", (0.468231, 0.731769))],
)
def test_centered_intervals(around, interval):
    assert Beta(31, 21).centered(0.95, around) == pytest.approx(interval, abs=6e-7)


def test_a_single_value_has_no_probability():
    with pytest.raises(InputError, match="probability zero"):
        Beta(31, 21).probability(0.5, 0.5)
    assert binomial(4, 0.5).probability(2, 2) == pytest.approx(0.375)
    with pytest.raises(InputError, match="exceed"):
        Beta(31, 21).probability(0.7, 0.5)
    with pytest.raises(InputError, match="2 cases"):
        normal([0.0, 1.0], 1.0).highest_density()


def test_several_cases_at_once():
    three = student_t([3.0, 5.0, 9.0], 1.0, 2.0)
    assert three.quantile([0.1, 0.9]).shape == (2, 3)
    assert [float(case.mean) for case in three.cases()] == pytest.approx([1.0, 1.0, 1.0])
    assert three.mode == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)


@pytest.mark.parametrize(
    ("width", "first", "second"),
    [
        (0.1, 0.6386766, 0.5972000),
        (0.05, 0.6418181, 0.5993042),
        (0.01, 0.6428157, 0.5999722),
        (0.001, 0.6428567, 0.5999997),
    ],
)
def test_relaxed_zero_one_loss(width, first, second):
    assert Beta(10, 6).decide("zero-one", width) == pytest.approx(first, abs=6e-8)
    assert Beta(31, 21).decide("zero-one", width) == pytest.approx(second, abs=6e-8)


def test_best_actions():
    coin = Beta(10, 6)
    assert best_action(coin) == pytest.approx((0.625, 0.0137868), abs=6e-8)
    assert best_action(coin, "absolute") == pytest.approx((0.6303295, 0.0948485), abs=6e-8)
    assert best_action(coin, squared) == pytest.approx((0.625, float(coin.variance)), abs=1e-8)
    nine = best_action(coin, lambda t, a: np.where(t > a, 9 * (t - a), a - t))
    assert nine.action == pytest.approx(float(coin.quantile(0.9)), abs=1e-6)
    assert coin.decide("zero-one") == pytest.approx(9 / 14)
    with pytest.raises(InputError, match="squared, absolute"):
        coin.decide("cubic")
    heavy = best_action(student_t(3.0), lambda t, a: np.abs(t - a))
    assert heavy.expected_loss == pytest.approx(stats.t(3).expect(np.abs), rel=1e-6)


def test_risks_of_two_estimators():
    def mean(x):
        return x / 50

    def shrunk(x):
        return (x + 1) / 52

    def coin(theta):
        return binomial(50, theta)

    for theta, first, second in (
        (0.1, 0.0018, 0.00190089),
        (0.3, 0.0042, 0.00394231),
        (0.5, 0.005, 0.00462278),
    ):
        assert risk(mean, coin, theta, squared) == pytest.approx(first, abs=6e-9)
        assert risk(shrunk, coin, theta, squared) == pytest.approx(second, abs=6e-9)
    assert bayes_risk(mean, coin, Beta(1, 1), squared) == pytest.approx(1 / 300, abs=1e-9)
    assert bayes_risk(shrunk, coin, Beta(1, 1), squared) == pytest.approx(1 / 312, abs=1e-9)
    grid = np.linspace(0.05, 0.95, 19)
    risks = [[risk(rule, coin, t, squared) for t in grid] for rule in (mean, shrunk)]
    assert not dominates(*risks)
    assert not dominates(*risks[::-1])
    assert dominates([1.0, 1.0], [1.0, 2.0])


def test_two_answers_about_a_coin():
    found = binomial_test(115, 200, within=0.1)
    assert found.one_sided == pytest.approx(0.0200185958, abs=1e-10)
    assert found.two_sided == pytest.approx(0.0400371916, abs=1e-10)
    assert found.accepted == (86, 114)
    assert found.rejected
    assert found.bayes_factor == pytest.approx(1.1971343, abs=6e-8)
    assert found.null_probability == pytest.approx(0.5448617, abs=6e-8)
    other = binomial_test(30, 50, within=0.1)
    assert (other.one_sided, other.two_sided) == pytest.approx((0.1013194, 0.2026388), abs=6e-8)
    assert other.accepted == (18, 32)
    assert other.probability == pytest.approx(0.513043, abs=6e-7)
    assert other.bayes_factor == pytest.approx(2.1348166, abs=6e-8)
    assert other.below == pytest.approx(0.0803898, abs=6e-8)
    assert "not rejected" in str(other)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((5, 4), "at most the 4 trials"),
        ((1, 4, 1.5), "strictly between"),
        ((-1, 4), "whole numbers"),
        ((0, 0), "there are no data"),
    ],
)
def test_bad_tests(arguments, words):
    with pytest.raises(InputError, match=words):
        binomial_test(*arguments)
    with pytest.raises(InputError, match="posterior probability zero"):
        binomial_test(3, 10, within=0.0)


def test_a_simulated_p_value_agrees_with_the_exact_one():
    p, error = simulated_p_value(lambda x: x, lambda rng: rng.binomial(50, 0.5), 30, size=4000, rng=0)
    assert abs(p - 0.1013194) < 4 * error


def test_models_by_evidence():
    fair, any_coin = stats.binom(200, 0.5).logpmf(115), float(Beta(1, 1).log_evidence(115, 85))
    found = compare_models({"any": any_coin, "fair": fair})
    assert found.names == ("fair", "any")
    assert np.exp(found.log_bayes_factor("fair", "any")) == pytest.approx(1.1971343, abs=6e-8)
    next_head = found.weights["fair"] * 0.5 + found.weights["any"] * 116 / 202
    assert next_head == pytest.approx(0.5337974, abs=6e-8)
    with pytest.raises(InputError, match="improper"):
        compare_models({"a": np.nan, "b": 1.0})
    assert compare_models({"a": 0.0, "b": 0.0}, {"a": 3.0, "b": 1.0}).probability == pytest.approx(
        [0.75, 0.25]
    )


def test_finitely_many_cases():
    assert bayes_rule([1 / 6] * 6, [4 / 6, 3 / 6, 2 / 6, 1 / 6, 0, 0]) == pytest.approx(
        [0.4, 0.3, 0.2, 0.1, 0, 0]
    )
    with pytest.raises(InputError, match="contradict"):
        bayes_rule([0.5, 0.5], [0.0, 0.0])
    with pytest.raises(InputError, match="add up to one"):
        bayes_rule([0.5, 0.6], [1.0, 1.0])


def test_no_action_has_a_finite_squared_loss_under_a_cauchy_density():
    cauchy = from_scipy(stats.cauchy())
    with pytest.raises(InputError, match="no variance"):
        best_action(cauchy)
    assert best_action(cauchy, "zero-one").action == pytest.approx(0.0, abs=1e-6)


def test_decisions_for_rows_of_a_regression():
    """Asymmetric linear loss asks for a quantile, squared loss for the mean, whatever the noise."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 5, (40, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    for noise in (Normal(0.01), StudentT(0.1, 4.0)):
        p = GP(1.0 * SE(1.0), noise).condition(X, y).predict_y([[1.0], [3.0], [9.0]])

        def dear(value, action):
            return np.where(value > action, 3.0 * (value - action), action - value)

        assert np.abs(best_actions(p, dear) - p.quantile(0.75)).max() < 2e-3 * p.sd.max()
        squared = best_actions(p, lambda value, action: (value - action) ** 2)
        assert np.abs(squared - p.mean).max() < 1e-3 * p.sd.max()


def test_hypotheses_are_chosen_by_expected_loss():
    p = np.array([0.7, 0.2, 0.1])
    assert best_hypothesis(p) == (0, pytest.approx(0.3))
    loss = np.array([[0.0, 1.0, 1.0, 0.25], [1.0, 0.0, 1.0, 0.25], [9.0, 9.0, 0.0, 0.25]])
    expected = [0.2 + 0.9, 0.7 + 0.9, 0.9, 0.25]  # by hand; the last puts the decision off
    assert best_hypothesis(p, loss) == (3, pytest.approx(min(expected)))
    assert best_hypothesis(p, loss[:, :3]) == (2, pytest.approx(0.9))
    with pytest.raises(InputError, match="add up to one"):
        best_hypothesis([0.7, 0.7])
    with pytest.raises(InputError, match=r"shape \(3, actions\)"):
        best_hypothesis(p, np.eye(2))
