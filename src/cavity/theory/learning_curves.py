"""Learning curves: the error of a Gaussian process on average over data sets of n rows.

If prior and noise are those of the data, the expected squared error of f at a point is its posterior variance, so
no targets are needed. Curves from the eigenvalues lambda_i of the kernel under the density of inputs (Rasmussen
and Williams, 2006, section 7.3; Sollich, 1999), v the noise variance:

    lower bound (Opper and Vivarelli)     sum_i v lambda_i / (v + n lambda_i)
    Sollich                               e = sum_i 1 / (1/lambda_i + n / (v + e))

Sollich's curve is no bound: for the squared exponential under Gaussian inputs it was 8 % high at n = 2 and 23 %
low at n = 50.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from cavity.kernels import Kernel
from cavity.kernels.base import as_inputs
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import factorize
from cavity.runtime.checks import require_positive
from cavity.runtime.errors import InputError


def _checked(noise_variance: float, n: ArrayLike) -> Array:
    require_positive(noise_variance, "noise_variance")
    rows: Array = np.atleast_1d(np.asarray(n, dtype=float))
    if np.any(rows < 0):
        raise InputError("must not be negative", parameter="n", value=n)
    return rows


def lower_bound(eigenvalues: ArrayLike, noise_variance: float, n: ArrayLike) -> Array:
    """Opper's and Vivarelli's lower bound of the expected squared error of f after n rows.

    Without noise it is zero. What is left then is what n functions cannot span, the sum of all but the n largest
    eigenvalues (Micchelli and Wahba, 1981).

    Examples
    --------
    >>> from cavity.theory import lower_bound, se_gaussian
    >>> lower_bound(se_gaussian(6**-0.5, 0.5, 60).values, 0.1, [1, 10]).round(6)
    array([0.278218, 0.0555  ])
    >>> lower_bound([0.5, 0.25, 0.125], 0.0, [0, 1, 2])
    array([0.875, 0.375, 0.125])
    """
    values = np.asarray(eigenvalues, dtype=float)
    if noise_variance == 0.0:
        left = np.append(np.cumsum(np.sort(values))[::-1], 0.0)
        return np.asarray([left[min(int(m), len(values))] for m in _checked(1.0, n)])
    rows = _checked(noise_variance, n)
    return np.asarray([np.sum(noise_variance * values / (noise_variance + m * values)) for m in rows])


def sollich(eigenvalues: ArrayLike, noise_variance: float, n: ArrayLike) -> Array:
    """Sollich's approximation of the expected squared error of f after n rows; no bound on either side.

    Examples
    --------
    >>> from cavity.theory import se_gaussian, sollich
    >>> sollich(se_gaussian(6**-0.5, 0.5, 60).values, 0.1, [1, 10]).round(6)
    array([0.70107 , 0.090571])
    """
    rows, values = _checked(noise_variance, n), np.asarray(eigenvalues, dtype=float)
    values = values[values > 0]
    total = float(values.sum())

    def excess(e: float, m: float) -> float:
        return float(np.sum(values / (1.0 + m * values / (noise_variance + e)))) - e

    return np.asarray(
        [brentq(excess, 0.0, total * (1 + 1e-12) + 1e-300, args=(m,), xtol=1e-15, rtol=1e-14) for m in rows]
    )


@dataclass(frozen=True)
class SimulatedCurve:
    """Expected squared errors of f, and their standard errors, for each n."""

    n: Array
    error: Array
    standard_error: Array


def simulated(
    kernel: Kernel,
    noise_variance: float,
    draw_inputs: Callable[[int, np.random.Generator], Array],
    n: ArrayLike,
    *,
    designs: int = 100,
    test_points: int = 50,
    rng: int | np.random.Generator | None = 0,
) -> SimulatedCurve:
    """Posterior variance of f, averaged over random designs and test points; unbiased.

    Parameters
    ----------
    draw_inputs : callable
        `draw_inputs(size, rng)` gives inputs (size, D).

    Examples
    --------
    >>> from cavity.kernels import SE
    >>> from cavity.theory import simulated
    >>> curve = simulated(SE(1.0), 0.1, lambda size, rng: rng.uniform(0, 5, (size, 1)), [2, 20], designs=20)
    >>> bool(curve.error[1] < curve.error[0])
    True
    """
    rows = _checked(noise_variance, n)
    generator = np.random.default_rng(rng)
    means, errors = [], []
    for m in rows.astype(int):
        found = np.empty(designs)
        for k in range(designs):
            X, T = draw_inputs(m, generator), draw_inputs(test_points, generator)
            found[k] = float(np.mean(mismatched_error(kernel, noise_variance, kernel, noise_variance, X, T)))
        means.append(found.mean())
        errors.append(found.std(ddof=1) / np.sqrt(designs))
    return SimulatedCurve(rows, np.array(means), np.array(errors))


def mismatched_error(
    kernel: Kernel,
    noise_variance: float,
    true_kernel: Kernel,
    true_noise: float,
    X: ArrayLike,
    new: ArrayLike,
) -> Array:
    """Expected squared error of f at new inputs if another process made the data than the one that predicts.

    k0 - 2 k1' A1^-1 k0 + k1' A1^-1 A0 A1^-1 k1, A = K + noise I (Rasmussen and Williams, 2006, eq. 7.23); 0 is the
    truth.

    Examples
    --------
    >>> from cavity.kernels import SE, Matern
    >>> from cavity.theory import mismatched_error
    >>> right = mismatched_error(SE(1.0), 0.1, SE(1.0), 0.1, [[0.0], [1.0]], [[0.5]])
    >>> wrong = mismatched_error(Matern(0.2, 0.5), 0.1, SE(1.0), 0.1, [[0.0], [1.0]], [[0.5]])
    >>> bool(wrong[0] > right[0])
    True
    """
    x, t = as_inputs(X), as_inputs(new)
    prior = (
        np.asarray([float(true_kernel(row[None])[0, 0]) for row in t]) if len(t) < 2 else true_kernel.diag(t)
    )
    if len(x) == 0:
        return np.asarray(prior)
    factor = factorize(lambda: kernel(x) + noise_variance * np.eye(len(x)))
    weights = factor.solve(kernel(x, t))  # of each row in each prediction
    A0 = true_kernel(x) + true_noise * np.eye(len(x))
    cross = np.sum(weights * true_kernel(x, t), axis=0)
    return np.asarray(prior - 2 * cross + np.sum(weights * (A0 @ weights), axis=0))


def ornstein_uhlenbeck(rate: float, n: ArrayLike) -> Array:
    """Exact learning curve of k = exp(-rate r), no noise, n inputs uniform on (0, 1) (section 7.6).

    Examples
    --------
    >>> from cavity.theory import ornstein_uhlenbeck
    >>> ornstein_uhlenbeck(1.0, [1, 10]).round(6)
    array([0.432332, 0.071485])
    """
    require_positive(rate, "rate")

    def one(m: int) -> float:
        if m < 1:
            return 1.0
        turn = min(0.5 * m / rate, 50.0)  # where gaps begin to be longer than what one point tells of

        def mean(end: bool) -> float:
            """Over gaps d with density m (1 - d)^(m - 1): t = -m log(1 - d) is exponential."""

            def each(t: float) -> float:
                return float(np.exp(-t) * _unexplained(-np.expm1(-t / m), rate, end))

            return sum(
                quad(each, low, high, epsabs=0.0, epsrel=1e-12, limit=200)[0]
                for low, high in ((0.0, turn), (turn, turn + 10.0), (turn + 10.0, np.inf))
            )

        return 2.0 * mean(True) + (m - 1.0) * mean(False)

    return np.asarray([one(int(m)) for m in np.atleast_1d(np.asarray(n))])


def _unexplained(gap: Array | float, rate: float, end: bool) -> Array:
    """Posterior variance integrated over a gap between two inputs, or over one beyond the last; nothing cancels.

    With z = 2 rate gap: (z - 1 + e^-z) / 2 rate beyond the last, (z - 2 + 2 z / (e^z - 1)) / 2 rate between two.
    """
    z: Array = 2.0 * rate * np.asarray(gap, dtype=float)
    series = (
        z**2 * (1 / 2 - z / 6 + z**2 / 24 - z**3 / 120) if end else z**2 * (1 / 6 - z**2 / 360 + z**4 / 15120)
    )
    safe = np.where(z > 0, z, 1.0)
    full = z + np.expm1(-z) if end else z - 2.0 - 2.0 * z * np.exp(-z) / np.expm1(-safe)
    return np.where(z < 1e-2, series, full) / (2.0 * rate)


def ornstein_uhlenbeck_design(rate: float, inputs: ArrayLike) -> float:
    """The same for given inputs in (0, 1): the average posterior variance.

    Examples
    --------
    >>> from cavity.theory import ornstein_uhlenbeck_design
    >>> round(ornstein_uhlenbeck_design(1.0, [0.25, 0.75]), 4)
    0.1885
    """
    x = np.sort(np.asarray(inputs, dtype=float).ravel())
    if len(x) == 0:
        return 1.0
    gaps = np.diff(np.concatenate([[0.0], x, [1.0]]))
    ends, inner = gaps[[0, -1]], gaps[1:-1]
    return float(_unexplained(ends, rate, True).sum() + _unexplained(inner, rate, False).sum())
