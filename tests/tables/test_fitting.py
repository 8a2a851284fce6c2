"""Learning a model of a table: which noise is kept, and what is said about it."""

from __future__ import annotations

import signal
import warnings
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cavity import GP, GPRegressor, load
from cavity.cli import app
from cavity.inference.base import ConvergenceWarning
from cavity.io import dumps, loads
from cavity.learning.objective import Objective
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason
from cavity.tables import Table, TableModel, prepare
from cavity.tables import fit as fitting
from cavity.tables.comparing import Candidate, compare_models
from cavity.tables.fit import Options, fit_table


def far_off(n: int = 25) -> pd.DataFrame:
    """A smooth function with one gross error."""
    x = np.linspace(0, 6, n)
    y = np.sin(x) + 0.05 * np.random.default_rng(0).standard_normal(n)
    y[5] += 30.0
    return pd.DataFrame({"x": x, "y": y})


def fit(frame: pd.DataFrame, heard: list[str] | None = None, **options: object) -> TableModel:
    table = Table(frame, np.arange(1, len(frame) + 1), len(frame))
    chosen = Options(**{"kernel": "1.0*SE(1.0)", "test_size": 0.0, "n_restarts": 0, **options})  # type: ignore[arg-type]
    say = (lambda _: None) if heard is None else heard.append
    return fit_table(*prepare(table, "y"), table, chosen, say)


def regressor(monkeypatch: pytest.MonkeyPatch, before, after=lambda _: None) -> None:
    """Let something happen before and after each fit of a regression."""

    class Regressor(GPRegressor):
        def fit(self, X, y, sample_weight=None):
            before(self)
            super().fit(X, y, sample_weight)
            after(self)
            return self

    monkeypatch.setattr(fitting, "GPRegressor", Regressor)


def test_gaussian_noise_is_kept_where_the_trial_of_robust_noise_fails(monkeypatch):
    def fail(model):
        if model.likelihood == "student-t":
            raise np.linalg.LinAlgError("no fixed point at any start; try inference='laplace'")

    regressor(monkeypatch, fail)
    model = fit(far_off())
    assert model.estimator.likelihood == "gaussian"
    assert model.report["choice"] == (
        "Gaussian noise: 1 row is more than 4 sd from what the others predict, but Student-t noise could not be fitted "
        "(no fixed point at any start; try --inference laplace)."
    )


@pytest.mark.parametrize("kept", ["gaussian", "student-t"])
def test_warnings_are_those_of_the_noise_that_is_kept(monkeypatch, kept):
    def warn(model):
        warnings.warn(f"about {model.likelihood} noise", ConvergenceWarning, stacklevel=2)

    def judge(model):
        model.log_evidence_ = float(model.likelihood == kept)

    regressor(monkeypatch, warn, judge)
    model = fit(far_off(), test_size=0.2)
    assert model.estimator.likelihood == kept
    assert [text for text in model.report["warnings"] if text.startswith("about")] == [f"about {kept} noise"]


def test_warnings_have_remedies_of_the_command_line():
    for text, wanted in (
        (
            "the optimizer of the hyperparameters stopped early: no progress; see runs_, and fit again with "
            "warm_start=True or more n_restarts",
            "the optimizer of the hyperparameters stopped early: no progress; fit again with more --restarts",
        ),
        ("whose log evidence does not compare: try inference='variational'", "try --inference variational"),
        ("learning was stopped early (max_time was reached)", "early (--max-time was reached)"),
        (
            "see inference=MCMC(draws=1000, extend_to=4000), which goes on until all checks pass",
            "see --draws 1000",
        ),
    ):
        assert fitting._for_users(text).endswith(wanted)
        assert "_" not in fitting._for_users(text)


def test_a_warning_of_the_estimator_is_stored_with_the_remedy_of_the_command_line():
    model = fit(far_off(), likelihood="gaussian", max_time=0.0)
    assert any("--max-time was reached" in text for text in model.report["warnings"])


