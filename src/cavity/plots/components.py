"""The terms of a sum kernel after seeing data, one picture each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike
from scipy.special import ndtri

from cavity.measures.kernel_components import additive_components
from cavity.plots.style import DATA, color, label, legend, line, panels_or_new, plain
from cavity.plots.view import View, grid_of, slice_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_components(
    model: Any,
    X: ArrayLike | None = None,
    *,
    column: int | str = 0,
    at: ArrayLike | None = None,
    centered: bool = True,
    level: float = 0.95,
    problem: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Posterior mean and band of each term of a sum kernel, along one input.

    Bands are of each term alone: what the data do not tell apart is uncertain in both terms, even if the sum is
    known. Data hardly ever tell how a constant is divided among the terms; so by default each term is drawn minus its
    average over the picture. As they are (`centered=False`), the means of all terms, and of the mean function if
    there is one, add up to the posterior mean of f.

    Parameters
    ----------
    model : GPRegressor, GPClassifier or Posterior
    X : array (n, D), optional
        Rows that say how far the input goes and what is central; those of the fit by default.
    column : int or str
        The input that varies.
    at : array (D,), optional
        Values of the other inputs; by default those of the row nearest to the medians.
    centered : bool
        Whether to subtract the average of each term over the places drawn.
    level : float
        Probability of the bands.
    problem : int
        Which of several models of a classifier.
    ax : Axes or several, optional

    Returns
    -------
    list of Axes
        One for each term.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPRegressor
    >>> from cavity.kernels import SE, Linear
    >>> from cavity.plots import plot_components
    >>> x = np.linspace(0, 6, 15)[:, None]
    >>> model = GPRegressor(1.0 * SE(1.0) + Linear(), n_restarts=0, random_state=0)
    >>> axes = plot_components(model.fit(x, x[:, 0] + np.sin(3 * x[:, 0])))
    >>> len(axes)  # of each term, and of the mean
    3
    """
    view = View(model)
    rows, _ = view.data_or(X, None)
    d = view.column(column)
    center = view.center(rows, at)
    grid, discrete = grid_of(rows[:, d], 300)
    found = additive_components(view.the_posterior(problem), slice_rows(center, d, grid), centered)
    panels = panels_or_new(ax, len(found), 2 if len(found) in (2, 4) else 3, 3.8, 2.6)
    z = float(ndtri(0.5 + level / 2))
    for i, (panel, one) in enumerate(zip(panels, found)):
        if discrete:
            panel.errorbar(grid, one.mean, z * one.sd, fmt="o", color=color(i), capsize=3, label="mean")
        else:
            low, high = one.mean - z * one.sd, one.mean + z * one.sd
            panel.fill_between(grid, low, high, color=color(i), alpha=0.22, lw=0, label=f"{level:.0%}")
            panel.plot(grid, one.mean, color=color(i), ls=line(i), lw=1.7, label="mean")
        panel.axhline(0.0, color=DATA, linewidth=0.5, linestyle=":")
        label(panel, plain(view.names[d]), f"term {i + 1}", plain(one.name, 46))
        panel.title.set_fontsize(9)
    legend(panels[0], fontsize=7)
    return panels
