"""Typical sizes in the data: distances, spreads, levels, and the frequencies that stand out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from cavity.numerics.arrays import Array

SUBSET = 400
"""Most rows looked at for typical distances."""

DIFFERENCES = 1_000_000
"""Most differences formed for typical distances, over all columns together."""

SPECTRUM_ROWS = 1500
"""Rows looked at for frequencies."""

SPECTRUM_POINTS = 3000
"""Most frequencies tried."""

FAR = 10.0
"""Robust standard deviations from the median beyond which a target says nothing about the spread of the function."""

SAME_TARGET = 1e-9
"""Share of the range of the targets below which two of them are the same."""

MAD_TO_SD = 1.0 / 0.6744897501960817
"""Standard deviation of a normal density per median absolute deviation."""

OVERSAMPLING = 4
"""Frequencies tried per independent one (independent ones are 1 / extent apart)."""


@dataclass(frozen=True)
class DataScale:
    """Typical sizes in the data.

    Attributes
    ----------
    X, signal : arrays (n, D), (n,)
        Inputs, and the targets without what the mean function explains (summed over several targets).
    distance : array (D,)
        Median distance between rows, column by column.
    extent : array (D,)
        Range of each column.
    spacing : array (D,)
        Smallest gap between neighboring values of each column.
    x_center, x_sd : array (D,)
    f_center, f_sd : float
        Level and spread to expect of the latent function.
    y_sd : float
        Spread of the targets, for noise.
    reach : float
        Distance from the bulk of the targets to the farthest one, if `without_far` found some; else zero.
    resolution : float
        Smallest gap between different targets, if targets repeat and noise may not be finer than that; else zero.
    constant : bool
        Whether the targets do not vary at all; `f_sd` and `y_sd` are then small beside their level, not read off them.
    """

    X: Array = field(repr=False)
    signal: Array = field(repr=False)
    distance: Array
    extent: Array
    spacing: Array
    x_center: Array
    x_sd: Array
    f_center: float
    f_sd: float
    y_sd: float
    reach: float = 0.0
    constant: bool = False
    resolution: float = 0.0

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array,
        f_scale: tuple[float, float] | None = None,
        sample_weight: Array | None = None,
        level: float | None = None,
        least_sd: float = 0.0,
    ) -> Self:
        """Read off inputs (n, D) and targets (n,) or (n, T).

        Parameters
        ----------
        f_scale : (center, sd), optional
            Of the latent function, if its scale is not that of y.
        level : float, optional
            The level around which the function varies, if the model fixes it; else the targets' mean.
        least_sd : float
            What counts as no spread of the targets at all.
        """
        distance, spacing = _distances(X)
        extent = np.ptp(X, axis=0)
        # A column that never varies says nothing about length: any finite value will do.
        typical = np.where(distance > 0, distance, np.where(np.abs(X[0]) > 0, np.abs(X[0]), 1.0))
        share = (
            np.full(len(y), 1.0 / len(y)) if sample_weight is None else sample_weight / sample_weight.sum()
        )
        centers = share @ y
        y_center = float(np.mean(centers))
        # Several targets share one variance: it is the mean of theirs.
        y_sd = float(np.sqrt(np.mean(share @ (y - centers) ** 2)))
        constant = not y_sd > max(1e-14 * abs(y_center), least_sd)
        if constant:
            y_sd = max(1e-3 * abs(y_center), least_sd) or 1.0
        if f_scale is not None:
            center, sd = f_scale
        elif level is not None:
            center, sd = level, max(y_sd, float(np.sqrt(np.mean(share @ (y - level) ** 2))))
        else:
            center, sd = y_center, y_sd
        x_sd = _spread(X)
        return cls(
            X,
            (y - centers).reshape(len(y), -1).sum(axis=1),
            typical,
            np.where(extent > 0, extent, typical),
            np.where(spacing > 0, spacing, typical),
            X.mean(axis=0),
            np.where(x_sd > 0, x_sd, typical),
            center,
            sd,
            y_sd,
            constant=constant,
        )

    def warped(self, U: Array) -> DataScale:
        """The same targets over other inputs (n, E)."""
        new = DataScale.of(U, self.signal)
        return DataScale(
            U, self.signal, new.distance, new.extent, new.spacing, new.x_center, new.x_sd, self.f_center,
            self.f_sd, self.y_sd, self.reach, self.constant, self.resolution,
        )  # fmt: skip

    def frequencies(self, column: int, count: int) -> Array:
        """The `count` frequencies that stand out most along one column, strongest first (cycles per unit)."""
        found = dominant_frequencies(self.X[:, column], self.signal, count)
        rest = count - len(found)
        # Nothing to see (too few rows, no variation): a few turns over the extent of the data.
        return np.concatenate([found, (1.0 + np.arange(rest)) * 4.0 / self.extent[column]])


def _distances(X: Array) -> tuple[Array, Array]:
    """Median distance between rows and smallest gap between values, (D,) each; zero for columns that do not vary."""
    rows = min(len(X), SUBSET, max(50, int(np.sqrt(DIFFERENCES / X.shape[1]))))
    some = X[np.linspace(0, len(X) - 1, rows).astype(int)]
    distance, spacing = np.empty(X.shape[1]), np.empty(X.shape[1])
    for d in range(X.shape[1]):
        gaps = np.abs(np.subtract.outer(some[:, d], some[:, d]))
        apart = gaps[gaps > 0]
        distance[d] = np.median(apart) if apart.size else 0.0
        steps = np.diff(np.unique(X[:, d]))
        spacing[d] = np.min(steps) if steps.size else 0.0
    return distance, spacing


def _spread(X: Array) -> Array:
    """Standard deviation of each column, also if squares of its values are beyond floating-point numbers."""
    _, exponent = np.frexp(np.max(np.abs(X), axis=0))
    return np.asarray(np.ldexp(np.std(np.ldexp(X, -exponent), axis=0), exponent))


def resolution(y: Array) -> float:
    """Smallest gap between different targets (n,) if some are equal, as rounded ones are; else zero.

    Values that differ by no more than rounding are equal.
    """
    values = np.sort(y)
    gaps = np.diff(values)
    apart = gaps > SAME_TARGET * (values[-1] - values[0])
    return float(np.min(gaps[apart])) if apart.any() and not apart.all() else 0.0


def without_far(y: Array) -> tuple[Array, float]:
    """Targets (n,) with those far away from the bulk brought to its edge, and how far away they were.

    Nothing is far away if more than half of the targets are equal.
    """
    center = np.median(y)
    distance = np.abs(y - center)
    edge, reach = FAR * MAD_TO_SD * float(np.median(distance)), float(np.max(distance))
    if not 0.0 < edge < reach:
        return y, 0.0
    return np.clip(y, center - edge, center + edge), reach


def dominant_frequencies(x: Array, y: Array, count: int) -> Array:
    """At most `count` peaks of the periodogram of y over x, strongest first, a parabola in x taken out.

    The frequencies tried end at half of the typical sampling rate: beyond it, regular samples cannot tell.
    """
    order = np.argsort(x, kind="stable")[:SPECTRUM_ROWS]
    x, y = x[order], y[order]
    extent = x[-1] - x[0]
    gaps = np.diff(np.unique(x))
    if gaps.size < 4:
        return np.zeros(0)
    t = (x - x[0]) / extent
    trend = np.vander(2 * t - 1, 3)
    residual = y - trend @ np.linalg.lstsq(trend, y, rcond=None)[0]
    if not np.sum(residual**2) > 1e-20 * np.sum(y**2):
        return np.zeros(0)
    highest = 0.5 * extent / float(np.median(gaps))
    turns = np.linspace(1.0, highest, int(min(SPECTRUM_POINTS, max(8, OVERSAMPLING * highest))))
    waves = np.exp(-2j * np.pi * np.multiply.outer(turns, t))
    found: list[float] = []
    for _ in range(count):
        best = int(np.argmax(np.abs(waves @ residual)))
        found.append(float(turns[best] / extent))
        # Take this one out: it leaks into other frequencies if samples are few or irregular.
        pair = np.column_stack([waves[best].real, waves[best].imag])
        residual = residual - pair @ np.linalg.lstsq(pair, residual, rcond=None)[0]
    return np.array(found)
