"""Ctrl-C and time: who answers, who waits, and what holds around what."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

from cavity.runtime import deadlines
from cavity.runtime.deadlines import Deadline, time_is_up, time_limit
from cavity.runtime.interrupts import Interrupts, Postponed, not_swallowed

pytestmark = pytest.mark.usefixtures("interrupts")


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_postponed_interrupt_waits_and_is_known_outside():
    done = []
    before = signal.getsignal(signal.SIGINT)
    with Interrupts() as outer:
        with Postponed() as inner:
            press_ctrl_c()
            done.append("the step that was under way")
        assert inner.interrupted
    assert outer.interrupted
    assert done
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_is_not_kept_waiting():
    with Postponed():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()


def test_nobody_on_the_way_answers_an_interrupt_of_work_that_ends_as_a_whole():
    done = []

    def step() -> None:
        """As learning and sampling do."""
        try:
            press_ctrl_c()
            done.append("went on")
        except KeyboardInterrupt:
            done.append("kept what there was")

    def work() -> None:
        with not_swallowed():
            step()
            done.append("next step")

    with Interrupts() as outer, pytest.raises(KeyboardInterrupt):
        work()
    assert done == []
    assert outer.interrupted
    with pytest.raises(KeyboardInterrupt), not_swallowed(), Postponed():
        step()
    assert done == []


@pytest.mark.parametrize("block", [Interrupts, not_swallowed])
def test_an_interrupt_at_the_very_end_of_a_block_leaves_nothing_behind(block, monkeypatch):
    before, pressed = signal.getsignal(signal.SIGINT), []

    def late(number, handler):
        """As signal.signal does: interrupts that wait are answered first."""
        if handler is before and not pressed:
            pressed.append(True)
            press_ctrl_c()
        return replaced(number, handler)

    replaced = signal.signal
    monkeypatch.setattr(signal, "signal", late)
    with pytest.raises(KeyboardInterrupt), block():
        pass
    assert pressed
    assert signal.getsignal(signal.SIGINT) is before


def test_without_an_interrupt_nothing_is_changed():
    before = signal.getsignal(signal.SIGINT)
    with not_swallowed(), Postponed() as waits:
        pass
    assert not waits.interrupted
    with pytest.raises(ValueError, match="of the block"), not_swallowed():
        raise ValueError("of the block")
    assert signal.getsignal(signal.SIGINT) is before


def test_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: now[0]))
    whole, none = Deadline(100.0), Deadline()
    assert (none.left, none.part(0.5)) == (None, None)
    now[0] = 90.0
    assert (whole.left, whole.part(0.05), whole.part(0.5)) == (10.0, 5.0, 10.0)
    now[0] = 200.0
    assert (whole.left, whole.part(0.5)) == (0.0, 0.0)
    assert not time_is_up()
    with time_limit(10.0):
        with time_limit(50.0), time_limit(None):  # a longer limit inside a shorter one changes nothing
            assert not time_is_up()
            now[0] = 210.0
            assert time_is_up()
        with time_limit(0.0):
            assert time_is_up()
    assert not time_is_up()
