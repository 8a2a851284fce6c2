"""Acquisition functions by their names: each finds a minimum, honors the space, and is a function of the history."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.design import Categorical, History, Integer, Limit, Optimizer, Options, Space, minimize, suggest
from cavity.design.policies import ACQUISITIONS
from cavity.runtime.errors import InputError

SPACE = Space({"a": (0.0, 10.0), "b": (0.0, 1.0)})
MIXED = Space({"a": (0.0, 10.0), "n": Integer(1, 9), "kind": Categorical(("x", "y", "z"))}, ["a + n <= 14"])


def bowl(x):
    return (x["a"] - 3.0) ** 2 / 10 + (x["b"] - 0.2) ** 2


def mixed(x):
    return (x["a"] - 4.0) ** 2 / 10 + (x["n"] - 5) ** 2 / 10 + (x["kind"] != "y")


@pytest.fixture(scope="module")
def ten():
    history = History()
    for u in SPACE.sobol(10, np.random.default_rng(1)):
        x = SPACE.from_unit(u)
        history = history.with_outcome(x, bowl(x), outcomes={"heat": x["a"]})
    return history


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_each_finds_the_minimum_of_a_wave(name):
    def wave(x):
        return np.sin(9.0 * x[0]) + x[0]

    result = minimize(
        wave, [(0.0, 1.0)], n_calls=9 if name == "pes" else 12, acquisition=name, noise="none", seed=2
    )
    grid = np.linspace(0, 1, 1001)
    truth = np.sin(9 * grid) + grid
    # knowledge and entropies need not evaluate the minimum to know it: the minimum of the mean counts
    known = int(np.argmin(result.study.fit.moments(grid[:, None])[0][:, 0]))
    assert truth[known] < truth.min() + 0.01


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_suggestions_are_repeatable_new_and_inside(ten, name):
    options = Options(acquisition=name)
    first = suggest(ten, SPACE, options, seed=4, n=2)
    assert first == suggest(ten, SPACE, options, seed=4, n=2)
    points = [SPACE.to_unit(one.x) for one in first]
    assert np.abs(points[0] - points[1]).max() > 1e-4  # the second knows of the first
    assert all(((p >= 0) & (p <= 1)).all() for p in points)
    assert all(np.isfinite([one.mean, one.sd, one.improvement]).all() for one in first)


@pytest.mark.parametrize("name", [name for name in ACQUISITIONS if name != "pes"])
def test_grids_categories_and_constraints(name):
    history = History()
    for u in MIXED.sobol(14, np.random.default_rng(2)):
        x = MIXED.from_unit(u)
        history = history.with_outcome(x, mixed(x))
    for one in suggest(history, MIXED, Options(acquisition=name, fixed={"kind": "y"}), n=2):
        assert one.x["kind"] == "y"
        assert one.x["n"] in range(1, 10)
        assert one.x["a"] + one.x["n"] <= 14 + 1e-9


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_limits_keep_suggestions_feasible(ten, name):
    options = Options(acquisition=name, limits=(Limit.parse("heat > 6"),))
    assert suggest(ten, SPACE, options)[0].x["a"] > 5.5


def test_knowledge_under_limits_that_tell_nothing():
    """Values are never negative, which a small probability would make look better."""
    rng, history = np.random.default_rng(0), History()
    for u in SPACE.sobol(16, rng):
        x = SPACE.from_unit(u)
        y = bowl(x) + 0.1 * rng.standard_normal()
        history = history.with_outcome(x, y, outcomes={"heat": rng.standard_normal()})
    one = suggest(history, SPACE, Options(acquisition="kg", limits=(Limit.parse("heat < 0"),)))[0]
    assert one.mean - 2 * one.sd < min(trial.y for trial in history) + 0.5


def test_the_choice_is_an_option_everywhere(ten, tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer.open(path, SPACE, acquisition="ucb")
    for trial in ten:
        optimizer.tell(trial.x, trial.y)
    asked = optimizer.ask()
    again = Optimizer.open(path)
    assert again.options.acquisition == "ucb"
    assert suggest(ten, SPACE, Options(acquisition="ucb"))[0].x == asked.x
    assert suggest(ten, SPACE)[0] == suggest(ten, SPACE, Options(acquisition="ei"))[0]
    with pytest.raises(InputError, match="acquisition must be one of 'ei', 'nei'"):
        Options(acquisition="best")
    history = History()
    for k, kind in enumerate("xyzxyzxyz"):
        x = {"a": float(k), "n": k + 1, "kind": kind}
        history = history.with_outcome(x, mixed(x))
    with pytest.raises(InputError, match="'mes'"):
        suggest(history, MIXED, Options(acquisition="pes"))
