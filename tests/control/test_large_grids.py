"""Value functions on large grids: against the dense ones, against a finite decision process, and a pendulum."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.control.value_iteration import (
    Angle,
    LargeGrid,
    Line,
    Support,
    ValueGP,
    grid_policy_iteration,
    policy_iteration,
)
from cavity.control.value_iteration.rewards import BumpReward


@pytest.mark.parametrize("D", [1, 2, 3])
def test_sums_over_neighborhoods_are_those_of_the_whole_grid(D):
    rng = np.random.default_rng(D)
    low, high, sizes = np.array([-1.0, 0.0, -2.0])[:D], np.array([1.0, 3.0, 1.0])[:D], [15, 14, 16][:D]
    variance = np.array([0.01, 0.0, 0.02])[:D]
    large = LargeGrid(low, high, sizes, length=0.8, noise=0.2, variance=variance, reach=6, least=0.0)
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, sizes)]
    support = Support.grid(axes, [Line() for _ in axes])
    np.testing.assert_allclose(large.points, support.points)
    v = rng.standard_normal(len(support))
    dense = ValueGP(support, v, 0.8 * support.spacing, 1.0, 0.2)
    coefficients = large.solve(v)
    np.testing.assert_allclose(coefficients, dense.beta, rtol=1e-9, atol=1e-9)
    mean = rng.uniform(low, high, (50, D))
    truth = dense.expected(mean, np.broadcast_to(variance, mean.shape))
    np.testing.assert_allclose(large.expected(coefficients, mean), truth, atol=1e-7)
    # neighborhoods of usual size lose little
    near = LargeGrid(low, high, sizes, length=0.8, noise=0.2, variance=variance)
    np.testing.assert_allclose(near.expected(coefficients, mean), truth, atol=0.05)
    assert (large.expected(coefficients, high + 0.1 * np.ones((1, D))) == 0).all()


def test_angles_go_around():
    grid = LargeGrid([0.0], [2 * np.pi], [24], angles=[0], noise=0.01)
    v = np.cos(grid.points[:, 0])
    coefficients = grid.solve(v)
    test = np.linspace(-7.0, 14.0, 50)
    np.testing.assert_allclose(grid.expected(coefficients, test[:, None]), np.cos(test), atol=0.01)
    narrow = ValueGP(Support.grid([grid.points[:, 0]], [Angle()]), v, [0.8 * grid.spacing[0]], 1.0, 0.01)
    np.testing.assert_allclose(narrow(test[:, None]), np.cos(test), atol=0.01)


def test_a_policy_is_that_of_the_dense_iteration():
    class Walk:
        state_size, action_size = 1, 1

        def predict(self, states, actions):
            mean = 0.9 * states + 0.4 * actions
            return mean, np.full(mean.shape, 0.04)

        def slopes(self, states, actions):
            return np.full((len(states), 1, 1), 0.4), np.zeros((len(states), 1, 1))

    grid = LargeGrid([-2.5], [2.5], [61], length=1.0, noise=0.01, variance=[0.04], reach=10, least=0.0)
    reward = BumpReward([0.8], [0.3])
    expected = lambda s: reward.expected(s, np.full(s.shape, 0.04))  # noqa: E731
    found = grid_policy_iteration(
        lambda s, a: 0.9 * s + 0.4 * a, grid, expected, [[-1.0, 1.0]], gamma=0.8, iterations=30, tolerance=1e-4,
        candidates=17,
    )  # fmt: skip
    support = Support.grid([grid.points[:, 0]])
    start = ValueGP(support, reward(grid.points), grid.spacing, 1.0, 0.01)
    dense = policy_iteration(
        Walk(), support, reward, [[-1.0, 1.0]], gamma=0.8, learn=False, start=start, candidates=17, refine=0,
        tolerance=1e-4,
    )  # fmt: skip
    test = np.linspace(-1.8, 1.8, 15)[:, None]
    np.testing.assert_allclose(found.value(test), dense.value(test), atol=0.02)
    assert found.changes[-1] < 1e-4
    np.testing.assert_allclose(found(np.array([[-1.0], [1.9]])), [[1.0], [-1.0]])
    assert found(np.array([-1.0])).shape == (1,)
    assert found.earned == []
    kept = grid_policy_iteration(
        found.step,
        grid,
        expected,
        [[-1.0, 1.0]],
        gamma=0.8,
        iterations=4,
        tolerance=0.0,
        start=[-1.0],
        horizon=20,
    )
    s, total = np.array([[-1.0]]), 0.0
    for _ in range(20):
        s = kept.step(s, kept(s))
        total += expected(s)[0] / 20
    assert len(kept.earned) == 4
    np.testing.assert_allclose(total, max(kept.earned), rtol=1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="low < high"):
        LargeGrid([1.0], [0.0], [20])
    with pytest.raises(ValueError, match="sizes must be at least 8"):
        LargeGrid([0.0], [1.0], [5])
    with pytest.raises(ValueError, match="span 2 pi"):
        LargeGrid([0.0], [1.0], [20], angles=[0])
    with pytest.raises(ValueError, match="gamma"):
        grid_policy_iteration(
            lambda s, a: s, LargeGrid([0.0], [1.0], [9]), lambda s: s[:, 0], [[0, 1]], gamma=1.0
        )
    with pytest.raises(ValueError, match="iterations"):
        grid_policy_iteration(
            lambda s, a: s, LargeGrid([0.0], [1.0], [9]), lambda s: s[:, 0], [[0, 1]], iterations=0
        )
