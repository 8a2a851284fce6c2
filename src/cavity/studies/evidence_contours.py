"""Contours of evidence and information in the layout of thesis figures 6.6, 6.8 and 6.11."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array
from cavity.studies.base import Results
from cavity.studies.evidence_problem import COARSE, RANGES, Range, coarse_surface, surface
from cavity.studies.pictures import COLORS, new_panels, save

NATS_BELOW = np.array([200, 150, 100, 70, 50, 35, 25, 15, 10, 6, 3, 1, 0])
"""Contours of log evidence, in nats below the greatest value of all methods."""

BITS_BELOW = np.array([0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.06, 0.03, 0.01, 0.0])
"""Contours of information, in bits below the greatest value of all methods."""

LABELED = 9
"""The highest contours have their values beside them."""

AXES = {"xlabel": "ln l (length scale)", "ylabel": "ln s (signal sd)"}

FEWEST = 4
"""Columns without which there are no contours."""


def draw(results: Results, folder: Path, data: str) -> list[Path]:
    """Evidence and information of Laplace, EP and sampling; the lower bound and how far EP is from annealing."""
    where = RANGES[data]
    coarse = tuple(axis[list(COARSE)] for axis in where.axes())
    panels = [
        (where.axes(), surface(results, "laplace", "evidence"), "log evidence, Laplace"),
        (where.axes(), surface(results, "laplace", "information"), "information, bits, Laplace"),
        (where.axes(), surface(results, "ep", "evidence"), "log evidence, EP"),
        (where.axes(), surface(results, "ep", "information"), "information, bits, EP"),
        (coarse, coarse_surface(results, "AIS log evidence"), "log evidence, AIS on 7 x 7 points"),
        (coarse, coarse_surface(results, "information of MCMC"), "information, bits, MCMC on 7 x 7 points"),
    ]
    levels = (
        evidence_levels(*(values for _, values, _ in panels[::2])),
        information_levels(*(values for _, values, _ in panels[1::2])),
    )
    figure, axes = new_panels(3, 2, width=4.4, height=3.3)
    for k, (axis, (grid, values, title)) in enumerate(zip(axes, panels)):
        contours(axis, grid, values, title, levels[k % 2])
        axis.set(xlim=where.length, ylim=where.signal)
    for axis in axes[4:]:
        _mark_points(axis, coarse, coarse_surface(results, "certified, percent"))
    return [save(figure, folder / "grids.png", few_colors=True), _bound(results, folder, where)]


def evidence_levels(*surfaces: Array) -> Array:
    """The same whole nats for all surfaces, so that panels can be compared."""
    return np.asarray(np.floor(_greatest(surfaces)) - NATS_BELOW)


def information_levels(*surfaces: Array) -> Array:
    """The same hundredths of a bit for all surfaces."""
    return np.asarray(np.floor(100 * _greatest(surfaces)) / 100 - BITS_BELOW)


def _greatest(surfaces: tuple[Array, ...]) -> float:
    known = [float(np.nanmax(values)) for values in surfaces if np.isfinite(values).any()]
    return max(known, default=0.0)


def contours(axis: Any, grid: tuple[Array, ...], values: Array, title: str, levels: Array) -> None:
    """Contours over the columns that were run, the higher the darker; a cross at the greatest value."""
    from matplotlib import colormaps

    lengths, signals = grid
    axis.set(**AXES, title=title)
    known: NDArray[np.bool_] = np.asarray(np.isfinite(values).any(axis=0))
    if known.sum() < FEWEST:
        run = (
            f"{known.sum()} of {len(known)} columns run:\ntoo few for contours" if known.any() else "not run"
        )
        axis.text(0.5, 0.55, run, ha="center", transform=axis.transAxes)
        return
    lengths, values = lengths[known], values[:, known]
    colors = colormaps["viridis_r"](np.linspace(0.3, 1.0, len(levels)))
    lines = axis.contour(lengths, signals, values, levels=levels, colors=colors, linewidths=1)
    near = lines.levels[-LABELED:]  # farther down, steep slopes would put one label on another
    axis.clabel(lines, near, fontsize=8, fmt="%.0f" if np.all(levels == np.round(levels)) else "%.2f")
    row, column = np.unravel_index(np.nanargmax(values), values.shape)
    axis.plot(lengths[column], signals[row], "k+", markersize=11, markeredgewidth=1.6, clip_on=False)
    top = float(values[row, column])
    text = f"greatest: {top:.1f}" if abs(top) >= 10 else f"greatest: {top:.3f}"
    text += "" if known.all() else f" ({known.sum()} of {len(known)} columns)"
    box = {"facecolor": "w", "edgecolor": "none", "pad": 1.5}
    axis.text(0.98, 0.03, text, ha="right", fontsize=9, transform=axis.transAxes, bbox=box, zorder=5)


def _mark_points(axis: Any, coarse: tuple[Array, ...], certified: Array) -> None:
    """Dots where annealing is certified, crosses where it was run and is not."""
    lengths, signals = np.meshgrid(*coarse)
    for where, mark, color, size in ((certified > 0, ".", "0.6", 3), (certified == 0, "x", COLORS[1], 5)):
        axis.plot(lengths[where], signals[where], mark, color=color, markersize=size)


def _bound(results: Results, folder: Path, where: Range) -> Path:
    """The lower bound at EP's posterior (6.13), and EP minus annealing point by point."""
    figure, axes = new_panels(1, 2, width=4.4, height=3.3)
    bound = surface(results, "ep", "bound")
    contours(axes[0], where.axes(), bound, "lower bound at EP's posterior", evidence_levels(bound))
    difference, certified = (
        coarse_surface(results, measure) for measure in ("EP minus AIS", "certified, percent")
    )
    lengths, signals = (axis[list(COARSE)] for axis in where.axes())
    for place, value in np.ndenumerate(difference):
        if np.isfinite(value):
            sure = certified[place] > 0
            text = f"{value:+.2f}" if abs(value) < 9.995 else f"{value:+.0f}"
            look = {"color": "k" if sure else COLORS[1], "style": "normal" if sure else "italic"}
            centered = {"ha": "center", "va": "center", "fontsize": 8}
            axes[1].text(lengths[place[1]], signals[place[0]], text, **centered, **look)
    axes[1].set(**AXES, title="EP minus AIS, nats (italic: not certified)")
    for axis in axes:
        axis.set(xlim=where.length, ylim=where.signal)
    return save(figure, folder / "bound.png", few_colors=True)
