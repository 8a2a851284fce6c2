"""Cholesky factors and their inverses, in place, for matrices of any size; the only caller of these LAPACK routines.

OpenBLAS's own threaded `dpotrf` has ended the interpreter with a segmentation fault at 17,000 rows on processors with
AVX-512, where 15,000 rows were well. So LAPACK works on whole matrices up to `WHOLE_UP_TO` rows only. Beyond, they are
taken in panels of `PANEL` rows, and all work but a small share is matrix products, which use all threads.

Matrices are upper triangles U of Fortran-ordered arrays, the other triangle is neither read nor written. In blocks,

    A = U' U       U_kk = chol(A_kk),   U_kj = U_kk^-T A_kj,   then A_ij -= U_ki' U_kj for the blocks that are left
    X = U^-1       X_jj = U_jj^-1,   X_ij = -(sum_{i <= k < j} X_ik U_kj) X_jj
    A^-1 = X X'    (A^-1)_ij = sum_{k >= j} X_ik X_jk'

in an order in which what is overwritten is not needed again. Return values are LAPACK's codes: 0, or the first leading
minor that is not positive definite, or the first zero on the diagonal, both counted from 1.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm, dsyrk, dtrmm, dtrsm

from cavity.numerics.arrays import Array

WHOLE_UP_TO = 12_000
"""Rows up to which LAPACK gets the whole matrix."""

PANEL = 1024
"""Rows of a panel: products of such blocks run at full speed, and blocks that are copied out take little memory."""

TWO_BLOCKS = range(128, 320)
"""Rows for which a triangle is inverted in two halves: LAPACK's own routine is slow at these sizes."""


def factor_in_place(A: Array) -> int:
    """The upper triangle of A becomes U with A = U' U, unless the code is not 0.

    Parameters
    ----------
    A : Fortran-ordered array (n, n)
    """
    n = len(A)
    if n <= WHOLE_UP_TO:
        return _in_place(A, lapack.dpotrf(A, lower=0, clean=0, overwrite_a=1))
    for k in _panels(n):
        U, info = lapack.dpotrf(A[k, k], lower=0, clean=0)
        A[k, k] = U
        if info:
            return int(k.start + info)
        if k.stop == n:
            break
        right = dtrsm(1.0, U, np.asfortranarray(A[k, k.stop :]), lower=0, trans_a=1, overwrite_b=1)
        A[k, k.stop :] = right
        for j in _panels(n, k.stop):
            column = right[:, j.start - k.stop : j.stop - k.stop]
            A[j, j] = dsyrk(-1.0, column, beta=1.0, c=A[j, j], trans=1, lower=0)
            for i in _panels(j.start, k.stop):
                row = right[:, i.start - k.stop : i.stop - k.stop]
                A[i, j] = dgemm(-1.0, row, column, beta=1.0, c=A[i, j], trans_a=1)
    return 0


def invert_triangle_in_place(U: Array) -> int:
    """The upper triangle of U becomes its inverse, unless the code is not 0.

    Parameters
    ----------
    U : Fortran-ordered array (n, n)
    """
    n = len(U)
    if n == 0:
        return 0
    if n not in TWO_BLOCKS and n <= WHOLE_UP_TO:
        return _in_place(U, lapack.dtrtri(U, lower=0, overwrite_c=1))
    singular = np.flatnonzero(np.diagonal(U) == 0.0)
    if singular.size:
        return int(singular[0]) + 1
    for j in _panels(n, panel=(n + 1) // 2 if n in TWO_BLOCKS else PANEL):
        corner, _ = lapack.dtrtri(U[j, j], lower=0)
        U[j, j] = corner
        column = np.asfortranarray(U[: j.start, j])
        for i in _panels(j.start):
            # blocks of the column above i are done, those from i on are as they were
            product = dtrmm(-1.0, U[i, i], column[i], lower=0)
            if i.stop < j.start:
                product = dgemm(
                    -1.0, U[i, i.stop : j.start], column[i.stop :], beta=1.0, c=product, overwrite_c=1
                )
            U[i, j] = dtrmm(1.0, corner, product, side=1, lower=0, overwrite_b=1)
    return 0


def invert_factored_in_place(U: Array) -> int:
    """The upper triangle of U becomes that of (U' U)^-1, unless the code is not 0.

    Parameters
    ----------
    U : Fortran-ordered array (n, n)
    """
    n = len(U)
    if n not in TWO_BLOCKS and n <= WHOLE_UP_TO:
        return _in_place(U, lapack.dpotri(U, lower=0, overwrite_c=1))
    info = invert_triangle_in_place(U)
    if info:
        return info
    if n <= WHOLE_UP_TO:
        return _in_place(U, lapack.dlauum(U, lower=0, overwrite_c=1))
    for j in _panels(n):
        corner = np.asfortranarray(U[j, j])  # a copy: j is a part of the columns of U
        right = np.asfortranarray(U[j, j.stop :])
        for i in _panels(j.start):
            block = dtrmm(1.0, corner, U[i, j], side=1, lower=0, trans_a=1)
            if j.stop < n:
                block = dgemm(1.0, U[i, j.stop :], right, beta=1.0, c=block, trans_b=1, overwrite_c=1)
            U[i, j] = block
        own, _ = lapack.dlauum(corner, lower=0)
        U[j, j] = dsyrk(1.0, right, beta=1.0, c=own, lower=0) if j.stop < n else own
    return 0


def _panels(stop: int, start: int = 0, panel: int | None = None) -> list[slice]:
    """The rows from `start` to `stop` in panels."""
    size = PANEL if panel is None else panel
    return [slice(k, min(k + size, stop)) for k in range(start, stop, size)]


def _in_place(A: Array, found: Any) -> int:
    """LAPACK's code; A holds the result even if LAPACK worked on a copy."""
    out, info = cast(tuple[Array, int], found)
    if not np.shares_memory(out, A):
        A[...] = out
    return int(info)
