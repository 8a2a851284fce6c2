"""Golden values, checks of targets, text, subsets: the contract beyond the mathematics."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import likelihoods as lk
from cavity.parameters.param import Param


@pytest.mark.parametrize(
    ("y", "m", "v", "expected"),
    [
        # Z, mean, variance; site mean, variance and normalizer (whose exponent is positive)
        (1, 0.0, 1.0, (0.5, 0.5641895835, 0.6816901138, 1.7724538509, 2.1415926536, 3.6625378017)),
        (-1, 0.5, 2.0, (0.3864149963, -0.6434833838, 1.073606879, -1.9686784861, 2.3178213538, 4.0763168701)),
        (1, -1.0, 4.0, (0.327360423, 0.9725564182, 1.6870663114, 2.4113497123, 2.9176215813, 5.0048928533)),
        (1, 1.0, 9.0, (0.6240852, 2.7305892, 4.4475309, 4.4212868, 8.7925425, 9.1686998)),
    ],
)
def test_golden_probit_moments_and_sites(y, m, v, expected):
    t = lk.Probit().tilted_normalized([y], [m], [v])
    tau, nu = 1 / t.var - 1 / v, t.mean / t.var - m / v
    site_var, site_mean = 1 / tau, nu / tau
    total = v + site_var
    z = np.exp(t.log_z) * np.sqrt(2 * np.pi * total) * np.exp((m - site_mean) ** 2 / (2 * total))
    got = np.concatenate([np.exp(t.log_z), t.mean, t.var, site_mean, site_var, z])
    np.testing.assert_allclose(got, expected, rtol=5e-8)


def test_golden_probit_wide_cavity():
    t = lk.Probit().tilted_normalized([1.0], [0.0], [25.0])
    np.testing.assert_allclose(
        [t.mean[0], t.var[0], t.log_z[0]], [3.9119509, 9.6966401, np.log(0.5)], rtol=1e-7
    )


def test_golden_truncation_as_the_heaviside_limit():
    # cut at zero from above, cavity N(mu, s^2): mean mu + s r, variance s^2 (1 - r (z + r))
    from scipy.stats import norm

    mu, s = 0.7, 1.9
    z = mu / s
    r = norm.pdf(z) / norm.cdf(z)
    t = lk.Heaviside().tilted_normalized([1.0], [mu], [s * s])
    np.testing.assert_allclose([t.mean[0], t.var[0]], [mu + s * r, s * s * (1 - r * (z + r))], rtol=1e-12)
    site_mean = (t.mean / t.var - mu / s**2) / (1 / t.var - 1 / s**2)
    np.testing.assert_allclose(site_mean, mu + s / (r + z), rtol=1e-10)


def test_laplace_variance_where_the_printed_formula_cancels():
    # reference: true variances at cavity/scale variance ratios 1e4 and 1e6, cavity centered at y
    for ratio, value in ((1e4, 1.99900), (1e6, 1.99999)):
        t = lk.Laplace(1.0).tilted_normalized([0.0], [0.0], [ratio])
        np.testing.assert_allclose(t.var, value, atol=6e-6)


ALL = [
    lk.Gaussian(0.3),
    lk.KnownNoise([0.1, 0.2, 0.3]),
    lk.KnownNoise([0.1, 0.2, 0.3], 0.5),
    lk.StudentT(0.3, 5.0),
    lk.Laplace(0.2),
    lk.EpsilonInsensitive(0.2, 0.1),
    lk.MixtureOfGaussians(0.1, 0.2, 7.0),
    lk.Mixture([lk.Gaussian(0.3), lk.StudentT(2.0, 3.0)], [0.8, 0.2]),
    lk.Probit(),
    lk.LapseProbit(0.1),
    lk.Heaviside(),
    lk.Logit(),
    lk.Softmax(3),
    lk.OneVsRest(3),
    lk.OneVsRest(4, lk.LapseProbit(0.1)),
    lk.Poisson(),
    lk.NegativeBinomial(2.0),
    lk.Binomial([3, 4, 5]),
    lk.Binomial(7),
    lk.OrdinalProbit([-1.0, 0.0, 2.0]),
    lk.OrdinalProbit([0.5]),
    lk.HeteroscedasticGaussian(0.3),
    lk.Switch({0: lk.Gaussian(0.3), 2: lk.StudentT(0.2, 4.0)}, by=1),
    lk.Switch({0: lk.Gaussian(0.3), 1: lk.Gaussian(0.1)}, by=-1),
]


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_repr_evaluates_back_and_parameters_travel(likelihood):
    names = {k: getattr(lk, k) for k in lk.__all__} | {"Param": Param}
    again = eval(repr(likelihood), names)
    assert again == likelihood
    assert hash(again) == hash(likelihood)
    np.testing.assert_allclose(likelihood.replace(likelihood.theta + 0.1).theta, likelihood.theta + 0.1)
    assert likelihood.__sklearn_clone__() is likelihood
    assert likelihood != 3


def test_learning_keeps_outliers_wider_and_weights_normalized():
    mix = lk.MixtureOfGaussians(0.1, 0.5, outlier_scale=2.0)
    assert mix.outlier_scale == 2.0
    far = mix.replace(mix.theta - 20)
    assert far.outlier_scale > far.scale
    three = lk.Mixture([lk.Gaussian(1.0)] * 3, [2.0, 1.0, 1.0])
    np.testing.assert_allclose(three.weights, [0.5, 0.25, 0.25])
    ordinal = lk.OrdinalProbit([0.0, 1.0, 4.0])
    assert (np.diff(ordinal.replace(ordinal.theta - 3).thresholds) > 0).all()


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (lk.Gaussian(), [0.0, np.nan], "not finite .nan. at row 1"),
        (lk.Gaussian(), ["a"], "must hold numbers"),
        (lk.Probit(), [1, 0], "labels must be -1 or .1, got 0 at row 1"),
        (lk.Poisson(), [1.0, -2.0], "non-negative integers .counts., got -2 at row 1"),
        (lk.NegativeBinomial(), [0.5], "got 0.5 at row 0"),
        (lk.Binomial(3), [4], "must not exceed the trials .3., got 4"),
        (lk.Binomial([3, 4]), [1, 2, 3], "trials has shape"),
        (lk.OrdinalProbit([0.0]), [0, 2], "categories must be 0..1, got 2"),
        (lk.Softmax(3), [0, 3], "labels must be 0..2, got 3"),
        (lk.OneVsRest(3), [0, 3], "OneVsRest: labels must be 0..2, got 3"),
        (lk.Mixture([lk.Poisson(), lk.NegativeBinomial()]), [-1], "non-negative"),
    ],
)
def test_bad_targets_are_named(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.check(y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lk.Gaussian([1.0, 2.0]), "use KnownNoise"),
        (lambda: lk.KnownNoise([1.0, -1.0]), "positive numbers"),
        (lambda: lk.KnownNoise([1.0, 0.0]), "positive numbers"),
        (lambda: lk.MixtureOfGaussians(0.1, 1.0, 3.0, outlier_scale=2.0), "not both"),
        (lambda: lk.MixtureOfGaussians(0.1, 1.0, outlier_scale=0.5), "must exceed scale"),
        (lambda: lk.MixtureOfGaussians(0.1, 1.0, 0.5), "inflation"),
        (lambda: lk.Mixture([lk.Gaussian()]), "two or more"),
        (lambda: lk.Mixture([lk.Gaussian(), lk.Probit()]), "discrete and continuous"),
        (lambda: lk.Mixture([lk.Gaussian()] * 2, [1.0, -1.0]), "positive numbers"),
        (lambda: lk.Mixture([lk.Gaussian()] * 2, [1.0, 1.0], odds=[1.0]), "not both"),
        (lambda: lk.Mixture([lk.Gaussian()] * 2, odds=[1.0, 2.0]), "vector of 1"),
        (lambda: lk.Binomial(0), "positive integers"),
        (lambda: lk.OrdinalProbit([1.0, 0.0]), "increasing"),
        (lambda: lk.OrdinalProbit(), "give thresholds"),
        (lambda: lk.Softmax(1), "n_classes"),
        (lambda: lk.OneVsRest(2), "n_classes must be an integer >= 3"),
        (lambda: lk.OneVsRest(3, lk.Poisson()), "labels -1 and .1, got Poisson"),
        (lambda: lk.StudentT(df=-1.0), "df"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_good_targets_pass():
    np.testing.assert_array_equal(lk.Probit().check([1, -1]), [1.0, -1.0])
    np.testing.assert_array_equal(lk.Binomial([3, 4]).check([3, 0]), [3.0, 0.0])
    np.testing.assert_array_equal(lk.Mixture([lk.Gaussian()] * 2).check([0.5]), [0.5])
    assert lk.Mixture([lk.Poisson(), lk.NegativeBinomial()]).discrete
    assert not lk.Mixture([lk.Laplace(), lk.Gaussian()]).smooth


def test_per_point_constants_follow_their_rows():
    noise = lk.KnownNoise([0.1, 0.2, 0.3], 0.5)
    np.testing.assert_allclose(noise.rows([2, 0]).variances, [0.3, 0.1])
    np.testing.assert_allclose(noise.at([1.0]).noise_variances(1)[0], [1.5])
    np.testing.assert_allclose(noise.min_cavity_precision, -1 / np.array([0.6, 0.7, 0.8]))
    with pytest.raises(ValueError, match="variances_of_these_points"):
        noise.predictive([0.0], [1.0])
    np.testing.assert_array_equal(lk.Binomial([3, 4, 5]).rows([1]).trials, [4])
    assert lk.Binomial(3).rows([1, 2]).trials == 3
    mixed = lk.Mixture([noise, lk.Gaussian(2.0)])
    np.testing.assert_allclose(mixed.rows([1]).components[0].variances, [0.2])
    np.testing.assert_allclose(mixed.min_cavity_precision, [-0.5, -0.5, -0.5])
    y, f = np.zeros(3), np.linspace(-1, 1, 6).reshape(2, 3)
    rows = [mixed.rows([i]).log_prob(y[i : i + 1], f[:, i : i + 1])[:, 0] for i in range(3)]
    np.testing.assert_allclose(mixed.log_prob(y, f), np.stack(rows, axis=1))
    # quadrature asks for the rows it needs
    t = mixed.tilted(np.array([0.1, 0.5, -1.0]), np.zeros(3), np.ones(3), 0.5)
    alone = mixed.rows([2]).tilted(np.array([-1.0]), np.zeros(1), np.ones(1), 0.5)
    np.testing.assert_allclose(t.mean[2], alone.mean[0], rtol=1e-12)


def test_unsupported_questions_name_the_alternative():
    with pytest.raises(ValueError, match="use EP, or Probit"):
        lk.Heaviside().expected_log_prob(np.ones(1), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="Laplace or variational"):
        lk.Softmax(3).tilted(np.ones(1), np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="use latent_derivatives"):
        lk.Softmax(3).derivatives(np.ones(1), np.ones((1, 3)))
    with pytest.raises(ValueError, match="use latent_parameter_derivatives"):
        lk.Softmax(3).parameter_derivatives(np.ones(1), np.ones((1, 3)))
