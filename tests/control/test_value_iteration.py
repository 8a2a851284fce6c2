"""Policy iteration and Q-iteration: against finite decision processes, repeated backups, Monte Carlo, and the car."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import norm

from cavity.control import Dynamics, MountainCar, Transitions, mdp
from cavity.control.losses import QuadraticLoss, SaturatingLoss
from cavity.control.value_iteration import (
    Backup,
    BumpReward,
    DivergenceWarning,
    ExactNextStates,
    LearnedNextStates,
    Line,
    Support,
    ValueGP,
    evaluate,
    factors_of,
    policy_iteration,
    q_iteration,
    reward_of,
    sweep,
    value_uncertainty,
)
from cavity.control.value_iteration.improvement import ascend, candidate_actions
from cavity.control.value_iteration.uncertainty import expected_product, expected_square

SD = 0.25


class Walk:
    """A noisy walk on a line: s' ~ N(0.9 s + 0.4 a, 0.25^2)."""

    state_size, action_size = 1, 1

    def predict(self, states, actions):
        mean = 0.9 * states + 0.4 * actions
        return mean, np.full(mean.shape, SD**2)

    def slopes(self, states, actions):
        return np.full((len(states), 1, 1), 0.4), np.zeros((len(states), 1, 1))


REWARD = BumpReward([0.8], [0.3])


def walk_grid(n=41):
    return Support.grid([np.linspace(-2.5, 2.5, n)])


def discretized(gamma, actions, n=401):
    """The walk on a fine grid of states as a finite decision process."""
    s = np.linspace(-3.0, 3.0, n)
    h = s[1] - s[0]
    edges = np.concatenate([[-np.inf], 0.5 * (s[1:] + s[:-1]), [np.inf]])
    T = np.empty((n, len(actions), n))
    for k, a in enumerate(actions):
        cdf = norm.cdf(edges[None, :], (0.9 * s + 0.4 * a)[:, None], SD)
        T[:, k] = np.diff(cdf, axis=1)
    reward = np.exp(-0.5 * ((s - 0.8) / 0.3) ** 2)
    rewards = np.broadcast_to(reward, T.shape)
    assert h < 0.13 * SD
    return s, mdp.MDP(T, np.array(rewards), gamma=gamma)


# --- evaluation and improvement ---------------------------------------------------------------------------------


def test_linear_equations_agree_with_repeated_backups():
    grid = walk_grid()
    value = ValueGP(grid, np.zeros(len(grid)), [0.3], 1.0, 0.01)
    mean, variance = Walk().predict(grid.points, np.sign(0.8 - grid.points))
    r = REWARD.expected(mean, variance)
    solved = evaluate(value, mean, variance, r, 0.8)
    repeated = sweep(value, mean, variance, r, 0.8, 120)
    np.testing.assert_allclose(repeated.values, solved.values, atol=1e-8)
    assert 0.7 < solved.radius < 0.81


def test_values_of_a_policy_are_those_of_the_finite_process():
    s, finite = discretized(0.9, [-1.0, 1.0])
    policy = (s < 0.8).astype(int)
    truth = mdp.evaluate(finite, policy)
    grid = walk_grid(81)
    value = ValueGP(grid, np.zeros(len(grid)), [0.12], 1.0, 0.001)
    mean, variance = Walk().predict(grid.points, np.where(grid.points < 0.8, 1.0, -1.0))
    found = evaluate(value, mean, variance, REWARD.expected(mean, variance), 0.9)
    between = np.abs(grid.points[:, 0]) < 2.0
    # the policy jumps at 0.8, where neither grid has a point of the other
    away = between & (np.abs(grid.points[:, 0] - 0.8) > 0.03)
    np.testing.assert_allclose(
        found.values[away], np.interp(grid.points[away, 0], s, truth), rtol=0.01, atol=0.01
    )


def test_policy_iteration_finds_the_optimal_values():
    s, finite = discretized(0.9, np.linspace(-1, 1, 41), n=251)
    best = mdp.policy_iteration(finite)
    found = policy_iteration(
        Walk(), walk_grid(), REWARD, [[-1.0, 1.0]], noise=0.003, tolerance=1e-4, candidates=9
    )
    assert found.converged
    assert not found.diverged
    inner = np.abs(found.support.points[:, 0]) < 2.0
    points = found.support.points[inner, 0]
    np.testing.assert_allclose(found.value.values[inner], np.interp(points, s, best.values), atol=0.01)
    test = np.array([[-1.0], [0.0], [2.0]])
    np.testing.assert_allclose(found(test)[[0, 2], 0], [1.0, -1.0], atol=1e-6)
    assert found.rounds[-1].largest < found.bound


