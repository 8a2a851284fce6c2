"""Several Gaussian processes anywhere, after data that couple them: from the training rows, or from inducing inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel, Rows, new_inputs
from cavity.latent.multi_latent import SeveralConditioning
from cavity.latent.posterior_process import BLOCK_DOUBLES
from cavity.means.functions import Mean
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import factorize
from cavity.parameters.per_latent import PerLatent


class Expansion(NamedTuple):
    """What the mean of one function is a sum over: k(., p_i) at these points.

    Attributes
    ----------
    kernel : Kernel
    points : prepared inputs
    inputs : array (m, D)
        The points themselves.
    """

    kernel: Kernel
    points: Rows
    inputs: Array


class SeveralPosteriorProcess:
    """L Gaussian processes conditioned on data that couple them.

    mean_c(x*) = m_c(x*) + k_c(P, x*)' b_c, and the covariances are what `conditioning.reduce` makes of k_c(P, x*).

    Parameters
    ----------
    functions : sequence of Expansion
        One for each function; functions that share a kernel share an object.
    mean_function : PerLatent, optional
    weights : array (n, L)
        Of the training rows.
    conditioning : SeveralConditioning
    at_points : array (m, L), optional
        b, if the points are not the training rows.
    """

    basis = None
    """Several functions have no basis functions with weights integrated out."""

    def __init__(
        self,
        functions: Sequence[Expansion],
        mean_function: PerLatent | None,
        weights: Array,
        conditioning: SeveralConditioning,
        at_points: Array | None = None,
    ) -> None:
        self.functions, self.mean_function = list(functions), mean_function
        self.weights, self.conditioning = weights, conditioning
        self.at_points = weights if at_points is None else at_points
        self.X = self.functions[0].inputs

    @property
    def n_latent(self) -> int:
        """Number of functions."""
        return len(self.functions)

    def _inputs(self, X: ArrayLike) -> Array:
        return new_inputs(X, self.X.shape[1])

    def _blocks(self, m: int) -> Iterator[slice]:
        size = max(1, BLOCK_DOUBLES // len(self.X) * self.n_latent)
        for start in range(0, m, size):
            yield slice(start, min(start + size, m))

    def _cross(self, X: Array, index: int = -1) -> list[Array]:
        """K_c(P, X) for every function."""
        found: dict[int, Array] = {}
        for p in self.functions:
            if id(p) not in found:
                found[id(p)] = p.kernel._block(p.points, p.kernel._prepare(X, np.full(len(X), index)))
        return [found[id(p)] for p in self.functions]

    def _prior_mean(self, X: Array) -> Array:
        means = self.mean_function
        if means is None:
            return np.zeros((len(X), self.n_latent))
        return np.column_stack([cast(Mean, m)(X) for m in means])

    def mean(self, X: ArrayLike) -> Array:
        """Posterior means of the latent functions, shape (m, L)."""
        X = self._inputs(X)
        out = self._prior_mean(X)
        for at in self._blocks(len(X)):
            for c, k in enumerate(self._cross(X[at])):
                out[at, c] += k.T @ self.at_points[:, c]
        return out

    def blocks(self, X: ArrayLike) -> Array:
        """Posterior covariance among the functions at each row of X, shape (m, L, L)."""
        X = self._inputs(X)
        L = self.n_latent
        out = np.empty((len(X), L, L))
        for at in self._blocks(len(X)):
            cross = self._cross(X[at])
            U, V = self.conditioning.reduce(cross)
            out[at] = cross_products(V)
            for c, p in enumerate(self.functions):
                own = p.kernel._diag(p.kernel._prepare(X[at], np.full(len(X[at]), -1)))
                variance = out[at, c, c] + own - np.einsum("ij,ij->j", cross[c], U[c])
                out[at, c, c] = np.maximum(variance, np.finfo(float).eps * own)
        return out

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variances of the latent functions, shape (m, L)."""
        return np.diagonal(self.blocks(X), axis1=1, axis2=2).copy()

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance among all functions and rows of X, shape (m, L, m, L)."""
        X = self._inputs(X)
        m, L = len(X), self.n_latent
        cross = self._cross(X)
        U, V = self.conditioning.reduce(cross)
        out = np.empty((m, L, m, L))
        for c, p in enumerate(self.functions):
            for d in range(L):
                out[:, c, :, d] = V[c].T @ V[d]
            rows = p.kernel._prepare(X, np.arange(m))
            out[:, c, :, c] += p.kernel._block(rows, rows) - cross[c].T @ U[c]
        joint = out.reshape(m * L, m * L)
        return (0.5 * (joint + joint.T)).reshape(m, L, m, L)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of the latent functions at X, shape (size, m, L)."""
        X = self._inputs(X)
        rng = np.random.default_rng(rng)
        m, L = len(X), self.n_latent
        joint = self.covariance(X).reshape(m * L, m * L)
        draws = factorize(joint.copy).multiply(rng.standard_normal((m * L, size)))
        return np.asarray(self.mean(X) + draws.T.reshape(size, m, L))

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx at each row of X, shape (m, D, L)."""
        X = self._inputs(X)
        out = np.zeros((*X.shape, self.n_latent))
        for c, p in enumerate(self.functions):
            if self.mean_function is not None:
                mean = cast(Mean, self.mean_function[c])
                out[:, :, c] += mean.pull_inputs(X, np.ones(len(X)))
            for at in self._blocks(len(X)):
                a = p.kernel._prepare(X[at], np.full(len(X[at]), -1))
                K = p.kernel._block(a, p.points)
                G = np.broadcast_to(self.at_points[:, c], K.shape)
                out[at, :, c] += p.kernel._pull_inputs(a, p.points, G, K)[0]
        return out

    def variance_gradient(self, X: ArrayLike) -> Array:
        """Not available for several latent functions."""
        raise ValueError("derivatives of the variance are available for one latent function only")


def cross_products(V: Sequence[Array]) -> Array:
    """V_c' V_d at each point: shape (m, L, L) for V_c of shape (., m)."""
    L = len(V)
    out = np.empty((V[0].shape[1], L, L))
    for c in range(L):
        for d in range(c + 1):
            out[:, c, d] = out[:, d, c] = np.einsum("ij,ij->j", V[c], V[d])
    return out
