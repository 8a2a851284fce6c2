"""Time that work may take.

Learning is told its limit. Sampling looks at one that holds for everything within a `with time_limit(...)` statement,
because chains, parts of their warm-up and searches for where to begin are made by functions deep inside one another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float] = ContextVar("_END", default=float("inf"))


class Deadline:
    """The end of a span of time that begins now.

    Parameters
    ----------
    seconds : float, optional
        No limit by default.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a limit."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def part(self, share: float) -> float | None:
        """Seconds of a part of the work that may take this share of the whole, as far as there are any left."""
        left = self.left
        return None if left is None or self._seconds is None else min(share * self._seconds, left)


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Inside the block `time_is_up()` becomes true after `seconds`, or earlier if a limit around the block says so."""
    if seconds is None:
        yield
        return
    token = _END.set(min(_END.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _END.reset(token)


def time_is_up() -> bool:
    """Whether a limit that holds here has been reached."""
    return time.monotonic() >= _END.get()
