"""What ends learning early: time that is up, and Ctrl-C.

Estimators answer both by keeping the best values so far, and a fit of a table consists of several of them. `Limits`
spans them all: it shares out one span of time, and remembers a Ctrl-C that an estimator has already dealt with.
"""

from __future__ import annotations

import time

from cavity.interrupts import Interrupts


class Limits(Interrupts):
    """Time and interrupts of a piece of work, to be used in a `with` statement.

    Parameters
    ----------
    seconds : float, optional
        For the whole; no limit by default.
    """

    def __init__(self, seconds: float | None = None) -> None:
        super().__init__()
        self._deadline = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)
