"""The race of starts: runs that are stopped, searches that end early, and what must not be lost by either."""

from __future__ import annotations

import numpy as np
import pytest

from cavity import GPClassifier, GPRegressor
from cavity.gp import GP
from cavity.kernels import SE, Periodic
from cavity.learning import learn
from cavity.learning.objective import Objective
from cavity.learning.race import AGREE, Start, agreement, on_some_rows, optima, race, screen
from cavity.learning.recognition import (
    HOPELESS,
    IN_A_ROW,
    NEAR,
    SAME_VALUE,
    TRAILING,
    Ended,
    Optimum,
    Watch,
    leads_to,
)
from cavity.learning.run_choice import _ends
from cavity.learning.starts import Starts
from cavity.likelihoods import Gaussian, Probit

H = np.array([[3.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1e-9]])
TOP = Optimum("data", np.array([1.0, -2.0, 5.0]), -7.0)


def parabola(theta):
    """Value and gradient of a parabola with its top there, flat in the last coordinate."""
    d = TOP.theta - theta
    return TOP.value - 0.5 * d @ H @ d, H @ d


# --- recognition --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flat", [0.0, 500.0])
def test_every_point_of_the_parabola_leads_to_its_top_wherever_it_is_flat(flat):
    """Unless the gradient leads away in some coordinate, as on a long ridge."""
    rng = np.random.default_rng(0)
    seen = 0
    for _ in range(50):
        theta = TOP.theta + np.append(0.3 * rng.standard_normal(2), flat)
        value, gradient = parabola(theta)
        parts = gradient * (TOP.theta - theta)
        if parts.min() > -0.05 * parts.max():
            seen += 1
            assert leads_to(TOP, theta, value, gradient)
    assert seen > 20


def test_points_elsewhere_do_not_lead_there():
    theta = TOP.theta + np.array([0.5, 0.5, 0.0])
    value, gradient = parabola(theta)
    assert leads_to(TOP, theta, value, gradient)
    assert not leads_to(TOP, theta, value, 0.1 * gradient)  # close to another maximum
    assert not leads_to(TOP, theta, value, -gradient)
    assert not leads_to(TOP, theta, value, 5.0 * gradient)
    assert not leads_to(TOP, theta, TOP.value + 0.1, gradient)  # higher already
    far = TOP.theta + np.array([5.0, 5.0, 0.0])
    value, gradient = parabola(far)
    assert value < TOP.value - NEAR
    assert not leads_to(TOP, far, value, gradient)


def test_a_run_is_stopped_when_it_is_sure_to_head_for_a_known_optimum():
    watch, theta = Watch([TOP]), TOP.theta + np.array([0.5, 0.5, 0.0])
    for _ in range(IN_A_ROW - 1):
        watch(theta, *parabola(theta))
    watch(theta, parabola(theta)[0], np.zeros(3))  # a doubt: it counts from the beginning again
    for _ in range(IN_A_ROW - 1):
        watch(theta, *parabola(theta))
    with pytest.raises(Ended, match="it headed for the optimum of the run from 'data'") as ended:
        watch(theta, *parabola(theta))
    assert ended.value.at is TOP


def test_a_run_that_trails_is_given_up_and_one_that_gains_is_not():
    def points(watch, values):
        for value in values:
            watch(np.zeros(3), value, np.zeros(3))

    lacks = 10.0 * TRAILING
    with pytest.raises(Ended, match="it trails by 20 nats") as ended:
        points(Watch([TOP]), TOP.value - lacks + 0.1 * HOPELESS * np.arange(100.0))
    assert ended.value.at is None
    points(Watch([TOP]), TOP.value - 100.0 * 0.9 ** np.arange(100.0))
    points(Watch([TOP]), np.full(100, TOP.value - 0.9 * TRAILING))
    points(Watch([]), np.full(100, -1e9))


# --- the race -----------------------------------------------------------------------------------------------


