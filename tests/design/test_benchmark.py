"""Functions of the benchmark have their published optima, methods meet the same errors, and the last line is read."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.design import Outcome, result_line, table
from benchmarks.design_problems import PROBLEMS

OPTIMA = {
    "branin": [(-np.pi, 12.275), (np.pi, 2.275), (9.42478, 2.475)],
    "hartmann6": [(0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)],
    "ackley10": [(0.0,) * 10],
    "levy10": [(1.0,) * 10],
    "tuning": [
        (-0.20099412, 0.0200989, 0.27416614, 0.76630944, 1.5, -2.14564874)
    ],  # by Nelder and Mead's method
}


@pytest.mark.parametrize(("name", "places"), OPTIMA.items())
def test_published_optima(name, places):
    problem = PROBLEMS[name]
    for place in places:
        assert problem.function(np.array(place)) == pytest.approx(problem.optimum, abs=2e-6)
        low, high = np.array(problem.bounds).T
        assert problem.at((np.array(place) - low) / (high - low)) == pytest.approx(problem.optimum, abs=2e-6)


def test_every_method_meets_the_same_design_and_errors():
    problem = PROBLEMS["hartmann6_outliers"]
    np.testing.assert_array_equal(problem.design(3), problem.design(3))
    one, two = problem.observer(3), problem.observer(3)
    u = np.full(6, 0.5)
    first = np.array([one(u) for _ in range(60)]) - problem.at(u)
    second = np.array([two(u + 0.1) for _ in range(60)]) - problem.at(u + 0.1)
    np.testing.assert_allclose(first, second, atol=1e-12)
    gross = np.abs(first) > 1.0
    assert 1 <= gross.sum() <= 14
    assert np.abs(first[~gross]).max() < 0.1


def test_the_last_line():
    ours = [
        Outcome("cavity", name, 1, 1e-4, 0.1, 0.05) for name in ("branin", "hartmann6", "hartmann6_outliers")
    ]
    peers = [Outcome("botorch", name, 1, 1e-2, 0.5, 0.5) for name in ("branin", "hartmann6")]
    line = result_line(ours, peers)
    assert re.fullmatch(
        r"RESULT branin=-4\.00 hartmann6=-4\.00 hartmann6_outliers=0\.10 ms_per_suggestion=50 vs_botorch_time=0\.100",
        line,
    )
    assert "botorch" in table([*ours, *peers])
