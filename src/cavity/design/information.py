"""Designs without a goal: which points tell most of a process, before anything is measured.

The information gain of observations at A is log|I + K_A / noise| / 2. It is submodular: choosing the next best point
again and again reaches at least 1 - 1/e of what the best set of that size has. Designs that reduce the variance over a
region (Seo et al., 2000; Cohn, 1994) weigh where predictions are wanted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.kernels.base import Kernel
from cavity.numerics.arrays import Array


class Chosen(NamedTuple):
    """Rows of the candidates in the order of their choice, and what was reached after each."""

    rows: list[int]
    value: list[float]


def information_gain(kernel: Kernel, X: Array, noise: float) -> float:
    """Nats that observations at X (n, D) with this noise variance tell of the process.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design import information_gain
    >>> from cavity.kernels import SE
    >>> round(information_gain(1.0 * SE(1.0), np.arange(0.0, 5.01, 0.5)[:, None], 0.01), 6)
    14.804319
    """
    K = kernel(X)
    return 0.5 * float(np.linalg.slogdet(np.eye(len(K)) + K / noise)[1])


def greedy_design(kernel: Kernel, candidates: Array, size: int, noise: float) -> Chosen:
    """Points that are chosen one after the other for the largest information gain.

    Each step costs O(candidates x chosen): a partial Cholesky factorization.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design import greedy_design
    >>> from cavity.kernels import SE
    >>> grid = np.arange(0.0, 5.01, 0.5)[:, None]
    >>> chosen = greedy_design(1.0 * SE(1.0), grid, 3, 0.01)
    >>> grid[chosen.rows, 0], [round(v, 6) for v in chosen.value]
    (array([0. , 5. , 2.5]), [2.30756, 4.615121, 6.920785])
    """
    return _greedy(kernel, candidates, size, noise, None)


def integrated_variance_design(
    kernel: Kernel, candidates: Array, size: int, noise: float, region: Array
) -> Chosen:
    """Points that are chosen one after the other for the smallest average variance over a region (r, D).

    `value` is that average after each.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.design import integrated_variance_design
    >>> from cavity.kernels import SE
    >>> grid = np.linspace(0.0, 1.0, 11)[:, None]
    >>> chosen = integrated_variance_design(1.0 * SE(0.3), grid, 1, 1e-6, grid)
    >>> float(grid[chosen.rows[0], 0])  # one point: the middle
    0.5
    """
    return _greedy(kernel, candidates, size, noise, region)


def _greedy(kernel: Kernel, candidates: Array, size: int, noise: float, region: Array | None) -> Chosen:
    left = kernel.diag(candidates).copy()
    others = None if region is None else kernel(region, candidates)
    variance = None if region is None else kernel.diag(region).copy()
    factors: list[Array] = []
    rows: list[int] = []
    value: list[float] = []
    gain = 0.0
    for _ in range(min(size, len(candidates))):
        if others is None:
            score = left.copy()
        else:
            score = np.mean(others**2, axis=0) / (left + noise)
        score[rows] = -np.inf
        i = int(np.argmax(score))
        # the posterior covariance of all candidates with i, over its standard deviation
        column = kernel(candidates, candidates[i : i + 1])[:, 0]
        for factor in factors:
            column = column - factor * factor[i]
        root = np.sqrt(left[i] + noise)
        gain += 0.5 * float(np.log1p(left[i] / noise))
        factors.append(column / root)
        if others is not None and variance is not None:
            cross = others[:, i] / root
            variance = variance - cross**2
            others = others - np.outer(cross, factors[-1])
        left = np.maximum(left - factors[-1] ** 2, 0.0)
        rows.append(i)
        value.append(gain if variance is None else float(variance.mean()))
    return Chosen(rows, value)
