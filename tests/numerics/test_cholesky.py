"""Factorizations, the jitter policy and tiles, against NumPy's dense routines."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.linalg import lapack

from cavity.numerics import tiles, triangles
from cavity.numerics.cholesky import (
    JITTER_LADDER,
    Cholesky,
    NotPositiveDefiniteError,
    covariance_root,
    factorize,
    first_duplicates,
    try_factorize,
)
from cavity.numerics.threads import n_threads
from cavity.numerics.tiles import Workspace, halve_symmetric, lower_tiles, map_tiles, mirror_lower


def positive_definite(n: int, seed: int = 0) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T + n * np.eye(n)


def with_garbage_above(A: np.ndarray) -> np.ndarray:
    return np.tril(A) + np.triu(np.full_like(A, 1e30), 1)


# --- factors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 7, 130, 201])
def test_factor_agrees_with_numpy(n):
    A = positive_definite(n)
    rng = np.random.default_rng(1)
    factor = Cholesky.of(A)
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.tril(factor.lower), L, rtol=1e-12, atol=1e-12)
    assert factor.jitter == 0.0
    assert factor.log_det == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-13)
    for B in (rng.standard_normal(n), rng.standard_normal((n, 3))):
        np.testing.assert_allclose(factor.solve(B), np.linalg.solve(A, B), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(factor.half_solve(B), np.linalg.solve(L, B), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(
            factor.half_solve_transposed(B), np.linalg.solve(L.T, B), rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(factor.multiply(B), L @ B, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(np.linalg.inv(A)), rtol=1e-12)
    inverse = mirror_lower(factor.into_inverse())
    np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-10, atol=1e-14)


def test_the_upper_triangle_is_never_read():
    A = positive_definite(40)
    factor = try_factorize(with_garbage_above(A))
    assert factor is not None
    B = np.random.default_rng(2).standard_normal((40, 2))
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(A, B), rtol=1e-10)
    np.testing.assert_allclose(factor.multiply(B), np.linalg.cholesky(A) @ B, rtol=1e-12)
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(np.linalg.inv(A)), rtol=1e-12)


def test_a_matrix_without_rows():
    factor = try_factorize(np.zeros((0, 0)))
    assert factor is not None
    assert factor.log_det == 0.0
    assert factor.solve(np.zeros((0, 4))).shape == (0, 4)
    assert factor.half_solve(np.zeros(0)).shape == (0,)
    assert factor.inverse_diagonal().shape == (0,)
    assert factor.into_inverse().shape == (0, 0)
    assert factorize(lambda: np.zeros((0, 0))).jitter == 0.0


@pytest.mark.parametrize("row", [0, 1, 299])
def test_entries_that_are_not_finite_are_noticed(row):
    A = np.eye(300)
    A[row, 0] = np.nan
    assert try_factorize(A) is None


def test_a_singular_factor_has_no_inverse():
    with pytest.raises(NotPositiveDefiniteError, match="singular at row 1"):
        Cholesky(np.array([[1.0, 0.0], [1.0, 0.0]])).into_inverse()
    for row in (3, 170):  # inverted in two halves
        L = np.eye(200)
        L[row, row] = 0.0
        with pytest.raises(NotPositiveDefiniteError, match=f"singular at row {row}"):
            Cholesky(L).into_inverse()


# --- panels, for matrices that LAPACK does not get whole -------------------------------------------------------------


@pytest.fixture(params=[7, 16])
def in_panels(request, monkeypatch):
    """Every matrix counts as large; the number of rows of a panel."""
    monkeypatch.setattr(triangles, "WHOLE_UP_TO", 0)
    monkeypatch.setattr(triangles, "PANEL", request.param)
    return request.param


@pytest.mark.parametrize("n", [1, 6, 7, 8, 50, 200])
def test_panels_agree_with_lapack(in_panels, n):
    A = positive_definite(n)
    garbage = np.tril(np.full((n, n), 1e30), -1)
    U = np.asfortranarray(np.triu(A) + garbage)
    assert triangles.factor_in_place(U) == 0
    expected, _ = lapack.dpotrf(A, lower=0, clean=1)
    np.testing.assert_allclose(np.triu(U), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.tril(U, -1), garbage)
    X = U.copy(order="F")
    assert triangles.invert_triangle_in_place(X) == 0
    np.testing.assert_allclose(np.triu(X), lapack.dtrtri(expected, lower=0)[0], rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(np.tril(X, -1), garbage)
    assert triangles.invert_factored_in_place(U) == 0
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(np.triu(U), np.triu(inverse), rtol=1e-11, atol=1e-14)
    np.testing.assert_array_equal(np.tril(U, -1), garbage)


@pytest.mark.parametrize("minor", [1, 7, 8, 33, 50])
def test_panels_name_the_leading_minor_that_is_not_positive(in_panels, minor):
    A = positive_definite(50)
    A[minor - 1, minor - 1] = (
        A[minor - 1, : minor - 1] @ np.linalg.solve(A[: minor - 1, : minor - 1], A[: minor - 1, minor - 1])
        - 1.0
    )  # so that the Schur complement there is -1
    assert lapack.dpotrf(A, lower=0)[1] == minor
    assert triangles.factor_in_place(np.asfortranarray(A)) == minor
    assert try_factorize(A.copy()) is None


@pytest.mark.parametrize("row", [0, 7, 49])
def test_panels_notice_what_is_not_finite_and_what_is_singular(in_panels, row):
    A = positive_definite(50)
    A[row, row] = np.nan
    assert try_factorize(A) is None
    L = np.eye(50)
    L[row, row] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match=f"singular at row {row}"):
        Cholesky(L).into_inverse()


def test_a_factor_in_panels_does_all_that_a_factor_does(in_panels):
    test_factor_agrees_with_numpy(130)
    test_the_smallest_jitter_that_works_is_used_and_reported(3e-9, 4)


# --- the jitter policy --------------------------------------------------------------------------------------


def nearly_singular(smallest: float, n: int = 6) -> np.ndarray:
    """Eigenvalues 1, ..., 1, -smallest in a random basis."""
    Q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((n, n)))
    return Q @ np.diag([1.0] * (n - 1) + [-smallest]) @ Q.T


@pytest.mark.parametrize(("smallest", "step"), [(3e-13, 2), (3e-11, 3), (3e-9, 4), (3e-7, 5)])
def test_the_smallest_jitter_that_works_is_used_and_reported(smallest, step):
    A = nearly_singular(smallest)
    factor = Cholesky.of(A)
    scale = np.mean(np.diag(A))
    assert factor.jitter == pytest.approx(JITTER_LADDER[step] * scale)
    L = np.tril(factor.lower)
    np.testing.assert_allclose(L @ L.T, A + JITTER_LADDER[step] * np.diag(np.diag(A)), atol=1e-15)
    assert try_factorize(A + JITTER_LADDER[step - 1] * np.diag(np.diag(A))) is None


@pytest.mark.parametrize("scale", [1e-24, 1.0, 1e24])
def test_jitter_is_relative_to_the_diagonal(scale):
    A = nearly_singular(3e-9)
    assert Cholesky.of(scale * A).jitter == pytest.approx(scale * Cholesky.of(A).jitter)


def test_an_exhausted_ladder_explains_itself():
    with pytest.raises(NotPositiveDefiniteError, match=r"3 x 3 .* even with 1e-06 .*too many cooks"):
        factorize(lambda: -np.eye(3), lambda: "too many cooks")


def test_overflow_is_told_apart_from_singularity():
    with pytest.raises(NotPositiveDefiniteError, match="not finite: a parameter has overflowed"):
        factorize(lambda: np.full((2, 2), np.inf))


def test_every_step_gets_a_fresh_matrix():
    built = []

    def build():
        built.append(1)
        return nearly_singular(3e-11)

    factorize(build)
    assert len(built) == 4


def test_the_root_of_a_covariance_that_is_all_rounding():
    S = 1e-16 * nearly_singular(0.4)
    U = np.eye(6)
    M = covariance_root(S)(U)
    values, vectors = np.linalg.eigh(S)
    np.testing.assert_allclose(M @ M.T, vectors @ np.diag(np.clip(values, 0, None)) @ vectors.T, atol=1e-30)


def test_the_root_of_an_ordinary_covariance():
    S = positive_definite(5)
    M = covariance_root(S)(np.eye(5))
    np.testing.assert_allclose(M @ M.T, S, rtol=1e-12)


# --- tiles --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 127, 128, 129, 700])
def test_tiles_cover_the_lower_triangle_once(n):
    count = np.zeros((n, n), dtype=int)
    for rows, columns in lower_tiles(n):
        count[rows, columns] += 1
    assert np.all(np.tril(count) == np.tril(np.ones((n, n))))


@pytest.mark.parametrize("n", [3, 129, 700])
def test_halved_tiles_add_up_to_the_symmetric_sum(n):
    rng = np.random.default_rng(n)
    S = rng.standard_normal((n, n))
    S += S.T
    total = map_tiles(lambda r, c: float(halve_symmetric(S[r, c].copy(), r, c).sum()), n)
    assert 2 * sum(total) == pytest.approx(S.sum(), rel=1e-10, abs=1e-8)


def test_mirroring_fills_the_upper_triangle():
    A = positive_definite(300)
    np.testing.assert_array_equal(mirror_lower(with_garbage_above(A)), np.tril(A) + np.tril(A, -1).T)


def test_threads_give_the_same_tiles(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    assert n_threads() == 2
    monkeypatch.setattr(tiles, "PARALLEL_FROM", 0)
    assert map_tiles(lambda r, c: (r, c), 700) == list(lower_tiles(700))


def test_thread_count_comes_from_the_environment(monkeypatch):
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    assert 1 <= n_threads() <= (os.cpu_count() or 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert n_threads() == 3
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "nonsense")
    assert n_threads() == 3


def test_the_limit_on_products_is_lifted_by_the_last_of_several_threads():
    from threadpoolctl import threadpool_info

    def blas() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: map_tiles(lambda r, c: blas(), 300), range(8)))
    assert blas() == before


def test_workspace_hands_out_the_same_memory_for_the_same_shape():
    space = Workspace()
    first = space.get("A", (3, 3))
    assert space.get("A", (3, 3)) is first
    assert space.get("A", (4, 4)) is not first
    assert space.get("B", (4, 4)) is not space.get("A", (4, 4))


def test_duplicates_are_found_with_their_first_occurrence():
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [5.0, 6.0], [1.0, 2.0]])
    assert first_duplicates(X) == (4, [(0, 2), (1, 3), (0, 4)])
    assert first_duplicates(X[:2]) == (0, [])


FAULTS = """
import resource
import numpy as np
from cavity.gp import GP
from cavity.kernels import SE
from cavity.numerics.threads import n_threads
X = np.random.default_rng(0).standard_normal((700, 4))
model, data = GP(1.0 * SE(np.ones(4))).training(X, X[:, 0])
def faults(count):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        model.evidence_of(data)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults(3)
print(faults(10) / 10)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="how memory is kept depends on the C library")
def test_tiles_are_not_paged_in_anew():
    """In a process of its own: whatever ran before may have taught the C library to keep memory."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_TUNABLES"))}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=settings
    )
    assert float(done.stdout) < 64  # half a tile; without the care there are hundreds
