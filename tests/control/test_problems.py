"""The systems obey mechanics, the fast integration agrees with the accurate one, the environments with Gymnasium."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from cavity.control.problems import CartPole, MountainCar, Pendulum, Problem, Trajectory, animation, picture
from cavity.control.problems.pictures import in_between

SYSTEMS = [MountainCar(0.2), MountainCar(0.3), CartPole(0.2), CartPole(0.1, force=8.0)]


def draws(system, size, seed=0):
    rng = np.random.default_rng(seed)
    return system.draw_states(size, rng), system.draw_actions(size, rng)


# --- the track and the equations of motion ------------------------------------------------------------------


def test_height_slope_and_curvature_belong_together():
    x = np.array([-1.1, -0.7, -0.5, -0.01, 0.01, 0.3, 0.6, 1.2])
    h = 1e-6
    central = (MountainCar.height(x + h) - MountainCar.height(x - h)) / (2 * h)
    np.testing.assert_allclose(MountainCar.slope(x), central, atol=1e-9)
    central = (MountainCar.slope(x + h) - MountainCar.slope(x - h)) / (2 * h)
    np.testing.assert_allclose(MountainCar.curvature(x), central, atol=1e-8)


def test_track_at_printed_points():
    # (C.1): the bottom of the valley is at x = -1/2, one quarter deep; height and slope are continuous at 0
    np.testing.assert_allclose(MountainCar.height([-0.5, 0.0, 1.0]), [-0.25, 0.0, 1 / np.sqrt(6)])
    np.testing.assert_allclose(MountainCar.slope([-0.5, -1e-12, 0.0]), [0.0, 1.0, 1.0], atol=1e-11)


def test_car_moves_as_a_bead_on_a_wire():
    """Lagrange's equations of a bead, d/dt (dL/dv) = dL/dx + generalized force, with the force along the wire."""
    car = MountainCar(mass=1.7)
    s, F = draws(car, 50)
    x, v = s.T
    L = lambda x, v: 0.5 * 1.7 * v**2 * (1 + car.slope(x) ** 2) - 1.7 * 9.81 * car.height(x)  # noqa: E731
    h = 1e-4
    a = car.derivative(s, F)[:, 1]
    L_vv = (L(x, v + h) - 2 * L(x, v) + L(x, v - h)) / h**2
    L_xv = (L(x + h, v + h) - L(x + h, v - h) - L(x - h, v + h) + L(x - h, v - h)) / (4 * h**2)
    L_x = (L(x + h, v) - L(x - h, v)) / (2 * h)
    away = np.abs(x) > 2 * h  # the curvature jumps at x = 0
    force = F[:, 0] * np.sqrt(1 + car.slope(x) ** 2)
    np.testing.assert_allclose((L_vv * a + L_xv * v)[away], (L_x + force)[away], rtol=1e-5, atol=1e-5)


def test_cart_pole_fulfills_the_equations_of_motion():
    """(C.4) as printed, with masses whose sum is not one."""
    pole = CartPole(cart_mass=0.8, pole_mass=0.3, length=0.4, inertia=0.05, friction=0.2)
    s, F = draws(pole, 100)
    v, theta, omega = s[:, 1], s[:, 2], s[:, 3]
    _, a, _, alpha = pole.derivative(s, F).T
    ml = 0.3 * 0.4
    first = 1.1 * a + 0.2 * v + ml * alpha * np.cos(theta) - ml * omega**2 * np.sin(theta)
    np.testing.assert_allclose(first, F[:, 0], atol=1e-12)
    second = (0.05 + 0.3 * 0.4**2) * alpha + ml * 9.81 * np.sin(theta)
    np.testing.assert_allclose(second, -ml * a * np.cos(theta), atol=1e-12)


def energy(system, state):
    """Kinetic and potential energy."""
    if isinstance(system, MountainCar):
        x, v = state
        return system.mass * (0.5 * v**2 * (1 + system.slope(x) ** 2) + system.gravity * system.height(x))
    _, v, theta, omega = state
    ml, J = system.pole_mass * system.length, system.inertia + system.pole_mass * system.length**2
    kinetic = 0.5 * (system.cart_mass + system.pole_mass) * v**2 + 0.5 * J * omega**2
    return kinetic + ml * v * omega * np.cos(theta) - ml * system.gravity * np.cos(theta)


