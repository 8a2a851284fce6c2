"""Sparse factors by dense blocks: everything against explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from cavity.numerics import nested_dissection
from cavity.numerics.multifrontal import Pattern
from cavity.numerics.nested_dissection import dissect


def mesh(n=400, D=2, reach=0.12, seed=0):
    """Places, and the lower triangle of pairs that are near."""
    places = np.random.default_rng(seed).uniform(size=(n, D))
    near = np.sum((places[:, None] - places) ** 2, axis=2) < reach**2
    return places, *np.nonzero(np.tril(near))


def matrix(n, rows, columns, seed=1):
    """Entries of a positive definite matrix, and the matrix."""
    values = np.random.default_rng(seed).standard_normal(len(rows))
    A = np.zeros((n, n))
    A[rows, columns] = A[columns, rows] = values
    size = np.abs(A).sum(axis=1)
    A[np.diag_indices(n)] = size
    return A[rows, columns], A


@pytest.fixture(scope="module", params=[(400, 2, 0.12), (300, 3, 0.25), (60, 1, 0.05)], ids=str)
def problem(request):
    n, D, reach = request.param
    places, rows, columns = mesh(n, D, reach)
    pattern = Pattern(rows, columns, places)
    values, A = matrix(n, rows, columns)
    return pattern, rows, columns, values, A, pattern.factorize(values)


def test_pieces_are_all_rows_once_and_halves_do_not_touch():
    places, rows, columns = mesh()
    ones = np.ones(2 * len(rows), dtype=np.int8)
    graph = csr_array((ones, (np.r_[rows, columns], np.r_[columns, rows])), shape=(400, 400))
    pieces = dissect(places, graph, leaf=40)
    assert sorted(np.concatenate([p.rows for p in pieces])) == list(range(400))
    under: list[np.ndarray] = []
    for piece in pieces:
        halves = [under[child] for child in piece.children]
        if len(halves) == 2:
            assert graph[halves[0]][:, halves[1]].nnz == 0
        under.append(np.concatenate([piece.rows, *halves]))
    assert len(pieces) > 15
    assert len(pieces[-1].rows) < 120


def test_a_cover_is_as_small_as_a_matching_and_holds_all_entries():
    entries = csr_array((np.random.default_rng(0).random((30, 40)) < 0.08).astype(np.int8))
    low, high = nested_dissection._cover(entries)
    rows, columns = entries.nonzero()
    assert np.all(low[rows] | high[columns])
    matched = nested_dissection.maximum_bipartite_matching(entries, perm_type="column")
    assert low.sum() + high.sum() == np.sum(matched >= 0)


def test_determinant_and_solutions(problem):
    _, _, _, _, A, factor = problem
    U = np.random.default_rng(2).standard_normal((len(A), 3))
    assert factor.log_det == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
    np.testing.assert_allclose(factor.solve(U), np.linalg.solve(A, U), atol=1e-12)
    half = factor.half_solve(U)
    np.testing.assert_allclose(half.T @ half, U.T @ np.linalg.solve(A, U), atol=1e-10)
    np.testing.assert_allclose(factor.multiply_transposed(factor.half_solve_transposed(U)), U, atol=1e-12)
    back = factor.half_solve_transposed(np.eye(len(A)))
    np.testing.assert_allclose(back @ back.T, np.linalg.inv(A), atol=1e-12)


def test_the_inverse_on_the_pattern_and_how_it_moves_with_the_diagonal(problem):
    _, rows, columns, _, A, factor = problem
    S, d = np.linalg.inv(A), np.random.default_rng(3).standard_normal(len(A))
    np.testing.assert_allclose(factor.selected(), S[rows, columns], atol=1e-13)
    np.testing.assert_allclose(factor.selected_along(d), -(S @ (d[:, None] * S))[rows, columns], atol=1e-12)


def test_what_is_not_positive_definite_has_no_factor(problem):
    pattern, rows, columns, values, A, _ = problem
    least = np.linalg.eigvalsh(A)[0]
    on = rows == columns
    assert pattern.factorize(values - 0.999 * least * on) is not None
    assert pattern.factorize(values - 1.001 * least * on) is None
    assert pattern.factorize(np.where(on, np.nan, values)) is None


def test_a_full_matrix_of_rows_in_one_place():
    rows, columns = np.tril_indices(150)
    pattern = Pattern(rows, columns, np.zeros((150, 2)))
    values, A = matrix(150, rows, columns)
    assert pattern.factorize(values).log_det == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)
