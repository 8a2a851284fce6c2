"""The evidence as a function of hyperparameters: which optima the starts found, and the surface over two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array
from cavity.runtime.progress import Progress

SAME_OPTIMUM = 0.01
"""Nats below which two runs are taken to have ended at one optimum."""


def optima(values: ArrayLike) -> NDArray[np.intp]:
    """Number of the optimum at which each run ended, (R,): 0 the best; -1 for runs that failed.

    Runs are at one optimum if their values agree. Parameters are not compared: if the objective is flat in one of
    them (next to no noise), runs end at different values of it, and terms of a sum may have changed places.

    >>> optima([-3.0, -7.0, -3.001, float("-inf")])
    array([ 0,  1,  0, -1])
    """
    heights = np.asarray(values, dtype=float)
    number = np.full(len(heights), -1, dtype=np.intp)
    count, top = -1, np.inf
    for i in np.argsort(-heights, kind="stable"):
        if not np.isfinite(heights[i]):
            continue
        if top - heights[i] >= SAME_OPTIMUM:
            count, top = count + 1, heights[i]
        number[i] = count
    return number


@dataclass(frozen=True)
class Surface:
    """Log evidence over two hyperparameters in natural units, others as in the model.

    Attributes
    ----------
    names : (str, str)
    x, y : arrays (a,), (b,)
        Natural values.
    log_evidence : array (b, a)
        nan if it could not be computed, or was not before an interrupt.
    logarithmic : (bool, bool)
        Whether the grid is even in the logarithm.
    at : (float, float)
        Values of the model itself.
    best : float
        Log evidence there.
    """

    names: tuple[str, str]
    x: Array
    y: Array
    log_evidence: Array
    logarithmic: tuple[bool, bool]
    at: tuple[float, float]
    best: float


def evidence_surface(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    pair: tuple[str, str],
    *,
    span: float = 10.0,
    resolution: int = 25,
    sample_weight: ArrayLike | None = None,
) -> Surface:
    """Evaluate the log evidence on a grid around the values of a model (`GP`), even in unconstrained units.

    Parameters
    ----------
    model : GP
        Bound to the columns of X.
    pair : two names of free parameters, as in `model.names`
    span : float
        Positive parameters go from 1/span to span times their value; others as far in unconstrained units.
    resolution : int
        Places along each parameter.
    """
    index = []
    for name in pair:
        if name not in model.names:
            raise ValueError(
                f"pair must name two free hyperparameters of {', '.join(model.names)}, got {name!r}"
            )
        index.append(model.names.index(name))
    if index[0] == index[1]:
        raise ValueError(f"pair must name two different hyperparameters, got {pair!r}")
    if not span > 1:
        raise ValueError(f"span must be a factor above 1, got {span!r}")
    steps = np.linspace(-np.log(span), np.log(span), resolution)
    theta = np.array(model.theta)
    best = float(model.evidence(X, y, sample_weight)[0])
    values = np.full((resolution, resolution), np.nan)
    _, data = model.training(X, y, sample_weight)
    warm: Any = None
    with Progress("log evidence over two hyperparameters", resolution) as progress:
        try:
            for b, step_y in enumerate(steps):
                # there and back, so that a rule which starts from its last solution finds it near by
                for a in range(resolution) if b % 2 == 0 else range(resolution - 1, -1, -1):
                    moved = theta.copy()
                    moved[index] += (steps[a], step_y)
                    values[b, a], warm = _evidence(model, moved, data, warm)
                progress.advance()
        except KeyboardInterrupt:
            if not np.isfinite(values).any():
                raise
    free = model.layout.free
    axes = []
    for i in index:
        places = np.repeat(theta[None], resolution, axis=0)
        places[:, i] += steps
        axes.append(np.array([model.layout.to_natural(t)[i] for t in places]))
    at = model.layout.to_natural(theta)[index]
    logarithmic = tuple(
        bool(free[i].transform.support[0] == 0 and axes[k].min() > 0) for k, i in enumerate(index)
    )
    return Surface(
        (pair[0], pair[1]),
        axes[0],
        axes[1],
        values,
        (logarithmic[0], logarithmic[1]),
        (float(at[0]), float(at[1])),
        best,
    )


def _evidence(model: Any, theta: Array, data: Any, warm: Any) -> tuple[float, Any]:
    """The evidence, or nan; and what the rule knows for the next one."""
    try:
        there = model.replace(theta)
    except ValueError:  # a value left the range of floating-point numbers
        return float("nan"), warm
    try:
        value, _, warm = there.evidence_of(data, warm)
    except (np.linalg.LinAlgError, FloatingPointError, OverflowError):
        return float("nan"), warm
    return float(value), warm
