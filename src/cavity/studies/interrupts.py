"""Interrupts that were caught on the way.

Learning and sampling keep what they have when they are stopped, which is right at the prompt and wrong in a study:
half a cell must not be stored as a whole one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def not_swallowed() -> Iterator[None]:
    """Raise KeyboardInterrupt after the block if an interrupt came in it, whoever caught that interrupt.

    Signals are delivered to the main thread alone; in any other one this does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    handle, came = before, False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        handle(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt
