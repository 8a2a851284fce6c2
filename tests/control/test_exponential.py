"""The vectorized exponential against NumPy's."""

from __future__ import annotations

import numpy as np

from cavity.control import exponential


def test_it_is_the_exponential_to_a_few_units_in_the_last_place():
    x = np.concatenate([np.linspace(-700, 700, 100_001), np.linspace(-1, 1, 10_001), [0.0]])
    got = exponential.exp_in_place(x.copy())
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-15)
    assert got[-1] == 1.0


def test_it_underflows_to_zero_and_works_in_place_on_any_shape():
    a = np.array([[-708.5, -1e300], [-np.inf, 1.0]])
    assert exponential.exp_in_place(a) is a
    np.testing.assert_allclose(a, [[0.0, 0.0], [0.0, np.e]], rtol=1e-15)
    assert exponential.exp_in_place(np.empty((0, 3))).shape == (0, 3)


def test_the_loop_itself_is_what_is_compiled():
    x = np.linspace(-5, 5, 11)
    got = x.copy()
    exponential._exp_flat(got)
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-15)


def test_without_numba_it_is_numpy(monkeypatch):
    monkeypatch.setattr(exponential, "find_spec", lambda name: None)
    exponential.exponential.cache_clear()
    try:
        x = np.linspace(-5, 5, 11)
        np.testing.assert_array_equal(exponential.exp_in_place(x.copy()), np.exp(x))
    finally:
        exponential.exponential.cache_clear()
