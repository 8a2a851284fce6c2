"""Chains that are stopped, by Ctrl-C or by the clock: the draws made so far are kept, and the status says why."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cavity import GP, GPRegressor
from cavity.inference.base import ConvergenceWarning
from cavity.io import dumps, loads
from cavity.io.registry import codec_of
from cavity.kernels import SE
from cavity.likelihoods import Gaussian, MixtureOfGaussians, Probit, StudentT
from cavity.runtime import deadlines
from cavity.runtime.deadlines import time_limit
from cavity.runtime.stop_reason import StopReason
from cavity.sampling.draws import Draws
from cavity.sampling.mcmc import MCMC
from cavity.sampling.posterior import SamplePosterior
from cavity.sampling.trace import Trace

X = np.linspace(0.0, 5.0, 12)[:, None]
Y = np.sin(X[:, 0]) + 0.1 * np.cos(17.0 * X[:, 0])
CASES = {
    "integrated": Gaussian(0.1),
    "gibbs": MixtureOfGaussians(0.1, 0.1, 5.0),
    "scale-mixture": StudentT(0.1, 4.0),
    "joint": Probit(),
    "elliptical": Probit(),
}
PILOTED = ("integrated", "gibbs", "scale-mixture")
"""Methods with a first part of warm-up whose draws can be kept."""


def sampled(method: str, at_step=lambda step: None, **options) -> SamplePosterior:
    """Two chains of 40 draws after 20 steps; `at_step` is called after each step of all."""
    steps = [0]

    def after_step(done: int, total: int) -> None:
        steps[0] += 1
        at_step(steps[0])

    asked = {"n_draws": 40, "warmup": 20, "chains": 2, "rng": 0, "warn": False, **options}
    rule = MCMC(method=method, hyperparameters=method != "elliptical", progress=after_step, **asked)
    likelihood = CASES[method]
    y = np.where(Y > 0, 1.0, -1.0) if likelihood.discrete else Y
    return GP(1.0 * SE(1.0), likelihood, inference=rule).condition(X, y)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which stands still unless a test moves it."""
    time = [0.0]
    monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda: time[0]))
    return time


@pytest.mark.parametrize("method", CASES)
def test_chains_end_at_the_limit_with_the_draws_they_have(method, now):
    def tick(step):
        now[0] = float(step)

    whole = sampled(method)
    part = sampled(method, tick, max_time=50.0)
    assert part.trace.draws == 30  # 50 seconds, 20 of them for warm-up
    np.testing.assert_array_equal(part.trace.log_density, whole.trace.log_density[:, :30])
    assert part.trace.stopped is StopReason.OUT_OF_TIME
    assert not part.status.converged
    assert "stopped early (max_time was reached), after 30 draws of each chain" in part.status.message
    assert "let them run longer" in part.status.message
    assert np.isfinite(part.mean(X)).all()
    assert whole.trace.stopped is None
    now[0] = 0.0
    with time_limit(50.0):  # of somebody who called the sampler
        around = sampled(method, tick, max_time=70.0)
    np.testing.assert_array_equal(around.trace.log_density, part.trace.log_density)


@pytest.mark.parametrize("method", CASES)
def test_without_a_draw_at_the_limit_there_is_an_error(method, now):
    def tick(step):
        now[0] = float(step)

    with pytest.raises(TimeoutError, match="max_time was reached before the warm-up of the chains was over"):
        sampled(method, tick, max_time=20.0)


def test_the_search_for_where_to_begin_is_limited_too(monkeypatch, now):
    calls, evidence = [], GP.evidence_of

    def slow(self, *arguments, **options):
        calls.append(1)
        now[0] += 1.0
        return evidence(self, *arguments, **options)

    monkeypatch.setattr(GP, "evidence_of", slow)
    with pytest.raises(TimeoutError):
        sampled("integrated", max_time=5.0)
    assert len(calls) <= 6


@pytest.mark.parametrize("method", PILOTED)
@pytest.mark.parametrize("by_clock", [True, False])
def test_stopped_late_in_warm_up_the_draws_of_its_first_part_are_kept(method, by_clock, now):
    """Of 100 steps of warm-up 30 adapt and 30 draw, in the first coordinates; 40 adapt in better ones."""

    def stop(step):
        if step == 80 and by_clock:
            now[0] = 1.0
        elif step == 80:
            raise KeyboardInterrupt

    posterior = sampled(method, stop, warmup=100, max_time=1.0)
    assert (posterior.trace.draws, posterior.trace.warmup) == (30, 30)
    why = StopReason.OUT_OF_TIME if by_clock else StopReason.INTERRUPTED
    assert posterior.trace.stopped is why
    assert f"stopped early ({why})" in posterior.status.message
    assert np.isfinite(posterior.mean(X)).all()


