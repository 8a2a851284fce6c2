"""Learning a model of a table: which noise is kept, and what is said about it."""

from __future__ import annotations

import signal
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cavity import GP, GPRegressor, load
from cavity.cli import app
from cavity.cli.words import in_options
from cavity.inference.base import ConvergenceWarning, InferenceFailedError
from cavity.io import dumps, loads
from cavity.learning.objective import Objective
from cavity.runtime.errors import Setting
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason
from cavity.tables import Table, TableModel, prepare, training
from cavity.tables import fit as fitting
from cavity.tables.comparing import Candidate, compare_models
from cavity.tables.description import draws_of
from cavity.tables.fit import fit_table
from cavity.tables.training import Options


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

    monkeypatch.setattr(training, "GPRegressor", Regressor)


def told(model: TableModel) -> list[str]:
    """Warnings in the words of the command line."""
    return [warning.told(in_options) for warning in model.report.warnings]


def choice(model: TableModel) -> str:
    """Why the noise was chosen, in the words of the command line."""
    assert model.report.choice is not None
    return model.report.choice.told(in_options)


def no_fixed_point() -> InferenceFailedError:
    return InferenceFailedError(
        "no fixed point at any start", remedy=("try ", Setting("inference", "laplace"))
    )


def test_gaussian_noise_is_kept_where_the_trial_of_robust_noise_fails(monkeypatch):
    def fail(model):
        if model.likelihood == "student-t":
            raise no_fixed_point()

    regressor(monkeypatch, fail)
    model = fit(far_off())
    assert model.estimator.likelihood == "gaussian"
    assert choice(model) == (
        "Gaussian noise: 1 row is more than 4 sd from what the others predict, but Student-t noise could not be fitted "
        "(no fixed point at any start; try --inference laplace)."
    )


def test_noise_is_decided_once_and_from_all_rows(monkeypatch):
    fits = []
    regressor(monkeypatch, lambda model: fits.append((model.likelihood, model.warm_start)), lambda _: None)
    model = fit(far_off(), test_size=0.2)
    assert fits == [
        ("gaussian", False),
        ("student-t", False),
        ("student-t", True),
    ]  # the last is for the scores
    assert len(model.estimator.rows_.index) == model.report.rows == 25
    assert model.report.held_out_rows == 5
    fits.clear()
    smooth = far_off()
    smooth.loc[5, "y"] -= 30.0
    assert choice(fit(smooth, test_size=0.2)).startswith("Gaussian noise: no row is more than 4 sd")
    assert fits == [("gaussian", False), ("gaussian", True)]


@pytest.mark.parametrize(("ahead", "all_starts"), [(50.0, False), (2.0, True), (-2.0, True)])
def test_other_starts_of_gaussian_noise_are_run_only_if_they_may_matter(monkeypatch, ahead, all_starts):
    fits = []

    def judge(model):
        fits.append((model.likelihood, model.n_restarts))
        model.log_evidence_ = ahead if model.likelihood == "student-t" else 0.0

    regressor(monkeypatch, lambda _: None, judge)
    model = fit(far_off(), n_restarts=2)
    others = [("gaussian", 2)] if all_starts else []
    assert fits == [("gaussian", 0), ("student-t", 2), *others]
    assert model.estimator.likelihood == ("student-t" if ahead > 0 else "gaussian")
    assert (model.estimator.n_restarts, model.estimator.warm_start) == (2, False)
    fits.clear()
    smooth = far_off()
    smooth.loc[5, "y"] -= 30.0
    model = fit(smooth, n_restarts=2)
    assert fits == [("gaussian", 0), ("gaussian", 2)]
    assert (model.estimator.n_restarts, model.estimator.warm_start) == (2, False)


def test_a_rule_that_was_asked_for_decides_the_noise():
    assert choice(fit(far_off(), inference="exact")) == (
        "Gaussian noise, because --inference exact has no other."
    )
    assert choice(fit(far_off(), inference="laplace")) == (
        "Student-t noise, because Gaussian noise needs no --inference laplace."
    )
    assert fit(far_off(), likelihood="gaussian").report.choice is None


@pytest.mark.parametrize("kept", ["gaussian", "student-t"])
def test_warnings_are_those_of_the_noise_that_is_kept(monkeypatch, kept):
    def warn(model):
        warnings.warn(f"about {model.likelihood} noise", ConvergenceWarning, stacklevel=2)

    def judge(model):
        model.log_evidence_ = float(model.likelihood == kept)

    regressor(monkeypatch, warn, judge)
    model = fit(far_off(), test_size=0.2)
    assert model.estimator.likelihood == kept
    assert [text for text in told(model) if text.startswith("about")] == [f"about {kept} noise"]


