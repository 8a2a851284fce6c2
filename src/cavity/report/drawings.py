"""The pictures of a report, each drawn into given axes, and figures as inline SVG for a light and a dark page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from cavity.measures import calibration
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.report.page import Picture

if TYPE_CHECKING:
    from cavity.measures.effects import Interaction
    from cavity.report.effects import Effect

BLUE, ORANGE, GREEN, GREY = "#2b8cc4", "#e07b28", "#1b9e77", "#7d858d"
LINES = (BLUE, ORANGE, GREEN, "#cc79a7", "#b8860b", GREY)
"""Of several lines, in turn."""

BINS = 10

FEW_PLACES = 8
"""Places along an input up to which each is marked."""

MARKS = 100
"""Marks that show where the data are, at most."""


def fit_of_one_input(
    axis: Any,
    grid: Array,
    prediction: Prediction,
    x: Array,
    y: Array,
    names: Sequence[str],
    suspicious: NDArray[np.bool_] | None = None,
    suspicion: str = "probable outliers",
) -> None:
    """Mean and 50 % and 90 % intervals of y over one input, with the data; suspicious rows stand out."""
    suspicious = np.zeros(len(y), dtype=bool) if suspicious is None else suspicious
    for level, alpha in ((0.9, 0.18), (0.5, 0.28)):
        low, high = prediction.interval(level)
        axis.fill_between(grid, low, high, color=BLUE, alpha=alpha, linewidth=0, label=f"{level:.0%} of y")
    axis.plot(grid, prediction.mean, color=BLUE, linewidth=1.8, label="mean")
    axis.plot(x[~suspicious], y[~suspicious], ".", color=GREY, markersize=5, label="data")
    if suspicious.any():
        axis.plot(x[suspicious], y[suspicious], "D", color=ORANGE, markersize=5, label=suspicion, zorder=3)
    _label(axis, *names)
    axis.legend(frameon=False, fontsize=8)


def predicted_against_observed(
    axis: Any,
    y: Array,
    prediction: Prediction,
    suspicious: NDArray[np.bool_],
    name: str = "",
    how: str = "predicted",
    suspicion: str = "probable outliers",
) -> None:
    """Predictions of a target, which `how` names, with their central 90 % interval; suspicious rows stand out."""
    low, high = prediction.interval(0.9)
    mean = prediction.mean
    axis.vlines(y, low, high, color=BLUE, alpha=0.25, linewidth=1)
    axis.plot(y[~suspicious], mean[~suspicious], "o", color=BLUE, markersize=3.5, label="rows")
    if suspicious.any():
        axis.plot(y[suspicious], mean[suspicious], "D", color=ORANGE, markersize=5, label=suspicion)
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    axis.plot(ends, ends, color=GREY, linewidth=1, label="equal")
    _label(axis, f"observed {name}", how)
    axis.legend(frameon=False, fontsize=8, loc="upper left")  # where the diagonal leaves room


def pit_histogram(axis: Any, below: Array, up_to: Array) -> None:
    """How often targets fall into each tenth of their predictive distribution; the band holds 95 % of fair models.

    P(Y < y) and P(Y <= y) of each row are the same for measurements; the mass of a count is spread between them.
    """
    rows_per_bin = len(below) / BINS
    counts = rows_per_bin * calibration.pit_histogram(below, up_to, BINS)
    low, high = (rows_per_bin * end for end in calibration.pit_band(len(below), BINS))
    axis.axhspan(low, high, color=GREEN, alpha=0.2, linewidth=0, label="expected of a calibrated model")
    edges = np.arange(BINS) / BINS
    axis.bar(edges, counts, width=1 / BINS, align="edge", color=BLUE, edgecolor="white", linewidth=0.5)
    axis.hlines([low, high], 0, 1, color=GREEN, linestyle="--", linewidth=1)  # also in front of bars
    axis.set_xlim(0, 1)
    axis.yaxis.get_major_locator().set_params(integer=True)  # rows are counted
    _label(axis, "predicted probability of a smaller value", "rows")
    axis.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), borderpad=0)


def reliability(axis: Any, groups: Sequence[tuple[float, int, int]]) -> None:
    """Share of right answers against stated probability of the chosen class, with 95 % binomial intervals.

    Groups of rows of similar certainty: mean stated probability, right answers, rows.
    """
    least = min([stated for stated, _, _ in groups] + [0.9])
    axis.plot([least, 1], [least, 1], color=GREY, linewidth=1)
    for stated, hits, n in groups:
        below, above = (float(binom.ppf(q, n, stated)) / n for q in (0.025, 0.975))
        axis.vlines(stated, below, above, color=GREEN, linewidth=4, alpha=0.35)
        axis.plot(stated, hits / n, "o", color=BLUE, markersize=4 + min(n, 400) ** 0.4)
    _label(axis, "stated probability of the chosen class", "share that was right")


def bars(axis: Any, names: Sequence[str], values: Sequence[float], label: str) -> None:
    """Horizontal bars, the first on top."""
    places = np.arange(len(names))[::-1]
    axis.barh(places, values, color=BLUE, height=0.65)
    axis.set_yticks(places, [short_name(name) for name in names])
    for text in axis.get_yticklabels():
        text.set_parse_math(False)
    _label(axis, label, "")


def effect(axis: Any, found: Effect, label: str, limits: tuple[float, float]) -> None:
    """Averages along a column, with the interval of a single line and marks where the data are."""
    levels = found.column.levels
    for i, name in enumerate(found.names):
        color = LINES[i % len(LINES)]
        if levels is None:
            style = "-" if len(found.places) > FEW_PLACES else "o-"
            axis.plot(
                found.places, found.average[:, i], style, color=color, linewidth=1.8, markersize=4, label=name
            )
        else:
            axis.plot(found.places, found.average[:, i], "o", color=color, markersize=6, label=name)
    if found.low is not None and found.high is not None:
        if levels is None:
            axis.fill_between(found.places, found.low, found.high, color=BLUE, alpha=0.22, linewidth=0)
        else:
            axis.vlines(found.places, found.low, found.high, color=BLUE, alpha=0.35, linewidth=5)
    if levels is None:
        own = np.unique(found.rows)
        own = own if len(own) <= MARKS else np.quantile(found.rows, np.linspace(0, 1, MARKS))
        inside = own[(own >= found.places[0]) & (own <= found.places[-1])]
        axis.plot(
            inside,
            np.full(len(inside), 0.02),
            "|",
            color=GREY,
            transform=axis.get_xaxis_transform(),
            ms=5,
            mew=0.6,
        )
    else:
        axis.set_xticks(
            found.places, [short_name(level, 12) for level in levels], rotation=30 if len(levels) > 4 else 0
        )
        axis.set_xlim(-0.6, len(levels) - 0.4)
    _fewer_ticks(axis)
    axis.set_ylim(*limits)
    unit = f" ({found.column.unit})" if found.column.unit else ""
    _label(axis, short_name(found.column.name, 36) + unit, label)
    if len(found.names) > 1:
        axis.legend(frameon=False, fontsize=8)


def heat_map(axis: Any, found: Interaction, names: Sequence[str], label: str) -> None:
    """Averages along two columns at once."""
    one, other = found.grids
    shown = axis.pcolormesh(one, other, found.average.T, cmap="viridis", shading="gouraud", rasterized=True)
    bar = axis.figure.colorbar(shown, ax=axis)
    bar.set_label(short_name(label, 30), parse_math=False)
    bar.outline.set_visible(False)
    _label(axis, *(short_name(name, 30) for name in names))


def short_name(name: str, most: int = 28) -> str:
    """A name that is not too long for its place."""
    return name if len(name) <= most else name[: most - 3] + "..."


def _label(axis: Any, x: str, y: str) -> None:
    """Names of columns are text, never mathematics."""
    axis.set_xlabel(short_name(x, 60), parse_math=False)
    axis.set_ylabel(short_name(y, 40), parse_math=False)


GREY = "#7d858d"
"""Of text, ticks and frames: a contrast of about 4 to both white and near-black."""

STYLE: dict[Any, Any] = {
    "svg.fonttype": "path",  # looks the same everywhere, and no name from the data becomes markup
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.parse_math": False,  # a column called $x$ is not mathematics
}


@contextmanager
def report_style(salt: str) -> Iterator[None]:
    """Settings under which figures of a report are made and saved; the salt keeps ids apart and repeatable."""
    from matplotlib import rc_context

    with rc_context({**STYLE, "svg.hashsalt": salt}):
        yield


NARROW = 3.7
"""Inches of a picture for narrow screens, on which it has about its own size."""


def both_widths(
    draw: Callable[[Any], Any], salt: str, description: str, *, width: float = 7.0, height: float = 3.8
) -> Picture:
    """A picture for wide and for narrow screens."""

    def slim_draw(axis: Any) -> None:
        draw(axis)
        _fewer_ticks(axis)

    slim = as_svg(slim_draw, f"{salt}-narrow", width=NARROW, height=min(height, 1.1 * NARROW))
    return Picture(as_svg(draw, salt, width=width, height=height), description, slim)


def _fewer_ticks(axis: Any) -> None:
    """Numbers along a narrow picture that do not run into each other."""
    from matplotlib.ticker import MaxNLocator

    if isinstance(axis.xaxis.get_major_locator(), MaxNLocator):
        axis.xaxis.set_major_locator(MaxNLocator(4))


def as_svg(draw: Callable[[Any], Any], salt: str, *, width: float = 7.0, height: float = 3.8) -> str:
    """SVG text of a figure; `draw` gets the axes."""
    from matplotlib.figure import Figure

    def make() -> Figure:
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure.subplots())
        return figure

    return figure_svg(make, salt)


def figure_svg(make: Callable[[], Any], salt: str) -> str:
    """SVG text of a whole figure that `make` returns."""
    with report_style(salt):
        figure, out = make(), io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), salt)


def _inline(text: str, salt: str) -> str:
    """The <svg> element alone, its ids made unique within the page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)  # each text once more, as a comment
    prefix = "".join(c if c.isalnum() else "-" for c in salt)
    text = re.sub(r'id="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{prefix}-\1"', text)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", text)