def test_q_iteration_finds_the_fixed_point_of_its_equation():
    """The maximum is outside the expectation in (7.42), so values are below the optimal ones by Jensen's inequality."""
    s, finite = discretized(0.8, np.linspace(-1, 1, 21), n=201)
    table = finite.expected_rewards.copy()
    for _ in range(100):
        table = finite.expected_rewards + 0.8 * (finite.transitions @ table).max(axis=-1)
    optimal = mdp.policy_iteration(finite).values
    assert (table.max(axis=1) < optimal - 0.05).all()
    axes = [np.linspace(-2.5, 2.5, 41), np.linspace(-1, 1, 7)]
    found = q_iteration(
        Walk(), Support.grid(axes), REWARD, [[-1.0, 1.0]], gamma=0.8, noise=0.003, tolerance=1e-4
    )
    assert found.converged
    test = np.linspace(-1.8, 1.8, 15)
    np.testing.assert_allclose(
        found.state_value(test[:, None]), np.interp(test, s, table.max(axis=1)), atol=0.02
    )
    np.testing.assert_allclose(found(np.array([-1.0])), [1.0], atol=1e-3)
    # the same with points that are not known to form a grid
    loose = Support(found.q.support.points)
    again = q_iteration(
        Walk(), loose, REWARD, [[-1.0, 1.0]], gamma=0.8, learn=False, iterations=3, tolerance=0.0,
        start=ValueGP(loose, np.zeros(len(loose)), [0.3, 0.5], 1.0, 0.01),
    )  # fmt: skip
    grid = Support.grid(axes)
    once = q_iteration(
        Walk(), grid, REWARD, [[-1.0, 1.0]], gamma=0.8, learn=False, iterations=3, tolerance=0.0,
        start=ValueGP(grid, np.zeros(len(grid)), [0.3, 0.5], 1.0, 0.01),
    )  # fmt: skip
    np.testing.assert_allclose(again.history[-1], once.history[-1], rtol=1e-6, atol=1e-8)


def test_ascent_climbs_within_bounds():
    peaks = np.array([[-3.0, 0.2], [0.5, 0.5], [9.0, -9.0]])

    def gradient(rows, a):
        return -np.sum((a - peaks[rows]) ** 2, axis=1), -2.0 * (a - peaks[rows])

    low, high = np.array([-1.0, -1.0]), np.array([1.0, 1.0])
    a, value = ascend(gradient, np.zeros((3, 2)), low, high, np.full(2, 0.2), 60)
    np.testing.assert_allclose(a, np.clip(peaks, -1, 1), atol=5e-3)
    np.testing.assert_allclose(value, -np.sum((a - peaks) ** 2, axis=1))
    assert candidate_actions(low, high, 3).shape == (9, 2)
    with pytest.raises(ValueError, match="at least 2"):
        candidate_actions(low, high, 1)
    with pytest.raises(ValueError, match="give fewer"):
        candidate_actions(np.zeros(4), np.ones(4), 20)


# --- the backup of learned and exact dynamics ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def car_model():
    car = MountainCar()
    return car, Dynamics.fit(Transitions.draw(car, 40, rng=0, noise=0.02), problem=car, rng=0)


def car_grid(car, n=11, ends=True):
    return Support.grid([np.linspace(-1, 1, n), np.linspace(-2, 2, n)], factors_of(car, ends))


def test_backup_and_its_gradient_in_the_action(car_model):
    car, dynamics = car_model
    rng = np.random.default_rng(0)
    grid = car_grid(car)
    value = ValueGP(grid, rng.uniform(0, 3, len(grid)), [0.3, 0.5], 2.0, 0.1)
    states, actions = car.draw_states(6, rng), car.draw_actions(6, rng)
    reward = BumpReward(car.goal, [0.4, 0.6], factors_of(car))
    for model in (
        LearnedNextStates(dynamics),
        LearnedNextStates(dynamics, mean_only=True),
        ExactNextStates(car),
    ):
        backup = Backup(model, reward, 0.9)
        q, slope = backup.gradient(value, states, actions)
        np.testing.assert_allclose(q, backup.of(value, states, actions), rtol=1e-12)
        h = 1e-4
        numeric = (backup.of(value, states, actions + h) - backup.of(value, states, actions - h)) / (2 * h)
        np.testing.assert_allclose(slope[:, 0], numeric, rtol=2e-5, atol=1e-6)


