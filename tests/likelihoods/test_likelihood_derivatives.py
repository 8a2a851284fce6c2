"""Derivatives in f and in parameters, and expected log densities, against mpmath and quadrature."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest

from cavity import likelihoods as lk
from tests.likelihoods import likelihood_reference as ref
from tests.likelihoods.test_tilted import CASES

SMOOTH = [k for k in CASES if CASES[k][0].smooth]
WITH_PARAMETERS = [k for k in CASES if CASES[k][0].flat.size]


def points(name):
    """Targets with latent values around their centers, on several scales."""
    likelihood, (y, *_), _, centers, *_ = CASES[name]
    labels = np.unique(y)
    offsets = np.array([-30.0, -6.0, -1.3, -0.2, 0.05, 0.9, 4.0, 11.0])
    targets = np.repeat(labels, len(offsets))
    f = np.concatenate([centers(label)[0] + offsets for label in labels])
    if name in ("poisson", "negative binomial"):
        f = np.minimum(f, 9.0)
    return likelihood, targets, f


def differences(function, x, h):
    """First derivative to order six."""
    p = [function(x + k * h) - function(x - k * h) for k in (1, 2, 3)]
    return (45 * p[0] - 9 * p[1] + p[2]) / (60 * h)


@pytest.mark.parametrize("name", CASES)
def test_log_prob_agrees_with_scipy(name):
    likelihood, y, f = points(name)
    log_p = CASES[name][2]
    truth = np.array([log_p(a)(np.array([b]))[0] for a, b in zip(y, f)])
    np.testing.assert_allclose(likelihood.log_prob(y, f), truth, rtol=1e-10, atol=1e-12)
    # leading axes hold further latent values
    stacked = likelihood.log_prob(y, np.stack([f, f + 0.1]))
    np.testing.assert_allclose(stacked[0], truth, rtol=1e-10, atol=1e-12)
    assert stacked.shape == (2, len(f))


@pytest.mark.parametrize("name", SMOOTH)
def test_three_derivatives_in_f(name):
    likelihood, y, f = points(name)
    d = likelihood.derivatives(y, f)
    np.testing.assert_array_equal(d.log_prob, likelihood.log_prob(y, f))
    h = 4e-4
    for k, (value, upper) in enumerate(pairwise(d)):
        numeric = differences(lambda x, k=k: likelihood.derivatives(y, x)[k], f, h)
        noise = 1e-14 * (1 + np.abs(value)) / h
        np.testing.assert_array_less(np.abs(upper - numeric), 1e-7 * np.abs(upper) + noise + 1e-9)


@pytest.mark.parametrize("z", [-300.0, -37.0, -5.0, -0.3, 0.4, 6.0, 30.0])
def test_probit_derivatives_to_full_relative_accuracy(z):
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 260  # 1 - Phi(30) is 1e-198
    d = lk.Probit().derivatives(np.array([1.0]), np.array([z]))
    truth = [mp.diff(lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), mp.mpf(z), k) for k in (1, 2, 3)]
    for got, want in zip(d[1:], truth):
        assert abs(got[0] / want - 1) < 1e-9


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_parameter_derivatives(name):
    likelihood, y, f = points(name)
    p = likelihood.parameter_derivatives(y, f)
    assert all(piece.shape == (likelihood.flat.size, len(y)) for piece in p)
    smooth = 3 if likelihood.smooth else 2
    for i, x in enumerate(likelihood.flat):

        def at(value, i=i):
            flat = likelihood.flat.copy()
            flat[i] = value
            return np.stack(likelihood.with_flat(flat).derivatives(y, f)[:smooth])

        h = 2e-3 * abs(x)
        numeric = differences(at, x, h)
        for k in range(smooth):
            noise = 1e-14 * (1 + np.abs(likelihood.derivatives(y, f)[k]).max()) / h
            np.testing.assert_allclose(p[k][i], numeric[k], rtol=1e-7, atol=noise + 1e-9)


@pytest.mark.parametrize("name", [k for k in CASES if k != "heaviside"])
def test_expected_log_prob_and_its_gradients(name):
    likelihood, (y, *_), log_p, centers, *_ = CASES[name]
    labels = np.unique(y)
    offset, v = (a.ravel() for a in np.meshgrid([-8.0, -1.0, 0.2, 3.0], [1e-6, 1e-2, 1.0, 9.0]))
    if name in ("poisson", "negative binomial", "binomial"):
        v = np.minimum(v, 2.0)  # beyond, E[exp(f)] sits where the reference does not look
    targets = np.repeat(labels, len(v))
    mean = np.concatenate([centers(label)[0] + offset for label in labels])
    var = np.tile(v, len(labels))
    e = likelihood.expected_log_prob(targets, mean, var)
    for i in range(len(targets)):
        truth = ref.expectation(log_p(targets[i]), mean[i], var[i], centers(targets[i]))
        assert abs(e.value[i] - truth) < 1e-9 * (1 + abs(truth))
    # gradients against differences of the value
    value = lambda m, s: likelihood.expected_log_prob(targets, m, s).value  # noqa: E731
    h = 1e-2 * np.sqrt(var)
    numeric = differences(lambda t: value(mean + t * h, var), 0.0, 1.0) / h
    scale = 1e-12 * (1 + np.abs(e.value))
    np.testing.assert_array_less(np.abs(e.d_mean - numeric), 1e-6 * np.abs(e.d_mean) + scale / h + 1e-8)
    h = 1e-2 * var
    numeric = differences(lambda t: value(mean, var + t * h), 0.0, 1.0) / h
    np.testing.assert_array_less(np.abs(e.d_var - numeric), 1e-6 * np.abs(e.d_var) + scale / h + 1e-8)
    for i, x in enumerate(likelihood.flat):

        def at(shift, i=i, x=x):
            flat = likelihood.flat.copy()
            flat[i] = x + shift
            return likelihood.with_flat(flat).expected_log_prob(targets, mean, var).value

        step = 2e-3 * abs(x)
        numeric = differences(at, 0.0, step)
        np.testing.assert_allclose(e.d_flat[i], numeric, rtol=1e-6, atol=1e-8 + scale.max() / step)


@pytest.mark.parametrize(
    "likelihood", [lk.StudentT(0.3, 1.5), lk.Laplace(0.3), lk.EpsilonInsensitive(0.1, 0.4)]
)
def test_expected_log_prob_at_extremes(likelihood):
    v, r = (a.ravel() for a in np.meshgrid(10.0 ** np.arange(-8, 9, 4), [0.0, 1.0, 1e4]))
    y = np.full(v.size, 0.5)
    e = likelihood.expected_log_prob(y, y + r * np.sqrt(v), v)
    assert all(np.isfinite(piece).all() for piece in e)
    assert (e.d_var <= 0).all() or not likelihood.log_concave


def test_expected_precision_is_the_weight_of_the_score():
    # for scale mixtures d log p/df = E[w | e] e
    y, f = np.zeros(6), np.array([-20.0, -3.0, -0.4, 0.1, 1.0, 7.0])
    for likelihood in (lk.StudentT(0.5, 3.0), lk.Laplace(0.7), lk.MixtureOfGaussians(0.1, 0.3)):
        weight = likelihood.expected_precision((y - f) ** 2)
        np.testing.assert_allclose(weight * (y - f), likelihood.derivatives(y, f).d1, rtol=1e-12)


@pytest.mark.parametrize(
    "likelihood", [lk.StudentT(0.5, 3.0), lk.Laplace(0.7), lk.MixtureOfGaussians(0.1, 0.3)]
)
def test_scale_mixture_nodes_and_precision_draws(likelihood):
    e = np.array([0.01, 0.3, 0.8, 8.0])
    w, log_c = likelihood.scale_mixture()
    density = np.log(np.exp(log_c[:, None] - 0.5 * w[:, None] * e**2).sum(axis=0))
    np.testing.assert_allclose(density, likelihood.log_prob(np.zeros(4), e), rtol=1e-9)
    draws = likelihood.sample_precision(np.repeat(e[1:], 40000), np.random.default_rng(0)).reshape(3, -1)
    error = np.abs(draws.mean(axis=1) - likelihood.expected_precision(e[1:] ** 2))
    assert (error <= 4.5 * draws.std(axis=1) / 200 + 1e-12).all()


@pytest.mark.parametrize("shape", [1e-3, 1.0, 29.0, 31.0, 1e3, 1e8, 1e12, 1e15])
def test_slope_in_the_shape_of_a_negative_binomial(shape):
    """At large shapes, where counts are nearly Poisson, digammas and logarithms cancel to nothing."""
    y = np.array([0.0, 3.0, 40.0, 1e5, 2.0, 7.0])
    f = np.array([0.0, 1.0, 3.5, 11.0, 40.0, -30.0])
    found = lk.NegativeBinomial(shape).parameter_derivatives(y, f).log_prob[0]
    with mpmath.workdps(60):
        for slope, y_i, f_i in zip(found, y, f):
            r, mu, k = mpmath.mpf(shape), mpmath.exp(mpmath.mpf(f_i)), mpmath.mpf(y_i)
            change = mpmath.digamma(k + r) - mpmath.digamma(r) - mpmath.log1p(mu / r)
            truth = change + (mu - k) / (r + mu)
            assert slope == pytest.approx(float(truth), rel=1e-8, abs=0.0)