@pytest.mark.parametrize("system", SYSTEMS, ids=repr)
def test_energy_changes_by_the_work_done(system):
    """The integral of the power along an accurate trajectory is the difference of energies."""
    s, a = draws(system, 12, seed=1)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    times = 0.5 * system.dt * (1 + nodes)
    for state, action in zip(s, a):
        at = system.integrate(state, action, np.append(times, system.dt))
        if isinstance(system, MountainCar):
            if np.ptp(np.sign(at[:, 0])):  # the power has a kink where the curvature jumps
                continue
            power = action[0] * np.sqrt(1 + system.slope(at[:-1, 0]) ** 2) * at[:-1, 1]
        else:
            power = (action[0] - system.friction * at[:-1, 1]) * at[:-1, 1]
        work = 0.5 * system.dt * weights @ power
        assert energy(system, at[-1]) - energy(system, state) == pytest.approx(work, abs=1e-8)


def test_upright_and_hanging_poles_rest():
    pole = CartPole()
    np.testing.assert_allclose(pole.derivative(pole.start, np.zeros(1)), 0.0)
    np.testing.assert_allclose(pole.derivative(pole.goal, np.zeros(1)), 0.0, atol=1e-14)


# --- integration --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS, ids=repr)
def test_fast_steps_agree_with_the_accurate_solution(system):
    s, a = draws(system, 40)
    accurate = np.array([system.integrate(state, action) for state, action in zip(s, a)])
    np.testing.assert_allclose(system.step(s, a), accurate, atol=3e-6)


def test_accurate_solution_agrees_with_one_stopped_at_the_jump():
    """Integration split by an event at x = 0, each part with its own formula, by another method."""
    car = MountainCar(0.3)
    for state, F in (([-0.1, 1.5], 2.0), ([0.1, -1.8], -1.0), ([0.2, -2.0], 4.0)):
        side = state[0] < 0

        def slope(_, z, left, force=F):
            return car.derivative(z, np.array([force]), np.asarray(left))

        def at_zero(_, z, left):
            return z[0]

        at_zero.terminal = True
        kwargs = {"method": "Radau", "rtol": 1e-10, "atol": 1e-11}
        first = solve_ivp(slope, (0, 0.3), state, args=(side,), events=at_zero, **kwargs)
        assert first.status == 1
        second = solve_ivp(slope, (first.t[-1], 0.3), first.y[:, -1], args=(not side,), **kwargs)
        np.testing.assert_allclose(car.integrate(state, [F]), second.y[:, -1], atol=2e-8)


@pytest.mark.parametrize("system", SYSTEMS[:3], ids=repr)
def test_error_of_fast_steps_falls_with_the_fourth_power(system):
    s, a = draws(system, 200, seed=3)
    errors = []
    kind = type(system)
    fine = kind(system.dt, substeps=160).step(s, a)
    for substeps in (10, 20, 40):
        errors.append(np.abs(kind(system.dt, substeps=substeps).step(s, a) - fine).max())
    assert errors[0] / errors[1] > 11
    assert errors[1] / errors[2] > 11


