"""Planning: gradients against differences, one step against brute force, a linear system against its optimum."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.control import CartPole, Dynamics, MountainCar, Transitions
from cavity.control.losses import QuadraticLoss, SaturatingLoss, tip_distance
from cavity.control.planning import Planner, PlannerSettings, random_plans, receding_horizon
from cavity.control.problems import System
from cavity.control.risk import ExactModel, MomentRisk, mean_risk, mean_values
from cavity.numerics.projected_bfgs import descend


@pytest.fixture(scope="module")
def noisy_pole():
    """Noise of 5 %: differences of covariances are not limited by rounding."""
    system = CartPole()
    seen = Transitions.draw(system, 40, rng=0, noise=0.05 * np.array([0.35, 0.7, 0.9, 2.2]))
    return system, Dynamics.fit(seen, problem=system, rng=0)


class Cart(System):
    """x'' = a - x' / 2, linear, so that the best plan for a quadratic loss is a linear solve."""

    def __init__(self):
        super().__init__(
            "cart",
            ["x", "v"],
            ["force"],
            [[-2, 2], [-2, 2]],
            [[-100, 100]],
            start=[1.0, 0.0],
            goal=[0.0, 0.0],
            dt=0.3,
        )
        self.substeps = 3

    def derivative(self, states, actions):
        return np.stack([states[..., 1], actions[..., 0] - 0.5 * states[..., 1]], axis=-1)


# --- gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [1.0, 1.5])
def test_mean_risk_gradient(noisy_pole, discount):
    system, model = noisy_pole
    loss = SaturatingLoss(tip_distance(system), 0.5)
    plans = np.random.default_rng(0).uniform(-4, 4, (3, 4, 1))
    shift = np.array([0.0, 0.01, 0.02, -0.03])
    state = np.array([0.1, 0.2, 2.0, -0.5])
    values, gradient = mean_risk(model, loss, state, plans, discount, shift)
    np.testing.assert_allclose(values, mean_values(model, loss, state, plans, discount, shift), rtol=1e-12)
    step = 1e-6
    for t in range(4):
        moved = np.zeros_like(plans)
        moved[:, t] = step
        up = mean_values(model, loss, state, plans + moved, discount, shift)
        down = mean_values(model, loss, state, plans - moved, discount, shift)
        np.testing.assert_allclose(gradient[:, t, 0], (up - down) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("kind", ["saturating", "quadratic"])
@pytest.mark.parametrize("known", [True, False])
def test_moment_risk_value_and_gradient(noisy_pole, kind, known):
    system, model = noisy_pole
    loss = tip_distance(system, 0.1)
    loss = SaturatingLoss(loss, 0.5) if kind == "saturating" else loss
    risk = MomentRisk(model, loss, 1.2)
    state, plan = np.array([0.1, 0.2, 2.0, -0.5]), np.random.default_rng(1).uniform(-4, 4, (5, 1))
    cov = None if known else np.diag([0.01, 0.02, 0.03, 0.04])
    value, gradient = risk(state, plan, cov)
    path = model.rollout(state if known else (state, cov), plan)
    losses = loss.expected(path.means[1:], path.covariances[1:])[0]
    assert value == pytest.approx(float(1.2 ** np.arange(5) @ losses), rel=1e-7)
    step = 1e-5
    for t in range(5):
        e = np.zeros_like(plan)
        e[t] = step
        difference = (risk(state, plan + e, cov)[0] - risk(state, plan - e, cov)[0]) / (2 * step)
        assert gradient[t, 0] == pytest.approx(difference, rel=1e-5, abs=1e-7)


def test_exact_model_pulls_its_own_derivative():
    car = MountainCar(dt=0.3, substeps=6)
    model, state = ExactModel(car), np.array([-0.6, 0.3])
    loss = QuadraticLoss.around(car.goal, [1.0, 0.1])
    plan = np.array([[[-3.0], [2.0], [1.0]]])
    gradient = mean_risk(model, loss, state, plan)[1]
    for t in range(3):
        e = np.zeros_like(plan)
        e[0, t] = 1e-5
        up, down = mean_values(model, loss, state, plan + e), mean_values(model, loss, state, plan - e)
        assert gradient[0, t, 0] == pytest.approx(((up - down) / 2e-5)[0], abs=1e-6)


# --- descent ------------------------------------------------------------------------------------------------


def test_descent_solves_bounded_quadratics_like_an_exhaustive_search():
    """Convex quadratics in a box: the optimality conditions hold, for several problems at once."""
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((6, 4, 4))
    H, b = roots @ np.swapaxes(roots, 1, 2) + 0.1 * np.eye(4), 3 * rng.standard_normal((6, 4))
    low, high = -np.ones(4), np.array([1.0, 0.5, 2.0, 1.0])

    def function(x):
        Hx = (H @ x[:, :, None])[:, :, 0]
        return 0.5 * np.sum(x * Hx, axis=1) + np.sum(b * x, axis=1), Hx + b

    found = descend(function, np.zeros((6, 4)), low, high, evaluations=200, tolerance=1e-9)
    assert found.evaluations < 100
    g = function(found.x)[1]
    assert np.all(
        np.where(found.x <= low, np.minimum(g, 0), np.where(found.x >= high, np.maximum(g, 0), g)) ** 2
        < 1e-10
    )
    assert np.any(found.x == low)
    assert np.any(found.x == high)


def test_descent_on_a_curved_valley_and_its_budget():
    def rosenbrock(x):
        a, b = x.T
        value = (1 - a) ** 2 + 100 * (b - a**2) ** 2
        return value, np.stack([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)], axis=1)

    low, high = np.full(2, -2.0), np.full(2, 2.0)
    start = np.array([[-1.2, 1.0], [2.0, -2.0]])
    found = descend(rosenbrock, start, low, high, evaluations=300, tolerance=1e-10)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
    short = descend(rosenbrock, start, low, high, evaluations=7)
    assert short.evaluations == 7
    assert np.all(short.value <= rosenbrock(start)[0])


