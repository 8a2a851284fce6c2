"""The Gaussian process for one state variable of `Dynamics`: its defaults, and bounds where none were given."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.kernels import SE, ard
from cavity.likelihoods import Gaussian
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param

if TYPE_CHECKING:
    from cavity.estimators import GPRegressor


LARGEST_SIGNAL, LEAST_NOISE = 30.0, 1e-3
"""Bounds of signal and noise sd, in units of what the mean function leaves of the targets. On data without noise the
evidence has no maximum in their ratio, and covariances of predictions would drown in rounding errors."""


def of_state(given: Any, k: int, D: int, name: str) -> Any:
    """An option for all states, or that of one of them."""
    if not isinstance(given, list | tuple):
        return given
    if len(given) != D:
        raise ValueError(f"{name} must be one, or one for each of {D} states, got {len(given)}")
    return given[k]


def learnable_mean(mean: Any, X: Array, names: Sequence[str]) -> Any:
    """The mean function, but a constant in place of a linear one whose slopes the inputs X (n, P) cannot tell.

    Slopes are estimated, so that predictions take them for known. Where nothing was seen of them, they would be sure of
    a guess; the process around a constant is not.
    """
    if not (isinstance(mean, str) and mean == "linear"):
        return mean
    n, P = X.shape
    spread = X.std(axis=0)
    still = spread <= 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    if n <= P + 1:
        why = f"{n} transitions cannot tell the {P + 1} weights of a linear mean"
    elif still.any():
        listed = ", ".join(f"{names[int(k)]} (always {X[0, k]:g})" for k in np.flatnonzero(still))
        why = f"the transitions say nothing of the effect of inputs that never change: {listed}"
    elif np.linalg.matrix_rank((X - X.mean(axis=0)) / spread, tol=1e-8 * np.sqrt(n)) < P:
        why = f"some of the inputs {', '.join(names)} follow from the others, and their effects cannot be told apart"
    else:
        return mean
    warnings.warn(
        f"{why}: the mean function is constant, not linear. Use more varied transitions, or mean='constant'",
        stacklevel=3,
    )
    return "constant"


def regressor(
    X: Array, y: Array, kernel: Any, mean: Any, likelihood: Any, least: float, **options: Any
) -> GPRegressor:
    """A regressor for one state variable; bounds on signal and noise where neither was given."""
    from cavity.estimators import GPRegressor

    if kernel is None:
        unit = _left_over(X, y, mean) ** 2
        ceiling = LARGEST_SIGNAL**2 * unit
        kernel = Param(unit, bounds=(LEAST_NOISE**2 * unit, ceiling)) * SE(ard)
        if likelihood == "gaussian":
            likelihood = Gaussian(Param(max(0.01, least**2) * unit, bounds=(least**2 * unit, ceiling)))
    return GPRegressor(kernel, mean=mean, likelihood=likelihood, **options)


def _left_over(X: Array, y: Array, mean: Any) -> float:
    """Standard deviation of what the mean function leaves of the targets, by least squares."""
    H = np.column_stack([np.ones(len(y)), X]) if mean == "linear" else np.ones((len(y), 1))
    rest = y - H @ np.linalg.lstsq(H, y, rcond=None)[0]
    # targets that a line fits but for rounding, or constants: any small unit will do
    smallest = 1e-8 * (float(np.abs(y).max(initial=0.0)) or 1.0)
    return max(float(np.sqrt(np.mean(rest**2))), smallest)
