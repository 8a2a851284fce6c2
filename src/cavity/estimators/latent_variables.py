"""Gaussian process latent variables: few unknown coordinates Z from which smooth functions make all columns.

    y_d ~ N(0, A),   A = K(Z, Z) + v I,   for each of D columns;      z_i ~ N(0, I)

(Lawrence, 2005; Rasmussen and Williams, 2006, section 9.11). Z, the kernel's parameters and v maximize

    log p(Y | Z) + log p(Z),     d log p(Y | Z) / dA = 1/2 (A^-1 Y Y' A^-1 - D A^-1).

With a linear kernel and no prior of Z it is probabilistic principal components. A column with missing entries has the A
of the rows in which it was seen; columns that miss the same rows share one factorization. The place of a new row is the
mode of p(y* | z*, Y, Z) p(z*), its covariance the inverse curvature there.

Length scales and the size of Z are one freedom: the default kernel has length scale 1, the prior sets the size of Z.
"""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from cavity.estimators.latent_places import (
    Fit,
    Group,
    LatentMap,
    filled_by_plane,
    grouped,
    neighborhoods,
    principal_places,
    unit_columns,
)
from cavity.kernels import SE, Kernel
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.parameters.param import fixed
from cavity.runtime.checks import generator, require_integer
from cavity.runtime.errors import InputError

SMALLEST_NOISE = 1e-6
"""Noise variance in units of the mean variance of the columns, below which learning does not go."""


def log_likelihood(
    kernel: Kernel, noise: float, Z: Array, groups: list[Group]
) -> tuple[float, Array, Array, float]:
    """log p(Y | Z); its gradient in `theta` of the kernel, in Z, and in the noise variance."""
    K, pullback = kernel.forward(Z)
    value, G = 0.0, np.zeros_like(K)
    for g in groups:
        at = np.ix_(g.rows, g.rows)
        factor = _factor(K[at], noise)
        weights = factor.solve(g.Y)
        n, D = g.Y.shape
        value -= 0.5 * (D * (factor.log_det + n * LOG_2PI) + float(np.vdot(g.Y, weights)))
        lower = factor.into_inverse()
        inverse = np.tril(lower) + np.tril(lower, -1).T
        G[at] += 0.5 * (weights @ weights.T - D * inverse)
    d_theta, d_Z, _ = pullback(G, inputs=True)
    return value, d_theta, d_Z, float(np.trace(G))


def _solved(factor: Cholesky, k: Array) -> Array:
    """k A^-1, of a function that can be pickled."""
    return np.asarray(factor.solve(k.T).T)


def _factor(K: Array, noise: float) -> Cholesky:
    def build() -> Array:
        A = np.array(K)
        A[np.diag_indices_from(A)] += noise
        return A

    return factorize(build)


