"""The mathematics behind pictures, against closed forms, enumeration and SciPy."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from cavity import GP
from cavity.kernels import SE, Additive, Linear, Periodic, White
from cavity.likelihoods import Gaussian, Poisson
from cavity.measures.calibration import (
    events,
    normal_order_band,
    pit,
    pit_band,
    pit_histogram,
    quantile_residuals,
    reliability,
    wilson,
)
from cavity.measures.evidence import evidence_surface, optima
from cavity.measures.kernel_components import additive_components, additive_terms, short_text
from cavity.measures.relevance import inverse_lengthscales, partial_dependence, sobol_total
from cavity.plots.view import central_row, grid_of, slice_rows
from cavity.prediction import GaussianPrediction, MixturePrediction

# --- calibration --------------------------------------------------------------------------------------------


def test_pit_of_normal_predictions_is_phi():
    mean, sd, y = np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 0.5]), np.array([0.3, -1.0, -2.0])
    low, high = pit(GaussianPrediction(mean, sd**2), y)
    np.testing.assert_allclose(high, stats.norm.cdf(y, mean, sd), rtol=1e-13)
    np.testing.assert_array_equal(low, high)


def test_pit_of_counts_spans_the_jump():
    prediction = Poisson().predictive(np.log([3.0, 0.5]), np.zeros(2))
    low, high = pit(prediction, [2.0, 0.0], discrete=True)
    np.testing.assert_allclose(high, stats.poisson.cdf([2, 0], [3.0, 0.5]), rtol=1e-8)
    np.testing.assert_allclose(low, [stats.poisson.cdf(1, 3.0), 0.0], atol=1e-8)


def test_pit_histogram_counts_points_like_numpy_and_spreads_jumps():
    u = np.random.default_rng(0).random(100)
    np.testing.assert_allclose(
        pit_histogram(u, u, 7), np.histogram(u, bins=7, range=(0, 1), density=True)[0], rtol=1e-12
    )
    np.testing.assert_allclose(pit_histogram(np.array([1.0]), np.array([1.0]), 4), [0, 0, 0, 4])
    # mass from 0.25 to 0.75 over four bins: nothing, half, half, nothing
    np.testing.assert_allclose(pit_histogram(np.array([0.25]), np.array([0.75]), 4), [0, 2, 2, 0])
    np.testing.assert_allclose(pit_histogram(np.array([0.0]), np.array([1.0]), 5), np.ones(5))


def test_histogram_of_calibrated_counts_is_flat_in_expectation():
    k = np.arange(60)
    low, high = stats.poisson.cdf(k - 1, 4.0), stats.poisson.cdf(k, 4.0)
    shares = stats.poisson.pmf(k, 4.0)
    heights = sum(w * pit_histogram(low[[i]], high[[i]], 8) for i, w in enumerate(shares))
    np.testing.assert_allclose(heights, np.ones(8), atol=1e-12)


def test_pit_band_holds_at_least_its_level_of_binomial_counts():
    n, bins, level = 83, 9, 0.9
    low, high = pit_band(n, bins, level)
    counts = np.arange(n + 1)
    inside = (counts * bins / n >= low - 1e-12) & (counts * bins / n <= high + 1e-12)
    mass = stats.binom.pmf(counts, n, 1 / bins)
    assert mass[inside].sum() >= level
    narrower = inside & (counts > counts[inside].min()) & (counts < counts[inside].max())
    assert mass[narrower].sum() < level


def test_residuals_of_normal_predictions_are_standardized_even_far_out():
    prediction = GaussianPrediction([1.0, 1.0, 1.0], [4.0, 4.0, 4.0])
    np.testing.assert_allclose(quantile_residuals(prediction, [3.0, 1.0, 201.0]), [1.0, 0.0, 100.0])


def test_residuals_of_a_mixture_match_its_distribution_in_both_tails():
    log_w = np.log([0.7, 0.3])
    prediction = MixturePrediction(log_w, np.array([[0.0], [0.0]]), np.array([[1.0], [25.0]]))
    y = np.array([-20.0])
    tail = 0.7 * stats.norm.cdf(-20.0) + 0.3 * stats.norm.cdf(-4.0)
    z = quantile_residuals(prediction, y)
    np.testing.assert_allclose(z, stats.norm.ppf(tail), rtol=1e-10)
    np.testing.assert_allclose(quantile_residuals(prediction, -y), -z, rtol=1e-10)


def test_order_statistics_band_matches_simulation():
    n = 6
    middle, low, high = normal_order_band(n, 0.9)
    draws = np.sort(np.random.default_rng(1).standard_normal((40_000, n)), axis=1)
    below, share = (draws < middle).mean(axis=0), ((draws > low) & (draws < high)).mean(axis=0)
    error = 4 * np.sqrt(0.25 / 40_000)
    np.testing.assert_allclose(below, 0.5, atol=error)
    np.testing.assert_allclose(share, 0.9, atol=error)


@pytest.mark.parametrize(("k", "n"), [(0, 5), (3, 10), (10, 10), (37, 90)])
def test_wilson_matches_scipy(k, n):
    truth = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(wilson(k, n), (truth.low, truth.high), atol=1e-12)


def test_reliability_by_hand():
    p = np.array([0.05, 0.15, 0.55, 0.95, 1.0, 0.0])
    found = reliability(p, [0, 1, 1, 1, 1, 0], bins=2)
    np.testing.assert_allclose(found.stated, [0.2 / 3, 2.5 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3, 1.0])
    assert found.count.tolist() == [3, 3]
    assert found.high[1] == 1.0
    with pytest.raises(ValueError, match="bins must be"):
        reliability(p, p > 0, bins=0)


def test_events_of_two_and_three_classes():
    p2, labels, classes = np.array([[0.2, 0.8], [0.6, 0.4]]), np.array(["b", "a"]), np.array(["a", "b"])
    p, happened, name = events(p2, labels, classes)
    assert (p.tolist(), happened.tolist(), name) == ([0.8, 0.4], [True, False], "b")
    p, happened, _ = events(p2, labels, classes, "a")
    assert (p.tolist(), happened.tolist()) == ([0.2, 0.6], [False, True])
    p3 = np.array([[0.2, 0.5, 0.3], [0.6, 0.4, 0.0]])
    p, happened, name = events(p3, np.array([2, 0]), np.arange(3))
    assert (p.tolist(), happened.tolist()) == ([0.5, 0.6], [False, True])
    with pytest.raises(ValueError, match="one of the classes"):
        events(p2, labels, classes, "c")


# --- relevance ----------------------------------------------------------------------------------------------


def test_sobol_indices_of_a_linear_function_in_closed_form():
    X = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 2.0, 5.0]
    w = np.array([3.0, -1.0, 0.0])
    found = sobol_total(lambda Z: Z @ w, X, shuffles=400)
    truth = w**2 * X.var(axis=0) / np.sum(w**2 * X.var(axis=0))
    assert np.all(np.abs(found.value - truth) <= 4 * found.error)
    assert found.error[:2].max() < 0.01
    assert (found.value[2], found.error[2]) == (0.0, 0.0)


def test_inputs_that_go_together_and_act_against_each_other_have_shares_too():
    # rows differ much in size and little in shape, and the function is the shape: half is due to each length
    rng = np.random.default_rng(0)
    size = rng.uniform(10, 50, 100)
    X = np.column_stack([size, size + 0.5 * rng.standard_normal(100)])
    found = sobol_total(lambda Z: Z[:, 1] - Z[:, 0], X, shuffles=100)
    truth = X.var(axis=0) / X.var(axis=0).sum()
    assert np.all(np.abs(found.value - truth) <= 4 * found.error)
    assert found.error.max() < 0.02


def test_sobol_indices_of_a_product_of_independent_inputs():
    # f = x1 x2 of independent inputs of mean zero: all variance is due to both together, so each index is one
    a, b = np.meshgrid(np.linspace(-1, 1, 12), np.linspace(-1, 1, 12))
    X = np.column_stack([a.ravel(), b.ravel(), np.random.default_rng(0).random(144)])
    found = sobol_total(lambda Z: Z[:, 0] * Z[:, 1], X, shuffles=200)
    assert np.all(np.abs(found.value - [1.0, 1.0, 0.0]) <= 4 * found.error)
    assert found.error.max() < 0.02


def test_the_only_input_has_an_index_of_one_whatever_the_shuffles():
    X = np.random.default_rng(0).standard_normal((30, 2))
    found = sobol_total(lambda Z: np.sin(3 * Z[:, 0]) * Z[:, 1], X, shuffles=2, groups=[[0, 1]])
    np.testing.assert_allclose(found.value, 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.error, 0.0, atol=1e-12)


def test_columns_of_a_group_are_one_input():
    # f depends on the sum of two columns that always add up to zero: together they do nothing, apart they would
    rng = np.random.default_rng(0)
    a = rng.standard_normal(30)
    X = np.column_stack([a, -a, rng.standard_normal(30)])
    w = np.array([1.0, 1.0, 2.0])
    found = sobol_total(lambda Z: Z @ w, X, shuffles=29, groups=[[0, 1], [2]])
    np.testing.assert_allclose(found.value, [0.0, 1.0], rtol=1e-12, atol=1e-12)
    assert sobol_total(lambda Z: Z @ w, X, shuffles=29).value[0] > 0.1


def test_few_shuffles_agree_with_many_within_their_error():
    X = np.random.default_rng(3).standard_normal((60, 2))

    def f(Z):
        return np.column_stack([np.sin(2 * Z[:, 0]), Z[:, 0] * Z[:, 1]])

    few, many = sobol_total(f, X, shuffles=10, rng=1), sobol_total(f, X, shuffles=1000)
    assert np.all(few.error > 0)
    assert np.all(np.abs(few.value - many.value) < 4 * few.error)


def test_a_constant_function_has_no_relevance():
    assert sobol_total(lambda Z: np.zeros(len(Z)), np.eye(3)).value.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="shuffles"):
        sobol_total(lambda Z: Z[:, 0], np.eye(3), shuffles=0)


def test_inverse_lengthscales_take_the_shortest_of_each_column():
    X = np.random.default_rng(0).standard_normal((30, 3)) * [1.0, 2.0, 4.0]
    sd = X.std(axis=0)
    np.testing.assert_allclose(inverse_lengthscales(2.0 * SE([1.0, 2.0, 8.0]), X), sd / [1.0, 2.0, 8.0])
    kernel = (SE([1.0, 2.0]).on([0, 2]) + SE(0.5).on(2) + Linear()).bind(3)
    np.testing.assert_allclose(inverse_lengthscales(kernel, X), sd * [1.0, 0.0, 2.0])
    additive = Additive([SE(1.0), SE(2.0), SE(4.0)], order=1)
    np.testing.assert_allclose(inverse_lengthscales(additive, X), sd / [1.0, 2.0, 4.0])


def test_partial_dependence_is_the_posterior_of_an_average():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((12, 2)), rng.standard_normal(12)
    kernel, noise = 1.5 * SE([0.8, 1.3]), 0.2
    posterior = GP(kernel, Gaussian(noise)).condition(X, y)
    grid = np.array([-1.0, 0.0, 2.0])
    found = partial_dependence(posterior.process, X, 0, grid)
    K = kernel(X) + noise * np.eye(12)
    for j, g in enumerate(grid):
        Z = np.column_stack([np.full(12, g), X[:, 1]])
        a = np.full(12, 1 / 12)
        c = a @ kernel(Z, X)  # covariance of the average of f with y
        np.testing.assert_allclose(found.mean[j], c @ np.linalg.solve(K, y), rtol=1e-9)
        variance = a @ kernel(Z) @ a - c @ np.linalg.solve(K, c)
        np.testing.assert_allclose(found.sd[j] ** 2, variance, rtol=1e-8)
    np.testing.assert_allclose(found.rows.mean(axis=0), found.mean)


# --- terms of a sum -----------------------------------------------------------------------------------------


def test_posterior_of_each_term_in_closed_form():
    rng = np.random.default_rng(1)
    X, Z = rng.uniform(0, 5, (15, 1)), np.linspace(0, 6, 7)[:, None]
    y = 2.0 + np.sin(X[:, 0]) + 0.1 * rng.standard_normal(15)
    terms = [1.2 * SE(2.0), 0.5 * Periodic(SE(1.0), period=1.0)]
    posterior = GP(terms[0] + terms[1], Gaussian(0.1), mean="constant").condition(X, y)
    found = additive_components(posterior, Z)
    K = terms[0](X) + terms[1](X) + 0.1 * np.eye(15)
    m = posterior.model.mean(X)
    for one, k in zip(found, terms):
        np.testing.assert_allclose(one.mean, k(Z, X) @ np.linalg.solve(K, y - m), rtol=1e-8, atol=1e-10)
        variance = np.diag(k(Z, Z)) - np.einsum("ij,ji->i", k(Z, X), np.linalg.solve(K, k(X, Z)))
        np.testing.assert_allclose(one.sd**2, variance, rtol=1e-7)
    assert found[2].name == "mean function"
    np.testing.assert_allclose(sum(c.mean for c in found), posterior.mean(Z), rtol=1e-12)


def test_terms_minus_their_averages_in_closed_form():
    rng = np.random.default_rng(5)
    X, Z = rng.uniform(0, 5, (11, 1)), np.linspace(0, 6, 8)[:, None]
    y = np.sin(X[:, 0])
    terms = [1.2 * SE(2.0), 0.5 * SE(0.7)]
    K, C = terms[0](X) + terms[1](X) + 0.1 * np.eye(11), np.eye(8) - 1 / 8
    noise = Gaussian(0.1)
    for one, k in zip(
        additive_components(GP(terms[0] + terms[1], noise).condition(X, y), Z, centered=True), terms
    ):
        np.testing.assert_allclose(one.mean, C @ k(Z, X) @ np.linalg.solve(K, y), rtol=1e-8)
        posterior = k(Z) - k(Z, X) @ np.linalg.solve(K, k(X, Z))
        np.testing.assert_allclose(one.sd**2, np.diag(C @ posterior @ C), rtol=1e-8)
    # sites of either sign: outliers under Laplace's method have negative precision
    from cavity.likelihoods import StudentT

    robust = GP(terms[0] + terms[1], StudentT(0.1, df=2.0), inference="laplace").condition(
        X, y + (X[:, 0] > 4.5) * 2
    )
    found = additive_components(robust, Z, centered=True)
    for one, k in zip(found, terms):
        cross = k(X, Z)
        posterior = k(Z) - cross.T @ robust.process.conditioning.apply(cross)
        np.testing.assert_allclose(one.sd**2, np.diag(C @ posterior @ C), rtol=1e-7)


def test_terms_with_explicit_basis_functions_match_a_wide_prior():
    # vague weights as the limit of a linear kernel and a constant of large variance, in dense algebra
    from cavity.means.basis import Basis

    rng = np.random.default_rng(2)
    X, Z = rng.uniform(0, 3, (12, 1)), np.array([[0.5], [2.0], [4.0]])
    y = 1.0 + 2.0 * X[:, 0] + np.sin(3 * X[:, 0])
    k1, k2 = 0.7 * SE(0.6), 0.4 * SE(2.0)
    posterior = GP(k1 + k2, Gaussian(0.05), mean=Basis("linear")).condition(X, y)
    found, centered = additive_components(posterior, Z), additive_components(posterior, Z, centered=True)
    wide = 1e6
    H, h = np.column_stack([np.ones(12), X[:, 0]]), np.column_stack([np.ones(3), Z[:, 0]])
    K = k1(X) + k2(X) + 0.05 * np.eye(12) + wide * H @ H.T
    center = np.eye(3) - 1 / 3
    for one, middle, C, prior in [
        (found[0], centered[0], k1(Z, X), k1(Z)),
        (found[1], centered[1], k2(Z, X), k2(Z)),
        (found[2], centered[2], wide * h @ H.T, wide * h @ h.T),
    ]:
        np.testing.assert_allclose(one.mean, C @ np.linalg.solve(K, y), rtol=1e-4, atol=1e-4)
        covariance = prior - C @ np.linalg.solve(K, C.T)
        np.testing.assert_allclose(one.sd**2, np.diag(covariance), rtol=1e-3)
        np.testing.assert_allclose(middle.sd**2, np.diag(center @ covariance @ center), rtol=1e-3)
        np.testing.assert_allclose(middle.mean, one.mean - one.mean.mean(), atol=1e-12)


def test_terms_are_found_inside_scales_and_choices_of_columns():
    X = np.random.default_rng(0).standard_normal((5, 2))
    kernel = (2.0 * (SE(1.0) + Linear()).on(1) + White(0.1)).bind(2)
    terms = additive_terms(kernel)
    assert len(terms) == 3
    np.testing.assert_allclose(sum(t(X) for t in terms), kernel(X), rtol=1e-14)
    assert short_text(1.23456789 * SE(2.0)) == "1.23 * SE(2)"


def test_components_of_several_targets_are_refused():
    X = np.arange(5.0)[:, None]
    posterior = GP(SE(1.0) + Linear(), Gaussian(0.1)).condition(X, np.column_stack([X, X**2]))
    with pytest.raises(ValueError, match="one latent function"):
        additive_components(posterior, X)


# --- evidence -----------------------------------------------------------------------------------------------


def test_optima_are_numbered_from_the_best():
    assert optima([-10.0, -12.0, -10.001, -np.inf, -9.0]).tolist() == [1, 2, 1, -1, 0]
    assert optima([-np.inf]).tolist() == [-1]


def test_evidence_surface_is_the_density_of_the_data():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 4, (10, 1)), rng.standard_normal(10)
    model = GP(1.3 * SE(0.9), Gaussian(0.3)).bind(1)
    names = model.names
    found = evidence_surface(model, X, y, (names[1], names[2]), span=4.0, resolution=3)
    assert found.logarithmic == (True, True)
    np.testing.assert_allclose(found.x, 0.9 * np.array([0.25, 1, 4]), rtol=1e-12)
    np.testing.assert_allclose(found.y, 0.3 * np.array([0.25, 1, 4]), rtol=1e-12)
    for b, noise in enumerate(found.y):
        for a, lengthscale in enumerate(found.x):
            K = 1.3 * SE(lengthscale)(X) + noise * np.eye(10)
            truth = stats.multivariate_normal.logpdf(y, np.zeros(10), K)
            np.testing.assert_allclose(found.log_evidence[b, a], truth, rtol=1e-9)
    np.testing.assert_allclose(found.best, found.log_evidence[1, 1], rtol=1e-12)
    np.testing.assert_allclose(found.at, (0.9, 0.3), rtol=1e-12)


def test_surface_refuses_what_it_cannot_draw():
    model = GP(1.3 * SE(0.9), Gaussian(0.3)).bind(1)
    X, y = np.arange(4.0)[:, None], np.zeros(4)
    with pytest.raises(ValueError, match="free hyperparameters"):
        evidence_surface(model, X, y, ("nothing", model.names[0]))
    with pytest.raises(ValueError, match="two different"):
        evidence_surface(model, X, y, (model.names[0], model.names[0]))
    with pytest.raises(ValueError, match="span"):
        evidence_surface(model, X, y, (model.names[0], model.names[1]), span=1.0)


def test_an_interrupt_keeps_what_was_computed(monkeypatch):
    model = GP(1.3 * SE(0.9), Gaussian(0.3)).bind(1)
    X, y = np.arange(4.0)[:, None], np.zeros(4)
    calls = SimpleNamespace(count=0)
    evidence = GP.evidence_of

    def stopped(self, *arguments):
        calls.count += 1
        if calls.count > 5:
            raise KeyboardInterrupt
        return evidence(self, *arguments)

    monkeypatch.setattr(GP, "evidence_of", stopped)
    found = evidence_surface(model, X, y, (model.names[0], model.names[1]), resolution=3)
    assert np.isfinite(found.log_evidence).sum() == 4


# --- grids --------------------------------------------------------------------------------------------------


def test_grids_keep_codes_and_go_a_little_beyond_ranges():
    grid, discrete = grid_of(np.repeat([1.0, 4.0], 10), 50)
    assert discrete
    assert grid.tolist() == [1.0, 4.0]
    grid, discrete = grid_of(np.linspace(0, 10, 30), 50)
    assert not discrete
    np.testing.assert_allclose(grid[[0, -1]], [-0.4, 10.4])
    grid, _ = grid_of(np.array([2.0]), 5)
    np.testing.assert_allclose(grid[[0, -1]], [1.5, 2.5])


def test_central_row_is_a_row_and_slices_change_one_column():
    X = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0], [100.0, 10.0]])
    center = central_row(X)
    assert center.tolist() == [1.0, 10.0]
    rows = slice_rows(center, 1, np.array([5.0, 6.0]))
    assert rows.tolist() == [[1.0, 5.0], [1.0, 6.0]]
