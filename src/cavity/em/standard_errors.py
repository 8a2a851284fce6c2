"""Standard errors from the observed information.

Fisher's identity gives the gradient of the observed-data log-likelihood as the gradient of Q(theta', theta)
in theta' at theta' = theta, so one E-step and cheap evaluations of Q replace many passes over the data;
differences of that gradient give the Hessian (what Louis' identity writes as complete minus missing
information). Coordinates are unconstrained; the delta method carries the covariance to natural parameters.

Differences are taken along the axes of Q's own curvature, in units over which Q falls by one half (standard
errors if the hidden labels were known): neither the units and the origin of the data nor correlations among
features matter. In these units the information is one minus the share that is missing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cavity.em.expectation_maximization import DegeneracyError, DegeneracyWarning, EMProblem
from cavity.numerics.arrays import Array

# Along axes, second derivatives of Q are about one: fourth-order differences then err by about h^4 by
# truncation and eps |Q| / h by rounding.
GRADIENT_STEP = 1e-2
HESSIAN_STEP = 2e-2
DIFFERENCE_ERROR = 1e-6  # of the information along axes, for a million rows
FALL = (0.25, 1.0)  # a distance with a fall of Q in here is near enough to one with a fall of one half
MAX_TRIALS = 100  # of a distance, each a factor of ten or better
ROUNDING = 1e-12  # of Q, relative


class InformationProblem(EMProblem[Any], Protocol):
    """An EM problem that can also evaluate Q and name its natural parameters."""

    def q_value(self, statistics: Any, theta: Any) -> float:
        """Q plus log prior."""
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


def _q_at(problem: InformationProblem, vector: Array, like: Any) -> Callable[[Array], float]:
    """The function Q(., theta) with the expected statistics at theta = `vector`."""
    _, statistics = problem.e_step(problem.unpack(vector, like))
    return lambda v: problem.q_value(statistics, problem.unpack(v, like))


def _or_impossible(q: Callable[[Array], float]) -> Callable[[Array], float]:
    """Q for trial steps: minus infinity where they leave the range of parameters."""

    def trial(v: Array) -> float:
        try:
            with np.errstate(all="ignore"):
                return q(v)
        except (DegeneracyError, np.linalg.LinAlgError):
            return -np.inf

    return trial


def _coordinate_scales(q: Callable[[Array], float], at: Array) -> Array:
    """Distance in each coordinate over which Q falls by about one half; NaN where it does not fall."""
    top = q(at)
    scales = np.ones(len(at))
    for i in range(len(at)):
        for _ in range(MAX_TRIALS):
            step = np.zeros(len(at))
            step[i] = scales[i]
            fall = top - 0.5 * (q(at + step) + q(at - step))
            if FALL[0] <= fall <= FALL[1]:
                break
            if not np.isfinite(fall):
                scales[i] *= 0.1
            elif fall > ROUNDING * (1.0 + abs(top)):
                scales[i] *= np.clip(np.sqrt(0.5 / fall), 1e-3, 1e3)  # exact for a parabola
            else:
                scales[i] *= 10.0
        else:
            scales[i] = np.nan
    return scales


def _axes(q: Callable[[Array], float], at: Array) -> Array:
    """Columns B with B' C B about one, C being minus the Hessian of Q at its maximum; NaN without a maximum."""
    scales = _coordinate_scales(q, at)
    if not np.all(np.isfinite(scales)):
        return np.full((len(at), len(at)), np.nan)
    steps = np.diag(0.5 * scales)
    curvature = np.empty((len(at), len(at)))
    for i, j in zip(*np.tril_indices(len(at))):
        mixed = sum(a * b * q(at + a * steps[i] + b * steps[j]) for a in (-1, 1) for b in (-1, 1))
        curvature[i, j] = curvature[j, i] = -mixed  # steps of one half: 4 h^2 = 1
    try:
        lower = np.linalg.cholesky(np.where(np.isfinite(curvature), curvature, -1.0))
    except np.linalg.LinAlgError:  # Q is too far from a parabola for these steps: keep to the coordinates
        return np.diag(scales)
    return np.asarray(scales[:, None] * np.linalg.inv(lower).T)


def _differences(function: Any, at: Array, axes: Array, step: float) -> Array:
    """Fourth-order central differences of a scalar or array function along axes, first index over axes."""
    rows = []
    for axis in axes.T:
        values = [np.asarray(function(at + m * step * axis), dtype=float) for m in (-2.0, -1.0, 1.0, 2.0)]
        rows.append((values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * step))
    return np.array(rows)


def _information(problem: InformationProblem, at: Array, like: Any, axes: Array) -> Array:
    """Observed information along axes: gradients by Fisher's identity, and their differences."""

    def gradient(v: Array) -> Array:
        return _differences(_q_at(problem, v, like), v, axes, GRADIENT_STEP)

    hessian = _differences(gradient, at, axes, HESSIAN_STEP).reshape(len(at), len(at))
    return -0.5 * (hessian + hessian.T)


def standard_errors(problem: InformationProblem, theta: Any) -> StandardErrors:
    """Standard errors at the estimate `theta`."""
    values = problem.natural(theta)
    with np.errstate(divide="ignore"):  # a rate of zero, set by hand, has no logarithm
        at = problem.pack(theta, theta)
    axes = np.full((len(at), len(at)), np.nan)
    if np.all(np.isfinite(at)):
        axes = _axes(_or_impossible(_q_at(problem, at, theta)), at)
    information = _information(problem, at, theta, axes) if np.all(np.isfinite(axes)) else axes
    if not _positive_definite(information):
        warnings.warn(
            "the observed information is not positive definite: the estimate is not an interior maximum (not "
            "converged, on a boundary, or components that coincide); standard errors are NaN",
            DegeneracyWarning,
            stacklevel=3,
        )
        nothing = {name: np.full(np.shape(v), np.nan) for name, v in values.items()}
        return StandardErrors(nothing, values, np.full((len(at), len(at)), np.nan), False)
    inverse = np.linalg.inv(information)  # the covariance itself is wanted
    errors = {}
    for name, value in values.items():
        jacobian = _differences(
            lambda v, n=name: problem.natural(problem.unpack(v, theta))[n], at, axes, GRADIENT_STEP
        )
        flat = jacobian.reshape(len(at), np.size(value))
        variance = np.einsum("ij,ik,kj->j", flat, inverse, flat)
        errors[name] = np.sqrt(np.maximum(variance, 0.0)).reshape(np.shape(value))
    return StandardErrors(errors, values, axes @ inverse @ axes.T, True)


def _positive_definite(information: Array) -> bool:
    """Whether all eigenvalues are positive beyond the errors of differences."""
    if not np.all(np.isfinite(information)):
        return False
    return len(information) == 0 or bool(np.linalg.eigvalsh(information)[0] > DIFFERENCE_ERROR)
