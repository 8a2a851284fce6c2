"""Interrupts that were caught on the way.

Learning and sampling keep what they have when they are stopped. That is right at the prompt; work that consists of
several such steps must know that there was a Ctrl-C, whoever dealt with it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Remembers Ctrl-C from the beginning of a `with` statement on.

    Signals are delivered to the main thread alone; in any other one this does nothing, nor where Ctrl-C is ignored.

    Attributes
    ----------
    interrupted : bool
    """

    def __init__(self) -> None:
        self._before: Any = None
        self.interrupted = False

    def raise_if_interrupted(self) -> None:
        """Raise a KeyboardInterrupt again that was dealt with elsewhere."""
        if self.interrupted:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        if callable(before) and threading.current_thread() is threading.main_thread():
            self._before = before
            signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _remember(self, number: int, frame: FrameType | None) -> Any:
        self.interrupted = True
        return self._before(number, frame)


@contextmanager
def not_swallowed() -> Iterator[None]:
    """Raise KeyboardInterrupt after the block if an interrupt came in it."""
    with Interrupts() as found:
        yield
    found.raise_if_interrupted()