@pytest.mark.parametrize("system", [*SYSTEMS, Pendulum()], ids=repr)
def test_batches_are_rows(system):
    s, a = draws(system, 6)
    together = system.step(s.reshape(2, 3, -1), a.reshape(2, 3, -1))
    alone = np.array([system.step(state, action) for state, action in zip(s, a)])
    np.testing.assert_allclose(together.reshape(6, -1), alone, rtol=1e-13, atol=1e-13)
    several = system.step(s[0], a)  # one state under several actions
    np.testing.assert_allclose(several[2], system.step(s[0], a[2]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("system", [MountainCar(), CartPole(), Pendulum()], ids=repr)
def test_jacobian_predicts_small_changes(system):
    s, a = draws(system, 5, seed=2)
    A, B = system.jacobian(s, a)
    assert A.shape == (5, system.state_size, system.state_size)
    assert B.shape == (5, system.state_size, 1)
    rng = np.random.default_rng(0)
    ds, da = 1e-5 * rng.standard_normal(s.shape), 1e-5 * rng.standard_normal(a.shape)
    change = system.step(s + ds, a + da) - system.step(s, a)
    predicted = np.einsum("nij,nj->ni", A, ds) + np.einsum("nij,nj->ni", B, da)
    np.testing.assert_allclose(predicted, change, atol=2e-8)


def test_simulation_with_actions_and_with_a_policy():
    car = MountainCar()
    actions = np.array([[-4.0], [4.0], [1.0]])
    given = car.simulate(actions)
    assert given.states.shape == (4, 2)
    np.testing.assert_allclose(given.times, [0.0, 0.2, 0.4, 0.6])
    np.testing.assert_allclose(given.states[1], car.step(car.start, [-4.0]))
    limited = car.simulate(lambda s: np.full(s.shape[:-1] + (1,), 100.0), 3, start=np.zeros((5, 2)))
    assert limited.states.shape == (4, 5, 2)
    np.testing.assert_array_equal(limited.actions, 4.0)
    kicked = car.simulate(actions, disturbance=lambda t, s: s + 0.1 * (t == 0))
    np.testing.assert_allclose(kicked.states[1], given.states[1] + 0.1)
    assert car.simulate(actions, 0).actions.shape == (0, 1)
    with pytest.raises(ValueError, match="steps must be given"):
        car.simulate(lambda s: s)


def test_publishable_trajectory_of_the_thesis():
    """Forces -4, 4, 4, 4, 4, 3, then about 2 (dt 0.3) bring the car up and hold it there for a while."""
    car = MountainCar(0.3)
    states = car.simulate(np.array([[-4.0], [4], [4], [4], [4], [3]])).states
    assert states[1, 0] < -0.5
    assert abs(states[-1, 0] - 0.6) < 0.15
    assert not car.failed(states).any()
    greedy = car.simulate(np.full((20, 1), 4.0)).states  # the engine alone is too weak
    assert greedy[:, 0].max() < 0.0


# --- tasks --------------------------------------------------------------------------------------------------


def test_success_of_the_car():
    car = MountainCar()
    holding = np.tile([0.65, 0.0], (41, 1))
    assert car.holds_goal(holding)
    assert not car.holds_goal(holding[:40])  # too short to tell
    late, early, off = holding.copy(), holding.copy(), holding.copy()
    late[19], early[20], off[3] = [0.0, 0.0], [0.0, 0.0], [1.01, 0.0]
    assert car.holds_goal(late)
    assert not car.holds_goal(early)
    assert not car.holds_goal(off)
    np.testing.assert_allclose(car.reward([[0.6, 0.0], [0.65, 0.0], [1.1, 0.0]]), [1.0, np.exp(-0.5), 0.0])


def test_success_of_the_pole():
    pole = CartPole()
    up = np.tile(pole.goal, (61, 1))
    assert pole.holds_goal(up)
    assert not pole.holds_goal(up[:60])
    up[:, 2] += 2 * np.pi * 3  # turns do not matter
    up[10, 2] = 0.0
    assert pole.holds_goal(up)
    assert pole.up_since(up) == pytest.approx(2.2)
    up[40, 0] = 1.2
    assert not pole.holds_goal(up)
    up[-1, 2] = 0.0
    assert pole.up_since(up) == np.inf


def test_tip_distance_is_the_distance_of_points():
    pole = CartPole()
    s, _ = draws(pole, 20)
    tip = np.column_stack([s[:, 0] + 0.6 * np.sin(s[:, 2]), -0.6 * np.cos(s[:, 2])])
    np.testing.assert_allclose(pole.tip_distance(s), np.linalg.norm(tip - [0.0, 0.6], axis=1))
    np.testing.assert_allclose(pole.reward(pole.goal), 1.0)


def test_success_of_the_pendulum():
    pendulum = Pendulum()
    s = np.zeros((41, 2))
    s[:, 0] = 2 * np.pi + 0.1
    assert pendulum.holds_goal(s)
    s[35, 0] = 0.3
    assert not pendulum.holds_goal(s)
    np.testing.assert_allclose(pendulum.tip_distance([np.pi, 0.0]), 2.0)
    np.testing.assert_allclose(pendulum.reward([0.0, 3.0]), 1.0)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"region": [[0, 1, 2]]}, "region must be finite rows"),
        ({"region": [[0, np.inf]]}, "region must be finite rows"),
        ({"region": [[1, 1]]}, "low < high"),
        ({"action_bounds": [[-np.inf, np.inf]]}, "action_bounds must be finite rows"),
        ({"angles": [1]}, "angles must be columns of the 1 states"),
        ({"start": [0, 0]}, "start must be 1 finite numbers"),
        ({"goal": [np.nan]}, "goal must be 1 finite numbers"),
        ({"dt": 0.0}, "dt must be a positive"),
    ],
)
def test_problems_refuse_nonsense(change, message):
    good = {"region": [[0, 1]], "action_bounds": [[0, 1]], "start": [0.0], "goal": [1.0], "dt": 0.1}
    problem = Problem("tank", ["level"], ["inflow"], **good)
    with pytest.raises(NotImplementedError, match="no reward"):
        problem.reward([0.0])
    with pytest.raises(ValueError, match=message):
        Problem("tank", ["level"], ["inflow"], **{**good, **change})


