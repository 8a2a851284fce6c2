"""Spaces: units to cube and back, grids, categories, constraints, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform, randint

from cavity.design import Categorical, Integer, LinearConstraint, Real, Space, as_input
from cavity.runtime.errors import InputError


@pytest.mark.parametrize(
    ("one", "value", "u"),
    [
        (Real(20.0, 90.0), 55.0, 0.5),
        (Real(1e-4, 1.0, log=True), 1e-3, 0.25),
        (Integer(1, 5), 3, 0.5),
        (Integer(1, 100, log=True), 10, 0.5),
        (Categorical(("A", "B", "C")), "B", 1.0),
        (Real(4.0, 9.0, step=0.5), 6.5, 0.5),
    ],
)
def test_coordinates_and_back(one, value, u):
    assert one.to_unit(value) == pytest.approx(u)
    assert (
        one.from_unit(u) == pytest.approx(value) if not isinstance(value, str) else one.from_unit(u) == value
    )


def test_values_outside_the_box_have_coordinates_but_are_never_set():
    one = Real(0.0, 10.0)
    assert one.to_unit(15.0) == pytest.approx(1.5)
    assert one.from_unit(1.5) == 10.0
    assert Integer(1, 5).from_unit(7.0) == 5


def test_steps_are_kept():
    ph = Real(4.0, 9.05, step=0.1)
    values = {ph.from_unit(u) for u in np.linspace(0, 1, 1000)}
    assert len(values) == 51
    assert max(values) == pytest.approx(9.0)


def test_points_of_a_design_can_be_set():
    space = Space({"a": (0.0, 2.0, 0.5), "k": Integer(1, 3), "c": ["x", "y", "z"], "r": (0.0, 1.0)})
    points = space.sobol(300, np.random.default_rng(0))
    assert points.shape == (300, 4)
    np.testing.assert_array_equal(points, space.rounded(points))
    counts = np.unique(points[:, 2], return_counts=True)[1]
    assert counts.min() > 80  # each category has its share
    for u in points[:10]:
        np.testing.assert_allclose(space.to_unit(space.from_unit(u)), u, atol=1e-12)


def test_linear_constraints_hold_for_every_point():
    space = Space({"a": (0.0, 10.0), "b": (5.0, 20.0)}, ["a + 2 b <= 30", "a - b >= -12"])
    for u in space.sobol(100, np.random.default_rng(1)):
        x = space.from_unit(u)
        assert x["a"] + 2 * x["b"] <= 30 + 1e-6
        assert x["a"] - x["b"] >= -12 - 1e-6


def test_short_forms():
    assert as_input((1, 2)) == Real(1.0, 2.0)
    assert as_input((0.0, 1.0, 0.25)) == Real(0.0, 1.0, step=0.25)
    assert as_input([1, 2, 4]) == Categorical((1, 2, 4))
    assert as_input(loguniform(1e-3, 1e1)) == Real(1e-3, 10.0, log=True)
    assert as_input(randint(2, 9)) == Integer(2, 8)
    assert LinearConstraint.parse("2*a + b >= 1").weights == (("a", -2.0), ("b", -1.0))


@pytest.mark.parametrize(
    ("inputs", "constraints", "words"),
    [
        ({"a": (3.0, 1.0)}, (), "input 'a': .*lower one first, got 3 and 1"),
        ({"a": (1.0, 1.0)}, (), "two different numbers"),
        ({"a": Categorical}, (), "input 'a': an input is given as"),
        ({"a": ["A"]}, (), "at least two, all different"),
        ({"a": ["A", "A"]}, (), "at least two, all different"),
        ({"a": (float("nan"), 1.0)}, (), "must be finite"),
        ({}, (), "at least one input"),
        ({"a": (0.0, 1.0)}, ["b <= 1"], "there is no input 'b'; the inputs are a"),
        ({"a": (0.0, 1.0)}, ["a <= -1"], "no setting meets the constraint"),
        ({"a": (0.0, 1.0)}, ["a is small"], "a constraint is a sum"),
        ({"a": ["x", "y"]}, ["a <= 1"], "a linear constraint needs plain numbers"),
    ],
)
def test_bad_spaces_are_refused_with_a_remedy(inputs, constraints, words):
    with pytest.raises(InputError, match=words):
        Space(inputs, constraints)


def test_logarithms_need_positive_bounds():
    with pytest.raises(InputError, match="must be positive, got the lower bound 0"):
        Real(0.0, 1.0, log=True)
    with pytest.raises(InputError, match="step must be positive"):
        Real(0.0, 1.0, step=2.0)
    with pytest.raises(InputError, match="whole numbers"):
        Integer(0.5, 2)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"a": 1.0}, "no value for c"),
        ({"a": 1.0, "c": "Z"}, "'Z' is none of the categories"),
        ({"a": "hot", "c": "x"}, "must be a number, got 'hot'"),
        ({"a": float("inf"), "c": "x"}, "must be finite"),
    ],
)
def test_bad_settings_are_refused(setting, words):
    with pytest.raises(InputError, match=words):
        Space({"a": (0.0, 1.0), "c": ["x", "y"]}).to_unit(setting)
