"""Functions of many inputs, one input at a time: slices through a central row, and averages over the data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.measures.relevance import partial_dependence, sobol_total
from cavity.numerics.arrays import Array
from cavity.plots.fit import draw_classes, draw_prediction
from cavity.plots.style import (
    BAND,
    DATA,
    LONGEST_SHORT,
    TRUTH,
    color,
    label,
    legend,
    line,
    panels_or_new,
    plain,
)
from cavity.plots.view import View, grid_of, slice_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_PANELS = 9
"""Inputs drawn when none are named: the most relevant ones."""

MOST_ROWS = 100
"""Rows that partial dependence averages over, unless more are asked for: each place needs their joint covariance."""


def plot_slices(
    model: Any,
    X: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    at: ArrayLike | None = None,
    levels: Sequence[float] = (0.5, 0.95),
    of: str = "y",
    target: int = 0,
    ylabel: str | None = None,
    ax: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Predictions along each input through one point: small multiples with bands.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X : array (n, D), optional
        Rows that say what is central and how far inputs go; those of the fit by default.
    columns : sequence of int or str, optional
        Inputs to draw; by default all, or the nine most relevant.
    at : array (D,), optional
        The point; by default the row nearest to the medians. Its values are marked by a line.
    levels, of, target, ylabel
        As of `plot_fit`.
    ax : Axes or several, optional
        One is divided; several are used one by one.

    Returns
    -------
    list of Axes
        One for each input. Short marks along the lower edge show where the data are.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_slices
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    >>> model = GPRegressor(n_restarts=0, random_state=0).fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> [ax.get_xlabel() for ax in plot_slices(model)]
    ['x1', 'x2']
    """
    view = View(model)
    rows, _ = view.data_or(X, None)
    chosen = _chosen(view, rows, columns)
    center = view.center(rows, at)
    panels = panels_or_new(ax, len(chosen))
    for panel, d in zip(panels, chosen):
        grid, discrete = grid_of(rows[:, d], 40 if view.is_sample else 120)
        along = slice_rows(center, d, grid)
        if view.classes is not None:
            draw_classes(panel, view, along, grid, discrete)
        else:
            draw_prediction(panel, view, along, grid, levels, of, target, discrete)
        panel.axvline(center[d], color=TRUTH, linewidth=0.8, linestyle=":")
        _finish(panel, rows[:, d], view.names[d])
    _same_height(panels)
    label(panels[0], y=plain(ylabel or ("y" if view.classes is None else "probability")))
    legend(panels[0], fontsize=7)
    return panels


