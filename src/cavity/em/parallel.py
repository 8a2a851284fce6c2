"""Threads over rows or sequences."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

from cavity.em.checks import is_whole

T = TypeVar("T")

ROWS_PER_THREAD = 8192
"""Rows a thread must have before a second one is worth waking."""


def resolve_threads(n_jobs: int | None) -> int:
    """Number of threads for n_jobs as in joblib: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if not is_whole(n_jobs) or n_jobs == 0:
        raise ValueError(f"n_jobs={n_jobs!r} has no meaning: use a positive integer, or -1 for all cores")
    n_jobs = int(n_jobs)
    cores = os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs) if n_jobs < 0 else n_jobs


def row_ranges(n_rows: int, threads: int) -> list[tuple[int, int]]:
    """Split rows into contiguous ranges, one per useful thread."""
    parts = max(1, min(threads, n_rows // ROWS_PER_THREAD))
    bounds = [n_rows * i // parts for i in range(parts + 1)]
    return list(pairwise(bounds))


def run_parts(function: Callable[[Any], T], parts: list[Any]) -> list[T]:
    """function(part) for every part, on as many threads as there are parts; results in order."""
    if len(parts) == 1:
        return [function(parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(function, parts))
