"""Suggestions are a function of the history; failures, limits, batches, confirmation, units."""

from __future__ import annotations

import numpy as np
import pytest

from cavity.design import (
    Categorical,
    History,
    Integer,
    Limit,
    Optimizer,
    Options,
    Real,
    Reason,
    Space,
    Status,
    Study,
    minimize,
    suggest,
)
from cavity.design import surrogate as surrogates
from cavity.runtime.errors import InputError


def bowl(x):
    return (x["a"] - 3.0) ** 2 + (x["b"] - 0.2) ** 2


SPACE = Space({"a": (0.0, 10.0), "b": (0.0, 1.0)})


def told(count, function=bowl, space=SPACE, seed=3, **options):
    """A history after so many suggestions."""
    history = History()
    for _ in range(count):
        x = suggest(history, space, Options(**options), seed)[0].x
        history = history.with_outcome(x, function(x))
    return history


def distance(one, other, space=SPACE):
    return np.max(np.abs(space.to_unit(one) - space.to_unit(other)))


def test_a_function_is_minimized():
    history = told(18)
    best = Study(history, SPACE).recommendation
    assert best.x["a"] == pytest.approx(3.0, abs=0.1)
    assert abs(best.mean - bowl(best.x)) < 4 * best.sd + 1e-3


def test_resumed_is_uninterrupted_to_the_bit():
    history = told(9)
    again = History(tuple(history.trials))
    assert suggest(history, SPACE, seed=3)[0] == suggest(again, SPACE, seed=3)[0]
    optimizer = Optimizer(SPACE, seed=3)
    for _ in range(9):
        trial = optimizer.ask()
        optimizer.tell(trial, bowl(trial.x))
    assert [t.x for t in optimizer.history] == [t.x for t in history]


def test_what_is_kept_of_earlier_fits_changes_nothing():
    history = told(13)
    one = suggest(history, SPACE, seed=3)[0]
    surrogates._from_prior.cache_clear()
    assert suggest(history, SPACE, seed=3)[0] == one
    changed = History(tuple(history.trials[:4])).with_outcome(history.trials[4].x, 99.0)
    changed = History((*changed.trials, *history.trials[5:]))
    assert suggest(changed, SPACE, seed=3)[0] != one


