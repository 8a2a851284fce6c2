"""A typical value, spread, range and step for every parameter of a model, by what it measures.

Parts list what their parameters measure (`cavity.parameters.units`). What is known here is how large such quantities
are in some data, and how the variance of a function is shared out among the parts of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np

from cavity import kernels, likelihoods, means
from cavity.kernels import Kernel
from cavity.learning.data_scale import DataScale
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param, Parametrized
from cavity.parameters.units import Unit

NOISE_SHARE = 0.1
"""Noise starts at a tenth of the targets' variance."""

LEAST_NOISE = 1e-13
"""Noise variance, as a share of the function's, below which rounding errors would take its place."""

LEAST_UNSEEN_NOISE = 1e-4
"""The same beside where it starts, for targets that do not vary: the evidence then grows for ever as noise vanishes."""

SUM_LADDER = 4.0
"""Terms of a sum start with length scales this factor apart, longest first, so that they do not compete for
one role."""

COMPONENT_LADDER = 10.0
"""Components of a noise mixture start with variances this factor apart."""

SHAPE_RANGE = 30.0
"""Shape parameters are sought within this factor of the value given; farther out they hardly change the
function."""

ROUNDING = 1e-10
"""What is left of a difference of two equally large numbers, at least."""

EDGE = 1e-6
"""Parameters of a finite range keep this share of it away from its ends."""

PROBE_ROWS = 100
"""Rows at which the typical variance of a non-stationary kernel is looked at."""


@dataclass(frozen=True)
class Guess:
    """A typical value with its spread, the limits of the optimizer, and the size of a step.

    `floor` is a limit below `low` that holds for values a model came with too.
    `center`, `low`, `high` and `floor` are in natural units; `spread` (a standard deviation, in steps) and `step` are
    in unconstrained units. Starts are drawn `reach` times as widely as values are expected.
    """

    center: float
    spread: float
    low: float
    high: float
    step: float = 1.0
    floor: float = -np.inf
    reach: float = 1.0


def size_guess(size: float, spread: float = 1.5, down: float = 1e-12, up: float = 1e8) -> Guess:
    """For a positive quantity of a known typical size."""
    return Guess(size, spread, down * size, up * size)


def free_guess(center: float, step: float, spread: float = 1.0) -> Guess:
    """For a quantity of either sign."""
    return Guess(center, spread, -np.inf, np.inf, step)


