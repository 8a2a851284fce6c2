"""Dense linear algebra on symmetric positive definite matrices, in place and in tiles.

A symmetric matrix is held as the lower triangle of a C-ordered array. Its transpose is a Fortran-ordered
upper triangle in the same memory, so LAPACK works on it without a copy. The strict upper triangle is never
read.

Jitter policy, the only one in the library: a factorization is tried as it is, then with each step of
`JITTER_LADDER` times the diagonal added to it, and the amount that was needed, on average, is reported with the result.
Each row is thus changed in proportion to its own variance, as if all had been scaled to unit variance before: rows may
have different units (values and slopes).
When the ladder is exhausted, `NotPositiveDefiniteError` says what to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dtrmm, dtrsv

from cavity.numerics.arrays import Array
from cavity.numerics.triangles import factor_in_place, invert_factored_in_place, invert_triangle_in_place

JITTER_LADDER = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Fractions of the diagonal that may be added to it, smallest first."""

ROWS_AT_A_TIME = 256
"""Rows of a triangle that are copied out at a time."""


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A covariance matrix that should be positive definite is not, even with the largest jitter."""


class Cholesky:
    """A = L L', with L in the lower triangle of a C-ordered array (the strict upper triangle holds anything).

    Attributes
    ----------
    lower : array (n, n)
        Memory of the factor.
    jitter : float
        What was added to the diagonal of A, on average, before it could be factorized.
    fraction : float
        The same as a share of each entry.
    """

    def __init__(self, lower: Array, jitter: float = 0.0, fraction: float = 0.0) -> None:
        self.lower = lower
        self.jitter, self.fraction = jitter, fraction

    @classmethod
    def of(cls, A: Array) -> Cholesky:
        """Factor of a full or lower-triangular matrix, with the jitter policy; A is kept."""
        return factorize(lambda: np.array(A, dtype=float, order="C"))

    @property
    def log_det(self) -> float:
        """log |A|."""
        return 2.0 * float(np.log(np.diagonal(self.lower)).sum())

    def solve(self, B: Array) -> Array:
        """A^-1 B."""
        if B.size == 0:
            return B.copy()
        U = self.lower.T
        if B.ndim == 1:
            half = dtrsv(U, B, lower=0, trans=1)
            return dtrsv(U, half, lower=0, overwrite_x=1)
        x, _ = lapack.dpotrs(U, B, lower=0)
        return cast(Array, x.reshape(B.shape))

    def half_solve(self, B: Array) -> Array:
        """L^-1 B."""
        return self._triangular(B, trans=1)

    def half_solve_transposed(self, B: Array) -> Array:
        """L^-T B."""
        return self._triangular(B, trans=0)

    def _triangular(self, B: Array, trans: int) -> Array:
        if B.size == 0:
            return B.copy()
        # The Fortran view is U = L', so L^-1 B is a solve with U transposed.
        x, _ = lapack.dtrtrs(self.lower.T, B, lower=0, trans=trans)
        return cast(Array, x.reshape(B.shape))

    def multiply(self, U: Array) -> Array:
        """L U."""
        flat = U.reshape(len(U), -1)
        return cast(Array, dtrmm(1.0, self.lower.T, flat, lower=0, trans_a=1).reshape(U.shape))

    def into_inverse(self) -> Array:
        """A^-1 in the lower triangle of the factor's own memory; the factor is gone afterwards."""
        if self.lower.size == 0:
            return self.lower
        inverse, self.lower = self.lower, np.empty((0, 0))
        info = invert_factored_in_place(inverse.T)
        if info != 0:
            raise NotPositiveDefiniteError(f"the factor is singular at row {info - 1}")
        return inverse

    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1, by row norms of L^-1 (the factor is kept)."""
        inverse = self.lower.copy()
        invert_triangle_in_place(inverse.T)
        # the columns of the lower triangle, a few rows at a time
        squares = np.zeros(len(inverse))
        for i in range(0, len(inverse), ROWS_AT_A_TIME):
            rows = np.tril(inverse[i : i + ROWS_AT_A_TIME], i)
            squares += np.einsum("ij,ij->j", rows, rows)
        return squares


def try_factorize(A: Array) -> Cholesky | None:
    """Factor of the matrix in the lower triangle of A (overwritten), or None if it is not positive
    definite."""
    if A.size == 0:
        return Cholesky(A)
    # Not every LAPACK notices entries that are not finite; they end up on the diagonal.
    if factor_in_place(A.T) != 0 or not np.isfinite(np.diagonal(A)).all():
        return None
    return Cholesky(A)


def factorize(build: Callable[[], Array], explain: Callable[[], str] | None = None) -> Cholesky:
    """Factor of the matrix that `build()` writes (lower triangle of a fresh C-ordered array), by the jitter
    policy.

    Parameters
    ----------
    build : callable
        Called once per step of the ladder that is needed.
    explain : callable, optional
        Gives the likely reason, for the error message when the ladder is exhausted.
    """
    scale = 0.0
    for fraction in JITTER_LADDER:
        A = build()
        diagonal = A.reshape(-1)[:: len(A) + 1]
        if fraction == 0.0:
            scale = float(diagonal.sum()) / len(A) if len(A) else 1.0
            if not np.isfinite(scale):
                raise NotPositiveDefiniteError(
                    "the covariance matrix has entries that are not finite: a parameter has overflowed; "
                    "bound the parameters or rescale the inputs"
                )
        diagonal += fraction * np.where(diagonal > 0, diagonal, scale)
        factor = try_factorize(A)
        if factor is not None:
            factor.jitter, factor.fraction = fraction * scale, fraction
            return factor
    reason = explain() if explain is not None else ""
    raise NotPositiveDefiniteError(
        f"the {len(A)} x {len(A)} covariance matrix is not positive definite, even with "
        f"{JITTER_LADDER[-1]:g} of its diagonal ({scale:.3g} on average) added. {reason}".rstrip()
    )


def covariance_root(S: Array) -> Callable[[Array], Array]:
    """U -> M U with M M' = S, for draws from N(0, S), where S may be singular by rounding.

    A Cholesky factor by the jitter policy; where even that fails (the covariance of values that are known
    exactly is nothing but rounding errors), the symmetric root without the negative eigenvalues.
    """
    try:
        return factorize(S.copy).multiply
    except NotPositiveDefiniteError:
        values, vectors = np.linalg.eigh(S)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))
        return lambda U: root @ U


def first_duplicates(X: Array) -> tuple[int, list[tuple[int, int]]]:
    """Number of rows that repeat an earlier one, and the first few pairs of row numbers."""
    _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    earlier = first[inverse.reshape(-1)]
    repeats = np.flatnonzero(earlier != np.arange(len(X)))
    return len(repeats), [(int(earlier[i]), int(i)) for i in repeats[:3]]
