"""Pictures of Markov chains: what they drew, and how long they remember. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.plots.style import PALETTE, TRUTH, axes_or_new, color, label, legend, line
from cavity.runtime.checks import require_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _draws(source: Any, name: str | None) -> tuple[Array, str]:
    """Draws (C, T) of one quantity and its name, from an array, a `Trace` or a `SamplePosterior`."""
    if hasattr(source, "natural") and hasattr(source, "trace"):  # a SamplePosterior: natural units
        names = [*source.draws.model.names, "log_density"]
        label = names[0] if name is None else name
        require_one_of(label, "name", names)
        at = names.index(label)
        return (source.trace.log_density if label == "log_density" else source.natural[:, :, at]), label
    if hasattr(source, "positions"):
        names = [*source.names, "log_density"]
        label = names[0] if name is None else name
        return (source.log_density if label == "log_density" else source[label]), label
    x: Array = np.array(source, dtype=float, ndmin=2)
    if x.ndim != 2:
        raise ValueError(f"draws must have shape (chains, draws), got {x.shape}")
    return x, name or "value"


def plot_trace(source: Any | ArrayLike, name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Draws of one quantity against their number, a line per chain, with the mean of all.

    Parameters
    ----------
    source : SamplePosterior, Trace or array (C, T)
    name : str, optional
        Which quantity, for instance "se.lengthscale" or "log_density"; the first by default.
    ax : Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.plots import plot_trace
    >>> ax = plot_trace(np.random.default_rng(0).standard_normal((4, 100)))
    >>> ax.get_xlabel()
    'draw'
    """
    x, called = _draws(source, name)
    ax = axes_or_new(ax, 6.4, 3.2)
    for c, chain in enumerate(x):
        ax.plot(
            np.arange(1, len(chain) + 1), chain, color=color(c), lw=0.7, alpha=0.8, label=f"chain {c + 1}"
        )
    ax.axhline(float(x.mean()), color=TRUTH, linewidth=1.0, linestyle="--", zorder=0)
    ax.set_xlim(1, max(x.shape[1], 2))
    label(ax, "draw", called)
    _legend(ax, len(x))
    return ax


def plot_autocorrelation(
    source: Any | ArrayLike, name: str | None = None, *, lags: int = 50, ax: Axes | None = None
) -> Axes:
    """Autocorrelation of one quantity, a line per chain; the band is what independent draws would stay within.

    Parameters
    ----------
    source : SamplePosterior, Trace or array (C, T)
    name : str, optional
        Which quantity; the first by default.
    lags : int
        Largest distance of draws.
    ax : Axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.plots import plot_autocorrelation
    >>> ax = plot_autocorrelation(np.random.default_rng(0).standard_normal((2, 200)), lags=20)
    >>> ax.get_xlabel()
    'lag'
    """
    from cavity.sampling.diagnostics import autocorrelation, ess_bulk

    x, called = _draws(source, name)
    ax = axes_or_new(ax, 6.4, 3.2)
    lags = min(lags, x.shape[1] - 1)
    bound = 1.96 / np.sqrt(x.shape[1])
    ax.axhspan(-bound, bound, color=TRUTH, alpha=0.2, linewidth=0)
    ax.axhline(0.0, color=TRUTH, linewidth=0.8)
    correlation = np.nan_to_num(autocorrelation(x, lags))  # zero for a chain that does not move
    correlation[:, 0] = 1.0
    for c, rho in enumerate(correlation):
        ax.plot(np.arange(lags + 1), rho, color=color(c), ls=line(c), lw=1.2, label=f"chain {c + 1}")
    ax.set_xlim(0, max(lags, 1))
    ax.set_ylim(min(-0.2, ax.get_ylim()[0]), 1.02)
    size = f"effective sample size {float(ess_bulk(x)):.0f} of {x.size}" if x.shape[1] >= 4 else ""
    label(ax, "lag", f"autocorrelation of {called}", size)
    _legend(ax, len(x))
    return ax


def _legend(ax: Axes, chains: int) -> None:
    if 1 < chains <= len(PALETTE):
        legend(ax, fontsize=7, ncols=chains, loc="upper right")
