"""Learning a model of a table: which noise is kept, and what is said about it."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from cavity import GP, GPRegressor, load
from cavity.cli import app
from cavity.cli.words import in_options
from cavity.estimators import regressor as regressor_module
from cavity.inference.base import InferenceFailedError
from cavity.io import dumps, loads
from cavity.learning.large_data import learn_any_size
from cavity.learning.objective import Objective
from cavity.likelihoods import Gaussian, MixtureOfGaussians, StudentT
from cavity.runtime.errors import Setting
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason
from cavity.tables import Table, TableModel, prepare, training
from cavity.tables import fit as fitting
from cavity.tables.baselines import baselines
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
    return [warning.render(in_options) for warning in model.report.warnings]


def choice(model: TableModel) -> str:
    """Why the noise was chosen, in the words of the command line."""
    assert model.report.choice is not None
    return model.report.choice.chosen.render(in_options)


def no_fixed_point() -> InferenceFailedError:
    return InferenceFailedError(
        "no fixed point at any start", remedy=("try ", Setting("inference", "laplace"))
    )


def robust_trial(monkeypatch: pytest.MonkeyPatch, happen) -> None:
    """Let something happen where Student-t noise is learned."""

    def watched(model, *arguments, **options):
        if isinstance(model.likelihood, StudentT):
            happen()
        return learn_any_size(model, *arguments, **options)

    monkeypatch.setattr(regressor_module, "learn_any_size", watched)


def test_gaussian_noise_is_kept_where_the_trial_of_robust_noise_fails(monkeypatch):
    def fail():
        raise no_fixed_point()

    robust_trial(monkeypatch, fail)
    model = fit(far_off())
    assert isinstance(model.estimator.likelihood_, Gaussian)
    assert (
        "1 row is more than 3.1 sd from what the others predict, but Student-t noise could not be fitted "
        "(no fixed point at any start; try --inference laplace)."
    ) in model.report.choice.render(in_options)


def test_the_kind_of_model_is_decided_once_and_from_all_rows(monkeypatch):
    fits = []
    regressor(
        monkeypatch,
        lambda _: None,
        lambda model: fits.append((type(model.likelihood_), model.warm_start, len(model.rows_.index))),
    )
    model = fit(far_off(), test_size=0.2)
    assert fits == [
        (MixtureOfGaussians, False, 25),
        (MixtureOfGaussians, True, 20),
    ]  # the last is for the scores
    assert model.report.held_out_rows == 5
    fits.clear()
    smooth = far_off()
    smooth.loc[5, "y"] -= 30.0
    told = fit(smooth, test_size=0.2).report.choice.render()
    assert "No row is more than 3.1 sd from what the others predict." in told
    assert fits == [(Gaussian, False, 25), (Gaussian, True, 20)]


def test_a_rule_that_was_asked_for_decides_the_noise():
    exact = fit(far_off(), inference="exact")
    assert isinstance(exact.estimator.likelihood_, Gaussian)
    assert choice(exact).startswith("Gaussian noise")
    assert isinstance(fit(far_off(), inference="laplace").estimator.likelihood_, StudentT)
    assert fit(far_off(), likelihood="gaussian").report.choice is None


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
        "Interrupted: the best values so far were kept; not all kinds of model were tried; rows held out were not "
        "scored."
    )
    assert (model.report.rows, model.report.rows_in_file, model.report.held_out_rows) == (25, 25, 0)
    assert [one.row for one in model.report.outliers] == [6]
    assert loads(dumps(model)).report == model.report


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_of_the_trial_of_robust_noise_keeps_gaussian_noise(monkeypatch):
    press_ctrl_c(monkeypatch, "StudentT")
    model = fit(far_off(), test_size=0.2)
    assert isinstance(model.estimator.likelihood_, Gaussian)
    assert "Student-t noise was not tried: interrupted." in model.report.choice.render()
    assert model.report.undone == ("not all kinds of model were tried", "rows held out were not scored")


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
    assert "not all kinds of model were tried" in result.stdout
    assert "not all kinds of model were tried" in (tmp_path / "a.html").read_text()
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
    assert choice(model).startswith("Regular noise with gross errors")
    assert [one.row for one in model.report.outliers] == [row + 1]
    x = frame["x"].to_numpy()
    assert np.max(np.abs(model.estimator.predict(frame[["x"]]) - np.sin(x))) < 0.2
    assert model.report.rows == len(frame)
    # scores are those of noise with gross errors, under which the row costs less, though rows without errors taught it
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
    assert given == [("auto", 100.0), ("auto", 120.0)]
    assert model.report.scores is not None
    assert model.estimator.max_time == 150.0


def test_without_scores_all_of_the_time_is_for_all_rows(monkeypatch):
    given = clock(monkeypatch, 30.0)
    fit(far_off(), max_time=100.0)
    assert given == [("auto", 100.0)]


def test_nothing_is_scored_without_time(monkeypatch):
    given = clock(monkeypatch, 30.0)
    model = fit(far_off(), test_size=0.2, max_time=24.0)
    assert given == [("auto", 16.0), ("auto", 0.0)]
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


# --- baselines ----------------------------------------------------------------------------------------------


def test_baselines_are_scikit_learns_models_on_the_rows_held_out():
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(0, 6, 120), "b": rng.normal(size=120)})
    y = np.sin(X["a"].to_numpy()) + 0.1 * rng.normal(size=120)
    train, test = np.arange(100), np.arange(100, 120)
    found = {b.name: b for b in baselines("regression", X, y, train, test)}
    assert list(found) == ["guessing", "linear regression", "gradient boosting"]
    assert found["guessing"].error == pytest.approx(np.sqrt(np.mean((y[test] - y[train].mean()) ** 2)))
    boosting = HistGradientBoostingRegressor(random_state=0).fit(X.to_numpy()[train], y[train])
    error = boosting.predict(X.to_numpy()[test]) - y[test]
    assert found["gradient boosting"].error == pytest.approx(np.sqrt(np.mean(error**2)))
    assert found["gradient boosting"].nlp is None
    variance = np.var(y[train])
    density = -0.5 * np.log(2 * np.pi * variance) - 0.5 * (y[test] - y[train].mean()) ** 2 / variance
    assert found["guessing"].nlp == pytest.approx(-np.mean(density))


def test_baselines_of_classes_have_log_losses():
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"a": rng.normal(size=90)})
    y = np.where(X["a"] + 0.3 * rng.normal(size=90) > 0, "yes", "no")
    train, test = np.arange(70), np.arange(70, 90)
    found = {b.name: b for b in baselines("classification", X, y, train, test)}
    assert list(found) == ["guessing", "logistic regression", "gradient boosting"]
    share = np.mean(y[train] == "yes")
    expected = -np.mean(np.where(y[test] == "yes", np.log(share), np.log(1 - share)))
    assert found["guessing"].nlp == pytest.approx(expected)
    assert found["logistic regression"].nlp < found["guessing"].nlp


def test_choice_and_baselines_are_in_the_file(tmp_path):
    model = fit(far_off(), test_size=0.2)
    model.save(tmp_path / "model.cavity")
    again = load(tmp_path / "model.cavity")
    assert again.report.choice == model.report.choice
    assert again.report.baselines == model.report.baselines
    assert len(model.report.baselines) == 3
    assert "--likelihood" in model.report.choice.render(in_options)


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "student-t", "mixture", "laplace", "positive", "heteroscedastic"]
)
def test_hyperparameters_of_noise_have_words(likelihood):
    from cavity.tables.description import hyperparameters

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 5, 15)
    frame = pd.DataFrame({"x": x, "y": np.exp(np.sin(x)) + 0.01 * rng.standard_normal(15)})
    found = fit(frame, test_size=0.0, likelihood=likelihood, kernel="1.0*SE(1.0)", n_restarts=0)
    assert all("." not in one.in_words for one in hyperparameters(found))


def test_the_function_and_the_noise_level_are_told_apart():
    from cavity.tables.description import hyperparameters

    rng = np.random.default_rng(1)
    x = rng.uniform(0, 5, 40)
    frame = pd.DataFrame({"x": x, "y": np.sin(x) + 0.05 * np.exp(0.5 * x) * rng.standard_normal(40)})
    found = fit(frame, kernel=None, likelihood="heteroscedastic")
    told = {one.in_words: one.meaning for one in hyperparameters(found)}
    assert "in units of y" in told["variance of the function"]
    assert told["variance of the noise level"].endswith(" in logarithms of the noise variance")
    assert "in units of y" in told["noise variance"]
    assert {"length scale of x", "length scale of x, of the noise level"} <= set(told)


def test_where_inducing_inputs_lie_is_not_listed():
    from cavity.tables.description import hyperparameters

    x = np.random.default_rng(2).uniform(0, 5, 60)
    options = {"representation": "inducing", "n_inducing": 8, "test_size": 0.0, "n_restarts": 0}
    found = fit(
        pd.DataFrame({"x": x, "y": np.sin(x)}), likelihood="gaussian", kernel="1.0*SE(1.0)", **options
    )
    assert found.estimator.members_[0].model.representation.m == 8
    assert not any(one.name.startswith("inducing") for one in hyperparameters(found))