def test_descent_comes_back_from_where_the_function_has_no_value():
    def function(x):
        inside = np.abs(x[:, 0]) < 0.5
        return np.where(inside, (x[:, 0] - 0.4) ** 2, np.nan), np.where(inside, 2 * (x[:, 0] - 0.4), np.nan)[
            :, None
        ]

    found = descend(function, np.array([[-0.45]]), np.array([-10.0]), np.array([10.0]), evaluations=40)
    np.testing.assert_allclose(found.x, 0.4, atol=1e-6)


# --- decisions ----------------------------------------------------------------------------------------------


def test_one_step_against_brute_force(noisy_pole):
    system, model = noisy_pole
    loss, state = SaturatingLoss(tip_distance(system), 0.5), np.array([0.1, 0.2, 2.8, 1.0])
    grid = np.linspace(-4, 4, 4001)
    for moment_matching in (False, True):
        planner = Planner(
            model, loss, PlannerSettings(horizon=1, candidates=20, moment_matching=moment_matching, polish=20)
        )
        decision = planner.decide(state)
        if moment_matching:
            risk = MomentRisk(model, loss)
            values = np.array([risk(state, np.array([[a]]))[0] for a in grid[::40]])
            assert decision.risk <= values.min() + 1e-9
        else:
            values = mean_values(model, loss, state, grid[:, None, None])
            assert decision.risk <= values.min() + 1e-9
            assert abs(decision.action[0] - grid[values.argmin()]) < 4e-3


@pytest.mark.parametrize("unit", [1e-9, 1e-6, 1.0, 1e6])
def test_linear_system_against_its_optimum(unit):
    """Receding horizon on a linear system with a quadratic loss is a linear feedback; compare action by action.

    In whatever unit lengths are measured: losses are then of its square.
    """
    system, N = Cart(), 4
    loss = QuadraticLoss.around([0.0, 0.0], unit**2 * np.array([1.0, 0.3]))
    A, B = system.jacobian(np.zeros(2), np.zeros(1))
    powers = [np.linalg.matrix_power(A, k) for k in range(N + 1)]
    effect = np.zeros((N, 2, N))
    for t in range(N):
        for j in range(t + 1):
            effect[t, :, j] = (powers[t - j] @ B)[:, 0]
    free, W = np.concatenate([powers[t + 1] for t in range(N)]), np.kron(np.eye(N), np.diag([1.0, 0.3]))
    M = effect.reshape(2 * N, N)
    gain = -np.linalg.solve(M.T @ W @ M, M.T @ W @ free)[0]
    planner = Planner(ExactModel(system), loss, PlannerSettings(horizon=N, evaluations=60, candidates=20))
    run = receding_horizon(system, planner, 6)
    np.testing.assert_allclose(run.trajectory.actions[:, 0], run.trajectory.states[:-1] @ gain, atol=2e-3)
    assert len(run.risks) == len(run.milliseconds) == len(run.cpu_milliseconds) == 6


