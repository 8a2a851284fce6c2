"""A progress line appears for long work on a terminal, and only then."""

from __future__ import annotations

import io

import numpy as np
import pytest

from cavity.runtime import progress
from cavity.runtime.progress import Progress


def test_quick_work_shows_nothing(capsys):
    with Progress("working", 3, show=True) as line:
        for _ in range(3):
            line.advance("(step)")
    assert capsys.readouterr() == ("", "")
    assert line.done == 3


def test_without_a_terminal_nothing_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with Progress("working", 2) as line:
        line.advance()
    assert capsys.readouterr() == ("", "")


def test_long_work_shows_label_note_and_count(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress("learning", 3, show=True) as line:
        line.refresh("(trial 1)")
        line.advance("(best -3.2)", steps=2)
        assert line._bar.tasks[0].completed == 2
        assert line._bar.tasks[0].description == "learning (best -3.2)"
    assert line._bar.finished or not line._bar.live.is_started


def test_an_error_passes_through_and_the_bar_is_closed(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    line = Progress("learning", 3, show=True)

    def work():
        with line:
            line.advance()
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert not line._bar.live.is_started


def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_time_left_is_that_of_the_steps_of_this_run(monkeypatch):
    now = clock(monkeypatch)
    line = Progress("working", 10, done=4)  # found finished, in no time
    assert np.isnan(line.time_left())
    now[0] += 60
    line.advance()
    now[0] += 40
    line.advance()
    assert line.time_left() == 4 * 50.0
    now[0] += 30  # within the next step
    assert line.time_left() == 4 * 50.0 - 30
    now[0] += 1000
    assert line.time_left() == 0.0


def test_time_left_is_shown_where_steps_take_minutes(monkeypatch):
    now = clock(monkeypatch)
    monkeypatch.setattr("sys.stderr", io.StringIO())

    def shown():
        return str(line._bar.columns[-1].render(line._bar.tasks[0]))

    with Progress("working", 3, show=True) as line:
        line.refresh(at_once=True)
        assert shown() == "-:--:--"
        for left in ("0:10:00", "0:05:00"):
            now[0] += 300
            line.advance()
            assert shown() == left


def test_steps_of_a_longer_work_have_no_line_of_their_own(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    with progress.quiet():
        assert not Progress("inner", 3).show
    assert Progress("outer", 3).show
