"""Latent variables whose places are distributions: the Bayesian relative of `GPLVM` (Titsias and Lawrence, 2010).

Each row has a place z_i ~ N(m_i, diag s_i) a posteriori, N(0, I) a priori. A bound on log p(Y), with functions and
places integrated over, is maximized (`uncertain_places`): the number of coordinates need not be known, because the
length scales of those that are not needed grow, and rows that tell little keep wide places.
"""

from __future__ import annotations

import warnings
from functools import partial
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

    def __init__(
        self,
        n_components: int = 5,
        n_inducing: int = 30,
        *,
        max_iter: int = 1000,
        n_places: int = 3,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.n_inducing, self.max_iter = n_components, n_inducing, max_iter
        self.n_places, self.random_state = n_places, random_state

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
        self._optimize(m, u, spread, groups)
        self._known = {row.tobytes(): i for i, row in enumerate(rows)}
        return self

    def _optimize(self, m: Array, u: Array, spread: float, groups: list[Group]) -> None:
        n, q = m.shape
        ends = np.cumsum([m.size, m.size, u.size, q, 1, 1])[:-1]

        def parts(v: Array) -> tuple[ArdSE, Array, Array, Array, float]:
            means, log_s, inducing, log_l, log_c, log_b = np.split(v, ends)
            kernel = ArdSE(float(np.exp(log_c[0])), np.exp(log_l))
            return (
                kernel,
                means.reshape(n, q),
                np.exp(log_s).reshape(n, q),
                inducing.reshape(u.shape),
                float(np.exp(log_b[0])),
            )

        def negative(v: Array) -> tuple[float, Array]:
            kernel, means, s, inducing, b = parts(v)
            try:
                value, g = bound(kernel, means, s, inducing, b, groups)
            except (ValueError, FloatingPointError):  # LinAlgError is a ValueError
                return np.inf, np.zeros_like(v)
            logs = [kernel.variance * g.variance], [b * g.precision]
            pieces = (
                g.mean.ravel(),
                (s * g.spread).ravel(),
                g.inducing.ravel(),
                kernel.squares * g.squares,
                *logs,
            )
            return -value, -np.concatenate(pieces)

        start = np.concatenate(
            [
                m.ravel(),
                np.full(m.size, np.log(0.1)),
                u.ravel(),
                np.zeros(q),
                [np.log(spread)],
                [-np.log(0.1 * spread)],
            ]
        )
        low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
        low[m.size : 2 * m.size], high[m.size : 2 * m.size] = -20.0, 5.0  # logs of the spreads
        high[-1] = np.log(LARGEST_PRECISION / spread)
        found = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(low, high),
            options={"maxiter": self.max_iter, "maxfun": 2 * self.max_iter, "ftol": 1e-10, "maxcor": 20},
        )
        if found.status != 0:
            warnings.warn(
                f"the optimizer stopped after max_iter={self.max_iter} steps; raise it",
                ConvergenceWarning,
                stacklevel=3,
            )
        kernel, self.embedding_, self.variances_, self.inducing_, b = parts(found.x)
        self.bound_, self.n_iter_, self.noise_variance_ = -float(found.fun), int(found.nit), 1.0 / b
        self.kernel_ = (kernel.variance * SE(np.sqrt(kernel.squares))).bind(q)
        self.relevance_ = kernel.squares.min() / kernel.squares
        self._inputs, self._fits = self.inducing_, []
        for g in groups:
            rest = Gradient(
                np.zeros((len(g.rows), q)),
                np.zeros((len(g.rows), q)),
                np.zeros_like(u),
                np.zeros(q),
                0.0,
                0.0,
            )
            end = collapsed(
                kernel, self.embedding_[g.rows], self.variances_[g.rows], self.inducing_, b, g.Y, rest
            )
            everything = np.arange(len(u))
            self._fits.append(Fit(everything, g.columns, partial(_times, end.reduction), end.weights))

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Learn, and return the means of the places of the rows."""
        return self.fit(X).embedding_.copy()


def _times(Q: Array, k: Array) -> Array:
    """k Q, of a function that can be pickled."""
    return np.asarray(k @ Q)
