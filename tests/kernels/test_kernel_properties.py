"""What must hold for every kernel: symmetry, positive semi-definiteness, and exact derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.kernels import Kernel, White, base
from cavity.kernels.base import row_blocks, take
from tests.kernels.kernel_cases import CASES, Case

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
SMOOTH = [name for name, case in CASES.items() if case.smooth_inputs]


def contains_white(kernel: Kernel) -> bool:
    own = isinstance(kernel, White) or getattr(kernel, "uncertain", False)
    return own or any(contains_white(part) for part in kernel.parts)


def with_duplicates(case: Case, n: int) -> np.ndarray:
    X = case.draw(n)
    return np.vstack([X, X[: n // 3]])


def numerical(f, x: np.ndarray, step: float = 6e-4) -> np.ndarray:
    """Derivative of a scalar function of an array, by a five-point rule."""
    out = np.empty(x.size)
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        e = e.reshape(x.shape)
        out[i] = (8 * (f(x + e) - f(x - e)) - (f(x + 2 * e) - f(x - 2 * e))) / (12 * step)
    return out.reshape(x.shape)


def assert_gradient(ours: np.ndarray, truth: np.ndarray) -> None:
    scale = max(np.abs(truth).max(initial=0.0), 1e-3)
    np.testing.assert_allclose(ours, truth, rtol=1e-6, atol=1e-7 * scale)


@ALL
def test_symmetric_and_positive_semi_definite(case: Case) -> None:
    X = with_duplicates(case, 30)
    K = case.kernel(X)
    assert K.shape == (40, 40)
    np.testing.assert_array_equal(K, K.T)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@ALL
def test_diag_is_the_diagonal(case: Case) -> None:
    X = with_duplicates(case, 12)
    np.testing.assert_allclose(case.kernel.diag(X), np.diag(case.kernel(X)), rtol=1e-13, atol=1e-14)


@ALL
def test_matrix_with_a_copy_of_itself(case: Case) -> None:
    X = with_duplicates(case, 12)
    same = np.allclose(case.kernel(X, X.copy()), case.kernel(X), rtol=1e-12, atol=1e-13)
    assert same is not contains_white(case.kernel)


@ALL
def test_cross_covariances_are_transposes(case: Case) -> None:
    X, Z = case.draw(7), case.draw(5, seed=1)
    np.testing.assert_allclose(case.kernel(X, Z), case.kernel(Z, X).T, rtol=1e-12, atol=1e-14)


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of ten rows, so that a few rows cross their edges."""
    monkeypatch.setattr(base, "row_blocks", lambda n: row_blocks(n, 10))


@ALL
def test_rows_are_evaluated_independently(case: Case, small_tiles: None) -> None:
    """The matrix put together from tiles is the matrix of one tile."""
    X, k = case.draw(23), case.kernel
    rows, whole = k.prepare(X), k(X)
    np.testing.assert_allclose(whole, k._block(rows, rows), rtol=1e-10, atol=1e-12)
    tile = k._block(take(rows, slice(3, 9)), take(rows, slice(7, 20)))
    np.testing.assert_allclose(tile, whole[3:9, 7:20], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(k(X, X[:12]), k(X[:12], X).T, rtol=1e-10, atol=1e-12)


@ALL
@pytest.mark.parametrize("cross", [False, True])
def test_pullback_in_theta(case: Case, cross: bool) -> None:
    rng = np.random.default_rng(3)
    X = with_duplicates(case, 6)
    Z = case.draw(5, seed=1) if cross else None
    k = case.kernel
    K, pullback = k.forward(X, Z)
    G = rng.standard_normal(K.shape)
    np.testing.assert_allclose(K, k(X, Z), rtol=1e-13)
    truth = numerical(lambda theta: np.sum(G * k.replace(theta)(X, Z)), k.theta)
    ours = pullback(G)
    assert ours.shape == (len(k.names),)
    assert_gradient(ours, truth)


@ALL
def test_pullback_of_tiles_adds_up(case: Case, small_tiles: None) -> None:
    X = case.draw(23)
    k = case.kernel
    G = np.random.default_rng(0).standard_normal((len(X), len(X)))
    rows = k.prepare(X)
    K, pullback = k.forward(X)
    whole = k.to_theta(k._pull(rows, rows, G, K))
    d_X = sum(k._pull_inputs(rows, rows, G, K))
    np.testing.assert_allclose(
        pullback(G, inputs=True)[1], d_X, rtol=1e-8, atol=1e-8 * (1 + np.abs(d_X).max())
    )
    np.testing.assert_allclose(
        pullback(G), whole, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(whole).max(initial=0))
    )


@pytest.mark.parametrize("name", SMOOTH)
def test_pullback_in_inputs(name: str) -> None:
    case, rng = CASES[name], np.random.default_rng(4)
    X, Z, k = case.draw(5), case.draw(4, seed=1), case.kernel
    K, pullback = k.forward(X, Z)
    G = rng.standard_normal(K.shape)
    _, dX, dZ = pullback(G, inputs=True)
    assert_gradient(dX, numerical(lambda x: np.sum(G * k(x, Z)), X, 1e-4))
    assert_gradient(dZ, numerical(lambda z: np.sum(G * k(X, z)), Z, 1e-4))
    K, pullback = k.forward(X)
    G = rng.standard_normal(K.shape)
    _, dX, none = pullback(G, inputs=True)
    assert none is None
    assert_gradient(dX, numerical(lambda x: np.sum(G * k(x)), X, 1e-4))


@ALL
def test_pullback_of_the_diagonal(case: Case) -> None:
    X, k = case.draw(6), case.kernel
    g = np.random.default_rng(5).standard_normal(6)
    rows = k.prepare(X)
    d_theta, d_X = k.to_theta(k._pull_diag(rows, g)), k._pull_diag_inputs(rows, g)
    assert_gradient(d_theta, numerical(lambda theta: g @ k.replace(theta).diag(X), k.theta))
    assert d_X.shape == X.shape
    if case.smooth_inputs:
        assert_gradient(d_X, numerical(lambda x: g @ k.diag(x), X, 1e-4))


@ALL
def test_cotangents_and_values_are_left_alone(case: Case) -> None:
    X, k = case.draw(6), case.kernel
    rows = k.prepare(X)
    K = k._block(rows, rows)
    G = np.random.default_rng(0).standard_normal(K.shape)
    K0, G0, X0 = K.copy(), G.copy(), X.copy()
    k._pull(rows, rows, G, K)
    k._pull_inputs(rows, rows, G, K)
    np.testing.assert_array_equal(K, K0)
    np.testing.assert_array_equal(G, G0)
    np.testing.assert_array_equal(X, X0)
    np.testing.assert_allclose(k._block(rows, rows), K0, rtol=1e-15)


@ALL
def test_empty_inputs_give_empty_matrices(case: Case) -> None:
    X = case.draw(3)
    assert case.kernel(X[:0]).shape == (0, 0)
    assert case.kernel(X, X[:0]).shape == (3, 0)
    assert case.kernel.forward(X, X[:0])[1](np.zeros((3, 0))).shape == case.kernel.theta.shape