@pytest.mark.parametrize("noise", ["gaussian", "student-t", "mixture"])
def test_affine_changes_of_outcomes_change_no_suggestion(noise):
    history = told(9)
    other = History()
    for trial in history:
        other = other.with_outcome(trial.x, 3.0 * trial.y + 7.0)
    options = Options(noise=noise)
    one, two = suggest(history, SPACE, options)[0], suggest(other, SPACE, options)[0]
    assert distance(one.x, two.x) < 1e-6
    assert two.mean == pytest.approx(3.0 * one.mean + 7.0, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_units_change_no_suggestion(scale):
    history, other = told(9), History()
    for trial in history:
        other = other.with_outcome(trial.x, scale * trial.y)
    one, two = suggest(history, SPACE)[0], suggest(other, SPACE)[0]
    assert distance(one.x, two.x) < 1e-6
    assert two.mean == pytest.approx(scale * one.mean, rel=1e-6)


def test_units_of_inputs_change_no_suggestion():
    history, wide = told(9), Space({"a": (-500.0, 500.0), "b": (1e3, 2e3)})
    other = History()
    for trial in history:
        other = other.with_outcome(wide.from_unit(SPACE.to_unit(trial.x)), trial.y)
    one, two = suggest(history, SPACE)[0], suggest(other, wide)[0]
    np.testing.assert_allclose(SPACE.to_unit(one.x), wide.to_unit(two.x), atol=1e-6)


def test_maximizing_is_minimizing_the_opposite():
    history, other = told(9), History()
    for trial in history:
        other = other.with_outcome(trial.x, -trial.y)
    one, two = suggest(history, SPACE)[0], suggest(other, SPACE, Options(goal="maximize"))[0]
    assert distance(one.x, two.x) < 1e-9
    assert two.mean == pytest.approx(-one.mean)


def test_no_point_is_tried_twice_without_noise():
    space = Space({"x": (0.0, 1.0)})
    history = told(25, lambda x: (x["x"] - 0.3) ** 2, space, noise="none")
    x = np.sort([trial.x["x"] for trial in history])
    assert np.diff(x).min() > 1e-6


def test_batches_are_apart_and_pending_points_are_avoided():
    history = told(8)
    batch = suggest(history, SPACE, seed=1, n=3)
    pairs = [distance(a.x, b.x) for i, a in enumerate(batch) for b in batch[:i]]
    assert min(pairs) > 1e-3
    first = suggest(history, SPACE, seed=1)[0]
    assert first == batch[0]
    second = suggest(history.with_pending(first.x, first.why), SPACE, seed=1)[0]
    assert second.x == batch[1].x


def test_failures_are_not_repeated_and_not_outcomes():
    def fails(x):
        return None if x["a"] < 2.0 else bowl(x)

    history = told(16, fails)
    failed = [trial.x for trial in history if trial.y is None]
    assert failed
    everything = [trial.x for trial in history]
    assert min(distance(a, b) for i, a in enumerate(everything) for b in everything[:i]) > 1e-6
    study = Study(history, SPACE)
    assert len(study.y) == len(history) - len(failed)
    # the model of success knows where they are
    if len(failed) >= 3:
        log_p = study.extra[-1](np.array([[0.05, 0.5], [0.6, 0.5]]))
        assert log_p[0] < log_p[1]


def test_all_failed_and_nothing_known_still_gives_a_suggestion():
    history = History()
    for _ in range(9):
        x = suggest(history, SPACE)[0].x
        assert all(distance(x, trial.x) > 1e-6 for trial in history)
        history = history.with_outcome(x, float("nan"))
    assert Study(history, SPACE).recommendation is None
    assert "outcomes are missing" in suggest(history, SPACE)[0].why


@pytest.mark.parametrize("y", [float("inf"), -float("inf"), float("nan"), None])
def test_outcomes_that_are_no_finite_numbers_are_failures(y):
    history = told(7).with_outcome({"a": 9.0, "b": 0.9}, y)
    assert history.trials[-1].status is Status.FAILED
    study = Study(history, SPACE)
    assert len(study.y) == 7
    assert study.recommendation.trial != 8
    assert distance(suggest(history, SPACE)[0].x, {"a": 9.0, "b": 0.9}) > 1e-6


@pytest.mark.parametrize("count", [0, 1, 7])
def test_constant_outcomes_and_few_rows(count):
    history = History()
    for _ in range(count):
        history = history.with_outcome(suggest(history, SPACE)[0].x, 1.5)
    found = suggest(history, SPACE, n=2)
    assert len(found) == 2
    assert found[0].reason is Reason.INITIAL
    best = Study(history, SPACE).recommendation
    assert (best is None) == (count == 0)


def test_limits_on_other_outcomes_keep_suggestions_feasible():
    limit = Limit.parse("heat < 4")
    history = History()
    for _ in range(16):
        x = suggest(history, SPACE, Options(limits=(limit,)), seed=2)[0].x
        history = history.with_outcome(x, bowl(x), outcomes={"heat": 2.0 * x["a"]})
    study = Study(history, SPACE, Options(limits=(limit,)))
    assert study.recommendation.x["a"] <= 2.0 + 1e-6
    assert study.recommendation.x["a"] > 1.5


def test_points_outside_the_box_teach_but_are_never_proposed():
    history = told(7).with_outcome({"a": 14.0, "b": -0.5}, -50.0)
    for one in suggest(history, SPACE, n=2):
        assert 0 <= one.x["a"] <= 10
        assert 0 <= one.x["b"] <= 1


def test_inputs_can_be_held():
    history = told(8)
    for one in suggest(history, SPACE, Options(fixed={"a": 7.0}), n=2):
        assert one.x["a"] == pytest.approx(7.0)


def test_mixed_inputs_on_grids():
    space = Space(
        {
            "a": (0.0, 10.0),
            "k": Integer(1, 8),
            "c": Categorical(("A", "B", "C")),
            "r": Real(1e-3, 1, log=True),
        }
    )

    def function(x):
        return (
            (x["a"] - 3) ** 2 / 10 + (x["k"] - 4) ** 2 + 2.0 * (x["c"] != "B") + np.log10(x["r"] / 0.03) ** 2
        )

    history = told(32, function, space)
    best = Study(history, space).recommendation.x
    assert best["k"] == 4
    assert best["c"] == "B"
    assert all(isinstance(trial.x["k"], int) for trial in history)


def test_the_gap_bounds_what_can_still_be_gained():
    few, many = Study(told(7), SPACE), Study(told(20), SPACE)
    assert many.gap < 0.1 * few.gap
    assert few.gap > min(few.y)  # the minimum of the bowl is 0
    assert Study(History(), SPACE).gap == np.inf


# --- bad measurements ---------------------------------------------------------------------------------------


def with_error(size, rows=24):
    """Outcomes of a smooth function, one of which is wrong."""
    X = SPACE.sobol(rows, np.random.default_rng(5))
    y = np.array([bowl(SPACE.from_unit(u)) for u in X])
    y[7] += size
    history = History()
    for u, v in zip(X, y):
        history = history.with_outcome(SPACE.from_unit(u), v)
    return history


def test_noise_is_gaussian_until_a_row_is_far_off():
    assert Study(with_error(0.0), SPACE).fit.noise == "gaussian"
    study = Study(with_error(-60.0), SPACE)
    assert study.fit.noise == "mixture"
    assert list(study.doubtful) == [8]
    assert study.recommendation.trial != 8
    plain = Study(with_error(-60.0), SPACE, Options(noise="gaussian"))
    assert plain.doubtful == {}


def test_a_doubtful_best_row_is_repeated_at_most_twice():
    study = Study(with_error(-60.0), SPACE)
    row = study.best
    study.fit.__dict__["outlier_probability"] = np.where(np.arange(24) == row, 0.5, 0.0)
    from cavity.design.suggestion import _to_confirm

    one = _to_confirm(study)
    assert one.reason is Reason.CONFIRM
    assert one.confirms == study.done[row].id
    assert f"repeats trial {one.confirms}" in one.why
    history = study.history
    for _ in range(2):
        history = history.with_pending(one.x)
    later = Study(history, SPACE)
    later.fit.__dict__["outlier_probability"] = study.fit.outlier_probability
    assert _to_confirm(later) is None


def test_a_low_outcome_that_stands_alone_is_repeated_once():
    """Taken for an outlier, it would be by far the best if it were none."""
    line, history = Space({"x": (0.0, 1.0)}), History()
    for k, x in enumerate(np.linspace(0.0, 0.6, 24)):
        history = history.with_outcome({"x": x}, np.sin(25.0 * x) + (20.0 if k == 7 else 0.0))
    low = {"x": 0.95}
    history = history.with_outcome(low, -15.0)
    study = Study(history, line)
    assert set(study.doubtful) == {8, 25}
    assert list(np.flatnonzero(study.fit.stands_alone)) == [24]
    again = suggest(history, line)[0]
    assert again.reason is Reason.CONFIRM
    assert (again.confirms, again.x) == (25, low)
    assert "would be the best" in again.why
    assert suggest(history, line, Options(confirm=False))[0].reason is not Reason.CONFIRM
    # repeated, it is not asked for a third time, whatever came of it
    for outcome in (-0.9, float("nan")):
        assert suggest(history.with_outcome(low, outcome), line)[0].confirms != 25
    # if it was right, it is believed
    assert Study(history.with_outcome(low, -15.0), line).recommendation.trial >= 25


@pytest.mark.parametrize("noise", ["student-t", "mixture"])
def test_a_low_outcome_that_stands_alone_is_not_recommended(noise):
    """Nothing contradicts the last one, but it may be wrong, which others may not be."""
    rng, history = np.random.default_rng(3), History()
    for k, u in enumerate(0.3 + 0.25 * SPACE.sobol(24, rng)):
        x = SPACE.from_unit(u)
        y = bowl(x) / 10 + 0.01 * rng.standard_normal() + (5.0 if k in (4, 11) else 0.0)
        history = history.with_outcome(x, y)
    far = {"a": 9.7, "b": 0.95}
    once = Study(history.with_outcome(far, -0.3), SPACE, Options(noise=noise))
    assert once.done[once.best].id == 25
    assert once.recommendation.trial != 25
    (mean, sd), (plain_mean, plain_sd) = once.fit.with_doubt, once.fit.at_data
    assert mean[24] > plain_mean[24]
    assert sd[24] > 20 * np.median(sd[:24])
    if noise == "student-t":  # a mixture leaves the row its doubt already
        assert mean[24] > plain_mean[24] + 0.1
        assert sd[24] > 3 * plain_sd[24]
    np.testing.assert_allclose(mean[:24], plain_mean[:24], atol=0.1)
    thrice = once.history.with_outcome(far, -0.31).with_outcome(far, -0.29)
    best = Study(thrice, SPACE, Options(noise=noise)).recommendation
    assert best.trial >= 25  # repeated, it is believed
    assert best.mean == pytest.approx(-0.3, abs=0.05)


def test_known_noise_is_used():
    history = History()
    rng = np.random.default_rng(0)
    for u in SPACE.sobol(14, rng):
        x = SPACE.from_unit(u)
        history = history.with_outcome(x, bowl(x) + 3.0 * rng.standard_normal(), noise_sd=3.0)
    fit = Study(history, SPACE).fit
    assert fit.noise == "gaussian"
    assert fit.noise_sd > 2.9


# --- minimize -----------------------------------------------------------------------------------------------


def test_minimize_has_the_fields_of_scipy_results():
    result = minimize(lambda x: float(np.sum((x - 0.3) ** 2)), [(0.0, 1.0)] * 2, n_calls=16, noise="none")
    assert result.success
    assert result.nfev == 16
    assert result.fun < 1e-2
    np.testing.assert_allclose(result.x, 0.3, atol=0.1)
    assert len(result.func_vals) == len(result.x_iters) == 16


def test_minimize_stops_when_little_can_be_gained():
    result = minimize(lambda x: float((x[0] - 0.3) ** 2), [(0.0, 1.0)], n_calls=40, noise="none", tol=1e-2)
    assert result.nfev < 40
    assert "hardly be better" in result.message


def test_minimize_survives_failures_interrupts_and_executors():
    from concurrent.futures import ThreadPoolExecutor

    def fun(x):
        if x["a"] < 3.0:
            raise ValueError("no convergence")
        return bowl(x)

    result = minimize(fun, SPACE, n_calls=10)
    assert result.nfev == 10
    assert np.isnan(result.func_vals).any()
    calls = []

    def interrupted(x):
        calls.append(x)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return bowl(x)

    result = minimize(interrupted, SPACE, n_calls=10)
    assert result.nfev == 6
    assert result.message == "interrupted"
    assert not result.success
    with ThreadPoolExecutor(2) as pool:
        result = minimize(bowl, SPACE, n_calls=9, executor=pool, n_jobs=2)
    assert result.nfev == 9

    def broken(x):
        raise RuntimeError("a bug")

    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="a bug"):
        minimize(broken, SPACE, n_calls=9, executor=pool, n_jobs=2)


