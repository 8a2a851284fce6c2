"""Conjugate families against closed forms, quadrature and chain-rule sums of predictive probabilities."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from cavity.bayes import (
    Beta,
    Dirichlet,
    Gamma,
    GridPosterior,
    ImproperPriorError,
    NormalInverseGamma,
    NormalInverseWishart,
    binomial,
    compare_models,
    jeffreys,
    maximum_entropy,
    maximum_entropy_weights,
    normal,
    student_t,
)
from cavity.runtime.errors import InputError

X = np.column_stack([np.ones(4), np.arange(4.0)])
Y = np.array([1.0, 3.0, 2.0, 5.0])


def test_a_coin():
    posterior = Beta(3, 5).update(7, 1)
    assert (posterior.a, posterior.b) == (10, 6)
    assert posterior.mean == pytest.approx(0.625, rel=1e-14)
    assert posterior.median == pytest.approx(0.6303295487, abs=1e-10)
    assert posterior.mode == pytest.approx(9 / 14, rel=1e-14)
    assert posterior.sd == pytest.approx(0.1174170546, abs=1e-10)
    assert posterior.probability(high=0.5) == pytest.approx(0.15087890625, abs=1e-13)
    assert np.exp(Beta(3, 5).log_evidence(7, 1)) == pytest.approx(4 / 143, rel=1e-13)
    assert posterior.predictive().mean == pytest.approx(0.625)


@pytest.mark.parametrize(
    ("epsilon", "probability"),
    [(0.01, 0.042838), (0.05, 0.229239), (0.1, 0.513043), (0.2, 0.941119), (0.25, 0.991823), (0.3, 0.999557)],
)
def test_probability_of_near_fairness(epsilon, probability):
    assert Beta(31, 21).probability(0.5 - epsilon, 0.5 + epsilon) == pytest.approx(probability, abs=6e-7)


def test_evidence_is_the_product_of_sequential_predictions():
    rng = np.random.default_rng(0)
    belief, total = Beta(0.7, 2.0), 0.0
    tosses = rng.integers(0, 2, 12)
    for toss in tosses:
        total += float(belief.predictive().log_prob(toss))
        belief = belief.update(toss, 1 - toss)
    heads = int(tosses.sum())
    assert Beta(0.7, 2.0).log_evidence(heads, 12 - heads, ordered=True) == pytest.approx(total, rel=1e-12)
    rate, total = Gamma(2.0, 1.0), 0.0
    for count in (3, 5, 2):
        total += float(rate.predictive().log_prob(count))
        rate = rate.update([count])
    assert Gamma(2, 1).log_evidence([3, 5, 2]) == pytest.approx(total, rel=1e-12)
    assert total == pytest.approx(-6.4056228801, abs=1e-9)
    waits, prior, total = [0.3, 1.2, 0.1], Gamma(2.0, 1.5), 0.0
    rate = prior
    for wait in waits:
        total += float(rate.predictive("exponential").log_prob(wait))
        rate = rate.update([wait], "exponential")
    assert prior.log_evidence(waits, "exponential") == pytest.approx(total, rel=1e-12)


def test_counts():
    posterior = Gamma(2, 1).update([3, 5, 2])
    assert (posterior.shape, posterior.rate) == (12, 4)
    assert np.exp(posterior.predictive().log_prob(4)) == pytest.approx(0.1500833372, abs=1e-10)
    exposure = np.array([1.0, 2.0, 0.5])

    def joint(rate):
        return stats.gamma(2, scale=1).pdf(rate) * np.prod(stats.poisson(rate * exposure).pmf([3, 5, 2]))

    assert np.exp(Gamma(2, 1).log_evidence([3, 5, 2], exposure=exposure)) == pytest.approx(
        quad(joint, 0, 60)[0], rel=1e-7
    )


def test_categories():
    prior = Dirichlet([1.0, 1.0, 1.0])
    assert prior.log_evidence([3, 5, 2]) == pytest.approx(-12.0216689225, abs=1e-9)
    ways = stats.multinomial(10, [1 / 3] * 3).logpmf([3, 5, 2]) - 10 * np.log(1 / 3)
    assert prior.log_evidence([3, 5, 2], ordered=False) == pytest.approx(-12.0216689225 + ways, abs=1e-9)
    posterior = prior.update([3, 5, 2])
    draws = posterior.sample(40_000, rng=0)
    assert np.all(np.abs(draws.mean(axis=0) - posterior.mean) < 4 * np.sqrt(posterior.variance / 40_000))
    assert posterior.marginal(1).mean == pytest.approx(6 / 13)
    assert posterior.log_prob([0.2, 0.5, 0.3]) == pytest.approx(
        stats.dirichlet([4, 6, 3]).logpdf([0.2, 0.5, 0.3])
    )


def test_linear_regression_with_unknown_noise():
    prior = NormalInverseGamma(np.zeros(2), np.eye(2) / 16, 2, 1)
    posterior = prior.update(X, Y)
    assert posterior.mean == pytest.approx([1.0737659456, 1.1063043076], abs=1e-9)
    assert (posterior.a, posterior.b) == (4, pytest.approx(2.4249399150, abs=1e-9))
    assert prior.log_evidence(X, Y) == pytest.approx(-9.7251314065, abs=1e-9)
    new = posterior.predictive([[1.0, 4.0]])
    assert new.mean == pytest.approx([5.4989831762], abs=1e-9)
    low, high = new.interval(0.95)
    assert (low[0], high[0]) == pytest.approx((2.6770835083, 8.3208828441), abs=1e-8)
    together = prior.update(X[:2], Y[:2]).update(X[2:], Y[2:])
    assert (together.mean, together.b) == (pytest.approx(posterior.mean), pytest.approx(posterior.b))
    in_turn = prior.log_evidence(X[:2], Y[:2]) + prior.update(X[:2], Y[:2]).log_evidence(X[2:], Y[2:])
    assert in_turn == pytest.approx(prior.log_evidence(X, Y), rel=1e-12)


def test_jeffreys_prior_of_a_mean_gives_students_interval():
    data = np.array([2.1, 1.7, 3.0, 2.4, 2.2, 1.1])
    posterior = jeffreys("normal").update(np.ones((6, 1)), data)
    low, high = posterior.weight(0).interval(0.95)
    expected = stats.ttest_1samp(data, 0.0).confidence_interval(0.95)
    assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    variance = posterior.noise_variance.interval(0.9)
    scaled = ((data - data.mean()) ** 2).sum() / stats.chi2(5).ppf([0.95, 0.05])
    assert variance == pytest.approx(tuple(scaled), rel=1e-10)


def test_vectors_against_sequential_predictions():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((5, 2)) @ [[1.0, 0.4], [0.0, 0.7]]
    belief = NormalInverseWishart([0.2, -0.1], 0.8, 3.5, [[1.0, 0.2], [0.2, 2.0]])
    total, after = 0.0, belief
    for row in rows:
        total += float(after.predictive().logpdf(row))
        after = after.update(row[None])
    assert belief.log_evidence(rows) == pytest.approx(total, rel=1e-12)
    assert after.mean == pytest.approx(belief.update(rows).mean)
    assert after.scale == pytest.approx(belief.update(rows).scale)


def test_jeffreys_of_a_coin():
    posterior = jeffreys("binomial").update(30, 20)
    assert posterior.probability(0.4, 0.6) == pytest.approx(0.5017049301, abs=1e-10)
    ((low, high),) = posterior.highest_density(0.95).intervals
    assert (low, high) == pytest.approx((0.4644266549, 0.7295351116), abs=1e-8)


@pytest.mark.parametrize(
    "prior", [jeffreys("poisson"), jeffreys("exponential"), Beta(0, 0), Dirichlet([0.0, 1.0])]
)
def test_an_improper_prior_has_no_evidence(prior):
    data = {"Gamma": ([1, 2],), "Beta": (1, 2), "Dirichlet": ([1, 2],)}[type(prior).__name__]
    with pytest.raises(ImproperPriorError, match="cannot be normalized"):
        prior.log_evidence(*data)


def test_an_improper_prior_has_no_mean_but_an_update():
    with pytest.raises(ImproperPriorError):
        _ = Beta(0, 0).mean
    assert Beta(0, 0).update(3, 1).mean == pytest.approx(0.75)
    with pytest.raises(ImproperPriorError):
        jeffreys("normal", 2).log_evidence(X, Y)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Beta(1, 1).update(-1, 2),
        lambda: Beta(1, 1).update(1.5, 2),
        lambda: Gamma(1, 1).update([1, np.nan]),
    ],
)
def test_counts_are_whole_and_not_negative(bad):
    with pytest.raises(InputError, match="whole numbers >= 0"):
        bad()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: Beta(-1, 2), "a of Beta must be finite and >= 0"),
        (lambda: jeffreys("weibull"), "must be one of binomial"),
        (lambda: NormalInverseWishart([0.0, 0.0], 1.0, 4.0, [[1.0, 2.0], [2.0, 1.0]]), "eigenvalue is -1"),
        (lambda: NormalInverseGamma([0.0], [[-1.0]], 1, 1), "semi-definite, its smallest eigenvalue is -1"),
        (lambda: Beta(1, 1).update([], []), "successes is empty"),
        (lambda: Gamma(1, 1).update([1, 2], exposure=[1.0, -1.0]), "exposure must be finite and positive"),
        (lambda: Gamma(1, 1).update([1.0, -2.0], "exponential"), "waiting times >= 0, got -2.0"),
        (lambda: normal(0.0, -1.0), "sd must be positive, got -1.0"),
        (lambda: student_t(0.0), "df must be positive"),
        (lambda: binomial(10, 1.5), "probability must lie between 0 and 1, got 1.5"),
        (lambda: binomial(2.5, 0.5), "n must be a whole number"),
        (lambda: compare_models({"flat": np.nan}), "of 'flat' is nan"),
        (lambda: Dirichlet([1.0, 1.0]).update([1, 2, 3]), "must be 2 numbers"),
        (lambda: Gamma(1, 1).update([1], "weibull"), "must be one of"),
        (lambda: maximum_entropy((0.0, np.inf)), "largest entropy"),
        (lambda: maximum_entropy((0.0, 1.0), 2.0), "must lie inside"),
        (lambda: Gamma(1, 1).update([]), "data is empty"),
        (lambda: Gamma(1, 1).log_evidence([], "exponential"), "data is empty"),
        (lambda: NormalInverseGamma([0.0], [[1.0]], 1, 1).update(np.zeros((0, 1)), []), "y is empty"),
        (lambda: NormalInverseWishart([0.0], 1.0, 4.0, [[1.0]]).update(np.zeros((0, 1))), "n > 0"),
    ],
)
def test_bad_input_is_named(bad, words):
    with pytest.raises(ValueError, match=words):
        bad()


def test_any_model_by_quadrature_equals_the_conjugate_one():
    posterior = GridPosterior(lambda p: 7 * np.log(p) + np.log1p(-p), Beta(3, 5))
    exact = Beta(10, 6)
    assert posterior.log_evidence == pytest.approx(
        float(Beta(3, 5).log_evidence(7, 1, ordered=True)), abs=1e-12
    )
    levels = np.array([0.001, 0.2, 0.5, 0.9, 0.9999])
    assert posterior.quantile(levels) == pytest.approx(exact.quantile(levels), rel=1e-10)
    assert posterior.cdf(0.3) == pytest.approx(exact.cdf(0.3), rel=1e-9)
    assert posterior.expectation(lambda p: p) == pytest.approx(0.625, rel=1e-12)
    far = GridPosterior(lambda r: stats.poisson.logpmf(400, r), Gamma(1.0, 0.001))
    assert far.mean == pytest.approx(401 / 1.001, rel=1e-9)
    with pytest.raises(InputError, match="contradict"):
        GridPosterior(lambda p: np.full_like(p, -np.inf), Beta(1, 1))


def test_largest_entropy():
    assert maximum_entropy((2.0, 4.0)).mean == pytest.approx(3.0)
    for mean in (1e-5, 0.2, 0.45, 0.9, 1 - 1e-5):
        found = maximum_entropy((0.0, 1.0), mean)
        assert found.mean == pytest.approx(mean, rel=1e-9)
        x = np.linspace(0.01, 0.99, 5)
        assert np.ptp(np.diff(found.log_prob(x))) == pytest.approx(0.0, abs=1e-10)  # an exponential
        assert found.quantile(found.cdf(mean)) == pytest.approx(mean)
    weights = maximum_entropy_weights([1, 2, 3, 4, 5, 6], 4.5)
    assert weights @ np.arange(1, 7) == pytest.approx(4.5, rel=1e-12)
    ratios = weights[1:] / weights[:-1]
    assert np.ptp(ratios) < 1e-10