def plot_partial_dependence(
    model: Any,
    X: ArrayLike | None = None,
    *,
    columns: Sequence[int | str] | None = None,
    level: float = 0.95,
    lines: int = 20,
    max_rows: int = MOST_ROWS,
    ylabel: str | None = None,
    ax: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Average prediction along each input, the others as they are in the rows.

    The band is the posterior uncertainty of the average of f. Thin lines are single rows: if they are not
    parallel, inputs interact. For classes the average is of probabilities, and there is no band.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X : array (n, D), optional
        Rows to average over; those of the fit by default. More than `max_rows` are thinned out evenly.
    columns : sequence of int or str, optional
        Inputs to draw; by default all, or the nine most relevant.
    level : float
        Probability of the band.
    lines : int
        Number of single rows to show.
    ax : Axes or several, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_partial_dependence
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    >>> model = GPRegressor(n_restarts=0, random_state=0).fit(X, X[:, 0] ** 2 + X[:, 1])
    >>> [ax.get_xlabel() for ax in plot_partial_dependence(model, max_rows=10)]
    ['x1', 'x2']
    """
    view = View(model)
    rows, _ = view.data_or(X, None)
    chosen = _chosen(view, rows, columns)
    if len(rows) > max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, max_rows).astype(int)]
    panels = panels_or_new(ax, len(chosen))
    for panel, d in zip(panels, chosen):
        grid, discrete = grid_of(rows[:, d], 40)
        if view.classes is None:
            _draw_average(panel, view, rows, d, grid, level, lines, discrete)
        else:
            _draw_class_average(panel, view, rows, d, grid, lines, discrete)
        _finish(panel, rows[:, d], view.names[d])
    _same_height(panels)
    what = "average of f" if view.classes is None else "average probability"
    label(panels[0], y=plain(ylabel or what))
    legend(panels[0], fontsize=7)
    return panels


def _draw_average(
    ax: Axes, view: View, rows: Array, d: int, grid: Array, level: float, lines: int, discrete: bool
) -> None:
    from scipy.special import ndtri

    if view.posterior.model.likelihood.n_latent > 1 or np.ndim(view.posterior.data.y) > 1:
        raise ValueError("partial dependence is drawn for one latent function and one target")
    found = partial_dependence(view.posterior.function, rows, d, grid)
    half = float(ndtri(0.5 + level / 2)) * found.sd
    _single_rows(ax, grid, found.rows, lines)
    if discrete:
        ax.errorbar(grid, found.mean, half, fmt="o", color=BAND, capsize=3, label=f"average, {level:.0%}")
        return
    low, high = found.mean - half, found.mean + half
    ax.fill_between(grid, low, high, color=BAND, alpha=0.25, lw=0, label=f"{level:.0%} of it")
    ax.plot(grid, found.mean, color=BAND, lw=1.8, label="average")


def _draw_class_average(
    ax: Axes, view: View, rows: Array, d: int, grid: Array, lines: int, discrete: bool
) -> None:
    assert view.classes is not None
    everywhere = np.repeat(rows, len(grid), axis=0)
    everywhere[:, d] = np.tile(grid, len(rows))
    p = view.probabilities(everywhere).reshape(len(rows), len(grid), -1)
    two = len(view.classes) == 2
    if two:
        _single_rows(ax, grid, p[:, :, 1], lines)
    for c in [1] if two else range(len(view.classes)):
        style: dict[str, Any] = {"color": BAND, "ls": "-"} if two else {"color": color(c), "ls": line(c)}
        style |= {"marker": "o"} if discrete else {}
        ax.plot(grid, p[:, :, c].mean(axis=0), lw=1.8, label=f"P({plain(view.classes[c])})", **style)
    ax.set_ylim(-0.06, 1.06)


def _single_rows(ax: Axes, grid: Array, rows: Array, lines: int) -> None:
    if lines < 1:
        return
    some = np.unique(np.linspace(0, len(rows) - 1, min(lines, len(rows))).astype(int))
    for k, i in enumerate(some):
        name = "single rows" if k == 0 else None
        ax.plot(grid, rows[i], color=TRUTH, lw=0.5, alpha=0.5, label=name, zorder=1)


def _chosen(view: View, rows: Array, columns: Sequence[int | str] | None) -> list[int]:
    if columns is not None:
        if len(columns) == 0:
            raise ValueError("columns must name at least one input")
        return [view.column(c) for c in columns]
    if view.n_features <= MOST_PANELS:
        return list(range(view.n_features))
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), 300)).astype(int))]
    value = sobol_total(view.latent_means, some, shuffles=2).value
    return [int(d) for d in np.argsort(-value, kind="stable")[:MOST_PANELS]]


def _finish(ax: Axes, values: Array, name: str) -> None:
    """Where the data are, and names."""
    some = np.unique(values)
    if len(some) > 200:
        some = np.quantile(values, np.linspace(0, 1, 200))
    low, edge = np.full(len(some), 0.02), ax.get_xaxis_transform()
    ax.plot(some, low, "|", color=DATA, ms=5, mew=0.6, transform=edge, zorder=0)
    label(ax, x=plain(name, LONGEST_SHORT))


def _same_height(panels: Sequence[Axes]) -> None:
    """One scale of y, so that the effects of inputs can be compared."""
    low, high = zip(*(panel.get_ylim() for panel in panels))
    for panel in panels:
        panel.set_ylim(min(low), max(high))
