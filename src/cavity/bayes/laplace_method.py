"""Laplace's method for any log density: a Gaussian at the mode, the log of the integral, and whether to believe them.

With Psi = log density (not normalized), x^ its mode and H = -Hessian there,

    q = N(x^, H^-1),    log Z = Psi(x^) + d/2 log 2 pi - 1/2 log |H|.

Nothing in these formulas says whether the density looks like a Gaussian away from the mode. So draws of q are
weighted by density / q. If the upper tail of the weights is so heavy that importance sampling itself would fail (k-hat
above 0.7; Vehtari et al., 2024), q leaves out what matters, and the result says so. Smoothed weights also give log Z
anew.

A tail of M independent draws knows k to (1 + k) / sqrt(M), 0.16 for the 95 largest of a thousand. So draws are
Sobol points with random scrambling: an error of 0.03 to 0.07 in few dimensions, that of independent draws in many.
k-hat is the mean over several such sets, with the standard error that these show, until it is clear on which side of
0.7 it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri
from scipy.stats import qmc

from cavity.bayes.gaussian import Gaussian
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import try_factorize
from cavity.numerics.special import LOG_2PI
from cavity.runtime.checks import require_integer
from cavity.runtime.errors import InputError
from cavity.sampling.psis import pareto_smoothed

LARGEST_K = 0.7
SET_SIZE = 1024
"""Draws of a set, at most: a power of two, as Sobol points are made."""

FEWEST_SETS = 4
"""Sets from which a standard error is taken."""

SURE = 3.0
"""Standard errors that k-hat must be away from its limit."""

DIFFERENCE = 1e-3
"""Step of second differences, in units of the width of the mode; Richardson's extrapolation takes its square away."""


@dataclass(frozen=True)
class LaplaceApproximation:
    """What Laplace's method says of a density.

    Attributes
    ----------
    gaussian : Gaussian
        At the mode, with the curvature there.
    log_integral : float
        Log of the integral of the density: the log evidence, if it was likelihood times prior.
    k_hat : float
        Tail of the importance weights of draws of the Gaussian; above 0.7 it misses too much of the density.
    k_hat_error : float
        Its standard error.
    log_integral_by_weights : float
        The same integral from the weights; worth reading if k-hat is below 0.7.
    reliable : bool
    message : str
        Why not, and what helps.
    """

    gaussian: Gaussian
    log_integral: float
    k_hat: float
    k_hat_error: float
    log_integral_by_weights: float

    @property
    def reliable(self) -> bool:
        """Whether k-hat is at most 0.7."""
        return self.k_hat <= LARGEST_K

    @property
    def message(self) -> str:
        """A sentence."""
        k = f"k-hat {self.k_hat:.2f} +- {self.k_hat_error:.2f}"
        if self.reliable:
            change = self.log_integral_by_weights - self.log_integral
            return f"the Gaussian covers the density ({k}); weights change log Z by {change:+.3f}"
        return (
            f"the density has tails or modes that the Gaussian at its mode does not cover ({k}, above {LARGEST_K}); "
            "transform the parameters (logarithms of positive ones), or sample"
        )


def laplace(
    log_density: Callable[[Array], float],
    start: ArrayLike,
    gradient: Callable[[Array], Array] | None = None,
    *,
    most_draws: int = 32 * SET_SIZE,
    rng: int | np.random.Generator | None = 0,
) -> LaplaceApproximation:
    """Approximate a density by a Gaussian at its mode.

    Parameters
    ----------
    log_density : callable
        Log density at a vector (d,), up to a constant; may be -inf.
    start : array (d,)
        Where to begin.
    gradient : callable, optional
        Its gradient (d,); differences otherwise.
    most_draws : int
        For the check: sets of up to 1024 are drawn, four at least, until k-hat is three standard errors away from 0.7.

    Examples
    --------
    >>> from cavity.bayes import laplace
    >>> found = laplace(lambda x: -0.5 * float(x @ x), [3.0, 1.0])
    >>> round(found.log_integral, 6), found.reliable  # log 2 pi
    (1.837877, True)
    """
    require_integer(most_draws, "most_draws", 256)
    x0 = np.atleast_1d(np.array(start, dtype=float))
    if x0.ndim != 1 or not len(x0):
        raise InputError(f"must be a vector of numbers, got shape {x0.shape}", parameter="start", value=start)
    if not np.isfinite(float(log_density(x0))):
        raise InputError(
            f"has log density {float(log_density(x0))!r}",
            parameter="start",
            value=start,
            remedy="start where it is positive",
        )
    with np.errstate(over="ignore", invalid="ignore"):  # of a density without a mode
        mode = _mode(log_density, gradient, x0)
        H = -_hessian(log_density, gradient, mode)
    if not np.isfinite(H).all():
        raise InputError(
            "has no mode: the density grows for ever", parameter="log_density", remedy="give it a prior"
        )
    factor = try_factorize(H.copy())
    if factor is None:
        raise InputError(
            f"there is no mode with positive curvature: the smallest eigenvalue of the Hessian at {mode.tolist()} is "
            f"{float(np.linalg.eigvalsh(H)[0]):.3g}",
            remedy="start elsewhere; a flat direction needs a prior",
        )
    gaussian = Gaussian(mode, factor.solve(np.eye(len(mode))))
    log_z = float(log_density(mode)) + 0.5 * (len(mode) * LOG_2PI - factor.log_det)
    return LaplaceApproximation(
        gaussian, log_z, *_tail(log_density, gaussian, most_draws, np.random.default_rng(rng))
    )