def test_backup_is_a_mean_over_next_states(car_model):
    car, dynamics = car_model
    rng = np.random.default_rng(1)
    grid = car_grid(car)
    value = ValueGP(grid, rng.uniform(0, 3, len(grid)), [0.3, 0.5], 2.0, 0.1)
    reward = reward_of(car)
    states, actions = np.array([[0.9, 1.0], [0.5, 0.2]]), np.array([[2.0], [1.0]])
    mean, variance = dynamics.predict(states, actions)
    draws = mean + np.sqrt(variance + 0.01) * rng.standard_normal((200_000, 2, 2))
    earned = reward(draws) + 0.9 * value(draws)

    class Wider(LearnedNextStates):
        def predict(self, s, a):
            m, v = super().predict(s, a)
            return m, v + 0.01

    expected = Backup(Wider(dynamics), reward, 0.9).of(value, states, actions)
    error = earned.std(axis=0) / np.sqrt(len(earned))
    assert (np.abs(earned.mean(axis=0) - expected) < 4 * error).all()


class LossReward:
    """One minus a loss between 0 and 1: a reward of a user's own."""

    largest = 1.0

    def __init__(self, loss):
        self.loss = loss

    def expected(self, mean, variance):
        return self.derivatives(mean, variance)[0]

    def derivatives(self, mean, variance):
        value, d_mean, d_cov = self.loss.expected(mean, variance[..., None] * np.eye(variance.shape[-1]))
        return 1.0 - value, -d_mean, -np.diagonal(d_cov, axis1=-2, axis2=-1)

    def __call__(self, states):
        return 1.0 - self.loss(states)


def test_rewards(car_model):
    car, _ = car_model
    rng = np.random.default_rng(2)
    s = rng.uniform([-1.5, -1], [1.5, 1], (200, 2))
    np.testing.assert_allclose(reward_of(car)(s), car.reward(s), atol=1e-15)
    mean, variance = rng.uniform(-0.5, 0.8, (5, 2)), rng.uniform(0.01, 0.1, (5, 2))
    quadratic = QuadraticLoss.around([0.6, 0.0], [1.0, 1.0])
    bump, loss = BumpReward([0.6, 0.0], [0.4, 0.4]), LossReward(SaturatingLoss(quadratic, 0.4))
    for one, other in zip(bump.derivatives(mean, variance), loss.derivatives(mean, variance)):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    np.testing.assert_allclose(bump.expected(mean, variance), loss.expected(mean, variance), rtol=1e-10)
    np.testing.assert_allclose(bump(s), loss(s), atol=1e-14)
    any_velocity = BumpReward([0.6, 0.0], [0.4, np.inf])
    assert any_velocity([0.6, 1e9]) == 1.0  # in whatever unit
    np.testing.assert_allclose(any_velocity(s), np.exp(-0.5 * ((s[:, 0] - 0.6) / 0.4) ** 2), rtol=1e-9)


def test_the_car_reaches_and_holds_its_goal_with_exact_dynamics():
    car = MountainCar()
    found = policy_iteration(car, car_grid(car, 19), reward_of(car), [[-4.0, 4.0]], candidates=17, refine=0)
    assert found.converged
    assert len(found.rounds) <= 12
    assert not found.diverged
    assert car.holds_goal(car.simulate(found, 40).states)


# --- divergence ---------------------------------------------------------------------------------------------------


def test_values_that_diverge_are_told():
    """States double, and a smooth value function extrapolates: V(s) = s becomes 2 gamma s with every backup, as in
    the counterexample of Tsitsiklis and Van Roy (1996)."""

    class Double:
        state_size, action_size = 1, 1

        def predict(self, states, actions):
            return 2.0 * states, np.zeros(states.shape)

        def slopes(self, states, actions):
            return np.zeros((len(states), 1, 1)), np.zeros((len(states), 1, 1))

    support = Support([[0.5], [1.0], [1.5]])
    start = ValueGP(support, support.points[:, 0], [8.0], 10.0, 1e-3)
    reward = BumpReward([2.0], [1.0])
    options = {"gamma": 0.9, "learn": False, "start": start, "iterations": 1, "refine": 0, "candidates": 2}
    with pytest.warns(DivergenceWarning, match=r"largest is .*no policy can earn more"):
        repeated = policy_iteration(Double(), support, reward, [[-1.0, 1.0]], sweeps=60, **options)
    assert repeated.diverged
    assert repeated.rounds[0].largest > 100
    with pytest.warns(DivergenceWarning, match="spectral radius"):
        solved = policy_iteration(Double(), support, reward, [[-1.0, 1.0]], **options)
    assert solved.diverged
    assert solved.rounds[0].radius > 1.5


def test_no_warning_where_values_stay_within_their_bound():
    with warnings.catch_warnings():
        warnings.simplefilter("error", DivergenceWarning)
        found = policy_iteration(Walk(), walk_grid(), REWARD, [[-1.0, 1.0]], gamma=0.5)
    assert not found.diverged
    assert found.bound == 2.0


# --- uncertainty --------------------------------------------------------------------------------------------------


