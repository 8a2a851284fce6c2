"""The problems that all packages are given: evidence and gradient on synthetic data, a fit on Boston housing.

Parameters are passed as logarithms: length scales, signal variance, noise variance, in this order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COLUMNS = 8
BOSTON_ROWS = 455


@dataclass(frozen=True)
class Problem:
    X: Array
    y: Array
    theta: Array
    """Logarithms of the parameters at which the evidence is evaluated, or where a fit starts."""


def synthetic(n: int, columns: int = COLUMNS) -> Problem:
    """Standard normal inputs, a smooth target with noise, and parameters that are near but not optimal."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, columns))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
    lengthscales = np.linspace(1.5, 4.0, columns)
    return Problem(X, y, np.log([*lengthscales, 1.3, 0.12]))


def boston() -> Problem:
    """A training fold of Boston housing, inputs and target standardized; the start is a usual first guess.

    Raises `cavity.datasets.DatasetNotFoundError` where the data are absent.
    """
    from cavity import datasets

    data = datasets.load("boston")
    rows = np.random.default_rng(0).permutation(len(data.y))[:BOSTON_ROWS]
    X, y = data.X[rows], data.y[rows]
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    columns = X.shape[1]
    return Problem(X, y, np.log([*np.full(columns, np.sqrt(columns)), 1.0, 0.1]))


def moved(theta: Array, k: int) -> Array:
    """Slightly other parameters for each repetition, so that nothing can be remembered from the last one."""
    return theta + 1e-3 * np.sin(k + np.arange(len(theta)))