def test_chains_that_go_on_until_checks_pass_end_at_the_limit(now):
    def tick(step):
        now[0] = float(step)

    posterior = sampled("integrated", tick, extend_to=4000, max_time=100.0)
    assert posterior.trace.draws == 80
    assert posterior.trace.stopped is StopReason.OUT_OF_TIME


def test_draws_that_suffice_are_believed_and_the_stop_is_told_all_the_same():
    """Independent draws: all checks pass, however the run ended."""
    rng = np.random.default_rng(0)
    trace = Trace(rng.standard_normal((4, 1000, 3)), rng.standard_normal((4, 1000)))
    draws = Draws(GP(1.0 * SE(1.0), Gaussian(0.1)).bind(1), X, Y, trace)
    assert SamplePosterior(draws).status.message == ""
    status = SamplePosterior(replace(draws, trace=replace(trace, stopped=StopReason.INTERRUPTED))).status
    assert status.converged
    assert status.message == (
        "sampling was stopped early (interrupted), after 1000 draws of each chain; the draws made so far are kept"
    )


def _interrupt_at(step: int):
    def stop(now: int) -> None:
        if now == step:
            raise KeyboardInterrupt

    return stop


def test_why_chains_were_stopped_is_stored():
    part = sampled("integrated", _interrupt_at(40))
    again = loads(dumps(part))
    assert again.trace.stopped is part.trace.stopped is StopReason.INTERRUPTED
    assert again.status.message == part.status.message
    trace = codec_of(part.trace)
    with pytest.raises(ValueError, match="'tired' is not a valid StopReason"):
        trace.build(positions=np.zeros((2, 3, 1)), log_density=np.zeros((2, 3)), stopped="tired")


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_a_limit_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match="max_time must be a number of seconds >= 0 or None, got"):
        MCMC(max_time=wrong)


# --- estimators ---------------------------------------------------------------------------------------------


def regressor(at_step=lambda step: None, **options) -> GPRegressor:
    steps = [0]

    def after_step(done: int, total: int) -> None:
        steps[0] += 1
        at_step(steps[0])

    rule = MCMC(n_draws=40, warmup=20, chains=2, progress=after_step)
    return GPRegressor(1.0 * SE(1.0), inference=rule, n_restarts=0, random_state=0, **options)


def test_a_regressor_gives_its_chains_the_time_that_learning_has_left(monkeypatch, now):
    evidence = GP.evidence_of

    def slow(self, *arguments, **options):
        now[0] += 1.0
        return evidence(self, *arguments, **options)

    monkeypatch.setattr(GP, "evidence_of", slow)
    monkeypatch.setattr("cavity.learning.objective.time", SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.warns(ConvergenceWarning, match=r"stopped early \(max_time was reached\), after"):
        model = regressor(max_time=300.0).fit(X, Y)
    assert now[0] <= 300.0 + 100.0  # a trajectory of two chains that was under way
    assert 1 <= model.posterior_.trace.draws < 40
    now[0] = 0.0
    with pytest.raises(TimeoutError, match="give more max_time"):
        regressor(max_time=20.0).fit(X, Y)
    now[0] = 0.0
    monkeypatch.setattr("cavity.learning.run_choice._sampled", lambda *_: pytest.fail("as it should"))
    with pytest.raises(pytest.fail.Exception):
        regressor(max_time=40.0).fit(X, Y)
    assert now[0] == 11.0  # a quarter, and the evaluation that was under way


def test_an_interrupt_of_chains_keeps_the_draws_and_a_fit_says_so():
    with pytest.warns(ConvergenceWarning, match=r"stopped early \(interrupted\), after 10 draws"):
        model = regressor(_interrupt_at(30)).fit(X, Y)
    assert model.posterior_.trace.draws == 10
    with pytest.raises(KeyboardInterrupt):  # no draws, nothing to keep
        regressor(_interrupt_at(10)).fit(X, Y)