def test_expected_squares_are_means_over_draws():
    rng = np.random.default_rng(0)
    car = MountainCar()
    grid = car_grid(car, 7)
    v = rng.uniform(0, 2, len(grid))
    reward = BumpReward(car.goal, [0.3, 0.8], factors_of(car))
    mean, variance = np.array([[0.3, 0.5], [0.8, -1.0]]), np.array([[0.05, 0.2], [0.1, 0.3]])
    results = []
    for support in (grid, Support(grid.points, grid.factors)):
        value = ValueGP(support, v, [0.4, 0.9], 1.5, 0.1)
        results.append(
            (*expected_square(value, mean, variance), expected_product(value, reward, mean, variance))
        )
    for one, other in zip(*results):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    draws = mean + np.sqrt(variance) * rng.standard_normal((100_000, 2, 2))
    V, inside = value(draws), ((draws >= car.state_low) & (draws <= car.state_high)).all(axis=-1)
    for sample, closed in ((V**2, results[0][0]), (reward(draws) * V, results[0][2])):
        error = sample.std(axis=0) / np.sqrt(len(sample))
        assert (np.abs(sample.mean(axis=0) - closed) < 4 * error).all()
    few = draws[:4000]
    left = np.where(inside[:4000], _posterior_variance(value, few), 0.0)
    error = left.std(axis=0) / np.sqrt(len(left))
    assert (np.abs(left.mean(axis=0) - results[0][1]) < 4 * error).all()


def _posterior_variance(value, states):
    """By its definition, without ends."""
    points, flat = value.support.points, states.reshape(-1, 2)
    k = value.signal**2 * np.exp(-0.5 * (((flat[:, None, :] - points) / value.lengths) ** 2).sum(axis=-1))
    K = value.signal**2 * np.exp(-0.5 * (((points[:, None, :] - points) / value.lengths) ** 2).sum(axis=-1))
    K[np.diag_indices_from(K)] += value.noise**2
    return (value.signal**2 - np.sum(k * np.linalg.solve(K, k.T).T, axis=1)).reshape(states.shape[:-1])


def test_the_variance_of_the_return_is_that_of_simulated_returns():
    gamma = 0.8
    found = policy_iteration(
        Walk(), walk_grid(61), REWARD, [[-1.0, 1.0]], gamma=gamma, noise=0.002, tolerance=1e-3
    )
    spread = value_uncertainty(found)
    rng = np.random.default_rng(0)
    starts = np.array([-1.0, 0.5, 1.5])
    s = np.repeat(starts[None, :], 40_000, axis=0)
    fine = np.linspace(-3, 3, 601)
    actions = found(fine[:, None])[:, 0]  # a table: the policy is needed a million times
    total = np.zeros(s.shape)
    for t in range(60):
        s = 0.9 * s + 0.4 * np.interp(s, fine, actions) + SD * rng.standard_normal(s.shape)
        total += gamma**t * np.exp(-0.5 * ((s - 0.8) / 0.3) ** 2)
    np.testing.assert_allclose(found.value(starts[:, None]), total.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(spread.returns(starts[:, None]), total.var(axis=0), rtol=0.04)
    assert (spread.interpolation.values > -1e-6).all()
    assert spread.interpolation.values.max() < 0.1 * spread.returns.values.max()


# --- bad input ----------------------------------------------------------------------------------------------------


def test_bad_input(car_model):
    car, _ = car_model
    grid, reward = car_grid(car), reward_of(car)
    for iterate in (policy_iteration, q_iteration):
        with pytest.raises(ValueError, match="iterations must be an integer >= 1, got 0"):
            iterate(car, grid, reward, [[-4, 4]], iterations=0)
    with pytest.raises(ValueError, match="gamma must be"):
        policy_iteration(car, grid, reward, [[-4, 4]], gamma=1.0)
    with pytest.raises(ValueError, match="action_bounds must be"):
        policy_iteration(car, grid, reward, [[-np.inf, 4]])
    with pytest.raises(ValueError, match="columns"):
        policy_iteration(car, walk_grid(), reward, [[-4, 4]])
    with pytest.raises(ValueError, match="states and actions"):
        q_iteration(car, grid, reward, [[-4, 4]])
    with pytest.raises(ValueError, match="model must be"):
        policy_iteration(None, grid, reward, [[-4, 4]])
    with pytest.raises(ValueError, match="no reward is known"):
        reward_of(object())
    with pytest.raises(ValueError, match="goal and widths"):
        BumpReward([0.0], [-1.0])
    with pytest.raises(ValueError, match="factors must be"):
        BumpReward([0.0], [1.0], [Line(), Line()])
    found = policy_iteration(
        car, grid, LossReward(SaturatingLoss(QuadraticLoss.around(car.goal, [1.0, 1.0]), 0.3)), [[-4, 4]],
        candidates=3, refine=0, iterations=1,
    )  # fmt: skip
    with pytest.raises(ValueError, match="BumpReward"):
        value_uncertainty(found)
