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
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.kernels import SE, Kernel
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI
from cavity.parameters.param import fixed
from cavity.prediction import GaussianPrediction
from cavity.runtime.checks import generator, require_integer
from cavity.runtime.errors import InputError

NEWTON_STEPS = 50
DIFFERENCE = 1e-4
"""Step of differences of gradients, in units of a length scale of one."""

APART = 0.5
"""Starts for a new row are at least this far from each other on the map."""

SMALLEST_NOISE = 1e-6
"""Noise variance in units of the mean variance of the columns, below which learning does not go."""


@dataclass(frozen=True)
class Group:
    """Columns that were seen in the same rows, centered: Y (rows, columns)."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    Y: Array


def grouped(Y: Array) -> list[Group]:
    """Columns by the rows in which they were seen."""
    seen = ~np.isnan(Y)
    patterns, which = np.unique(seen, axis=1, return_inverse=True)
    out = []
    for k, pattern in enumerate(patterns.T):
        rows, columns = np.flatnonzero(pattern), np.flatnonzero(np.ravel(which) == k)
        out.append(Group(rows, columns, Y[np.ix_(rows, columns)]))
    return out


@dataclass(frozen=True)
class Fit:
    """What predictions need of one group: A^-1 and A^-1 Y."""

    group: Group
    factor: Cholesky
    weights: Array


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


def _factor(K: Array, noise: float) -> Cholesky:
    def build() -> Array:
        A = np.array(K)
        A[np.diag_indices_from(A)] += noise
        return A

    return factorize(build)


class GPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
    >>> from cavity.estimators import GPLVM
    >>> t = np.linspace(-2, 2, 40)
    >>> Y = np.column_stack([t, t**2, np.sin(2 * t)]) + 0.01 * np.random.default_rng(0).standard_normal((40, 3))
    >>> model = GPLVM(1, random_state=0)
    >>> place = model.fit_transform(Y)[:, 0]
    >>> bool(abs(np.corrcoef(place, t)[0, 1]) > 0.95), model.inverse_transform(place[:1, None]).shape
    (True, (1, 3))
    """

    def __init__(
        self,
        n_components: int = 2,
        kernel: Kernel | None = None,
        *,
        prior: bool = True,
        n_restarts: int = 1,
        max_iter: int = 500,
        n_places: int = 3,
        random_state: Any = None,
    ) -> None:
        self.n_components, self.kernel, self.prior = n_components, kernel, prior
        self.n_restarts, self.max_iter, self.n_places = n_restarts, max_iter, n_places
        self.random_state = random_state

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
        self.embedding_ = Z
        self.log_likelihood_ = log_likelihood(self.kernel_, self.noise_variance_, Z, groups)[0]
        K = self.kernel_(Z)
        self._fits = []
        for g in groups:
            factor = _factor(K[np.ix_(g.rows, g.rows)], self.noise_variance_)
            self._fits.append(Fit(g, factor, factor.solve(g.Y)))
        self._known = {row.tobytes(): i for i, row in enumerate(rows)}
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> Array:
        """Learn, and return the places of the rows."""
        return self.fit(X).embedding_.copy()

    def _rows(self, X: ArrayLike, reset: bool) -> Array:
        rows = np.asarray(
            validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float64,
                ensure_all_finite="allow-nan",
                ensure_min_samples=2 if reset else 1,
            )
        )
        for axis, word in ((1, "row"), (0, "column")):
            empty = np.flatnonzero(np.isnan(rows).all(axis=axis))
            if len(empty) and (reset or axis == 1):
                raise InputError(
                    f"has nothing but NaN in {word} {int(empty[0])}",
                    parameter="X",
                    remedy=f"leave out the {word}",
                )
        return np.ascontiguousarray(rows)

    def _start_kernel(self, spread: float) -> Kernel:
        if self.kernel is None:
            return (spread * SE(fixed(1.0))).bind(self.n_components)
        if not isinstance(self.kernel, Kernel):
            raise InputError(f"must be a kernel, got {self.kernel!r}", parameter="kernel", value=self.kernel)
        return self.kernel.bind(self.n_components)

    def _starts(self, centered: Array, rng: np.random.Generator) -> list[tuple[str, Array]]:
        """Places with columns of unit variance."""
        filled = _filled(centered, self.n_components)
        plane = _principal(filled, self.n_components, rng)
        found = [("principal components", plane)]
        if self.n_restarts > 0 and len(filled) > 10 and filled.shape[1] > 1:
            found.append(("neighborhoods", _neighborhoods(filled, self.n_components, plane)))
        while len(found) <= self.n_restarts:
            disturbed = _unit(plane + 0.5 * rng.standard_normal(plane.shape))
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

    # --- new rows -------------------------------------------------------------------------------------------

    def transform(self, X: ArrayLike, return_cov: bool = False) -> Any:
        """Places of rows (m, q), and on request their covariances (m, q, q) from the curvature at the mode.

        Rows that were learned from stay where they are. NaN marks what is missing.
        """
        check_is_fitted(self, "embedding_")
        rows = self._rows(X, reset=False)
        known = np.array([self._known.get(row.tobytes(), -1) for row in rows])
        Y, new = rows - self._offset, known < 0
        Z = np.where(new[:, None], 0.0, self.embedding_[known])
        if new.any():
            Z[new] = self._placed(Y[new])
        if not return_cov:
            return Z
        values, vectors = np.linalg.eigh(-self._curvature(Z, Y))
        flat = values[:, 0] <= 0
        if flat.any():
            warnings.warn(
                f"at {int(flat.sum())} of {len(Z)} rows the log density does not curve down in every direction: their "
                "covariances are infinite",
                ConvergenceWarning,
                stacklevel=2,
            )
        variances = 1.0 / np.where(flat[:, None], 1.0, values)
        covariances = np.einsum("nij,nj,nkj->nik", vectors, variances, vectors)
        covariances[flat] = np.inf
        return Z, covariances

    def _log_density(self, Z: Array, Y: Array) -> tuple[Array, Array]:
        """log p(y | z) + log p(z) of each pair of rows, and its gradient in z."""
        kernel, prepared = self.kernel_, self.kernel_.prepare(Z)
        prior_variance = kernel._diag(prepared)
        K, pullback = kernel.forward(Z, self.embedding_)
        value, G, g_diag = np.zeros(len(Z)), np.zeros_like(K), np.zeros(len(Z))
        for fit in self._fits:
            k = K[:, fit.group.rows]
            y = Y[:, fit.group.columns]
            seen = ~np.isnan(y)
            solved = fit.factor.solve(k.T).T
            variance = prior_variance - np.einsum("ij,ij->i", k, solved)
            s2 = np.maximum(variance, 0.0) + self.noise_variance_
            error = np.where(seen, y - k @ fit.weights, 0.0)
            count, squares = seen.sum(axis=1), np.sum(error**2, axis=1)
            value -= 0.5 * (count * (LOG_2PI + np.log(s2)) + squares / s2)
            d_s2 = 0.5 * (squares / s2 - count) / s2
            G[:, fit.group.rows] += (error / s2[:, None]) @ fit.weights.T - 2.0 * d_s2[:, None] * solved
            g_diag += d_s2
        gradient = pullback(G, inputs=True)[1] + kernel._pull_diag_inputs(prepared, g_diag)
        if self.prior:
            value -= 0.5 * (np.sum(Z**2, axis=1) + Z.shape[1] * LOG_2PI)
            gradient = gradient - Z
        return value, gradient

    def _curvature(self, Z: Array, Y: Array) -> Array:
        """Hessians of the log density (m, q, q), by differences of its gradient."""
        columns = []
        for e in DIFFERENCE * np.eye(Z.shape[1]):
            columns.append(
                (self._log_density(Z + e, Y)[1] - self._log_density(Z - e, Y)[1]) / (2 * DIFFERENCE)
            )
        H = np.stack(columns, axis=2)
        return np.asarray(0.5 * (H + np.swapaxes(H, 1, 2)))

    def _placed(self, Y: Array) -> Array:
        """Modes of the log density, the best from several starts, by Newton's method for all rows at once."""
        starts = self._promising(Y)
        m, count, q = starts.shape
        Z, rows = starts.reshape(-1, q), np.repeat(Y, count, axis=0)
        value, gradient = self._log_density(Z, rows)
        moving = np.arange(len(Z))
        for _ in range(NEWTON_STEPS):
            values, vectors = np.linalg.eigh(-self._curvature(Z[moving], rows[moving]))
            steep = np.maximum(np.abs(values), 1e-6)  # uphill also where it curves up
            along = np.einsum("nij,ni->nj", vectors, gradient[moving])
            step = np.einsum("nij,nj->ni", vectors, along / steep)
            step *= np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(step, axis=1), 1e-300))[:, None]
            self._ascend(Z, value, gradient, moving, step, rows)
            moving = moving[np.linalg.norm(step, axis=1) > 1e-7]
            if not len(moving):
                break
        best = np.argmax(value.reshape(m, count), axis=1)
        return np.asarray(Z.reshape(m, count, q)[np.arange(m), best])

    def _ascend(
        self, Z: Array, value: Array, gradient: Array, moving: NDArray[np.intp], step: Array, rows: Array
    ) -> None:
        """Take each step, halved until it goes up; a row whose step never does stays."""
        left, size = np.arange(len(moving)), 1.0
        for _ in range(12):
            at = moving[left]
            trial = Z[at] + size * step[left]
            new, slope = self._log_density(trial, rows[at])
            up = new >= value[at]
            Z[at[up]], value[at[up]], gradient[at[up]] = trial[up], new[up], slope[up]
            left, size = left[~up], 0.5 * size
            if not len(left):
                return
        step[left] = 0.0

    def _promising(self, Y: Array) -> Array:
        """Places on the map that explain each row best, apart from each other, shape (m, n_places, q)."""
        K = self.kernel_(self.embedding_)
        log_p = np.zeros((len(Y), len(self.embedding_)))
        seen, filled = (~np.isnan(Y)).astype(float), np.nan_to_num(Y)
        for fit in self._fits:
            k = K[:, fit.group.rows]
            s2 = np.diag(K) - np.einsum("ij,ji->i", k, fit.factor.solve(k.T)) + self.noise_variance_
            means, columns = k @ fit.weights, fit.group.columns
            o, y = seen[:, columns], filled[:, columns]
            squares = np.sum(y**2, axis=1)[:, None] - 2.0 * y @ means.T + o @ (means**2).T
            log_p -= 0.5 * (squares / s2 + o.sum(axis=1)[:, None] * np.log(s2))
        if self.prior:
            log_p -= 0.5 * np.sum(self.embedding_**2, axis=1)
        chosen = []
        for _ in range(self.n_places):
            best = np.argmax(log_p, axis=1)
            chosen.append(self.embedding_[best])
            near = np.sum((self.embedding_[best][:, None, :] - self.embedding_) ** 2, axis=2) < APART**2
            log_p = np.where(near, -np.inf, log_p)
        return np.stack(chosen, axis=1)

    def predict_dist(self, Z: ArrayLike) -> GaussianPrediction:
        """The distribution of each column at places Z (m, q), noise included: mean and variance (m, D)."""
        at = self._places(Z)
        K, prior = self.kernel_(at, self.embedding_), self.kernel_.diag(at)
        mean, variance = np.empty((len(at), len(self._offset))), np.empty((len(at), len(self._offset)))
        for fit in self._fits:
            k = K[:, fit.group.rows]
            half = fit.factor.half_solve(k.T)
            mean[:, fit.group.columns] = k @ fit.weights
            variance[:, fit.group.columns] = (prior - np.sum(half**2, axis=0))[:, None]
        return GaussianPrediction(self._offset + mean, np.maximum(variance, 0.0) + self.noise_variance_)

    def inverse_transform(self, Z: ArrayLike) -> Array:
        """Means of the columns at places Z (m, q), shape (m, D)."""
        return np.asarray(self.predict_dist(Z).mean)

    def _places(self, Z: ArrayLike) -> Array:
        check_is_fitted(self, "embedding_")
        at: Array = np.asarray(Z, dtype=float)
        if at.ndim != 2 or at.shape[1] != self.n_components or not np.isfinite(at).all():
            raise InputError(
                f"must be finite numbers of shape (m, {self.n_components}), got shape {at.shape}",
                parameter="Z",
            )
        return at

    @property
    def _n_features_out(self) -> int:
        return int(self.embedding_.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


# --- starts -------------------------------------------------------------------------------------------------


def _unit(Z: Array) -> Array:
    """Columns of zero mean and unit variance; a column that does not vary stays."""
    Z = Z - Z.mean(axis=0)
    sd = Z.std(axis=0)
    return np.asarray(Z / np.where(sd > 0, sd, 1.0))


def _filled(centered: Array, components: int) -> Array:
    """Missing entries replaced by what a plane through the rest says, found in a few rounds."""
    missing = np.isnan(centered)
    filled = np.nan_to_num(centered)
    if not missing.any():
        return filled
    for _ in range(30):
        U, s, V = np.linalg.svd(filled, full_matrices=False)
        q = min(components, len(s))
        filled[missing] = ((U[:, :q] * s[:q]) @ V[:q])[missing]
    return filled


def _principal(filled: Array, components: int, rng: np.random.Generator) -> Array:
    """Principal components; noise for coordinates beyond the rank of the data."""
    U, s, _ = np.linalg.svd(filled, full_matrices=False)
    q = min(components, int(np.sum(s > 1e-12 * max(s[0], 1e-300))))
    more = 0.1 * rng.standard_normal((len(filled), components - q))
    largest = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]  # signs that do not depend on the routine
    return np.hstack([_unit(U[:, :q] * np.sign(largest[:q])), more])


def _neighborhoods(filled: Array, components: int, plane: Array) -> Array:
    """Distances along neighborhoods (Isomap), or the plane if neighborhoods do not hang together."""
    from sklearn.manifold import Isomap

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = Isomap(n_components=components, n_neighbors=min(10, len(filled) - 1)).fit_transform(
                filled
            )
        except ValueError:
            return plane
    return _unit(np.asarray(found, dtype=float)) if np.isfinite(found).all() else plane
