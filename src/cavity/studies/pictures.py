"""Figures of the studies: one look, safe for the color-blind, readable in grey print; bands, and box plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Colors of Okabe and Ito, which people with any kind of color vision can tell apart."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", ":", "-.")

FEWEST = 5
"""Cells that a box needs: the quartiles of fewer are made up by interpolation."""

NATS = {"NLP": "nats"}


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


def band(axis: Any, x: Array, mean: Array, sd: Array, width: float = 2.0, **look: Any) -> None:
    """A shaded band of `width` standard deviations around a mean."""
    look = {"color": COLORS[0], "alpha": 0.2, "linewidth": 0} | look
    axis.fill_between(x, mean - width * sd, mean + width * sd, **look)


def box_plots(
    frame: pd.DataFrame,
    measures: Sequence[str],
    path: Path,
    log: Sequence[str] = (),
    units: Mapping[str, str] = NATS,
) -> Path:
    """One panel per measure: a box for each method, and a point for each cell. Few cells have no box.

    A method with fewer cells than others has their number beside its name. Measures in `log` have a logarithmic axis
    if they span more than a decade.
    """
    present = [m for m in measures if m in frame]
    figure, axes = new_panels(1, len(present), width=4.8, height=3.4)
    for axis, measure in zip(axes, present):
        groups = [(str(m), g[measure].dropna()) for m, g in frame.groupby("method", sort=False)]
        groups = [(name, values) for name, values in groups if len(values)]
        boxed = [(k, values) for k, (_, values) in enumerate(groups, start=1) if len(values) >= FEWEST]
        if boxed:
            axis.boxplot(
                [values for _, values in boxed],
                positions=[k for k, _ in boxed],
                showfliers=False,
                widths=0.55,
                medianprops={"color": COLORS[1]},
            )
        for place, (_, values) in enumerate(groups, start=1):
            axis.plot([place] * len(values), values, "o", color=COLORS[0], alpha=0.5, markersize=3)
            if len(values) < FEWEST:
                axis.hlines(values.median(), place - 0.275, place + 0.275, color=COLORS[1], linewidth=1)
        axis.set_xticks(range(1, len(groups) + 1), _names(groups), rotation=60, ha="right")
        axis.set_xlim(0.5, len(groups) + 0.5)
        label = f"{measure}, {units[measure]}" if measure in units else measure
        axis.set_ylabel(label)
        if measure in log and frame[measure].max() > 10 * frame[measure].min():
            axis.set_yscale("log")
        elif values_spread(groups):
            _cut(axis, groups, label)
    return save(figure, path)


def _names(groups: Sequence[tuple[str, pd.Series]]) -> list[str]:
    """Names of the methods, with the number of cells if others have more."""
    most = max((len(values) for _, values in groups), default=0)
    return [name if len(values) == most else f"{name} ({len(values)})" for name, values in groups]


def _cut(axis: Any, groups: Sequence[tuple[str, pd.Series]], label: str) -> None:
    """End the axis above the bulk of the cells; those beyond are triangles at the edge."""
    pooled = pd.concat([values for _, values in groups])
    low, middle, high = pooled.quantile([0.0, 0.25, 0.75])
    top = high + 1.5 * (high - middle)
    axis.set_ylim(low - 0.05 * (top - low), top)
    for place, (_, values) in enumerate(groups, start=1):
        if (values > top).any():
            axis.plot(place, top, "^", color=COLORS[0], markersize=6, clip_on=False)
            count = int((values > top).sum())
            axis.annotate(
                f"{count}", (place, top), (0, 6), textcoords="offset points", ha="center", fontsize=8
            )
    axis.set_ylabel(f"{label} (triangles: number beyond)")


def values_spread(groups: Sequence[tuple[str, pd.Series]]) -> bool:
    """Whether one method's cells are so far off that a linear axis would hide all others."""
    values = pd.concat([values for _, values in groups])
    middle = values.quantile(0.75) - values.quantile(0.25)
    return bool(values.max() - values.min() > 20 * max(float(middle), 1e-12))
