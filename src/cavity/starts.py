"""Where learning starts: typical sizes read off the data, turned into values, spreads and limits of
parameters.

Nothing here changes the model. Every parameter says what it measures (a length along some input columns, a
variance of the function, of the noise, ...); the data say how large such things typically are. From that come
the first start, the draws of later starts for parameters without a prior of their own, the box that the
optimizer stays in, and the scale of each coordinate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from cavity.hyper import Array, Param, Parametrized
from cavity.kernels.base import Kernel

if TYPE_CHECKING:
    from cavity.gp import GP
    from cavity.likelihoods.base import Likelihood

NOISE_SHARE = 0.1
"""Noise starts at a tenth of the targets' variance."""

SUM_LADDER = 4.0
"""Terms of a sum start with length scales this factor apart, longest first, so that they do not compete for
one role."""

SHAPE_RANGE = 30.0
"""Shape parameters are sought within this factor of the value given; farther out they hardly change the
function."""

SUBSET = 400
"""Rows looked at for typical distances."""


KERNEL_UNITS = {"lengthscale": "length", "variance": "variance"}
PART_UNITS = {
    "variance": "noise variance",
    "scale": "noise sd",
    "sd": "noise sd",
    "value": "level",
    "intercept": "level",
    "slopes": "slope",
}
"""What parameters of these names measure, unless a part says otherwise in its `units`."""

DISCRETE_SCALE = (0.0, 2.0)
"""Level and spread to expect of a latent function behind labels or counts."""


def units_of(part: Parametrized, default: Mapping[str, str]) -> dict[str, str]:
    """What each parameter of a part measures."""
    return {**default, **getattr(part, "units", {})}


def _latent_scale(likelihood: Likelihood) -> tuple[float, float] | None:
    return DISCRETE_SCALE if likelihood.discrete else None


@dataclass(frozen=True)
class DataScale:
    """Typical sizes in the data.

    Attributes
    ----------
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
        Spread of the targets.
    """

    distance: Array
    extent: Array
    spacing: Array
    x_center: Array
    x_sd: Array
    f_center: float
    f_sd: float
    y_sd: float

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array,
        f_scale: tuple[float, float] | None = None,
        sample_weight: Array | None = None,
    ) -> Self:
        """Read off inputs (n, D) and targets (n,) or (n, T); `f_scale` where the latent scale is not that of
        y."""
        some = X[np.linspace(0, len(X) - 1, min(len(X), SUBSET)).astype(int)]
        distance, spacing = np.empty(X.shape[1]), np.empty(X.shape[1])
        extent = np.ptp(X, axis=0)
        for d in range(X.shape[1]):
            gaps = np.abs(np.subtract.outer(some[:, d], some[:, d]))
            apart = gaps[gaps > 0]
            distance[d] = np.median(apart) if apart.size else 0.0
            steps = np.diff(np.unique(X[:, d]))
            spacing[d] = np.min(steps) if steps.size else 0.0
        # A column that never varies says nothing about length: any finite value will do.
        typical = np.where(distance > 0, distance, np.where(np.abs(X[0]) > 0, np.abs(X[0]), 1.0))
        share = (
            np.full(len(y), 1.0 / len(y)) if sample_weight is None else sample_weight / sample_weight.sum()
        )
        centers = share @ y
        y_center = float(np.mean(centers))
        y_sd = float(np.mean(np.sqrt(share @ (y - centers) ** 2)))
        if not y_sd > 1e-14 * abs(y_center):
            y_sd = abs(y_center) * 1e-3 or 1.0
        center, sd = f_scale if f_scale is not None else (y_center, y_sd)
        return cls(
            typical,
            np.where(extent > 0, extent, typical),
            np.where(spacing > 0, spacing, typical),
            X.mean(axis=0),
            np.where(X.std(axis=0) > 0, X.std(axis=0), typical),
            center,
            sd,
            y_sd,
        )


@dataclass(frozen=True)
class Guess:
    """A typical value with its spread (in unconstrained units), and the limits of the optimizer (natural
    units)."""

    center: float
    spread: float
    low: float
    high: float


