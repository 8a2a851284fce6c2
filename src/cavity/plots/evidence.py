"""Learning in pictures: what every start reached, and the evidence around the values learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.measures.evidence import evidence_surface, optima
from cavity.plots.style import (
    TRUTH,
    VERMILION,
    axes_or_new,
    color,
    label,
    legend,
    marker,
    plain,
    tick_names,
)
from cavity.plots.view import View
from cavity.runtime.checks import require_between

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BELOW = (50.0, 20.0, 10.0, 5.0, 2.0, 0.5)
"""Nats below the best at which contours are drawn."""

LINEAR_UP_TO = 20.0
"""Nats between the best and the worst run beyond which the scale is logarithmic above one nat."""


def plot_runs(model: Any, *, problem: int = 0, title: str = "", ax: Axes | None = None) -> Axes:
    """How far below the best every run of the optimizer ended, so that local optima can be seen.

    Runs with the same number (and marker) reached the same value, to 0.01 nats; hollow ones had not converged. Where
    runs differ by more than 20 nats the scale is logarithmic from one nat on.

    Parameters
    ----------
    model : GPRegressor or GPClassifier
        Fitted, with learned hyperparameters.
    problem : int
        Which of several models of a classifier.
    title, ax : optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_runs
    >>> x = np.linspace(0, 6, 10)[:, None]
    >>> ax = plot_runs(GPRegressor(n_restarts=1, random_state=0).fit(x, np.sin(x[:, 0])))
    >>> ax.get_ylabel() != ""
    True
    """
    runs = _runs(model, problem)
    values = np.array([run.value for run in runs])
    number = optima(values)
    order = np.argsort(-np.where(np.isfinite(values), values, -np.inf), kind="stable")
    finite = values[np.isfinite(values)]
    best = float(finite.max())
    ax = axes_or_new(ax, max(4.5, 1.5 + 0.55 * len(runs)), 3.6)
    gap = best - values
    seen: set[int] = set()
    for place, r in enumerate(order):
        if not np.isfinite(values[r]):
            below = ax.get_xaxis_transform()
            ax.text(place, 0.02, "failed", rotation=90, fontsize=8, transform=below, ha="center")
            continue
        k = int(number[r])
        filled: Any = "full" if runs[r].converged else "none"
        name = None if k in seen else f"optimum {k + 1}"
        ax.plot(
            place, gap[r], ls="none", marker=marker(k), color=color(k), ms=8, fillstyle=filled, label=name
        )
        seen.add(k)
    ax.axhline(0.0, color=TRUTH, linewidth=0.8, linestyle=":")
    worst = max(float(np.max(best - finite)), 1.0)
    if worst > LINEAR_UP_TO:
        from matplotlib.ticker import FormatStrFormatter

        ax.set_yscale("symlog", linthresh=1.0)
        ax.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.set_ylim(1.6 * worst, -0.3)  # the best on top
    else:
        ax.set_ylim(1.1 * worst, -0.1 * worst)
    tick_names(ax, "x", np.arange(len(order)).tolist(), [runs[r].kind for r in order])
    ax.tick_params(axis="x", labelrotation=35)
    ax.set_xlim(-0.6, len(order) - 0.4)
    label(ax, "start", "nats below the best", title or f"best objective {best:.2f}")
    if len(seen) <= 7:
        legend(ax)
    return ax


def _runs(model: Any, problem: int) -> list[Any]:
    members = getattr(model, "members_", None)
    if members is None:
        raise ValueError(
            f"plot_runs needs a fitted estimator, which has members_, got {type(model).__name__}"
        )
    require_between(problem, "problem", 0, len(members) - 1)
    runs = members[problem].runs
    if not any(np.isfinite(run.value) for run in runs):
        raise ValueError("there are no runs of the optimizer: hyperparameters were not learned here")
    return list(runs)


def plot_hyperparameters(
    model: Any,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    pair: tuple[str, str] | None = None,
    *,
    span: float = 10.0,
    resolution: int = 25,
    problem: int = 0,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Contours of the log evidence over two hyperparameters, the others as they are.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or GP
        Its hyperparameters are the center, marked by a star.
    X, y : arrays, optional
        Data; those of the fit by default (labels of a classifier with two classes as -1 and +1 for a `GP`).
    pair : two names, optional
        As in `model.model_.names`, for instance ("se.lengthscale", "gaussian.variance"); the first two by default.
    span : float
        Positive parameters go from 1/span to span times their value.
    resolution : int
        Places along each; the evidence is evaluated at the square of that many.
    problem : int
        Which of several models of a classifier.
    title, ax : optional

    Returns
    -------
    Axes
        Contours are at 0.5, 2, 5, 10, 20 and 50 nats below the highest value on the grid.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_hyperparameters
    >>> x = np.linspace(0, 6, 10)[:, None]
    >>> model = GPRegressor(n_restarts=0, random_state=0).fit(x, np.sin(x[:, 0]))
    >>> ax = plot_hyperparameters(model, pair=("se.lengthscale[0]", "se.variance"), resolution=4)
    >>> ax.get_xlabel()
    'se.lengthscale[0]'
    """
    gp, inputs, targets, weight = _problem(model, X, y, problem)
    if len(gp.names) < 2:
        raise ValueError(f"plot_hyperparameters needs two free hyperparameters, got {list(gp.names)}")
    chosen = (gp.names[0], gp.names[1]) if pair is None else (pair[0], pair[1])
    found = evidence_surface(
        gp, inputs, targets, chosen, span=span, resolution=resolution, sample_weight=weight
    )
    ax = axes_or_new(ax, 5.4, 4.4)
    top = float(np.nanmax(np.append(found.log_evidence.ravel(), found.best)))
    below = found.log_evidence - top
    lowest = min(float(np.nanmin(below, initial=0.0)), -BELOW[0]) - 1.0
    levels = [lowest, *(-b for b in BELOW), 0.0]
    ax.contourf(found.x, found.y, below, levels=levels, colors=_shades(len(levels) - 1))
    lines = ax.contour(found.x, found.y, below, levels=[-b for b in BELOW], colors="white", linewidths=0.8)
    ax.clabel(lines, fmt="%g", fontsize=7)
    name = f"the model, log evidence {found.best:.2f}"
    ax.plot(*found.at, "*", color=VERMILION, ms=14, mec="white", ls="none", label=name)
    for set_scale, logarithmic in zip((ax.set_xscale, ax.set_yscale), found.logarithmic):
        set_scale("log" if logarithmic else "linear")
    title = title or "log evidence, nats below the highest"
    label(ax, plain(found.names[0]), plain(found.names[1]), title, frame=True)
    legend(ax)
    return ax


