"""Seasons are found where they are, in spite of trends and gross errors, and not where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.forecasting.seasons import cycle, gain, searched, shape, shown

RNG = np.random.default_rng(0)
T = np.arange(1200.0)
WEEK, YEAR = 7.0, 365.2425


def wave(period: float, size: float) -> np.ndarray:
    return size * np.sin(2 * np.pi * T / period)


def test_several_seasons_at_once() -> None:
    y = 0.01 * T + wave(WEEK, 0.7) + wave(YEAR, 2.0) + RNG.standard_normal(len(T))
    y[RNG.choice(len(T), 24)] += 40.0
    assert shown(T, y, [1.0, WEEK, YEAR]) == [False, True, True]


@pytest.mark.parametrize("seed", range(8))
def test_none_in_a_random_walk(seed: int) -> None:
    y = np.random.default_rng(seed).standard_normal(300).cumsum()
    assert shown(T[:300], y, [4.0, 12.0]) == [False, False]


def test_a_season_of_one_smooth_wave_is_found_and_slow_wandering_is_none() -> None:
    rng = np.random.default_rng(1)
    smooth, wandering = 0, 0
    for _ in range(10):
        walk = rng.standard_normal(120).cumsum()
        smooth += gain(T[:120], 0.3 * walk + wave(12.0, 1.5)[:120] + 0.5 * rng.standard_normal(120), 12.0) > 0
        steps = np.convolve(rng.standard_normal(140), 0.7 ** np.arange(20))[20:140]
        wandering += gain(T[:120], steps.cumsum(), 12.0) > 0
    assert smooth >= 9
    assert wandering <= 1


def test_two_cycles_are_needed() -> None:
    y = wave(12.0, 3.0)[:20]
    assert gain(T[:20], y, 12.0) == -np.inf


@pytest.mark.parametrize("period", [5.0, 12.0])
def test_a_period_without_a_name_is_searched(period: float) -> None:
    y = np.tile(RNG.standard_normal(int(period)), 40)[:200] + 0.02 * T[:200] + 0.2 * RNG.standard_normal(200)
    assert searched(T[:200], y) == [period]


def test_nothing_is_found_in_noise() -> None:
    assert searched(T[:200], np.random.default_rng(3).standard_normal(200)) == []


def test_variances_of_waves() -> None:
    """A sin + B cos has the variance (A^2 + B^2) / 2, also if there are gross errors."""
    t = T[:240]
    y = 3.0 * np.sin(2 * np.pi * t / 12) + 1.0 * np.cos(6 * np.pi * t / 12) + 0.1 * t
    y[::50] += 100.0
    np.testing.assert_allclose(shape(t, y, [12.0])[0], [4.5, 0, 0.5, 0, 0, 0], atol=0.02)


def test_the_strongest_wave() -> None:
    t = T[:300]
    assert cycle(t, np.sin(2 * np.pi * t / 11.0) + 0.3 * RNG.standard_normal(300)) == pytest.approx(
        11.0, rel=0.02
    )
