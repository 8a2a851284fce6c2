"""Points that still move are swept apart from those at rest, and end at the fixed point of all."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.inference.ep import active_set, parallel, state
from cavity.inference.ep.parallel import damped
from cavity.inference.ep.state import TOLERANCE, EPProblem
from cavity.kernels import Matern
from cavity.latent import Markov
from cavity.latent.base import Inputs
from cavity.latent.sites import Sites
from cavity.likelihoods import StudentT
from cavity.likelihoods.observations import Observations

N = 3000


@pytest.fixture(scope="module")
def problem() -> EPProblem:
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, N / 10, N))
    y = np.sin(t) + 0.3 * rng.standard_normal(N)
    wrong = rng.random(N) < 0.02
    y[wrong] += rng.choice([-1.0, 1.0], wrong.sum()) * rng.uniform(2.0, 10.0, wrong.sum())
    prior = Markov().prior((1.0 * Matern(1.0, nu=1.5)).bind(1), None, Inputs(t[:, None]))
    weight = np.where(np.arange(N) % 7 == 0, 2.0, 1.0)
    return EPProblem(prior, Observations(StudentT(0.25, 3.0), y, weight))


def test_it_ends_at_the_fixed_point_of_sweeps_over_all_points(problem, monkeypatch):
    swept: list[int] = []

    def watched(problem, at, rows, tolerance):
        swept.append(len(rows))
        return active_set.active_sweeps(problem, at, rows, tolerance)

    monkeypatch.setattr(parallel, "active_sweeps", watched)
    plain, _, _ = damped(problem, Sites.zero(N), TOLERANCE)
    assert not swept
    monkeypatch.setattr(state, "MANY", 100)
    found, _, sweeps = damped(problem, Sites.zero(N), TOLERANCE)
    assert swept
    assert max(swept) < active_set.MOST_ACTIVE * N
    assert sweeps < 60
    again = state.EPState(problem, found.sites)  # the mismatch of all points, from nothing but the sites
    assert again.residual <= TOLERANCE
    assert (found.sites.precision < 0).any()
    assert again.log_evidence == pytest.approx(plain.log_evidence, abs=1e-8)
    np.testing.assert_allclose(again.q.mean, plain.q.mean, atol=1e-5 * np.sqrt(plain.q.var).max())


def test_points_at_rest_keep_their_sites(problem):
    start = np.zeros((2, N))
    start[1] = 5.0
    rows = np.arange(10, 40)
    found = active_set.active_sweeps(problem, start, rows, TOLERANCE)
    rest = np.setdiff1d(np.arange(N), rows)
    np.testing.assert_array_equal(found.sites[:, rest], start[:, rest])
    t, q = found.state.tilted, found.state.q
    off = np.maximum(np.abs(t.mean - q.mean) / np.sqrt(q.var), np.abs(t.var / q.var - 1.0))
    assert off[rows].max() <= TOLERANCE
    assert off[rest].max() > 0.1
