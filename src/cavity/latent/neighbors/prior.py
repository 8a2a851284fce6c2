"""The process at the training inputs, given observations with Gaussian noise, each by way of its neighbors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.kernels.base import Kernel
from cavity.kernels.products import covariance_times
from cavity.latent.base import (
    Capability,
    CapabilityError,
    Conditioning,
    Inputs,
    LatentPrior,
    Loss,
    PriorGradient,
)
from cavity.latent.neighbors.evaluation import Cliques, EvidenceGradient
from cavity.latent.neighbors.graph import Graph, NeighborInputs
from cavity.latent.neighbors.process import NeighborProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights, Trend
    from cavity.latent.neighbors.representation import Neighbors
    from cavity.means.functions import Mean

SINGULAR = 4.0 * float(np.finfo(float).eps)
"""Share of the prior variance below which what an exact observation adds is rounding."""


class NeighborPrior(LatentPrior):
    """f ~ N(m, K) at n training inputs; observations are approximated, the prior is not."""

    representation: Neighbors

    def __init__(
        self,
        representation: Neighbors,
        scales: Array,
        kernel: Kernel,
        inputs: Inputs,
        mean_function: Mean | None,
    ) -> None:
        rows = inputs if isinstance(inputs, NeighborInputs) else NeighborInputs(inputs.source)
        super().__init__(kernel, rows, mean_function)
        kernel._check_width(self.X.shape[1])
        self.representation, self.scales = representation, scales
        self._rows = rows

    @cached_property
    def graph(self) -> Graph:
        """Neighbors of each row."""
        return self._rows.graph(self.scales, self.representation.k, self.representation.seed)

    @cached_property
    def cliques(self) -> Cliques:
        """Covariances of rows and their neighbors."""
        return Cliques(self.kernel, self.X)

    def condition(self, precision: Array, *, transient: bool = False) -> Conditioning:
        """Refused: neighbors are for observations with Gaussian noise."""
        raise CapabilityError(self.representation.name, Capability.SITES)

    def observe(self, variance: Array, *, transient: bool = False) -> Conditioning:
        """Given observations with these noise variances, shape (n,), zero if exact."""
        return self.observe_values(variance, None)

    def observe_values(
        self, variance: Array, residual: Array | None, *, transient: bool = False
    ) -> Conditioning:
        """As `observe`; given what was observed, minus the mean (n, T), the gradient comes in the same pass."""
        scale = float(np.mean(self.diagonal))
        for fraction in JITTER_LADDER:
            found = NeighborConditioning(self, variance, fraction * scale, residual)
            if np.all(found.v > SINGULAR * self.diagonal):
                return found
        raise NotPositiveDefiniteError(
            f"the covariance matrix is not positive definite, even with {JITTER_LADDER[-1]:g} of its mean diagonal "
            f"({scale:.3g}) added: are inputs repeated without noise?"
        )

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances, shape (n,)."""
        return self.kernel._diag(self.kernel.prepare(self.X))

    def times(self, U: Array) -> Array:
        """K U, from tiles of K: O(n^2)."""
        columns = [covariance_times(self.kernel, self.X, u) for u in U.reshape(self.n, -1).T]
        return np.stack(columns, axis=1).reshape(U.shape)

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> NeighborProcess:
        """The posterior process anywhere."""
        assert isinstance(conditioning, NeighborConditioning)
        columns = weights.reshape(self.n, -1)
        residual = conditioning.unapply(columns).reshape(weights.shape)
        return NeighborProcess(self, residual, conditioning, basis)


