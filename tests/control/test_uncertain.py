"""`predict_gaussian`: which method is used, polynomial kernels, the points where there is no closed form."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, control, kernels, likelihoods
from cavity.control import NotAnalyticError, predict_gaussian
from cavity.control.uncertain_inputs import cubature
from cavity.control.uncertain_inputs.polynomial_moments import PolynomialMoments
from cavity.means.basis import Basis

NAMES = ("mean", "covariance", "cross", "gain")
NOISE = 0.05


def data(n=30, D=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (n, D))
    Y = np.column_stack([X[:, 0] ** 2 + X[:, 1], X[:, 0] * X[:, 1] - 0.5])
    return X, Y + np.sqrt(NOISE) * rng.standard_normal(Y.shape)


def condition(kernel, y, X, mean=None, likelihood=None):
    return GP(kernel, likelihood or likelihoods.Gaussian(NOISE), mean=mean).condition(X, y)


M, S = np.array([0.3, -0.4]), np.array([[0.2, 0.05], [0.05, 0.1]])


def monte_carlo(posteriors, count, seed=3, noise=0.0):
    x = np.random.default_rng(seed).multivariate_normal(M, S, size=count)
    f = np.column_stack([p.mean(x) for p in posteriors])
    v = np.column_stack([p.variance(x) for p in posteriors]) + noise
    d, e = f - f.mean(0), x - M

    def product(a, b):
        value = a.T @ b / count
        return value, np.sqrt(((a * a).T @ (b * b) / count - value**2) / count)

    covariance, error = product(d, d)
    own = d * d + v
    np.fill_diagonal(covariance, own.mean(0))
    np.fill_diagonal(error, own.std(0) / np.sqrt(count))
    return {
        "mean": (f.mean(0), f.std(0) / np.sqrt(count)),
        "covariance": (covariance, error),
        "cross": product(e, d),
    }


def polynomial_models(X, Y):
    Linear, Polynomial = kernels.Linear, kernels.Polynomial
    return [
        condition(Polynomial(3, np.array([0.5, 0.8]), 0.7), Y[:, 0], X, "linear"),
        condition(0.5 * Polynomial(2).on([1]) * Linear(0.4).on([0]) + kernels.White(0.01), Y[:, 1], X),
        condition(Linear(1.0) ** 2 + kernels.Constant(0.3), Y[:, 0], X, "constant"),
    ]


def test_polynomial_kernels_agree_with_a_million_samples():
    X, Y = data(n=6)
    posteriors = polynomial_models(X, Y)
    result = predict_gaussian(posteriors, M, S, noise=True)
    assert result.method == "exact"
    for name, (value, error) in monte_carlo(posteriors, 1_000_000, noise=NOISE).items():
        np.testing.assert_array_less(np.abs(getattr(result, name) - value), 4 * error, err_msg=name)


def test_polynomials_without_uncertainty_are_the_point_prediction():
    X, Y = data()
    posteriors = polynomial_models(X, Y)
    result = predict_gaussian(posteriors, M, np.zeros((2, 2)))
    np.testing.assert_allclose(result.mean, [p.mean(M[None])[0] for p in posteriors], rtol=1e-9)
    variance = [p.variance(M[None])[0] for p in posteriors]
    np.testing.assert_allclose(result.covariance, np.diag(variance), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("cov", [S, np.diag([0.3, 0.0])])
def test_the_pull_of_polynomials_agrees_with_differences(cov):
    X, Y = data()
    moments = control.exact_moments(polynomial_models(X, Y))
    assert isinstance(moments, PolynomialMoments)
    result, cache = moments.forward(M, cov)
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal(getattr(result, name).shape) for name in NAMES]

    def value(a, B):
        r, _ = moments.forward(a, B, check=False)
        return sum(np.sum(w * getattr(r, name)) for name, w in zip(NAMES, weights))

    d_m, d_S = moments.pull(cache, *weights)
    h = 1e-5
    for i in range(2):
        step = np.eye(2)[i] * h
        np.testing.assert_allclose(d_m[i], (value(M + step, cov) - value(M - step, cov)) / (2 * h), rtol=1e-7)
        for j in range(2):
            step = np.zeros((2, 2))
            step[i, j] += 0.5 * h
            step[j, i] += 0.5 * h
            want = (value(M, cov + step) - value(M, cov - step)) / (2 * h)
            np.testing.assert_allclose(d_S[i, j], want, rtol=1e-7)
    both, caches = moments.forward(np.stack([M, M + 1]), np.stack([cov, cov]))
    np.testing.assert_array_equal(both.covariance[0], result.covariance)
    pulled = moments.pull(caches, *(np.stack([w, w]) for w in weights))
    np.testing.assert_array_equal(pulled[0][0], d_m)
    np.testing.assert_array_equal(pulled[1][0], d_S)


def test_what_is_not_polynomial_says_so():
    X, Y = data()
    for kernel, mean in (
        (kernels.Polynomial(2) + kernels.SE(1.0), None),
        (kernels.Polynomial(2) * kernels.White(1.0) + kernels.Linear(1.0), None),
        (kernels.Polynomial(2), Basis("linear")),
    ):
        with pytest.raises(NotAnalyticError):
            control.exact_moments(condition(kernel, Y[:, 0], X, mean))


# --- points -------------------------------------------------------------------------------------------------


def test_points_agree_with_the_exact_moments_of_a_squared_exponential():
    X, Y = data()
    posteriors = [condition(kernels.SE(1.5), Y[:, k], X) for k in (0, 1)]
    exact = predict_gaussian(posteriors, M, S, noise=True)
    for method, tolerance in (("gauss-hermite", 1e-6), ("unscented", 0.05)):
        near = predict_gaussian(posteriors, M, S, noise=True, method=method)
        assert near.method == method
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(near, name), getattr(exact, name), atol=tolerance, err_msg=method
            )
    drawn = predict_gaussian(posteriors, M, S, noise=True, method="monte-carlo", size=20_000)
    assert drawn.method == "monte-carlo"
    # antithetic draws of an even function are as good as half as many independent ones
    for name, (_, error) in monte_carlo(posteriors, 10_000).items():
        np.testing.assert_array_less(np.abs(getattr(drawn, name) - getattr(exact, name)), 4 * error)
    np.testing.assert_allclose(S @ drawn.gain, drawn.cross, rtol=1e-9)


@pytest.mark.parametrize(("length", "tolerance"), [(0.5, 2e-3), (2.0, 2e-4)])
def test_inputs_that_are_uncertain_over_many_length_scales(length, tolerance):
    """Against sums over a grid that is much finer than the function."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (40, 1))
    posterior = condition(kernels.Matern(length, nu=1.5), np.sin(2 * X[:, 0]), X)
    sd = 2.0
    x = np.linspace(-8 * sd, 8 * sd, 4001)
    w = np.exp(-0.5 * (x / sd) ** 2)
    w /= w.sum()
    f, v = posterior.mean(x[:, None]), posterior.variance(x[:, None])
    mean = w @ f
    result = posterior.predict_gaussian([0.0], [[sd**2]])
    assert result.method == "gauss-hermite"
    assert abs(result.mean[0] - mean) < tolerance
    assert abs(result.sd[0] - np.sqrt(w @ (f - mean) ** 2 + w @ v)) < tolerance
    assert abs(result.cross[0, 0] - w @ (x * f)) < tolerance * sd


