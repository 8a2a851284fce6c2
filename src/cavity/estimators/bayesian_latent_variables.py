"""Latent variables whose places are distributions: the Bayesian relative of `GPLVM` (Titsias and Lawrence, 2010).

Each row has a place z_i ~ N(m_i, diag s_i) a posteriori, N(0, I) a priori. A bound on log p(Y), with functions and
places integrated over, is maximized (`uncertain_places`): the number of coordinates need not be known, because the
length scales of those that are not needed grow, and rows that tell little keep wide places.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, minimize
from sklearn.exceptions import ConvergenceWarning

from cavity.estimators.latent_places import Fit, Group, LatentMap, filled_by_plane, grouped, principal_places
from cavity.estimators.uncertain_places import ArdSE, Gradient, collapsed, divergence
from cavity.kernels import SE
from cavity.numerics.arrays import Array
from cavity.runtime.checks import generator, require_integer

LARGEST_PRECISION = 1e6
"""Of the noise, in units of one over the mean variance of the columns."""


def bound(
    kernel: ArdSE, m: Array, s: Array, u: Array, precision: float, groups: list[Group]
) -> tuple[float, Gradient]:
    """The lower bound on log p(Y) and its derivatives."""
    total, value = Gradient(-m, 0.5 * (1.0 / s - 1.0), np.zeros_like(u), np.zeros(m.shape[1]), 0.0, 0.0), 0.0
    for g in groups:
        rows = g.rows
        part = Gradient(
            np.zeros((len(rows), m.shape[1])),
            np.zeros((len(rows), m.shape[1])),
            total.inducing,
            total.squares,
            0.0,
            0.0,
        )
        value += collapsed(kernel, m[rows], s[rows], u, precision, g.Y, part).value
        total.mean[rows] += part.mean
        total.spread[rows] += part.spread
        total.variance += part.variance
        total.precision += part.precision
    return value - divergence(m, s), total


@dataclass(frozen=True, eq=False)
class Unknowns:
    """What is learned, as one vector: means and log variances of the places (n, q), inducing inputs (m, q), and the
    logs of squared length scales (q,), signal variance and noise precision."""

    flat: Array
    n: int
    q: int
    spread: float

    @classmethod
    def at(cls, means: Array, inducing: Array, spread: float) -> Unknowns:
        """A start: given places, length scales of one, a tenth of the variance of the targets for noise."""
        logs = [np.zeros(means.shape[1]), [np.log(spread)], [-np.log(0.1 * spread)]]
        places = means.ravel(), np.full(means.size, np.log(0.1)), inducing.ravel()
        return cls(np.concatenate([*places, *logs]), means.shape[0], means.shape[1], spread)

    def replace(self, flat: Array) -> Unknowns:
        """Other values."""
        return Unknowns(flat, self.n, self.q, self.spread)

    @property
    def means(self) -> Array:
        """(n, q)."""
        return self.flat[: self.n * self.q].reshape(self.n, self.q)

    @cached_property
    def spreads(self) -> Array:
        """Variances of the places, (n, q)."""
        return np.exp(self.flat[self.n * self.q : 2 * self.n * self.q]).reshape(self.n, self.q)

    @property
    def inducing(self) -> Array:
        """(m, q)."""
        return self.flat[2 * self.n * self.q : -self.q - 2].reshape(-1, self.q)

    @cached_property
    def kernel(self) -> ArdSE:
        """With its signal variance and squared length scales."""
        return ArdSE(float(np.exp(self.flat[-2])), np.exp(self.flat[-self.q - 2 : -2]))

    @property
    def precision(self) -> float:
        """Of the noise."""
        return float(np.exp(self.flat[-1]))

    @property
    def bounds(self) -> Bounds:
        """Of the logs of the spreads, and of the precision."""
        low, high = np.full(len(self.flat), -np.inf), np.full(len(self.flat), np.inf)
        logs = slice(self.n * self.q, 2 * self.n * self.q)
        low[logs], high[logs] = -20.0, 5.0
        high[-1] = np.log(LARGEST_PRECISION / self.spread)
        return Bounds(low, high)

    def pull(self, g: Gradient) -> Array:
        """Derivatives in the vector."""
        logs = (
            self.kernel.squares * g.squares,
            [self.kernel.variance * g.variance],
            [self.precision * g.precision],
        )
        places = g.mean.ravel(), (self.spreads * g.spread).ravel(), g.inducing.ravel()
        return np.concatenate([*places, *logs])


@dataclass(eq=False, repr=False)
class BayesianGPLVM(LatentMap):
    """Latent variables with distributions for places, on inducing inputs: the map finds how many coordinates it needs.

    The kernel is a squared exponential with a length scale for each coordinate.

    Parameters
    ----------
    n_components : int
        Coordinates, at most.
    n_inducing : int
        Inducing inputs; O(n n_inducing^2) a step.
    max_iter : int
        Steps of the optimizer, at most.
    n_places : int
        Starts for the place of each new row in `transform`.
    random_state : int, RandomState or None

    Attributes
    ----------
    embedding_, variances_ : (n, n_components)
        Means and variances of the places of the rows learned from.
    relevance_ : (n_components,)
        Inverse squared length scales over the largest: near zero if a coordinate is not needed.
    bound_ : float
        Lower bound on log p(Y).
    inducing_ : (n_inducing, n_components)
    kernel_, noise_variance_, n_iter_, n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import BayesianGPLVM
    >>> t = np.linspace(-2, 2, 40)
    >>> Y = np.column_stack([t, t**2, np.sin(2 * t)]) + 0.05 * np.random.default_rng(0).standard_normal((40, 3))
    >>> model = BayesianGPLVM(3, n_inducing=10, max_iter=100, random_state=0)
    >>> model.fit_transform(Y).shape
    (40, 3)
    """

    prior = True

    n_components: int = 5
    n_inducing: int = 30
    _: KW_ONLY
    max_iter: int = 1000
    n_places: int = 3
    random_state: Any = None

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn places, inducing inputs and kernel from rows X (n, D); NaN marks what is missing."""
        for name in ("n_components", "n_inducing", "max_iter", "n_places"):
            require_integer(getattr(self, name), name, 1)
        rows = self._rows(X, reset=True)
        self._offset = np.asarray(np.nanmean(rows, axis=0))
        centered = rows - self._offset
        spread = float(np.nanmean(centered**2)) or 1.0
        groups = grouped(centered)
        rng = generator(self.random_state)
        m = principal_places(filled_by_plane(centered, self.n_components), self.n_components, rng)
        chosen = rng.choice(len(m), min(self.n_inducing, len(m)), replace=False)
        u = m[chosen] + 0.01 * rng.standard_normal((len(chosen), self.n_components))
        self._adopt(self._learned(Unknowns.at(m, u, spread), groups), groups)
        self._known = {row.tobytes(): i for i, row in enumerate(rows)}
        return self

    def _learned(self, start: Unknowns, groups: list[Group]) -> Unknowns:
        """Where the bound is highest."""

        def negative(v: Array) -> tuple[float, Array]:
            at = start.replace(v)
            try:
                value, g = bound(at.kernel, at.means, at.spreads, at.inducing, at.precision, groups)
            except (ValueError, FloatingPointError):  # LinAlgError is a ValueError
                return np.inf, np.zeros_like(v)
            return -value, -at.pull(g)

        found = minimize(
            negative,
            start.flat,
            jac=True,
            method="L-BFGS-B",
            bounds=start.bounds,
            options={"maxiter": self.max_iter, "maxfun": 2 * self.max_iter, "ftol": 1e-10, "maxcor": 20},
        )
        if found.status != 0:
            warnings.warn(
                f"the optimizer stopped after max_iter={self.max_iter} steps; raise it",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.bound_, self.n_iter_ = -float(found.fun), int(found.nit)
        return start.replace(found.x)

    def _adopt(self, found: Unknowns, groups: list[Group]) -> None:
        """What a user sees, and the map from places to rows."""
        kernel, b = found.kernel, found.precision
        self.embedding_, self.variances_, self.inducing_ = found.means, found.spreads, found.inducing
        self.noise_variance_ = 1.0 / b
        self.kernel_ = (kernel.variance * SE(np.sqrt(kernel.squares))).bind(self.n_components)
        self.relevance_ = kernel.squares.min() / kernel.squares
        self._inputs, self._fits = self.inducing_, []
        everything = np.arange(len(found.inducing))
        for g in groups:
            m, s = found.means[g.rows], found.spreads[g.rows]
            nothing = Gradient(
                np.zeros_like(m),
                np.zeros_like(s),
                np.zeros_like(found.inducing),
                np.zeros(m.shape[1]),
                0.0,
                0.0,
            )
            end = collapsed(kernel, m, s, found.inducing, b, g.Y, nothing)
            self._fits.append(Fit(everything, g.columns, partial(_times, end.reduction), end.weights))

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Learn, and return the means of the places of the rows."""
        return self.fit(X).embedding_.copy()


def _times(Q: Array, k: Array) -> Array:
    """k Q, of a function that can be pickled."""
    return np.asarray(k @ Q)