class NeighborConditioning(Conditioning):
    """R = B' D^-1 B, where row i of B says how the neighbors of row i predict it, and D with which variances.

    Attributes
    ----------
    v : array (n,)
        The diagonal of D, in the order of the rows.
    variance : array (n,)
        Noise variances, jitter included.
    """

    prior: NeighborPrior

    def __init__(self, prior: NeighborPrior, variance: Array, jitter: float, residual: Array | None) -> None:
        self.prior, self.jitter, self.variance = prior, jitter, variance + jitter
        self._residual = residual
        graph = prior.graph
        self.b = np.empty(graph.neighbors.shape)
        self.gradient: EvidenceGradient | None = None
        self._weights: Array | None = None
        where = graph.points, graph.neighbors, self.variance
        if residual is None:
            found = prior.cliques.conditionals(*where, np.empty((prior.n, 0)), self.b)
        else:
            Y = np.sqrt(0.5) * residual
            found, self.gradient = prior.cliques.evidence_and_gradient(
                *where, Y, -0.5 * residual.shape[1], self.b
            )
        self.v = np.empty(prior.n)
        self.v[graph.points] = found.variance
        with np.errstate(invalid="ignore", divide="ignore"):
            self._noisy_log_det = float(np.sum(np.log(self.v)))
            self.log_det = self._noisy_log_det - float(np.sum(np.log(self.variance)))
        self._factor = graph.points, graph.neighbors, self.b

    @property
    def noisy_log_det(self) -> float:
        """sum_i log v_i."""
        return self._noisy_log_det

    # --- products -------------------------------------------------------------------------------------------

    def half_solve(self, U: Array) -> Array:
        """D^-1/2 B U."""
        from cavity.latent.neighbors.sparse_factor import times

        flat = _columns(U)
        return np.asarray(times(*self._factor, flat) / np.sqrt(self.v)[:, None]).reshape(U.shape)

    @property
    def half_solve_norm(self) -> float:
        """About the norm of D^-1/2 B."""
        return float(1.0 / np.sqrt(np.min(self.v)))

    def half_solve_transposed(self, U: Array) -> Array:
        """B' D^-1/2 U."""
        from cavity.latent.neighbors.sparse_factor import times_transposed

        flat = _columns(U) / np.sqrt(self.v)[:, None]
        return np.asarray(times_transposed(*self._factor, flat)).reshape(U.shape)

    def apply(self, U: Array) -> Array:
        """R U."""
        found = self.half_solve_transposed(self.half_solve(U))
        if U is self._residual:
            self._weights = found
        return found

    def unapply(self, U: Array) -> Array:
        """R^-1 U."""
        from cavity.latent.neighbors.sparse_factor import solve, solve_transposed

        flat = solve_transposed(*self._factor, _columns(U)) * self.v[:, None]
        return np.asarray(solve(*self._factor, flat)).reshape(U.shape)

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(D^-1/2 B U, None)."""
        return self.half_solve(U), None

    @cached_property
    def unexplained(self) -> Array:
        """The diagonal of R."""
        from cavity.latent.neighbors.sparse_factor import squared_columns

        return np.asarray(squared_columns(*self._factor, 1.0 / self.v))

    @property
    def var(self) -> Array:
        """Refused: rows that many others lean on would have variances below zero."""
        raise CapabilityError(self.prior.representation.name, Capability.SITES)

    def project(self, b: Array) -> tuple[Array, Array]:
        """Refused, as `var`."""
        raise CapabilityError(self.prior.representation.name, Capability.SITES)

    # --- pullbacks and leave-one-out ------------------------------------------------------------------------

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """Gradient of -x'R x, with x = R^-1 left held fixed, and of d_log_det log|R^-1|; others are refused."""
        if right is not None or d_var is not None or d_unexplained is not None:
            raise CapabilityError(self.prior.representation.name, Capability.SITES)
        return PriorGradient(self._pulled(left, d_log_det).kernel)

    def pull_observations(self, weights: Array, targets: int) -> tuple[PriorGradient, Array]:
        """Of the log evidence, in the prior and in the noise variances."""
        known = self.gradient if weights is self._weights else None
        if known is None:
            known = self._pulled(np.sqrt(0.5) * weights, -0.5 * targets)
        return PriorGradient(known.kernel), known.noise

    def _pulled(self, left: Array, d_log_det: float) -> EvidenceGradient:
        graph, unused = self.prior.graph, np.empty(self.b.shape)
        where = graph.points, graph.neighbors, self.variance
        return self.prior.cliques.evidence_and_gradient(*where, self.unapply(left), d_log_det, unused)[1]

    def loss(self, weights: Array | None = None) -> Loss:
        """Nats a row of the divergence from the exact process, from a sample of rows."""
        from cavity.latent.neighbors.gap import sampled_gap

        return Loss(sampled_gap(self.prior, self.variance, np.random.default_rng(0)).nats, "sampled")

    def leave_one_out(self, residual: Array, trend: Trend | None) -> tuple[Array, Array]:
        """Means (n, T) and variances (n,) of each observation, minus the prior mean, from twice as many other rows.

        With basis functions, whose weights know the row: it is taken out of them (eps / (1 - h), h its leverage).
        """
        prior, T = self.prior, residual.shape[1]
        others = prior.graph.others(2 * prior.representation.k)
        H = np.empty((prior.n, 0)) if trend is None else trend.features
        Y = np.ascontiguousarray(np.hstack([residual, H]))
        v, e = prior.cliques.conditionals(np.arange(prior.n), others, self.variance, Y)
        if trend is None:
            return residual - e, v
        eps = e[:, :T] - e[:, T:] @ trend.weights.shift
        white = trend.weights.precision.half_solve(np.ascontiguousarray(e[:, T:].T))
        left = 1.0 - np.einsum("ji,ji->i", white, white) / v
        lost = left <= prior.n * np.finfo(float).eps
        left = np.where(lost, 1.0, left)
        mean = np.where(lost[:, None], 0.0, residual - eps / left[:, None])
        return mean, np.where(lost, np.inf, v / left)


def _columns(U: Array) -> Array:
    return np.ascontiguousarray(U.reshape(len(U), -1), dtype=float)
