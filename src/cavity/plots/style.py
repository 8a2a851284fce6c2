"""How pictures look: colors, line styles, axes, and text that is shown as it is.

Colors are those of Okabe and Ito (2008), which people with any of the common kinds of color blindness tell apart.
Nothing is told by color alone: line styles and markers differ too, so that pictures survive a grey printer.

Names of columns and classes come from data. They are never parsed as mathematics (a column may be called "$x_1$^^"),
unprintable characters are replaced, and very long names are cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
BLUE, VERMILION, PURPLE = "#0072b2", "#d55e00", "#cc79a7"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
"""For lines and classes, in turn; yellow is too light for a line."""

LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

BAND = BLUE
DATA = "#222222"
TRUTH = "#666666"
OUTLIER = VERMILION

LONGEST_NAME, LONGEST_SHORT = 40, 24
"""Characters of a name that are shown along a large picture, and along a small one."""


def color(i: int) -> str:
    """Of the i-th line or class."""
    return PALETTE[i % len(PALETTE)]


def line(i: int) -> Any:
    """Style of the i-th line."""
    return LINES[i % len(LINES)]


def marker(i: int) -> str:
    """Of the i-th class."""
    return MARKERS[i % len(MARKERS)]


# --- axes ---------------------------------------------------------------------------------------------------


def new_figure(panels: int = 1, width: float = 5.2, height: float = 4.0) -> tuple[Any, list[Axes]]:
    """A figure with panels side by side that share their axes, drawn without a display.

    Examples
    --------
    >>> from cavity.plots import new_figure
    >>> figure, axes = new_figure(panels=2)
    >>> len(axes)
    2
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, height), dpi=130, layout="constrained")
    axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    return figure, list(axes)


def axes_or_new(ax: Axes | None, width: float = 6.0, height: float = 4.0) -> Axes:
    """The axes given, or those of a new figure that `matplotlib.pyplot.show` knows."""
    if ax is not None:
        if not hasattr(ax, "fill_between"):
            raise ValueError(f"ax must be matplotlib Axes or None, got {type(ax).__name__}")
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def panels_or_new(
    ax: Axes | Iterable[Axes] | None, count: int, columns: int = 3, width: float = 3.2, height: float = 2.6
) -> list[Axes]:
    """Small multiples: axes given, one for each; or one that is divided; or those of a new figure."""
    columns = min(columns, count)
    rows = -(-count // columns)
    if ax is None:
        from matplotlib import pyplot as plt

        figure = plt.figure(figsize=(width * columns, height * rows), layout="constrained")
        grid = figure.add_gridspec(rows, columns)
        return [figure.add_subplot(grid[i // columns, i % columns]) for i in range(count)]
    if not hasattr(ax, "fill_between"):
        given = list(np.ravel(np.asarray(ax, dtype=object)))
        if len(given) < count or not all(hasattr(one, "fill_between") for one in given):
            raise ValueError(f"ax must be one Axes, which is divided, or {count} of them, got {ax!r}")
        return given[:count]
    one: Any = ax
    spec = one.get_subplotspec()
    one.set_axis_off()
    if spec is not None:
        grid = spec.subgridspec(rows, columns)
        return [one.figure.add_subplot(grid[i // columns, i % columns]) for i in range(count)]
    # axes that were placed by hand have no grid to divide
    wide, high = 1.0 / columns, 1.0 / rows
    return [
        one.inset_axes(
            (i % columns * wide, 1.0 - (i // columns + 1) * high + 0.22 * high, 0.78 * wide, 0.7 * high)
        )
        for i in range(count)
    ]


# --- text ---------------------------------------------------------------------------------------------------


def plain(name: Any, longest: int = LONGEST_NAME) -> str:
    """Text from data as it can be shown: printable, of one line, not too long."""
    text = "".join(c if c.isprintable() else " " for c in str(name)).strip()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def label(
    ax: Axes, x: str | None = None, y: str | None = None, title: str | None = None, *, frame: bool = False
) -> None:
    """Labels that are not parsed as mathematics; the frame's top and right side go unless it is asked for."""
    if not frame:
        ax.spines[["top", "right"]].set_visible(False)
    if x is not None:
        ax.set_xlabel(x, parse_math=False)
    if y is not None:
        ax.set_ylabel(y, parse_math=False)
    if title:
        ax.set_title(title, fontsize=10, parse_math=False)


def tick_names(ax: Axes, which: str, places: Sequence[float], names: Sequence[str]) -> None:
    """Names at ticks of the axis "x" or "y", not parsed as mathematics."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_ticks(list(places), [plain(n, LONGEST_SHORT) for n in names], parse_math=False)


def legend(ax: Axes, *, above: bool = False, **options: Any) -> None:
    """A small legend, if there is anything to explain; `above` the axes, and below their title, it hides no data."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        return
    if above:
        columns = min(3, len(handles))
        rows = -(-len(handles) // columns)
        options = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": columns, **options}
        ax.set_title(ax.get_title(), fontsize=10, parse_math=False, pad=8 + 14 * rows)
    shown = ax.legend(handles, labels, **{"fontsize": 8, "framealpha": 0.85, "edgecolor": "none", **options})
    for text in shown.get_texts():
        text.set_parse_math(False)
