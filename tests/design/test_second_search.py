"""A second search: where it looks, when it has its turn, and that it finds basins that one search leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.design import History, Options, Reason, Space, Study, suggest
from cavity.design.acquisition import log_expected_improvement
from cavity.design.acquisition.pointwise import log_ei
from cavity.design.second_search import REACH, Beyond, within_reach
from cavity.design.suggestion import ELSEWHERE

from . import golden

SPACE = Space([(0.0, 1.0)] * 4)
FIRST, SECOND = np.array([0.2, 0.2, 0.3, 0.4]), np.array([0.75, 0.8, 0.7, 0.6])
WIDTH = 0.15


def wells(u):
    """Two wells in a plain; the second one is deeper."""
    first, second = (np.exp(-0.5 * np.sum((u - c) ** 2) / WIDTH**2) for c in (FIRST, SECOND))
    return float(-2.0 * first - 3.0 * second)


@pytest.fixture(scope="module")
def polished():
    """Rows all over the box, none deep in the second well, and many at the floor of the first."""
    rng = np.random.default_rng(1)
    spread = rng.random((24, 4))
    spread = spread[[wells(u) > -1.0 for u in spread]]
    near = FIRST + WIDTH * rng.standard_normal((12, 4)) * np.repeat([0.7, 0.05], 6)[:, None]
    history = History()
    for u in np.clip(np.vstack([spread, near[:6], FIRST + 1e-4, near[6:]]), 0.0, 1.0):
        history = history.with_outcome(SPACE.from_unit(u), wells(u))
    return history


def correlation(study, u):
    """With the best row, from length scales and the definition of the kernel."""
    names, values = (
        study.fit.posterior.model.names,
        study.fit.posterior.model.layout.to_natural(study.fit.posterior.model.theta),
    )
    lengths = np.array([v for name, v in zip(names, values) if "lengthscale" in name])
    return np.exp(-0.5 * np.sum(((u - study.X[study.best]) / lengths) ** 2))


def test_the_second_search_looks_beyond_the_reach_of_the_best_row_and_says_so(polished):
    study = Study(polished, SPACE)
    assert study.mostly_unknown
    one = suggest(polished, SPACE)[0]
    assert (one.reason, one.why) == (Reason.EXPLORE, ELSEWHERE)
    assert correlation(study, SPACE.to_unit(one.x)) < REACH


def test_the_deeper_well_is_found(polished):
    history = polished
    for _ in range(16):
        x = suggest(history, SPACE, seed=2)[0].x
        history = history.with_outcome(x, wells(SPACE.to_unit(x)))
    assert min(trial.y for trial in history) < -2.9


def test_units_of_outcomes_do_not_change_the_second_search(polished):
    other = History()
    for trial in polished:
        other = other.with_outcome(trial.x, 3.0 * trial.y + 7.0)
    one, two = suggest(polished, SPACE)[0], suggest(other, SPACE)[0]
    assert one.why == two.why == ELSEWHERE
    assert np.max(np.abs(SPACE.to_unit(one.x) - SPACE.to_unit(two.x))) < 1e-6


def test_pending_experiments_are_not_proposed_again(polished):
    several = [SPACE.to_unit(one.x) for one in suggest(polished, SPACE, n=3)]
    apart = [np.max(np.abs(a - b)) for i, a in enumerate(several) for b in several[:i]]
    assert min(apart) > 1e-3


def test_where_the_box_is_known_there_is_one_search():
    space, history = Space([(0.0, 1.0)]), History()
    for u in np.append(np.linspace(0.0, 1.0, 12), [0.299, 0.3, 0.301, 0.3001]):
        history = history.with_outcome(space.from_unit(np.array([u])), (u - 0.3) ** 2)
    assert not Study(history, space).mostly_unknown
    assert suggest(history, space)[0].why != ELSEWHERE


def test_outcomes_that_may_be_outliers_have_one_search(polished):
    assert not Study(polished, SPACE, Options(noise="mixture")).mostly_unknown


def test_noise_has_one_search(polished):
    rng, history = np.random.default_rng(4), History()
    for trial in polished:
        history = history.with_outcome(trial.x, trial.y + 0.3 * rng.standard_normal())
    assert not Study(history, SPACE, Options(noise="gaussian")).mostly_unknown


def test_the_reach_is_where_the_correlation_is_above_its_limit(polished):
    study = Study(polished, SPACE)
    center, U = study.X[study.best : study.best + 1], np.random.default_rng(0).random((200, 4))
    near = within_reach(study.fit.moments, center, U)
    assert np.array_equal(near, [correlation(study, u) > REACH for u in U])
    acquisition = log_ei(study.fit.moments, -1.0)
    beyond = Beyond(acquisition, study.fit.moments, center)
    assert np.array_equal(beyond(U), np.where(near, -np.inf, acquisition(U)))
    value, gradient = beyond.with_gradient(U)
    assert np.array_equal(np.isfinite(value), ~near)
    assert np.array_equal(gradient[~near], acquisition.with_gradient(U[~near])[1])


@pytest.mark.parametrize("noise", [0.0, 0.04])
def test_greed_makes_standard_deviations_smaller(noise):
    moments, x, h = golden.state(), np.array([[1.7]]), 1e-5
    greedy = log_ei(moments, golden.BEST, greed=2.0, noise=noise)
    mean, variance = moments(x)
    share = 1.0 - np.sqrt(noise / (variance + noise))  # a measurement tells as much as it did
    expected = log_expected_improvement(mean[:, 0], variance / 4.0, golden.BEST).value + np.log(share)
    assert greedy(x) == pytest.approx(expected, rel=1e-12)
    slope = (greedy(x + h) - greedy(x - h)) / (2.0 * h)
    assert greedy.with_gradient(x)[1][:, 0] == pytest.approx(slope, rel=1e-6)