def test_policies_without_an_answer_are_refused():
    with pytest.raises(ValueError, match="at step 2 there is"):
        MountainCar().simulate([[1.0], [2.0], [np.nan]])


def test_systems_refuse_wrong_shapes():
    with pytest.raises(ValueError, match=r"states must have shape \(..., 4\), got \(3,\)"):
        CartPole().step([0, 0, 0], [0])
    with pytest.raises(ValueError, match=r"actions must have shape \(..., 1\)"):
        CartPole().step([0, 0, 0, 0], [0, 1])
    with pytest.raises(ValueError, match="frames must be an integer >= 1, got 0"):
        Pendulum(0)


# --- pictures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", [MountainCar(), CartPole(), Pendulum()], ids=repr)
def test_pictures_show_the_state(system):
    first = picture(system, system.start)
    assert first.shape == (320, 480, 3)
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(first, picture(system, system.start))
    assert (first != picture(system, system.goal)).any(axis=-1).sum() > 500
    assert (first != picture(system, system.start, system.action_high)).any(axis=-1).sum() > 50
    assert picture(system, system.start, width=240).shape == (160, 240, 3)


def test_animation_is_a_film_in_real_time(tmp_path):
    from PIL import Image

    system = CartPole()
    trajectory = system.simulate(np.array([[4.0], [-4.0], [2.0]]))
    path = animation(system, trajectory, tmp_path / "pole.gif", frames_per_second=10, width=160)
    with Image.open(path) as film:
        assert film.n_frames == 7
        assert film.info["duration"] == 100
    with pytest.raises(ValueError, match=r"must end in \.gif"):
        animation(system, trajectory, tmp_path / "pole.png")
    with pytest.raises(ValueError, match="one trajectory"):
        animation(system, system.simulate(np.zeros((2, 1)), start=np.zeros((3, 4))), tmp_path / "x.gif")


@pytest.mark.parametrize("system", [MountainCar(), CartPole(), Pendulum()], ids=repr)
def test_frames_between_steps_pass_through_the_steps(system):
    trajectory = system.simulate(system.draw_actions(4, 0), start=system.start + 0.1)
    disturbed = Trajectory(trajectory.states + 0.01 * np.arange(5)[:, None], trajectory.actions, system.dt)
    for path, tolerance in ((trajectory, 1e-5), (disturbed, 1e-5)):
        times, states, actions = in_between(system, path, system.dt / 4)
        assert len(times) == len(states) == len(actions) == 17
        np.testing.assert_allclose(states[::4], path.states, atol=tolerance)
        np.testing.assert_allclose(times[::4], path.times)


