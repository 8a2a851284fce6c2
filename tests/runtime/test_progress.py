"""A progress line appears for long work on a terminal, and only then."""

from __future__ import annotations

import io
import time

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


# --- beats and lines -----------------------------------------------------------------------------------------


def test_one_timed_beat_tells_how_long_the_work_takes(monkeypatch):
    now = clock(monkeypatch)
    with Progress("learning", 4, show=False) as line:
        now[0] += 25
        progress.beat()
        assert line.time_left() == pytest.approx(25 * (4 * progress.BEATS - 1))
        now[0] += 3
        progress.beat()
        assert line.time_left() == pytest.approx(3 * (4 * progress.BEATS - 2))
        for _ in range(18):
            now[0] += 3
            progress.beat()
        line.advance()  # a step was twenty beats: those to come are expected to be as long
        assert line.time_left() == pytest.approx(3 * (25 + 19 * 3))
        assert line._beats_each == 20


def test_a_step_that_is_longer_than_usual_is_not_always_about_to_end(monkeypatch):
    now = clock(monkeypatch)
    with Progress("learning", 1, show=False) as line:
        for _ in range(10 * progress.BEATS):
            now[0] += 1
            progress.beat()
        assert line.time_left() == pytest.approx(0.2 * 10 * progress.BEATS)


def test_a_slow_first_beat_opens_the_bar_at_once(monkeypatch):
    now = clock(monkeypatch)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Progress("learning", 2, show=True) as line:
        for seconds in (0.6, 0.01):  # the first loads and compiles
            now[0] += seconds
            progress.beat()
        assert line._bar is None  # a second in all
    for slow in [(25.0,), (0.6, 0.5)]:
        with Progress("learning", 2, show=True) as line:
            for seconds in slow:
                now[0] += seconds
                progress.beat()
            assert line._bar is not None


def test_a_log_has_an_announcement_and_then_a_line_now_and_then(monkeypatch, capsys):
    now, heard = clock(monkeypatch), []
    with progress.told_in_lines(heard.append, "--max-time ends it early"), Progress("learning", 3) as line:
        for _ in range(90):
            now[0] += 1
            progress.beat()
        line.advance("(best -3)")
    assert heard[0] == "Learning: about 90 seconds; --max-time ends it early."
    assert 3 <= len(heard) <= 6
    assert heard[1].startswith("... learning: 0 of 3 after 23 seconds, about ")
    assert heard[1].endswith(" to go")
    assert capsys.readouterr() == ("", "")


def test_short_work_says_nothing_in_a_log(monkeypatch):
    now, heard = clock(monkeypatch), []
    with progress.told_in_lines(heard.append), Progress("learning", 3) as line:
        for _ in range(3):
            for _ in range(20):
                now[0] += 0.05
                progress.beat()
            line.advance()
    assert heard == []


def test_on_a_terminal_work_is_announced_once_and_then_the_bar_is_enough(monkeypatch):
    now, heard = clock(monkeypatch), []
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", stream)
    with progress.told_in_lines(heard.append), Progress("learning", 3) as line:
        for _ in range(90):
            now[0] += 1
            progress.beat()
        assert line._bar is not None
    assert len(heard) == 1


def test_work_inside_work_that_is_shown_has_no_bar(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Progress("outer", 2, show=True) as outer:
        outer.advance()
        with Progress("inner", 2, show=True) as inner:
            inner.advance()
            assert inner._bar is None
        assert outer._bar is not None
    with Progress("later", 2, show=True) as later:
        later.advance()
        assert later._bar is not None


def test_silence_of_the_work_does_not_keep_the_bar_away(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.02)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with Progress("thinking", 2, show=True) as line:
        ended = time.monotonic() + 5.0
        while line._bar is None and time.monotonic() < ended:
            time.sleep(0.01)
        assert line._bar is not None


def test_evaluations_of_an_optimizer_are_beats():
    from cavity import GPRegressor

    X = np.linspace(0, 6, 20)[:, None]
    with Progress("outer", 1, show=False) as line:
        model = GPRegressor(n_restarts=0, random_state=0).fit(X, np.sin(X[:, 0]))
    assert line._beats >= sum(run.evaluations for run in model.runs_) > 5
