"""Slice sampling along each coordinate in turn (Neal 2003), which adapts to the width of the density by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cavity.numerics.arrays import Array

MOST_STEPS = 50
"""Steps out of a slice in either direction, and shrinkings back, at most."""


def slice_update(
    log_density: Callable[[Array], float], x: Array, rng: np.random.Generator, width: float = 1.0
) -> Array:
    """A position (p,) after one slice-sampling update of each coordinate of x (p,), in random order.

    Parameters
    ----------
    log_density : callable
        Position (p,) -> log density up to a constant; -inf outside the support.
    width : float
        Of the first interval, and of each step out.
    """
    x, value = x.copy(), log_density(x)
    for i in rng.permutation(len(x)):
        level = value + np.log(rng.random())
        start = x[i]
        low = start - width * rng.random()
        high = low + width

        def at(v: float, i: int = i) -> float:
            y = x.copy()
            y[i] = v
            return log_density(y)

        # Stepping out with a limited number of steps, shared at random between both sides (Neal 2003, figure 3).
        left = int(rng.integers(MOST_STEPS))
        right = MOST_STEPS - 1 - left
        while left > 0 and at(low) > level:
            low, left = low - width, left - 1
        while right > 0 and at(high) > level:
            high, right = high + width, right - 1
        for _ in range(4 * MOST_STEPS):
            v = low + (high - low) * rng.random()
            found = at(v)
            if found > level:
                x[i], value = v, found
                break
            low, high = (v, high) if v < start else (low, v)
    return x
