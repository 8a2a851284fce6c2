"""Compiled passes over matrices against NumPy, and where they are used."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP
from cavity.kernels import SE, Matern, RationalQuadratic
from cavity.latent import dense
from cavity.likelihoods import Gaussian
from cavity.numerics import compiled as passes
from cavity.numerics.compiled import compiled_passes, kernel_exp, lower_moments, outer_minus, product_and_sums


def test_kernels_choose_by_context(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def compiled(values: np.ndarray, slope: float, factor: float) -> np.ndarray:
        calls.append(values.size)
        return values

    monkeypatch.setattr(passes, "exp_in_place", compiled)
    kernel_exp(np.zeros(3))
    assert calls == []
    with compiled_passes():
        kernel_exp(np.zeros(3))
        with compiled_passes(False):
            kernel_exp(np.zeros(5))
        kernel_exp(np.zeros((4, 4))[:, ::2])  # not contiguous: NumPy's
    kernel_exp(np.zeros(3))
    assert calls == [3]


def test_passes_agree_with_arithmetic() -> None:
    rng = np.random.default_rng(0)
    u, A, K = rng.standard_normal(9), rng.standard_normal((9, 9)), rng.standard_normal((9, 9))
    rows, columns = slice(4, 9), slice(1, 4)
    tile = np.outer(u, u)[rows, columns] - A[rows, columns]
    product = tile * K[rows, columns]
    for wanted in (False, True):
        with compiled_passes(wanted):
            np.testing.assert_allclose(outer_minus(u, A, rows, columns), tile, rtol=1e-14)
            H, row_sums, column_sums = product_and_sums(tile, K[rows, columns])
        np.testing.assert_allclose(H, product, rtol=1e-15)
        np.testing.assert_allclose(row_sums, product.sum(axis=1), rtol=1e-13)
        np.testing.assert_allclose(column_sums, product.sum(axis=0), rtol=1e-13)


def _lower_moments_by_definition(
    u: np.ndarray, A: np.ndarray, K: np.ndarray, rows: slice, columns: slice, z: np.ndarray
) -> np.ndarray:
    H = np.tril((np.outer(u, u) - A) * K)
    H[np.diag_indices_from(H)] *= 0.5
    tile = H[rows, columns]
    squares = (z[rows, None] - z[None, columns]) ** 2
    return np.append(np.einsum("ij,ijc->c", tile, squares), tile.sum())


@pytest.mark.parametrize(
    "tile",
    [
        (slice(4, 9), slice(0, 4)),
        (slice(4, 9), slice(2, 9)),
        (slice(0, 3), slice(0, 3)),
        (slice(8, 9), slice(8, 9)),
    ],
)
def test_moments_over_a_tile_of_the_lower_triangle(tile: tuple[slice, slice]) -> None:
    rng = np.random.default_rng(3)
    u, A, K, z = (rng.standard_normal(shape) for shape in (9, (9, 9), (9, 9), (9, 3)))
    expected = _lower_moments_by_definition(u, A, K, *tile, z)
    rows, columns = tile
    assert (
        lower_moments(u, A, K, rows, columns, z[rows], z[columns]) is None
    )  # nothing is compiled unless wanted
    with compiled_passes():
        found = lower_moments(u, A, K, rows, columns, z[rows], z[columns])
        assert lower_moments(u, A, K, rows, columns, np.zeros((9, 40)), np.zeros((9, 40))) is None
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    out, width = np.zeros(4), columns.stop - columns.start
    passes._lower_moments_loop(
        u, A, K, rows.start, columns.start, z[rows], z[columns].T.copy(), np.empty((2, width)), out
    )
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_the_loops_themselves_are_what_is_compiled() -> None:
    rng = np.random.default_rng(1)
    u, A, G, K = rng.standard_normal(4), *rng.standard_normal((3, 4, 4))
    tile = np.empty((2, 3))
    passes._outer_minus_loop(u, A, 2, 1, tile)
    np.testing.assert_allclose(tile, (np.outer(u, u) - A)[2:4, 1:4], rtol=1e-14)
    H, rows, columns = np.empty((4, 4)), np.empty(4), np.zeros(4)
    passes._product_and_sums_loop(G, K, H, rows, columns)
    np.testing.assert_array_equal(H, G * K)
    np.testing.assert_allclose(rows, (G * K).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(columns, (G * K).sum(axis=0), rtol=1e-13)


@pytest.mark.parametrize(
    "kernel", [SE(0.7), Matern(0.7, nu=0.5), Matern(0.7, nu=1.5), Matern(0.7, nu=2.5), RationalQuadratic(0.7)]
)
def test_large_matrices_agree_with_small_ones(kernel: object, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    monkeypatch.setattr(dense, "COMPILED_FROM", 60)
    fast = dense.DensePrior(kernel, X).covariance.copy()  # type: ignore[arg-type]
    monkeypatch.setattr(dense, "COMPILED_FROM", 61)
    plain = dense.DensePrior(kernel, X).covariance  # type: ignore[arg-type]
    np.testing.assert_allclose(fast, plain, rtol=1e-14)


@pytest.mark.parametrize(
    ("kernel", "columns"),
    [
        (1.7 * SE([0.7, 1.1, 0.4]), 3),
        (1.7 * SE(0.7), 3),
        (SE(0.7), 3),
        (2.0 * (3.0 * SE(0.7)), 3),
        (1.7 * SE(0.7, loadings=np.ones((3, 1))), 3),
        (1.7 * SE([0.7, 1.1]), 2),
        (1.7 * SE(5.0), 40),
        (0.4 * Matern(0.9, nu=2.5), 3),
    ],
)
@pytest.mark.parametrize(("n", "parallel_from"), [(60, 1500), (700, 1500), (700, 700)])
def test_gradients_of_large_problems_agree_with_small_ones(
    kernel: object, columns: int, n: int, parallel_from: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((n, columns)), rng.standard_normal(n)
    model = GP(kernel, Gaussian(0.1))
    found = []
    monkeypatch.setattr(dense, "PARALLEL_FROM", parallel_from)
    for least in (n, n + 1):
        monkeypatch.setattr(dense, "COMPILED_FROM", least)
        found.append(model.evidence(X, y))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10, atol=1e-10)
