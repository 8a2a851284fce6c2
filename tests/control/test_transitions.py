"""Transitions: what they hold, where they come from, what they refuse."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from cavity.control import Dynamics, MountainCar, Pendulum, Problem, Transitions


@pytest.fixture
def seen():
    return Transitions.draw(MountainCar(), 20, rng=0)


def test_drawn_transitions_follow_the_system(seen):
    car = MountainCar()
    np.testing.assert_array_equal(seen.next_states, car.step(seen.states, seen.actions))
    assert (np.abs(seen.states) <= [1.0, 2.0]).all()
    assert (np.abs(seen.actions) <= 4.0).all()
    again, other = Transitions.draw(car, 20, rng=0), Transitions.draw(car, 20, rng=1)
    np.testing.assert_array_equal(again.states, seen.states)
    assert (other.states != seen.states).all()


def test_drawn_transitions_with_noise(seen):
    noisy = Transitions.draw(MountainCar(), 20000, rng=0, noise=[0.1, 0.0])
    error = noisy.next_states - MountainCar().step(noisy.states, noisy.actions)
    np.testing.assert_array_equal(error[:, 1], 0.0)
    assert abs(error[:, 0].std() - 0.1) < 4 * 0.1 / np.sqrt(2 * 20000)


def test_they_are_values(seen):
    assert len(seen) == 20
    assert repr(seen) == "Transitions(20 rows, 2 states, 1 actions)"
    np.testing.assert_array_equal(seen.differences, seen.next_states - seen.states)
    both = seen[:5] + seen[seen.actions[:, 0] > 0]
    assert len(both) == 5 + (seen.actions > 0).sum()
    with pytest.raises(ValueError, match="read-only"):
        seen.states[0, 0] = 1.0
    given = np.zeros((3, 1))
    kept = Transitions(given, [1, 2, 3], given)
    given[0] = 7.0  # does not reach what was stored
    assert kept.states[0, 0] == 0.0
    assert kept.actions.shape == (3, 1)


def test_transitions_of_trajectories():
    car = MountainCar()
    one = Transitions.of_trajectory(car.simulate(np.ones((4, 1))))
    assert len(one) == 4
    np.testing.assert_array_equal(one.states[1:], one.next_states[:-1])
    many = Transitions.of_trajectory(car.simulate(np.ones((4, 1)), start=np.zeros((3, 2))))
    assert len(many) == 12
    np.testing.assert_allclose(many.next_states, car.step(many.states, many.actions))


@pytest.mark.parametrize(
    ("states", "actions", "after", "message"),
    [
        (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((3, 3)), "next_states must have the shape of states"),
        (np.zeros((3, 2)), np.zeros((3, 1)), np.zeros((2, 2)), r"\(3, 2\), got \(2, 2\)"),
        (np.zeros((3, 2)), np.zeros((4, 1)), np.zeros((3, 2)), "one row for each of 3 states, got 4"),
        (np.zeros((3, 2, 1)), np.zeros((3, 1)), np.zeros((3, 2)), r"states must have shape \(n, columns\)"),
        (np.array([[0.0], [np.nan]]), np.zeros(2), np.zeros(2), "states must be finite, but 1 rows .* row 1"),
        (np.zeros(2), np.zeros(2), np.array([np.inf, 0]), "next_states must be finite"),
        ([[1.0], [1.0, 2.0]], np.zeros(2), np.zeros(2), "states must be numbers in rows of equal length"),
        (np.zeros((3, 0)), np.zeros((3, 1)), np.zeros((3, 0)), "states must have shape"),
    ],
)
def test_wrong_arrays_are_refused(states, actions, after, message):
    with pytest.raises(ValueError, match=message):
        Transitions(states, actions, after)


def test_only_equal_columns_are_joined(seen):
    with pytest.raises(ValueError, match=r"same \(states, actions\) columns"):
        seen + Transitions(np.zeros(3), np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match="at least one"):
        Transitions.concatenate([])


def test_one_row_is_a_transition():
    """With as many actions as states, rows taken for columns would not even be an error."""
    square = Transitions(np.arange(6.0).reshape(3, 2), np.arange(6.0, 12.0).reshape(3, 2), np.ones((3, 2)))
    for row in (1, -2, np.int64(1)):
        np.testing.assert_array_equal(square[row].states, [[2.0, 3.0]])
        np.testing.assert_array_equal(square[row].actions, [[8.0, 9.0]])


# --- logs ---------------------------------------------------------------------------------------------------


def test_transitions_of_a_log_are_its_pairs_of_rows():
    """Against a loop over all rows, with episodes whose labels come back and values that are missing."""
    rng = np.random.default_rng(0)
    T, episodes = 40, np.repeat([3, 1, 3, 1, 2], 8)
    s, a = rng.standard_normal((T, 2)), rng.standard_normal((T, 1))
    s[[5, 20], [0, 1]], a[13] = np.nan, np.nan
    frame = pd.DataFrame(np.hstack([s, a]), columns=["x", "v", "u"])
    for memory in (0, 2):
        pairs = []
        for t in range(T - 1):
            rows = range(t - memory, t + 2)
            if rows[0] < 0 or t // 8 != (t + 1) // 8 or t // 8 != rows[0] // 8:
                continue
            before, after = ([s[r], *(a[r - k] for k in range(1, memory + 1))] for r in (t, t + 1))
            pairs.append((np.concatenate(before), a[t], np.concatenate(after)))
        pairs = [pair for pair in pairs if all(np.isfinite(part).all() for part in pair)]
        log = Transitions.of_log(frame[["x", "v"]], frame[["u"]], episodes=episodes, memory=memory)
        for found, truth in zip((log.states, log.actions, log.next_states), zip(*pairs)):
            np.testing.assert_array_equal(found, np.array(truth))


def test_a_delay_is_learned_with_earlier_actions_as_states():
    """x moves by half of the action of two steps ago."""
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, 60)
    x = np.concatenate([np.zeros(3), np.cumsum(0.5 * a[:-3])])
    model = Dynamics.fit(Transitions.of_log(x, a, memory=2), n_restarts=0, rng=0)
    np.testing.assert_allclose(model.step([0.3, 0.1, -0.8], [1.0]), [0.3 - 0.4, 1.0, 0.1], atol=1e-6)


def test_logs_that_make_no_sense_are_refused():
    for states, actions, options, message in [
        (np.zeros(5), np.zeros(4), {}, "one row for each of 5 states, got 4"),
        (np.zeros(5), np.zeros(5), {"episodes": [1, 2]}, r"label for each of 5 rows, got shape \(2,\)"),
        (np.zeros(5), np.zeros(5), {"memory": -1}, "memory must be an integer >= 0, got -1"),
        (np.zeros(3), np.zeros(3), {"episodes": [1, 2, 3]}, "of 3 rows in 3 episodes, 3 have all states"),
        ([], [], {}, "no two rows"),
        (["a"], [1.0], {}, "states must be numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            Transitions.of_log(states, actions, **options)


# --- Gymnasium ----------------------------------------------------------------------------------------------


def test_collected_with_random_actions_and_with_a_policy():
    gymnasium = pytest.importorskip("gymnasium")
    import cavity.control.problems  # noqa: F401, registers

    env = gymnasium.make("cavity/MountainCar-v0")
    car = MountainCar()
    seen = Transitions.collect(env, 60, seed=3)  # more than one episode
    np.testing.assert_allclose(seen.next_states, car.step(seen.states, seen.actions), atol=1e-12)
    again = Transitions.collect(env, 60, seed=3)
    np.testing.assert_array_equal(again.states, seen.states)
    pushed = Transitions.collect(env, 10, lambda s: -np.sign(s[1:]), seed=3)
    np.testing.assert_array_equal(pushed.actions, -np.sign(pushed.states[:, 1:]))


def test_collected_from_gymnasiums_pendulum():
    """Angles are found from sine and cosine, and do not jump between a state and the next."""
    gymnasium = pytest.importorskip("gymnasium")
    pendulum = Pendulum(frames=2)
    seen = Transitions.collect(gymnasium.make("Pendulum-v1"), 300, seed=0, problem=pendulum, hold=2)
    assert np.abs(seen.differences[:, 0]).max() < 1.0
    assert np.abs(seen.states[:, 0]).max() > np.pi  # it went around: nothing was wrapped
    np.testing.assert_allclose(seen.next_states, pendulum.step(seen.states, seen.actions), atol=1e-5)
    raw = Transitions.collect(gymnasium.make("Pendulum-v1"), 50, seed=0)
    assert raw.states.shape == (50, 3)
    np.testing.assert_allclose(np.hypot(raw.states[:, 0], raw.states[:, 1]), 1.0, atol=1e-6)


def wheel(gymnasium):
    """A wheel with an encoder that shows its angle within one turn."""

    class Wheel(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(
            np.array([-np.pi, -9.0]), np.array([np.pi, 9.0]), dtype=np.float64
        )
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)

        def reset(self, *, seed=None, options=None):
            self.state = np.array([3.0, 2.0])
            return self.state.copy(), {}

        def step(self, action):
            w = self.state[1] + 0.1 * action[0]
            self.state = np.array([(self.state[0] + 0.1 * w + np.pi) % (2 * np.pi) - np.pi, w])
            return self.state.copy(), 0.0, False, False, {}

    return Wheel()


def test_angles_that_an_environment_wraps_go_on():
    gymnasium = pytest.importorskip("gymnasium")
    from cavity.control.problems.environments import problem_of

    env = wheel(gymnasium)
    seen = Transitions.collect(env, 60, seed=0, problem=problem_of(env, angles=[0]))
    speed = seen.states[:, 1] + 0.1 * seen.actions[:, 0]
    np.testing.assert_allclose(
        seen.differences, np.column_stack([0.1 * speed, 0.1 * seen.actions]), atol=1e-12
    )


def test_wrapped_angles_in_a_log_are_told_and_unwrapped():
    gymnasium = pytest.importorskip("gymnasium")
    logged = Transitions.collect(wheel(gymnasium), 60, seed=0)
    with pytest.warns(
        UserWarning, match=r"jumps by more than half a turn in 3 .*transitions.unwrapped\(\[0\]\)"
    ):
        Dynamics.fit(logged, angles=[0], n_restarts=0, rng=0)
    fixed = logged.unwrapped([0])
    np.testing.assert_array_equal(fixed.states, logged.states)
    speed = logged.states[:, 1] + 0.1 * logged.actions[:, 0]
    np.testing.assert_allclose(fixed.differences[:, 0], 0.1 * speed, atol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Dynamics.fit(fixed, angles=[0], n_restarts=0, rng=0)
    np.testing.assert_allclose(model.step([3.1, 2.0], [0.0]), [3.3, 2.0], atol=1e-3)
    with pytest.raises(ValueError, match="angles must be columns of the 2 states"):
        logged.unwrapped([2])


def test_actions_are_recorded_as_they_were_applied():
    """Gymnasium's pendulum limits its torque to 2."""
    gymnasium = pytest.importorskip("gymnasium")
    pendulum = Pendulum(frames=1)
    env = gymnasium.make("Pendulum-v1")
    seen = Transitions.collect(env, 40, lambda s: 5.0 * np.sign(s[1:]), seed=0, problem=pendulum)
    assert np.abs(seen.actions).max() == 2.0
    np.testing.assert_allclose(seen.next_states, pendulum.step(seen.states, seen.actions), atol=1e-5)


