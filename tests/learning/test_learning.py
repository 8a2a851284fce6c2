"""Learning: optima, bounds, failed starts, interruptions, reproducibility."""

from __future__ import annotations

import pickle
import time
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize

from cavity import GPRegressor
from cavity.gp import GP
from cavity.inference.base import InferenceFailedError
from cavity.inference.exact import Exact
from cavity.kernels import SE, Matern, Periodic
from cavity.learning import Learned, learn
from cavity.learning.objective import Objective
from cavity.learning.optimizer import JUST_BEYOND, maximize
from cavity.learning.race import Start, execute
from cavity.learning.starts import Starts
from cavity.learning.step_limit import StepLimit
from cavity.likelihoods import Gaussian, Noiseless, StudentT
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import LogNormal
from cavity.runtime.stop_reason import StopReason

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 8, (30, 1)), axis=0)
Y = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(30)


def model(kernel=None, likelihood=None, mean="zero") -> GP:
    return GP(kernel or 1.0 * SE(1.0), likelihood or Gaussian(), mean=mean).bind(1)


def test_the_gradient_vanishes_at_the_optimum():
    learned = learn(model(mean="constant"), X, Y, rng=0)
    assert learned.converged
    value, gradient = learned.model.evidence(X, Y)
    assert value == pytest.approx(learned.value, abs=1e-9)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-3)


def test_every_run_is_kept_and_the_best_one_wins():
    rough = model(1.0 * SE(1.0) + 1.0 * SE(1.0))
    learned = learn(rough, X, Y, n_restarts=3, rng=0)
    kinds = [run.kind for run in learned.runs]
    assert kinds == ["data", "given", "random", "random", "relocated", "relocated"]
    assert learned.value == max(run.value for run in learned.runs)
    for run in learned.runs:
        assert run.evaluations > 0
        value, _ = rough.replace(run.theta).evidence(X, Y)
        assert value == pytest.approx(run.value, abs=1e-9)
    assert len(learn(model(), X, Y, n_restarts=0).runs) == 1


def test_values_that_nobody_chose_are_not_worth_a_run():
    for given, second in (((), "random"), (("kernel",), "given")):
        learned = learn(model(1.0 * SE(4.0)), X, Y, n_restarts=2, given=given, rng=0)
        assert [run.kind for run in learned.runs] == ["data", second]


def test_parts_that_nobody_chose_start_from_the_data():
    chosen = GP(1.0 * SE(3.3), Gaussian(7.0), mean="constant").bind(1)
    learned = learn(chosen, X, Y + 100.0, n_restarts=1, given=("kernel",), rng=0)
    data, given = (chosen.replace(run.start) for run in learned.runs)
    assert learned.runs[1].kind == "given"
    assert given.kernel == chosen.kernel
    assert given.mean == data.mean
    assert given.likelihood == data.likelihood
    assert float(given.mean.flat[0]) == pytest.approx(100.0, abs=3.0)


def test_without_reading_the_data_the_first_start_is_the_value_given():
    start = model(1.0 * SE(3.3))
    learned = learn(start, X, Y, n_restarts=0, data_driven=False)
    np.testing.assert_array_equal(learned.runs[0].start, start.theta)


def test_two_local_optima_are_both_seen():
    """Short length scale and little noise, or the reverse (Rasmussen and Williams 2006, figure 5.5)."""
    rng = np.random.default_rng(20)
    x = np.sort(rng.uniform(-5, 5, (7, 1)), axis=0)
    y = np.linalg.cholesky(np.exp(-0.5 * (x - x.T) ** 2) + 0.01 * np.eye(7)) @ rng.standard_normal(7)

    def minus_log_evidence(theta):
        length, noise = np.exp(theta)
        A = np.exp(-0.5 * ((x - x.T) / length) ** 2) + noise * np.eye(7)
        return 0.5 * (y @ np.linalg.solve(A, y) + np.linalg.slogdet(A)[1] + 7 * np.log(2 * np.pi))

    learned = learn(model(fixed(1.0) * SE(1.0)), x, y, n_restarts=8, rng=0)
    for length, noise in ((1.57, 0.0102), (7.45, 0.191)):  # maxima on a grid of the two parameters
        top = minimize(minus_log_evidence, np.log([length, noise]), method="Nelder-Mead", tol=1e-9)
        np.testing.assert_allclose(np.exp(top.x), [length, noise], rtol=0.01)
        near = [run for run in learned.runs if np.abs(run.theta - top.x).max() < 1e-3]
        assert near
        assert near[0].converged
        assert near[0].value == pytest.approx(-top.fun, abs=1e-6)


