"""Numbers and random states, as options of all parts of the library."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral

import numpy as np
import pytest

from cavity.runtime.checks import generator, is_number


@pytest.mark.parametrize("value", [0, 1.5, np.int8(3), np.float32(2.0), np.inf, np.nan, Fraction(1, 2)])
def test_numbers(value):
    assert is_number(value)
    assert is_number(value, Integral) == isinstance(value, int | np.int8)


@pytest.mark.parametrize("value", [True, np.True_, None, "1", [1.0], 1j, np.ones(1)])
def test_what_is_no_number(value):
    assert not is_number(value)
    assert not is_number(value, Integral)


def test_a_generator_from_each_kind_of_random_state():
    own = np.random.default_rng(1)
    assert generator(own) is own
    assert generator(1).random() == np.random.default_rng(1).random()
    old, same = np.random.RandomState(5), np.random.RandomState(5)
    seed = int(same.randint(2**31 - 1))
    assert generator(old).random() == np.random.default_rng(seed).random()
    assert old.randint(1000) == same.randint(1000)  # it moves on, so that the next generator is another one
    assert isinstance(generator(None), np.random.Generator)
    assert isinstance(generator(np.random), np.random.Generator)


@pytest.mark.parametrize("wrong", ["seed", -1, 1.5])
def test_other_random_states_are_refused(wrong):
    with pytest.raises(ValueError, match=f"random_state must be an integer >= 0.* got {wrong!r}"):
        generator(wrong)
