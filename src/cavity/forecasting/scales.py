"""From the units of a series to those of a model: z = (g(y) - center) / unit with g the identity or the logarithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.forecasting.seasons import ROBUST
from cavity.numerics.arrays import Array
from cavity.prediction import ContinuousPrediction, Prediction
from cavity.prediction.base import Seed

IDENTITY, LOG, RATE = "identity", "log", "rate"
"""The link of counts is that of their likelihood: the model is of the logarithm of their rate."""


@dataclass(frozen=True)
class Scale:
    """One scale of a series."""

    link: str
    center: float = 0.0
    unit: float = 1.0

    @classmethod
    def of(cls, link: str, y: Array, t: Array, period: float) -> Scale:
        """Center and unit of a series: its median, and the robust sd of what a seasonal random walk would leave."""
        if link == RATE:
            found = cls.of(LOG, np.maximum(y, 0.5), t, period)
            return cls(RATE, found.center, found.unit)
        g = np.log(y) if link == LOG else y
        return cls(link, float(np.median(g)), _unit(t, g, period))

    def to_model(self, y: Array) -> Array:
        """Values in the units of the model."""
        if self.link == RATE:
            return np.asarray(y, dtype=float)
        return np.asarray(((np.log(y) if self.link == LOG else y) - self.center) / self.unit)

    def from_model(self, z: Array) -> Array:
        """Values in the units of the series."""
        if self.link == RATE:
            return np.asarray(z, dtype=float)
        with np.errstate(over="ignore"):
            g = self.center + self.unit * z
            return np.asarray(np.exp(g) if self.link == LOG else g)

    def log_slope(self, y: Array) -> Array:
        """log dz/dy."""
        if self.link == RATE:
            return np.zeros(np.shape(y))
        rest = -np.log(y) if self.link == LOG else np.zeros(np.shape(y))
        return np.asarray(rest - np.log(self.unit))

    def prediction(self, of_z: Prediction) -> Prediction:
        """A prediction in the units of the series."""
        return of_z if self.link == RATE else Rescaled(of_z, self)


def _unit(t: Array, g: Array, period: float) -> float:
    """Robust sd of differences over a season, without their median; of the values themselves if there are none."""
    known = {float(np.round(step, 6)): value for step, value in zip(t, g)}
    lag = max(1.0, float(np.round(period)))
    found = [
        value - known[p] for step, value in known.items() if (p := float(np.round(step - lag, 6))) in known
    ]
    for x, factor in ((np.array(found), np.sqrt(2.0)), (np.diff(g), np.sqrt(2.0)), (g, 1.0)):
        if len(x) > 2:
            x = x - np.median(x)
            sd = ROBUST * float(np.median(np.abs(x))) or float(np.std(x))
            if sd > 1e-12 * float(np.max(np.abs(g)) or 1.0):
                return sd / float(factor)
    return float(np.std(g)) or max(abs(float(np.median(g))), 1.0)


class Rescaled(ContinuousPrediction):
    """A prediction of y = g^-1(center + unit z) from one of z."""

    def __init__(self, of_z: Prediction, scale: Scale) -> None:
        self._of_z, self._scale = of_z, scale

    def __len__(self) -> int:
        return len(self._of_z)

    def _z(self, y: ArrayLike) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(y, dtype=float)
            if self._scale.link == LOG:
                values = np.maximum(values, 0.0)
            return self._scale.to_model(values)

    @property
    def mean(self) -> Array:
        """Under a log link that of a log-normal with the first two moments of the logarithm."""
        if self._scale.link == LOG:
            return self._scale.from_model(self._of_z.mean + 0.5 * self._scale.unit * self._of_z.variance)
        return self._scale.from_model(self._of_z.mean)

    @property
    def variance(self) -> Array:
        """As the mean."""
        spread = self._scale.unit**2 * self._of_z.variance
        if self._scale.link == LOG:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(np.expm1(spread) * self.mean**2)
        return spread

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density in the units of the series."""
        values = np.asarray(y, dtype=float)
        inside = values > 0 if self._scale.link == LOG else np.ones(values.shape, dtype=bool)
        safe = np.where(inside, values, 1.0)
        found = self._of_z.log_prob(self._scale.to_model(safe)) + self._scale.log_slope(safe)
        return np.where(inside, found, -np.inf)

    def cdf(self, y: ArrayLike) -> Array:
        """That of z."""
        return self._of_z.cdf(self._z(y))

    def survival(self, y: ArrayLike) -> Array:
        """That of z."""
        return self._of_z.survival(self._z(y))

    def quantile(self, q: ArrayLike) -> Array:
        """Quantiles of z, brought to the units of the series."""
        return self._scale.from_model(self._of_z.quantile(q))

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Draws of z, brought to the units of the series."""
        return self._scale.from_model(self._of_z.sample(size, rng))

    def _location_and_width(self) -> tuple[Array, Array]:
        low, middle, high = cast(Any, self.quantile(np.array([0.25, 0.5, 0.75])))
        return middle, np.maximum(high - low, 1e-300)
