"""Large symmetric matrices in tiles of the lower triangle, each small enough for a core's cache.

A symmetric matrix is held as the lower triangle of a C-ordered array; its strict upper triangle is never read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

import numpy as np
from scipy.linalg.blas import dsymm, dsymv

from cavity.numerics.arrays import Array
from cavity.numerics.threads import n_threads, small_products

T = TypeVar("T")

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


@cache
def _pool(pid: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process (a forked child must not use its parent's)."""
    return ThreadPoolExecutor(threads, thread_name_prefix="cavity-tile")


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

    An array handed out under a name is valid until the next request under that name.

    Attributes
    ----------
    owner : object
        Mark of whose values the array "K" holds.
    mirrored : bool
        Whether it holds them in both triangles.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self.owner: object = None
        self.mirrored = False

    def release(self) -> None:
        """Free the memory."""
        self.__init__()  # type: ignore[misc]

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: a copy in another process has arrays of its own."""
        return {"_arrays": {}, "owner": None, "mirrored": False}

    def get(self, name: str, shape: tuple[int, ...]) -> Array:
        """An uninitialized array; the same memory as last time if the shape is the same."""
        array = self._arrays.get(name)
        if array is None or array.shape != shape:
            array = self._arrays[name] = np.empty(shape)
        return array


def symmetric_times(A: Array, U: Array) -> Array:
    """A U for a symmetric A in the lower triangle of a C-ordered array."""
    if A.size == 0:
        return np.zeros_like(U)
    if U.ndim == 1:
        return dsymv(1.0, A.T, U, lower=0)
    return dsymm(1.0, A.T, U, lower=0)