def test_bounds_are_respected():
    kernel = 1.0 * SE(Param(0.5, bounds=(0.4, 0.6)))
    learned = learn(model(kernel, Gaussian(Param(0.5, bounds=(0.3, np.inf)))), X, Y, rng=0)
    for run in learned.runs:
        assert 0.4 * (1 - 1e-9) <= np.exp(run.theta[1]) <= 0.6 * (1 + 1e-9)
        assert np.exp(run.theta[2]) >= 0.3 * (1 - 1e-9)
    assert learned.converged
    assert learned.model.kernel.get("se.lengthscale") == pytest.approx(0.6)  # the free optimum is longer


def test_fixed_and_tied_parameters_are_respected():
    kernel = (
        1.0 * SE(fixed(0.7)) + Param(1.0, tie="v") * Matern(1.0) + Param(1.0, tie="v") * Periodic(SE(1.0))
    )
    learned = learn(model(kernel), X, Y, n_restarts=2, rng=0).model.kernel
    assert learned.get("se.lengthscale") == 0.7
    assert learned.get("matern.variance") == learned.get("periodic.variance") != 1.0


def test_nothing_to_learn():
    frozen = model().freeze()
    learned = learn(frozen, X, Y)
    assert learned.runs == ()
    assert learned.model == frozen
    assert learned.value == pytest.approx(frozen.evidence(X, Y)[0])


def test_priors_pull_the_optimum():
    """The maximum of evidence plus log prior, and not of the evidence."""
    prior = LogNormal(np.log(0.3), 0.05)
    learned = learn(model(1.0 * SE(Param(0.3, prior=prior))), X, Y, rng=0)
    found = learned.model
    assert found.kernel.get("se.lengthscale") < 0.5
    _, d_evidence = found.evidence(X, Y)
    value, d_prior = found.log_prior()
    np.testing.assert_allclose(d_evidence + d_prior, 0.0, atol=1e-3)
    assert learned.value == pytest.approx(found.evidence(X, Y)[0] + value)