def test_other_kernels_are_approximated_and_say_how():
    X, Y = data(n=10)
    posterior = condition(kernels.Matern(1.0, nu=2.5), Y[:, 0], X)
    result = posterior.predict_gaussian(M, S)
    assert result.method == "gauss-hermite"
    for name, (value, error) in monte_carlo([posterior], 1_000_000).items():
        np.testing.assert_array_less(np.abs(getattr(result, name) - value), 4 * error, err_msg=name)
    with pytest.raises(NotAnalyticError, match="Matern"):
        posterior.predict_gaussian(M, S, method="exact")
    batch = posterior.predict_gaussian(np.stack([M, M]), S)
    np.testing.assert_array_equal(batch.mean[1], result.mean)
    assert batch.method == "gauss-hermite"


def test_inputs_without_variance_cost_no_points_and_keep_the_cross_covariance():
    X, Y = data()
    posterior = condition(kernels.Matern(1.0, nu=2.5), Y[:, 0], X)
    result = posterior.predict_gaussian(M, np.diag([0.2, 0.0]))
    np.testing.assert_allclose(np.diag([0.2, 0.0]) @ result.gain, result.cross, atol=1e-12)
    known = posterior.predict_gaussian(M, np.zeros((2, 2)))
    np.testing.assert_allclose(known.mean, posterior.mean(M[None]))
    np.testing.assert_allclose(known.covariance[0], posterior.variance(M[None]))


