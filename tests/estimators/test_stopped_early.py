"""Fits that are stopped, by Ctrl-C or by the clock, at every stage: nothing goes on as if nothing had happened."""

from __future__ import annotations

import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from cavity import GPClassifier, GPRegressor
from cavity.estimators import classifier
from cavity.gp import GP
from cavity.inference.base import ConvergenceWarning
from cavity.kernels import SE, Matern
from cavity.learning import objective, robust_search
from cavity.runtime import deadlines
from cavity.sampling.mcmc import MCMC
from cavity.sampling.posterior import SamplePosterior

X = np.linspace(0.0, 6.0, 20)[:, None]
Y = np.sin(X[:, 0]) + 0.1 * np.cos(17.0 * X[:, 0])
Y[6] += 5.0
CODES = np.digitize(X[:, 0], [2.0, 4.0])


class Work:
    """Notes what models are asked for, and presses Ctrl-C at one of the questions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        self.at = -1
        self.last_stage = -1
        for name in ("evidence_of", "leave_one_out", "condition"):
            monkeypatch.setattr(GP, name, self._noted(name, getattr(GP, name)))
        multistart = robust_search.multistart

        def noted(*arguments, **options):
            self.last_stage = len(self.calls)
            return multistart(*arguments, **options)

        monkeypatch.setattr(robust_search, "multistart", noted)

    def _noted(self, name, method):
        def asked(model, *arguments, **options):
            self.calls.append((name, type(model.likelihood).__name__))
            if len(self.calls) == self.at:
                signal.raise_signal(signal.SIGINT)
            return method(model, *arguments, **options)

        return asked

    def fit(self, model, y=Y, at: int = -1) -> list[str] | None:
        """Warnings of a fit with Ctrl-C at the question of this number, or None if it ended in a KeyboardInterrupt."""
        self.calls, self.at = [], at
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(X, y)
            except KeyboardInterrupt:
                return None
        return [str(one.message) for one in caught]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch, interrupts) -> Work:
    return Work(monkeypatch)


def ends_of_stages(calls: list[tuple[str, str]]) -> list[int]:
    """Numbers of the first and the last question of each kind in a row, from 1."""
    changes = [i for i in range(1, len(calls)) if calls[i] != calls[i - 1]]
    return sorted({1, len(calls), *changes, *(i + 1 for i in changes)})


def test_ctrl_c_at_any_stage_of_a_robust_fit_ends_it_and_keeps_what_there_is(work):
    def model():
        return GPRegressor("1.0*SE(1.0)", likelihood="student-t", n_restarts=0, random_state=0)

    assert not any("interrupted" in text for text in work.fit(model()))
    final = work.last_stage + 1  # the first evaluation of the robust model that is not a trial
    kinds = dict.fromkeys(work.calls)
    assert {"Gaussian", "Laplace", "StudentT"} <= {likelihood for _, likelihood in kinds}
    total = len(work.calls)
    assert work.calls[-1] == ("condition", "StudentT")
    for at in sorted({*ends_of_stages(work.calls), final, final + 1, final + 2, total - 1}):
        stopped = model()
        told = work.fit(stopped, at=at)
        after = work.calls[at:]
        if at <= final:
            assert told is None, at
            assert not after
            assert not hasattr(stopped, "model_")
        else:
            last = "the check of EP's log evidence was interrupted"
            cut = last if at == total else "learning was stopped early (interrupted); the best"
            assert [t for t in told if cut in t], at
            assert after in ([], [("condition", "StudentT")])
            assert np.isfinite(stopped.predict(X)).all()


def test_ctrl_c_while_the_posterior_is_found_does_not_cost_what_was_learned(work):
    work.fit(GPRegressor("1.0*SE(1.0)", n_restarts=0))
    model = GPRegressor("1.0*SE(1.0)", n_restarts=0)
    told = work.fit(model, at=len(work.calls))
    assert work.calls[-1] == ("condition", "Gaussian")
    assert len(told) == 1
    assert "(interrupted)" in told[0]
    assert model.runs_[0].converged


def test_chains_do_not_start_after_learning_was_interrupted(work):
    rule = MCMC(n_draws=5, warmup=5, chains=2, progress=lambda *_: pytest.fail("chains ran"))
    assert work.fit(GPRegressor("1.0*SE(1.0)", inference=rule, n_restarts=0), at=4) is None
    assert len(work.calls) == 4
    model = GPClassifier("1.0*SE(1.0)", inference=rule, n_restarts=0)
    assert work.fit(model, (CODES > 0).astype(int), at=4) is None
    assert len(work.calls) == 4


def test_an_interrupt_of_one_of_several_chains_ends_the_fit():
    """Without draws of the other models there is nothing to predict with."""
    steps = []

    def press(done, total):
        steps.append(done)
        if len(steps) == 8:
            raise KeyboardInterrupt

    rule = MCMC(n_draws=5, warmup=5, chains=2, progress=press)
    model = GPClassifier("1.0*SE(1.0)", inference=rule, multi_class="one_vs_one", n_restarts=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, CODES)
    assert len(steps) == 8


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_between_the_chains_of_several_models_ends_the_fit(monkeypatch):
    """It waits until the draws of one model are kept, and is not forgotten then."""
    made = []

    def pressed(*arguments):
        made.append(arguments)
        signal.raise_signal(signal.SIGINT)
        return SamplePosterior(*arguments)

    monkeypatch.setattr("cavity.sampling.mcmc.SamplePosterior", pressed)
    rule = MCMC(n_draws=5, warmup=5, chains=2, warn=False)
    model = GPClassifier("1.0*SE(1.0)", inference=rule, multi_class="one_vs_one", n_restarts=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, CODES)
    assert len(made) == 1


@pytest.mark.parametrize("kind", [GPRegressor, GPClassifier])
def test_a_fit_that_did_not_come_to_an_end_is_no_warm_start(work, kind):
    y = Y if kind is GPRegressor else (CODES > 0).astype(int)
    model = kind(1.0 * SE(1.0), n_restarts=0, warm_start=True)
    assert work.fit(model, y, at=1) is None
    assert work.fit(model, y) is not None  # there is nothing to go on from
    assert work.fit(model.set_params(kernel=1.0 * Matern(1.0, nu=2.5)), y, at=1) is None
    work.fit(model, y)
    assert "Matern" in repr(model.kernel_)


# --- time ---------------------------------------------------------------------------------------------------


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, on a clock on which every evaluation of an evidence takes a second and nothing else does."""
    now, evidence = [0.0], GP.evidence_of
    clock = SimpleNamespace(monotonic=lambda: now[0])

    def slow(self, *arguments, **options):
        now[0] += 1.0
        return evidence(self, *arguments, **options)

    monkeypatch.setattr(GP, "evidence_of", slow)
    monkeypatch.setattr(deadlines, "time", clock)
    monkeypatch.setattr(objective, "time", clock)
    return now