def test_a_warning_of_the_estimator_is_stored_with_the_remedy_of_the_command_line():
    model = loads(dumps(fit(far_off(), likelihood="gaussian", max_time=0.0)))
    assert any("(--max-time was reached)" in text for text in told(model))
    assert any("(max_time was reached)" in str(warning) for warning in model.report.warnings)


def test_scores_are_of_values_learned_without_the_rows_held_out(monkeypatch):
    """The model of the scores is at an optimum of its own rows, wherever it started."""
    seen = []
    regressor(monkeypatch, lambda _: None, lambda model: seen.append((model.kernel_, len(model.rows_.index))))
    fit(far_off(), likelihood="gaussian", test_size=0.2)
    (_, rows), (kernel, others) = seen
    assert (rows, others) == (25, 20)
    train, _ = fitting._split(far_off()["y"].to_numpy(), 0.2, "regression", np.random.default_rng(0))
    alone = GPRegressor("1.0*SE(1.0)", n_restarts=0, random_state=0)
    alone.fit(far_off()[["x"]].iloc[train], far_off()["y"].iloc[train])
    np.testing.assert_allclose(kernel.theta, alone.kernel_.theta, rtol=1e-3)


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


def test_a_model_that_cannot_be_scored_is_kept(monkeypatch):
    def fail(model):
        if model.warm_start:
            raise no_fixed_point()

    regressor(monkeypatch, fail)
    model = fit(far_off(), test_size=0.2, likelihood="gaussian")
    assert (model.report.rows, model.report.held_out_rows, model.report.scores) == (25, 0, None)
    assert told(model) == [
        "rows held out were not scored, because the model could not be fitted without them (no fixed point at any "
        "start; try --inference laplace)"
    ]
    assert not model.estimator.warm_start


@pytest.mark.usefixtures("interrupts")
def test_after_an_interrupt_nothing_more_is_tried_and_it_is_said(monkeypatch):
    heard: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    press_ctrl_c(monkeypatch, "Gaussian")
    model = fit(far_off(), heard, test_size=0.2)
    assert signal.getsignal(signal.SIGINT) is before
    assert heard == ["Learning from 25 rows of 1 column ..."]
    assert model.report.interruption == (
        "Interrupted: the best values so far were kept; Student-t noise was not tried; rows held out were not scored."
    )
    assert (model.report.rows, model.report.rows_in_file, model.report.held_out_rows) == (25, 25, 0)
    assert [one.row for one in model.report.outliers] == [6]
    assert loads(dumps(model)).report == model.report


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_trial_of_robust_noise_keeps_gaussian_noise(monkeypatch):
    press_ctrl_c(monkeypatch, "StudentT")
    model = fit(far_off(), test_size=0.2)
    assert model.estimator.likelihood == "gaussian"
    assert model.report.undone == ("Student-t noise was not tried", "rows held out were not scored")


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_before_there_is_anything_to_keep_goes_on_to_the_caller(monkeypatch):
    press_ctrl_c(monkeypatch, "Gaussian", evaluation=1)
    with pytest.raises(KeyboardInterrupt):
        fit(far_off(), likelihood="gaussian")


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_fit_for_the_scores_keeps_the_model_without_them(monkeypatch):
    def second(model):
        if model.warm_start:
            press_ctrl_c(monkeypatch, "Gaussian", evaluation=2)

    regressor(monkeypatch, second)
    model = fit(far_off(), likelihood="gaussian", test_size=0.2)
    assert model.report.scores is None
    assert model.report.undone[0] == "rows held out were not scored"
    assert len(model.estimator.rows_.index) == model.report.rows == 25
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
    assert choice(model).startswith("Student-t noise: 1 row is more than 4 sd")
    assert [one.row for one in model.report.outliers] == [row + 1]
    x = frame["x"].to_numpy()
    assert np.max(np.abs(model.estimator.predict(frame[["x"]]) - np.sin(x))) < 0.2
    assert model.report.rows == len(frame)
    # scores are those of Student-t noise, under which the row costs less, though rows without errors taught it
    gaussian = fit(frame, test_size=0.2, likelihood="gaussian").report.scores.nlp
    assert model.report.scores.nlp < gaussian / 10


def clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> list[tuple[str, float]]:
    """Fits that take so many seconds each; the noise of each and the time it was given."""
    now, given = [0.0], []

    def wait(_):
        now[0] += seconds

    monkeypatch.setattr("cavity.runtime.deadlines.time", SimpleNamespace(monotonic=lambda: now[0]))
    regressor(monkeypatch, lambda model: given.append((model.likelihood, model.max_time)), wait)
    return given


