"""Functions that only compiled functions call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba.extending import register_jitable

F = TypeVar("F", bound=Callable[..., Any])


def helper(**flags: Any) -> Callable[[F], F]:
    """A decorator for parts of compiled functions. It halves the time to compile one of a few lines: there is no entry
    from Python and none from C, and nothing is written to disk. Python itself runs the function as it stands."""
    found: Callable[[F], F] = register_jitable(
        nopython=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True, **flags
    )
    return found
