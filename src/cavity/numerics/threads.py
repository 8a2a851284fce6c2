"""Threads of the numerical libraries: how many, and one level of parallelism at a time."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from typing import Any


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
