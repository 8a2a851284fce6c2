"""What maps of latent variables share: rows and starts, places of new rows with their uncertainty, predictions.

A process from the map to the columns predicts, at a place z, mean k(z)'w_d and variance k(z, z) - k(z)'Q k(z) + noise
of each column, k(z) its covariance with some inputs. The place of a new row is the mode of p(y | z) p(z), its
covariance the inverse curvature there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from cavity.kernels import Kernel
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import InputError

NEWTON_STEPS = 50
DIFFERENCE = 1e-4
"""Step of differences of gradients, in units of a length scale of one."""

APART = 0.5
"""Starts for a new row are at least this far from each other on the map."""


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
    """What predictions of some columns need: rows of the inputs, Q times covariances, and weights (rows, columns)."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    reduce: Callable[[Array], Array]
    weights: Array


class LatentMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator with a map: `embedding_`, `kernel_`, `noise_variance_`, the inputs of its process and its fits."""

    n_components: int
    prior: bool
    n_places: int
    embedding_: Array
    kernel_: Kernel
    noise_variance_: float
    _offset: Array
    _inputs: Array
    _fits: list[Fit]
    _known: dict[bytes, int]

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
        K, pullback = kernel.forward(Z, self._inputs)
        value, G, g_diag = np.zeros(len(Z)), np.zeros_like(K), np.zeros(len(Z))
        for fit in self._fits:
            k = K[:, fit.rows]
            y = Y[:, fit.columns]
            seen = ~np.isnan(y)
            solved = fit.reduce(k)
            variance = prior_variance - np.einsum("ij,ij->i", k, solved)
            s2 = np.maximum(variance, 0.0) + self.noise_variance_
            error = np.where(seen, y - k @ fit.weights, 0.0)
            count, squares = seen.sum(axis=1), np.sum(error**2, axis=1)
            value -= 0.5 * (count * (LOG_2PI + np.log(s2)) + squares / s2)
            d_s2 = 0.5 * (squares / s2 - count) / s2
            G[:, fit.rows] += (error / s2[:, None]) @ fit.weights.T - 2.0 * d_s2[:, None] * solved
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
        log_p = np.zeros((len(Y), len(self.embedding_)))
        seen, filled = (~np.isnan(Y)).astype(float), np.nan_to_num(Y)
        for columns, means, s2 in self._predictions(self.embedding_):
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

    def _predictions(self, at: Array) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
        """Columns of each group, their means (m, columns) and variance (m,) at places, noise included."""
        K, prior = self.kernel_(at, self._inputs), self.kernel_.diag(at)
        for fit in self._fits:
            k = K[:, fit.rows]
            variance = prior - np.einsum("ij,ij->i", k, fit.reduce(k))
            yield fit.columns, k @ fit.weights, np.maximum(variance, 0.0) + self.noise_variance_

    def predict_dist(self, Z: ArrayLike) -> GaussianPrediction:
        """The distribution of each column at places Z (m, q), noise included: mean and variance (m, D)."""
        at = self._places(Z)
        mean, variance = np.empty((len(at), len(self._offset))), np.empty((len(at), len(self._offset)))
        for columns, means, s2 in self._predictions(at):
            mean[:, columns], variance[:, columns] = means, s2[:, None]
        return GaussianPrediction(self._offset + mean, variance)

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


def unit_columns(Z: Array) -> Array:
    """Columns of zero mean and unit variance; a column that does not vary stays."""
    Z = Z - Z.mean(axis=0)
    sd = Z.std(axis=0)
    return np.asarray(Z / np.where(sd > 0, sd, 1.0))


def filled_by_plane(centered: Array, components: int) -> Array:
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


def principal_places(filled: Array, components: int, rng: np.random.Generator) -> Array:
    """Principal components; noise for coordinates beyond the rank of the data."""
    U, s, _ = np.linalg.svd(filled, full_matrices=False)
    q = min(components, int(np.sum(s > 1e-12 * max(s[0], 1e-300))))
    more = 0.1 * rng.standard_normal((len(filled), components - q))
    largest = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]  # signs that do not depend on the routine
    return np.hstack([unit_columns(U[:, :q] * np.sign(largest[:q])), more])


def neighborhoods(filled: Array, components: int, plane: Array) -> Array:
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
    return unit_columns(np.asarray(found, dtype=float)) if np.isfinite(found).all() else plane
