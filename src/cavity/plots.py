"""Pictures of fits. Matplotlib is imported when a picture is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from cavity.prediction import Prediction

BAND = "#4c72b0"
DATA = "#222222"
TRUTH = "#888888"
OUTLIER = "#c44e52"


def new_figure(panels: int = 1, width: float = 5.2, height: float = 4.0) -> tuple[Any, list[Axes]]:
    """A figure with panels side by side, drawn without a display."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * panels, height), dpi=130, layout="constrained")
    axes = figure.subplots(1, panels, sharex=True, sharey=True, squeeze=False)[0]
    return figure, list(axes)


def plot_fit(
    ax: Axes,
    grid: ArrayLike,
    prediction: Prediction,
    X: ArrayLike,
    y: ArrayLike,
    *,
    truth: ArrayLike | None = None,
    outlier_probability: ArrayLike | None = None,
    level: float = 0.95,
    title: str = "",
) -> None:
    """Predictive mean and central interval over a grid of one input, with the data.

    Parameters
    ----------
    ax : matplotlib Axes
    grid : array (m,)
        Inputs at which `prediction` was made, increasing.
    prediction : Prediction
    X, y : arrays (n,)
        Training data.
    truth : array (m,), optional
        The true function on the grid.
    outlier_probability : array (n,), optional
        Data above one half are marked.
    """
    grid, X, y = (np.asarray(a, dtype=float).ravel() for a in (grid, X, y))
    low, high = prediction.interval(level)
    ax.fill_between(grid, low, high, color=BAND, alpha=0.22, linewidth=0, label=f"{level:.0%} interval of y")
    ax.plot(grid, prediction.mean, color=BAND, linewidth=1.8, label="predictive mean")
    if truth is not None:
        ax.plot(grid, np.asarray(truth), color=TRUTH, linewidth=1.2, linestyle="--", label="true function")
    ax.plot(X, y, "o", color=DATA, markersize=3.2, label="data")
    if outlier_probability is not None:
        marked = np.asarray(outlier_probability) > 0.5
        ax.plot(
            X[marked],
            y[marked],
            "o",
            color=OUTLIER,
            markersize=8,
            fillstyle="none",
            label="called an outlier",
        )
    ax.set_title(title, fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