@pytest.mark.parametrize("max_time", [0.0, 20.0, 60.0])
def test_all_stages_of_a_robust_fit_have_one_limit(seconds, max_time):
    model = GPRegressor(likelihood="student-t", n_restarts=2, max_time=max_time, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model.fit(X, Y)
    assert max_time < seconds[0] <= max_time + 4  # each of four stages makes one evaluation at least
    if max_time:
        assert model.runs_[0].kind in ("gaussian", "laplace", "quiet")  # what the first stages were for
        assert model.runs_[0].evaluations > 0


@pytest.mark.parametrize("multi_class", ["softmax", "one_vs_rest", "one_vs_one"])
def test_all_models_of_a_classifier_have_one_limit(seconds, multi_class):
    model = GPClassifier(multi_class=multi_class, n_restarts=2, max_time=12.0, random_state=0)
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model.fit(X, CODES)
    assert 12.0 < seconds[0] <= 12.0 + 3


def test_time_that_one_model_leaves_goes_to_the_others(seconds, monkeypatch):
    given, fit = [], classifier.fit_member

    def noted(*arguments, max_time):
        given.append(max_time)
        member = fit(*arguments, max_time=0.0)
        seconds[0] = [3.0, 14.0, 20.0][len(given) - 1]
        return member

    monkeypatch.setattr(classifier, "fit_member", noted)
    with pytest.warns(ConvergenceWarning):
        GPClassifier(multi_class="one_vs_one", n_restarts=0, max_time=30.0).fit(X, CODES)
    assert given == [10.0, 13.5, 16.0]
