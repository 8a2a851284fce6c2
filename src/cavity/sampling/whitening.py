"""Linear maps from white coordinates to latent values: a matrix, or what a representation does in its place.

Rows are chains or runs, U (C, d); f = mean + U A'. A matrix costs n^2 for each of them and serves any coordinates; of
more rows than a representation has matrices for, its own recursions serve those of the prior or of a posterior.
"""

from __future__ import annotations

import numpy as np

from cavity.latent.base import Capability, CapabilityError, Conditioning, LatentPrior, Whitening
from cavity.numerics.arrays import Array


class MatrixMap:
    """A as a matrix (n, d)."""

    def __init__(self, A: Array) -> None:
        self._map, self._map_t = np.ascontiguousarray(A), np.ascontiguousarray(A.T)

    def apply(self, U: Array) -> Array:
        """U A'."""
        return np.asarray(U @ self._map_t)

    def adjoint(self, G: Array) -> Array:
        """G A."""
        return np.asarray(G @ self._map)


class WhiteMap:
    """A = W of a `Whitening` or of a prior."""

    def __init__(self, white: Whitening, mean: Array | float = 0.0) -> None:
        self._white, self._mean = white, mean

    def apply(self, U: Array) -> Array:
        """U A'."""
        return np.asarray(self._white.unwhiten(np.ascontiguousarray(U.T)).T - self._mean)

    def adjoint(self, G: Array) -> Array:
        """G A."""
        return np.ascontiguousarray(self._white.unwhiten_adjoint(np.ascontiguousarray(G.T)).T)

    def solve(self, F: Array) -> Array:
        """U with U A' = F."""
        return np.ascontiguousarray(self._white.whiten(np.ascontiguousarray((F + self._mean).T)).T)


def beyond_matrices(prior: LatentPrior) -> bool:
    """Whether there are too many rows for the representation to give a matrix."""
    limit = prior.representation.covariance_limit
    return limit is not None and prior.n > limit


def prior_map(prior: LatentPrior) -> WhiteMap:
    """Of the prior, by the representation's own recursions."""
    prior.representation.require(Capability.WHITENING)
    return WhiteMap(prior, prior.mean)


def posterior_map(conditioning: Conditioning) -> WhiteMap:
    """Of prior times sites, by the representation's own recursions."""
    white, prior = conditioning.white(), conditioning.prior
    if white is None:
        limit = prior.representation.covariance_limit
        raise CapabilityError(prior.representation.name, Capability.POSTERIOR_WHITENING, limit)
    return WhiteMap(white)
