"""A progress line for work that takes longer than two seconds, on terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

PATIENCE = 2.0
"""Seconds of silence before anything is shown."""

_QUIET: ContextVar[bool] = ContextVar("_QUIET", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """No lines of their own for work that is a step of a longer one: two bars would write over each other."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


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
    done : int
        Steps that were finished before, which say nothing about the time that the others take.
    expected : float
        Seconds that the whole may take, for as long as no step tells better; then the bar is there from the beginning.
    """

    def __init__(
        self,
        label: str,
        total: int,
        show: bool | None = None,
        *,
        done: int = 0,
        expected: float = float("nan"),
    ) -> None:
        self.expected = expected
        self.label, self.total, self.done, self._before = label, total, done, done
        self.show = sys.stderr.isatty() and not _QUIET.get() if show is None else show
        self._started = self._last = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self.expected > PATIENCE:
            self.refresh(at_once=True)
        return self

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Mark steps as finished."""
        self.done += steps
        self._last = time.monotonic()
        self.refresh(note)

    def extend(self, steps: int) -> None:
        """There are more steps than was thought."""
        self.total += steps
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    def time_left(self) -> float:
        """Seconds to the end if the steps to come take as long as those of this run did; before the first, what was
        expected, nan if nothing was."""
        steps = self.done - self._before
        if not steps:
            return max(self._started + self.expected - time.monotonic(), 0.0)
        end = self._last + (self._last - self._started) / steps * (self.total - self.done)
        return max(end - time.monotonic(), 0.0)

    def refresh(self, note: str = "", *, at_once: bool = False) -> None:
        """Show the present state, if it is time to show anything or asked for at once."""
        early = time.monotonic() - self._started < PATIENCE and not at_once
        if not self.show or (self._bar is None and early):
            return
        if self._bar is None:
            self._open()
        self._bar.update(self._task, completed=self.done, description=f"{self.label} {note}".rstrip())

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        class TimeLeft(ProgressColumn):
            """Of the whole run: rich's own knows the last thirty seconds, in which no long step ends."""

            def render(column, task: Task) -> Text:
                left = self.time_left()
                return Text("-:--:--" if left != left else str(timedelta(seconds=round(left))))

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeLeft(),
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


ProgressLike = Progress | Callable[[int, int], None] | bool | None
"""How work reports: a `Progress` that counts on, a callback(done, total), True or False to force a bar on or off,
None for a bar on terminals."""


class ProgressReport:
    """Steps of one piece of work, reported in the form that the caller asked for.

    A `Progress` that was given counts on and stays open; one made here is closed with the block.
    """

    def __init__(self, progress: ProgressLike, label: str, total: int) -> None:
        self.total, self.done = total, 0
        self._callback: Callable[[int, int], None] | None = None
        self._bar: Progress | None = None
        self._owned: Progress | None = None
        if isinstance(progress, Progress):
            self._bar = progress
        elif callable(progress):
            self._callback = progress
        else:
            self._bar = self._owned = Progress(label, total, progress)

    def __enter__(self) -> Self:
        return self

    def advance(self) -> None:
        """One step is finished."""
        self.done += 1
        if self._bar is not None:
            self._bar.advance()
        elif self._callback is not None:
            self._callback(self.done, self.total)

    def extend(self, steps: int) -> None:
        """There are more steps than was thought."""
        self.total += steps
        if self._bar is not None:
            self._bar.extend(steps)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owned is not None:
            self._owned.__exit__(kind, value, trace)
