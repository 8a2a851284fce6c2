"""The EM driver: monotonicity, tolerance, restarts, acceleration, generalized EM."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cavity.em import DegeneracyError, MonotonicityError, gradient_m_step, run_em, run_restarts


class CensoredExponential:
    """Exponential waiting times, some known only to exceed c: the maximum is known, and so is EM's rate.

    n events with sum s, m censored at c: the rate's maximum likelihood estimate is n / (s + m c).
    """

    def __init__(self, events, censored):
        self.events, self.censored = np.asarray(events), np.asarray(censored)
        self.n_data = float(len(events) + len(censored))

    def e_step(self, rate):
        objective = len(self.events) * np.log(rate) - rate * (self.events.sum() + self.censored.sum())
        expected = self.events.sum() + np.sum(self.censored + np.divide(1.0, rate))
        return float(objective), expected

    def m_step(self, expected, rate):
        return self.n_data / expected

    def pack(self, rate, like):
        return np.log([rate])

    def unpack(self, v, like):
        return float(np.exp(v[0]))

    @property
    def answer(self):
        return len(self.events) / (self.events.sum() + self.censored.sum())


PROBLEM = CensoredExponential([0.3, 1.1, 0.7], [1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5])


def test_reaches_the_known_maximum_monotonically():
    run = run_em(PROBLEM, 5.0, tol=1e-14, max_iter=1000)
    assert run.converged
    assert "converged" in run.status
    assert_allclose(run.theta, PROBLEM.answer, rtol=1e-6)
    assert np.all(np.diff(run.trace) >= -1e-12)
    assert len(run.trace) == run.n_iter + 1


def test_acceleration_reaches_the_same_maximum_in_fewer_steps():
    plain = run_em(PROBLEM, 5.0, tol=1e-13, max_iter=1000)
    fast = run_em(PROBLEM, 5.0, tol=1e-13, max_iter=1000, accelerate=True)
    assert_allclose(fast.theta, PROBLEM.answer, rtol=1e-6)
    assert fast.n_iter < plain.n_iter / 2
    assert np.all(np.diff(fast.trace) >= -1e-12)


def test_tolerance_is_per_datum():
    """A problem repeated ten times has ten times the gain per step, and stops at the same step."""

    class Repeated(CensoredExponential):
        def __init__(self):
            super().__init__(np.tile(PROBLEM.events, 10), np.tile(PROBLEM.censored, 10))

    once, ten = (run_em(p, 5.0, tol=1e-5) for p in (PROBLEM, Repeated()))
    assert once.n_iter == ten.n_iter
    assert_allclose(once.theta, ten.theta, rtol=1e-12)


def test_a_fall_of_the_objective_is_an_error_that_names_the_step():
    class Broken(CensoredExponential):
        steps = 0

        def m_step(self, expected, rate):
            self.steps += 1
            return super().m_step(expected, rate) * (1.0 if self.steps < 3 else 3.0)

    with pytest.raises(MonotonicityError, match="EM step 3 lowered the objective"):
        run_em(Broken(PROBLEM.events, PROBLEM.censored), 5.0)


def test_non_convergence_is_reported():
    run = run_em(PROBLEM, 5.0, tol=1e-12, max_iter=3)
    assert not run.converged
    assert "max_iter=3" in run.status
    assert run.n_iter == 3


def test_zero_steps_return_the_start():
    run = run_em(PROBLEM, 5.0, max_iter=0)
    assert run.theta == 5.0
    assert run.n_iter == 0


def test_negative_tolerance_runs_all_steps():
    assert run_em(PROBLEM, PROBLEM.answer, max_iter=7, tol=-1.0).n_iter == 7


def test_non_finite_objective_is_refused():
    with pytest.raises(DegeneracyError, match="starting point"), np.errstate(all="ignore"):
        run_em(PROBLEM, 0.0)


@pytest.mark.parametrize(("name", "value"), [("max_iter", -1), ("max_iter", 1.5), ("tol", float("nan"))])
def test_bad_controls_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        run_em(PROBLEM, 1.0, **{name: value})


def test_restarts_keep_the_best_and_report_all():
    starts = [("a", lambda: 5.0), ("b", lambda: 0.01), ("c", lambda: PROBLEM.answer)]
    result = run_restarts(PROBLEM, starts, max_iter=2, tol=-1.0)
    assert [r.start for r in result.runs] == ["a", "b", "c"]
    assert result.best.objective == max(r.objective for r in result.runs)
    assert result.best.start == "c"


def test_restarts_on_threads_give_the_same():
    starts = [("a", lambda: 5.0), ("b", lambda: 0.01)]
    serial = run_restarts(PROBLEM, starts, max_iter=5)
    threads = run_restarts(PROBLEM, starts, n_jobs=2, max_iter=5)
    assert [r.trace for r in serial.runs] == [r.trace for r in threads.runs]


def test_failed_starts_are_kept_as_messages():
    with np.errstate(all="ignore"):
        result = run_restarts(PROBLEM, [("bad", lambda: 0.0), ("good", lambda: 1.0)], max_iter=5)
        assert len(result.failures) == 1
        assert "bad" in result.failures[0]
        with pytest.raises(DegeneracyError, match="no start succeeded"):
            run_restarts(PROBLEM, [("bad", lambda: 0.0)])
    with pytest.raises(ValueError, match="n_init"):
        run_restarts(PROBLEM, [])


def test_generalized_em_with_a_gradient_step_reaches_the_maximum():
    """The M-step takes one gradient step in log rate instead of maximizing."""

    class Generalized(CensoredExponential):
        def m_step(self, expected, rate):
            n = self.n_data
            x = gradient_m_step(
                lambda v: float(n * v[0] - np.exp(v[0]) * expected),
                lambda v: np.array([n - np.exp(v[0]) * expected]),
                np.log([rate]),
                initial_step=0.01,
            )
            return float(np.exp(x[0]))

    run = run_em(Generalized(PROBLEM.events, PROBLEM.censored), 5.0, tol=1e-13, max_iter=5000)
    assert run.converged
    assert_allclose(run.theta, PROBLEM.answer, rtol=1e-4)


def test_gradient_step_never_lowers_q():
    rng = np.random.default_rng(0)
    h = np.diag([1.0, 1e4])

    def q(v):
        return float(-0.5 * v @ h @ v)

    for _ in range(20):
        x = rng.normal(size=2)
        y = gradient_m_step(q, lambda v: -h @ v, x, steps=3)
        assert q(y) > q(x)
    assert_allclose(gradient_m_step(q, lambda v: -h @ v, np.zeros(2)), 0.0)


def test_gradient_step_stops_where_no_step_helps():
    x = np.array([1.0])
    assert_allclose(gradient_m_step(lambda v: -abs(v[0] - 1.0), lambda v: np.array([1.0]), x), x)


def test_acceleration_survives_points_outside_the_model():
    """Extrapolated points that cannot be evaluated are replaced by the EM point."""

    class Fragile(CensoredExponential):
        def unpack(self, v, like):
            raise ValueError("outside")

    run = run_em(Fragile(PROBLEM.events, PROBLEM.censored), 5.0, accelerate=True, tol=1e-10)
    assert_allclose(run.theta, PROBLEM.answer, rtol=1e-3)
    assert np.all(np.diff(run.trace) >= -1e-12)


def test_an_extrapolated_point_that_lies_about_its_objective_is_left():
    class Lying(CensoredExponential):
        lies = 0

        def project(self, rate):
            self.extrapolated = rate
            return rate

        def e_step(self, rate):
            objective, expected = super().e_step(rate)
            if rate == getattr(self, "extrapolated", None) and self.lies < 2:
                self.lies += 1
                return objective + 1e6, expected
            return objective, expected

    problem = Lying(PROBLEM.events, PROBLEM.censored)
    run = run_em(problem, 5.0, accelerate=True, tol=1e-12, max_iter=500)
    assert problem.lies == 2
    assert_allclose(run.theta, PROBLEM.answer, rtol=1e-4)
    assert np.all(np.diff(run.trace) >= -1e-12)


def test_a_broken_m_step_is_found_under_acceleration():
    class Broken(CensoredExponential):
        def m_step(self, expected, rate):
            return 3.0 * super().m_step(expected, rate)

    with pytest.raises(MonotonicityError):
        run_em(Broken(PROBLEM.events, PROBLEM.censored), PROBLEM.answer, accelerate=True)


def test_progress_bar_runs(capsys):
    run = run_em(PROBLEM, 5.0, max_iter=5, progress=True)
    assert run.n_iter == 5
