"""The compiled exponential against high precision, at the edges, and where kernels use it."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from cavity import exponential
from cavity.exponential import exp_in_place, fast_exponentials, kernel_exp
from cavity.kernels import SE, Matern, RationalQuadratic
from cavity.latent import dense


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


def test_kernels_choose_by_context(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(exponential, "exp_in_place", lambda v: calls.append(v.size) or np.exp(v, out=v))
    kernel_exp(np.zeros(3))
    assert calls == []
    with fast_exponentials():
        kernel_exp(np.zeros(3))
        with fast_exponentials(False):
            kernel_exp(np.zeros(5))
        kernel_exp(np.zeros((4, 4))[:, ::2])  # not contiguous: NumPy's
    kernel_exp(np.zeros(3))
    assert calls == [3]


@pytest.mark.parametrize(
    "kernel", [SE(0.7), Matern(0.7, nu=0.5), Matern(0.7, nu=1.5), Matern(0.7, nu=2.5), RationalQuadratic(0.7)]
)
def test_large_matrices_agree_with_small_ones(kernel: object, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    monkeypatch.setattr(dense, "FAST_EXPONENTIALS_FROM", 60)
    fast = dense.DensePrior(kernel, X).covariance.copy()  # type: ignore[arg-type]
    monkeypatch.setattr(dense, "FAST_EXPONENTIALS_FROM", 61)
    plain = dense.DensePrior(kernel, X).covariance  # type: ignore[arg-type]
    np.testing.assert_allclose(fast, plain, rtol=1e-14)


def test_the_loop_itself_is_what_is_compiled() -> None:
    x = np.linspace(-5, 5, 11)
    found = x.copy()
    exponential._exp_flat(found)
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)


def test_without_numba_it_is_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exponential, "find_spec", lambda name: None)
    exponential.exponential.cache_clear()
    try:
        x = np.linspace(-5, 5, 11)
        np.testing.assert_array_equal(exponential.exp_in_place(x.copy()), np.exp(x))
    finally:
        exponential.exponential.cache_clear()
