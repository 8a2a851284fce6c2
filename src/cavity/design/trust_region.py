"""A box around the recommendation that grows with success and shrinks with failure (Eriksson et al., 2019).

With many inputs a model knows little beyond where it has looked. The side of the box begins at 0.8, doubles after
three improvements in a row and halves after as many failures as there are inputs, and begins anew when it is very
small. Sides are longer along inputs that matter less. It is read off the history, like everything else.
"""

from __future__ import annotations

import numpy as np

from cavity.design.space import Space
from cavity.numerics.arrays import Array

FIRST, SMALLEST, LARGEST = 0.8, 0.5**7, 1.6
SUCCESSES = 3
"""Improvements in a row after which the box doubles."""

IMPROVEMENT = 1e-3
"""Share of the incumbent's distance from the mean by which an outcome must be better to count."""


def side_of(outcomes: Array, failures: int) -> float:
    """The side of the box after these outcomes, in order; `failures` in a row halve it."""
    side, good, bad = FIRST, 0, 0
    if len(outcomes) == 0:
        return side
    best = float(outcomes[0])
    for y in outcomes[1:]:
        better = y < best - IMPROVEMENT * abs(best)
        good, bad = (good + 1, 0) if better else (0, bad + 1)
        best = min(best, float(y))
        if good == SUCCESSES:
            side, good = min(2.0 * side, LARGEST), 0
        elif bad == failures:
            side, bad = 0.5 * side, 0
        if side < SMALLEST:
            side = FIRST
    return side


def trust_region(X: Array, means: Array, lengths: Array, space: Space) -> tuple[Array, Array]:
    """Lower and upper ends (D,), around the row with the best mean (in units of the model)."""
    side = side_of(means, failures=max(4, space.n))
    weights = np.where(space.categorical, 1.0, lengths)
    weights = weights / np.exp(np.mean(np.log(weights)))
    center = X[int(np.argmin(means))]
    half = 0.5 * side * weights
    low = np.where(space.categorical, space.low, np.clip(center - half, 0.0, 1.0))
    high = np.where(space.categorical, space.high, np.clip(center + half, 0.0, 1.0))
    return low, np.maximum(high, low + 1e-9)
