"""Progress of work that takes longer than two seconds: a bar on a terminal, now and then a line in a log.

Work is a number of steps. Steps may consist of many small ones of about the same cost that only those deep inside
know of, such as evaluations of an optimizer: each is a `beat`, which tells how long a step takes before one is
finished. Work inside other work that is shown has no bar of its own; two would write over each other.

Libraries are silent where there is no terminal. A command that wants lines in a log instead says so (`told_in_lines`).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from cavity.runtime.durations import in_words

PATIENCE = 2.0
"""Seconds of silence before anything is shown."""

WORTH_SAYING = 10.0
"""Seconds from which on work is announced in a line, with what ends it early."""

BETWEEN_LINES = 20.0
"""Seconds between lines in a log."""

BEATS = 30
"""Of one step, as long as none is finished: evaluations of a run of an optimizer."""

LONGER = 1.2
"""Beats of a step that has had more than is usual, as a multiple of those it has had."""

WARMING_UP = 20.0
"""Seconds of a first beat up to which the second is waited for: the first of all also loads and compiles."""


@dataclass(frozen=True)
class Lines:
    """Where lines about long work go, and what ends such work early, in words."""

    say: Callable[[str], None]
    early: str = ""


_QUIET: ContextVar[bool] = ContextVar("_QUIET", default=False)
_LINES: ContextVar[Lines | None] = ContextVar("_LINES", default=None)
_ACTIVE: ContextVar[tuple[Progress, ...]] = ContextVar("_ACTIVE", default=())


@contextmanager
def quiet() -> Iterator[None]:
    """No lines of their own for work that is a step of a longer one: two bars would write over each other."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


@contextmanager
def told_in_lines(say: Callable[[str], None], early: str = "") -> Iterator[None]:
    """Long work inside the block is announced to `say`, and reported to it if there is no terminal.

    `early` says what ends it early, as in "--max-time ends it early".
    """
    token = _LINES.set(Lines(say, early))
    try:
        yield
    finally:
        _LINES.reset(token)


def beat() -> None:
    """A small step was made, of whatever work is going on."""
    for one in _ACTIVE.get():
        one.beat()


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
        silent = _QUIET.get() or show is False
        self.show = sys.stderr.isatty() and not silent if show is None else show
        self._lines = None if silent else _LINES.get()
        self._started = self._last = self._last_line = time.monotonic()
        self._beats = self._beats_of_step = 0
        self._first_beat = self._started
        self._announced = False
        self._note = ""
        self._bar: Any = None
        self._task: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._token: Token[tuple[Progress, ...]] | None = None

    def __enter__(self) -> Self:
        outer = _ACTIVE.get()
        if any(one.show or one._lines is not None for one in outer):
            self.show, self._lines = False, None
        self._token = _ACTIVE.set((*outer, self))
        if self.expected > PATIENCE:
            self.refresh(at_once=True)
        elif self.show:  # also if nothing is heard of the work for long
            self._timer = threading.Timer(PATIENCE, self.refresh)
            self._timer.daemon = True
            self._timer.start()
        return self

    def advance(self, note: str = "", steps: int = 1) -> None:
        """Mark steps as finished."""
        self.done += steps
        self._last = time.monotonic()
        self._beats_of_step = 0
        self.refresh(note)

    def beat(self) -> None:
        """A small step was made."""
        self._beats += 1
        self._beats_of_step += 1
        now = time.monotonic()
        if self._beats == 1:
            self._first_beat = now
        if self.done == self._before:
            self._last = now
        self.refresh(self._note, at_once=self._beats <= 2 and self.time_left() > PATIENCE)

    def extend(self, steps: int) -> None:
        """There are more steps than was thought."""
        self.total += steps
        if self._bar is not None:
            self._bar.update(self._task, total=self.total)

    @property
    def _share_of_step(self) -> float:
        """How much of the present step is done, by its beats."""
        return self._beats_of_step / self._beats_each

    @property
    def _beats_each(self) -> float:
        """Beats of a step: of those that are finished, or what is usual; more, if the present one has had that many."""
        steps, earlier = self.done - self._before, self._beats - self._beats_of_step
        usual = max(earlier / steps, 1.0) if steps and earlier else float(BEATS)
        return max(usual, LONGER * self._beats_of_step)

    def time_left(self) -> float:
        """Seconds to the end if what is to come takes as long as what was done; before the first beat or step, what was
        expected, nan if nothing was."""
        steps = self.done - self._before
        if steps:
            each, ahead = (self._last - self._started) / steps, float(self.total - self.done)
        elif self._beats > 1:
            each = (self._last - self._first_beat) / (self._beats - 1)
            ahead = self._beats_each * (self.total - self._before) - self._beats_of_step
        elif self._beats and self._last - self._started > WARMING_UP:
            each, ahead = self._last - self._started, BEATS * (self.total - self._before) - 1.0
        else:
            return max(self._started + self.expected - time.monotonic(), 0.0)
        return max(self._last + each * ahead - time.monotonic(), 0.0)

    def refresh(self, note: str = "", *, at_once: bool = False) -> None:
        """Show the present state, if it is time to show anything or asked for at once."""
        self._note = note
        now = time.monotonic()
        early = now - self._started < PATIENCE and not at_once
        if self._lines is not None:
            self._tell(self._lines, now)
        if not self.show or (self._bar is None and early):
            return
        with self._lock:
            if self._bar is None:
                self._open()
            done = self.done + (self._share_of_step if self.done < self.total else 0.0)
            self._bar.update(self._task, completed=done, description=f"{self.label} {note}".rstrip())

    def _tell(self, lines: Lines, now: float) -> None:
        """A line at the beginning, if the work is long; then, without a terminal, one now and then."""
        left = self.time_left()
        if not self._announced and left > WORTH_SAYING:
            self._announced, self._last_line = True, now
            early = f"; {lines.early}" if lines.early else ""
            lines.say(f"{self.label[:1].upper()}{self.label[1:]}: about {in_words(left)}{early}.")
        elif not self.show and now - self._last_line > BETWEEN_LINES:
            self._last_line = now
            steps = f" {self.done} of {self.total}" if self.total else ""
            to_go = f", about {in_words(left)} to go" if left == left and self.total else ""
            lines.say(
                f"... {self.label} {self._note}".rstrip()
                + f":{steps} after {in_words(now - self._started)}{to_go}"
            )

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        class Steps(ProgressColumn):
            """Finished steps, of all."""

            def render(column, task: Task) -> Text:
                return Text(f"{self.done}/{self.total}" if self.total else "")

        class TimeLeft(ProgressColumn):
            """Of the whole run: rich's own knows the last thirty seconds, in which no long step ends."""

            def render(column, task: Task) -> Text:
                left = self.time_left()
                return Text("-:--:--" if left != left else str(timedelta(seconds=round(left))))

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            Steps(),
            TimeLeft(),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(self.label, total=self.total)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._token is not None:
            _ACTIVE.reset(self._token)
            self._token = None
        with self._lock:
            self.show = False  # a timer that has just gone off opens nothing
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
        if self._owned is not None:
            self._owned.__enter__()
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