@dataclass(eq=False, repr=False)
class GPLVM(LatentMap):
    """A nonlinear, probabilistic relative of principal components: a Gaussian process from a map to the data.

    Parameters
    ----------
    n_components : int
        Coordinates of the map.
    kernel : Kernel or None
        From the map to each column; 1.0 * SE with a fixed length scale of 1 by default.
    prior : bool
        Whether coordinates have the prior N(0, I). Without it they are of any size.
    n_restarts : int
        Starts beside the principal components: neighborhoods (Isomap), then disturbed principal components; the best
        end is kept.
    max_iter : int
        Steps of the optimizer, at most.
    n_places : int
        Starts for the place of each new row in `transform`: those on the map that explain it best.
    random_state : int, RandomState or None

    Attributes
    ----------
    embedding_ : (n, n_components)
        Places of the rows learned from.
    kernel_, noise_variance_
    log_likelihood_ : float
        log p(Y | Z), without the prior.
    runs_ : list of (str, float)
        Name of each start and the objective at its end, log p(Y | Z) + log p(Z).
    n_iter_ : int
        Steps of the best run.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GPLVM
    >>> t = np.linspace(-2, 2, 40)
    >>> Y = np.column_stack([t, t**2, np.sin(2 * t)]) + 0.01 * np.random.default_rng(0).standard_normal((40, 3))
    >>> model = GPLVM(1, random_state=0)
    >>> place = model.fit_transform(Y)[:, 0]
    >>> bool(abs(np.corrcoef(place, t)[0, 1]) > 0.95), model.inverse_transform(place[:1, None]).shape
    (True, (1, 3))
    """

    n_components: int = 2
    kernel: Kernel | None = None
    _: KW_ONLY
    prior: bool = True
    n_restarts: int = 1
    max_iter: int = 500
    n_places: int = 3
    random_state: Any = None

    # --- learning -------------------------------------------------------------------------------------------

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn map and kernel from rows X (n, D); NaN marks what is missing."""
        for name, least in (("n_components", 1), ("n_restarts", 0), ("max_iter", 1), ("n_places", 1)):
            require_integer(getattr(self, name), name, least)
        rows = self._rows(X, reset=True)
        self._offset = np.asarray(np.nanmean(rows, axis=0))
        centered = rows - self._offset
        groups = grouped(centered)
        spread = float(np.nanmean(centered**2)) or 1.0
        kernel = self._start_kernel(spread)
        rng = generator(self.random_state)
        ends = []
        for name, Z in self._starts(centered, rng):
            ends.append((name, *self._optimize(kernel, Z, groups, spread)))
        self.runs_ = [(name, value) for name, value, *_ in ends]
        _, _, self.kernel_, self.noise_variance_, Z, self.n_iter_, converged = max(
            ends, key=lambda end: end[1]
        )
        if not converged:
            warnings.warn(
                f"the optimizer stopped after max_iter={self.max_iter} steps; raise it",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.embedding_ = self._inputs = Z
        self.log_likelihood_ = log_likelihood(self.kernel_, self.noise_variance_, Z, groups)[0]
        K = self.kernel_(Z)
        self._fits = []
        for g in groups:
            factor = _factor(K[np.ix_(g.rows, g.rows)], self.noise_variance_)
            self._fits.append(Fit(g.rows, g.columns, partial(_solved, factor), factor.solve(g.Y)))
        self._known = {row.tobytes(): i for i, row in enumerate(rows)}
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Learn, and return the places of the rows."""
        return self.fit(X).embedding_.copy()

    def _start_kernel(self, spread: float) -> Kernel:
        if self.kernel is None:
            return (spread * SE(fixed(1.0))).bind(self.n_components)
        if not isinstance(self.kernel, Kernel):
            raise InputError(f"must be a kernel, got {self.kernel!r}", parameter="kernel", value=self.kernel)
        return self.kernel.bind(self.n_components)

    def _starts(self, centered: Array, rng: np.random.Generator) -> list[tuple[str, Array]]:
        """Places with columns of unit variance."""
        filled = filled_by_plane(centered, self.n_components)
        plane = principal_places(filled, self.n_components, rng)
        found = [("principal components", plane)]
        if self.n_restarts > 0 and len(filled) > 10 and filled.shape[1] > 1:
            found.append(("neighborhoods", neighborhoods(filled, self.n_components, plane)))
        while len(found) <= self.n_restarts:
            disturbed = unit_columns(plane + 0.5 * rng.standard_normal(plane.shape))
            found.append(("disturbed principal components", disturbed))
        return found[: self.n_restarts + 1]

    def _optimize(
        self, kernel: Kernel, Z: Array, groups: list[Group], spread: float
    ) -> tuple[float, Kernel, float, Array, int, bool]:
        """From one start: objective, kernel, noise variance, places, steps, whether it converged."""
        shape, count = Z.shape, len(kernel.theta)
        floor = np.log(SMALLEST_NOISE * spread)

        def negative(v: Array) -> tuple[float, Array]:
            places, noise = v[: Z.size].reshape(shape), float(np.exp(v[-1]))
            try:
                value, d_theta, d_Z, d_noise = log_likelihood(
                    kernel.replace(v[Z.size : Z.size + count]), noise, places, groups
                )
            except (ValueError, FloatingPointError):  # LinAlgError is a ValueError
                return np.inf, np.zeros_like(v)
            if self.prior:
                value -= 0.5 * float(np.sum(places**2) + Z.size * LOG_2PI)
                d_Z = d_Z - places
            return -value, -np.concatenate([d_Z.ravel(), d_theta, [noise * d_noise]])

        start = np.concatenate([Z.ravel(), kernel.theta, [np.log(0.1 * spread)]])
        bounds = [(None, None)] * (Z.size + count) + [(floor, None)]
        found = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": self.max_iter, "maxfun": 2 * self.max_iter, "ftol": 1e-10, "maxcor": 20},
        )
        v = found.x
        ended = kernel.replace(v[Z.size : Z.size + count])
        return (
            -float(found.fun),
            ended,
            float(np.exp(v[-1])),
            v[: Z.size].reshape(shape),
            found.nit,
            found.status == 0,
        )
