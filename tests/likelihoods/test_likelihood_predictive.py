"""Predictive distributions: density, distribution function, moments, quantiles and draws tell one story."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from cavity import likelihoods as lk
from tests.likelihoods import likelihood_reference as ref
from tests.likelihoods.test_tilted import CASES

MEAN, VAR = np.array([0.4, -1.0, 3.0]), np.array([0.5, 0.0, 4.0])
CONTINUOUS = [
    lk.Gaussian(0.3),
    lk.KnownNoise([0.1, 1.0, 0.3], 0.2),
    lk.StudentT(0.7, 4.5),
    lk.StudentT(0.7, 1.2),
    lk.StudentT(0.7, 300.0),
    lk.Laplace(0.5),
    lk.EpsilonInsensitive(0.3, 0.8),
    lk.MixtureOfGaussians(0.1, 0.3),
    lk.Mixture([lk.StudentT(0.5, 3.0), lk.Laplace(2.0)], [0.7, 0.3]),
]


def density_panels(center, width=1.0):
    """Panels over y, fine around the center (where var = 0 leaves kinks) and far into the tails."""
    offsets = width * 10.0 ** np.linspace(-6, 8, 160)
    return ref.panels(np.concatenate([center - offsets, [center], center + offsets]))


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_density_integrates_to_one_with_the_stated_moments_and_cdf(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    assert len(p) == 3
    for i in range(3):
        y, w = density_panels(MEAN[i])
        if isinstance(likelihood, lk.EpsilonInsensitive):
            pieces = [density_panels(MEAN[i] + side * 0.8) for side in (-1, 1)]
            edges = np.unique(np.concatenate([pieces[0][0], pieces[1][0], [MEAN[i] - 0.8, MEAN[i] + 0.8]]))
            y, w = ref.panels(edges)
        row = likelihood.rows([i])
        one = row.predictive(np.full(1, MEAN[i]), np.full(1, VAR[i]))
        many = row.predictive if not isinstance(likelihood, lk.KnownNoise) else None
        if many is not None:
            log_p = likelihood.predictive(np.full(y.size, MEAN[i]), np.full(y.size, VAR[i])).log_prob(y)
        else:
            log_p = np.array([one.log_prob(x)[0] for x in y])
        density = w * np.exp(log_p)
        slow = np.isinf(p.variance[i])  # heavy tails reach beyond the panels
        np.testing.assert_allclose(density.sum(), 1.0, rtol=1e-9)
        if not slow:
            np.testing.assert_allclose(density @ y, p.mean[i], rtol=1e-7, atol=1e-7)
            np.testing.assert_allclose(density @ (y - p.mean[i]) ** 2, p.variance[i], rtol=1e-6)
        for x in (MEAN[i] - 2.3, MEAN[i] + 0.4, MEAN[i] + 7.0):
            below = density[y <= x].sum()
            # the panel that holds x is counted in whole or not at all
            gap = density[np.abs(y - x) < 0.3 * (abs(x - MEAN[i]) + 0.1)].max() * 12
            assert abs(one.cdf(x)[0] - below) < gap


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_cdf_is_the_integral_of_the_density(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    a, b = MEAN + np.array([-0.9, 0.1, 0.3]), MEAN + np.array([0.7, 2.2, 5.0])
    x, w = np.polynomial.legendre.leggauss(80)
    y = 0.5 * (a + b) + 0.5 * (b - a) * x[:, None]
    if isinstance(likelihood, lk.EpsilonInsensitive):  # no kinks between a and b
        a, b = MEAN + np.array([-0.7, -0.7, -0.7]), MEAN + np.array([0.7, 0.7, 0.7])
        y = 0.5 * (a + b) + 0.5 * (b - a) * x[:, None]
    density = np.stack([np.exp(p.log_prob(row)) for row in y])
    integral = 0.5 * (b - a) * (w @ density)
    np.testing.assert_allclose(p.cdf(b) - p.cdf(a), integral, rtol=1e-8)


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_quantiles_invert_the_cdf_and_intervals_are_central(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    levels = [1e-6, 0.02, 0.5, 0.9, 0.999]
    q = p.quantile(levels)
    assert q.shape == (5, 3)
    for level, row in zip(levels, q):
        np.testing.assert_allclose(p.cdf(row), level, rtol=1e-8)
    low, high = p.interval(0.8)
    np.testing.assert_allclose(p.cdf(high) - p.cdf(low), 0.8, rtol=1e-9)
    np.testing.assert_allclose(p.median, p.quantile(0.5))


@pytest.mark.parametrize(
    "likelihood", [*CONTINUOUS[:1], *CONTINUOUS[2:], lk.Poisson(), lk.Probit()], ids=repr
)
def test_no_cases_are_predicted_too(likelihood):
    none = np.zeros(0)
    p = likelihood.predictive(none, none)
    assert len(p) == 0
    for answer in (p.mean, p.variance, p.median, p.log_prob(none), p.cdf(none), p.sample(4, 0)[0]):
        assert answer.shape == (0,)
    assert p.quantile([0.1, 0.5, 0.9]).shape == (3, 0)


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_everything_lies_between_the_infinities(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    for end, below in ((-np.inf, 0.0), (np.inf, 1.0)):
        np.testing.assert_array_equal(p.cdf(np.full(3, end)), below)
        np.testing.assert_array_equal(p.log_prob(np.full(3, end)), -np.inf)
    missing = np.array([0.2, np.nan, 0.3])
    np.testing.assert_array_equal(np.isnan(p.log_prob(missing)), np.isnan(missing))


@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_draws_follow_the_cdf(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    draws = p.sample(4000, 7)
    assert draws.shape == (4000, 3)
    np.testing.assert_array_equal(draws, p.sample(4000, np.random.default_rng(7)))
    for i in range(3):
        u = np.array([p.cdf(np.full(3, x))[i] for x in np.quantile(draws[:, i], [0.1, 0.5, 0.9])])
        assert (np.abs(u - [0.1, 0.5, 0.9]) < 0.03).all()


@pytest.mark.parametrize("likelihood", [lk.Laplace(0.5), lk.EpsilonInsensitive(0.5, 0.8)], ids=repr)
def test_exponential_tails_keep_their_digits(likelihood):
    """Far out a unit step costs exp(-1/s), with or without a normal density beside."""
    p = likelihood.predictive(MEAN, np.array([0.5, 0.0, 0.1]))
    for below, tail in ((-1, p.cdf), (1, p.survival)):
        near, far = tail(MEAN + below * 30.0), tail(MEAN + below * 31.0)
        assert (near < 1e-20).all()
        np.testing.assert_allclose(far / near, np.exp(-1 / 0.5), rtol=1e-12)


def test_student_t_without_variance_says_infinite():
    assert np.isinf(lk.StudentT(1.0, 2.0).predictive([0.0], [1.0]).variance).all()
    np.testing.assert_allclose(lk.StudentT(2.0, 5.0).predictive([0.0], [1.0]).variance, 1 + 4 * 5 / 3)
    p = lk.StudentT(1.3, 2.2).predictive([0.5], [0.0])
    x = np.array([-30.0])
    np.testing.assert_allclose(p.cdf(x), stats.t.cdf(x, 2.2, 0.5, 1.3), rtol=1e-9)


@pytest.mark.parametrize("name", ["probit", "lapse", "heaviside", "logit", "ordinal"])
def test_class_probabilities_are_averages(name):
    likelihood, (y, *_), log_p, centers, *_ = CASES[name]
    p = likelihood.predictive(MEAN, VAR)
    np.testing.assert_allclose(p.probabilities.sum(axis=1), 1.0, rtol=1e-9)
    for label in np.unique(y):
        got = np.exp(p.log_prob(np.full(3, label)))
        for i in (0, 2):
            truth = ref.expectation(
                lambda f, label=label: np.exp(log_p(label)(f)), MEAN[i], VAR[i], centers(label)
            )
            np.testing.assert_allclose(got[i], truth, rtol=1e-8)
        np.testing.assert_allclose(got[1], np.exp(likelihood.log_prob(np.array([label]), MEAN[1:2]))[0])
    assert np.isneginf(p.log_prob(0.5)).all()
    draws = p.sample(20000, 0)
    assert (np.abs(draws.mean(axis=0) - p.mean) < 5 * p.sd / np.sqrt(20000) + 1e-12).all()


COUNTS = [lk.Poisson(), lk.NegativeBinomial(2.5), lk.Binomial(12)]


@pytest.mark.parametrize("likelihood", COUNTS, ids=repr)
def test_count_predictions_by_summation(likelihood):
    mean, var = np.array([0.3, 1.2, -2.0]), np.array([0.4, 0.0, 1.0])
    p = likelihood.predictive(mean, var)
    k = np.arange(13) if isinstance(likelihood, lk.Binomial) else np.arange(2000)
    log_p = np.stack([p.log_prob(float(j)) for j in k[:200]])
    mass = np.exp(log_p)
    np.testing.assert_allclose(mass.sum(axis=0), 1.0, rtol=1e-4)
    if isinstance(likelihood, lk.Binomial):
        np.testing.assert_allclose(k @ mass, p.mean, rtol=1e-8)
        np.testing.assert_allclose((((k[:, None] - p.mean) ** 2) * mass).sum(axis=0), p.variance, rtol=1e-7)
        assert np.isneginf(p.log_prob(13.0)).all()
    np.testing.assert_allclose(p.cdf(4.5), mass[:5].sum(axis=0), rtol=1e-8)
    assert (p.cdf(-1.0) == 0).all()
    assert np.isneginf(p.log_prob(2.5)).all()
    q = p.quantile([0.0, 0.2, 0.97])
    for level, row in zip((0.2, 0.97), q[1:]):
        assert (p.cdf(row) >= level - 1e-12).all()
        assert (p.cdf(row - 1) < level).all()
    draws = p.sample(40000, 3)
    assert (np.abs(draws.mean(axis=0) - p.mean) < 5 * p.sd / 200).all()
    assert len(p) == 3
    assert "3 cases" in repr(p)
    assert np.isinf(p.quantile(1.0)).all()


def test_large_counts_keep_their_probability():
    """Counts far above what f = 0 would allow: all of them together have probability one."""
    counts = np.arange(400.0)
    f, v = np.full(400, 1.5), np.full(400, 0.2)
    for likelihood in (lk.Poisson(), lk.NegativeBinomial(3.0)):
        log_p = likelihood.predictive(f, v).log_prob(counts)
        assert np.isfinite(log_p[:80]).all()
        np.testing.assert_allclose(np.exp(log_p).sum(), 1.0, atol=1e-8)
    x, w = np.polynomial.hermite_e.hermegauss(80)
    rate = np.exp(1.5 + np.sqrt(0.2) * x)
    expected = np.sum(w * stats.poisson.pmf(20, rate)) / w.sum()
    np.testing.assert_allclose(
        np.exp(lk.Poisson().predictive(f[:1], v[:1]).log_prob([20.0])), expected, rtol=1e-7
    )


def test_poisson_and_negative_binomial_moments_in_closed_form():
    m, v = np.array([0.3]), np.array([0.4])
    rate = np.exp(m + v / 2)
    spread = np.expm1(v) * rate**2
    np.testing.assert_allclose(lk.Poisson().predictive(m, v).variance, rate + spread)
    second = spread + rate**2
    np.testing.assert_allclose(
        lk.NegativeBinomial(2.5).predictive(m, v).variance, rate + spread + second / 2.5
    )


@pytest.mark.parametrize(
    "likelihood", [*COUNTS, lk.Probit(), lk.Logit(), lk.OrdinalProbit([0.0, 1.0])], ids=repr
)
def test_draws_given_f_have_the_conditional_probabilities(likelihood):
    f = np.full(40000, 0.6)
    draws = likelihood.sample(f, np.random.default_rng(1))
    for value in np.unique(draws)[:3]:
        p = np.exp(likelihood.log_prob(np.array([value]), f[:1]))[0]
        assert abs((draws == value).mean() - p) < 4.5 * np.sqrt(p * (1 - p) / 40000) + 1e-12


def test_outlier_probabilities():
    y, mean, var = np.array([0.0, 5.0]), np.zeros(2), np.full(2, 0.1)
    mix = lk.MixtureOfGaussians(0.1, 0.3, outlier_scale=3.0)
    r = mix.outlier_probability(y, mean, var)
    densities = [0.9 * stats.norm.pdf(y, 0, np.sqrt(0.09 + 0.1)), 0.1 * stats.norm.pdf(y, 0, np.sqrt(9.1))]
    np.testing.assert_allclose(r, densities[1] / sum(densities), rtol=1e-12)
    general = lk.Mixture([lk.Gaussian(0.09), lk.Gaussian(9.0)], [0.9, 0.1])
    np.testing.assert_allclose(general.outlier_probability(y, mean, var), r, rtol=1e-12)
    tail = lk.EpsilonInsensitive(0.3, 0.1).outlier_probability(y, mean, var)
    assert tail[0] < 1e-12
    assert 0.99 < tail[1] < 1
    lapse = lk.LapseProbit(0.1).outlier_probability(np.array([1.0, -1.0]), np.full(2, 3.0), np.full(2, 0.5))
    p = special.ndtr(np.array([1.0, -1.0]) * 3 / np.sqrt(1.5))
    np.testing.assert_allclose(lapse, 0.05 / (0.05 + 0.9 * p), rtol=1e-10)
    np.testing.assert_allclose(
        lk.Probit().outlier_probability(np.array([1.0, -1.0]), np.full(2, 3.0), np.full(2, 0.5)),
        1 - p,
        rtol=1e-9,
    )


@pytest.mark.parametrize("df", [1.2, 4.0])
def test_a_wide_noise_of_its_own_makes_an_outlier_under_student_t_noise(df):
    scale, v, y = 0.5, 0.01, np.array([0.0, 1.0, 2.0, 5.0, 50.0])
    draws = scale**2 / np.random.default_rng(0).gamma(df / 2, 2 / df, 2_000_000)
    for value, got in zip(y, lk.StudentT(scale, df).outlier_probability(y, np.zeros(5), np.full(5, v))):
        weight = stats.norm.pdf(value, 0, np.sqrt(draws + v))
        share = weight / weight.sum()
        wide = draws > 9 * scale**2
        expected = share[wide].sum()
        error = np.sqrt(np.sum(share**2 * (wide - expected) ** 2))
        assert (
            abs(got - expected) < 4.5 * error + 5e-3
        )  # a trapezoid cut at a threshold is good to a few thousandths


def test_a_wide_noise_of_its_own_makes_an_outlier_under_laplace_noise():
    scale, v, y = 0.5, 0.01, np.array([0.0, 1.0, 2.0, 5.0, 50.0])
    # Laplace noise is normal with an exponentially distributed variance of mean 2 scale^2
    draws = 2 * scale**2 * np.random.default_rng(0).exponential(size=2_000_000)
    for value, got in zip(y, lk.Laplace(scale).outlier_probability(y, np.zeros(5), np.full(5, v))):
        log_weight = stats.norm.logpdf(value, 0, np.sqrt(draws + v))
        share = np.exp(log_weight - log_weight.max())
        share /= share.sum()
        wide = draws > 9 * scale**2
        expected = share[wide].sum()
        error = np.sqrt(np.sum(share**2 * (wide - expected) ** 2))
        assert abs(got - expected) < 4.5 * error + 5e-3


@pytest.mark.parametrize("likelihood", [c for c in CONTINUOUS if not isinstance(c, lk.KnownNoise)], ids=repr)
def test_noise_draws_follow_the_noise_distribution(likelihood):
    f = np.full(20000, 1.5)
    draws = np.sort(likelihood.sample(f, np.random.default_rng(4)))
    at = draws[[1000, 7000, 10000, 15000, 19000]]
    cdf = likelihood.predictive(np.full(5, 1.5), np.zeros(5)).cdf(at)
    assert (np.abs(cdf - np.array([0.05, 0.35, 0.5, 0.75, 0.95])) < 0.016).all()
