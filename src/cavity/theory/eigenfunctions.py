"""Eigenfunctions of a kernel under a density of inputs: analytic for the squared exponential, by Nystrom's method
for any.

    int k(x, x') phi_i(x') p(x') dx' = lambda_i phi_i(x),    int phi_i phi_j p = delta_ij

(Rasmussen and Williams, 2006, section 4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import eval_hermite, gammaln

from cavity.kernels import Kernel
from cavity.kernels.base import as_inputs
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_positive
from cavity.runtime.errors import InputError


@dataclass(frozen=True)
class Eigenfunctions:
    """Eigenvalues, largest first, and functions of inputs (m, D) that return (m, number of them).

    Examples
    --------
    >>> from cavity.theory import se_gaussian
    >>> se_gaussian(1.0, 1.0, 4)([[0.0], [0.5]]).shape
    (2, 4)
    """

    values: Array
    functions: Callable[[Array], Array]

    def __call__(self, X: ArrayLike) -> Array:
        """The eigenfunctions at inputs, shape (m, count)."""
        return self.functions(as_inputs(X))


def se_gaussian(lengthscale: float, input_sd: float, count: int) -> Eigenfunctions:
    """Of the squared exponential exp(-r^2 / 2 l^2) under x ~ N(0, input_sd^2), one input.

    With a = 1 / 4 sd^2, b = 1 / 2 l^2, c = sqrt(a^2 + 2ab), A = a + b + c, B = b / A: lambda_k = sqrt(2a / A) B^k and
    phi_k = exp(-(c - a) x^2) H_k(sqrt(2c) x), normalized (eq. 4.39 to 4.41).

    Examples
    --------
    >>> from cavity.theory import se_gaussian
    >>> se_gaussian(6**-0.5, 0.5, 3).values.round(6)
    array([0.548584, 0.24764 , 0.111789])
    """
    for name, value in (("lengthscale", lengthscale), ("input_sd", input_sd)):
        require_positive(value, name)
    a, b = 0.25 / input_sd**2, 0.5 / lengthscale**2
    c = np.sqrt(a * a + 2 * a * b)
    A = a + b + c
    k = np.arange(count)
    values = np.sqrt(2 * a / A) * (b / A) ** k
    log_norm = 0.5 * (0.5 * np.log(a / c) + k * np.log(2.0) + gammaln(k + 1.0))

    def functions(X: Array) -> Array:
        x = X[:, :1]
        return np.asarray(np.exp(-(c - a) * x**2 - log_norm) * eval_hermite(k, np.sqrt(2 * c) * x))

    return Eigenfunctions(np.asarray(values), functions)


def nystrom(
    kernel: Kernel, nodes: ArrayLike, weights: ArrayLike | None = None, count: int | None = None
) -> Eigenfunctions:
    """Of any kernel, from nodes and weights that integrate against the density of inputs.

    Parameters
    ----------
    kernel : Kernel
    nodes : array (n, D)
        Draws of the density, or nodes of a quadrature rule.
    weights : array (n,), optional
        They add up to one; equal by default (draws).
    count : int, optional
        How many; those with an eigenvalue above rounding by default.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.kernels import SE
    >>> from cavity.theory import nystrom
    >>> x, w = np.polynomial.hermite_e.hermegauss(60)
    >>> nystrom(SE(6**-0.5), 0.5 * x[:, None], w / w.sum(), 3).values.round(6)
    array([0.548584, 0.24764 , 0.111789])
    """
    X = as_inputs(nodes)
    w = np.full(len(X), 1.0 / len(X)) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (len(X),) or np.any(w < 0):
        raise InputError(f"must be {len(X)} numbers >= 0", parameter="weights", value=weights)
    root = np.sqrt(w)
    values, vectors = np.linalg.eigh(root[:, None] * kernel(X) * root)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = int(np.sum(values > len(X) * np.finfo(float).eps * values[0])) if count is None else count
    values, vectors = values[:kept], vectors[:, :kept]
    # phi_i(x) = 1/lambda_i sum_j k(x, x_j) w_j phi_i(x_j), and phi_i(x_j) = u_ji / sqrt(w_j)
    combined = root[:, None] * vectors / values

    return Eigenfunctions(np.maximum(values, 0.0), lambda new: np.asarray(kernel(new, X) @ combined))
