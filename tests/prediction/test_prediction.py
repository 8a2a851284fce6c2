"""Predictive distributions on their own: shapes, edges, joint draws, discrete values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from scipy.special import logsumexp

from cavity.prediction import (
    CategoricalPrediction,
    GaussianPrediction,
    MixedPrediction,
    MixturePrediction,
    mixture_of_gaussians,
)
from cavity.prediction.continuous import invert_cdf


def test_gaussian_agrees_with_scipy():
    m, v = np.array([0.0, 2.0]), np.array([1.0, 0.25])
    p = GaussianPrediction(m, v)
    y = np.array([0.3, -1.0])
    dist = stats.norm(m, np.sqrt(v))
    np.testing.assert_allclose(p.log_prob(y), dist.logpdf(y))
    np.testing.assert_allclose(p.cdf(y), dist.cdf(y))
    np.testing.assert_allclose(p.quantile([0.1, 0.7]), np.stack([dist.ppf(0.1), dist.ppf(0.7)]))
    np.testing.assert_allclose(p.interval(0.9), dist.interval(0.9))
    np.testing.assert_allclose(p.median, m)
    assert len(p) == 2
    assert "2 cases" in repr(p)


def test_gaussian_with_no_spread_is_a_point_mass():
    p = GaussianPrediction([1.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    y = np.array([0.9, 1.0, 1.1])
    np.testing.assert_array_equal(p.log_prob(y), [-np.inf, np.inf, -np.inf])
    np.testing.assert_array_equal(p.cdf(y), [0.0, 1.0, 1.0])
    np.testing.assert_array_equal(p.quantile([0.0, 1.0]), np.ones((2, 3)))


def test_several_targets_share_a_variance():
    mean, var = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
    p = GaussianPrediction(mean, var)
    assert p.variance.shape == (3, 2)
    assert p.quantile(0.3).shape == (3, 2)
    assert p.quantile([0.3, 0.4]).shape == (2, 3, 2)
    assert p.sample(5, 0).shape == (5, 3, 2)
    np.testing.assert_allclose(p.log_prob(mean)[:, 0], p.log_prob(mean)[:, 1])
    joint = GaussianPrediction(mean, var, np.diag(var))
    assert joint.sample(5, 0).shape == (5, 3, 2)
    np.testing.assert_allclose(joint.log_prob_joint(mean + 0.1), p.log_prob(mean + 0.1).sum(axis=0))


def test_joint_draws_and_density():
    A = np.random.default_rng(0).standard_normal((3, 3))
    cov, mean = A @ A.T, np.array([1.0, -1.0, 0.0])
    p = GaussianPrediction(mean, np.diag(cov), cov)
    draws = p.sample(100000, 1)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.06)
    y = np.array([0.2, 0.1, -0.3])
    np.testing.assert_allclose(p.log_prob_joint(y), stats.multivariate_normal(mean, cov).logpdf(y))
    assert "joint" in repr(p)
    singular = GaussianPrediction(np.zeros(2), np.ones(2), np.ones((2, 2)))
    assert np.ptp(singular.sample(3, 0), axis=1).max() < 1e-7
    with pytest.raises(ValueError, match="singular"):
        singular.log_prob_joint([0.0, 1.0])


def test_bad_arguments_are_named():
    p = GaussianPrediction([0.0], [1.0])
    for call, message in (
        (lambda: GaussianPrediction([0.0], [-1.0]), "variance must not be negative"),
        (lambda: GaussianPrediction([0.0], [1.0], np.eye(2)), "covariance must have shape"),
        (lambda: p.quantile(1.5), "quantile levels"),
        (lambda: p.interval(1.0), "level must lie"),
        (lambda: p.log_prob_joint([0.0]), "needs the joint covariance"),
        (lambda: GaussianPrediction([0.0, 0.0], [1.0, 1.0], np.diag([1.0, -1.0])).sample(), "semi-definite"),
        (lambda: CategoricalPrediction([[0.5, 0.5]], [1.0, 2.0, 3.0]), "one column per value"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_mixture_with_far_apart_narrow_parts():
    # a plateau of the distribution function between the parts must not trap the inversion
    p = MixturePrediction(np.log([0.5, 0.5]), np.array([[0.0], [1e6]]), np.array([[1e-4], [1.0]]))
    q = p.quantile([0.0, 1e-12, 0.25, 0.75, 1 - 1e-12, 1.0])[:, 0]
    parts = [stats.norm(0, 1e-2), stats.norm(1e6, 1)]
    truth = [parts[0].ppf(2e-12), parts[0].ppf(0.5), parts[1].ppf(0.5), parts[1].isf(2e-12)]
    np.testing.assert_allclose(q[1:5], truth, rtol=1e-4, atol=1e-9)
    assert q[0] == -np.inf
    assert q[5] == np.inf
    np.testing.assert_allclose(p.mean, 5e5)
    assert "1 cases" in repr(p)


def test_mixtures_of_predictions_equal_the_flat_mixture():
    m, v = np.array([0.0, 1.0]), np.array([0.5, 2.0])
    flat = MixturePrediction(np.log([0.3, 0.7]), np.stack([m, m + 3]), np.stack([v, 4 * v]))
    nested = MixedPrediction([0.3, 0.7], [GaussianPrediction(m, v), GaussianPrediction(m + 3, 4 * v)])
    y = np.array([1.0, 9.0])
    for name in ("log_prob", "cdf", "survival"):
        np.testing.assert_allclose(getattr(flat, name)(y), getattr(nested, name)(y), rtol=1e-12)
    np.testing.assert_allclose(flat.mean, nested.mean)
    np.testing.assert_allclose(flat.variance, nested.variance)
    np.testing.assert_allclose(flat.quantile([0.01, 0.6]), nested.quantile([0.01, 0.6]), rtol=1e-10)
    for p in (flat, nested):
        draws = p.sample(40000, 2)
        assert (np.abs(draws.mean(axis=0) - p.mean) < 4.5 * p.sd / 200).all()
        assert (np.abs((draws < p.quantile(0.2)).mean(axis=0) - 0.2) < 0.01).all()


def test_categorical():
    p = CategoricalPrediction([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]], [0.0, 1.0, 4.0])
    np.testing.assert_allclose(p.mean, [2.3, 1.0])
    np.testing.assert_allclose(p.variance, [0.3 + 8.0 - 2.3**2, 0.0])
    np.testing.assert_array_equal(p.mode, [4.0, 1.0])
    np.testing.assert_allclose(p.log_prob([1.0, 1.0]), [np.log(0.3), 0.0])
    assert np.isneginf(p.log_prob(2.0)).all()
    np.testing.assert_allclose(p.cdf(1.5), [0.5, 1.0])
    np.testing.assert_array_equal(p.quantile([0.2, 0.21, 1.0]), [[0.0, 1.0], [1.0, 1.0], [4.0, 1.0]])
    draws = p.sample(20000, 0)
    assert abs((draws[:, 0] == 4.0).mean() - 0.5) < 0.015
    assert (draws[:, 1] == 1.0).all()
    assert "3 values" in repr(p)


def test_mixtures_of_many_parts_can_be_sampled():
    """More parts than `np.choose` could take; the mean of the draws is that of the parts, within 4 standard errors."""
    centers = np.linspace(-1, 1, 100)
    mixed = MixedPrediction(
        np.full(100, 0.01), [GaussianPrediction([c, 2 * c], [0.01, 0.01]) for c in centers]
    )
    draws = mixed.sample(4000, rng=0)
    assert draws.shape == (4000, 2)
    assert np.all(np.abs(draws.mean(axis=0)) < 4 * np.sqrt(mixed.variance / 4000))
    assert np.all(np.abs(draws.var(axis=0) / mixed.variance - 1) < 4 * np.sqrt(2 / 4000))


# --- inversion ----------------------------------------------------------------------------------------------


def _by_brent(log_w, m, sd, p):
    """Quantile of one mixture of normals, in the tail it belongs to."""
    sign = 1.0 if p <= 0.5 else -1.0
    tail, m = min(p, 1 - p), sign * m
    ends = m + sd * stats.norm.ppf(tail)

    def gap(x):
        return logsumexp(log_w + stats.norm.logcdf((x - m) / sd)) - np.log(tail)

    return sign * brentq(gap, ends.min() - 1e-9, ends.max() + 1e-9, xtol=1e-13, rtol=1e-14)


def test_quantiles_of_mixtures_against_brent(monkeypatch):
    rng = np.random.default_rng(2)
    J, n = 40, 12
    log_w = np.log(rng.dirichlet(np.full(J, 0.3), n).T)
    m, sd = 10.0 * rng.standard_normal((J, n)), np.exp(2.0 * rng.standard_normal((J, n)))
    levels = [1e-12, 1e-4, 0.05, 0.5, 0.8, 0.999, 1 - 1e-9]
    p = MixturePrediction(log_w, m, sd**2)
    truth = np.array([[_by_brent(log_w[:, i], m[:, i], sd[:, i], q) for i in range(n)] for q in levels])
    found = p.quantile(levels)
    np.testing.assert_allclose(found, truth, rtol=1e-10, atol=1e-10)
    monkeypatch.setattr(mixture_of_gaussians, "BLOCK_NUMBERS", 5 * J)  # in blocks of five
    assert p.quantile(levels).tobytes() == found.tobytes()
    low, high = p.interval(0.9)
    np.testing.assert_allclose([low, high], p.quantile([0.05, 0.95]), rtol=1e-13)


def test_quantiles_of_mixtures_with_gaps_steps_and_empty_components():
    # two far apart: the distribution function is flat between them
    far = MixturePrediction(np.log([0.3, 0.7]), [[0.0], [1e6]], [[1.0], [1.0]])
    np.testing.assert_allclose(far.quantile(0.15), stats.norm.ppf(0.5), atol=1e-9)
    np.testing.assert_allclose(far.quantile(0.3 + 0.7 * 0.9), 1e6 + stats.norm.ppf(0.9), rtol=1e-14)
    # a component without width is a step
    step = MixturePrediction(np.log([0.5, 0.5]), [[2.0], [0.0]], [[0.0], [1.0]])
    np.testing.assert_allclose(step.quantile(0.7), 2.0, atol=1e-12)
    np.testing.assert_allclose(step.quantile(0.25), 0.0, atol=1e-12)
    # one without weight does not count
    with np.errstate(divide="ignore"):
        empty = MixturePrediction(np.log([1.0, 0.0]), [[1.0], [1e8]], [[4.0], [1.0]])
    np.testing.assert_allclose(empty.quantile([0.1, 0.9])[:, 0], stats.norm(1, 2).ppf([0.1, 0.9]), rtol=1e-13)


@pytest.mark.parametrize("name", ["norm", "t", "cauchy", "gamma", "beta", "uniform"])
def test_distribution_functions_are_inverted(name):
    dist = {
        "norm": stats.norm(3, 2), "t": stats.t(2.5), "cauchy": stats.cauchy(1, 1e-3), "gamma": stats.gamma(0.5),
        "beta": stats.beta(2, 3), "uniform": stats.uniform(1, 4),
    }[name]  # fmt: skip
    calls = []

    def cdf(x):
        calls.append(1)
        return dist.cdf(x)

    for level in (1e-9, 0.01, 0.3, 0.5):
        calls.clear()
        x = invert_cdf(cdf, np.full(3, level), np.array([0.0, 5.0, -100.0]), np.array([1.0, 0.1, 10.0]))
        np.testing.assert_allclose(x, dist.ppf(level), rtol=1e-9, atol=1e-14)
        assert len(calls) < 140


def test_inverting_a_smooth_function_takes_few_evaluations():
    calls = []

    def cdf(x):
        calls.append(1)
        return stats.norm.cdf(x)

    invert_cdf(cdf, np.full(50, 0.05), np.linspace(-1, 1, 50), np.full(50, 2.0))
    assert len(calls) < 25  # each takes all cases at once


@pytest.mark.filterwarnings("error")
def test_targets_beyond_all_numbers_are_impossible_without_a_warning():
    assert GaussianPrediction([0.0], [2.0]).log_prob([1e300]) == -np.inf