class _Reader:
    """Walks a model and lists one guess per flat value."""

    def __init__(self, data: DataScale) -> None:
        self.data = data

    # kernels

    def kernel(self, k: Kernel, columns: tuple[int, ...] | None, share: float, stretch: float) -> list[Guess]:
        """`columns` None means coordinates without units; `share` is this part's share of the function's
        variance."""
        from cavity.kernels import On, Periodic, Product, Scaled, Sum

        listed: list[Guess] = []
        for name, param in k.params.items():
            unit = units_of(k, KERNEL_UNITS).get(name, "given")
            listed += self._parameter(param, unit, columns, share, stretch)
        if isinstance(k, Sum):
            m = len(k.terms)
            for i, term in enumerate(k.terms):
                listed += self.kernel(term, columns, share / m, stretch * SUM_LADDER ** ((m - 1) / 2 - i))
        elif isinstance(k, Product):
            for i, factor in enumerate(k.terms):
                unit_share = 1.0 / self.data.f_sd**2
                listed += self.kernel(factor, columns, share if i == 0 else unit_share, stretch)
        elif isinstance(k, Scaled):
            listed += self.kernel(k.kernel, columns, 1.0 / self.data.f_sd**2, stretch)
        elif isinstance(k, On):
            dims = tuple(k.dims) if columns is None else tuple(columns[d] for d in k.dims)
            listed += self.kernel(k.kernel, dims, share, stretch)
        elif isinstance(k, Periodic):
            for part in k.parts:
                listed += self.kernel(part, None, share, 1.0)  # type: ignore[arg-type]
        else:
            for part in k.parts:
                listed += self.kernel(part, columns, share, stretch)  # type: ignore[arg-type]
        return listed

    def _parameter(
        self, param: Param, unit: str, columns: tuple[int, ...] | None, share: float, stretch: float
    ) -> list[Guess]:
        size = param.array.size
        variance = share * self.data.f_sd**2
        if unit == "length" and columns is not None:
            return self._lengths(size, columns, stretch)
        if unit == "length":
            return [Guess(1.0, 1.0, 1e-3, 1e3)] * size
        if unit == "variance":
            return [Guess(variance, 1.5, 1e-12 * variance, 1e8 * variance)] * size
        if unit == "variance/length^2" and columns is not None:
            length2 = np.broadcast_to(np.asarray(self.data.x_sd)[list(columns)] ** 2, (len(columns),))
            per = length2 if size == len(columns) else np.full(size, length2.mean())
            return [Guess(variance / v, 1.5, 1e-12 * variance / v, 1e8 * variance / v) for v in per]
        return self._given(param)

    def _lengths(self, size: int, columns: tuple[int, ...], stretch: float) -> list[Guess]:
        pick = list(columns)
        # Distances add up over columns: with D columns each length scale starts sqrt(D) times as long.
        typical = self.data.distance[pick] * np.sqrt(len(pick))
        extent, spacing = self.data.extent[pick], self.data.spacing[pick]
        if size != len(pick):
            typical = np.full(size, np.sqrt(np.mean(typical**2)))
            extent, spacing = np.full(size, extent.max()), np.full(size, spacing.min())
        return [
            Guess(min(max(t * stretch, s), 1e2 * e), 1.0, 1e-2 * s, 1e4 * e)
            for t, e, s in zip(typical, extent, spacing)
        ]

    @staticmethod
    def _given(param: Param) -> list[Guess]:
        """Quantities without a natural size in the data: around what the user gave."""
        low, high = param.transform.support if param.transform is not None else (-np.inf, np.inf)
        if np.isinf(low) or np.isfinite(high):
            return [Guess(float(v), 0.5, low, high) for v in param.array]
        return [Guess(float(v), 0.5, float(v) / SHAPE_RANGE, float(v) * SHAPE_RANGE) for v in param.array]

    # means and likelihoods

    def flat_part(self, part: Parametrized) -> list[Guess]:
        """Guesses for a mean function or a likelihood, by what each parameter measures."""
        listed: list[Guess] = []
        units = units_of(part, PART_UNITS)
        noise = NOISE_SHARE * self.data.y_sd**2
        for name, param in part.params.items():
            unit, size = units.get(name, "given"), param.array.size
            if unit == "noise variance":
                listed += [Guess(noise, 1.5, 1e-9 * noise, 1e4 * noise)] * size
            elif unit == "noise sd":
                sd = float(np.sqrt(noise))
                listed += [Guess(sd, 0.8, 1e-5 * sd, 1e3 * sd)] * size
            elif unit == "level":
                listed += [Guess(self.data.f_center, 1.0, -np.inf, np.inf)] * size
            elif unit == "slope":
                listed += [Guess(0.0, 1.0, -np.inf, np.inf)] * size
            else:
                listed += self._given(param)
        for inner in part.parts:
            listed += self.flat_part(inner)
        return listed

    def scales(self, part: Parametrized) -> list[float]:
        """Size of one unit step of each flat value that is not on a log or logit scale."""
        listed: list[float] = []
        units = units_of(part, PART_UNITS)
        for name, param in part.params.items():
            unit, size = units.get(name, "given"), param.array.size
            if unit == "level":
                listed += [self.data.f_sd] * size
            elif unit == "slope":
                slopes = self.data.f_sd / self.data.x_sd
                listed += list(slopes) if size == len(slopes) else [float(slopes.mean())] * size
            else:
                listed += [1.0] * size
        for inner in part.parts:
            listed += self.scales(inner)
        return listed


