"""A time series with its forecast, and its components."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.plots.style import (
    BAND,
    DATA,
    OUTLIER,
    TRUTH,
    axes_or_new,
    color,
    label,
    legend,
    panels_or_new,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAN = (0.95, 0.8, 0.5)
"""Coverage of the bands of a fan chart, the widest first."""

REACH = 0.5
"""Part of the range of regular values by which gross errors may lie beyond it and be drawn in their place."""

MOST_DATES = 7
"""Dates below an axis."""

LIKELY = 0.5
"""Probability from which a value is marked as a gross error."""


def plot_forecast(
    model: Any,
    horizon: Any = None,
    *,
    last: int | None = None,
    data_color: str = DATA,
    ax: Axes | None = None,
) -> Axes:
    """A fan chart: the series, and median and intervals of what is to come; gross errors are marked.

    Parameters
    ----------
    model : GPForecaster
    horizon : see `GPForecaster.forecast`
        By default a quarter of the series, at most three cycles of its longest season.
    last : int, optional
        Draw so many of the last values only.
    data_color : str
    ax : Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPForecaster
    >>> from cavity.plots import plot_forecast
    >>> y = np.random.default_rng(0).standard_normal(30).cumsum()
    >>> axes = plot_forecast(GPForecaster([], trend="level", link="identity").fit(y), 5)
    """
    axis = axes_or_new(ax, 7.5, 3.6)
    frame = model.anomalies()
    if last is not None:
        frame = frame.iloc[-last:]
    wrong = frame["probability"].to_numpy() > LIKELY
    times, values = places(model, frame.index), frame["value"].to_numpy()
    axis.plot(
        times[~wrong], values[~wrong], ".-", color=data_color, markersize=3, linewidth=0.6, label="data"
    )
    ahead = default_horizon(model) if horizon is None else horizon
    for level, alpha in zip(FAN, (0.16, 0.22, 0.3)):
        fan = model.forecast(ahead, level)
        later = places(model, fan.index)
        axis.fill_between(
            later, fan["lower"], fan["upper"], color=BAND, alpha=alpha, lw=0, label=f"{level:.0%}"
        )
    axis.plot(later, fan["median"], color=BAND, linewidth=1.6, label="median")
    if wrong.any():
        mark_errors(axis, times[wrong], values[wrong])
    few_dates(axis, model)
    name = "" if model.y_.name is None else str(model.y_.name)
    label(axis, "", plain(name), "")
    legend(axis, fontsize=8)
    return axis


def few_dates(axis: Axes, model: Any) -> None:
    """Dates below an axis, so few that they do not touch."""
    if model.axis_.dated:
        from matplotlib.dates import AutoDateFormatter, AutoDateLocator

        locator = AutoDateLocator(minticks=3, maxticks=MOST_DATES)  # type: ignore[no-untyped-call]
        axis.xaxis.set_major_locator(locator)
        axis.xaxis.set_major_formatter(AutoDateFormatter(locator))  # type: ignore[no-untyped-call]


def mark_errors(axis: Axes, times: Any, values: Any) -> None:
    """Gross errors: those far beyond all that was drawn so far at the edge, with their values."""
    low, high = axis.get_ylim()
    reach = REACH * (high - low)
    inside = (values > low - reach) & (values < high + reach)
    axis.plot(times[inside], values[inside], "D", color=OUTLIER, markersize=5, label="probable gross errors")
    low, high = axis.get_ylim()
    for time, value in zip(times[~inside], values[~inside]):
        edge, marker, up = (high, "^", -12) if value > high else (low, "v", 6)
        axis.plot([time], [edge], marker, color=OUTLIER, markersize=6, clip_on=False)
        axis.annotate(
            f"{value:.3g}",
            (time, edge),
            (0, up),
            textcoords="offset points",
            ha="center",
            color=OUTLIER,
            fontsize=7,
        )
    axis.set_ylim(low, high)


def plot_series_components(
    model: Any, horizon: Any = None, *, ax: Axes | Iterable[Axes] | None = None
) -> list[Axes]:
    """Trend, slope, seasons and short memory of a series, each with its 95 % interval.

    Parameters
    ----------
    model : GPForecaster
    horizon : see `GPForecaster.forecast`, optional
        Also for times to come.
    ax : Axes or several, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPForecaster
    >>> from cavity.plots import plot_series_components
    >>> y = np.random.default_rng(0).standard_normal(30).cumsum()
    >>> len(plot_series_components(GPForecaster([], trend="level", link="identity").fit(y)))
    3
    """
    found = model.components(horizon)
    names = list(dict.fromkeys(found.columns.get_level_values(0)))
    panels = panels_or_new(ax, len(names), 2, 4.6, 2.2)
    times = places(model, found.index)
    for i, (panel, name) in enumerate(zip(panels, names)):
        part = found[name]
        panel.fill_between(
            times, part["lower"], part["upper"], color=color(i), alpha=0.22, lw=0, label="95 %"
        )
        panel.plot(times, part["mean"], color=color(i), linewidth=1.2, label="mean")
        if horizon is not None:
            panel.axvline(places(model, model.y_.index[-1:])[0], color=TRUTH, linewidth=1.0, linestyle=":")
        shown = f"season: {name}" if name in model.seasons_ else name
        few_dates(panel, model)
        label(panel, "", "", plain(shown))
    legend(panels[0], fontsize=7)
    return panels


def default_horizon(model: Any) -> int:
    """How far a picture looks ahead: a quarter of the series, at most three cycles of its longest season."""
    quarter = max(1, len(model.y_) // 4)
    longest = max(model.seasons_.values(), default=quarter)
    return int(min(quarter, max(1, round(3 * longest))))


def places(model: Any, index: Any) -> Any:
    """Times as matplotlib takes them."""
    if not model.axis_.dated:
        return np.asarray(index, dtype=float)
    dates = index.to_timestamp() if model.axis_.periods else index
    return (dates if dates.tz is None else dates.tz_localize(None)).to_numpy()