def test_unknown_systems_have_no_picture():
    class Other(Pendulum):
        pass

    assert picture(Other(), [0.0, 0.0]).shape == (320, 480, 3)  # a kind of pendulum looks like one
    with pytest.raises(ValueError, match="no picture is known"):
        picture(Problem("x", ["a"], ["b"], [[0, 1]], [[0, 1]], start=[0], goal=[0], dt=1), [0.0])  # type: ignore[arg-type]


# --- Gymnasium ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cavity/MountainCar-v0", "cavity/CartPoleSwingUp-v0"])
@pytest.mark.filterwarnings("ignore::UserWarning")  # advice on ranges of spaces: forces have units here
def test_environments_pass_gymnasiums_own_check(name):
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make(name, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset(seed=0)
    for _ in range(100):
        seen, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen)
        assert 0.0 <= reward <= 1.0
        if terminated or truncated:
            break
    assert terminated or truncated
    assert env.render().shape == (320, 480, 3)
    env.close()


def test_environment_is_the_system():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("cavity/MountainCar-v0", dt=0.3)
    car = MountainCar(0.3)
    seen, _ = env.reset(options={"state": [0.1, 0.2]})
    np.testing.assert_array_equal(seen, [0.1, 0.2])
    after, reward, *_, info = env.step([9.0])
    np.testing.assert_array_equal(info["action"], [4.0])
    np.testing.assert_array_equal(after, car.step([0.1, 0.2], [4.0]))
    assert reward == car.reward(after)
    assert env.unwrapped.render() is None
    with pytest.raises(ValueError, match="finite"):
        env.unwrapped.step([np.nan])
    with pytest.raises(ValueError, match="state"):
        env.reset(options={"state": [0.1]})
    with pytest.raises(ValueError, match="render_mode"):
        type(env.unwrapped)(render_mode="human")
    env.reset(options={"state": [0.99, 2.0]})
    assert env.step([4.0])[2]  # off the track


def test_pendulum_is_gymnasiums():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1").unwrapped
    pendulum = Pendulum(frames=1)
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    for _ in range(200):
        u = rng.uniform(-2, 2, 1)
        expected = pendulum.step(env.state, u)
        seen, *_ = env.step(u)
        np.testing.assert_allclose(env.state, expected, rtol=1e-12, atol=1e-12)
        angle, speed = pendulum.state_of(seen)
        assert np.cos(angle - expected[0]) == pytest.approx(1.0)
        assert speed == pytest.approx(expected[1], abs=1e-5)
    twice = Pendulum(frames=2)
    np.testing.assert_allclose(
        twice.step([1.0, 2.0], [1.0]), pendulum.step(pendulum.step([1.0, 2.0], [1.0]), [1.0])
    )


def test_problems_from_environments():
    gymnasium = pytest.importorskip("gymnasium")
    from cavity.control.problems import problem_of

    pendulum = problem_of(gymnasium.make("Pendulum-v1"), dt=0.05)
    np.testing.assert_allclose(pendulum.action_high, [2.0])
    np.testing.assert_allclose(pendulum.state_high, [1.0, 1.0, 8.0])
    ours = problem_of(gymnasium.make("cavity/CartPoleSwingUp-v0", force=8.0))
    assert isinstance(ours, CartPole)
    assert ours.action_high == 8.0
    with pytest.raises(ValueError, match="action_space must be a Box"):
        problem_of(gymnasium.make("CartPole-v1"))
    free = gymnasium.make("Pendulum-v1")
    free.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(ValueError, match=r"action_space is unbounded.*give action_bounds"):
        problem_of(free)
    bounded = problem_of(free, action_bounds=[[-1, 1]], goal=[1, 0, 0], angles=[])
    np.testing.assert_array_equal(bounded.action_low, [-1.0])


def test_without_gymnasium_the_systems_work():
    code = (
        "import sys\n"
        "sys.modules['gymnasium'] = None\n"
        "from importlib import util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *a: None if name == 'gymnasium' else find(name, *a)\n"
        "import cavity.control.problems as problems\n"
        "print(problems.MountainCar().step([0.0, 0.0], [1.0]).shape)\n"
        "try:\n"
        "    problems.MountainCarEnv\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(2,)\nMountainCarEnv needs Gymnasium: pip install cavity[control]\n"
