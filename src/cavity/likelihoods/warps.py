"""Monotone functions z = T(y) that take targets of some range to the real line (Snelson, Rasmussen, Ghahramani 2004).

PositiveWarp   y > 0      softplus inverse: a logarithm for small y, a straight line for large y, the bend is learned
IntervalWarp   a < y < b  logit
Clipped        a <= y <= b, T is the identity and predictions end at a and b

All have T(c) = c and slope one at their center c, so that z has about the units of y, whatever the parameters.

Targets at the very end of the range have no image. A shift, or a squeeze of the range towards its middle, brings them
inside; what predictions put beyond the end is then put at the end (`inverse` clips).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Parametrized
from cavity.runtime.errors import InputError


class Warp(Parametrized):
    """A monotone increasing function of the targets, with parameters that are learned.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import PositiveWarp
    >>> warp = PositiveWarp(center=10.0)
    >>> y = np.array([0.1, 10.0, 1000.0])
    >>> np.allclose(warp.inverse(warp.forward(y)), y)
    True
    """

    lower: float = -np.inf
    upper: float = np.inf

    @abstractmethod
    def forward(self, y: Array) -> Array:
        """z = T(y)."""

    @abstractmethod
    def inverse(self, z: Array) -> Array:
        """y of any z, within the range."""

    @abstractmethod
    def log_slope(self, y: Array) -> Array:
        """log dz/dy."""

    def parameter_slopes(self, y: Array) -> tuple[Array, Array]:
        """Derivatives of z and of log dz/dy in the flat parameters, (P, n) each."""
        none = np.zeros((0, *np.shape(y)))
        return none, none

    def _inside(self, y: Array) -> Array:
        """Whether y can be observed."""
        return np.asarray((y >= self.lower) & (y <= self.upper))

    def check(self, y: Array) -> None:
        """Refuse targets outside the range, by name."""
        with np.errstate(all="ignore"):
            bad = ~(self._inside(y) & np.isfinite(self.forward(y)))
        if np.any(bad):
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"{type(self).__name__} is for targets within {self.lower:g} and {self.upper:g}, got {y[row]:g}",
                row=row,
                remedy="use another warp or noise",
            )


class PositiveWarp(Warp):
    """Positive targets: a logarithm for small ones, a straight line for large ones.

        z = c + c (1 - e^-t) / t (L(u t) - L(t)),   u = (y + shift) / c,   L(x) = log(e^x - 1)

    For t -> 0 it is c + c log u, and noise is proportional to y; for t -> inf it is y + shift.

    Parameters
    ----------
    bend : float or Param
        t, learned.
    center : float
        c, a typical target.
    shift : float
        Added to the targets; above zero if some of them are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import PositiveWarp
    >>> PositiveWarp(bend=1e-4).forward(np.exp(np.array([-1.0, 0.0, 1.0]))).round(3)
    array([0., 1., 2.])
    """

    _transforms: ClassVar = {"bend": LOG}
    lower = 0.0

    def __init__(self, bend: Any = 0.3, center: float = 1.0, shift: float = 0.0) -> None:
        if not (0 < center < np.inf and 0 <= shift < np.inf):
            raise ValueError(
                f"PositiveWarp: center must be positive and shift >= 0, got {center!r} and {shift!r}"
            )
        self.center, self.shift = float(center), float(shift)
        self._set_up({"bend": bend})

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), f"center={self.center!r}", f"shift={self.shift!r}"]

    @property
    def _scale(self) -> float:
        """(1 - e^-t) / t."""
        return float(-np.expm1(-self.bend) / self.bend)

    def forward(self, y: Array) -> Array:
        """z; minus infinity at the end of the range."""
        t = self.bend
        u = (np.asarray(y, dtype=float) + self.shift) / self.center
        with np.errstate(divide="ignore"):
            return self.center * (1.0 + self._scale * (_log_expm1(u * t) - _log_expm1(t)))

    def inverse(self, z: Array) -> Array:
        """y = c softplus(...) / t - shift."""
        w = (np.asarray(z, dtype=float) / self.center - 1.0) / self._scale + _log_expm1(self.bend)
        y = self.center * np.logaddexp(0.0, w) / self.bend - self.shift
        return np.asarray(np.maximum(y, 0.0) if self.shift else y)

    def log_slope(self, y: Array) -> Array:
        """log (1 - e^-t) - log (1 - e^-ut)."""
        t = self.bend
        u = (np.asarray(y, dtype=float) + self.shift) / self.center
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(-np.expm1(-t)) - np.log(-np.expm1(-u * t)))

    def parameter_slopes(self, y: Array) -> tuple[Array, Array]:
        """In t."""
        t, c = self.bend, self._scale
        u = (np.asarray(y, dtype=float) + self.shift) / self.center
        d_scale = (np.exp(-t) - c) / t
        bracket = _log_expm1(u * t) - _log_expm1(t)
        slope = u / -np.expm1(-u * t) - 1.0 / -np.expm1(-t)
        with np.errstate(over="ignore"):
            d_log = 1.0 / np.expm1(t) - u / np.expm1(u * t)
        return self.center * (d_scale * bracket + c * slope)[None], d_log[None]


class IntervalWarp(Warp):
    """Targets between two ends, such as shares and percentages: the logit of their place between them.

    Parameters
    ----------
    lower, upper : float
        The ends.
    squeeze : float
        Share of the range by which both ends are moved away from the targets; above zero if some are at an end.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import IntervalWarp
    >>> IntervalWarp(0.0, 100.0).inverse(np.array([-100.0, 50.0, 200.0])).round(2)
    array([ 0.25, 50.  , 99.75])
    """

    def __init__(self, lower: float = 0.0, upper: float = 1.0, squeeze: float = 0.0) -> None:
        if not (-np.inf < lower < upper < np.inf and 0 <= squeeze < 0.5):
            raise ValueError(
                f"IntervalWarp: lower must be below upper and squeeze between 0 and 0.5, got {lower!r}, {upper!r} and "
                f"{squeeze!r}"
            )
        self.lower, self.upper, self.squeeze = float(lower), float(upper), float(squeeze)
        self._set_up({})

    def _arguments(self) -> list[str]:
        return [repr(self.lower), repr(self.upper), f"squeeze={self.squeeze!r}"]

    def _share(self, y: Array) -> Array:
        u = (np.asarray(y, dtype=float) - self.lower) / (self.upper - self.lower)
        return np.asarray(self.squeeze + (1.0 - 2.0 * self.squeeze) * u)

    def forward(self, y: Array) -> Array:
        """lower + (upper - lower) (1/2 + logit / 4)."""
        v = self._share(y)
        with np.errstate(divide="ignore"):
            return self.lower + (self.upper - self.lower) * (0.5 + 0.25 * (np.log(v) - np.log1p(-v)))

    def inverse(self, z: Array) -> Array:
        """Clipped to the range."""
        v = expit(4.0 * ((np.asarray(z, dtype=float) - self.lower) / (self.upper - self.lower) - 0.5))
        u = np.clip((v - self.squeeze) / (1.0 - 2.0 * self.squeeze), 0.0, 1.0)
        return np.asarray(self.lower + (self.upper - self.lower) * u)

    def log_slope(self, y: Array) -> Array:
        """-log 4 v (1 - v)."""
        v = self._share(y)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-2.0 * self.squeeze) - np.log(4.0 * v) - np.log1p(-v))


class Clipped(Warp):
    """No change of the targets, but predictions do not go beyond the ends of their range.

    What a density puts beyond an end is put at the end.

    Parameters
    ----------
    lower, upper : float
        The ends; may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Clipped
    >>> Clipped(0.0).inverse(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    def __init__(self, lower: float = -np.inf, upper: float = np.inf) -> None:
        if not lower < upper:
            raise ValueError(f"Clipped: lower must be below upper, got {lower!r} and {upper!r}")
        self.lower, self.upper = float(lower), float(upper)
        self._set_up({})

    def _arguments(self) -> list[str]:
        return [f"float('{end}')" if np.isinf(end) else repr(end) for end in (self.lower, self.upper)]

    def forward(self, y: Array) -> Array:
        """y."""
        return np.array(y, dtype=float)

    def inverse(self, z: Array) -> Array:
        """Clipped to the range."""
        return np.asarray(np.clip(z, self.lower, self.upper), dtype=float)

    def log_slope(self, y: Array) -> Array:
        """0."""
        return np.zeros(np.shape(y))


def _log_expm1(x: ArrayLike) -> Array:
    """log(e^x - 1) for x > 0."""
    return np.asarray(x + np.log(-np.expm1(-np.asarray(x))))
