"""A progress line for work that takes longer than two seconds, on terminals only."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0
"""Seconds of silence before anything is shown."""


class Progress:
    """Counts finished steps; shows a bar once the work has taken `PATIENCE` seconds.

    Parameters
    ----------
    label : str
        What is being done.
    total : int
        Number of steps.
    show : bool, optional
        Force it on or off; by default it is on when standard error is a terminal.
    """

    def __init__(self, label: str, total: int, show: bool | None = None) -> None:
        self.label, self.total, self.done = label, total, 0
        self.show = sys.stderr.isatty() if show is None else show
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Mark steps as finished."""
        self.done += steps
        self.refresh(note)

    def extend(self, steps: int) -> None:
        """There are more steps than was thought."""
        self.total += steps
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    def refresh(self, note: str = "") -> None:
        """Show the present state, if it is time to show anything."""
        if not self.show or (self._bar is None and time.monotonic() - self._started < PATIENCE):
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=self.done, description=f"{self.label} {note}".rstrip())

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=self.total)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
