"""Dense linear algebra on symmetric positive definite matrices, in place and in tiles.

A symmetric matrix is held as the lower triangle of a C-ordered array. Its transpose is a Fortran-ordered
upper triangle in the same memory, so LAPACK works on it without a copy. The strict upper triangle is never
read.

Jitter policy, the only one in the library: a factorization is tried as it is, then with each step of
`JITTER_LADDER` times the mean diagonal added, and the amount that was needed is reported with the result.
When the ladder is exhausted, `NotPositiveDefiniteError` says what to look at.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.linalg.blas import dtrmm, dtrsv

Array = NDArray[np.float64]
T = TypeVar("T")

JITTER_LADDER = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)
"""Fractions of the mean diagonal that may be added to it, smallest first."""

TILE_ROWS, TILE_COLUMNS = 128, 512
"""Shape of a tile: 512 kB of doubles, about a core's second-level cache; few enough tiles that calls do not
count."""

PARALLEL_FROM = 1500
"""Rows from which tiles are shared among threads. Smaller matrices are done before LAPACK's own threads, which spin for
some 20 ms after each call, let go of their cores."""


KEPT_DOUBLES = 2**21
"""Size of the block by which the C library learns to keep memory (16 MB; it listens up to 32 MB)."""


def _keep_freed_memory() -> None:
    """Make the C library keep the memory of freed tiles instead of returning it to the system.

    The GNU library maps blocks anew, and gives the end of its heap back, until it has seen a block of that size come
    and go. Tiles would then cost a page fault for every 4 kB, as much time as the arithmetic on them. Elsewhere this
    does nothing: the block is never touched.
    """
    np.empty(KEPT_DOUBLES)


_keep_freed_memory()


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A covariance matrix that should be positive definite is not, even with the largest jitter."""


# --- threads ------------------------------------------------------------------------------------------------


def n_threads() -> int:
    """Threads that tile-wise work may use: what the numerical libraries were given, else the cores of this
    process.

    Worker processes of a parallel run are started with these variables at 1, so that there is one level of
    parallelism only.
    """
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


