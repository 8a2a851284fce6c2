"""What ends learning early: time that is up, and Ctrl-C.

Estimators answer both by keeping the best values so far, and a fit of a table consists of several of them. `Limits`
spans them all: it shares out one span of time, and remembers a Ctrl-C that an estimator has already dealt with, with
what was left out because of it.
"""

from __future__ import annotations

from types import TracebackType

from cavity.runtime.deadlines import Deadline
from cavity.runtime.interrupts import Interrupts


class Limits(Interrupts, Deadline):
    """Time and interrupts of a piece of work, to be used in a `with` statement.

    Parameters
    ----------
    seconds : float, optional
        For the whole; no limit by default.

    Attributes
    ----------
    undone : list of str
        What was left out after Ctrl-C, in clauses.
    """

    def __init__(self, seconds: float | None = None) -> None:
        Interrupts.__init__(self)
        Deadline.__init__(self, seconds)
        self.undone: list[str] = []

    def optional(self, undone: str) -> _Optional:
        """For a `with` statement around work that Ctrl-C leaves out, alone; `undone` says so."""
        return _Optional(self, undone)


class _Optional:
    """Work that may be left out."""

    def __init__(self, limits: Limits, undone: str) -> None:
        self._limits, self._undone = limits, undone

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            return False
        self._limits.interrupted = True
        self._limits.undone.append(self._undone)
        return True
