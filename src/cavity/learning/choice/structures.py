"""Kernels worth trying on some inputs: the simplest first, each a starting point of the next.

isotropic      one length scale for all columns, in units of their standard deviations
relevance      a length scale for each column, with a prior around the common one, so that many columns do not overfit
with a line    the same plus a linear function, whose slopes share one variance
rough          Matern 3/2 instead of the squared exponential
season         a periodic part whose shape may change slowly, along a column whose cycles are known
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cavity.kernels import SE, Kernel, Linear, Matern, Periodic, Scaled, Standardized, Sum
from cavity.numerics.arrays import Array
from cavity.parameters.param import Param, fixed
from cavity.parameters.priors import LogNormal

SHRINKAGE = {"relevance": 1.0, "some relevance": 0.3}
"""Standard deviations of the logs of length scales around the common one, by name of the candidate."""

LEVEL_SPREAD = 0.5
"""The same of the variance and the length scale of the log noise variance, around one."""

CYCLES = 2.0
"""Cycles that must be seen."""

PER_CYCLE = 4
"""Different places within a cycle that must be seen."""

SLOWLY = 3.0
"""Cycles over which the shape of a season changes, to start with."""


@dataclass(frozen=True)
class Season:
    """A cycle along a column: its length in units of the column, and its name."""

    column: int
    period: float
    name: str


@dataclass(frozen=True)
class Columns:
    """Scale and center of the inputs."""

    scale: tuple[float, ...]
    center: tuple[float, ...]

    @classmethod
    def of(cls, X: Array) -> Columns:
        """Standard deviations and means; a column that does not vary has scale one."""
        sd = X.std(axis=0)
        return cls(tuple(np.where(sd > 0, sd, 1.0).tolist()), tuple(X.mean(axis=0).tolist()))

    def standardized(self, kernel: Kernel) -> Kernel:
        """A kernel on standardized columns."""
        return Standardized(kernel, self.scale, self.center)


def isotropic(
    columns: Columns, rough: bool = False, variance: float = 1.0, lengthscale: float = 1.0
) -> Kernel:
    """One length scale for all columns."""
    return variance * columns.standardized(Matern(lengthscale, nu=1.5) if rough else SE(lengthscale))


def relevance(
    columns: Columns, variance: float, lengthscale: float, spread: float, rough: bool = False
) -> Kernel:
    """A length scale for each column, around a common one."""
    # the mode of a log-normal density is exp(mu - sigma^2)
    prior = LogNormal(float(np.log(lengthscale)) + spread**2, spread)
    each = Param(np.full(len(columns.scale), lengthscale), prior=prior)
    return variance * columns.standardized(Matern(each, nu=1.5) if rough else SE(each))


def noise_level(columns: Columns) -> Kernel:
    """Of the log variance of the noise: near one, and over about the spread of each column, unless data insist.

    Without the priors values of highest evidence follow single residuals, and intervals are too narrow.
    """
    prior = LogNormal(LEVEL_SPREAD**2, LEVEL_SPREAD)  # with its mode at one
    return Scaled(Param(1.0, prior=prior), columns.standardized(SE(Param(1.0, prior=prior))))


def line(columns: Columns) -> Kernel:
    """A linear function, whose slopes per standard deviation share one variance."""
    return columns.standardized(Linear(1.0 / len(columns.scale)))


def with_line(kernel: Kernel, columns: Columns, slopes: float) -> Kernel:
    """A linear function with slopes of some variance too."""
    return kernel + columns.standardized(Linear(slopes))


def with_season(kernel: Kernel, season: Season, variance: float) -> Kernel:
    """A season too."""
    shape = Periodic(SE(1.0), period=fixed(season.period)) * SE(SLOWLY * season.period)
    return kernel + (variance * shape).on([season.column])


def seen(seasons: Sequence[Season], X: Array) -> list[Season]:
    """Those of which two cycles, and several places within the cycle, are in the data."""
    found = []
    for season in seasons:
        x = X[:, season.column]
        phases = np.unique(np.floor(np.mod(x / season.period, 1.0) * 2 * PER_CYCLE))
        if np.ptp(x) >= CYCLES * season.period and len(phases) >= PER_CYCLE:
            found.append(season)
    return found


def variance_of(kernel: Kernel) -> float:
    """The largest factor of a kernel's terms."""
    terms = kernel.terms if isinstance(kernel, Sum) else (kernel,)
    return float(max(getattr(term, "variance", 1.0) for term in terms))
