"""Which inputs matter: bars, the largest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.measures.relevance import Relevance, inverse_lengthscales, sobol_total
from cavity.plots.style import BAND, DATA, axes_or_new, label, tick_names
from cavity.plots.view import View
from cavity.runtime.checks import require_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = {
    "variance": "share of variance (total Sobol index)",
    "lengthscale": "spread of the input / its length scale",
}

MOST_ROWS = 500
"""Rows at which "variance" is measured, at most."""


def relevance_of(
    model: Any,
    X: ArrayLike | None = None,
    measure: str = "variance",
    shuffles: int = 8,
    rng: np.random.Generator | int | None = 0,
    groups: Sequence[Sequence[int]] | None = None,
) -> Relevance:
    """Relevance of each input: the share of the variance of predictions that is due to it (total Sobol index).

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X : array (n, D), optional
        Rows at which to measure; those of the fit by default.
    measure : {"variance", "lengthscale"}
        As in `plot_relevance`.
    shuffles : int
    rng : int or Generator
        How often inputs are put into random orders.
    groups : lists of column numbers, optional
        Columns that are one input, for "variance".

    Returns
    -------
    Relevance
        `value` and Monte Carlo standard `error`, (D,) or one for each group.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import relevance_of
    >>> X = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    >>> model = GPRegressor(n_restarts=0, random_state=0).fit(X, np.sin(3 * X[:, 0]))
    >>> relevance_of(model).value.round(1)
    array([1., 0.])
    """
    view = View(model)
    rows, _ = view.data_or(X, None)
    require_one_of(measure, "measure", MEASURES)
    if measure == "lengthscale":
        kernels = [kernel for p in view.posteriors for kernel in _kernels(p.model.kernel)]
        value = np.max([inverse_lengthscales(kernel, rows) for kernel in kernels], axis=0)
        return Relevance(value, np.zeros(len(value)))
    if len(rows) > MOST_ROWS:
        rows = rows[np.sort(np.random.default_rng(rng).choice(len(rows), MOST_ROWS, replace=False))]
    return sobol_total(view.latent_means, rows, shuffles, rng, groups)


def _kernels(kernel: Any) -> list[Any]:
    """One, or one for each latent function."""
    return list(kernel.parts) if type(kernel).__name__ == "PerLatent" else [kernel]


def _short(value: float) -> str:
    return f"{value:.2g}" if value >= 0.001 or value == 0 else "< 0.001"


def plot_relevance(
    model: Any,
    X: ArrayLike | None = None,
    *,
    measure: str = "variance",
    top: int = 20,
    shuffles: int = 8,
    rng: np.random.Generator | int | None = 0,
    title: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Relevance of the inputs as bars, the largest first.

    Parameters
    ----------
    model : GPRegressor, GPClassifier, Posterior or SamplePosterior
    X : array (n, D), optional
        Rows at which to measure; those of the fit by default.
    measure : {"variance", "lengthscale"}
        "variance": the share of the variance of the posterior mean of f that is due to the input, alone or together
        with others (total Sobol index), if the inputs varied independently of each other, each as in X; shares add up
        to more than one if inputs interact. "lengthscale": standard
        deviation of the input over its shortest length scale (automatic relevance determination).
    top : int
        Inputs shown, at most.
    shuffles : int
    rng : int or Generator
        Of "variance": how often inputs are put into random orders; lines show two standard errors.
    title, ax : optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.plots import plot_relevance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20, 3))
    >>> model = GPRegressor(n_restarts=0, random_state=0)
    >>> ax = plot_relevance(model.fit(X, X[:, 0] + 2 * X[:, 1] + 0.1 * rng.standard_normal(20)))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['x2', 'x1', 'x3']
    """
    view = View(model)
    found = relevance_of(model, X, measure, shuffles, rng)
    order = np.argsort(-found.value, kind="stable")[:top]
    ax = axes_or_new(ax, 6.0, 0.9 + 0.32 * len(order))
    places = np.arange(len(order))
    value, error = found.value[order], found.error[order]
    ax.barh(places, value, color=BAND, height=0.65, edgecolor=DATA, linewidth=0.5)
    some = error > 0
    if some.any():
        ax.errorbar(
            value[some], places[some], xerr=2 * error[some], fmt="none", ecolor=DATA, elinewidth=1, capsize=2
        )
    longest = max(float(np.max(value + 2 * error)), 1e-300)
    for place, one, e in zip(places, value, error):
        ax.text(float(one + 2 * e + 0.015 * longest), float(place), _short(one), va="center", fontsize=8)
    ax.set_xlim(0, 1.12 * longest)
    tick_names(ax, "y", places.tolist(), [view.names[d] for d in order])
    ax.invert_yaxis()
    hidden = view.n_features - len(order)
    label(ax, x=MEASURES[measure] + (f"; {hidden} more not shown" if hidden else ""), title=title)
    return ax