# --- time and interrupts ------------------------------------------------------------------------------------


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, likelihood: str, evaluation: int = 3) -> None:
    """A real interrupt in the middle of learning with some noise, which `learn` answers by keeping the best so far."""
    evaluate, count = Objective.__call__, [0]

    def counted(self, theta):
        if type(self.model.likelihood).__name__ == likelihood:
            count[0] += 1
            if count[0] == evaluation:
                signal.raise_signal(signal.SIGINT)
        return evaluate(self, theta)

    monkeypatch.setattr(Objective, "__call__", counted)


def test_what_was_learned_is_kept_where_the_fit_to_all_rows_fails(monkeypatch):
    def fail(model):
        if model.warm_start:
            raise np.linalg.LinAlgError("no fixed point at any start; try inference='laplace'")

    regressor(monkeypatch, fail)
    model = fit(far_off(), test_size=0.2, likelihood="gaussian")
    assert (model.report["rows"], model.report["held_out_rows"]) == (20, 0)
    assert np.isfinite(model.report["scores"]["rmse"])
    assert (
        "rows held out for the scores were not learned from, because the model could not be fitted with them (no fixed "
        "point at any start; try --inference laplace)" in model.report["warnings"]
    )
    assert not model.estimator.warm_start


@pytest.mark.usefixtures("interrupts")
def test_after_an_interrupt_nothing_more_is_tried_and_it_is_said(monkeypatch):
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    press_ctrl_c(monkeypatch, "Gaussian")
    model = fit(far_off(), heard, test_size=0.2)
    assert signal.getsignal(signal.SIGINT) is before
    assert heard == ["Learning from 20 rows of 1 column ..."]
    assert model.report["interrupted"] == (
        "Interrupted: the best values so far were kept; Student-t noise was not tried; rows held out for the scores "
        "were not learned from."
    )
    assert (model.report["rows"], model.report["rows_in_file"], model.report["held_out_rows"]) == (20, 25, 0)
    assert len(model.estimator.rows_.index) == 20
    assert [one["row"] for one in model.report["outliers"]] == [6]
    assert loads(dumps(model)).report == model.report


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_before_there_is_anything_to_keep_goes_on_to_the_caller(monkeypatch):
    press_ctrl_c(monkeypatch, "Gaussian", evaluation=1)
    with pytest.raises(KeyboardInterrupt):
        fit(far_off(), likelihood="gaussian")


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_last_fit_keeps_the_one_before(monkeypatch):
    fits = []

    def second(model):
        fits.append(model.likelihood)
        if len(fits) == 2:
            press_ctrl_c(monkeypatch, "Gaussian", evaluation=1)

    regressor(monkeypatch, second)
    model = fit(far_off(), likelihood="gaussian", test_size=0.2)
    assert fits == ["gaussian", "gaussian"]
    assert "were not learned from" in model.report["interrupted"]
    assert len(model.estimator.rows_.index) == model.report["rows"] == 20
    assert not model.estimator.warm_start