@cache
def _pool(pid: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process (a forked child must not use its parent's)."""
    return ThreadPoolExecutor(threads, thread_name_prefix="cavity-tile")


class _OneThread:
    """While entered, matrix products run on one thread: all of them, or NumPy's only.

    NumPy and SciPy may bring a library of their own each, with threads that spin for a while after every call.
    Products of NumPy between factorizations of SciPy then make two pools fight for the cores. Entering is counted, so
    that calls from several Python threads restore the original setting once, at the end.
    """

    def __init__(self, numpy_only: bool) -> None:
        self._numpy_only = numpy_only
        self._lock, self._depth = threading.Lock(), 0
        self._libraries: list[Any] | None = None
        self._before: list[int] = []

    def _find(self) -> list[Any]:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

        found = [lib for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas"]
        if not self._numpy_only:
            return found
        own = [lib for lib in found if "numpy" in str(lib.filepath)]
        return own if len(own) < len(found) else []  # a library shared with SciPy is left alone

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                if self._libraries is None:
                    self._libraries = self._find()
                self._before = [lib.num_threads for lib in self._libraries]
                for lib in self._libraries:
                    lib.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for lib, threads in zip(self._libraries or [], self._before):
                    lib.set_num_threads(threads)


small_products = _OneThread(numpy_only=False)
numpy_on_one_thread = _OneThread(numpy_only=True)

SMALL_PROBLEM = 256
"""Rows up to which a second thread costs more, in waking and waiting, than it saves."""


def threads_for(n: int) -> AbstractContextManager[None]:
    """One thread for everything while a problem is small; beyond, only factorizations use several."""
    return small_products if n <= SMALL_PROBLEM else numpy_on_one_thread


# --- tiles --------------------------------------------------------------------------------------------------


@cache
def lower_tiles(n: int) -> tuple[tuple[slice, slice], ...]:
    """Pairs of slices (rows, columns) that cover the lower triangle.

    A tile that reaches the diagonal ends with a square block on it (its columns stop where its rows do).
    """
    tiles = []
    for i in range(0, n, TILE_ROWS):
        rows = slice(i, min(i + TILE_ROWS, n))
        for j in range(0, rows.stop, TILE_COLUMNS):
            tiles.append((rows, slice(j, min(j + TILE_COLUMNS, rows.stop))))
    return tuple(tiles)


def map_tiles(function: Callable[[slice, slice], T], n: int) -> list[T]:
    """`function(rows, columns)` for every lower tile of an n x n matrix, on several threads where that
    pays."""
    tiles, threads = lower_tiles(n), n_threads()
    with small_products:
        if threads == 1 or n < PARALLEL_FROM:
            return [function(rows, columns) for rows, columns in tiles]
        return list(_pool(os.getpid(), threads).map(lambda tile: function(*tile), tiles))


_HALF_LOWER = np.tril(np.ones((TILE_ROWS, TILE_ROWS)), -1) + 0.5 * np.eye(TILE_ROWS)


def halve_symmetric(G: Array, rows: slice, columns: slice) -> Array:
    """Weights of a symmetric sum over the lower triangle, in place: nothing above the diagonal, half of the
    diagonal.

    Twice the sum over all tiles is then the sum over the whole matrix.
    """
    if columns.stop == rows.stop:
        size = rows.stop - rows.start
        G[:, -size:] *= _HALF_LOWER[:size, :size]
    return G


def mirror_lower(A: Array) -> Array:
    """Copy the lower triangle of A to the upper one, in place, and return A."""
    for i in range(0, len(A), TILE_ROWS):
        rows = slice(i, min(i + TILE_ROWS, len(A)))
        block = np.tril(A[rows, rows])
        A[rows, rows] = block + np.tril(block, -1).T
        A[rows, rows.stop :] = A[rows.stop :, rows].T
    return A


class Workspace:
    """Arrays kept between evaluations of one fit, so that memory is paged in once.

    An array handed out under a name is valid until the next request under that name. `memory` is for what an
    inference rule wants to remember from one evaluation to the next (sites for a warm start, the stage it is
    in); it is cleared at the beginning of each run of an optimizer.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self.memory: dict[str, Any] = {}

    def get(self, name: str, shape: tuple[int, ...]) -> Array:
        """An uninitialized array; the same memory as last time if the shape is the same."""
        array = self._arrays.get(name)
        if array is None or array.shape != shape:
            array = self._arrays[name] = np.empty(shape)
        return array


# --- Cholesky factors ---------------------------------------------------------------------------------------


class Cholesky:
    """A = L L', with L in the lower triangle of a C-ordered array (the strict upper triangle holds anything).

    Attributes
    ----------
    lower : array (n, n)
        Memory of the factor.
    jitter : float
        What was added to the diagonal of A before it could be factorized.
    """

    def __init__(self, lower: Array, jitter: float = 0.0) -> None:
        self.lower = lower
        self.jitter = jitter

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
        out, info = _inverse_of_factor(self.lower.T)
        if info != 0:
            raise NotPositiveDefiniteError(f"the factor is singular at row {info - 1}")
        self.lower = np.empty((0, 0))
        return out.T

    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1, by row norms of L^-1 (the factor is kept)."""
        if len(self.lower) == 0:
            return np.zeros(0)
        if self.lower.size == 0:
            return np.zeros(0)
        inverse, _ = lapack.dtrtri(self.lower.T, lower=0)
        upper = np.triu(inverse)
        return cast(Array, np.einsum("ij,ij->i", upper, upper))


TWO_BLOCKS = range(128, 320)
"""Rows for which a triangle is inverted in two halves: LAPACK's own routine is slow at these sizes."""


def _inverse_of_factor(U: Array) -> tuple[Array, int]:
    """(U' U)^-1 in the upper triangle of a Fortran-ordered U, in place, and LAPACK's code (0 if all is well)."""
    n = len(U)
    if n not in TWO_BLOCKS:
        return cast(tuple[Array, int], lapack.dpotri(U, lower=0, overwrite_c=1))
    first, second = slice(0, n // 2), slice(n // 2, n)
    A, info = lapack.dtrtri(U[first, first], lower=0)
    D, more = lapack.dtrtri(U[second, second], lower=0)
    if info or more:
        return U, info or n // 2 + more
    off = dtrmm(-1.0, A, U[first, second], lower=0)
    U[first, second] = dtrmm(1.0, D, off, side=1, lower=0, overwrite_b=1)
    U[first, first], U[second, second] = A, D
    out, info = lapack.dlauum(U, lower=0, overwrite_c=1)
    return cast(Array, out), int(info)


def try_factorize(A: Array) -> Cholesky | None:
    """Factor of the matrix in the lower triangle of A (overwritten), or None if it is not positive
    definite."""
    if A.size == 0:
        return Cholesky(A)
    out, info = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    # Not every LAPACK notices entries that are not finite; they end up on the diagonal.
    if info != 0 or not np.isfinite(np.diagonal(out)).all():
        return None
    return Cholesky(out.T)


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
            scale = float(np.mean(diagonal)) if len(A) else 1.0
            if not np.isfinite(scale):
                raise NotPositiveDefiniteError(
                    "the covariance matrix has entries that are not finite: a parameter has overflowed; "
                    "bound the parameters or rescale the inputs"
                )
        diagonal += fraction * scale
        factor = try_factorize(A)
        if factor is not None:
            factor.jitter = fraction * scale
            return factor
    reason = explain() if explain is not None else ""
    raise NotPositiveDefiniteError(
        f"the {len(A)} x {len(A)} covariance matrix is not positive definite, even with "
        f"{JITTER_LADDER[-1]:g} of its mean diagonal ({scale:.3g}) added. {reason}".rstrip()
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


def first_duplicates(X: Array, limit: int = 3) -> tuple[int, list[tuple[int, int]]]:
    """Number of rows that repeat an earlier one, and the first few pairs of row numbers."""
    _, first, inverse = np.unique(X, axis=0, return_index=True, return_inverse=True)
    earlier = first[inverse.reshape(-1)]
    repeats = np.flatnonzero(earlier != np.arange(len(X)))
    return len(repeats), [(int(earlier[i]), int(i)) for i in repeats[:limit]]
