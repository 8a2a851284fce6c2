"""Learned dynamics and policies in files: the same to the bit, and as hard to fool as the others."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cavity
from cavity.control import (
    CartPole,
    Dynamics,
    LinearPolicy,
    MountainCar,
    Pendulum,
    Problem,
    RBFPolicy,
    Transitions,
)
from cavity.io import ModelFileError, dumps, loads
from tests.io.model_archives import archive, contents, mutated

PLAIN = Problem("tank", ["level"], ["inflow"], [[0, 2]], [[0, 1]], start=[0.0], goal=[1.5], dt=0.5)


def learned(system, n=12, **options):
    return Dynamics.fit(
        Transitions.draw(system, n, rng=0, noise=0.05),
        problem=system,
        n_restarts=0,
        rng=0,
        **options,
    )


@pytest.mark.parametrize(
    ("system", "options"),
    [
        (MountainCar(dt=0.3, mass=1.2), {"target": "next", "noise": True}),
        (CartPole(force=8.0, length=0.4), {"likelihood": "laplace"}),
        (Pendulum(frames=3), {"mean": "constant"}),
    ],
    ids=["car", "cart-pole", "pendulum"],
)
def test_dynamics_come_back_as_they_were(tmp_path, system, options):
    model = learned(system, **options)
    model.save(tmp_path / "model.cavity")
    again = cavity.load(tmp_path / "model.cavity")
    assert repr(again) == repr(model)
    assert type(again.problem) is type(system)
    assert {k: v for k, v in vars(again.problem).items() if np.ndim(v) == 0} == {
        k: v for k, v in vars(system).items() if np.ndim(v) == 0
    }
    np.testing.assert_array_equal(again.problem.action_high, system.action_high)
    np.testing.assert_array_equal(again.transitions.next_states, model.transitions.next_states)
    plan = system.draw_actions(4, rng=1)
    start = (system.start, np.full(system.state_size, 0.01))
    ours, theirs = model.rollout(start, plan), again.rollout(start, plan)
    np.testing.assert_array_equal(theirs.means, ours.means)
    np.testing.assert_array_equal(theirs.covariances, ours.covariances)
    states, actions = system.draw_states(5, rng=2), system.draw_actions(5, rng=2)
    for mine, other in zip(model.predict(states, actions), again.predict(states, actions)):
        np.testing.assert_array_equal(other, mine)
    assert model.models[0].random_state is not None  # saving does not touch the model


def test_dynamics_of_arrays_and_of_plain_problems():
    rng = np.random.default_rng(0)
    seen = Transitions(rng.uniform(0, 2, 12), rng.uniform(0, 1, 12), rng.uniform(0, 2, 12))
    for problem in (None, PLAIN):
        again = loads(dumps(Dynamics.fit(seen, problem=problem, n_restarts=0, rng=0)))
        assert (again.problem is None) == (problem is None)
        if problem is not None:
            assert (again.problem.state_names, again.problem.dt) == (("level",), 0.5)
            np.testing.assert_array_equal(again.problem.goal, [1.5])

    class Mine(Problem):
        pass

    own = Mine("tank", ["level"], ["inflow"], [[0, 2]], [[0, 1]], start=[0.0], goal=[1.5], dt=0.5)
    model = Dynamics.fit(seen, problem=own, n_restarts=0, rng=0)
    with pytest.raises(ModelFileError, match=r"problem is a Mine.*register the class"):
        dumps(model)


@pytest.mark.parametrize("system", [MountainCar(), CartPole()])
def test_policies_come_back_as_they_were(tmp_path, system):
    states = system.draw_states(5, rng=0)
    for policy in (RBFPolicy.start(system, 4, rng=0, size=1.0), LinearPolicy.start(system, rng=0)):
        policy.save(tmp_path / "policy.cavity")
        again = cavity.load(tmp_path / "policy.cavity")
        assert type(again) is type(policy)
        np.testing.assert_array_equal(again(states), policy(states))


# --- files that lie -----------------------------------------------------------------------------------------

SCRAPS = [
    None,
    True,
    -1,
    0,
    10**7,
    1e300,
    "x",
    [],
    {},
    {"values": [1.0]},
    {"values": [[1.0, 2.0]]},
    {"array": 0},
]


def changed(data, **fields):
    members = contents(data)
    document = json.loads(members["model.json"])
    document["model"]["with"].update(fields)
    members["model.json"] = json.dumps(document).encode()
    return archive(members)


def test_wrong_fields_are_refused():
    policy = dumps(LinearPolicy.start(Pendulum(), rng=0))
    model = dumps(learned(Pendulum()))
    for data, fields, message in [
        (policy, {"state_size": 10**6}, "states and actions must be at most 1000"),
        (policy, {"angles": [5]}, "angles must be columns"),
        (policy, {"theta": {"values": [1.0]}}, "theta must have"),
        (policy, {"action_bounds": {"values": [[2.0, -2.0]]}}, "low < high"),
        (model, {"angles": []}, "models must be of 3 inputs"),
        (model, {"models": []}, "a regressor for each state"),
        (model, {"problem": 3}, "problem must be Problem or nothing"),
        (model, {"noise": 3}, "noise must be true or false"),
    ]:
        with pytest.raises(ModelFileError, match=message):
            loads(changed(data, **fields))


@pytest.mark.filterwarnings("ignore")
def test_mutated_documents():
    """Whatever a file says, it is refused with a word of ours, or what comes back works."""
    rng = np.random.default_rng(3)
    system = Pendulum()
    for data in (dumps(learned(system, 8)), dumps(RBFPolicy.start(system, 2, rng=0))):
        loaded = 0
        for _ in range(150):
            try:
                found = loads(mutated(data, rng, SCRAPS, 0.2))
            except ModelFileError:
                continue
            loaded += 1
            if isinstance(found, Dynamics):
                assert found.step(system.start, [0.0]).shape == (2,)
            else:
                assert found(np.zeros(found.state_size)).shape == (found.F,)
        assert loaded < 120
