"""What a kernel believes before data: covariance against distance, and functions drawn from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.gp import GP
from cavity.kernels import Kernel, parse
from cavity.kernels.algebra import On
from cavity.measures.kernel_components import short_text
from cavity.numerics.arrays import Array
from cavity.plots.style import TRUTH, color, label, legend, line, panels_or_new, plain
from cavity.runtime.checks import require_positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SCALES = ("lengthscale", "period", "scale")
"""Parameters that say how far to look."""


def plot_kernel(
    kernel: Kernel | str,
    *,
    column: int = 0,
    reach: float | None = None,
    origins: tuple[float, ...] | None = None,
    paths: int = 4,
    rng: np.random.Generator | int | None = 0,
    ax: Axes | Iterable[Axes] | None = None,
) -> list[Axes]:
    """Covariance against distance, and sample paths, along one input.

    Parameters
    ----------
    kernel : Kernel or str
        Or its text, as in "1.0 * SE(2.0)".
    column : int
        The input that varies; others are zero.
    reach : float, optional
        How far from the origin to look, on both sides; by default four of the largest length scale or period.
    origins : tuple of float, optional
        Points x0 of which k(x0, x0 + distance) is drawn. By default one where it is the same everywhere, else three.
    paths : int
        Number of functions drawn.
    rng : int or Generator
    ax : Axes or two of them, optional

    Examples
    --------
    >>> from cavity.plots import plot_kernel
    >>> left, right = plot_kernel("1.0 * SE(2.0)")
    >>> len(right.lines)
    4
    """
    if isinstance(kernel, str):
        kernel = parse(kernel)
    if not isinstance(kernel, Kernel):
        raise ValueError(f"kernel must be a cavity kernel or its text, got {kernel!r}")
    D = max(_width(kernel), column + 1)
    kernel = kernel.bind(D)
    if reach is None:
        reach = 4.0 * max(_scales(kernel), default=1.25)
    require_positive(reach, "reach")
    distance = np.linspace(-reach, reach, 401)
    if origins is None:
        curves = [_covariance(kernel, D, column, x0, distance) for x0 in (0.0, reach / 2)]
        same = np.allclose(curves[0], curves[1], rtol=1e-6, atol=1e-9 * max(np.abs(curves[0]).max(), 1e-300))
        origins = (0.0,) if same else (-reach / 2, 0.0, reach / 2)
    left, right = panels_or_new(ax, 2, 2, 4.4, 3.2)
    for i, x0 in enumerate(origins):
        name = f"from x = {x0:.3g}" if len(origins) > 1 else None
        k = _covariance(kernel, D, column, x0, distance)
        left.plot(distance, k, color=color(i), ls=line(i), lw=1.8, label=name)
    left.axhline(0.0, color=TRUTH, linewidth=0.7, linestyle=":")
    label(left, "distance", "covariance", plain(short_text(kernel), 60))
    legend(left)
    draws = GP(kernel).sample_prior(_rows(D, column, distance), paths, rng) if paths else np.empty((0, 401))
    for i, f in enumerate(draws):
        right.plot(distance, f, color=color(i), linestyle=line(i), linewidth=1.4)
    label(right, "x", "f", f"{paths} functions drawn")
    return [left, right]


def _rows(D: int, column: int, values: Array) -> Array:
    rows = np.zeros((len(values), D))
    rows[:, column] = values
    return rows


def _covariance(kernel: Kernel, D: int, column: int, origin: float, distance: Array) -> Array:
    """k(x0, x0 + distance), without white noise but at distance zero."""
    K = kernel(_rows(D, column, np.array([origin])), _rows(D, column, origin + distance))
    return np.asarray(K[0])


def _width(part: Any) -> int:
    """Number of input columns that a kernel needs."""
    if isinstance(part, On) and not isinstance(part.dims[0], str):
        return int(max(part.dims)) + 1
    own = getattr(part, "n_dims", None) or 1
    return max([own, *(_width(inner) for inner in part.parts)])


def _scales(kernel: Kernel) -> list[float]:
    found = []
    for _, name, param in kernel._walk():
        if name in SCALES:
            found += [float(v) for v in param.array]
    return found
