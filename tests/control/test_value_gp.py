"""The value function: grids against dense algebra, expectations against Monte Carlo, learning against differences."""

from __future__ import annotations

import numpy as np
import pytest

import cavity
from cavity.control.value_iteration import Angle, Line, Support, ValueGP

AXES = [np.linspace(-1, 1, 7), np.linspace(-2, 2, 6), np.linspace(0, 2 * np.pi, 8, endpoint=False)]
FACTORS = [Line(-1.0, 1.0), Line(), Angle()]


def both(seed=0):
    """The same values on a grid and at its points."""
    rng = np.random.default_rng(seed)
    grid = Support.grid(AXES, FACTORS)
    points = Support(grid.points, FACTORS)
    v = np.sin(grid.points).sum(axis=1) + 0.1 * rng.standard_normal(len(grid))
    lengths = np.array([0.5, 1.3, 0.9])
    return [ValueGP(support, v, lengths, 1.4, 0.1) for support in (grid, points)]


def some_gaussians(B=5, seed=1):
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.9, 0.9, (B, 3)), rng.uniform(0.0, 0.2, (B, 3))


def test_a_grid_is_its_points():
    grid, points = both()
    mean, variance = some_gaussians()
    np.testing.assert_allclose(grid.beta, points.beta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(grid.expected(mean, variance), points.expected(mean, variance), rtol=1e-9)
    for one, other in zip(grid.derivatives(mean, variance), points.derivatives(mean, variance)):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(grid.evidence()[0], points.evidence()[0], rtol=1e-10)
    np.testing.assert_allclose(grid.evidence()[1], points.evidence()[1], rtol=1e-7, atol=1e-7)
    B = np.random.default_rng(3).standard_normal((len(grid.values), 2))
    np.testing.assert_allclose(grid.solve(B), points.solve(B), rtol=1e-8, atol=1e-8)


def test_values_are_those_of_a_gaussian_process_of_the_library():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (30, 2))
    y = np.sin(2 * X[:, 0]) * X[:, 1]
    value = ValueGP(Support(X), y, [0.7, 0.9], 1.2, 0.05)
    model = cavity.GP(1.44 * cavity.kernels.SE(np.array([0.7, 0.9])), cavity.likelihoods.Gaussian(0.05**2))
    posterior = model.condition(X, y)
    new = rng.uniform(-1, 1, (10, 2))
    np.testing.assert_allclose(value(new), posterior.mean(new), rtol=1e-8)
    np.testing.assert_allclose(value.variance(new), posterior.variance(new), rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(value.evidence()[0], posterior.log_evidence, rtol=1e-10)


def test_expected_values_are_means_over_draws():
    grid, _ = both()
    mean, variance = some_gaussians(3)
    draws = mean + np.sqrt(variance) * np.random.default_rng(5).standard_normal((200_000, 3, 3))
    values = grid(draws)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - grid.expected(mean, variance)) < 4 * error).all()


def test_derivatives_are_differences():
    mean, variance = some_gaussians()
    variance = variance + 0.01
    for value in both():
        _, d_mean, d_variance = value.derivatives(mean, variance)
        h = 1e-5
        for d in range(3):
            shift = h * np.eye(3)[d]
            by_mean = (value.expected(mean + shift, variance) - value.expected(mean - shift, variance)) / (
                2 * h
            )
            by_var = (value.expected(mean, variance + shift) - value.expected(mean, variance - shift)) / (
                2 * h
            )
            np.testing.assert_allclose(d_mean[:, d], by_mean, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(d_variance[:, d], by_var, rtol=1e-5, atol=1e-7)


def test_evidence_slopes_are_differences():
    for value in both():
        _, slopes = value.evidence()
        theta, h = np.log(np.append(value.signal, value.lengths)), 1e-5
        for k in range(4):
            ends = []
            for sign in (1, -1):
                t = np.exp(theta + sign * h * np.eye(4)[k])
                ends.append(ValueGP(value.support, value.values, t[1:], t[0], value.noise).evidence()[0])
            np.testing.assert_allclose(slopes[k], (ends[0] - ends[1]) / (2 * h), rtol=1e-5)


def test_learning_increases_the_evidence_within_bounds():
    value = both()[0]
    learned = value.fit()
    assert learned.evidence()[0] > value.evidence()[0]
    ratio = learned.lengths / value.support.spacing
    assert (ratio >= 0.3 - 1e-9).all()
    assert (ratio <= 10 + 1e-9).all()
    zeros = value.with_values(np.zeros(len(value.values)))
    assert zeros.fit() is zeros


def test_the_remainder_of_a_grid_is_the_rest_of_the_sum():
    value = both()[0]
    mean, variance = some_gaussians()
    rest = value.remainder(mean[:, :2], variance[:, :2])
    bumps = Angle().expected(mean[:, 2], variance[:, 2], AXES[2], 0.9)
    np.testing.assert_allclose((rest * bumps).sum(axis=1), value.expected(mean, variance), rtol=1e-10)
    with pytest.raises(ValueError, match="grid"):
        both()[1].remainder(mean, variance)


def test_bad_input():
    grid = Support.grid(AXES[:2])
    with pytest.raises(ValueError, match="values must be"):
        ValueGP(grid, np.zeros(3))
    with pytest.raises(ValueError, match="lengths must be"):
        ValueGP(grid, np.zeros(42), lengths=[1.0, -1.0])
    with pytest.raises(ValueError, match="noise must be positive"):
        ValueGP(grid, np.zeros(42), noise=0.0)
    with pytest.raises(ValueError, match="points must be"):
        Support([[np.nan, 1.0]])
    with pytest.raises(ValueError, match="factors must be"):
        Support([[0.0, 1.0]], [Line()])
    with pytest.raises(ValueError, match="axes must be"):
        Support.grid([[0.0, 0.0]])
