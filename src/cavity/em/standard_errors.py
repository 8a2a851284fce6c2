"""Standard errors from the observed information.

Fisher's identity gives the gradient of the observed-data log-likelihood as the gradient of Q(theta', theta)
in theta' at theta' = theta, so one E-step and cheap evaluations of Q replace many passes over the data;
differences of that gradient give the Hessian (what Louis' identity writes as complete minus missing
information). Coordinates are unconstrained; the delta method carries the covariance to natural parameters.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .engine import DegeneracyWarning

Array = NDArray[np.float64]

GRADIENT_STEP = 3e-5  # balances truncation (h^2) and rounding (eps / h) of central differences of Q
HESSIAN_STEP = 1e-3


class InformationProblem(Protocol):
    """An EM problem that can also evaluate Q and name its natural parameters."""

    def e_step(self, theta: Any) -> tuple[float, Any]:
        """Objective and expected statistics."""
        ...

    def q_value(self, statistics: Any, theta: Any) -> float:
        """Q plus log prior."""
        ...

    def pack(self, theta: Any, like: Any) -> Array:
        """Unconstrained vector."""
        ...

    def unpack(self, vector: Array, like: Any) -> Any:
        """Inverse of `pack`."""
        ...

    def natural(self, theta: Any) -> dict[str, Array]:
        """Natural parameters by name."""
        ...


@dataclass(frozen=True)
class StandardErrors:
    """Standard errors of natural parameters by name, their values, and the covariance of the free
    coordinates.

    `positive_definite` tells whether the observed information was; if not, the estimate is not an interior
    maximum and all errors are NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture
    >>> counts = np.array([[1], [2], [6], [3]])
    >>> found = Mixture(1, "poisson").fit(counts).standard_errors(counts)
    >>> found.values["rates"].round(2), found.errors["rates"].round(2)  # sqrt(3 / 4)
    (array([[3.]]), array([[0.87]]))
    """

    errors: dict[str, Array]
    values: dict[str, Array]
    covariance: Array
    positive_definite: bool


def observed_gradient(problem: InformationProblem, vector: Array, like: Any) -> Array:
    """Gradient of the objective at `vector` by Fisher's identity."""
    _, statistics = problem.e_step(problem.unpack(vector, like))

    def q(v: Array) -> float:
        return problem.q_value(statistics, problem.unpack(v, like))

    return _central(q, vector, GRADIENT_STEP)


def _central(function: Any, at: Array, relative_step: float) -> Array:
    """Fourth-order central differences of a scalar or array function, first axis over coordinates."""
    rows = []
    for i in range(len(at)):
        h = relative_step * max(1.0, abs(float(at[i])))
        values = []
        for multiple in (-2.0, -1.0, 1.0, 2.0):
            moved = at.copy()
            moved[i] += multiple * h
            values.append(np.asarray(function(moved), dtype=float))
        rows.append((values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h))
    return np.array(rows)


def standard_errors(problem: InformationProblem, theta: Any) -> StandardErrors:
    """Standard errors at the estimate `theta`."""
    at = problem.pack(theta, theta)
    hessian = _central(lambda v: observed_gradient(problem, v, theta), at, HESSIAN_STEP)
    information = -0.5 * (hessian + hessian.T)
    values = problem.natural(theta)
    try:
        np.linalg.cholesky(information)
    except np.linalg.LinAlgError:
        warnings.warn(
            "the observed information is not positive definite: the estimate is not an interior maximum (not "
            "converged, on a boundary, or components that coincide); standard errors are NaN",
            DegeneracyWarning,
            stacklevel=3,
        )
        nothing = {name: np.full(np.shape(v), np.nan) for name, v in values.items()}
        return StandardErrors(nothing, values, np.full((len(at), len(at)), np.nan), False)
    covariance = np.asarray(np.linalg.inv(information), dtype=float)  # the covariance itself is wanted
    errors = {}
    for name, value in values.items():
        jacobian = _central(lambda v, n=name: problem.natural(problem.unpack(v, theta))[n], at, GRADIENT_STEP)
        flat = jacobian.reshape(len(at), -1)
        variance = np.einsum("ij,ik,kj->j", flat, covariance, flat)
        errors[name] = np.sqrt(np.maximum(variance, 0.0)).reshape(np.shape(value))
    return StandardErrors(errors, values, covariance, True)