def _tail(
    log_density: Callable[[Array], float], gaussian: Gaussian, most_draws: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """k-hat of weights density / Gaussian, its standard error, and the log integral by smoothed weights."""
    d = len(gaussian.mean)
    root = np.linalg.cholesky(gaussian.covariance)
    size = min(SET_SIZE, 2 ** int(np.log2(most_draws / FEWEST_SETS)))
    shapes: list[float] = []
    logs: list[float] = []
    for _ in range(most_draws // size):
        u = qmc.Sobol(d, rng=rng).random(size)
        draws = gaussian.mean + ndtri(np.clip(u, np.finfo(float).tiny, 1.0 - 1e-16)) @ root.T
        log_w = np.array([float(log_density(x)) for x in draws]) - np.asarray(gaussian.log_prob(draws))
        smoothed, k = pareto_smoothed(np.where(np.isnan(log_w), -np.inf, log_w))
        shapes.append(k)
        logs.append(float(logsumexp(smoothed)) - np.log(size))
        if len(shapes) >= FEWEST_SETS:
            k_hat = float(np.mean(shapes))
            error = float(np.std(shapes, ddof=1) / np.sqrt(len(shapes))) if np.isfinite(shapes).all() else 0.0
            if not abs(k_hat - LARGEST_K) < SURE * error:
                break
    return k_hat, error, float(logsumexp(logs) - np.log(len(logs)))


def _mode(
    log_density: Callable[[Array], float], gradient: Callable[[Array], Array] | None, x: Array
) -> Array:
    """BFGS, then Newton steps with accurate Hessians until they no longer help."""

    def objective(t: Array) -> float:
        value = float(log_density(t))
        return -value if np.isfinite(value) else 1e300

    slope = None if gradient is None else (lambda t: -np.asarray(gradient(t), dtype=float))
    x = np.asarray(minimize(objective, x, jac=slope, method="BFGS", options={"gtol": 1e-7}).x, dtype=float)
    for _ in range(10):
        H = -_hessian(log_density, gradient, x)
        factor = try_factorize(H.copy())
        if factor is None:
            return x
        step = factor.solve(_slope(log_density, gradient, x, H))
        size = float(np.sqrt(step @ H @ step))
        if size < 1e-9 or objective(x + step) > objective(x) + 1e-12 * (1.0 + abs(objective(x))):
            return x + step if size < 1e-6 else x
        x = x + step
    return x


def _slope(
    log_density: Callable[[Array], float], gradient: Callable[[Array], Array] | None, x: Array, H: Array
) -> Array:
    if gradient is not None:
        return np.asarray(gradient(x), dtype=float)
    steps = 10 * DIFFERENCE / np.sqrt(np.diag(H))

    def central(h: Array) -> Array:
        shifted = [(x + e, x - e) for e in np.diag(h)]
        return np.array([(float(log_density(a)) - float(log_density(b))) for a, b in shifted]) / (2 * h)

    return np.asarray((4.0 * central(0.5 * steps) - central(steps)) / 3.0)


def _hessian(
    log_density: Callable[[Array], float], gradient: Callable[[Array], Array] | None, x: Array
) -> Array:
    """Second differences in coordinates scaled to the width of the mode, extrapolated."""
    widths = _widths(log_density, x)
    coarse, fine = (
        _second_differences(log_density, gradient, x, h * widths) for h in (20 * DIFFERENCE, 10 * DIFFERENCE)
    )
    finest = _second_differences(log_density, gradient, x, 5 * DIFFERENCE * widths)
    first, second = (4.0 * fine - coarse) / 3.0, (4.0 * finest - fine) / 3.0
    return np.asarray((16.0 * second - first) / 15.0)


def _widths(log_density: Callable[[Array], float], x: Array) -> Array:
    """About 1/sqrt(curvature) along each axis: where the log density has fallen by one half."""
    top = float(log_density(x))
    widths = np.maximum(np.abs(x), 1.0)
    for i, e in enumerate(np.eye(len(x))):
        for _ in range(200):
            fall = max(top - float(log_density(x + s * widths[i] * e)) for s in (-1, 1))
            if 0.05 < fall < 2.0:
                break
            widths[i] *= 0.5 if not fall < 2.0 else 2.0
    return widths


def _second_differences(
    log_density: Callable[[Array], float], gradient: Callable[[Array], Array] | None, x: Array, h: Array
) -> Array:
    d, steps = len(x), np.diag(h)
    if gradient is not None:
        rows = np.stack(
            [
                (np.asarray(gradient(x + e)) - np.asarray(gradient(x - e))) / (2 * h[i])
                for i, e in enumerate(steps)
            ]
        )
        return np.asarray(0.5 * (rows + rows.T))
    H, middle = np.empty((d, d)), float(log_density(x))
    for i in range(d):
        a = steps[i]
        H[i, i] = (float(log_density(x + a)) - 2 * middle + float(log_density(x - a))) / h[i] ** 2
        for j in range(i):
            b = steps[j]
            cross = [float(log_density(x + s * a + t * b)) * s * t for s in (1, -1) for t in (1, -1)]
            H[i, j] = H[j, i] = sum(cross) / (4 * h[i] * h[j])
    return H