def test_two_thirds_of_the_time_are_for_all_rows_and_the_rest_for_the_scores(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(far_off(), test_size=0.2, max_time=150.0)
    assert given == [("gaussian", 100.0), ("student-t", 70.0), (model.estimator.likelihood, 90.0)]
    assert model.report.scores is not None
    assert model.estimator.max_time == 150.0


def test_without_scores_all_of_the_time_is_for_all_rows(monkeypatch):
    given = clock(monkeypatch, 30.0)
    fit(far_off(), max_time=100.0)
    assert given == [("gaussian", 100.0), ("student-t", 70.0)]


def test_robust_noise_is_not_tried_and_nothing_is_scored_without_time(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(far_off(), test_size=0.2, max_time=24.0)
    assert given == [("gaussian", 16.0), ("gaussian", 0.0)]
    assert choice(model).endswith("but no time was left to try Student-t noise; give more --max-time.")
    assert model.report.rows == 25
    assert (model.report.scores, model.report.held_out_rows) == (None, 0)
    assert (
        "rows held out were not scored, because there was no time to learn without them; give more --max-time"
    ) in told(model)


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
    ("place", "part", "missing", "undone"),
    [
        (fitting, "regression_scores", "scores", ("rows held out were not scored",)),
        (fitting, "relevance", "relevance", ("the relevance of inputs was not computed",)),
        (fitting, "outliers", "outliers", ("outliers were not looked for",)),
    ],
)
def test_what_was_learned_is_kept_where_the_rest_is_interrupted(
    monkeypatch, tmp_path, place, part, missing, undone
):
    def press(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(place, part, press)
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
    noise_model = ["--likelihood", "gaussian"]
    result = CliRunner().invoke(app, [*arguments, *noise_model, "--report", str(tmp_path / "a.html")])
    assert result.exit_code == 130, result.output
    model = load(tmp_path / "a.cavity")
    assert getattr(model.report, missing) is None
    assert model.report.undone[: len(undone)] == undone
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
    """Chains of 10 draws after 6 steps, twice: from all 25 rows, then from 20 for the scores."""
    return fit(far_off(), inference="mcmc", draws=10, test_size=0.2, **options)


def press_at(step: int):
    def press(now, _):
        if now == step:
            signal.raise_signal(signal.SIGINT)

    return press


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_chains_for_the_scores_keeps_those_of_all_rows(monkeypatch):
    chains(monkeypatch, press_at(16 + 12))
    model = sampled(likelihood="gaussian")
    assert model.report.undone[0] == "rows held out were not scored"
    assert (model.report.rows, model.report.scores) == (25, None)
    assert model.estimator.posterior_.trace.draws == 10
    assert model.estimator.posterior_.trace.stopped is None


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_first_chains_keeps_the_draws_there_are(monkeypatch):
    chains(monkeypatch, press_at(12))
    model = sampled(likelihood="gaussian")
    assert model.report.rows == 25
    assert model.report.undone == ("rows held out were not scored",)
    assert model.estimator.posterior_.trace.draws in (5, 6)
    assert any("stopped early (interrupted), after" in text for text in told(model))


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_warm_up_keeps_the_noise_that_was_found_without_chains(monkeypatch):
    chains(monkeypatch, press_at(3))
    model = sampled()
    assert model.report.undone == ("nothing was drawn by Markov chains", "rows held out were not scored")
    assert not draws_of(model.estimator)
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
    assert (model.report.rows, model.report.held_out_rows) == (25, 5)
    assert any("(--max-time was reached), after 6 draws" in text for text in told(model))


def test_without_time_for_more_draws_the_finished_ones_are_kept(monkeypatch):
    def tick(step, now):
        now[0] += 1.0 if step <= 16 else 10.0

    chains(monkeypatch, tick)
    model = sampled(likelihood="gaussian", max_time=40.0)
    assert (model.report.rows, model.report.scores) == (25, None)
    assert model.estimator.posterior_.trace.stopped is None
    assert any(
        text.startswith("rows held out were not scored, because there was no time") for text in told(model)
    )


def test_without_time_for_chains_the_noise_found_is_kept_or_there_is_an_error(monkeypatch):
    def tick(step, now):
        now[0] += 10.0

    chains(monkeypatch, tick)
    model = sampled(max_time=20.0)
    assert not draws_of(model.estimator)
    (text,) = [text for text in told(model) if text.startswith("nothing was drawn")]
    assert "give more --max-time" in text
    with pytest.raises(TimeoutError, match="before the warm-up"):
        sampled(likelihood="gaussian", max_time=20.0)