def test_minimize_begins_where_it_is_told_and_stops_when_it_is_told():
    result = minimize(bowl, SPACE, n_calls=9, x0={"a": 1.0, "b": 0.5}, callback=lambda r: r.nfev >= 3)
    assert result.history.trials[0].x == {"a": 1.0, "b": 0.5}
    assert result.nfev == 3
    assert "callback" in result.message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Options(goal="win"), "goal must be one of"),
        (lambda: Options(noise="loud"), "noise must be one of"),
        (lambda: Options(n_initial=0), "n_initial must be a whole number"),
        (lambda: suggest(History(), SPACE, n=0), "n must be a whole number"),
        (lambda: minimize(bowl, SPACE, n_calls=0), "n_calls must be"),
        (lambda: suggest(History().with_outcome({"a": 1.0}, 2.0), SPACE), "trial 1: .*no value for b"),
        (lambda: suggest(History(), SPACE, Options(fixed={"z": 1.0})), "no input 'z'"),
        (lambda: History().with_outcome({"a": 1.0}, "high"), "an outcome is a number"),
        (lambda: History()[4], "there is no trial 4"),
        (
            lambda: History().with_pending({}).completed(1, 1.0, noise_sd=-1.0),
            "noise_sd must be a number >= 0",
        ),
        (
            lambda: surrogates.fit_surrogate(SPACE, np.zeros((2, 2)), np.zeros(2), noise="x"),
            "noise must be one of",
        ),
        (lambda: Limit.parse("warm"), "a limit is an outcome"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()
