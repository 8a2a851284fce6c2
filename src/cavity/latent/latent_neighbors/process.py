"""The posterior process anywhere: each new value given the latent values nearest to it, and what is known of those.

With b and v of a new row given its neighbors c, f* has mean b'mean_c and variance v + b' Sigma_cc b.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.latent.neighbors.graph import Index
from cavity.latent.neighbors.process import NeighborProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import covariance_root

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.latent_neighbors.conditioning import LatentNeighborConditioning
    from cavity.latent.latent_neighbors.prior import LatentNeighborPrior

BLOCK_DOUBLES = 4_000_000
"""Entries of right-hand sides that are solved for at a time (32 MB)."""


class LatentNeighborProcess(NeighborProcess):
    """Predictions from latent values.

    Parameters
    ----------
    prior : LatentNeighborPrior
    moved : array (n,) or (n, T)
        Posterior mean of the latent values minus that of the prior.
    conditioning : LatentNeighborConditioning
    basis : BasisWeights, optional
    """

    prior: LatentNeighborPrior
    conditioning: LatentNeighborConditioning  # type: ignore[assignment]

    def __init__(
        self,
        prior: LatentNeighborPrior,
        moved: Array,
        conditioning: LatentNeighborConditioning,
        basis: BasisWeights | None = None,
    ) -> None:
        super().__init__(prior, moved, conditioning, basis)  # type: ignore[arg-type]
        self._seen = np.empty((prior.n, 0)) if basis is None else prior.times(basis.projection)

    @property
    def _noise(self) -> Array:
        return self.prior.nugget

    @property
    def _known_features(self) -> Array:
        """K R H: what the latent values would be if the targets were basis functions."""
        return self._seen

    def _uncertainty(self, near: Index, weights: Array) -> Array:
        """b' Sigma b of each new row."""
        added = np.empty(len(near))
        by_place = np.argsort(
            self._place[near[:, 0]], kind="stable"
        )  # so that a block meets few pieces of the factor
        size = max(1, BLOCK_DOUBLES // self.prior.n)
        for start in range(0, len(near), size):
            some = by_place[start : start + size]
            half = self._half(near[some], weights[some])
            added[some] = np.einsum("ij,ij->j", half, half)
        return added

    @property
    def _place(self) -> Index:
        order = self.conditioning.factor.pattern.order
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        return place

    def _half(self, near: Index, weights: Array) -> Array:
        """(n, m), whose inner products are those of rows of weights with Sigma; of new rows nothing is known here."""
        columns = np.zeros((self.prior.n, len(near)))
        which, slot = np.nonzero((near >= 0) & (near < self.prior.n))
        columns[near[which, slot], which] = weights[which, slot]
        return self.conditioning.factor.half_solve(columns)

    def _root_given_new(self, near: Index, weights: Array, v: Array) -> Array:
        half = self._half(near, weights)
        return covariance_root(half.T @ half + np.diag(v))(np.eye(len(v)))
