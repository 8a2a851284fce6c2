"""The compiled exponential against high precision, and at the edges."""

from __future__ import annotations

import math

import mpmath
import numpy as np

from cavity.numerics import exponential
from cavity.numerics.exponential import exp_in_place, exp_numpy


def test_within_two_units_of_the_last_place() -> None:
    x = np.concatenate(
        [np.linspace(-707.9, 700, 4001), np.geomspace(1e-300, 1, 200), -np.geomspace(1e-300, 1, 200)]
    )
    found = exp_in_place(x.copy())
    with mpmath.workdps(40):
        for value, exponential in zip(x[::7], found[::7]):
            exact = mpmath.exp(mpmath.mpf(float(value)))
            assert abs(mpmath.mpf(float(exponential)) - exact) <= 2 * math.ulp(float(exact))


def test_edges() -> None:
    x = np.array([0.0, -0.0, -np.inf, -1e308, -708.1, np.nan])
    found = exp_in_place(x)
    np.testing.assert_array_equal(found, [1.0, 1.0, 0.0, 0.0, 0.0, np.nan])


def test_any_shape_in_its_own_memory() -> None:
    x = np.zeros((3, 4, 2))
    assert exp_in_place(x) is x
    assert np.all(x == 1.0)


def test_slope_and_factor() -> None:
    x = np.array([0.0, 1.0, 800.0, 1500.0, -3.0, np.nan])
    expected = 2.5 * np.exp(-0.5 * x)
    expected[3] = 0.0  # 2.5 e^-750 would be a denormal number
    np.testing.assert_allclose(exp_in_place(x.copy(), -0.5, 2.5), expected, rtol=1e-15)
    np.testing.assert_allclose(exp_numpy(x.copy(), -0.5, 2.5)[:3], expected[:3], rtol=1e-15)


def test_the_loop_itself_is_what_is_compiled() -> None:
    x = np.linspace(-5, 5, 11)
    found = x.copy()
    exponential.exponential().py_func(found, 1.0, 1.0)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)
