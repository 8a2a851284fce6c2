"""Derivatives of likelihoods that know only `log_prob`, by differences whose step is chosen point by point.

Derivatives in f come from seven-point stencils at a ladder of steps. At each point the step is chosen at which
neighboring rungs agree best, so neither the scale of f nor a nearby kink needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cavity.likelihoods.base import (
    Derivatives,
    Likelihood,
    ParameterDerivatives,
)
from cavity.numerics.arrays import Array

RUNGS = 2.0 ** -np.arange(0, 26)
"""Steps of numerical differentiation, relative to 4 (1 + |f|)."""

AGREE = 1e-3
"""Relative agreement of neighboring rungs below which a step counts as short enough."""

PARAMETER_STEP = 2e-3
"""Step in a parameter, relative to its distance from the ends of its range: fourth-order differences."""


def _best(estimates: Array, noise: Array) -> Array:
    """From estimates at decreasing steps (rungs, ...) the one that agrees best with both neighbors.

    Steps that are far too long make all estimates tiny, hence close to each other: so agreement must also be
    relative to the estimate, or within the rounding noise of the rung.
    """
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(estimates, axis=0))
    change = np.where(np.isfinite(change), change, np.inf)
    spread = np.maximum(change[:-1], change[1:])
    inner, rounding = estimates[1:-1], noise[1:-1]
    with np.errstate(invalid="ignore"):
        agree = spread <= AGREE * np.abs(inner) + 10 * rounding
    score = spread + rounding
    score = np.where(agree.any(axis=0) & ~agree, np.inf, score)
    return np.asarray(np.take_along_axis(inner, np.argmin(score, axis=0)[None], axis=0)[0])


def derivatives(likelihood: Likelihood, y: Array, f: Array) -> Derivatives:
    """Central differences of order six (d1, d2) and four (d3), with the step chosen point by point."""
    y, f = np.asarray(y, dtype=float), np.asarray(f, dtype=float)
    h = (4.0 * (1.0 + np.abs(f))) * RUNGS.reshape(-1, *(1,) * f.ndim)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        p1, m1, p2, m2, p3, m3 = (likelihood.log_prob(y, f + k * h) for k in (1, -1, 2, -2, 3, -3))
        g = likelihood.log_prob(y, f)
        odd1, odd2, odd3 = p1 - m1, p2 - m2, p3 - m3
        d1 = (45 * odd1 - 9 * odd2 + odd3) / (60 * h)
        d2 = (270 * (p1 + m1 - 2 * g) - 27 * (p2 + m2 - 2 * g) + 2 * (p3 + m3 - 2 * g)) / (180 * h**2)
        d3 = (-13 * odd1 + 8 * odd2 - odd3) / (8 * h**3)
        rounding = 2e-16 * (1 + np.abs(g) + np.abs(p1))
    return Derivatives(g, *(_best(d, 4 * rounding / h**k) for k, d in enumerate((d1, d2, d3), start=1)))


def _in_parameters(likelihood: Likelihood, evaluate: Callable[[Any], Array]) -> Array:
    """Fourth-order central differences of evaluate(likelihood) in each flat parameter: shape (P, ...)."""
    rows = []
    for i, (x, entry) in enumerate(zip(likelihood.flat, likelihood.entries)):
        low, high = entry.transform.support
        room = min(x - low, high - x)
        h = PARAMETER_STEP * (room if np.isfinite(room) else 1.0 + abs(x))
        values = []
        for k in (1, -1, 2, -2):
            flat = likelihood.flat.copy()
            flat[i] = x + k * h
            values.append(evaluate(likelihood.with_flat(flat)))
        rows.append((8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h))
    return np.stack(rows) if rows else np.zeros((0, *np.shape(evaluate(likelihood))))


def d_log_prob(likelihood: Likelihood, y: Array, f: Array) -> Array:
    """d log p / d flat by differences, shape (P, ...)."""
    return _in_parameters(likelihood, lambda lik: lik.log_prob(y, f))


def parameter_derivatives(likelihood: Likelihood, y: Array, f: Array) -> ParameterDerivatives:
    """Differences in the parameters of log p and of its derivatives."""
    slopes = _in_parameters(likelihood, lambda lik: np.stack(lik.derivatives(y, f)[:3]))
    return ParameterDerivatives(slopes[:, 0], slopes[:, 1], slopes[:, 2])
