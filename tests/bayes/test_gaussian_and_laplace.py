"""The algebra of Gaussians, Laplace's method and truncation, against closed forms, quadrature and Monte Carlo."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, log_expit
from scipy.stats import multivariate_normal

from cavity.bayes import Gaussian, laplace, truncate
from cavity.runtime.errors import InputError

C = np.array([[1.0, -1.0], [-1.0, 3.0]])


def test_conditionals_marginals_and_maps():
    x = Gaussian([0.0, 0.0], C)
    seen = x.given([1], [2.0])
    assert (seen.mean[0], seen.covariance[0, 0]) == pytest.approx((-2 / 3, 2 / 3))
    assert x.marginal([0]).covariance[0, 0] == pytest.approx(1.0)
    A = np.array([[0.2, -0.6], [0.5, 0.3]])
    y = A @ x + [1.0, -1.0]
    assert y.mean == pytest.approx([1.0, -1.0])
    assert y.covariance == pytest.approx(np.array([[1.36, -0.2], [-0.2, 0.22]]))
    assert x.mahalanobis([1.0, 2.0]) == pytest.approx(2.345207880, abs=1e-9)
    assert x.log_prob([0.0, 0.0]) == pytest.approx(-2.184450657, abs=1e-9)
    assert x.log_prob([[0.3, 0.1], [1.0, -2.0]]) == pytest.approx(
        multivariate_normal([0, 0], C).logpdf([[0.3, 0.1], [1.0, -2.0]])
    )
    axes = x.axes(0.9)
    assert [x.mahalanobis(column) for column in axes.T] == pytest.approx(
        [np.sqrt(stats.chi2(2).ppf(0.9))] * 2
    )


def test_product_and_quotient():
    x, y = Gaussian([0.0, 0.0], C), Gaussian([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])
    product, log_scale = x.product(y)
    assert product.covariance == pytest.approx(
        np.array([[0.4893617021, -0.0638297872], [-0.0638297872, 0.6170212766]]), abs=1e-9
    )
    assert product.mean == pytest.approx([-0.1276595745, 1.2340425532], abs=1e-9)
    assert np.exp(log_scale) == pytest.approx(0.0215849032, abs=1e-9)
    at = [0.3, -0.4]
    assert x.log_prob(at) + y.log_prob(at) == pytest.approx(log_scale + product.log_prob(at), rel=1e-12)
    back = (x * y) / y
    assert (back.mean, back.covariance) == (pytest.approx(x.mean, abs=1e-12), pytest.approx(C))
    with pytest.raises(InputError, match="positive precision"):
        _ = x / Gaussian([0.0, 0.0], 0.1 * C)


def test_divergence_and_entropy():
    assert Gaussian([0.0], 1.0).kl(Gaussian([1.0], 4.0)) == pytest.approx(0.4431471806, abs=1e-9)
    assert Gaussian([1.0], 4.0).kl(Gaussian([0.0], 1.0)) == pytest.approx(1.3068528194, abs=1e-9)
    assert Gaussian([0.0, 0.0], C).entropy == pytest.approx(multivariate_normal([0, 0], C).entropy())
    total = Gaussian([1.0, 0.0], C) + Gaussian([0.0, 2.0], [1.0, 2.0])
    assert total.mean == pytest.approx([1.0, 2.0])
    assert total.covariance == pytest.approx(C + np.diag([1.0, 2.0]))
    draws = total.sample(40_000, rng=0)
    assert np.cov(draws.T) == pytest.approx(total.covariance, abs=0.12)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda: Gaussian([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Gaussian([0.0, 0.0], [[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (lambda: Gaussian([0.0], np.eye(2)), "shape"),
        (lambda: Gaussian([0.0, 0.0], C).given([0, 1], [1.0, 1.0]), "none is left"),
        (lambda: Gaussian([0.0, 0.0], C).marginal([0, 0]), "different coordinates"),
        (lambda: Gaussian([0.0, 0.0], C).affine([[1.0]]), "2 columns"),
        (lambda: truncate(Gaussian([0.0], 1.0), 1.0, 0.0), "below high"),
        (lambda: truncate(Gaussian([0.0], 1.0), [0.0, 1.0], planes=[[1.0], [-1.0]]), "no room"),
        (lambda: truncate(Gaussian([0.0], 1.0), 0.0, planes=[[0.0]]), "row of zeros"),
        (lambda: laplace(lambda x: 0.0, []), "vector of numbers"),
        (lambda: laplace(lambda x: float(x[0]), [0.0]), "no mode"),
    ],
)
def test_bad_gaussians(bad, words):
    with pytest.raises(InputError, match=words):
        bad()


# --- Laplace's method ---------------------------------------------------------------------------------------

INPUTS = np.column_stack([np.ones(6), [-2, -1, -0.5, 0.5, 1, 2]])
SIGNS = np.array([-1, -1, 1, -1, 1, 1])


def logistic(w):
    return float(np.sum(log_expit(SIGNS * (INPUTS @ w))) - w @ w / 8 - np.log(8 * np.pi))


def logistic_gradient(w):
    return INPUTS.T @ (SIGNS * np.exp(log_expit(-SIGNS * (INPUTS @ w)))) - w / 4


@pytest.mark.parametrize("gradient", [None, logistic_gradient])
def test_logistic_regression_by_laplace(gradient):
    found = laplace(logistic, [0.3, -0.2], gradient)
    assert found.gaussian.mean == pytest.approx([0.0, 1.0927231866], abs=1e-8)
    assert np.diag(found.gaussian.covariance) == pytest.approx([0.785995334, 0.6807225246], abs=1e-8)
    assert found.log_integral == pytest.approx(-4.646030273, abs=1e-8)
    assert found.reliable
    assert found.log_integral_by_weights == pytest.approx(-4.529021426, abs=0.03)


def test_a_beta_density_by_laplace():
    def beta(t):
        return 9 * np.log(t[0]) + 5 * np.log1p(-t[0]) if 0 < t[0] < 1 else -np.inf

    found = laplace(beta, [0.5])
    assert found.gaussian.mean[0] == pytest.approx(9 / 14, abs=1e-9)
    assert found.gaussian.covariance[0, 0] == pytest.approx(0.0163994, abs=6e-8)
    log_normal = 0.5 * np.log(2 * np.pi * (9 * 5) / 14**3)
    assert found.log_integral == pytest.approx(beta([9 / 14]) + log_normal, abs=1e-8)
    assert found.log_integral_by_weights == pytest.approx(betaln(10, 6), abs=0.02)


def test_what_laplace_misses_is_flagged():
    cauchy = laplace(lambda t: float(np.sum(stats.cauchy.logpdf(t))), [0.1, 0.1])
    assert cauchy.k_hat > 0.7
    assert not cauchy.reliable
    assert "does not cover" in cauchy.message
    funnel = laplace(
        lambda t: float(-0.5 * t[0] ** 2 - 0.5 * t[1] ** 2 * np.exp(-3 * t[0]) - 1.5 * t[0]), [0.1, 0.1]
    )
    assert funnel.k_hat > 0.7
    scaled = laplace(lambda t: float(-0.5 * (t[0] * 1e6) ** 2 - 0.5 * (t[1] / 1e6) ** 2), [1e-6, 3e5])
    assert scaled.log_integral == pytest.approx(np.log(2 * np.pi), abs=1e-7)
    assert scaled.reliable
    with pytest.raises(InputError, match="start where it is positive"):
        laplace(lambda t: -np.inf, [0.0])
    with pytest.raises(InputError, match="no mode"):
        laplace(lambda t: 0.0, [0.0])


FUNNEL = [0.1, 0.1]


@pytest.mark.parametrize(
    ("log_density", "start", "reliable"),
    [
        (logistic, [0.3, -0.2], True),
        (lambda t: 2 * math.log(t[0]) - t[0] if t[0] > 0 else -math.inf, [2.0], True),  # a gamma density
        (lambda t: -0.5 * t[0] ** 2 - 0.5 * t[1] ** 2 * math.exp(-3 * t[0]) - 1.5 * t[0], FUNNEL, False),
        (lambda t: -math.log1p(t[0] ** 2) - math.log1p(t[1] ** 2), [0.1, 0.1], False),  # Cauchy
        (lambda t: float(np.logaddexp(-0.5 * (t[0] + 3) ** 2, -0.5 * (t[0] - 3) ** 2)), [2.9], False),
    ],
)
def test_the_check_says_the_same_for_every_seed(log_density, start, reliable):
    found = [laplace(log_density, start, rng=seed) for seed in range(20)]
    assert {one.reliable for one in found} == {reliable}
    errors = np.array([one.k_hat_error for one in found])
    spread = np.std([one.k_hat for one in found], ddof=1)
    assert spread / 2 < np.mean(errors) < 2 * spread  # the error that is stated is the one that is made


# --- truncation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "variance", "end", "expected"),
    [
        (0.0, 1.0, 0.0, (-0.7978845608, 0.3633802276)),
        (0.0, 1.0, 1.0, (-0.2875999709, 0.6296862858)),
        (0.0, 1.0, -1.0, (-1.5251352762, 0.1990976656)),
        (1.0, 4.0, 0.5, (-0.9271079588, 1.2498088944)),
    ],
)
def test_one_end(mean, variance, end, expected):
    found = truncate(Gaussian([mean], variance), high=end)
    assert (found.gaussian.mean[0], found.gaussian.covariance[0, 0]) == pytest.approx(expected, abs=1e-9)
    assert found.log_probability == pytest.approx(stats.norm(mean, np.sqrt(variance)).logcdf(end), abs=1e-9)
    mirrored = truncate(Gaussian([-mean], variance), low=-end)
    assert mirrored.gaussian.mean[0] == pytest.approx(-expected[0], abs=1e-9)


def test_an_interval():
    for low, high in ((-0.3, 0.4), (5.0, 5.5), (-np.inf, np.inf), (9.0, 30.0)):
        found = truncate(Gaussian([0.0], 1.0), low, high)
        exact = stats.truncnorm(low, high)
        assert found.gaussian.mean[0] == pytest.approx(exact.mean(), rel=1e-6, abs=1e-9)
        assert found.gaussian.covariance[0, 0] == pytest.approx(exact.var(), rel=1e-4)


def test_orthants_by_ep():
    three = truncate(Gaussian(np.zeros(3), 0.5 + 0.5 * np.eye(3)), low=0.0)
    assert three.log_probability - three.correction == pytest.approx(-1.3899509520, abs=1e-8)
    assert three.log_probability == pytest.approx(np.log(0.25), abs=4e-4)  # EP alone is off by 3.7e-3
    assert three.gaussian.mean == pytest.approx([0.9692970235] * 3, abs=1e-6)
    assert np.diag(three.gaussian.covariance) == pytest.approx([0.4194370711] * 3, abs=1e-6)
    two = truncate(Gaussian(np.zeros(2), [[1.0, -0.6], [-0.6, 1.0]]), low=0.0)
    assert np.exp(two.log_probability - two.correction) == pytest.approx(0.1477494929, abs=1e-9)
    assert np.exp(two.log_probability) == pytest.approx(0.1475836177, abs=2e-5)
    assert two.status.converged


def test_orthants_of_random_covariances_within_two_percent():
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(100):
        d = int(rng.integers(2, 6))
        L = rng.standard_normal((d, 2 * d))
        S = L @ L.T / (2 * d)
        mean = 0.5 * rng.standard_normal(d)
        found = truncate(Gaussian(mean, S), low=0.0)
        exact = multivariate_normal(-mean, S).cdf(np.zeros(d), rng=np.random.default_rng(0))
        worst = max(worst, abs(np.exp(found.log_probability) / exact - 1.0))
    assert worst < 0.02


def test_a_polyhedron_against_rejection():
    gaussian = Gaussian([0.2, -0.1], [[1.0, 0.3], [0.3, 0.5]])
    planes = np.array([[1.0, 1.0], [1.0, -1.0], [100.0, 0.0]])  # units of a plane do not matter
    low, high = [-1.0, -0.5, -np.inf], [1.0, np.inf, 150.0]
    found = truncate(gaussian, low, high, planes)
    draws = gaussian.sample(200_000, rng=0)
    values = draws @ planes.T
    kept = draws[np.all((values > low) & (values < high), axis=1)]
    share = len(kept) / len(draws)
    assert np.exp(found.log_probability) == pytest.approx(share, rel=0.03)
    assert found.gaussian.mean == pytest.approx(kept.mean(axis=0), abs=0.03)
    assert found.gaussian.covariance == pytest.approx(np.cov(kept.T), abs=0.03)