class Reader:
    """Walks a model and lists one guess per flat value."""

    def __init__(self, data: DataScale) -> None:
        self.data = data

    # --- kernels --------------------------------------------------------------------------------------------

    @property
    def _unit_share(self) -> float:
        """The share of the function's variance that is a variance of one."""
        return 1.0 / self.data.f_sd**2

    def kernel(
        self, k: Kernel, columns: tuple[int, ...] | None, share: float = 1.0, stretch: float = 1.0
    ) -> list[Guess]:
        """Guesses for a kernel on some columns.

        Parameters
        ----------
        columns : tuple of int or None
            None means coordinates without units (on the circle of a periodic kernel).
        share : float
            This part's share of the function's variance.
        stretch : float
            How much longer than usual its length scales start.
        """
        own: list[Guess] = []
        for name, param in k.params.items():
            own += self._parameter(k, param, k.units[name], columns, share, stretch)
        inner = self._parts(k, columns, share, stretch)
        if isinstance(k, kernels.Scaled):
            typical = self._typical_variance(k.kernel, inner, columns)
            own = [size_guess(share * self.data.f_sd**2 / typical)]
        return own + inner

    def _parts(self, k: Kernel, columns: tuple[int, ...] | None, share: float, stretch: float) -> list[Guess]:
        unit = self._unit_share
        parts: list[Kernel] = list(k.parts)  # type: ignore[arg-type]
        if isinstance(k, kernels.Sum):
            m = len(parts)
            return [
                g
                for i, part in enumerate(parts)
                for g in self.kernel(part, columns, share / m, stretch * SUM_LADDER ** ((m - 1) / 2 - i))
            ]
        if isinstance(k, kernels.Product):
            shares = [share] + [unit] * (len(parts) - 1)
            return [g for part, s in zip(parts, shares) for g in self.kernel(part, columns, s, stretch)]
        if isinstance(k, kernels.Scaled | kernels.Normalized):
            return self.kernel(parts[0], columns, unit, stretch)
        if isinstance(k, kernels.Power):
            root = (share / unit) ** (1.0 / k.exponent) * unit
            return self.kernel(parts[0], columns, root, stretch)
        if isinstance(k, kernels.NoiseTerm):
            return self._as_given(parts[0])
        if isinstance(k, kernels.On):
            dims = tuple(k.dims) if columns is None else tuple(columns[d] for d in k.dims)
            return self.kernel(parts[0], dims, share, stretch)
        if isinstance(k, kernels.Periodic):
            return self.kernel(parts[0], None, share, 1.0)
        if isinstance(k, kernels.Coregionalized) and columns is not None:
            own = self.kernel(parts[0], columns[:1], share, stretch)
            return own + self.kernel(parts[1], columns[1:], unit, stretch)
        if isinstance(k, kernels.WithSlopes) and columns is not None:
            return self.kernel(parts[0], columns[: len(columns) // 2 - 1], share, stretch)
        if isinstance(k, kernels.Warped) and columns is not None:
            U = k.function(self.data.X[:, list(columns)], "Warped")
            return Reader(self.data.warped(U)).kernel(parts[0], tuple(range(U.shape[1])), share, stretch)
        if isinstance(k, kernels.Standardized) and columns is not None:
            U = k.standardize(self.data.X[:, list(columns)])
            return Reader(self.data.warped(U)).kernel(parts[0], tuple(range(U.shape[1])), share, stretch)
        if isinstance(k, kernels.Additive) and columns is not None and len(parts) == len(columns):
            return [g for part, d in zip(parts, columns) for g in self.kernel(part, (d,), unit, stretch)]
        return [g for part in parts for g in self.kernel(part, columns, share, stretch)]

    def _typical_variance(self, k: Kernel, guesses: list[Guess], columns: tuple[int, ...] | None) -> float:
        """Spread of the kernel's functions over the data, at its guesses: one for stationary kernels.

        If the variance depends on the place (a Wiener process, lines through the origin), it is the
        expected variance among the function's values at the data.
        """
        if columns is None:
            return 1.0
        layout = k.layout
        centers = np.array([g.center for g in guesses])[layout.lead]
        X = self.data.X[np.linspace(0, len(self.data.X) - 1, min(len(self.data.X), PROBE_ROWS)).astype(int)]
        try:
            K = k.replace(layout.to_unconstrained(centers))(X[:, list(columns)])
        except ValueError:  # inputs that the kernel refuses: learning itself will say so
            return 1.0
        d = np.diagonal(K)
        if np.ptp(d) <= 1e-9 * np.max(np.abs(d)):
            return float(d[0]) if d[0] > 0 else 1.0
        return float(max(np.mean(d) - np.mean(K), ROUNDING * np.mean(d)))

    def _parameter(
        self,
        k: Kernel,
        param: Param,
        unit: Unit,
        columns: tuple[int, ...] | None,
        share: float,
        stretch: float,
    ) -> list[Guess]:
        """Guesses for one parameter of a kernel; `columns`, `share` and `stretch` as of `kernel`."""
        size, variance = param.array.size, share * self.data.f_sd**2
        if unit is Unit.VARIANCE:
            return [size_guess(variance)] * size
        if unit is Unit.SHARED_VARIANCE:
            return [size_guess(variance / size)] * size
        if unit is Unit.WHITE_VARIANCE:
            return [size_guess(NOISE_SHARE * self.data.f_sd**2, down=1e-9, up=1e4)] * size
        if columns is None:
            return [Guess(1.0, 1.0, 1e-3, 1e3)] * size if unit is Unit.LENGTH else self._given(param)
        if unit is Unit.LENGTH:
            return self._lengths(size, list(columns), stretch)
        if unit is Unit.VARIANCE_BY_ORDER:
            return [size_guess(variance / (size * comb(len(columns), q + 1))) for q in range(size)]
        if unit in (Unit.SQUARED_SLOPE, Unit.ROOT_SQUARED_SLOPE, Unit.ROOT_VARIANCE):
            return self._inner_product(k, unit, size, list(columns), variance)
        return self._along_columns(param, unit, list(columns))

    def _along_columns(self, param: Param, unit: Unit, pick: list[int]) -> list[Guess]:
        """Guesses for a parameter whose size depends on the input columns alone."""
        size, data = param.array.size, self.data
        match unit:
            case Unit.PERIOD:
                return self._periods(size, pick)
            case Unit.FREQUENCY:
                return self._frequencies(param, pick)
            case Unit.BANDWIDTH:
                per = 1.0 / data.extent[pick]
                return [size_guess(per[j % len(pick)], 1.0, 1e-4, 1e4) for j in range(size)]
            case Unit.INVERSE_SQUARED_LENGTH:
                squares = self._per_column(size, 1.0 / data.distance[pick] ** 2)
                return [size_guess(v, 1.5, 1e-8, 1e8) for v in squares]
            case Unit.OFFSET:
                far = float(np.sum((data.x_center[pick] / data.distance[pick]) ** 2))
                return [size_guess(1.0 + far, 1.5, 1e-8, 1e8)] * size
            case Unit.INVERSE_LENGTH:
                steps = np.resize(1.0 / data.x_sd[pick], len(pick))
                rows = size // len(pick) if size % len(pick) == 0 else 0
                per = np.repeat(steps, rows) if rows > 1 else self._per_column(size, steps)
                return [free_guess(float(v), s) for v, s in zip(param.array, per)]
            case _:
                return self._given(param)

    @staticmethod
    def _per_column(size: int, values: Array) -> Array:
        """One value per column, or their geometric mean if one number stands for all columns."""
        return values if size == len(values) else np.full(size, np.exp(np.mean(np.log(values))))

    def _lengths(self, size: int, pick: list[int], stretch: float) -> list[Guess]:
        # Distances add up over columns: with D columns each length scale starts sqrt(D) times as long.
        typical = self.data.distance[pick] * np.sqrt(len(pick))
        extent, spacing = self.data.extent[pick], self.data.spacing[pick]
        if size != len(pick):
            typical = np.full(size, np.sqrt(np.mean(typical**2)))
            extent, spacing = np.full(size, extent.max()), np.full(size, spacing.min())
        centers = [min(max(t * stretch, s), 1e2 * e) for t, e, s in zip(typical, extent, spacing)]
        # Along a line functions may be as fine as neighbors are apart.
        reach = [1.0 if len(pick) > 1 else max(1.0, float(np.log(c / s))) for c, s in zip(centers, spacing)]
        return [
            Guess(c, 1.0, 1e-2 * s, 1e4 * e, reach=r) for c, e, s, r in zip(centers, extent, spacing, reach)
        ]

    def _periods(self, size: int, pick: list[int]) -> list[Guess]:
        guesses = []
        for d in pick if size == len(pick) else pick[:1]:
            period = 1.0 / float(self.data.frequencies(d, 1)[0])
            spacing, extent = float(self.data.spacing[d]), float(self.data.extent[d])
            guesses.append(Guess(period, 0.5, min(spacing, period), max(1e2 * extent, period)))
        return guesses if size == len(guesses) else guesses * size

    def _frequencies(self, param: Param, pick: list[int]) -> list[Guess]:
        count = len(param.value)
        table = np.column_stack([self.data.frequencies(d, count) for d in pick])
        steps = np.tile(1.0 / self.data.extent[pick], (count, 1))
        return [free_guess(float(v), s, 3.0) for v, s in zip(table.ravel(), steps.ravel())]

    def _inner_product(
        self, k: Kernel, unit: Unit, size: int, pick: list[int], variance: float
    ) -> list[Guess]:
        squares = self.data.x_sd[pick] ** 2
        if unit is not Unit.SQUARED_SLOPE:
            # (bias + sum_d v_d x_d^2)^degree should come to the variance, wherever the data lie
            degree: int = k.degree
            variance = 0.5 * variance ** (1.0 / degree)
            squares = squares + self.data.x_center[pick] ** 2
        if unit is Unit.ROOT_VARIANCE:
            return [size_guess(variance)] * size
        return [size_guess(v) for v in self._per_column(size, variance / (len(pick) * squares))]

    def _as_given(self, part: Parametrized) -> list[Guess]:
        """Around the values of the user: what tells correlated noise from the function is theirs to say."""
        own = [g for param in part.params.values() for g in self._given(param)]
        return own + [g for inner in part.parts for g in self._as_given(inner)]

    @staticmethod
    def _given(param: Param) -> list[Guess]:
        """Quantities without a natural size in the data: around what the user gave."""
        low, high = param.transform.support if param.transform is not None else (-np.inf, np.inf)
        if np.isinf(low):
            return [Guess(v, 0.5, low, high) for v in param.array.tolist()]
        if np.isfinite(high):
            margin = EDGE * (high - low)
            return [Guess(v, 0.5, low + margin, high - margin) for v in param.array.tolist()]
        if low > 0.0:  # a ratio above one, say: its excess over the limit is what has a size
            return [
                Guess(v, 0.5, low + (v - low) / SHAPE_RANGE, low + (v - low) * SHAPE_RANGE)
                for v in param.array.tolist()
            ]
        return [Guess(v, 0.5, v / SHAPE_RANGE, v * SHAPE_RANGE) for v in param.array.tolist()]

    # --- means and likelihoods ------------------------------------------------------------------------------

    def part(self, part: Parametrized) -> list[Guess]:
        """Guesses for a mean function or a likelihood."""
        listed = [g for name, param in part.params.items() for g in self._of_part(param, part.units[name])]
        for i, inner in enumerate(part.parts):
            guesses = self.part(inner)
            if isinstance(part, likelihoods.Mixture):
                guesses = [_widened(g, COMPONENT_LADDER**i) for g in guesses]
            listed += guesses
        return listed

    def _of_part(self, param: Param, unit: Unit) -> list[Guess]:
        """Guesses for one parameter of a mean function or a likelihood."""
        size, data = param.array.size, self.data
        match unit:
            case Unit.NOISE_VARIANCE | Unit.NOISE_SD | Unit.NOISE_RATIO:
                return self._noise(param, unit)
            case Unit.COUNT:  # beyond a multiple of the mean count it is as good as infinite
                most = 1e3 * max(1.0, float(np.exp(data.f_center)))
                return [Guess(v, 1.0, 1e-3, most) for v in param.array.tolist()]
            case Unit.LEVEL:
                return [free_guess(data.f_center, data.f_sd)] * size
            case Unit.SLOPE:
                return [free_guess(0.0, s) for s in self._per_column(size, data.f_sd / data.x_sd)]
            case Unit.COEFFICIENT:
                return self._coefficients(param)
            case _:
                return self._given(param)

    def _noise(self, param: Param, unit: Unit) -> list[Guess]:
        size, data = param.array.size, self.data
        noise = NOISE_SHARE * data.y_sd**2
        least = min(max(1e-9 * noise, LEAST_NOISE * data.f_sd**2), noise)
        if data.constant:
            least = LEAST_UNSEEN_NOISE * noise
        # Targets that were rounded have an error of at least sd resolution / sqrt(12), whatever their density.
        floor = data.resolution**2 / 12.0 or -np.inf
        if unit is Unit.NOISE_VARIANCE:
            return [replace(size_guess(noise, 1.5, up=1e4), low=least, floor=floor)] * size
        sd = float(np.sqrt(noise))
        if unit is Unit.NOISE_SD:
            low, floor = 0.1 * float(np.sqrt(least)), data.resolution / np.sqrt(12.0) or -np.inf
            return [replace(size_guess(sd, 0.8, up=1e3), low=low, floor=floor)] * size
        # a ratio that is wide enough for the farthest target
        return [_widened(g, max(1.0, data.reach / sd / g.center)) for g in self._given(param)]

    def _coefficients(self, param: Param) -> list[Guess]:
        """Of the powers 1, 2, ... of each column."""
        shape = np.shape(param.value)
        reach = np.max(np.abs(self.data.X), axis=0)
        reach = np.where(reach > 0, reach, 1.0)
        powers = np.arange(1, shape[0] + 1)[:, None]
        return [free_guess(0.0, float(s)) for s in (self.data.f_sd / reach**powers).ravel()]


def _widened(guess: Guess, factor: float) -> Guess:
    return replace(guess, center=guess.center * factor, high=guess.high * factor)


def fitted_mean(mean: means.Mean, X: Array, y: Array) -> tuple[means.Mean, Array]:
    """A linear or polynomial mean with least-squares values, and the targets (n, T) without what it explains.

    Other means are returned as they are, with the targets unchanged.
    """
    columns = y.reshape(len(y), -1)
    if isinstance(mean, means.Basis):
        H = mean.features(X)
        if len(X) <= H.shape[1]:
            return mean, y
        return mean, (columns - H @ np.linalg.lstsq(H, columns, rcond=None)[0]).reshape(y.shape)
    if not isinstance(mean, means.Linear | means.Polynomial) or len(X) <= mean.flat.size:
        return mean, y
    degree = mean.degree if isinstance(mean, means.Polynomial) else 1
    # Powers of standardized columns are far better conditioned; a mean over the targets, since they share it.
    target = columns.mean(axis=1)
    H = means.Powers(degree)(X)
    size = np.abs(H).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    weights = np.linalg.lstsq(H / size, target, rcond=None)[0] / size
    if weights.size != mean.flat.size or not np.isfinite(weights).all():
        return mean, y
    fixed = np.array([entry.fixed for entry in mean.entries])
    fitted = mean.with_flat(np.where(fixed, mean.flat, weights))
    return fitted, (columns - fitted(X)[:, None]).reshape(y.shape)
