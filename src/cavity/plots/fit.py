"""The fit of one input: mean, bands, data, outliers by their probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.plots.style import (
    BAND,
    DATA,
    GREEN,
    OUTLIER,
    TRUTH,
    axes_or_new,
    color,
    label,
    legend,
    line,
    marker,
    plain,
)
from cavity.plots.view import View, grid_of, pick
from cavity.prediction import Prediction
from cavity.runtime.checks import require_one_of
from cavity.runtime.progress import Progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FAINTEST = 0.25
"""Outlier probability from which a point gets a ring."""


def plot_fit(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    grid: ArrayLike | None = None,
    levels: Sequence[float] = (0.5, 0.95),
    of: str = "y",
    truth: ArrayLike | None = None,
    outlier_probability: ArrayLike | bool = True,
    target: int = 0,
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str = "",
    legends: bool = True,
) -> Axes:
    """Predictive mean and bands over one input, with the data.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
        Fitted to one input column.
    X, y : arrays (n,) or (n, 1), and (n,), optional
        Data to show; those of the fit by default.
    ax : matplotlib Axes, optional
    grid : array (m,), optional
        Inputs at which to predict, increasing; the range of the data with a margin by default.
    levels : sequence of float
        Probabilities of the central bands.
    of : {"y", "f", "both"}
        Whether bands are of new observations, of the function, or the narrow ones of the function inside those of y.
    truth : array (m,), optional
        The true function on the grid.
    outlier_probability : array (n,) or bool
        Points that may be outliers get a ring, the wider and thicker the more probable. True: those of the model,
        if its noise model tells and the data are those of the fit.
    target : int
        Which of several targets.
    xlabel, ylabel, title : str, optional
    legends : bool

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_fit
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> ax = plot_fit(GPRegressor(random_state=0).fit(x, y))
    >>> ax.get_xlabel()
    'x'
    """
    view = View(model)
    if view.n_features != 1:
        raise ValueError(
            f"plot_fit draws one input, but the model has {view.n_features}; use plot_slices or plot_contours"
        )
    require_one_of(of, "of", ("y", "f", "both"))
    inputs, targets = view.data_or(X, y)
    if grid is None:
        places, _ = grid_of(inputs[:, 0], 100 if view.is_sample else 300)
    else:
        places = np.asarray(grid, dtype=float).ravel()
    ax = axes_or_new(ax)
    if view.classes is not None:
        draw_classes(ax, view, places[:, None], places)
        if targets is not None:
            _draw_labels(ax, inputs[:, 0], targets, view.classes)
    else:
        draw_prediction(ax, view, places[:, None], places, levels, of, target)
        if truth is not None:
            true = np.asarray(truth, dtype=float).ravel()
            ax.plot(places, true, color=TRUTH, linewidth=1.3, linestyle="--", label="true function")
        if targets is not None:
            _draw_data(ax, view, inputs[:, 0], pick(targets, target), outlier_probability, X is None)
    label(ax, plain(xlabel or view.names[0]), _ylabel(view, ylabel), title)
    if legends:
        legend(ax, above=True)
    return ax


def _ylabel(view: View, given: str | None) -> str:
    if given is not None:
        return plain(given)
    return "y" if view.classes is None else "probability"


# --- numbers ------------------------------------------------------------------------------------------------


def draw_prediction(
    ax: Axes,
    view: View,
    X: Array,
    x: Array,
    levels: Sequence[float] = (0.5, 0.95),
    of: str = "y",
    target: int = 0,
    discrete: bool = False,
) -> None:
    """Mean and bands at the rows of X, against x; bars instead of bands if x has a few values only."""
    posterior = view.for_bands
    prediction = posterior.predict_f(X) if of == "f" else posterior.predict_y(X)
    what = "f" if of == "f" else "y"
    if discrete:
        _bars(ax, prediction, x, levels, what, target)
        return
    bands(ax, x, prediction, levels, what, target)
    if of == "both":
        low, high = (pick(b, target) for b in posterior.predict_f(X).interval(max(levels)))
        for edge, name in ((low, f"{max(levels):.0%} of f"), (high, None)):
            ax.plot(x, edge, color=GREEN, linewidth=1.1, linestyle=":", label=name)
    ax.plot(x, _center(view, X, prediction, of, target), color=BAND, linewidth=1.8, label="mean")


def _center(view: View, X: Array, prediction: Prediction, of: str, target: int) -> Array:
    """The mean; that of f if y is f plus noise, since noise may have no mean."""
    whole = view.posterior.mean(X) if view.is_location or of == "f" else prediction.mean
    return pick(np.asarray(whole), target)


def bands(
    ax: Axes, x: Array, prediction: Prediction, levels: Sequence[float], what: str, target: int = 0
) -> None:
    """Central bands, the wider the lighter."""
    with Progress("bands", len(levels)) as progress:  # quantiles of averages over draws take a while
        for i, level in enumerate(sorted(levels, reverse=True)):
            low, high = (pick(np.asarray(b), target) for b in prediction.interval(level))
            dense = min(0.2 + 0.2 * i, 0.8)
            ax.fill_between(x, low, high, color=BAND, alpha=dense, lw=0, label=f"{level:.0%} of {what}")
            progress.advance()


def _bars(
    ax: Axes, prediction: Prediction, x: Array, levels: Sequence[float], what: str, target: int
) -> None:
    mean = pick(np.asarray(prediction.mean), target)
    for i, level in enumerate(sorted(levels, reverse=True)):
        low, high = (pick(np.asarray(b), target) for b in prediction.interval(level))
        ax.vlines(x, low, high, color=BAND, linewidth=2 + 3 * i, alpha=0.45, label=f"{level:.0%} of {what}")
    ax.plot(x, mean, "o", color=BAND, markersize=5, label="mean")


def _draw_data(
    ax: Axes, view: View, x: Array, y: Array, outlier_probability: ArrayLike | bool, own: bool
) -> None:
    ax.plot(x, y, "o", color=DATA, markersize=3.2, label="data")
    if isinstance(outlier_probability, bool):
        found = view.outlier_probability if outlier_probability and own else None
    else:
        found = np.asarray(outlier_probability, dtype=float)
        if found.shape != x.shape:
            raise ValueError(f"outlier_probability must have shape {x.shape}, got {found.shape}")
    if found is not None:
        ring_outliers(ax, x, y, found)


def ring_outliers(ax: Axes, x: Array, y: Array, probability: Array) -> None:
    """Rings around points, their size and thickness by the probability of an outlier."""
    p = np.nan_to_num(probability, nan=0.0)
    some = p >= FAINTEST
    if some.any():
        size, width = 15 + 85 * p[some], (0.3 + 1.5 * p[some]).tolist()
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": OUTLIER, "zorder": 3}
        ax.scatter(x[some], y[some], s=size, linewidths=width, label="outlier, by probability", **ring)


# --- classes ------------------------------------------------------------------------------------------------


def draw_classes(ax: Axes, view: View, X: Array, x: Array, discrete: bool = False) -> None:
    """Probability of each class at the rows of X against x; of the second of two with the band that f leaves it."""
    assert view.classes is not None
    p = view.probabilities(X)
    if len(view.classes) == 2:
        band = None if discrete else _probability_band(view, X)
        if band is not None:
            ax.fill_between(x, *band, color=BAND, alpha=0.2, linewidth=0, label="95% given f")
        style: dict[str, Any] = {"linestyle": "none", "marker": "o"} if discrete else {"linewidth": 1.8}
        ax.plot(x, p[:, 1], color=BAND, label=f"P({plain(view.classes[1])})", **style)
        ax.axhline(0.5, color=TRUTH, linewidth=0.7, linestyle=":")
    else:
        for c, name in enumerate(view.classes):
            style = {"linestyle": "none", "marker": marker(c)} if discrete else {"linestyle": line(c)}
            ax.plot(x, p[:, c], color=color(c), linewidth=1.6, label=f"P({plain(name)})", **style)
    ax.set_ylim(-0.06, 1.06)


def _probability_band(view: View, X: Array) -> tuple[Array, Array] | None:
    """Central 95 % of the probability of the second class, as f is uncertain; it is monotone in f."""
    likelihood = view.posterior.model.likelihood
    if likelihood.n_latent > 1:
        return None
    low, high = view.predict_f(X).interval(0.95)
    zero = np.zeros(len(X))
    edges = [likelihood.predictive(f, zero).probabilities[:, 1] for f in (low, high)]
    return edges[0], edges[1]


def _draw_labels(ax: Axes, x: Array, labels: NDArray[Any], classes: NDArray[Any]) -> None:
    """Rows as marks: two classes at 0 and 1, several along the lower edge by their markers."""
    for c, name in enumerate(classes):
        own = labels == name
        height = float(c) if len(classes) == 2 else -0.03
        look: dict[str, Any] = {"ls": "none", "marker": marker(c), "ms": 4, "fillstyle": "none"}
        shade = DATA if len(classes) == 2 else color(c)
        ax.plot(x[own], np.full(int(own.sum()), height), color=shade, label=f"class {plain(name)}", **look)