def test_car_backs_up_and_holds_the_goal():
    car = MountainCar(dt=0.3)
    model = Dynamics.fit(Transitions.draw(car, 50, rng=0), problem=car, rng=0)
    loss = SaturatingLoss(QuadraticLoss.around(car.goal, [1.0, 0.1]), 0.3)
    run = receding_horizon(car, Planner(model, loss, PlannerSettings(horizon=6, candidates=100)), 27)
    assert run.trajectory.actions[0, 0] < -2
    assert car.holds_goal(run.trajectory.states, 4.2, 8.1)


def test_correction_removes_a_constant_offset():
    """A model that is wrong by a constant holds the system off its goal, unless the offset is learned."""
    system = Cart()

    class Biased(ExactModel):
        def forward_mean(self, states, actions):
            after, cache = super().forward_mean(states, actions)
            return after + np.array([0.0, 0.2]), cache

    loss = QuadraticLoss.around([0.0, 0.0], [1.0, 0.3])
    ends = {}
    for share in (0.0, 0.5):
        settings = PlannerSettings(horizon=4, candidates=10, starts=0, evaluations=15, correction=share)
        planner = Planner(Biased(system), loss, settings)
        ends[share] = abs(receding_horizon(system, planner, 25).trajectory.states[-1, 0])
    assert ends[0.0] > 0.02
    assert ends[0.5] < 1e-3


def test_full_turns_of_a_measured_angle_are_no_offset(noisy_pole):
    """An encoder that shows angles within one turn must not teach the planner an offset of 2 pi."""
    system, model = noisy_pole
    loss, settings = (
        SaturatingLoss(tip_distance(system), 0.5),
        PlannerSettings(horizon=2, candidates=10, correction=0.5),
    )
    shifts = []
    for turn in (0.0, 2 * np.pi):
        planner = Planner(model, loss, settings)
        planner.decide([0.0, 0.0, 3.1, 2.0])
        planner.decide([0.0, 0.1, 3.4 - turn, 2.0])
        shifts.append(planner.shift)
    np.testing.assert_allclose(shifts[1], shifts[0], atol=1e-12)


def test_a_generator_as_seed_also_repeats(noisy_pole):
    system, model = noisy_pole
    loss = SaturatingLoss(tip_distance(system), 0.5)
    planner = Planner(model, loss, PlannerSettings(horizon=4, candidates=20), rng=np.random.default_rng(3))
    first, again = (receding_horizon(system, planner, 3).trajectory.actions for _ in range(2))
    np.testing.assert_array_equal(again, first)


def test_same_seed_same_plans_and_wrapped_angles(noisy_pole):
    system, model = noisy_pole
    loss = SaturatingLoss(tip_distance(system), 0.5)
    settings = PlannerSettings(horizon=3, candidates=30, evaluations=8)
    runs = [receding_horizon(system, Planner(model, loss, settings, rng=3), 4) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].trajectory.actions, runs[1].trajectory.actions)
    state = np.array([0.1, 0.2, 1.0, 0.3])
    turned = state + np.array([0, 0, 4 * np.pi, 0])
    wrapped = Planner(model, loss, settings, wrap=True)
    np.testing.assert_allclose(wrapped._checked(turned), state, atol=1e-12)


def test_random_plans_are_within_bounds_and_of_both_kinds():
    low, high = np.array([-1.0, 0.0]), np.array([1.0, 5.0])
    plans = random_plans(40, 6, low, high, np.random.default_rng(0))
    assert plans.shape == (40, 6, 2)
    assert np.all((plans >= low) & (plans <= high))
    ends = np.all((plans == low) | (plans == high), axis=(1, 2))
    assert ends.sum() == 20
    switches = (np.diff(plans[ends], axis=1) != 0).sum(axis=1)
    assert switches.max() == 2


def test_refusals(noisy_pole):
    system, model = noisy_pole
    loss = tip_distance(system)
    for wrong, message in [
        ({"horizon": 0}, "horizon"),
        ({"discount": 0.0}, "discount"),
        ({"correction": 2.0}, "correction"),
        ({"polish": 1.5}, "polish"),
    ]:
        with pytest.raises(ValueError, match=message):
            PlannerSettings(**wrong)
    with pytest.raises(ValueError, match="state must be 4 finite numbers"):
        Planner(model, loss).decide([0.0, np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="moment_matching needs a Dynamics"):
        Planner(ExactModel(system), loss, PlannerSettings(moment_matching=True))
    with pytest.raises(ValueError, match="action_bounds must be finite rows"):
        Planner(model, loss, action_bounds=[[-np.inf, 1.0]])
    bare = Dynamics(model.models, model.transitions, model.angles)
    with pytest.raises(ValueError, match="action_bounds must be given"):
        Planner(bare, loss)