def two_scales(n=250):
    """Fast along one input and slow along the other: read off the data, both length scales are too long to see it."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, (n, 2))
    return X, np.sin(5 * X[:, 0]) + X[:, 1] ** 2 / 3 + 0.2 * rng.standard_normal(n)


def smooth(n=60):
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 8, (n, 1)), axis=0)
    return X, np.sin(X[:, 0]) + 0.2 * rng.standard_normal(n)


def test_a_run_that_heads_for_a_known_optimum_is_stopped():
    X, y = smooth()
    learned = learn(GP(1.0 * SE(1.0), Gaussian()).bind(1), X, y, n_restarts=2, rng=0)
    data, other = learned.runs
    assert (data.kind, data.converged, data.given_up) == ("data", True, False)
    assert (other.kind, other.converged, other.given_up) == ("given", False, True)
    assert other.message == "stopped: it headed for the optimum of the run from 'data'"
    assert other.evaluations < data.evaluations
    assert (other.value, learned.value) == (data.value, data.value)  # in the record it ends there
    np.testing.assert_array_equal(other.theta, data.theta)
    assert learned.winner is data
    assert learned.converged


def test_draws_on_their_way_to_one_optimum_are_one_start():
    X, y = smooth()
    learned = learn(GP(1.0 * SE(1.0), Gaussian()).bind(1), X, y, n_restarts=6, given=(), rng=0)
    assert [run.kind for run in learned.runs] == ["data", "random", "random"]  # of six that were allowed
    assert agreement(learned.runs) == 3  # one of them from so far that it was not yet close to the other


def test_a_better_optimum_is_found_and_confirmed_although_the_first_run_ends_elsewhere():
    X, y = two_scales()
    model = GPRegressor(random_state=0).fit(X, y)
    first, *others = model.runs_
    assert model.log_evidence_ > first.value + 100.0
    best = max(others, key=lambda run: run.value)
    assert best.converged
    assert model.kernel_.get("se.lengthscale")[0] < 1.0


def test_a_better_optimum_of_all_rows_is_not_lost_if_it_is_lower_on_some():
    """Evaluations are dear here: some rows decide which starts are run on all."""
    X, y = two_scales(300)
    labels = np.where(y > np.median(y), 1.0, -1.0)
    model = GP(1.0 * SE([1.0, 1.0]), Probit(), inference="laplace").bind(2)
    goal, places = Objective(model, X, labels), Starts.of(model, X, labels)
    few = on_some_rows(goal, np.random.default_rng(0))
    assert len(few.X) == 100
    poor, good = Start("poor", places.first), Start("good", places.first - [0.0, 2.0, 0.0])
    on_all, on_few = ([run.value for run in race(g, [poor, good], places, agree=None)] for g in (goal, few))
    assert on_all[1] > on_all[0] + 20.0
    assert on_few[1] < on_few[0] - SAME_VALUE
    runs = list(race(goal, [poor, good, good._replace(kind="again"), poor], places, small=few))
    assert [run.kind for run in runs] == ["poor", "good", "again"]
    assert [run.converged for run in runs] == [True, True, True]
    assert runs[1].value == pytest.approx(on_all[1], abs=1e-6)
    first, same, other = race(goal, [good, good, poor], places, small=few, agree=3)
    assert (same.given_up, same.value) == (True, first.value)
    assert same.message == "stopped: on 100 rows it led to no better optimum than the run from 'good'"
    assert other.message == "stopped: its end on 100 rows is no better on all"
    assert other.given_up
    assert other.value == pytest.approx(goal.value(other.theta), abs=1e-9)


def test_a_start_that_fails_is_dropped_and_the_next_one_is_the_first():
    X, y = smooth()
    model = GP(1.0 * SE(1.0), Gaussian()).bind(1)
    goal, places = Objective(model, X, y), Starts.of(model, X, y)
    beyond = np.full(3, np.nan)
    tasks = [
        Start("bad", beyond),
        Start("data", places.first),
        Start("bad", beyond),
        Start("near", places.first + 0.5),
    ]
    bad, data, worse, near = race(goal, tasks, places)
    assert bad.value == worse.value == -np.inf
    assert bad.evaluations == 1
    assert data.converged
    assert near.given_up
    assert [run.theta is data.theta for run in screen(goal, tasks, places, 9, steps=500)] == [False]


def test_tasks_are_asked_for_only_as_long_as_they_are_needed():
    X, y = smooth()
    model = GP(1.0 * SE(1.0), Gaussian()).bind(1)
    goal, places, asked = Objective(model, X, y), Starts.of(model, X, y), []

    def tasks():
        for k in range(10):
            asked.append(k)
            yield Start("near", places.first + 0.1 * k)

    assert len(list(race(goal, tasks(), places))) == len(asked) == AGREE


def test_among_rugged_optima_every_run_comes_to_its_end():
    X, y = smooth()
    for kernel, objective in ((1.0 * Periodic(SE(1.0)), "evidence"), (1.0 * SE(1.0), "loo")):
        learned = learn(GP(kernel, Gaussian()).bind(1), X, y, objective=objective, n_restarts=2, rng=0)
        assert len(learned.runs) == 3
        assert not any(run.given_up for run in learned.runs)


def test_screening_keeps_different_places_the_best_first():
    X, y = two_scales()
    model = GP(1.0 * SE([1.0, 1.0]), Gaussian(), "constant").bind(2)
    goal, places, rng = Objective(model, X, y), Starts.of(model, X, y), np.random.default_rng(0)
    starts = [Start("random", places.draw(rng)) for _ in range(6)]
    kept = screen(goal, starts + starts, places, 4, steps=3)
    values = [run.value for run in kept]
    assert values == sorted(values, reverse=True)
    assert 1 < len(kept) <= 4
    assert len({run.theta.tobytes() for run in kept}) == len(kept)


def test_an_objective_of_some_rows_is_that_of_a_model_of_these():
    X, y = smooth()
    model, weight = GP(1.0 * SE(1.0), Gaussian()).bind(1), np.linspace(1.0, 2.0, 60)
    rows = np.array([3, 4, 50])
    value, gradient = Objective(model, X, y, sample_weight=weight).on_rows(rows)(model.theta)
    expected = model.evidence(X[rows], y[rows], weight[rows])
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(gradient, expected[1])


def test_runs_that_were_given_up_are_no_modes():
    X, y = smooth()
    learned = learn(GP(1.0 * SE(1.0), Gaussian()).bind(1), X, y, n_restarts=3, rng=0)
    given_up = {i for i, run in enumerate(learned.runs) if run.given_up}
    assert given_up
    assert given_up.isdisjoint(i for same in _ends(list(learned.runs)) for i in same)


def test_a_classifier_finds_what_the_first_run_missed_and_the_same_again():
    X, y = two_scales(220)
    model, again = (GPClassifier(random_state=0).fit(X, y > np.median(y)) for _ in range(2))
    first, random = model.runs_
    assert random.value > first.value + 20.0
    np.testing.assert_array_equal(again.model_.theta, model.model_.theta)
    assert [run.message for run in again.runs_] == [run.message for run in model.runs_]


def test_where_runs_ended_without_those_that_failed():
    X, y = smooth()
    model = GP(1.0 * SE(1.0), Gaussian()).bind(1)
    goal, places = Objective(model, X, y), Starts.of(model, X, y)
    runs = list(race(goal, [Start("bad", np.full(3, np.nan)), Start("data", places.first)], places))
    (top,) = optima(runs)
    assert (top.kind, top.value) == ("data", runs[1].value)


def test_runs_that_disagree_are_followed_by_as_many_again_and_those_that_agree_are_not():
    """Five columns and eight gross errors under Gaussian noise: the second round ends higher than all of the first."""
    rng = np.random.default_rng(1)
    X = rng.random((60, 5))
    clean = 5 * np.sin(6 * X[:, 0] * X[:, 1]) + rng.standard_normal(60)
    y = clean.copy()
    y[:8] += 30 * rng.standard_normal(8)
    model = GP(1.0 * SE(np.ones(5)), Gaussian(1.0))
    found = model.learn(X, y, n_restarts=3, rng=0)
    first, second = found.runs[:4], found.runs[4:]
    assert len(second) == 3
    assert found.value > max(run.value for run in first) + 0.5
    assert len(model.learn(X, y, n_restarts=1, rng=0).runs) == 2
    line = X[:, :1]
    assert len(GP(1.0 * SE(1.0), Gaussian(1.0)).learn(line, np.sin(6 * line[:, 0]), rng=0).runs) <= 4