def test_labels_are_averaged_over_the_input():
    X, Y = data()
    labels = np.where(Y[:, 0] > 0.5, 1, -1)
    model = GP(2.0 * kernels.SE(1.0), likelihoods.Probit())
    posterior = model.condition(X, labels)
    assert posterior.predict_gaussian(M, S).method == "exact"  # the latent function
    result = posterior.predict_gaussian(M, S, noise=True)
    assert result.method == "gauss-hermite"
    x = np.random.default_rng(0).multivariate_normal(M, S, size=20_000)
    prediction = posterior.predict_y(x)
    error = prediction.mean.std() / np.sqrt(len(x))
    assert abs(result.mean[0] - prediction.mean.mean()) < 4 * error
    total = prediction.variance.mean() + prediction.mean.var()
    np.testing.assert_allclose(result.covariance, [[total]], atol=0.02)


def test_several_latent_functions_go_through_points():
    X, Y = data()
    classes = (Y[:, 0] > 0).astype(int) + (Y[:, 0] > 1)
    posterior = GP(1.0 * kernels.SE(1.0), likelihoods.Softmax(3), inference="laplace").condition(X, classes)
    result = posterior.predict_gaussian(M, S)
    assert result.method == "gauss-hermite"
    assert result.covariance.shape == (3, 3)
    x = np.random.default_rng(0).multivariate_normal(M, S, size=20_000)
    f = posterior.mean(x)
    np.testing.assert_array_less(np.abs(result.mean - f.mean(0)), 4 * f.std(0) / np.sqrt(len(x)))
    with pytest.raises(ValueError, match="latent functions"):
        posterior.predict_gaussian(M, S, noise=True)


def test_robust_noise_is_added_and_refused_where_infinite():
    X, Y = data()
    wide = condition(kernels.SE(1.0), Y[:, 0], X, likelihood=likelihoods.StudentT(scale=0.2, df=1.5))
    assert wide.predict_gaussian(M, S).method == "exact"
    with pytest.raises(ValueError, match="no finite noise variance"):
        wide.predict_gaussian(M, S, noise=True)
    with pytest.raises(ValueError, match="no finite variance"):
        wide.predict_gaussian(M, S, noise=True, method="unscented")


def test_many_directions_are_drawn():
    assert cubature.choose_method(2) == "gauss-hermite"
    assert cubature.choose_method(8) == "monte-carlo"
    with pytest.raises(ValueError, match="would need"):
        cubature.standard_points("gauss-hermite", 8, None, np.random.default_rng(0))


@pytest.mark.parametrize("directions", [1, 2, 5])
def test_unscented_points_have_the_moments_of_a_standard_normal(directions):
    z, w = cubature.standard_points("unscented", directions, None, np.random.default_rng(0))
    assert np.all(w > 0)
    np.testing.assert_allclose(w.sum(), 1.0)
    np.testing.assert_allclose(w @ z, 0.0, atol=1e-12)
    np.testing.assert_allclose((z * w[:, None]).T @ z, np.eye(directions), atol=1e-12)
    if directions <= 2:
        np.testing.assert_allclose(w @ z**4, 3.0)


def test_bad_input_is_refused():
    X, Y = data()
    posterior = condition(kernels.SE(1.0), Y[:, 0], X)
    other = condition(kernels.SE(1.0), Y[:, 0], X[:, :1])
    cases = [
        (lambda: predict_gaussian([], M, S), "posteriors is empty"),
        (lambda: predict_gaussian(posterior, M, S, method="magic"), "method must be"),
        (lambda: predict_gaussian([posterior, other], M, S), "same inputs"),
        (lambda: predict_gaussian(posterior, M[:1], S), "mean must have shape"),
        (lambda: predict_gaussian(posterior, M, -S), "positive semi-definite"),
        (lambda: predict_gaussian(posterior, [np.nan, 0.0], S), "must be finite"),
        (lambda: predict_gaussian(posterior, np.zeros((0, 2)), S, method="unscented"), "empty batch"),
    ]
    for call, text in cases:
        with pytest.raises(ValueError, match=text):
            call()
    variances = predict_gaussian(posterior, M, np.diagonal(S))
    np.testing.assert_array_equal(
        variances.covariance, predict_gaussian(posterior, M, np.diag(np.diagonal(S))).covariance
    )
    np.testing.assert_allclose(variances.sd**2, variances.variance)
