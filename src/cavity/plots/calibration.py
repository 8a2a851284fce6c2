"""Are predictions to be believed: PIT histograms, reliability diagrams, residuals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.measures.calibration import (
    events,
    normal_order_band,
    pit,
    pit_band,
    pit_histogram,
    quantile_residuals,
    reliability,
)
from cavity.numerics.arrays import Array
from cavity.plots.style import BAND, DATA, TRUTH, axes_or_new, label, legend, panels_or_new, plain
from cavity.plots.view import View, pick
from cavity.prediction import GaussianPrediction, Prediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_calibration(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    bins: int = 10,
    level: float = 0.95,
    event: Any = None,
    target: int = 0,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Calibration on data that were not learned from.

    Regression: histogram of the probability integral transform, which is flat for a calibrated model, with the band
    in which each bar stays. A hump in the middle means bands too wide, a trough bands too narrow, a slope a bias.
    Classification: observed share against stated probability, with Wilson's intervals; the diagonal is calibrated.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X, y : arrays (n, D), (n,), optional
        Held-out data. Without them a `GPRegressor` is judged by its leave-one-out predictions.
    bins : int
    level : float
        Probability of the band and of the intervals.
    event : class, optional
        Of which class probabilities are judged; by default the second of two, or for more than two the most probable
        one (is it right as often as stated?).
    target : int
        Which of several targets.
    title, ax : optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_calibration
    >>> x = np.random.default_rng(0).uniform(0, 6, (40, 1))
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(40)
    >>> model = GPRegressor(n_restarts=0, random_state=0).fit(x[:20], y[:20])
    >>> ax = plot_calibration(model, x[20:], y[20:], bins=5)
    >>> len(ax.patches) >= 5
    True
    """
    view = View(model)
    if view.classes is not None:
        return _plot_reliability(view, X, y, bins, level, event, title, axes_or_new(ax, 4.6, 4.4))
    prediction, targets, source = _held_out(view, X, y, target)
    heights = pit_histogram(*pit(prediction, targets, _is_discrete(view)), bins)
    low, high = pit_band(len(targets), bins, level)
    ax = axes_or_new(ax, 5.2, 3.6)
    width = 1.0 / bins
    expected = f"{level:.0%} of the bars of a calibrated model"
    ax.axhspan(low, high, color=TRUTH, alpha=0.25, lw=0, label=expected)
    ax.axhline(1.0, color=TRUTH, lw=1.0, ls="--")
    middles = (np.arange(bins) + 0.5) * width
    ax.bar(middles, heights, 0.92 * width, facecolor=BAND, alpha=0.75, edgecolor=DATA, lw=0.6)
    ax.set(xlim=(0, 1), ylim=(0, 1.25 * max(high, float(heights.max()))))
    label(ax, "probability of a smaller y", "density", title or f"{len(targets)} rows, {source}")
    legend(ax, loc="upper center")
    return ax


def _plot_reliability(
    view: View, X: Any, y: Any, bins: int, level: float, event: Any, title: str, ax: Axes
) -> Axes:
    assert view.classes is not None
    if X is None or y is None:
        raise ValueError("the calibration of classes needs held-out data: give X and y")
    inputs, labels = view.data_or(X, y)
    assert labels is not None
    p, happened, name = events(view.probabilities(inputs), labels, view.classes, event)
    found = reliability(p, happened, bins, level)
    ax.plot([0, 1], [0, 1], color=TRUTH, linewidth=1.0, linestyle="--", label="calibrated")
    ends, area = (
        np.array([found.observed - found.low, found.high - found.observed]),
        found.count / found.count.max(),
    )
    bars: dict[str, Any] = {"fmt": "none", "ecolor": BAND, "elinewidth": 1.2, "capsize": 3}
    ax.errorbar(found.stated, found.observed, yerr=ends, label=f"{level:.0%} interval", **bars)
    dots: dict[str, Any] = {"facecolor": BAND, "edgecolor": "white", "lw": 0.6, "zorder": 3}
    ax.scatter(found.stated, found.observed, s=12 + 120 * area, label="observed, area by rows", **dots)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    label(ax, f"stated probability of {plain(name)}", "observed share", title or f"{len(labels)} rows")
    legend(ax, loc="upper left")
    return ax


