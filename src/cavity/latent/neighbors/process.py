"""The posterior process anywhere: each new row is predicted from the training rows nearest to it.

Twice as many neighbors as in learning: predictions still gain from them, and cost less than an evaluation of the
evidence. Draws and covariances among new rows let these join the order after the training rows, so that each is
conditioned on the nearest of both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from cavity.kernels.base import new_inputs
from cavity.latent.neighbors.evaluation import Cliques
from cavity.latent.neighbors.graph import Index
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.neighbors.prior import NeighborConditioning, NeighborPrior
    from cavity.means.basis import Basis


class Local(NamedTuple):
    """What neighbors say about new rows: moments of f - m, and h - H'A^-1 k of basis functions (m, p)."""

    mean: Array
    variance: Array
    features: Array


class NeighborProcess:
    """Predictions from neighbors.

    Parameters
    ----------
    prior : NeighborPrior
    weights : array (n,) or (n, T)
        Observations minus the prior mean and the fitted basis functions: neighbors share them out anew for every row.
    conditioning : NeighborConditioning
    basis : BasisWeights, optional
    """

    def __init__(
        self,
        prior: NeighborPrior,
        weights: Array,
        conditioning: NeighborConditioning,
        basis: BasisWeights | None = None,
    ) -> None:
        self.prior, self.weights, self.conditioning, self.basis = prior, weights, conditioning, basis
        self.kernel, self.mean_function = prior.kernel, prior.mean_function
        self.X = prior.X
        self._last: tuple[Array, Local] | None = None

    def _inputs(self, X: ArrayLike) -> Array:
        return new_inputs(X, self.prior.X.shape[1])

    def _features(self, X: Array) -> Array:
        if self.basis is None:
            return np.empty((len(X), 0))
        return cast("Basis", self.mean_function).features(X)

    @property
    def _noise(self) -> Array:
        """Variances (n,) of what neighbors are known by."""
        return self.conditioning.variance

    @property
    def _known_features(self) -> Array:
        """Basis functions (n, p) at the training rows, in place of what is known of them."""
        return self._features(self.prior.X)

    def _uncertainty(self, near: Index, weights: Array) -> Array | float:
        """Variance (m,) that a sum of neighbors (m, k) with these weights has itself: none of observations."""
        return 0.0

    def _local(self, X: Array) -> Local:
        """From the nearest training rows; the last answer is kept, since mean and variance are asked for in turn."""
        if self._last is not None and np.array_equal(self._last[0], X):
            return self._last[1]
        prior, n = self.prior, self.prior.n
        near = prior.graph.nearest(X / prior.scales, 2 * prior.representation.k)
        columns, weights = self.weights.reshape(n, -1), np.empty(near.shape)
        known = np.hstack([columns, self._known_features])
        Y = np.vstack([known, np.zeros((len(X), known.shape[1]))])
        noise = np.concatenate([self._noise, np.zeros(len(X))])
        cliques = Cliques(self.kernel, np.vstack([prior.X, X]))
        v, e = cliques.conditionals(np.arange(n, n + len(X)), near, noise, Y, weights)
        T = columns.shape[1]
        found = Local(-e[:, :T], v + self._uncertainty(near, weights), self._features(X) + e[:, T:])
        self._last = X.copy(), found
        return found

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,), or (m, T) for several targets."""
        new = self._inputs(X)
        out = self._local(new).mean
        if self.mean_function is not None:
            out = out + self.mean_function(new)[:, None]
        if self.basis is not None:
            out = out + (self._features(new) @ self.basis.shift).reshape(len(new), -1)
        return np.asarray(out if self.weights.ndim == 2 else out[:, 0])

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,)."""
        new = self._inputs(X)
        local = self._local(new)
        out = local.variance
        if self.basis is not None:
            root = self.basis.precision.half_solve(np.ascontiguousarray(local.features.T))
            out = out + np.einsum("ij,ij->j", root, root)
        own = self.kernel._diag(self.kernel._prepare(new, np.full(len(new), -1)))
        return np.asarray(np.maximum(out, np.finfo(float).eps * own))

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m)."""
        root = self._joint_root(self._inputs(X))
        return np.asarray(root @ root.T)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m) or, for several targets, (size, m, T)."""
        rng = np.random.default_rng(rng)
        new = self._inputs(X)
        mean, root = self.mean(new), self._joint_root(new)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        noise = root @ rng.standard_normal((root.shape[1], size * targets))
        draws = noise.reshape(len(new), size, targets).transpose(1, 0, 2)
        return np.asarray(mean + draws[:, :, 0] if mean.ndim == 1 else mean + draws)

    def _joint_root(self, X: Array) -> Array:
        """A root of the covariance of f among new rows: each is conditioned on the nearest of all rows before it.

        With b and v of the new rows, f* = B_** f* + ... + sqrt(v) u, so that (I - B_**)^-1 sqrt(v) is a root.
        """
        from cavity.latent.neighbors.search import earlier_neighbors

        prior, n, m = self.prior, self.prior.n, len(X)
        both = np.vstack([prior.X, X])
        near = earlier_neighbors(both / prior.scales, min(2 * prior.representation.k, n + m - 1), first=n)
        weights, H = np.empty(near.shape), self._known_features
        noise = np.concatenate([self._noise, np.zeros(m)])
        Y = np.vstack([H, np.zeros((m, H.shape[1]))])
        v, e = Cliques(self.kernel, both).conditionals(np.arange(n, n + m), near, noise, Y, weights)
        B = np.eye(m)
        rows, slots = np.nonzero(near >= n)
        B[rows, near[rows, slots] - n] -= weights[rows, slots]
        own = self.kernel._diag(self.kernel._prepare(X, np.full(m, -1)))
        root = self._root_given_new(near, weights, np.maximum(v, np.finfo(float).eps * own))
        root = np.asarray(solve_triangular(B, root, lower=True, unit_diagonal=True))
        if self.basis is None:
            return root
        known = solve_triangular(B, e, lower=True, unit_diagonal=True)  # -H'A^-1 k by way of the same order
        features = np.ascontiguousarray((self._features(X) + known).T)
        return np.hstack([root, np.ascontiguousarray(self.basis.precision.half_solve(features).T)])

    def _root_given_new(self, near: Index, weights: Array, v: Array) -> Array:
        """A root of the covariance of new rows beyond what they pass on to each other."""
        return np.diag(np.sqrt(v))
