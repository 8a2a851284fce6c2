"""Two inputs: probabilities of classes with decision boundary and reject region, or mean and sd of predictions.

The boundary is where the decision of smallest expected loss changes; cases are declined where even that decision has
an expected loss above what declining costs (see `cavity.estimators.decisions`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.plots.style import BLACK, BLUE, VERMILION, axes_or_new, color, label, marker, plain
from cavity.plots.view import MARGIN, View, pick

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LABELED = (0.1, 0.25, 0.75, 0.9)
"""Probabilities whose contours are drawn and labeled, beside the boundary."""

SHADES = (BLUE, "#9ec4dd", "#f3cfa8", "#fbe6cc")
"""From the first of two classes to the second: two hues, and lighter all the way, so that grey tells them apart."""


def plot_contours(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    columns: tuple[int | str, int | str] = (0, 1),
    at: ArrayLike | None = None,
    reject: float | None = None,
    loss: ArrayLike | None = None,
    target: int = 0,
    resolution: int = 100,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Predictions over two inputs, with the data.

    Parameters
    ----------
    model : GPClassifier, GPRegressor, Posterior or SamplePosterior
    X, y : arrays (n, D), (n,), optional
        Data to show; those of the fit by default. With more than two inputs they are seen from above.
    columns : pair of int or str
        The two inputs.
    at : array (D,), optional
        Values of the other inputs; by default those of the row nearest to the medians.
    reject : float, optional
        What declining to decide costs: the region in which cases are declined is hatched.
    loss : array (C, C), optional
        loss[c, d] of deciding d if c is true; 0/1 loss by default.
    target : int
        Which of several targets.
    resolution : int
        Places along each input.
    title, ax : optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPClassifier
    >>> from cavity.plots import plot_contours
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    >>> model = GPClassifier(n_restarts=0, random_state=0).fit(X, X[:, 0] > 0)
    >>> plot_contours(model, reject=0.2).get_ylabel()
    'x2'
    """
    view = View(model)
    if len(columns) != 2 or view.n_features < 2:
        raise ValueError(f"plot_contours needs two inputs, got columns={columns!r} of {view.n_features}")
    i, j = (view.column(c) for c in columns)
    if i == j:
        raise ValueError(f"columns must be two different inputs, got {columns!r}")
    rows, targets = view.data_or(X, y)
    center = view.center(rows, at)
    gx, gy = (_axis(rows[:, c], resolution) for c in (i, j))
    places = np.repeat(center[None], resolution**2, axis=0)
    places[:, i], places[:, j] = (a.ravel() for a in np.meshgrid(gx, gy))
    ax = axes_or_new(ax, 5.6, 4.6)
    if view.classes is None:
        if reject is not None or loss is not None:
            raise ValueError("reject and loss are for classifiers; this model predicts numbers")
        _draw_numbers(ax, view, places, gx, gy, rows[:, [i, j]], targets, target)
    else:
        from cavity.estimators.decisions import check_loss

        probabilities = view.probabilities(places).reshape(resolution, resolution, -1)
        _draw_regions(ax, gx, gy, probabilities, view.classes)
        _draw_decisions(ax, gx, gy, probabilities, check_loss(loss, len(view.classes)), reject)
        if targets is not None:
            _draw_points(ax, rows[:, [i, j]], targets, view.classes)
        _explain(ax, view.classes, targets is not None, reject)
    ax.set(xlim=(gx[0], gx[-1]), ylim=(gy[0], gy[-1]))
    label(ax, plain(view.names[i]), plain(view.names[j]), title, frame=True)
    return ax


def _axis(values: Array, count: int) -> Array:
    low, high = float(values.min()), float(values.max())
    pad = 1.5 * MARGIN * (high - low) or 0.5
    return np.linspace(low - pad, high + pad, count)


# --- classes ------------------------------------------------------------------------------------------------


def _draw_regions(ax: Axes, gx: Array, gy: Array, probabilities: Array, classes: NDArray[Any]) -> None:
    """Probability of the second of two classes; for more, colors of the classes, pale where they are uncertain."""
    if len(classes) == 2:
        from matplotlib.colors import LinearSegmentedColormap

        colors = LinearSegmentedColormap.from_list("classes", list(SHADES))
        filled = ax.contourf(
            gx, gy, probabilities[:, :, 1], levels=np.linspace(0, 1, 21), cmap=colors, alpha=0.75, zorder=0
        )
        figure: Any = ax.figure
        bar = figure.colorbar(filled, ax=ax, ticks=[0, 0.25, 0.5, 0.75, 1], shrink=0.85)
        bar.ax.set_ylabel(f"P({plain(classes[1])})", parse_math=False)
        lines = ax.contour(gx, gy, probabilities[:, :, 1], levels=LABELED, colors="0.25", linewidths=0.6)
        ax.clabel(lines, fmt="%g", fontsize=7)
        return
    from matplotlib.colors import to_rgb

    palette = np.array([to_rgb(color(c)) for c in range(len(classes))])
    # certainty 1/C is white, certainty 1 the full color
    pale = np.clip((probabilities - 1 / len(classes)) / (1 - 1 / len(classes)), 0.0, 1.0)
    image = 1.0 - 0.6 * np.einsum("xyc,cr->xyr", pale, 1.0 - palette)
    look: dict[str, Any] = {"origin": "lower", "aspect": "auto", "interpolation": "bilinear", "zorder": 0}
    ax.imshow(np.clip(image, 0.0, 1.0), extent=(gx[0], gx[-1], gy[0], gy[-1]), **look)


