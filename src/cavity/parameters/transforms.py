"""Maps between the values a parameter may take and the whole real line.

Notation: x is a natural value, u its unconstrained coordinate. Every map is smooth and increasing; the
derivatives that the chain rule and changes of variables need are written as functions of x.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from scipy.special import expit

from cavity.numerics.arrays import Array


class Transform:
    """A smooth increasing map from the real line (u) onto the values a parameter may take (x); here u = x.

    Examples
    --------
    >>> from cavity.parameters.transforms import Transform
    >>> Transform().support
    (-inf, inf)
    """

    name: str = "identity"
    support: tuple[float, float] = (-np.inf, np.inf)

    def to_natural(self, u: Array) -> Array:
        """x(u)."""
        return u

    def to_unconstrained(self, x: Array) -> Array:
        """u(x)."""
        return x

    def slope(self, x: Array) -> Array:
        """dx/du, written as a function of x."""
        return np.ones_like(x)

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(dx/du): the derivative of the log Jacobian, for densities over u."""
        return np.zeros_like(x)

    def __repr__(self) -> str:
        return "Transform()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(vars(self).items())))


class Log(Transform):
    """Values above `low` (zero unless given), u = log(x - low).

    Near zero floating-point numbers are dense, so x = exp(u) is resolved for |u| up to about 700. Near
    another `low` they are not: far enough down, x is the number next to `low`, never `low` itself.

    Examples
    --------
    >>> from cavity.parameters.transforms import Log
    >>> Log().to_natural(0.0), Log(low=1.0).support
    (np.float64(1.0), (1.0, inf))
    """

    name = "log"

    def __init__(self, low: float = 0.0) -> None:
        self.low = float(low)
        if not np.isfinite(self.low):
            raise ValueError(f"Log needs a finite lower end, got low={low!r}")
        self.support = (self.low, np.inf)

    def to_natural(self, u: Array) -> Array:
        """x = low + exp(u)."""
        with np.errstate(over="ignore"):
            x = np.exp(u)
        return x if self.low == 0.0 else np.maximum(self.low + x, np.nextafter(self.low, np.inf))

    def to_unconstrained(self, x: Array) -> Array:
        """u = log(x - low)."""
        return cast(Array, np.log(x - self.low))

    def slope(self, x: Array) -> Array:
        """dx/du = x - low."""
        return x - self.low

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(x - low) = 1."""
        return np.ones_like(x)

    def __repr__(self) -> str:
        return f"Log({self.low!r})" if self.low else "Log()"


class Logit(Transform):
    """Values strictly between two ends, u = log((x - low) / (high - x)).

    Next to an end other than zero, such as 1, no number is nearer to it than about 1e-16: for |u| beyond 37
    or so, x is the number next to that end, never the end itself.

    Examples
    --------
    >>> from cavity.parameters.transforms import Logit
    >>> Logit(0.0, 2.0).to_natural(0.0), Logit(0.0, 2.0).support
    (np.float64(1.0), (0.0, 2.0))
    """

    name = "logit"

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        self.low, self.high = float(low), float(high)
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"Logit needs two finite ends with low < high, got low={low!r}, high={high!r}")
        self.support = (self.low, self.high)
        self._first, self._last = np.nextafter(self.low, self.high), np.nextafter(self.high, self.low)

    def to_natural(self, u: Array) -> Array:
        """x = low + (high - low) / (1 + exp(-u)), from the nearer end so that neither is rounded away."""
        distance = (self.high - self.low) * expit(-np.abs(u))
        x = np.where(u < 0, self.low + distance, self.high - distance)
        return np.minimum(np.maximum(x, self._first), self._last)

    def to_unconstrained(self, x: Array) -> Array:
        """u = log((x - low) / (high - x))."""
        return cast(Array, np.log(x - self.low) - np.log(self.high - x))

    def slope(self, x: Array) -> Array:
        """dx/du = (x - low)(high - x) / (high - low)."""
        return (x - self.low) * ((self.high - x) / (self.high - self.low))

    def log_slope_derivative(self, x: Array) -> Array:
        """d/du log(dx/du) = (low + high - 2x) / (high - low)."""
        return ((self.high - x) - (x - self.low)) / (self.high - self.low)

    def __repr__(self) -> str:
        return f"Logit({self.low!r}, {self.high!r})"


IDENTITY = Transform()
LOG = Log()
UNIT = Logit(0.0, 1.0)


def range_text(support: tuple[float, float]) -> str:
    """The values a transform allows, in words."""
    low, high = support
    if np.isinf(low):
        return "finite"
    if np.isinf(high):
        return "positive and finite" if low == 0.0 else f"finite and greater than {low:g}"
    return f"between {low:g} and {high:g}"
