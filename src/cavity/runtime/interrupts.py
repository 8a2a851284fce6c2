"""Interrupts (Ctrl-C) and who answers them.

Learning and sampling keep what they have when they are stopped. That is right at the prompt. Work that consists of
several such steps must know that there was a Ctrl-C, whoever dealt with it (`Interrupts`), or be ended by it as a whole
(`not_swallowed`). A short step without which what was learned or drawn would be lost is finished first (`Postponed`).
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Remembers Ctrl-C from the beginning of a `with` statement on.

    Signals are delivered to the main thread alone; in any other one this does nothing, nor if Ctrl-C is ignored.

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
        if self._before is None:
            return
        try:
            signal.signal(signal.SIGINT, self._before)
        except (
            BaseException
        ):  # of a Ctrl-C that came just now: it is answered first, and nothing was replaced
            signal.signal(signal.SIGINT, self._before)
            raise
        finally:
            self._before = None

    def _remember(self, number: int, frame: FrameType | None) -> Any:
        self.interrupted = True
        return self._before(number, frame)


class Postponed(Interrupts):
    """Lets Ctrl-C wait for the end of a `with` statement; `interrupted` is then true. A second one ends it at once."""

    def _remember(self, number: int, frame: FrameType | None) -> Any:
        if self.interrupted:
            return super()._remember(number, frame)
        with suppress(KeyboardInterrupt):  # those around this one are to know at once
            super()._remember(number, frame)
        return None


class _Ended(BaseException):
    """An interrupt that is not to be answered on the way."""


class _PassedOn(Interrupts):
    """Raises an exception that no step on the way catches."""

    def _remember(self, number: int, frame: FrameType | None) -> Any:
        with suppress(KeyboardInterrupt):
            super()._remember(number, frame)
        raise _Ended


@contextmanager
def not_swallowed() -> Iterator[None]:
    """Ctrl-C ends the block at once with a KeyboardInterrupt, also inside steps that would keep what they have."""
    try:
        with _PassedOn() as found:
            yield
    except _Ended:
        raise KeyboardInterrupt from None
    found.raise_if_interrupted()
