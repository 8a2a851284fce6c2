"""Continuous predictions that are known through their distribution function F: quantiles by inversion."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.prediction.base import Prediction, check_levels


def invert_cdf(cdf: Callable[[Array], Array], level: Array, start: Array, width: Array) -> Array:
    """Solve cdf(x) = level for every entry by bracketing, then Chandrupatla's (1997) method on the log of cdf / level.

    A step is one of inverse quadratic interpolation if the last three points promise that it helps, else one of
    bisection. The bracket shrinks from both sides; ten evaluations are usual. `scipy.optimize.elementwise.find_root`
    runs the same algorithm at one to two times this time for 50 to 500 cases, and its search for a bracket stops at
    infinite values, which log F has.

    Parameters
    ----------
    cdf : callable
        Element-wise, non-decreasing; called with arrays of the shape of `start`.
    level, start, width : arrays of one shape
        Levels strictly between 0 and 1, a first guess and a first step.
    """
    low, high = start - width, start + width
    step: Array = np.array(width, dtype=float)
    for _ in range(1100):  # doubling spans all of double precision
        f_low, f_high = cdf(low), cdf(high)
        too_high, too_low = f_low > level, f_high < level
        if not (too_high.any() or too_low.any()):
            break
        step = np.where(too_high | too_low, 2 * step, step)
        low, high = np.where(too_high, low - step, low), np.where(too_low, high + step, high)
    log_level = np.log(level)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _chandrupatla(
            lambda x: np.log(cdf(x)) - log_level,
            low,
            high,
            np.log(f_low) - log_level,
            np.log(f_high) - log_level,
        )


def _chandrupatla(f: Callable[[Array], Array], a: Array, b: Array, f_a: Array, f_b: Array) -> Array:
    """Roots of increasing functions between a and b; f may be -inf or 0 at the ends.

    a is the newest point, b the one across the root, c the one before.
    """
    t: Array = np.full(a.shape, 0.5)
    for _ in range(200):
        x = a + t * (b - a)
        f_x = f(x)
        same = np.sign(f_x) == np.sign(f_a)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = x, f_x
        best = np.where(np.abs(f_a) < np.abs(f_b), a, b)
        # half of the tolerance as a share of the bracket: the root is passed by so much, and the bracket closes
        least = 0.5 * (4e-15 * np.abs(best) + 1e-300) / np.abs(b - a)
        if np.all((least > 0.5) | (f_a == 0) | (f_b == 0) | (a == b)):
            break
        xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        quadratic = f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (f_c - f_a) * f_b / (
            f_c - f_b
        )
        t = np.where(smooth & np.isfinite(quadratic), np.clip(quadratic, least, 1 - least), 0.5)
    return np.where(f_a == 0, a, np.where(f_b == 0, b, best))


class ContinuousPrediction(Prediction):
    """Base of continuous predictions that know log density and distribution function; quantiles by inversion.

    The left and the right half are inverted in the tail they belong to, so that extreme quantiles keep
    their digits.

    Examples
    --------
    >>> from cavity.likelihoods import StudentT
    >>> from cavity.prediction import ContinuousPrediction
    >>> prediction = StudentT(1.0, 4.0).predictive([0.0], [0.0])
    >>> isinstance(prediction, ContinuousPrediction), prediction.quantile(0.975).round(3)
    (True, array([2.776]))
    """

    @abstractmethod
    def _location_and_width(self) -> tuple[Array, Array]:
        """A central value and a finite positive width for each case, to start searches from."""

    def quantile(self, q: ArrayLike) -> Array:
        """By bracketing and bisection on the distribution function."""
        levels = check_levels(q)
        return np.stack([self._quantile(float(p)) for p in levels.ravel()]).reshape(
            levels.shape + (len(self),)
        )

    def _quantile(self, p: float) -> Array:
        if p in (0.0, 1.0):
            return np.full(len(self), -np.inf if p == 0.0 else np.inf)
        start, width = self._location_and_width()
        if p <= 0.5:
            return invert_cdf(self.cdf, np.full(len(self), p), start, width)
        mirrored = invert_cdf(lambda x: self.survival(-x), np.full(len(self), 1 - p), -start, width)
        return -mirrored

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} cases)"
