"""A progress line appears for long work on a terminal, and only then."""

from __future__ import annotations

import io

import pytest

from cavity import progress
from cavity.progress import Progress


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