def test_transitions_that_the_end_of_an_episode_cut_short_are_left_out():
    gymnasium = pytest.importorskip("gymnasium")
    pendulum = Pendulum(frames=2)
    env = gymnasium.make("Pendulum-v1", max_episode_steps=5)
    seen = Transitions.collect(env, 20, seed=0, problem=pendulum, hold=2)
    assert len(seen) == 20
    np.testing.assert_allclose(seen.next_states, pendulum.step(seen.states, seen.actions), atol=1e-5)
    with pytest.raises(ValueError, match="100 episodes of the environment ended within hold=6 steps"):
        Transitions.collect(env, 20, seed=0, problem=pendulum, hold=6)
    with pytest.raises(ValueError, match="hold must be an integer >= 1, got 0"):
        Transitions.collect(env, 20, seed=0, hold=0)


def test_random_actions_need_bounds():
    gymnasium = pytest.importorskip("gymnasium")
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(ValueError, match=r"action_space is unbounded.*Give action_bounds.*or a policy"):
        Transitions.collect(env, 5, seed=0)
    with pytest.raises(ValueError, match="action_bounds must be finite rows"):
        Transitions.collect(env, 5, seed=0, action_bounds=[-1, 1])
    assert np.abs(Transitions.collect(env, 50, seed=0, action_bounds=[[-0.5, 0.5]]).actions).max() <= 0.5
    assert (Transitions.collect(env, 5, lambda s: 0.3, seed=0).actions == 0.3).all()
    with pytest.raises(ValueError, match="action_space must be a Box"):
        Transitions.collect(gymnasium.make("CartPole-v1"), 5, seed=0)
    bounds = [[-0.1, 0.1]]
    problem = Problem("p", list("abc"), ["u"], [[-1, 1]] * 3, bounds, start=[0] * 3, goal=[0] * 3, dt=0.05)
    assert np.abs(Transitions.collect(env, 50, seed=0, problem=problem).actions).max() <= 0.1
