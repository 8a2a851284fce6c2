# mypy: disable-error-code=untyped-decorator
"""Passes over large matrices that do several things to an entry while it is in a register.

At n = 1000 a Cholesky factorization and inverse take about 20 ms, and each pass over a matrix of that size up to one:
what NumPy does in five passes decides whether evidence and gradient are near the cost of their linear algebra. These
are compiled with Numba on first use (and cached on disk), on large problems only: loading Numba costs as much as
thousands of small matrices, and whether it is used must depend on the size of the problem alone, so that results can
be repeated to the last bit. Otherwise NumPy does the same.

    with compiled_passes(n >= COMPILED_FROM):
        ...
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.numerics.exponential import exp_in_place, exp_numpy, exponential

COMPILED_FROM = 700
"""Rows of a training set from which its matrices are filled and differentiated by compiled passes."""

_this_thread = threading.local()


@contextmanager
def compiled_passes(wanted: bool = True) -> Iterator[None]:
    """Within it, the passes of this thread are the compiled ones."""
    before = getattr(_this_thread, "compiled", False)
    _this_thread.compiled = wanted
    try:
        yield
    finally:
        _this_thread.compiled = before


def load_compiled() -> None:
    """Load Numba and all passes now, so that what comes next is not charged with their time and memory."""
    for load in (exponential, _outer_minus, _product_and_sums, _lower_moments):
        load()


def _compiled() -> bool:
    return getattr(_this_thread, "compiled", False)


def _scratch(name: str, rows: int, columns: int) -> Array:
    """Memory of this thread for a tile, until the next request under the name: fresh memory costs as much as a pass."""
    kept: Array | None = getattr(_this_thread, name, None)
    if kept is None or kept.size < rows * columns:
        kept = np.empty(rows * columns)
        setattr(_this_thread, name, kept)
    return kept[: rows * columns].reshape(rows, columns)


def kernel_exp(values: Array, slope: float = 1.0, factor: float = 1.0) -> Array:
    """factor * exp(slope * values) in place."""
    if _compiled() and values.flags.c_contiguous:
        return exp_in_place(values, slope, factor)
    return exp_numpy(values, slope, factor)


def outer_minus(u: Array, A: Array, rows: slice, columns: slice) -> Array:
    """The tile [rows, columns] of u u' - A, for a C-ordered A; good until the next call."""
    if _compiled():
        out = _scratch("outer", rows.stop - rows.start, columns.stop - columns.start)
        _outer_minus()(u, A, rows.start, columns.start, out)
        return out
    tile: Array = np.multiply.outer(u[rows], u[columns])
    tile -= A[rows, columns]
    return tile


def product_and_sums(G: Array, K: Array) -> tuple[Array, Array, Array]:
    """H = G * K entry by entry (good until the next call), the sums of its rows and of its columns."""
    if _compiled() and G.flags.c_contiguous:
        H, rows, columns = _scratch("product", *G.shape), np.empty(len(G)), np.zeros(G.shape[1])
        _product_and_sums()(G, K, H, rows, columns)
        return H, rows, columns
    H = G * K
    return H, H.sum(axis=1), H.sum(axis=0)


FEW_COLUMNS = 32
"""Columns up to which `lower_moments` beats matrix products."""


def lower_moments(
    u: Array, A: Array, K: Array, rows: slice, columns: slice, za: Array, zb: Array
) -> Array | None:
    """Sums over the tile [rows, columns] of the lower triangle, with H = (u u' - A) * K halved on the diagonal.

    sum_ij H_ij (za_i - zb_j)^2 for each column of za and zb, then sum_ij H_ij, shape (C + 1,). For C-ordered A and K;
    None if the compiled pass is not to be used.
    """
    if not _compiled() or za.shape[1] > FEW_COLUMNS:
        return None
    out = np.zeros(za.shape[1] + 1)
    room = _scratch("moments", 2, len(zb))
    _lower_moments()(u, A, K, rows.start, columns.start, za, np.ascontiguousarray(zb.T), room, out)
    return out


# --- what is compiled ---------------------------------------------------------------------------------------


def _outer_minus_loop(u: Any, A: Any, row: Any, column: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        below, own = A[row + i], u[row + i]
        for j in range(out.shape[1]):
            out[i, j] = own * u[column + j] - below[column + j]


def _product_and_sums_loop(G: Any, K: Any, H: Any, rows: Any, columns: Any) -> None:
    for i in range(H.shape[0]):
        total = 0.0
        for j in range(H.shape[1]):
            product = G[i, j] * K[i, j]
            H[i, j] = product
            total += product
            columns[j] += product
        rows[i] = total


def _lower_moments_loop(
    u: Any, A: Any, K: Any, row: Any, column: Any, za: Any, zb: Any, room: Any, out: Any
) -> None:
    """With zb transposed. A row of H stays in the nearest cache: (a - b)^2 = a^2 - 2 a b + b^2, term by term."""
    C, width = zb.shape
    H, sums = room[0], room[1]
    sums[:] = 0.0
    for i in range(za.shape[0]):
        a, k, own = A[row + i], K[row + i], u[row + i]
        left = min(width, row + i - column)  # of the diagonal
        total = 0.0
        for j in range(left):
            product = (own * u[column + j] - a[column + j]) * k[column + j]
            H[j] = product
            total += product
            sums[j] += product
        if left < width:
            product = 0.5 * (own * own - a[row + i]) * k[row + i]
            H[left] = product
            total += product
            sums[left] += product
            left += 1
        out[C] += total
        for c in range(C):
            crossed, z = 0.0, zb[c]
            for j in range(left):
                crossed += H[j] * z[j]
            out[c] += za[i, c] * (total * za[i, c] - 2.0 * crossed)
    for c in range(C):
        z = zb[c]
        for j in range(width):
            out[c] += sums[j] * z[j] * z[j]


def _compile(loop: Callable[..., None], signature: str, **options: Any) -> Any:
    import numba

    settings: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", **options}
    return numba.njit(signature, **settings)(loop)


@cache
def _outer_minus() -> Any:
    return _compile(
        _outer_minus_loop,
        "void(float64[::1],float64[:,::1],int64,int64,float64[:,::1])",
        fastmath={"contract"},
    )


@cache
def _product_and_sums() -> Any:
    arrays = "float64[:,::1],float64[:,:],float64[:,::1],float64[::1],float64[::1]"
    return _compile(_product_and_sums_loop, f"void({arrays})", fastmath={"contract", "reassoc"})


@cache
def _lower_moments() -> Any:
    matrices = "float64[:,::1],float64[:,::1],int64,int64,float64[:,::1],float64[:,::1],float64[:,::1]"
    return _compile(
        _lower_moments_loop, f"void(float64[::1],{matrices},float64[::1])", fastmath={"contract", "reassoc"}
    )