def _shades(count: int) -> list[Any]:
    """From dark to light, but not so light that white lines would vanish."""
    from matplotlib import colormaps

    return [colormaps["cividis"](v) for v in np.linspace(0.0, 0.75, count)]


def _problem(model: Any, X: ArrayLike | None, y: ArrayLike | None, problem: int) -> tuple[Any, Any, Any, Any]:
    """The GP, inputs, targets and weights."""
    if hasattr(model, "condition"):
        if X is None or y is None:
            raise ValueError("a GP holds no data: give X and y")
        return model.bind(np.asarray(X).reshape(len(np.asarray(X)), -1).shape[1]), X, y, None
    view = View(model)
    posterior = view.the_posterior(problem)
    if not hasattr(posterior, "approximation") or not np.isfinite(posterior.log_evidence):
        raise ValueError("this model has no log evidence (draws have none); use plot_trace")
    if X is None:
        return posterior.model, posterior.data.X, posterior.data.y, posterior.data.weight
    inputs, targets = view.data_or(X, y)
    if targets is None:
        raise ValueError("y must be given with X")
    if view.is_estimator and view.classes is not None:
        if len(view.classes) != 2:
            raise ValueError("for more than two classes leave out X and y: the data of the fit are used")
        targets = np.where(targets == view.classes[1], 1.0, -1.0)
    return posterior.model, inputs, targets, None
