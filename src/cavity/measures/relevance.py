"""How much predictions depend on each input, and what they are on average along one.

Relevance is the total Sobol index of the posterior mean m of f (Homma and Saltelli 1996), by Jansen's (1999) formula,

    S_d = E (m(z) - m(z with z_d of z'))^2 / E (m(z) - m(z'))^2,

where the columns of z and z' are drawn independently of each other from the values they have in the data: the share of
the variance of m(z) that is due to input d, alone or together with others. It is what the command line, the report and
`cavity.plots` all show, because it means the same for every model: a share, about the function that was learned, in any
units and whatever the kernel. For an additive m the indices add up to one; with interactions to more.

Columns are independent for this to be a share: of two that go together and act against each other (lengths of an
animal, whose difference tells its sex), each alone would move predictions by more than their whole variance in the
data. Columns that stand for one input, such as the 0/1 columns of a text column, stay together.

Pictures can show another quantity on request.

- "lengthscale": spread of the column (standard deviation) over its length scale, the shortest if several terms of
  the kernel have one. It is about the kernel: how often the function may turn within the data. An input of a large
  length scale may still matter much (through a linear trend).

Partial dependence. The average over the data of f at x_d = g, others as in the rows, is a linear functional of f: its
posterior is normal with mean a'm and variance a'Ca, a = 1/n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.additive import Additive
from cavity.kernels.algebra import On
from cavity.kernels.base import Kernel
from cavity.kernels.standardized import Standardized
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer
from cavity.runtime.progress import Progress


@dataclass(frozen=True)
class Relevance:
    """Of each input, shape (D,), with the Monte Carlo standard error (zero if there is none)."""

    value: Array
    error: Array


def sobol_total(
    mean: Callable[[Array], Array],
    X: Array,
    shuffles: int = 8,
    rng: np.random.Generator | int | None = 0,
    groups: Sequence[Sequence[int]] | None = None,
) -> Relevance:
    """Total Sobol indices of a function (m, D) -> (m,) or (m, L) of independent columns, each distributed as in X.

    With `groups`, lists of column numbers, the columns of a group are taken together, and there is an index for each
    group.

    In each shuffle the columns of X are put into random orders of their own, twice: z and z'. Numerator and denominator
    are measured on the same pairs, so that their errors go together, and an index of all columns at once is one.
    """
    n = len(X)
    inputs = [
        np.array(g, dtype=np.intp) for g in (np.arange(X.shape[1])[:, None] if groups is None else groups)
    ]
    require_integer(shuffles, "shuffles", 1)
    rng = np.random.default_rng(rng)

    def shuffled() -> Array:
        Z = X.copy()
        for columns in inputs:
            Z[:, columns] = X[np.ix_(rng.permutation(n), columns)]
        return Z

    def values(Z: Array) -> Array:
        return np.asarray(mean(Z), dtype=float).reshape(n, -1)

    some, all_ = np.zeros((shuffles, len(inputs))), np.zeros(shuffles)
    with Progress("relevance of inputs", shuffles * len(inputs)) as progress:
        for s in range(shuffles):
            here, there = shuffled(), shuffled()
            before = values(here)
            all_[s] = _mean_square(values(there) - before)
            for i, columns in enumerate(inputs):
                changed = here.copy()
                changed[:, columns] = there[:, columns]
                some[s, i] = _mean_square(values(changed) - before)
                progress.advance()
    if not all_.sum() > 0:
        return Relevance(np.zeros(len(inputs)), np.zeros(len(inputs)))
    share = some.sum(axis=0) / all_.sum()
    error = np.zeros(len(inputs))
    if shuffles > 1:
        error = np.std(some - share * all_[:, None], axis=0, ddof=1) / (all_.mean() * np.sqrt(shuffles))
    return Relevance(share, error)


def _mean_square(gaps: Array) -> float:
    """Of differences (n, L), summed over the latent functions."""
    return float(np.sum(np.mean(gaps**2, axis=0)))


def inverse_lengthscales(kernel: Kernel, X: Array) -> Array:
    """Spread of each column over the shortest of its length scales, (D,); zero if no term has one."""
    D = X.shape[1]
    steepest = np.zeros(D)
    for columns, lengthscale in _lengthscales(kernel, np.arange(D)):
        steepest[columns] = np.maximum(steepest[columns], 1.0 / np.broadcast_to(lengthscale, columns.shape))
    return np.asarray(X.std(axis=0) * steepest)


def _lengthscales(part: Any, columns: NDArray[np.intp]) -> list[tuple[NDArray[np.intp], Array]]:
    """(columns, length scales) of every part of a kernel that has them."""
    if isinstance(part, On):
        columns = columns[np.asarray(part.dims, dtype=int)]
    found = []
    own = getattr(part, "_params", {}).get("lengthscale")
    if own is not None:
        found.append((columns, np.asarray(own.value, dtype=float)))
    scale = np.array(part.scale) if isinstance(part, Standardized) else None
    for i, inner in enumerate(part.parts):
        alone = isinstance(part, Additive) and len(part.parts) == len(columns)
        of_inner = _lengthscales(inner, columns[[i]] if alone else columns)
        found += (
            of_inner if scale is None else [(c, scale[np.searchsorted(columns, c)] * v) for c, v in of_inner]
        )
    return found


@dataclass(frozen=True)
class PartialDependence:
    """Posterior mean and standard deviation of the average of f over the rows, and of the rows it is made of.

    Attributes
    ----------
    grid, mean, sd : arrays (g,)
    rows : array (n, g)
        Posterior mean of each row as its column takes the values of the grid.
    """

    grid: Array
    mean: Array
    sd: Array
    rows: Array


def partial_dependence(process: Any, X: Array, column: int | Sequence[int], grid: Array) -> PartialDependence:
    """Of one latent function; `process` has `mean` and `covariance`.

    Several columns that stand for one input take their values together, a row of `grid` (g, columns) each.
    """
    sd, rows = np.empty(len(grid)), np.empty((len(X), len(grid)))
    with Progress("partial dependence", len(grid)) as progress:
        for j, value in enumerate(grid):
            moved = X.copy()
            moved[:, column] = value
            rows[:, j] = process.mean(moved)
            variance = float(np.mean(process.covariance(moved)))
            sd[j] = np.sqrt(max(variance, 0.0))  # below zero by rounding only
            progress.advance()
    return PartialDependence(grid, rows.mean(axis=0), sd, rows)