def expected_losses(probabilities: Array, loss: Array) -> tuple[Array, Array]:
    """Margin (..., C) by which each decision is better than the best other one, and the smallest expected loss."""
    expected = probabilities @ loss
    best_two = np.sort(expected, axis=-1)[..., :2]
    others = np.where(expected == best_two[..., :1], best_two[..., 1:], best_two[..., :1])
    return others - expected, best_two[..., 0]


def _draw_decisions(
    ax: Axes, gx: Array, gy: Array, probabilities: Array, loss: Array, reject: float | None
) -> None:
    margins, smallest = expected_losses(probabilities, loss)
    for c in range(1 if margins.shape[2] == 2 else 0, margins.shape[2]):
        if margins[:, :, c].min() < 0 < margins[:, :, c].max():
            ax.contour(gx, gy, margins[:, :, c], levels=[0.0], colors=BLACK, linewidths=1.6)
    if reject is not None:
        from cavity.estimators.decisions import check_reject

        excess = smallest - check_reject(reject)
        if excess.max() > 0:
            from matplotlib import rc_context

            with rc_context({"hatch.linewidth": 0.5}):
                ax.contourf(gx, gy, excess, levels=[0.0, np.inf], colors="none", hatches=["////"])


def _draw_points(ax: Axes, points: Array, labels: NDArray[Any], classes: NDArray[Any]) -> None:
    for c, name in enumerate(classes):
        own = labels == name
        shade = (BLUE, VERMILION)[c] if len(classes) == 2 else color(c)
        look: dict[str, Any] = {"ls": "none", "ms": 5, "mfc": shade, "mec": "white", "mew": 0.6}
        ax.plot(*points[own].T, marker=marker(c), label=f"class {plain(name)}", **look)


def _explain(ax: Axes, classes: NDArray[Any], points: bool, reject: float | None) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles, labels = ax.get_legend_handles_labels() if points else ([], [])
    handles = [*handles, Line2D([], [], color=BLACK, linewidth=1.6)]
    labels = [*labels, "decision boundary"]
    if reject is not None:
        handles.append(Patch(facecolor="white", edgecolor="0.2", hatch="////", linewidth=0.5))
        labels.append(f"declined at cost {reject:g}")
    if len(classes) > 2 and not points:
        handles += [Patch(facecolor=color(c), alpha=0.6) for c in range(len(classes))]
        labels += [f"class {plain(name)}" for name in classes]
    shown = ax.legend(handles, labels, fontsize=8, framealpha=0.85, edgecolor="none")
    for text in shown.get_texts():
        text.set_parse_math(False)


# --- numbers ------------------------------------------------------------------------------------------------


def _draw_numbers(
    ax: Axes, view: View, places: Array, gx: Array, gy: Array, points: Array, targets: Any, target: int
) -> None:
    """Mean as filled contours, sd of f as dashed lines, data in the colors of the mean."""
    shape = (len(gy), len(gx))
    source = view.posterior.mean(places) if view.is_location else view.predict_y(places).mean
    mean = pick(np.asarray(source), target).reshape(shape)
    sd = np.sqrt(pick(np.asarray(view.predict_f(places).variance), target)).reshape(shape)
    filled = ax.contourf(gx, gy, mean, levels=14, cmap="cividis", zorder=0)
    figure: Any = ax.figure
    figure.colorbar(filled, ax=ax, shrink=0.85, label="mean of y")
    if sd.max() > 1.001 * sd.min():
        lines = ax.contour(gx, gy, sd, levels=4, colors="white", linewidths=0.9, linestyles="--")
        ax.clabel(lines, fmt=lambda v: f"sd {v:.2g}", fontsize=7)
    if targets is not None:
        values = pick(np.asarray(targets, dtype=float), target)
        look: dict[str, Any] = {"norm": filled.norm, "edgecolors": "white", "lw": 0.6, "label": "data"}
        ax.scatter(points[:, 0], points[:, 1], s=22, c=values, cmap="cividis", **look)
