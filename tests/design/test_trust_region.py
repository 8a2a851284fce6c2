"""The box around the recommendation, from many inputs on."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.design import History, Space, Study, suggest
from cavity.design.suggestion import _trust_region
from cavity.design.trust_region import FIRST, LARGEST, SMALLEST, side_of, trust_region


def test_the_side_grows_with_success_and_shrinks_without():
    falling, flat = -np.arange(1.0, 8.0), np.zeros(5)
    assert side_of(falling, 4) == LARGEST
    assert side_of(flat, 4) == FIRST / 2
    assert side_of(np.zeros(0), 4) == FIRST
    many = [side_of(np.zeros(1 + 4 * k), 4) for k in range(1, 12)]
    assert min(many) >= SMALLEST  # begins anew
    assert many[7] > many[5]


def test_sides_are_longer_along_inputs_that_matter_less():
    space = Space([(0.0, 1.0)] * 3)
    X = np.full((2, 3), 0.5)
    low, high = trust_region(X, np.array([0.0, 1.0]), np.array([0.1, 0.4, 1.6]), space)
    widths = high - low
    assert widths[0] < widths[1] < widths[2] <= 1.0
    assert widths[0] == pytest.approx(FIRST * 0.25)


def test_suggestions_with_many_inputs_stay_in_the_box():
    space = Space([(0.0, 1.0)] * 20)
    history = History()
    for u in space.sobol(22, np.random.default_rng(0)):
        history = history.with_outcome(space.from_unit(u), float(np.sum((u - 0.4) ** 2)))
    low, high = _trust_region(Study(history, space))
    u = space.to_unit(suggest(history, space)[0].x)
    assert ((u >= low - 1e-9) & (u <= high + 1e-9)).all()
    assert (high - low).min() < 1.0
    few = Space([(0.0, 1.0)] * 2)
    assert _trust_region(Study(History(), few)) is None