@dataclass(frozen=True)
class Starts:
    """Starting points for the free parameters of a model.

    Attributes
    ----------
    first : array (p,)
        The data-driven start, in `theta`.
    spread : array (p,)
        Standard deviations of draws around it.
    box : array (p, 2)
        Limits of the optimizer, in `theta`.
    scale : array (p,)
        Size of a unit step of each coordinate.
    blocks : tuple of arrays of int
        Positions in `theta` of the parameters of each term, where the kernel is a sum.
    """

    model: GP
    first: Array
    spread: Array
    box: Array
    scale: Array
    blocks: tuple[NDArray[np.intp], ...] = ()

    @classmethod
    def of(cls, model: GP, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """For a model bound to the columns of X."""
        data = DataScale.of(X, y, _latent_scale(model.likelihood), sample_weight)
        reader = _Reader(data)
        guesses = reader.kernel(model.kernel, tuple(range(X.shape[1])), 1.0, 1.0)
        guesses += reader.flat_part(model.mean) + reader.flat_part(model.likelihood)
        natural_scale = np.array(
            [1.0] * model.kernel.flat.size + reader.scales(model.mean) + reader.scales(model.likelihood)
        )
        layout = model.layout
        chosen = [guesses[i] for i in layout.lead]
        scale = natural_scale[layout.lead]
        first = layout.to_unconstrained(np.array([g.center for g in chosen]))
        spread = scale * np.array([g.spread for g in chosen])
        with np.errstate(divide="ignore"):
            low = layout.to_unconstrained(np.array([g.low for g in chosen]))
            high = layout.to_unconstrained(np.array([g.high for g in chosen]))
        own = np.array(layout.bounds).reshape(-1, 2)
        box = np.where(np.isfinite(own), own, np.column_stack([low, high]))
        return cls(model, np.clip(first, box[:, 0], box[:, 1]), spread, box, scale, _blocks(model))

    def draw(self, rng: np.random.Generator, widen: float = 1.0) -> Array:
        """A random start: from each parameter's own prior where it has one, else around the data-driven
        value."""
        theta = self.first + widen * self.spread * rng.standard_normal(len(self.first))
        return np.clip(self.model.layout.draw_from_priors(theta, rng), self.box[:, 0], self.box[:, 1])


def _blocks(model: GP) -> tuple[NDArray[np.intp], ...]:
    """Positions in `theta` of each term's free parameters, for a kernel that is a sum."""
    from cavity.kernels import Sum

    if not isinstance(model.kernel, Sum):
        return ()
    blocks, start = [], 0
    for term in model.kernel.terms:
        stop = start + term.flat.size
        block = np.flatnonzero((model.layout.lead >= start) & (model.layout.lead < stop))
        if block.size:
            blocks.append(block)
        start = stop
    return tuple(blocks)
