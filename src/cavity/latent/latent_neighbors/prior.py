"""The process at the training inputs, each latent value by way of its neighbors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from cavity.latent.base import Conditioning, ImproperPosteriorError
from cavity.latent.latent_neighbors.conditioning import LatentNeighborConditioning
from cavity.latent.latent_neighbors.precision import PrecisionPattern
from cavity.latent.latent_neighbors.process import LatentNeighborProcess
from cavity.latent.neighbors.graph import Index
from cavity.latent.neighbors.prior import SINGULAR, NeighborPrior
from cavity.latent.neighbors.process import NeighborProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.latent_neighbors.representation import LatentNeighbors
    from cavity.latent.neighbors.prior import NeighborConditioning

SMALLEST_NOISE = 1e-12
"""Least variance of an observation, as a share of the prior variance."""


class LatentNeighborPrior(NeighborPrior):
    """f ~ N(m, K) at n training inputs, with K^-1 = Q = B' V^-1 B.

    Row i of B says how its neighbors predict f_i, and V with which variances.
    """

    representation: LatentNeighbors
    cheap_squares = False

    @property
    def pattern(self) -> PrecisionPattern:
        """Where Q has entries."""
        return self.graph.precision_pattern

    @cached_property
    def own(self) -> Array:
        """k_ii."""
        return self.kernel._diag(self.kernel.prepare(self.X))

    @cached_property
    def _conditionals(self) -> tuple[Array, Array, float]:
        """b (n, k) and v (n,) in the order of the graph, and the share of k_ii that was added to it."""
        graph, nothing = self.graph, np.empty((self.n, 0))
        b = np.empty(graph.neighbors.shape)
        for fraction in JITTER_LADDER:
            share = self.representation.nugget + fraction
            v = self.cliques.conditionals(
                graph.points, graph.neighbors, share * self.own, nothing, b
            ).variance
            if np.all(v > SINGULAR * self.own[graph.points]):
                return b, v, share
        raise NotPositiveDefiniteError(
            f"the covariance matrix is not positive definite, even with {JITTER_LADDER[-1]:g} of its diagonal added: "
            "are inputs repeated? Give LatentNeighbors a nugget"
        )

    @property
    def b(self) -> Array:
        """Weights of the neighbors (n, k), in the order of the graph."""
        return self._conditionals[0]

    @property
    def v(self) -> Array:
        """Variances given the neighbors (n,), in the order of the graph."""
        return self._conditionals[1]

    @property
    def nugget(self) -> Array:
        """What was added to the prior variances, (n,)."""
        return self._conditionals[2] * self.own

    @property
    def jitter(self) -> float:
        """What was added beyond the nugget, on average."""
        return (self._conditionals[2] - self.representation.nugget) * float(np.mean(self.own))

    @cached_property
    def precision(self) -> Array:
        """Entries of Q on its pattern."""
        return self.pattern.values(self.b, self.v)

    @cached_property
    def log_det_V(self) -> float:
        """log |V| = -log |Q|."""
        return float(np.sum(np.log(self.v)))

    # --- conditioning ---------------------------------------------------------------------------------------

    def condition(self, precision: Array, *, transient: bool = False) -> LatentNeighborConditioning:
        """Given sites of these precisions, of any sign, shape (n,)."""
        if not np.isfinite(precision).all():
            raise ImproperPosteriorError("sites have precisions that are not finite")
        return LatentNeighborConditioning(self, precision)

    def observe(self, variance: Array, *, transient: bool = False) -> LatentNeighborConditioning:
        """Given observations with these noise variances, shape (n,)."""
        if np.any(variance <= SMALLEST_NOISE * self.own):
            raise NotPositiveDefiniteError(
                f"neighbors of latent values cannot hold observations without noise (row {int(np.argmin(variance))}): "
                "give the noise a variance, or use representation='neighbors'"
            )
        return LatentNeighborConditioning(self, 1.0 / variance, variance)

    def observe_values(
        self, variance: Array, residual: Array | None, *, transient: bool = False
    ) -> LatentNeighborConditioning:
        """As `observe`."""
        return self.observe(variance)

    # --- products with the covariance -----------------------------------------------------------------------

    @property
    def _factor(self) -> tuple[Index, Index, Array]:
        return self.graph.points, self.graph.neighbors, self.b

    @cached_property
    def _v(self) -> Array:
        """v in the order of the rows, as a column."""
        out = np.empty((self.n, 1))
        out[self.graph.points, 0] = self.v
        return out

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.condition(np.zeros(self.n)).var

    def times(self, U: Array) -> Array:
        """K U = B^-1 V B^-T U."""
        from cavity.latent.neighbors.sparse_factor import solve, solve_transposed

        flat = _columns(U)
        return np.asarray(solve(*self._factor, self._v * solve_transposed(*self._factor, flat))).reshape(
            U.shape
        )

    def times_precision(self, U: Array) -> Array:
        """Q U = B' V^-1 B U."""
        from cavity.latent.neighbors.sparse_factor import times, times_transposed

        flat = _columns(U)
        return np.asarray(times_transposed(*self._factor, times(*self._factor, flat) / self._v)).reshape(
            U.shape
        )

    def unwhiten(self, U: Array) -> Array:
        """m + B^-1 V^1/2 U."""
        from cavity.latent.neighbors.sparse_factor import solve

        flat = np.sqrt(self._v) * _columns(U)
        return np.asarray(solve(*self._factor, flat) + self.mean[:, None]).reshape(U.shape)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """V^1/2 B^-T G."""
        from cavity.latent.neighbors.sparse_factor import solve_transposed

        return np.asarray(np.sqrt(self._v) * solve_transposed(*self._factor, _columns(G))).reshape(G.shape)

    def whiten(self, F: Array) -> Array:
        """V^-1/2 B (F - m)."""
        from cavity.latent.neighbors.sparse_factor import times

        flat = _columns(F) - self.mean[:, None]
        return np.asarray(times(*self._factor, flat) / np.sqrt(self._v)).reshape(F.shape)

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal beyond the nugget."""
        return self.jitter

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> LatentNeighborProcess:
        """The posterior process anywhere."""
        assert isinstance(conditioning, LatentNeighborConditioning)
        return LatentNeighborProcess(self, self.times(weights), conditioning, basis)

    def given_values(self, F: Array) -> NeighborProcess:
        """The process given latent values (n, g)."""
        return KnownValues(self, F - self.mean[:, None])


class KnownValues(NeighborProcess):
    """Predictions from latent values that are known."""

    def __init__(self, prior: LatentNeighborPrior, values: Array) -> None:
        super().__init__(prior, values, cast("NeighborConditioning", None))

    @property
    def _noise(self) -> Array:
        return cast(LatentNeighborPrior, self.prior).nugget

    def _one_target(self, t: int) -> KnownValues:
        return KnownValues(cast(LatentNeighborPrior, self.prior), self.weights[:, t])


def _columns(U: Array) -> Array:
    return np.ascontiguousarray(U.reshape(len(U), -1), dtype=float)
