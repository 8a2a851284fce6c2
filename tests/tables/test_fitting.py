"""Learning a model of a table: which noise is kept, and what is said about it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from cavity import GPRegressor
from cavity.inference.base import ConvergenceWarning
from cavity.tables import Table, TableModel, fitting, prepare
from cavity.tables.fitting import Options, fit_table


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
            "the optimizer of the hyperparameters stopped early: no progress; see starts_, and fit again with "
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
