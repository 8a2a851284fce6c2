"""What ends learning early: time that is up, and Ctrl-C.

Estimators answer both by keeping the best values so far, and a fit of a table consists of several of them. `Limits`
spans them all: it shares out one span of time, and it remembers a Ctrl-C that an estimator has already dealt with.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any, Self


class Limits:
    """Time and interrupts of a piece of work, to be used in a `with` statement.

    Parameters
    ----------
    seconds : float, optional
        For the whole; no limit by default.

    Attributes
    ----------
    interrupted : bool
        Whether there was a Ctrl-C since the beginning of the `with` statement.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._before: Any = None
        self.interrupted = False

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def raise_if_interrupted(self) -> None:
        """Raise a KeyboardInterrupt again that was dealt with elsewhere."""
        if self.interrupted:
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGINT)
        # other threads get no signals, and where Ctrl-C is ignored there is nothing to remember
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
