"""`model.plot()`: the picture that says most about a model.

| model | picture |
|---|---|
| draws (`SamplePosterior`) with hyperparameters | traces of the hyperparameters |
| one input | fit |
| two inputs | contours |
| up to six inputs | slices |
| more | relevance of inputs |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cavity.plots.contours import plot_contours
from cavity.plots.fit import plot_fit
from cavity.plots.relevance import plot_relevance
from cavity.plots.slices import plot_slices
from cavity.plots.style import panels_or_new
from cavity.plots.traces import plot_trace
from cavity.plots.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SLICES = 6
"""Inputs from which on bars say more than slices."""

MOST_TRACES = 6


def plot(model: Any, X: Any = None, y: Any = None, **options: Any) -> Any:
    """Draw what says most about a model: the table of `cavity.plots.auto`.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X, y : arrays, optional
        Data to show or to measure at; those of the fit by default.
    **options
        Passed on to `plot_fit`, `plot_contours`, `plot_slices`, `plot_relevance` or `plot_traces`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> x = np.linspace(0, 6, 12)[:, None]
    >>> ax = GPRegressor(n_restarts=0, random_state=0).fit(x, np.sin(x[:, 0])).plot()
    >>> ax.get_xlabel()
    'x'
    """
    trace = getattr(model, "trace", None)
    if trace is not None and trace.dim > 0:
        return plot_traces(model, **options)
    view = View(model)
    if view.n_features == 1:
        return plot_fit(model, X, y, **options)
    if view.n_features == 2:
        return plot_contours(model, X, y, **options)
    if view.n_features <= MOST_SLICES:
        return plot_slices(model, X, **options)
    return plot_relevance(model, X, **options)


def plot_traces(
    posterior: Any, names: Iterable[str] | None = None, *, ax: Axes | Iterable[Axes] | None = None
) -> list[Axes]:
    """Draws of several hyperparameters, a panel for each: see `plot_trace`.

    Parameters
    ----------
    posterior : SamplePosterior
    names : sequence of str, optional
        By default the first six hyperparameters.
    ax : Axes or several, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.inference import MCMC
    >>> from cavity.kernels import SE
    >>> from cavity.plots import plot_traces
    >>> X = np.linspace(0, 5, 8)[:, None]
    >>> rule = MCMC(n_draws=20, warmup=20, chains=2, rng=0, warn=False, progress=False)
    >>> axes = plot_traces(GP(1.0 * SE(1.0), inference=rule).condition(X, np.sin(X[:, 0])))
    >>> len(axes)  # variance, length scale, noise
    3
    """
    shown = list(posterior.draws.model.names)[:MOST_TRACES] if names is None else list(names)
    panels = panels_or_new(ax, len(shown), 2, 4.4, 2.2)
    for panel, name in zip(panels, shown):
        plot_trace(posterior, name, ax=panel)
    for panel in panels[1:]:
        found = panel.get_legend()
        if found is not None:
            found.remove()
    return panels
