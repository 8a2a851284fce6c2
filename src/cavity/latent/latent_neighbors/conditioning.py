"""What follows from precisions T of sites, of either sign: Sigma = (Q + T)^-1 by a sparse Cholesky factor.

Since Q Sigma = I - T Sigma, products with R = (K + T^-1)^-1 = Q Sigma T and I - R K = Q Sigma can be had in two ways;
of each row the one that cancels less is taken: by T if its site is weaker than its precision Q_ii, by Q if it is not.

The posterior is proper if and only if Q + T is positive definite, which the factorization says.

Derivatives: d<K, G> = -<K G K, dQ>, and K R K = K - Sigma, K (I - R K) = Sigma, K R = Sigma T. So all cotangents of K
that the protocol knows need Sigma and Sigma D Sigma where Q has entries only, D diagonal.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.latent.base import ImproperPosteriorError, Loss, PriorGradient
from cavity.latent.negative_sites import FewNegativeSites
from cavity.numerics.arrays import Array
from cavity.numerics.multifrontal import SparseCholesky

if TYPE_CHECKING:
    from cavity.latent.latent_neighbors.prior import LatentNeighborPrior


class LatentNeighborConditioning(FewNegativeSites):
    """Given sites of precisions tau (n,), or observations with noise variances.

    Attributes
    ----------
    precision : array (n,)
        tau.
    """

    prior: LatentNeighborPrior

    def __init__(self, prior: LatentNeighborPrior, precision: Array, variance: Array | None = None) -> None:
        self.prior, self.precision, self._variance = prior, precision, variance
        self.jitter = prior.jitter
        values = prior.precision.copy()
        values[prior.pattern.diagonal] += precision
        factor = prior.pattern.factors.factorize(values)
        if factor is None:
            worst = int(np.argmin(precision * prior.own))
            raise ImproperPosteriorError(
                "the posterior is improper: negative site precisions outweigh the prior (largest at point "
                f"{worst}); damp the update or restrict the sites",
                worst,
            )
        self.factor: SparseCholesky = factor
        self.log_det = factor.log_det + prior.log_det_V

    @property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)|."""
        assert self._variance is not None
        return self.log_det + float(np.sum(np.log(self._variance)))

    @cached_property
    def _selected(self) -> Array:
        """Sigma on the pattern of Q."""
        return self.factor.selected()

    @cached_property
    def _strong(self) -> NDArray[np.bool_]:
        """Rows whose site is stronger than the prior given all others."""
        return np.abs(self.precision) > self.prior.precision[self.prior.pattern.diagonal]

    # --- marginals and products -----------------------------------------------------------------------------

    @cached_property
    def var(self) -> Array:
        """The diagonal of Sigma."""
        return self._selected[self.prior.pattern.diagonal]

    @cached_property
    def unexplained(self) -> Array:
        """tau (Q Sigma)_ii."""
        left = 1.0 - self.precision * self.var
        if self._strong.any():
            by_prior = self.prior.pattern.row_sums(self.prior.precision * self._selected)
            left = np.where(self._strong, by_prior, left)
        return self.precision * left

    def project(self, b: Array) -> tuple[Array, Array]:
        """(Q Sigma b, Sigma b)."""
        flat = b.reshape(self.prior.n, -1)
        moved = self.factor.solve(flat)
        left = flat - self.precision[:, None] * moved
        if self._strong.any():
            left[self._strong] = self.prior.times_precision(moved)[self._strong]
        return left.reshape(b.shape), moved.reshape(b.shape)

    def apply(self, U: Array) -> Array:
        """Q Sigma T U."""
        return self.project((self.precision * U.T).T)[0]

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(V^-1/2 B x, T+^1/2 (U - x)) and T-^1/2 (U - x) with x = Sigma T U: U'R U = x'Q x + (U - x)'T (U - x)."""
        left, x = self.project(self.precision[:, None] * U)
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.where(self._strong[:, None], left / self.precision[:, None], U - x)
        root = np.sqrt(np.abs(self.precision))[:, None] * apart
        white, negative = self.prior.whiten(x + self.prior.mean[:, None]), self.precision < 0
        return np.vstack([white, root[~negative]]), root[negative] if negative.any() else None

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of N(0, Sigma), shape (n, size)."""
        return self.factor.half_solve_transposed(rng.standard_normal((self.prior.n, size)))

    def white(self) -> PosteriorWhitening:
        """Coordinates in which N(0, Sigma) is white."""
        return PosteriorWhitening(self.factor)

    def loss(self, weights: Array | None = None) -> Loss:
        """Nats a row of the divergence from the exact process, from a sample of rows; that of the data is no larger."""
        from cavity.latent.neighbors.gap import sampled_gap

        return Loss(sampled_gap(self.prior, self.prior.nugget, np.random.default_rng(0)).nats, "sampled")

    # --- derivatives ----------------------------------------------------------------------------------------

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var): the second is minus the change of var with the precisions."""
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(self.prior.n)
        return first, -self.factor.selected_along(d_var)[self.prior.pattern.diagonal]

    def apply_squared(self, g: Array) -> Array:
        """(R o R) g, since R = T - T Sigma T."""
        tau = self.precision
        squared = self.pull_sites(d_var=tau**2 * g)[1]
        return np.asarray(tau**2 * (g * (1.0 - 2.0 * tau * self.var) + squared))

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """Of <P, Q> + d_log_det log |V|, where P = d_log_det Sigma - K left right'K - Sigma D Sigma is held fixed.

        D = d_var - tau^2 d_unexplained.
        """
        prior, pattern, graph = self.prior, self.prior.pattern, self.prior.graph
        K_left = prior.times(left)
        P = -pattern.outer(K_left, K_left if right is None else prior.times(right))
        if d_log_det:
            P += d_log_det * self._selected
        if d_var is not None or d_unexplained is not None:
            moved = np.zeros(prior.n) if d_var is None else d_var
            if d_unexplained is not None:
                moved = moved - self.precision**2 * d_unexplained
            P += self.factor.selected_along(moved)
        found = prior.cliques.pull_precision(
            graph.points, graph.neighbors, prior.nugget, pattern.local(prior.b, P), d_log_det
        )
        share = prior.nugget / prior.own
        rows = prior.kernel.prepare(prior.X)
        return PriorGradient(found.kernel + prior.kernel._pull_diag(rows, share * found.noise))


class PosteriorWhitening:
    """W = P'L^-T of a factor P'L L'P of the posterior precision."""

    def __init__(self, factor: SparseCholesky) -> None:
        self._factor = factor

    def unwhiten(self, U: Array) -> Array:
        """W U."""
        return self._factor.half_solve_transposed(U)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        return self._factor.half_solve(G)

    def whiten(self, F: Array) -> Array:
        """W^-1 F."""
        return self._factor.multiply_transposed(F)
