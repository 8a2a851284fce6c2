"""Fits that would not end are refused with an estimate; others say it while they run."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GP, GPRegressor
from cavity.kernels import SE
from cavity.likelihoods import Gaussian
from cavity.numerics import time_estimate
from cavity.numerics.time_estimate import TooLongError, learning_time, operations_per_second, require_time
from cavity.runtime.progress import Progress

X = np.random.default_rng(0).random((60, 2))
Y = X[:, 0]


@pytest.fixture
def slow(monkeypatch):
    """A machine of so few operations per second that 60 rows, one run, exact, take 36 hours."""
    monkeypatch.setattr(time_estimate, "WORTH_ESTIMATING", 50)
    monkeypatch.setattr(time_estimate, "operations_per_second", lambda: 60 * 1.5 * 60**3 / (36 * 3600))


def test_a_fit_that_would_not_end_is_refused_with_its_time_and_what_helps(slow):
    with pytest.raises(
        TooLongError, match=r"60 rows would take about 36 hours; use learn_rows=100 .*max_time=3600"
    ) as e:
        GPRegressor(n_restarts=0).fit(X, Y)
    assert e.value.seconds == pytest.approx(36 * 3600)
    with pytest.raises(TooLongError, match="6 days"):  # four runs
        GP(1.0 * SE(1.0), Gaussian()).learn(X, Y)


def test_a_limit_of_time_or_fewer_rows_or_given_values_are_enough(slow):
    with pytest.warns(UserWarning, match="max_time"):
        GPRegressor(n_restarts=0, max_time=0.0).fit(X, Y)
    assert len(GPRegressor(n_restarts=0, learn_rows=40).fit(X, Y).rows_.X) == 60
    GPRegressor(SE(1.0), objective=None).fit(X, Y)


def test_the_rows_that_are_recommended_take_an_hour(monkeypatch):
    monkeypatch.setattr(time_estimate, "operations_per_second", lambda: 1e9)
    with pytest.raises(TooLongError) as e:
        require_time(40_000, "ep", 3, None)
    rows = next(
        part.value for part in e.value.message.remedy if getattr(part, "parameter", "") == "learn_rows"
    )
    monkeypatch.setattr(time_estimate, "WORTH_ESTIMATING", 0)
    assert learning_time(rows, "ep", 3) == pytest.approx(3600, rel=0.3)


def test_small_data_cost_no_estimate(monkeypatch):
    def measured():
        raise AssertionError

    monkeypatch.setattr(time_estimate, "operations_per_second", measured)
    assert np.isnan(require_time(3000, "ep", 3, None))


def test_the_speed_is_a_plausible_number():
    assert 1e7 < operations_per_second() < 1e15


def test_progress_knows_the_estimate_until_a_step_is_done():
    with Progress("learning", 4, show=False, expected=1000.0) as line:
        assert 900 < line.time_left() <= 1000
        line.advance()
        assert line.time_left() < 100
    assert np.isnan(Progress("learning", 4).time_left())