def test_leave_one_out_objective():
    learned = learn(model(), X, Y, objective="loo", rng=0)
    value, _ = learned.model.leave_one_out_log_prob(X, Y)
    assert learned.value == pytest.approx(value)
    again = learn(learned.model, X, Y, objective="loo", n_restarts=0, data_driven=False)
    assert again.value == pytest.approx(value, abs=1e-4)  # nats
    by_evidence = learn(model(), X, Y, rng=0).model
    assert value >= by_evidence.leave_one_out_log_prob(X, Y)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": "luck"}, "objective must be one of 'evidence', 'loo', 'gcv', got 'luck'"),
        ({"n_restarts": -1}, "n_restarts must be an integer >= 0, got -1"),
        ({"n_restarts": 1.5}, "n_restarts must be an integer >= 0, got 1.5"),
        ({"max_time": -2.0}, "max_time must be a number of seconds >= 0, got -2.0"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        learn(model(), X, Y, **options)


# --- the method of GP ---------------------------------------------------------------------------------------


def test_gp_learn_is_what_estimators_do():
    """First stages of robust noise, starts, choice of the run and posterior."""
    y = Y.copy()
    y[::9] += 4.0
    kernel = 1.0 * SE(1.0)
    estimator = GPRegressor(kernel, likelihood="student-t", n_restarts=1, random_state=0).fit(X, y)
    learned = GP(kernel, StudentT(), "constant").learn(X, y, n_restarts=1, rng=0)
    assert [run.kind for run in learned.runs[:3]] == ["laplace", "gaussian", "data"]
    assert learned.runs[0].value == estimator.runs_[0].value
    assert learned.posterior.log_evidence == pytest.approx(estimator.log_evidence_, abs=1e-6)
    np.testing.assert_array_equal(learned.posterior.model.theta, learned.model.theta)
    assert "stage ep" in learned.winner.message


def test_gp_learn_checks_what_it_is_given():
    start = GP(1.0 * SE(1.0), Gaussian())
    doubled = start.learn(X.tolist(), Y.tolist(), np.full(30, 2.0), n_restarts=0).model
    twice = start.learn(np.vstack([X, X]), np.concatenate([Y, Y]), n_restarts=0).model
    np.testing.assert_allclose(doubled.theta, twice.theta, atol=1e-3)
    for arguments, words in (
        ((X, Y[:-1]), "as many rows"),
        ((X, Y, np.zeros(30)), "sample_weight must be 30 positive numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            start.learn(*arguments)


def test_an_easier_model_is_solved_once(monkeypatch):
    """Leave-one-out of each easier model gives the noise of all models that start there."""
    asked = []
    leave_one_out = GP.leave_one_out

    def noted(self, *arguments):
        asked.append(type(self.likelihood).__name__)
        return leave_one_out(self, *arguments)

    monkeypatch.setattr(GP, "leave_one_out", noted)
    GP(1.0 * SE(1.0), StudentT(), "constant").learn(X, Y, n_restarts=0)
    assert asked == ["Gaussian", "Laplace"]


# --- failures -----------------------------------------------------------------------------------------------


class Failing(GP):
    """Fails wherever the length scale is below a limit."""

    limit = 1.0

    def evidence_of(self, *args, **kwargs):
        if self.kernel.get("se.lengthscale") < self.limit:
            raise np.linalg.LinAlgError("too short")
        return super().evidence_of(*args, **kwargs)


def test_a_start_that_fails_is_recorded_and_not_fatal():
    failing = Failing(1.0 * SE(0.1), Gaussian()).bind(1)
    learned = learn(failing, X, Y, n_restarts=1, rng=0)
    data, given = learned.runs
    assert (given.kind, given.value, given.converged, given.message) == ("given", -np.inf, False, "too short")
    assert given.failures == given.evaluations == 1
    assert np.isfinite(data.value)
    assert learned.value == data.value


def test_values_that_fail_give_way_to_the_data():
    """The values of an earlier fit need not suit more rows."""
    failing = Failing(1.0 * SE(0.1), Gaussian()).bind(1)
    learned = learn(failing, X, Y, n_restarts=0, data_driven=False)
    own, data = learned.runs
    assert (own.value, own.message) == (-np.inf, "too short")
    np.testing.assert_array_equal(own.start, failing.theta)
    assert learned.value == data.value == learn(failing, X, Y, n_restarts=0).value
    assert learned.converged


def test_a_step_into_failure_comes_back():
    """The optimum is beyond the limit: the run ends near it, and counts what failed."""
    failing = Failing(1.0 * SE(3.0), Gaussian()).bind(1)
    failing.__class__ = type("Failing3", (Failing,), {"limit": 2.0})
    learned = learn(failing, X, Y, n_restarts=0, data_driven=False)
    run = learned.runs[0]
    assert run.failures > 0
    assert 2.0 <= learned.model.kernel.get("se.lengthscale") < 2.2
    assert run.value > failing.evidence(X, Y)[0]


def reaching(monkeypatch, longest):
    """Exact inference that says it can follow its solution only so far."""
    monkeypatch.setattr(Exact, "step_limit", lambda self, likelihood: longest)


def test_a_rule_may_limit_the_step(monkeypatch):
    free = learn(model(), X, Y, n_restarts=0)
    reaching(monkeypatch, 0.3)
    best, steps = [], []
    call = Objective.__call__

    def noted(self, theta):
        if self.best is not None:
            steps.append(np.max(np.abs(theta - self.best[1])))
        best.append(theta)
        return call(self, theta)

    monkeypatch.setattr(Objective, "__call__", noted)
    limited = learn(model(), X, Y, n_restarts=0)
    assert max(steps) <= 0.3 + 1e-12
    assert limited.converged
    assert limited.value == pytest.approx(free.value, abs=1e-5)


def test_a_known_end_of_a_branch_is_not_crossed():
    limit, here, end = StepLimit(2.0), np.zeros(2), np.array([0.3, 0.0])
    assert limit.towards(here, np.array([2.0, 0.0])) == (1.0, None)  # half of the rule's limit at first
    met = limit.add_end(end, np.array([0.6, 0.0]))  # the plane of first coordinate 0.3
    longest, nearest = limit.towards(here, np.array([0.5, 1.0]))
    assert longest == pytest.approx(0.8 * 0.6)
    assert nearest is met
    assert met.place is end
    assert limit.towards(here, np.array([0.0, 1.0]))[1] is None  # along the plane
    assert limit.towards(here, np.array([-1.0, 0.0]))[1] is None  # away from it
    assert limit.towards(np.array([0.0, 2.0]), np.array([0.5, 2.0]))[1] is None  # too far away to know
    assert limit.towards(np.array([0.4, 0.1]), np.array([0.5, 0.1]))[0] == 0.0  # beyond it


def test_the_line_search_returns_to_where_it_may_go(monkeypatch):
    """A failure that says how far the way was open costs one evaluation, and the next is short of there."""
    seen = []  # value and place

    class Ending(GP):
        def evidence_of(self, *arguments, **options):
            place = float(np.log(self.get("se.lengthscale")))
            if seen and place > seen[0][1] + 0.3:
                best = max(seen)[1]
                raise InferenceFailedError("no further", (seen[0][1] + 0.3 - best) / (place - best))
            value, gradient, warm = super().evidence_of(*arguments, **options)
            seen.append((value, place))
            return value, gradient, warm

    reaching(monkeypatch, 2.0)
    learned = learn(Ending(1.0 * SE(0.2), Gaussian()).bind(1), X, Y, n_restarts=0, data_driven=False)
    first = learned.runs[0]
    assert "ends here: no further" in first.message
    assert first.failures <= 2
    assert 0.27 < max(seen)[1] - seen[0][1] <= 0.3


def test_beyond_the_end_of_a_branch_another_run_begins(monkeypatch):
    reaching(monkeypatch, 1.0)
    failing = Failing(1.0 * SE(2.0), Gaussian()).bind(1)
    best = learn(model(), X, Y, n_restarts=0).model.get("se.lengthscale")
    monkeypatch.setattr(Failing, "limit", 1.2 * best)
    learned = learn(failing, X, Y, n_restarts=0, data_driven=False)
    ended, beyond = learned.runs
    assert "ends here: too short" in ended.message
    assert not ended.converged
    assert 0 < ended.failures <= 4
    assert learned.model.get("se.lengthscale") >= 1.2 * best
    np.testing.assert_array_equal(beyond.start, ended.beyond)
    assert np.max(np.abs(ended.beyond - ended.theta)) < 0.2 + JUST_BEYOND
    assert (beyond.value, beyond.evaluations, beyond.message) == (-np.inf, 1, "too short")


def test_when_every_start_fails_the_reason_is_given():
    doubled = np.vstack([X, X])
    targets = np.concatenate([Y, Y + 1])
    hopeless = Failing(1.0 * SE(0.1), Gaussian()).bind(1)
    hopeless.__class__ = type("Hopeless", (Failing,), {"limit": np.inf})
    with pytest.raises(np.linalg.LinAlgError, match="could not be evaluated at any start: too short"):
        learn(hopeless, doubled, targets, rng=0)


def test_overflow_is_a_failed_evaluation():
    objective = Objective(model(), X, Y)
    value, gradient = objective(np.array([2000.0, 0.0, 0.0]))
    assert value == -np.inf
    assert not gradient.any()
    assert objective.failures == 1
    assert "se.variance" in objective.last_error


# --- interruptions ------------------------------------------------------------------------------------------


class Interrupted(GP):
    """Ctrl-C at the k-th evaluation."""

    count: ClassVar[list[int]] = [0]
    at = 10

    def evidence_of(self, *args, **kwargs):
        self.count[0] += 1
        if self.count[0] == self.at:
            raise KeyboardInterrupt
        return super().evidence_of(*args, **kwargs)


def interrupted_at(k: int) -> GP:
    new = Interrupted(1.0 * SE(1.0), Gaussian()).bind(1)
    new.__class__ = type("InterruptedAt", (Interrupted,), {"count": [0], "at": k})
    return new


def test_an_interruption_keeps_the_best_so_far():
    learned = learn(interrupted_at(10), X, Y, rng=0)
    assert learned.stopped is StopReason.INTERRUPTED
    assert not learned.converged
    assert [run.kind for run in learned.runs] == ["interrupted"]
    assert learned.value == pytest.approx(model().replace(learned.model.theta).evidence(X, Y)[0])
    first = learn(model(), X, Y, n_restarts=0).runs[0].start
    assert learned.value > model().replace(first).evidence(X, Y)[0]


def test_a_late_interruption_keeps_finished_runs():
    whole = learn(model(), X, Y, rng=0)
    late = whole.runs[0].evaluations + 5
    learned = learn(interrupted_at(late), X, Y, rng=0)
    assert [run.kind for run in learned.runs] == ["data", "interrupted"]
    assert learned.value >= whole.runs[0].value


def test_an_interruption_before_anything_is_known_passes_through():
    with pytest.raises(KeyboardInterrupt):
        learn(interrupted_at(1), X, Y, rng=0)


def test_time_that_is_up_keeps_the_best_so_far():
    learned = learn(model(), X, Y, max_time=0.0, rng=0)
    assert learned.stopped is StopReason.OUT_OF_TIME
    assert np.isfinite(learned.value)
    assert learned.runs[0].evaluations == 1  # one is always made
    assert "max_time" in learned.runs[0].message


def test_time_is_kept(monkeypatch):
    clock = iter(np.arange(0.0, 1e4, 1.0))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    learned = learn(model(), X, Y, max_time=12.0, rng=0, progress=False)
    assert learned.stopped is StopReason.OUT_OF_TIME
    assert sum(run.evaluations for run in learned.runs if np.isfinite(run.value)) <= 13


def test_what_workers_have_found_is_known_where_an_interrupt_comes():
    """Trials of starts are no runs; the best of them is kept all the same, with processes as without."""
    goal, starts = Objective(model(), X, Y), Starts.of(model(), X, Y)
    work = execute(goal, [Start("trial", starts.first)] * 2, starts, n_jobs=2, steps=2)
    (first,) = next(work)
    assert goal.best_ever[0] == first.value
    np.testing.assert_array_equal(goal.best_ever[1], first.theta)
    assert len(list(work)) == 1


# --- reproducibility ----------------------------------------------------------------------------------------


def same(a: Learned, b: Learned) -> bool:
    return len(a.runs) == len(b.runs) and all(
        r.kind == s.kind and np.array_equal(r.start, s.start) and np.array_equal(r.theta, s.theta)
        for r, s in zip(a.runs, b.runs)
    )


def test_the_seed_decides():
    one, two, other = (learn(model(), X, Y, n_restarts=2, given=(), rng=s) for s in (1, 1, 2))
    assert same(one, two)
    assert not same(one, other)


def test_processes_give_the_same_result_as_one():
    one = learn(model(), X, Y, n_restarts=2, rng=1)
    two = learn(model(), X, Y, n_restarts=2, rng=1, n_jobs=2)
    assert [r.kind for r in one.runs] == [r.kind for r in two.runs]
    for r, s in zip(one.runs, two.runs):
        np.testing.assert_allclose(s.theta, r.theta, rtol=1e-10, atol=1e-10)
        assert s.value == pytest.approx(r.value, abs=1e-10)


def test_an_objective_travels_without_its_matrices():
    objective = Objective(model(), X, Y)
    objective(model().theta)
    assert len(pickle.dumps(objective)) < 10_000
    copy = pickle.loads(pickle.dumps(objective))
    assert copy(model().theta)[0] == objective(model().theta)[0]


# --- terms of a sum -----------------------------------------------------------------------------------------


def test_terms_of_a_sum_are_drawn_anew_in_turn():
    kernel = 1.0 * SE(1.0) + 1.0 * SE(1.0)
    learned = learn(model(kernel), X, Y, n_restarts=1, rng=0)
    kinds = [run.kind for run in learned.runs]
    assert kinds.count("relocated") == 2
    assert learned.value >= max(run.value for run in learned.runs[:2])
    assert "relocated" not in [r.kind for r in learn(model(kernel), X, Y, n_restarts=0).runs]


def test_a_slow_trend_and_a_fast_wiggle_are_told_apart():
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 20, (80, 1)), axis=0)
    f = GP(4.0 * SE(8.0) + 0.5 * SE(0.7)).sample_prior(x, rng=4)[0]
    y = f + 0.1 * rng.standard_normal(80)
    learned = learn(model(1.0 * SE(1.0) + 1.0 * SE(1.0)), x, y, n_restarts=2, rng=0).model.kernel
    lengths = sorted([learned.get("se.lengthscale"), learned.get("se_2.lengthscale")])
    assert lengths[0] == pytest.approx(0.7, rel=0.5)
    assert lengths[1] > 3.0


# --- noise-free learning ------------------------------------------------------------------------------------


def test_learning_without_noise():
    x = np.linspace(0, 6, 15)[:, None]
    learned = learn(model(likelihood=Noiseless()), x, np.sin(x[:, 0]), rng=0)
    posterior = learned.model.condition(x, np.sin(x[:, 0]))
    points = np.linspace(0.1, 5.9, 50)[:, None]
    np.testing.assert_allclose(posterior.mean(points), np.sin(points[:, 0]), atol=1e-4)


def test_maximize_clips_its_start_to_the_box():
    objective = Objective(model(), X, Y)
    box = np.tile([-1.0, 1.0], (3, 1))
    run = maximize(objective, np.array([5.0, 0.0, 0.0]), box, np.ones(3), "mine")
    assert run.start[0] == 1.0
    assert np.all(np.abs(run.theta) <= 1.0 + 1e-12)


def test_how_a_run_ended_is_said_in_words():
    objective = Objective(model(), X, Y)
    box = np.array([[-20.0, 20.0]] * 3)
    short = maximize(objective, np.array([2.0, 2.0, 1.0]), box, np.ones(3), "mine", steps=2)
    assert not short.converged
    assert short.message == "it was still improving after 2 iterations, the most that are made"
    long = maximize(objective, np.zeros(3), box, np.ones(3), "mine")
    assert (long.converged, long.message) == (True, "converged")
