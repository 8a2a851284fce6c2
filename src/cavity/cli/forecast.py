"""`cavity forecast`: values to come, from a model file; and the part of `cavity fit` that is about time series."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cavity.cli.shared import Debug, check_output, command_line, load_model, one_sentence, say

if TYPE_CHECKING:
    from cavity.forecasting import GPForecaster

ORIGINS = 6
"""Forecasts of the past in a report; each is a fit."""


def forecast(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Model file of cavity fit --time.", show_default=False)],
    horizon: Annotated[
        str | None, typer.Option(help="Steps ahead, or a last date \\[default: a quarter of the series].")
    ] = None,
    interval: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.95,
    components: Annotated[
        bool, typer.Option("--components", help="Write trend, slope and seasons instead, past and to come.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table to write, .csv or .tsv (also .gz) \\[default: screen]."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Forecast a time series: median and interval of the values to come.

    Example: cavity fit co2.csv --time month --target ppm --out co2.cavity

    Example: cavity forecast co2.cavity --horizon 24 -o forecast.csv
    """
    with one_sentence(debug, coverage="--interval"):
        from cavity.cli.predict import _opened, _separator
        from cavity.plots.forecast import default_horizon

        separator = _separator(out)
        check_output(out, "--out", (model,))
        check_output(report, "--report", (model, out))
        fitted = load_forecaster(model)
        ahead = default_horizon(fitted) if horizon is None else _steps_or_date(fitted, horizon)
        found = fitted.components(ahead, interval) if components else fitted.forecast(ahead, interval)
        if components:
            found.columns = [" ".join(map(str, column)) for column in found.columns]
        with _opened(out) as file:
            digits = "%.6g" if out is None else None  # a screen is for people
            found.to_csv(file, sep=separator, index_label="time", float_format=digits)
        if out is not None:
            say(f"Forecast of {len(found)} times: {out}")
        if report is not None:
            write_report(fitted, report, command_line(context), ahead)


def load_forecaster(path: Path) -> GPForecaster:
    """The forecaster in a file."""
    from cavity.forecasting import GPForecaster

    model = load_model(path)
    if not isinstance(model, GPForecaster):
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which is no model of a time series; make one with cavity fit DATA "
            "--time COLUMN --target COLUMN"
        )
    return model


def _steps_or_date(model: GPForecaster, horizon: str) -> int | str | float:
    """A number of steps; else a date, or for series over numbers the last time."""
    try:
        return int(horizon)
    except ValueError:
        pass
    if model.axis_.dated:
        return horizon
    try:
        return float(horizon)
    except ValueError:
        raise ValueError(f"--horizon must be a number of steps or a last time, got {horizon!r}") from None


def fit_series(
    data: Path,
    time: str,
    target: str,
    seasons: Sequence[str] | None,
    likelihood: str,
    file: Path,
    report: Path | None,
    command: str,
) -> None:
    """Learn a time series from a table and store the model; say what was found."""
    from cavity.forecasting import GPForecaster
    from cavity.tables import read_table
    from cavity.tables.series import read_series

    table = read_table(data)
    series = read_series(table, time, target)
    for note in (*table.notes, *series.attrs.get("notes", ())):
        say(note)
    asked = "auto" if not seasons else [] if "none" in seasons else [_season(one) for one in seasons]
    model = GPForecaster(asked, likelihood=likelihood).fit(series)
    model.save(file)
    n, missing = len(model.y_), int(series.isna().sum())
    gone = f" ({missing} missing)" if missing else ""
    say(f"Learned from {n} values{gone}, {_stamp(model.y_.index[0])} to {_stamp(model.y_.index[-1])}.")
    found = ", ".join(f"{name} ({period:.4g} steps)" for name, period in model.seasons_.items())
    say(f"Seasons: {found or 'none'}.")
    say("Models: " + ", ".join(f"{m.trend}/{m.scale.link} {m.weight:.0%}" for m in model.members_) + ".")
    wrong = model.anomalies(0.5)
    if len(wrong):
        first = ", ".join(map(_stamp, wrong.index[:5]))
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        say(f"Probable gross errors: {first}{more}.", style="yellow")
    say(f"Model: {file}")
    if report is not None:
        write_report(model, report, command)


def _stamp(time: object) -> str:
    """A date without the hour of midnight."""
    return str(time).removesuffix(" 00:00:00")


def _season(text: str) -> str | float:
    """A season as it is typed: a name or a number."""
    try:
        return float(text)
    except ValueError:
        return text


def write_report(
    model: GPForecaster, path: Path, command: str, horizon: int | str | float | None = None
) -> None:
    """The page of a forecaster, with forecasts of the past."""
    from cavity.report.forecast import forecast_page

    page = forecast_page(model, horizon, model.backtest(ORIGINS), command)
    say(f"Report: {page.write(path)}")
