"""Figures of the studies: one look, safe for the color-blind, readable in grey print."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Colors of Okabe and Ito, which people with any kind of color vision can tell apart."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")


def new_panels(
    rows: int = 1, columns: int = 1, *, width: float = 3.6, height: float = 3.0, **options: Any
) -> tuple[Figure, list[Any]]:
    """A figure and its axes, row by row, drawn without a display."""
    from cycler import cycler
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "axes.prop_cycle": cycler(color=list(COLORS)),
        "font.size": 9,
        "axes.titlesize": 10,
    }
    with rc_context(style):
        figure = Figure(figsize=(width * columns, height * rows), dpi=150, layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def save(figure: Figure, path: Path, *, few_colors: bool = False) -> Path:
    """Write a figure and return where it is; with `few_colors` as a palette, a third of the size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    if few_colors:
        from PIL import Image

        with Image.open(path) as image:
            # the greatest coverage keeps colors of a few marks, which the usual median cut would turn grey
            image.convert("RGB").quantize(128, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
    return path
