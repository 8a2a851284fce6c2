"""Exact moments at uncertain inputs: against Monte Carlo, closed forms, point predictions and differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cavity import GP, kernels, likelihoods
from cavity.control import GaussianMoments, NotAnalyticError
from cavity.control.uncertain_inputs.decomposition import AnalyticOutput
from cavity.means.basis import Basis
from cavity.means.functions import Linear

NAMES = ("mean", "covariance", "cross", "gain")
NOISE = 0.05


def data(n=25, D=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, D))
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, -1], X[:, 0] * X[:, -1], np.cos(X[:, 1 % D]) - X[:, 0]])
    return X, Y + np.sqrt(NOISE) * rng.standard_normal(Y.shape)


def distribution(D=3, seed=1, size=0.5):
    rng = np.random.default_rng(seed)
    A = size * rng.standard_normal((D, D))
    return 0.5 * rng.standard_normal(D), A @ A.T


def condition(kernel, y, X, mean=None):
    return GP(kernel, likelihoods.Gaussian(NOISE), mean=mean).condition(X, y)


def three_models(X, Y):
    """One model of every kind that has closed-form moments."""
    SE, loadings = kernels.SE, np.array([[0.5], [-0.3], [0.8]])
    return [
        condition(1.1 * SE(np.array([1.0, 1.3, 2.0])), Y[:, 0], X, Linear(0.3, [0.1, -0.2, 0.5])),
        condition(
            1.2 * SE(1.5, loadings=loadings) + 0.5 * SE(0.8).on([0, 1]) + kernels.Linear(0.7, 0.3), Y[:, 1], X
        ),
        condition(0.9 * SE(1.2) + kernels.White(0.02), Y[:, 2], X, Basis("linear")),
    ]


KINDS = {
    "scalar": (1.3 * kernels.SE(1.1), None),
    "ard": (0.7 * kernels.SE(np.array([0.8, 1.5, 3.0])), "constant"),
    "factor analysis": (kernels.SE(1.5, loadings=np.array([[0.6], [0.2], [-0.9]])), None),
    "sum": (kernels.SE(0.7) + 2.0 * kernels.SE(np.array([2.0, 1.0, 4.0])), None),
    "product on columns": (1.5 * kernels.SE(0.9).on([0]) * (kernels.SE(2.0).on([1, 2]) + 0.5), None),
    "power": (kernels.SE(1.7) ** 2, None),
    "linear": (kernels.Linear(np.array([0.5, 1.0, 0.2]), 0.4), None),
    "sum of SE and linear": (kernels.SE(1.2) + kernels.Linear(0.5), Linear(0.2, [0.3, 0.0, -1.0])),
    "vague linear basis": (kernels.SE(1.0), Basis("linear")),
}


def monte_carlo(posteriors, m, S, count, seed=3, noise=0.0):
    """Estimates and standard errors of mean, covariance and cross-covariance."""
    x = np.random.default_rng(seed).multivariate_normal(m, S, size=count)
    f = np.column_stack([p.mean(x) for p in posteriors])
    v = np.column_stack([p.variance(x) for p in posteriors]) + noise
    d, e = f - f.mean(0), x - m

    def product(a, b):
        value = a.T @ b / count
        return value, np.sqrt(((a * a).T @ (b * b) / count - value**2) / count)

    covariance, error = product(d, d)
    own = d * d + v  # on the diagonal: law of total variance
    np.fill_diagonal(covariance, own.mean(0))
    np.fill_diagonal(error, own.std(0) / np.sqrt(count))
    return (f.mean(0), f.std(0) / np.sqrt(count)), (covariance, error), product(e, d)


def test_every_kind_and_all_of_them_jointly_agree_with_a_million_samples():
    X, Y = data(n=4)
    posteriors = [condition(kernel, Y[:, k % 3], X, mean) for k, (kernel, mean) in enumerate(KINDS.values())]
    m, S = distribution()
    result, _ = GaussianMoments.of(posteriors, noise=True).forward(m, S)
    assert result.method == "exact"
    sampled = monte_carlo(posteriors, m, S, 1_000_000, noise=NOISE)
    for name, (value, error) in zip(("mean", "covariance", "cross"), sampled):
        np.testing.assert_array_less(np.abs(getattr(result, name) - value) / error, 4.0, err_msg=name)


def test_without_uncertainty_it_is_the_point_prediction():
    X, Y = data()
    posteriors = three_models(X, Y)
    m, _ = distribution()
    result, _ = GaussianMoments.of(posteriors).forward(m, np.zeros((3, 3)))
    np.testing.assert_allclose(result.mean, [p.mean(m[None])[0] for p in posteriors], rtol=1e-12)
    variance = [p.variance(m[None])[0] for p in posteriors]
    np.testing.assert_allclose(result.covariance, np.diag(variance), rtol=1e-9, atol=1e-12)
    slopes = np.column_stack([p.mean_gradient(m[None])[0] for p in posteriors])
    np.testing.assert_allclose(result.gain, slopes, rtol=1e-10)
    np.testing.assert_array_equal(result.cross, 0.0)


def test_a_linear_model_is_the_textbook_formula():
    # f = w'x with w ~ N(mu_w, C): E f = mu_w'm, Var f = mu_w'S mu_w + m'C m + tr(C S)
    X, Y = data()
    posterior = condition(kernels.Linear(1.5, 0.0), Y[:, 0], X)
    m, S = distribution()
    C = np.linalg.inv(np.eye(3) / 1.5 + X.T @ X / NOISE)
    w = C @ X.T @ Y[:, 0] / NOISE
    result, _ = GaussianMoments.of(posterior).forward(m, S)
    np.testing.assert_allclose(result.mean, [w @ m], rtol=1e-10)
    np.testing.assert_allclose(result.covariance, [[w @ S @ w + m @ C @ m + np.sum(C * S)]], rtol=1e-9)
    np.testing.assert_allclose(result.cross[:, 0], S @ w, rtol=1e-10)


def test_zero_variance_of_one_input_is_the_limit_of_a_small_one():
    X, Y = data()
    moments = GaussianMoments.of(three_models(X, Y))
    m, S = distribution()
    S[2], S[:, 2] = 0.0, 0.0
    exact, _ = moments.forward(m, S)
    S[2, 2] = 1e-9
    near, _ = moments.forward(m, S)
    for name in NAMES:
        np.testing.assert_allclose(getattr(exact, name), getattr(near, name), atol=1e-7)


def weighted(result, weights):
    return sum(np.sum(w * getattr(result, name)) for name, w in zip(NAMES, weights))


def differences(function, m, S, h=1e-5):
    """Central differences in m and, symmetrically, in S."""
    D = len(m)
    d_m = np.array([(function(m + h * e, S) - function(m - h * e, S)) / (2 * h) for e in np.eye(D)])
    d_S = np.zeros((D, D))
    for i in range(D):
        for j in range(D):
            step = np.zeros((D, D))
            step[i, j] += 0.5 * h
            step[j, i] += 0.5 * h
            d_S[i, j] = (function(m, S + step) - function(m, S - step)) / (2 * h)
    return d_m, d_S


@pytest.mark.parametrize("singular", [False, True])
def test_the_pull_agrees_with_differences(singular):
    X, Y = data()
    moments = GaussianMoments.of(three_models(X, Y))
    m, S = distribution()
    if singular:
        S[1], S[:, 1] = 0.0, 0.0
    result, cache = moments.forward(m, S)
    rng = np.random.default_rng(5)
    for used in range(len(NAMES)):  # each result on its own
        weights = [rng.standard_normal(getattr(result, n).shape) * (k == used) for k, n in enumerate(NAMES)]
        d_m, d_S = moments.pull(cache, *weights)
        want_m, want_S = differences(
            lambda a, B, w=weights: weighted(moments.forward(a, B, check=False)[0], w), m, S
        )
        scale = max(np.abs(want_m).max(), np.abs(want_S).max())
        np.testing.assert_allclose(d_m, want_m, atol=1e-8 * scale)
        np.testing.assert_allclose(d_S, want_S, atol=1e-8 * scale)
        np.testing.assert_array_equal(d_S, d_S.T)


def test_a_batch_is_its_members():
    X, Y = data()
    moments = GaussianMoments.of(three_models(X, Y))
    inputs = [distribution(seed=s) for s in range(3)]
    m, S = np.stack([a for a, _ in inputs]), np.stack([b for _, b in inputs])
    result, cache = moments.forward(m, S)
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(getattr(result, name).shape) for name in NAMES]
    d_m, d_S = moments.pull(cache, *weights)
    for k in range(3):
        one, c = moments.forward(m[k], S[k])
        for name in NAMES:
            np.testing.assert_array_equal(getattr(result, name)[k], getattr(one, name))
        a, B = moments.pull(c, *(w[k] for w in weights))
        np.testing.assert_array_equal(d_m[k], a)
        np.testing.assert_array_equal(d_S[k], B)
    empty, nothing = moments.forward(np.zeros((0, 3)), np.zeros((0, 3, 3)))
    assert empty.covariance.shape == (0, 3, 3)
    assert nothing == []


def test_mean_only_is_the_mean_at_points_with_its_gradient():
    X, Y = data()
    posteriors = three_models(X, Y)
    posteriors[0] = condition(kernels.SE(1.0), Y[:10, 0], X[:10])  # another number of centers
    moments = GaussianMoments.of(posteriors)
    x = np.random.default_rng(2).standard_normal((5, 3))
    mean, cache = moments.mean_only.forward(x)
    np.testing.assert_allclose(mean, np.column_stack([p.mean(x) for p in posteriors]), rtol=1e-11)
    d = np.random.default_rng(3).standard_normal(mean.shape)
    want = sum(d[:, [a]] * p.mean_gradient(x) for a, p in enumerate(posteriors))
    np.testing.assert_allclose(moments.mean_only.pull(cache, d), want, rtol=1e-10)


def test_targets_of_one_posterior_are_outputs_and_arrays_give_the_same():
    X, Y = data()
    scales = np.array([1.0, 1.5, 2.0])
    joint = condition(0.9 * kernels.SE(scales), Y[:, :2], X)
    m, S = distribution()
    result, _ = GaussianMoments.of(joint).forward(m, S)
    apart, _ = GaussianMoments.of([condition(0.9 * kernels.SE(scales), Y[:, k], X) for k in (0, 1)]).forward(
        m, S
    )
    R = np.linalg.inv(0.9 * kernels.SE(scales)(X) + NOISE * np.eye(len(X)))
    bump, nothing = ((0.9, np.diag(scales**-2.0)),), np.zeros((4, 4))
    arrays = GaussianMoments(
        [AnalyticOutput(X, bump, R @ y, R, np.zeros(4), 0.9, nothing) for y in Y[:, :2].T]
    )
    for name in NAMES:
        np.testing.assert_allclose(getattr(result, name), getattr(apart, name), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            getattr(result, name), getattr(arrays.forward(m, S)[0], name), rtol=1e-8, atol=1e-10
        )


def test_a_robust_posterior_has_exact_latent_moments():
    X, Y = data(n=20)
    posterior = GP(
        1.0 * kernels.SE(1.3), likelihoods.StudentT(scale=0.3, df=4.0), inference="laplace"
    ).condition(X, Y[:, 0])
    m, S = distribution()
    result, _ = GaussianMoments.of(posterior).forward(m, S)
    noisy, _ = GaussianMoments.of(posterior, noise=True).forward(m, S)
    (mean, mean_error), (cov, cov_error), _ = monte_carlo([posterior], m, S, 200_000)
    assert np.all(np.abs(result.mean - mean) < 4 * mean_error)
    assert np.all(np.abs(result.covariance - cov) < 4 * cov_error)
    noise = posterior.model.likelihood.predictive(np.zeros(1), np.zeros(1)).variance[0]
    np.testing.assert_allclose(noisy.covariance - result.covariance, noise)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "S", "text"),
    [
        ([0.0, 0.0], np.eye(2), "mean must have shape"),
        ([0.0, 0.0, 0.0], np.eye(2), "cov must have shape"),
        ([0.0, np.nan, 0.0], np.eye(3), "mean must be finite, got nan"),
        ([0.0, 0.0, 0.0], np.diag([1.0, np.inf, 1.0]), "cov must be finite"),
        (
            [0.0, 0.0, 0.0],
            np.diag([1.0, -0.1, 1.0]),
            "positive semi-definite, its smallest eigenvalue is -0.1",
        ),
        ([0.0, 0.0, 0.0], np.triu(np.ones((3, 3))), "must be symmetric"),
    ],
)
def test_bad_input_distributions_are_refused(m, S, text):
    X, Y = data()
    moments = GaussianMoments.of(condition(kernels.SE(1.0), Y[:, 0], X))
    with pytest.raises(ValueError, match=text):
        moments.forward(m, S)


def test_bad_adjoints_and_outputs_are_refused():
    X, Y = data()
    posterior = condition(kernels.SE(1.0), Y[:, 0], X)
    moments = GaussianMoments.of(posterior)
    _, cache = moments.forward(*distribution())
    with pytest.raises(ValueError, match=r"d_cov must have shape \(1, 1\)"):
        moments.pull(cache, d_cov=np.zeros(2))
    with pytest.raises(ValueError, match="at least one output"):
        GaussianMoments([])
    with pytest.raises(ValueError, match="same inputs"):
        GaussianMoments.of([posterior, condition(kernels.SE(1.0), Y[:, 0], X[:, :2])])
    with pytest.raises(ValueError, match="noise must be 1 variances"):
        GaussianMoments(moments.outputs, [-1.0])


@pytest.mark.parametrize(
    ("kernel", "mean"),
    [
        (kernels.Matern(1.0), None),
        (kernels.SE(1.0) * kernels.Linear(1.0), None),
        (kernels.White(1.0) * kernels.SE(1.0) + kernels.SE(1.0), None),
        (kernels.SE(1.0), lambda X: X[:, 0] ** 2),
        (kernels.SE(1.0), Basis("quadratic")),
    ],
)
def test_what_has_no_closed_form_says_so(kernel, mean):
    X, Y = data()
    with pytest.raises(NotAnalyticError, match="closed-form"):
        GaussianMoments.of(condition(kernel, Y[:, 0], X, mean))


# --- rounding -----------------------------------------------------------------------------------------------


def test_variances_that_rounding_has_eaten_are_told():
    """A signal of sd 1000 with noise of sd 0.001: variances are differences of numbers 10^12 times as large."""
    X = data(40, 2)[0]
    sure = GP(1e6 * kernels.SE(3.0), likelihoods.Gaussian(1e-6)).condition(X, np.sin(X[:, 0]))
    with pytest.warns(UserWarning, match=r"variances of output 1 .* are lost in rounding.*least_noise"):
        moments = GaussianMoments.of([condition(kernels.SE(1.0), np.sin(X[:, 0]), X), sure])
    result, _ = moments.forward(X[0], np.zeros((2, 2)))
    assert abs(result.variance[1] - sure.variance(X[:1])[0]) > 1.0  # so the warning is true
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for noise in (1e-2, 1e-6):  # down to a thousandth of the signal
            model = GP(kernels.SE(3.0), likelihoods.Gaussian(noise)).condition(X, np.sin(X[:, 0]))
            found, _ = GaussianMoments.of(model).forward(X[1] + 0.1, np.zeros((2, 2)))
            np.testing.assert_allclose(found.variance, model.variance(X[1:2] + 0.1), rtol=1e-2)
