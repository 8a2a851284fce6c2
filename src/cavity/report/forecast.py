"""The report of a forecaster: fan chart, components, probable gross errors, and how forecasts of the past did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plots.forecast import (
    LIKELY,
    default_horizon,
    few_dates,
    mark_errors,
    places,
    plot_forecast,
    plot_series_components,
)
from cavity.report.content import versions
from cavity.report.drawings import BLUE, GREY, ORANGE, as_svg, figure_svg
from cavity.report.page import Block, DataTable, Facts, Page, Picture, Text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.forecasting import GPForecaster

SHOWN = 0.5
"""Probability from which a value is listed."""

MOST_ROWS = 200


def forecast_page(
    model: GPForecaster, horizon: Any = None, backtest: pd.DataFrame | None = None, command: str = ""
) -> Page:
    """Everything about a forecaster.

    Parameters
    ----------
    model : GPForecaster
    horizon : see `GPForecaster.forecast`, optional
    backtest : DataFrame, optional
        Of `GPForecaster.backtest`, at a coverage of 95 %.
    command : str
        How to repeat it.
    """
    ahead = default_horizon(model) if horizon is None else horizon
    name = "a series" if model.y_.name is None else str(model.y_.name)
    index = model.y_.index
    page = Page(f"Forecast of {name}", f"{len(index)} values from {stamp(index[0])} to {stamp(index[-1])}")
    page.add("Forecast", *_forecast(model, ahead))
    page.add("Components", *_components(model, ahead))
    page.add("Gross errors", *_anomalies(model))
    if backtest is not None:
        page.add("Forecasts of the past", *_backtest(model, backtest))
    page.add("The model", *_model(model))
    page.add("How to repeat it", *versions(command))
    return page


def stamp(time: Any) -> str:
    """A time as people write it: a date without midnight."""
    if isinstance(time, float):
        return f"{time:g}"
    return str(time).removesuffix(" 00:00:00")


def _forecast(model: GPForecaster, ahead: Any) -> list[Block]:
    frame = model.forecast(ahead)
    rows = [[stamp(t), *map(float, row)] for t, row in zip(frame.index, frame.to_numpy())]
    last = max(60, 4 * len(frame))
    picture = as_svg(
        lambda axis: plot_forecast(model, ahead, last=last, data_color=GREY, ax=axis), "fan", height=3.6
    )
    return [
        Picture(
            picture,
            "The last values, the median forecast, and intervals that hold 50, 80 and 95 % of values to come.",
        ),
        DataTable(
            ["time", "median", "lower 95 %", "upper 95 %"], rows[:MOST_ROWS], filterable=len(rows) > 12
        ),
    ]


def _components(model: GPForecaster, ahead: Any) -> list[Block]:
    def make() -> Any:
        from matplotlib.figure import Figure

        count = len(dict.fromkeys(model.components().columns.get_level_values(0)))
        figure = Figure(figsize=(7.4, 1.9 * count), layout="constrained")
        plot_series_components(
            model, ahead, ax=list(figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0])
        )
        return figure

    multiply = "Parts multiply: seasons are factors, and the slope is a relative change over one step."
    add = "Parts add up: seasons are deviations from the trend, and the slope is the change over one step."
    return [
        Picture(
            figure_svg(make, "parts"),
            "Each part with its 95 % interval; the dotted line is the end of the data.",
        ),
        Text(add if model._main_link() == "identity" else multiply),
    ]


def _anomalies(model: GPForecaster) -> list[Block]:
    found = model.anomalies(SHOWN)
    if found.empty:
        return [Text(f"No value is a gross error with a probability of {SHOWN:.0%} or more.", "good")]
    rows = [[stamp(t), *map(float, row)] for t, row in zip(found.index, found.to_numpy())]
    few = f", of which the first {MOST_ROWS} are listed" if len(rows) > MOST_ROWS else ""
    text = f"{len(rows)} of {len(model.y_)} values are probable gross errors, given all others{few}."
    table = DataTable(
        ["time", "value", "expected", "probability"], rows[:MOST_ROWS], filterable=len(rows) > 12
    )
    return [Text(text, "warning"), table]


def _backtest(model: GPForecaster, table: pd.DataFrame) -> list[Block]:
    error = table["actual"] - table["median"]
    facts: list[tuple[str, Any]] = [
        ("origins", int(table["origin"].nunique())),
        ("values forecast", len(table)),
        ("inside the 95 % interval", f"{table['inside'].mean():.1%}"),
        ("median absolute error", float(error.abs().median())),
        ("root mean squared error", float(np.sqrt((error**2).mean()))),
    ]

    def draw(axis: Any) -> None:
        values, wrong = model.y_.to_numpy(), model.anomalies()["probability"].to_numpy() > LIKELY
        when, errors = places(model, model.y_.index), set(model.y_.index[wrong])
        axis.plot(when[~wrong], values[~wrong], color=GREY, linewidth=0.8, label="data")
        for i, (_, part) in enumerate(table.groupby("origin", sort=False)):
            times = places(model, part.index)
            shown = "median, 95 %" if i == 0 else None
            axis.fill_between(times, part["lower"], part["upper"], color=BLUE, alpha=0.2, linewidth=0)
            axis.plot(times, part["median"], color=BLUE, linewidth=1.2, label=shown)
            out = ~part["inside"].to_numpy() & ~part.index.isin(errors)
            axis.plot(times[out], part["actual"].to_numpy()[out], "o", color=ORANGE, markersize=3)
        if wrong.any():
            mark_errors(axis, when[wrong], values[wrong])
        few_dates(axis, model)
        axis.legend(frameon=False, fontsize=8)

    rows = []
    for ahead in sorted(set(table["ahead"])):
        part = table["ahead"] == ahead
        inside, missed = table["inside"][part], error[part].abs()
        rows.append([int(ahead), int(part.sum()), float(inside.mean()), float(missed.median())])
    return [
        Facts(facts),
        Picture(
            as_svg(draw, "past"),
            "Forecasts from origins in the past, each learned from what was known then; dots fell outside.",
        ),
        DataTable(
            ["steps ahead", "forecasts", "share inside 95 %", "median absolute error"], rows, filterable=False
        ),
    ]


def _model(model: GPForecaster) -> list[Block]:
    seasons = ", ".join(f"{name} ({period:.4g} steps)" for name, period in model.seasons_.items()) or "none"
    noise = sorted({type(member.posterior.model.likelihood).__name__ for member in model.members_})
    rows = [[m.trend, m.scale.link, m.weight, m.posterior.log_evidence] for m in model.members_]
    return [
        Facts([("seasons", seasons), ("noise", ", ".join(noise)), ("models averaged", len(rows))]),
        DataTable(
            ["trend", "scale", "weight", "log evidence"],
            rows,
            "weights by the density of values held out; evidences on different scales cannot be compared",
        ),
    ]
