"""Confidence bounds, knowledge gradient, Thompson draws, entropies, designs: the notes' values, and Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from cavity import GP
from cavity.design import greedy_design, information_gain, integrated_variance_design
from cavity.design.acquisition import (
    OnDemandDraw,
    above_minimum,
    draw_minima,
    draw_path,
    entropy_search,
    expected_maximum_gain,
    gibbon,
    gp_ucb_multiplier,
    gp_ucb_regret_bound,
    information,
    joint_draws,
    knowledge_gradient,
    lower_confidence_bound,
    max_value_entropy,
    multiplier_for,
    probability_of_minimum,
)
from cavity.kernels import SE, Matern
from cavity.latent.moments import moments_of
from cavity.likelihoods import Gaussian, StudentT
from cavity.runtime.errors import InputError
from tests.design import golden

NEW = ~golden.SEEN


def by_differences(function, m, v, h=1e-6):
    by_mean = (function(m + h, v).value - function(m - h, v).value) / (2 * h)
    by_variance = (function(m, v + h).value - function(m, v - h).value) / (2 * h)
    return by_mean, by_variance


@pytest.mark.parametrize(
    "function",
    [
        lambda m, v: lower_confidence_bound(m, v, 1.7),
        lambda m, v: information(m, v, 0.03),
        lambda m, v: max_value_entropy(m, v, np.array([-2.0, -1.5])),
        lambda m, v: gibbon(m, v, np.array([-2.0, -1.5]), 0.1),
        lambda m, v: gibbon(m, v, np.array([-2.0])),
    ],
)
def test_gradients_in_mean_and_variance(function):
    m, v = np.array([-1.4, 0.3, 2.0]), np.array([0.5, 0.2, 1.5])
    by_mean, by_variance = by_differences(function, m, v)
    score = function(m, v)
    np.testing.assert_allclose(score.d_mean, by_mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(score.d_variance, by_variance, rtol=1e-6, atol=1e-9)


def test_multipliers_of_the_notes():
    for p, beta in (
        (0.8, 0.8416212),
        (0.95, 1.6448536),
        (0.975, 1.9599640),
        (0.999, 3.0902323),
        (0.9999, 3.7190165),
    ):
        assert multiplier_for(p) == pytest.approx(beta, abs=5e-8)
    assert gp_ucb_multiplier(1, 11) == pytest.approx(3.2243389, abs=5e-8)
    assert gp_ucb_multiplier(10, 11) == pytest.approx(4.4279455, abs=5e-8)


def test_confidence_bounds_of_the_notes():
    mean, variance = golden.state()(golden.GRID)
    bound = lower_confidence_bound(mean[:, 0], variance, multiplier_for(0.999)).value
    expected = np.array(
        [2.315749872, 1.3326121215, 0.2, 1.5614863366, 1.8819737751, 1, 1.5484316937, 0.9679002121, -0.5, 0.709473084,
         1.8866463242]
    )  # fmt: skip
    np.testing.assert_allclose(bound[NEW], expected[NEW], atol=1e-8)
    assert int(np.argmax(bound)) == 0


def test_the_bound_of_gp_ucb_holds_on_draws_from_the_prior():
    grid, noise, T = np.linspace(0, 1, 40)[:, None], 0.01, 30
    kernel = 1.0 * SE(0.2)
    gain = greedy_design(kernel, grid, T, noise).value[-1] / (1 - 1 / np.e)
    bound = gp_ucb_regret_bound(T, len(grid), noise, gain)
    rng = np.random.default_rng(0)
    functions = GP(kernel).sample_prior(grid, size=20, rng=0)
    for f in functions:
        rows = [int(rng.integers(len(grid)))]
        y = [f[rows[0]] + 0.1 * rng.standard_normal()]
        for t in range(1, T):
            moments = moments_of(GP(kernel, Gaussian(noise)).condition(grid[rows], np.array(y)).process)
            mean, variance = moments(grid)
            score = lower_confidence_bound(mean[:, 0], variance, gp_ucb_multiplier(t, len(grid)))
            rows.append(int(np.argmax(score.value)))
            y.append(f[rows[-1]] + 0.1 * rng.standard_normal())
        assert np.sum(f[rows] - f.min()) <= bound


# --- knowledge gradient -------------------------------------------------------------------------------------


def test_knowledge_gradient_of_the_notes():
    found = knowledge_gradient(golden.state(), golden.GRID, golden.GRID)
    expected = [
        0.0628402616, 0.0789930683, 0, 0.0952021489, 0.1044060372, 0, 0.0939441221, 0.0742221091, 0, 0.028430523,
        0.0151154032,
    ]  # fmt: skip
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_envelope_against_monte_carlo_and_rounding_of_slopes():
    rng = np.random.default_rng(1)
    for _ in range(5):
        a, b = rng.standard_normal((2, 12))
        b[3:6] = b[3] * (1 + 1e-15 * np.arange(3))  # the same slope but for rounding
        Z = norm.ppf((np.arange(200_000) + 0.5) / 200_000)
        values = np.max(a[:, None] + b[:, None] * Z, axis=0)
        assert expected_maximum_gain(a, b) == pytest.approx(values.mean() - a.max(), abs=2e-5)
    assert expected_maximum_gain(np.array([1.0, 0.0]), np.zeros(2)) == 0.0


def test_noise_lowers_the_knowledge_gradient():
    exact = knowledge_gradient(golden.state(), golden.GRID, golden.GRID)
    noisy = knowledge_gradient(golden.state(), golden.GRID, golden.GRID, 0.1)
    assert (noisy[NEW] < exact[NEW]).all()


# --- Thompson sampling --------------------------------------------------------------------------------------


def test_where_the_minimum_is_by_joint_draws():
    size = 20_000
    p = probability_of_minimum(golden.state(), golden.GRID, size, np.random.default_rng(0))
    expected = np.array([0.0727, 0, 0, 0, 0.4175, 0.4042, 0.0892, 0, 0, 0, 0.0163])
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-4) / size) + 5e-5
    assert (np.abs(p - expected) < 4 * error).all()
    least = joint_draws(golden.state(), golden.GRID, size, np.random.default_rng(1)).min(axis=1)
    assert -least.mean() == pytest.approx(1.1411, abs=4 * 0.1965 / np.sqrt(size) + 5e-5)
    assert least.std() == pytest.approx(0.1965, rel=0.03)


def test_draws_on_demand_have_the_joint_distribution():
    points = np.array([[0.5], [2.0], [3.2]])
    rng = np.random.default_rng(2)
    draws = []
    for _ in range(300):
        draw = OnDemandDraw(golden.state(), rng)
        draws.append([float(draw(x[None])[0]) for x in points])
    found = np.array(draws)
    mean, covariance = golden.state().at(points)
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(found.mean(axis=0) - mean) < 4 * sd / np.sqrt(300)).all()
    error = np.sqrt((covariance**2 + np.outer(sd**2, sd**2)) / 300)
    assert (np.abs(np.cov(found.T) - covariance) < 4 * error).all()


@pytest.mark.parametrize(
    "kernel", [1.4 * SE(np.array([0.4, 0.8])), 1.4 * Matern(np.array([0.4, 0.8]), nu=2.5)]
)
def test_paths_have_the_moments_of_a_posterior_with_negative_sites(kernel):
    rng = np.random.default_rng(3)
    X = rng.random((18, 2))
    y = np.sin(4 * X[:, 0])
    y[::5] += 5.0
    posterior = GP(kernel, StudentT(0.05, 2.0)).condition(X, y)
    assert (posterior.approximation.q.sites.precision < 0).any()
    moments = moments_of(posterior.process)
    new = rng.random((6, 2))
    size = 200
    values = np.array([draw_path(moments, rng, 512)(new) for _ in range(size)])
    mean, variance = moments(new)
    error = np.sqrt(variance / size)
    assert (np.abs(values.mean(axis=0) - mean[:, 0]) < 4.5 * error + 1e-3).all()
    np.testing.assert_allclose(values.var(axis=0), variance, rtol=0.4, atol=1e-4)


def test_a_path_is_smooth_and_has_a_gradient():
    path = draw_path(golden.state(), np.random.default_rng(0))
    X = np.array([[0.3], [2.2], [4.7]])
    value, gradient = path.with_gradient(X)
    np.testing.assert_allclose(value, path(X), rtol=1e-12)
    change = (path(X + 1e-6) - path(X - 1e-6)) / 2e-6
    np.testing.assert_allclose(gradient[:, 0], change, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(path(golden.X), -golden.F, atol=1e-3)  # it passes through the data


def test_paths_of_other_kernels_are_refused():
    from cavity.kernels import Linear

    posterior = GP(1.0 * SE(1.0) + Linear(), Gaussian(0.1)).condition(golden.X, golden.F)
    with pytest.raises(InputError, match="squared exponential or Matern"):
        draw_path(moments_of(posterior.process), np.random.default_rng(0))


# --- entropies ----------------------------------------------------------------------------------------------


def test_entropies_of_the_notes():
    m, v, least = np.array([-0.5]), np.array([0.25]), np.array([-1.2])
    assert max_value_entropy(m, v, least).value[0] == pytest.approx(0.1982212485, abs=1e-9)
    assert gibbon(m, v, least).value[0] == pytest.approx(0.146892984243, abs=1e-11)
    assert gibbon(m, v, least, 0.01).value[0] == pytest.approx(0.140368493786, abs=1e-11)


@pytest.mark.parametrize("g", [-1e4, -300.0, -60.0, -50.0, -49.0, -20.0])
def test_gibbon_far_below_the_drawn_minimum_has_the_digits_of_fifty(g):
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        z = mpmath.mpf(g)
        r = mpmath.npdf(z) / mpmath.ncdf(z)
        expected = float(-mpmath.log(1 - r * (r + z)) / 2)
    score = gibbon(np.array([g]), np.ones(1), np.zeros(1))
    assert score.value[0] == pytest.approx(expected, rel=1e-9)
    h = 1e-4 * abs(g)
    up, down = (gibbon(np.array([g + s * h]), np.ones(1), np.zeros(1)).value[0] for s in (1, -1))
    assert score.d_mean[0] == pytest.approx((up - down) / (2 * h), rel=1e-5)


def test_a_value_above_the_minimum_by_the_notes_and_monte_carlo():
    mean, V = np.array([-0.2, -0.5]), np.array([[1.0, 0.4], [0.4, 0.6]])
    given = above_minimum(mean, V)
    assert given.mean == pytest.approx(0.2007028814, abs=1e-9)
    assert given.variance == pytest.approx(0.7492790525, abs=1e-9)
    draws = np.random.default_rng(0).multivariate_normal(mean, V, 400_000)
    kept = draws[draws[:, 0] > draws[:, 1], 0]
    assert given.mean == pytest.approx(kept.mean(), abs=4 * kept.std() / np.sqrt(len(kept)))


def test_minima_by_a_gumbel_distribution():
    rng = np.random.default_rng(0)
    mean, variance = rng.standard_normal(200), np.full(200, 0.25)
    found = draw_minima(mean, variance, 50_000, rng)
    direct = (mean + 0.5 * rng.standard_normal((50_000, 200))).min(axis=1)
    for p in (0.25, 0.5, 0.75):
        assert np.quantile(found, p) == pytest.approx(np.quantile(direct, p), abs=0.03)


def test_entropy_search_on_a_grid():
    """The mutual information of a value and the place of the minimum, against a histogram estimate."""
    moments, rng = golden.state(), np.random.default_rng(0)
    X = np.array([[2.0], [3.0], [4.5]])
    found = entropy_search(moments, X, golden.GRID, 20_000, rng, 1e-4)
    assert (found > -0.02).all()
    assert found[0] > found[2]
    # symmetric form: H[place] - E H[place | value], in bins of the value
    mean, covariance = moments.at(golden.GRID)
    values, vectors = np.linalg.eigh(covariance)
    draws = mean + rng.standard_normal((200_000, 11)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    place, at = np.argmin(draws, axis=1), draws[:, 4]
    bins = np.digitize(at, np.quantile(at, np.linspace(0, 1, 41)[1:-1]))
    counts = np.histogram2d(place, bins, bins=(np.arange(12) - 0.5, np.arange(41) - 0.5))[0] / len(place)
    outer = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        mutual = np.nansum(counts * np.log(counts / outer))
    # conditional densities are not normal: the form with variances is a lower bound, within a factor here
    assert 0.3 * mutual < found[0] < 1.05 * mutual


# --- designs without a goal ---------------------------------------------------------------------------------


def test_information_of_the_notes():
    kernel = 1.0 * SE(1.0)
    assert information_gain(kernel, golden.GRID, 0.01) == pytest.approx(14.8043189046, abs=1e-8)
    chosen = greedy_design(kernel, golden.GRID, 3, 0.01)
    assert golden.GRID[chosen.rows, 0].tolist() == [0.0, 5.0, 2.5]
    np.testing.assert_allclose(chosen.value, [2.3075602584, 4.6151205168, 6.9207847754], atol=1e-8)


def test_greedy_choices_are_greedy():
    rng = np.random.default_rng(0)
    X, kernel, noise = rng.random((25, 2)), 1.0 * Matern(0.5, nu=2.5), 0.05
    chosen = greedy_design(kernel, X, 5, noise)
    for k in range(5):
        before = chosen.rows[:k]
        gains = [
            information_gain(kernel, X[[*before, i]], noise) if i not in before else -1 for i in range(25)
        ]
        assert int(np.argmax(gains)) == chosen.rows[k]
        assert max(gains) == pytest.approx(chosen.value[k], rel=1e-9)
    region = rng.random((30, 2))
    spread = integrated_variance_design(kernel, X, 3, noise, region)

    def average(rows):
        K = kernel(X[rows]) + noise * np.eye(len(rows))
        cross = kernel(region, X[rows])
        return np.mean(1.0 - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1))

    for k in range(3):
        before = spread.rows[:k]
        averages = [average([*before, i]) if i not in before else np.inf for i in range(25)]
        assert int(np.argmin(averages)) == spread.rows[k]
        assert min(averages) == pytest.approx(spread.value[k], rel=1e-8)