def plot_residuals(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    level: float = 0.95,
    target: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Residuals against predictions, and their quantiles against those of a normal distribution.

    Residuals are Phi^-1 of the predicted probability of a smaller y: (y - mean) / sd for normal predictions, and
    standard normal under the fitted noise model whatever that is. So a heavy tail that the noise model knows about
    does not show as one.

    Parameters
    ----------
    model : GPRegressor, Posterior or SamplePosterior
    X, y : arrays (n, D), (n,), optional
        Held-out data. Without them a `GPRegressor` is judged by its leave-one-out predictions.
    level : float
        Probability of the band in which each quantile stays.
    target : int
    ax : Axes or two of them, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_residuals
    >>> x = np.linspace(0, 6, 20)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(1).standard_normal(20)
    >>> len(plot_residuals(GPRegressor(n_restarts=0, random_state=0).fit(x, y), x, y))
    2
    """
    view = View(model)
    if view.classes is not None:
        raise ValueError(
            "residuals are for regression; plot_calibration shows how reliable probabilities are"
        )
    prediction, targets, source = _held_out(view, X, y, target)
    z = quantile_residuals(prediction, targets, _is_discrete(view))
    finite = np.isfinite(z)
    beyond = int(np.sum(~finite))
    left, right = panels_or_new(ax, 2, 2, 4.2, 3.6)
    center = prediction.mean if view.is_location or _is_discrete(view) else prediction.median
    left.axhspan(-1.96, 1.96, color=TRUTH, alpha=0.18, linewidth=0, label="95% if normal")
    left.axhline(0.0, color=TRUTH, linewidth=1.0, linestyle="--")
    left.plot(np.asarray(center)[finite], z[finite], "o", color=BAND, markersize=3.5, alpha=0.8)
    label(left, "prediction", "standardized residual", f"{len(z)} rows, {source}")
    legend(left)

    middle, low, high = normal_order_band(len(z), level)
    sorted_z = np.sort(z)
    shown = np.isfinite(sorted_z)
    right.fill_between(middle, low, high, color=TRUTH, alpha=0.25, linewidth=0, label=f"{level:.0%} of each")
    right.plot(middle, middle, color=TRUTH, linewidth=1.0, linestyle="--")
    right.plot(middle[shown], sorted_z[shown], "o", color=BAND, markersize=3.5)
    note = f"{beyond} residuals beyond all digits are not shown" if beyond else ""
    label(right, "normal quantile", "residual quantile", note)
    legend(right, loc="upper left")
    return [left, right]


def _is_discrete(view: View) -> bool:
    return bool(view.posterior.model.likelihood.discrete)


def _held_out(
    view: View, X: ArrayLike | None, y: ArrayLike | None, target: int
) -> tuple[Prediction, Array, str]:
    """Predictions, targets, and where they are from."""
    if X is None:
        if y is not None or not hasattr(view.model, "leave_one_out"):
            raise ValueError("give X and y, data that the model has not seen")
        _, targets = view.data
        prediction, source = view.model.leave_one_out(), "leave-one-out"
    else:
        inputs, given = view.data_or(X, y)
        if given is None:
            raise ValueError("y must be given with X")
        targets, source = given, "data given"
        prediction = view.predict_y(inputs)
    if np.ndim(prediction.mean) > 1:
        prediction = GaussianPrediction(
            pick(np.asarray(prediction.mean), target), pick(np.asarray(prediction.variance), target)
        )
    return prediction, pick(np.asarray(targets, dtype=float), target), source
