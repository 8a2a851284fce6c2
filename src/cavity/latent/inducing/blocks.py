"""Products of blocks of rows with triangles and with each other, in place where BLAS can.

A block is a C-ordered array (rows, m): its transpose is Fortran-ordered, as BLAS likes it. A triangle L^-1 is kept as
its transpose, upper triangular and Fortran-ordered. Multiplying by the inverse of a factor takes half as long as
solving with it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm, dsyrk, dtrmm

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky


def inverse_transposed(factor: Cholesky) -> Array:
    """L^-T, upper triangular, Fortran-ordered, zeros below."""
    inverse, _ = lapack.dtrtri(factor.lower.T, lower=0)
    return np.asfortranarray(np.triu(inverse))


def times_inverse(R: Array, A: Array) -> Array:
    """Rows a_i -> L^-1 a_i for R = L^-T, in place."""
    return dtrmm(1.0, R, A.T, lower=0, trans_a=1, overwrite_b=1).T


def times_inverse_transposed(R: Array, A: Array) -> Array:
    """Rows a_i -> L^-T a_i for R = L^-T, in place."""
    return dtrmm(1.0, R, A.T, lower=0, overwrite_b=1).T


def add_gram(C: Array, A: Array, scale: float = 1.0) -> None:
    """C += scale A'A in the lower triangle of a C-ordered C (m, m)."""
    dsyrk(scale, A.T, beta=1.0, c=C.T, lower=0, overwrite_c=1)


def add_weighted_gram(C: Array, A: Array, weight: Array, keep: bool) -> None:
    """C += A' diag(weight) A in the lower triangle, for weights (rows,) of any sign; A is overwritten unless kept."""
    first = float(weight[0])
    if np.all(weight == first):
        add_gram(C, A, first)
        return
    root, negative = np.sqrt(np.abs(weight))[:, None], weight < 0
    if not negative.any():
        add_gram(C, np.multiply(A, root, out=None if keep else A))
        return
    for sign, which in ((1.0, ~negative), (-1.0, negative)):
        add_gram(C, A[which] * root[which], sign)


def add_product(C: Array, A: Array, B: Array) -> None:
    """C += A B' for C (rows, m), A (rows, k), B (m, k), in place."""
    dgemm(1.0, B.T, A.T, beta=1.0, c=C.T, trans_a=1, overwrite_c=1)


def row_products(A: Array, B: Array) -> Array:
    """a_i' b_i of the rows."""
    return cast(Array, np.einsum("ij,ij->i", A, B))
