"""How far from the best: regrets of a run on a function whose minimum is known."""

from __future__ import annotations

import numpy as np

from cavity.numerics.arrays import Array


def simple_regret(values: Array, minimum: float) -> Array:
    """Of the best point so far, after each evaluation, (n,), from values without noise.

    Examples
    --------
    >>> from cavity.design import simple_regret
    >>> simple_regret([3.0, 1.0, 2.0], 0.5)
    array([2.5, 0.5, 0.5])
    """
    return np.asarray(np.minimum.accumulate(np.asarray(values, dtype=float)) - minimum)


def cumulative_regret(values: Array, minimum: float) -> Array:
    """The sum of regrets of all evaluations so far, (n,).

    Examples
    --------
    >>> from cavity.design import cumulative_regret
    >>> cumulative_regret([3.0, 1.0, 2.0], 0.5)
    array([2.5, 3. , 4.5])
    """
    return np.asarray(np.cumsum(np.asarray(values, dtype=float) - minimum))


def inference_regret(recommended: Array, minimum: float) -> Array:
    """Of the points that would have been recommended after each evaluation, (n,), from their values without noise.

    Examples
    --------
    >>> from cavity.design import inference_regret
    >>> inference_regret([3.0, 1.0, 1.5], 0.5)
    array([2.5, 0.5, 1. ])
    """
    return np.asarray(np.asarray(recommended, dtype=float) - minimum)
