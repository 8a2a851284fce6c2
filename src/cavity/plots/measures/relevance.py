"""How much predictions depend on each input, and what they are on average along one.

Relevance is the total Sobol index of the posterior mean m of f (Homma and Saltelli 1996), by Jansen's (1999) formula,

    S_d = E (m(x) - m(x with x_d from another row))^2 / (2 Var m(x)),

the part of the variance of predictions that is due to input d, alone or together with others. It is what the command
line, the report and `cavity.plots` all show, because it means the same for every model: a share, about the function
that was learned, in any units and whatever the kernel. The change of predictions when a column is shuffled, relative
to their spread, is sqrt(2 S_d): the same order, but no share of anything. For independent inputs and an additive m the
indices add up to one; with interactions to more. Columns that stand for one input, such as the 0/1 columns of a text
column, are taken from the other row together.

Pictures can show another quantity on request.

- "lengthscale": spread of the column (standard deviation) over its length scale, the shortest where several terms of
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
from cavity.progress import Progress

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Relevance:
    """Of each input, shape (D,), with the Monte Carlo standard error (zero where there is none)."""

    value: Array
    error: Array


def sobol_total(
    mean: Callable[[Array], Array],
    X: Array,
    shuffles: int = 8,
    rng: np.random.Generator | int | None = 0,
    groups: Sequence[Sequence[int]] | None = None,
) -> Relevance:
    """Total Sobol indices of a function (m, D) -> (m,) or (m, L), values of each column taken from other rows.

    With `groups`, lists of column numbers, the columns of a group are taken together, and there is an index for each
    group.

    Each shuffle moves values by a different number of rows of a random order, so that with n - 1 shuffles every pair
    of different rows is used once, and the index is exact for the data. The variance is measured on the same pairs,
    Var m = E (m(x) - m(x'))^2 / 2: the errors of numerator and denominator then go together, and an index of all
    columns at once is one.
    """
    n = len(X)
    inputs = [
        np.array(g, dtype=np.intp) for g in (np.arange(X.shape[1])[:, None] if groups is None else groups)
    ]
    if shuffles < 1:
        raise ValueError(f"shuffles must be an integer >= 1, got {shuffles!r}")
    before = np.asarray(mean(X)).reshape(n, -1)
    value, error = np.zeros(len(inputs)), np.zeros(len(inputs))
    if n < 2 or not float(np.sum(before.var(axis=0))) > 0:
        return Relevance(value, error)
    rng = np.random.default_rng(rng)
    with Progress("relevance of inputs", len(inputs)) as progress:
        for i, columns in enumerate(inputs):
            order = rng.permutation(n)
            gaps = []  # squared differences, of the column alone and of all columns
            for shift in rng.permutation(np.arange(1, n))[:shuffles]:
                other = np.roll(order, shift)
                changed = X.copy()
                changed[np.ix_(order, columns)] = X[np.ix_(other, columns)]
                alone = np.asarray(mean(changed)).reshape(n, -1) - before
                gaps.append((_mean_square(alone), _mean_square(before[order] - before[other])))
            some, all_ = np.array(gaps).T
            if all_.sum() > 0:  # the pairs of few shuffles may happen to be alike
                value[i] = some.sum() / all_.sum()
                if 1 < len(gaps) < n - 1:
                    error[i] = np.std(some - value[i] * all_, ddof=1) / (all_.mean() * np.sqrt(len(gaps)))
            progress.advance()
    return Relevance(value, error)


def _mean_square(gaps: Array) -> float:
    """Of differences (n, L), summed over the latent functions."""
    return float(np.sum(np.mean(gaps**2, axis=0)))


def inverse_lengthscales(kernel: Kernel, X: Array) -> Array:
    """Spread of each column over the shortest of its length scales, (D,); zero where no term has one."""
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
    for i, inner in enumerate(part.parts):
        alone = isinstance(part, Additive) and len(part.parts) == len(columns)
        found += _lengthscales(inner, columns[[i]] if alone else columns)
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


def partial_dependence(process: Any, X: Array, column: int, grid: Array) -> PartialDependence:
    """Of one latent function; `process` has `mean` and `covariance`."""
    sd, rows = np.empty(len(grid)), np.empty((len(X), len(grid)))
    with Progress("partial dependence", len(grid)) as progress:
        for j, value in enumerate(grid):
            moved = X.copy()
            moved[:, column] = value
            rows[:, j] = process.mean(moved)
            sd[j] = np.sqrt(
                max(float(np.mean(process.covariance(moved))), 0.0)
            )  # below zero by rounding only
            progress.advance()
    return PartialDependence(grid, rows.mean(axis=0), sd, rows)