@pytest.mark.usefixtures("interrupts")
def test_the_command_saves_what_there_is_and_ends_with_the_code_of_an_interrupt(monkeypatch, tmp_path):
    far_off().to_csv(tmp_path / "a.csv", index=False)
    press_ctrl_c(monkeypatch, "Gaussian")
    arguments = [
        "fit",
        str(tmp_path / "a.csv"),
        "--target",
        "y",
        "--kernel",
        "1.0*SE(1.0)",
        "--restarts",
        "0",
    ]
    result = CliRunner().invoke(
        app, [*arguments, "--report", str(tmp_path / "a.html")], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 130, result.output
    assert "Student-t noise was not tried" in result.stdout
    assert "Student-t noise was not tried" in (tmp_path / "a.html").read_text()
    assert CliRunner().invoke(app, ["info", str(tmp_path / "a.cavity")]).exit_code == 0


def gross_error_held_out(n: int = 40) -> tuple[pd.DataFrame, int]:
    """A smooth function with one gross error, in a row that `test_size=0.2` and `seed=0` hold out."""
    frame = far_off(n)
    frame.loc[5, "y"] -= 30.0
    _, test = fitting._split(frame["y"].to_numpy(), 0.2, "regression", np.random.default_rng(0))
    frame.loc[test[2], "y"] += 30.0
    return frame, int(test[2])


def test_a_gross_error_among_rows_held_out_is_found_too():
    frame, row = gross_error_held_out()
    model = fit(frame, test_size=0.2)
    assert model.report["choice"].startswith("Student-t noise: 1 row is more than 4 sd")
    assert [one["row"] for one in model.report["outliers"]] == [row + 1]
    x = frame["x"].to_numpy()
    assert np.max(np.abs(model.estimator.predict(frame[["x"]]) - np.sin(x))) < 0.2
    assert model.report["rows"] == len(frame)
    # scores are those of Student-t noise, under which the row costs less, though rows without errors taught it
    gaussian = fit(frame, test_size=0.2, likelihood="gaussian").report["scores"]["nlp"]
    assert model.report["scores"]["nlp"] < gaussian / 10


@pytest.mark.usefixtures("interrupts")
def test_after_an_interrupt_of_the_second_look_nothing_is_scored_under_noise_that_was_not_chosen(monkeypatch):
    def press(model):
        if model.likelihood == "student-t":
            with suppress(KeyboardInterrupt):  # as estimators do: what they have is kept
                signal.raise_signal(signal.SIGINT)

    regressor(monkeypatch, lambda _: None, press)
    model = fit(gross_error_held_out()[0], test_size=0.2)
    assert model.estimator.likelihood == "student-t"
    assert "scores" not in model.report
    assert model.report["held_out_rows"] == 0
    assert model.report["interrupted"].endswith("rows held out were not scored.")


@pytest.mark.usefixtures("interrupts")
def test_scores_of_the_second_look_are_of_models_that_learned_to_the_end(monkeypatch):
    fits = []

    def press(model):
        fits.append(model.likelihood)
        if fits.count("student-t") == 2:  # the first is the second look, the second is for the scores
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    regressor(monkeypatch, lambda _: None, press)
    model = fit(gross_error_held_out()[0], test_size=0.2)
    assert fits == ["gaussian", "gaussian", "student-t", "student-t"]
    assert "scores" not in model.report
    assert model.report["interrupted"].endswith("rows held out were not scored.")


def test_without_time_the_second_look_is_not_scored(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(gross_error_held_out()[0], test_size=0.2, max_time=100.0)
    assert [noise for noise, _ in given] == ["gaussian", "gaussian", "student-t", "student-t"]
    assert "scores" not in model.report
    assert model.report["held_out_rows"] == 0
    assert (
        "rows held out were not scored, because there was no time to learn without them; give more --max-time"
        in model.report["warnings"]
    )


def test_a_model_that_cannot_be_scored_is_kept(monkeypatch):
    fits = []

    def fail(model):
        fits.append(model.likelihood)
        if fits.count("student-t") == 2:
            raise np.linalg.LinAlgError("no fixed point at any start; try inference='laplace'")

    regressor(monkeypatch, fail)
    model = fit(gross_error_held_out()[0], test_size=0.2)
    assert model.estimator.likelihood == "student-t"
    assert "scores" not in model.report
    assert (
        "rows held out were not scored, because the model could not be fitted without them (no fixed point at any "
        "start; try --inference laplace)" in model.report["warnings"]
    )


def clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[tuple[str, float]]:
    """Fits that take so many seconds each; the noise of each and the time it was given."""
    now, given = [0.0], []

    def wait(_):
        now[0] += seconds

    monkeypatch.setattr("cavity.runtime.deadlines.time", SimpleNamespace(monotonic=lambda: now[0]))
    regressor(monkeypatch, lambda model: given.append((model.likelihood, model.max_time)), wait)
    return given


def test_every_fit_has_the_time_that_is_left_of_the_whole(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(far_off(), test_size=0.2, max_time=100.0)
    assert given == [("gaussian", 100.0), ("student-t", 70.0), (model.estimator.likelihood, 40.0)]
    assert model.estimator.max_time == 100.0


def test_robust_noise_is_not_tried_without_time(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(far_off(), test_size=0.2, max_time=20.0)
    assert given == [("gaussian", 20.0), ("gaussian", 0.0)]
    assert model.report["choice"].endswith(
        "but no time was left to try Student-t noise; give more --max-time."
    )
    assert model.report["rows"] == 25


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_comparison_ends_and_keeps_what_is_done(monkeypatch):
    frame, heard = far_off(), []
    tried = [
        Candidate(noise, rule, "1.0*SE(1.0)") for noise, rule in (("gaussian", "exact"), ("laplace", "ep"))
    ]
    press_ctrl_c(monkeypatch, "Laplace")
    prepared = prepare(Table(frame, np.arange(1, len(frame) + 1), len(frame)), "y")
    found = compare_models(*prepared, [*tried, tried[0]], folds=2, restarts=0, say=heard.append)
    assert found.interrupted
    assert [entry.candidate for entry in found.entries] == tried[:1]
    assert len(heard) == 2


@pytest.mark.usefixtures("interrupts")
def test_an_interrupted_comparison_does_not_even_keep_the_best_of_its_candidate(monkeypatch):
    """What learning would keep on Ctrl-C is not needed any more: nothing is asked of the model after it."""
    frame, asked = far_off(), []
    tried = [Candidate("gaussian", "exact", "1.0*SE(1.0)"), Candidate("laplace", "ep", "1.0*SE(1.0)")]
    press_ctrl_c(monkeypatch, "Laplace")
    condition = GP.condition

    def noted(self, *arguments, **options):
        asked.append(type(self.likelihood).__name__)
        return condition(self, *arguments, **options)

    monkeypatch.setattr(GP, "condition", noted)
    prepared = prepare(Table(frame, np.arange(1, len(frame) + 1), len(frame)), "y")
    assert compare_models(*prepared, tried, folds=2, restarts=0).interrupted
    assert set(asked) == {"Gaussian"}


# --- Ctrl-C after learning ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize(
    ("part", "missing", "told"),
    [
        (
            "regression_scores",
            "scores",
            "the scores were not computed; rows held out for the scores were not",
        ),
        ("relevance", "relevance", "the relevance of inputs was not computed."),
        ("outliers", "outliers", "outliers were not looked for."),
        ("far_rows", "choice", "Student-t noise was not tried; rows held out"),
    ],
)
def test_what_was_learned_is_kept_where_the_rest_is_interrupted(monkeypatch, tmp_path, part, missing, told):
    def press(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(fitting, part, press)
    far_off().to_csv(tmp_path / "a.csv", index=False)
    arguments = [
        "fit",
        str(tmp_path / "a.csv"),
        "--target",
        "y",
        "--kernel",
        "1.0*SE(1.0)",
        "--restarts",
        "0",
    ]
    noise = [] if part == "far_rows" else ["--likelihood", "gaussian"]
    result = CliRunner().invoke(app, [*arguments, *noise, "--report", str(tmp_path / "a.html")])
    assert result.exit_code == 130, result.output
    model = load(tmp_path / "a.cavity")
    assert missing not in model.report
    assert told in model.report["interrupted"]
    assert (tmp_path / "a.html").exists()
    assert np.isfinite(model.estimator.predict(far_off()[["x"]])).all()


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_after_the_model_was_written_does_not_deny_that(monkeypatch, tmp_path):
    def press(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("cavity.report.model_page", press)
    far_off().to_csv(tmp_path / "a.csv", index=False)
    arguments = [
        "fit",
        str(tmp_path / "a.csv"),
        "--target",
        "y",
        "--likelihood",
        "gaussian",
        "--restarts",
        "0",
    ]
    result = CliRunner().invoke(app, [*arguments, "--report", str(tmp_path / "a.html")])
    assert result.exit_code == 130
    assert "a.cavity" in result.stdout
    assert "nothing was written" not in result.stderr
    assert "Interrupted; nothing more was written." in result.stderr


# --- chains -------------------------------------------------------------------------------------------------


def chains(monkeypatch: pytest.MonkeyPatch, at_step) -> list[float]:
    """The time, for fits with short chains; `at_step(number of step of all, time)` comes after each step."""
    now, steps = [0.0], [0]
    advance = Progress.advance

    def counted(self, note="", steps_=1):
        if self.label in ("sampling", "Gibbs sampling"):
            steps[0] += 1
            at_step(steps[0], now)
        advance(self, note)

    monkeypatch.setattr(Progress, "advance", counted)
    monkeypatch.setattr("cavity.runtime.deadlines.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def sampled(**options: object) -> TableModel:
    """Chains of 10 draws after 6 steps, twice: from 20 rows, then from all 25."""
    return fit(far_off(), inference="mcmc", draws=10, test_size=0.2, **options)


def press_at(step: int):
    def press(now, _):
        if now == step:
            signal.raise_signal(signal.SIGINT)

    return press


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_chains_of_all_rows_keeps_the_finished_ones(monkeypatch):
    chains(monkeypatch, press_at(16 + 12))
    model = sampled(likelihood="gaussian")
    assert "rows held out for the scores were not learned from" in model.report["interrupted"]
    assert model.report["rows"] == 20
    assert model.estimator.posterior_.trace.draws == 10
    assert model.estimator.posterior_.trace.stopped is None


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_first_chains_keeps_the_draws_there_are(monkeypatch):
    chains(monkeypatch, press_at(12))
    model = sampled(likelihood="gaussian")
    assert model.report["rows"] == 20
    assert model.estimator.posterior_.trace.draws in (5, 6)
    assert any("stopped early (interrupted), after" in text for text in model.report["warnings"])


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_warm_up_keeps_the_noise_that_was_found_without_chains(monkeypatch):
    chains(monkeypatch, press_at(3))
    model = sampled()
    assert "nothing was drawn by Markov chains" in model.report["interrupted"]
    assert "log evidence of Student-t noise" in model.report["choice"]
    assert not fitting.draws_of(model.estimator)
    chains(monkeypatch, press_at(3))
    with pytest.raises(KeyboardInterrupt):
        sampled(likelihood="gaussian")


def test_both_chains_have_an_equal_part_of_the_time(monkeypatch):
    def tick(step, now):
        now[0] += 1.0

    chains(monkeypatch, tick)
    model = sampled(likelihood="gaussian", max_time=24.0)  # 12 seconds each: 6 of warm-up, 6 draws
    trace = model.estimator.posterior_.trace
    assert (trace.draws, trace.stopped) == (6, StopReason.OUT_OF_TIME)
    assert model.report["rows"] == 25
    assert any("(--max-time was reached), after 6 draws" in text for text in model.report["warnings"])


def test_without_time_for_more_draws_the_finished_ones_are_kept(monkeypatch):
    def tick(step, now):
        now[0] += 1.0 if step <= 16 else 10.0

    chains(monkeypatch, tick)
    model = sampled(likelihood="gaussian", max_time=40.0)
    assert model.report["rows"] == 20
    assert model.estimator.posterior_.trace.stopped is None
    assert any(text.startswith("rows held out for the scores were not") for text in model.report["warnings"])


def test_without_time_for_chains_the_noise_found_is_kept_or_there_is_an_error(monkeypatch):
    def tick(step, now):
        now[0] += 10.0

    chains(monkeypatch, tick)
    model = sampled(max_time=20.0)
    assert not fitting.draws_of(model.estimator)
    (text,) = [text for text in model.report["warnings"] if text.startswith("nothing was drawn")]
    assert "give more --max-time" in text
    with pytest.raises(TimeoutError, match="before the warm-up"):
        sampled(likelihood="gaussian", max_time=20.0)
