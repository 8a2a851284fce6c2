"""Sites of negative precision, for every representation: a low-rank change of what the others imply.

Let N be the points of negative precision, q = sqrt(-tau_N), and A+ and R+ the covariance and the correction of the
sites of precision max(tau, 0). With E = A+[:, N] q and F = (I - R+ K)[:, N] q:

    C = I - q A+[N, N] q = L L'                        positive definite exactly if the posterior is proper
    Sigma = A+ + E C^-1 E',   R = R+ - F C^-1 F',   log|I + K T| = log|I + K T+| + log|C|

Only |N| columns of A+ and of I - R+ K are needed, which a representation gives by `project_columns`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from cavity.latent.base import Conditioning, FlatDirections, ImproperPosteriorError, PriorGradient
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize


class NegativeSites(Conditioning):
    """The conditioning on sites of either sign, from that on their nonnegative parts.

    Parameters
    ----------
    base : Conditioning
        Of precisions max(tau, 0).
    precision : array (n,)
        tau.
    """

    def __init__(self, base: Conditioning, precision: Array) -> None:
        self.base, self.prior, self.jitter = base, base.prior, base.jitter
        self.index = np.flatnonzero(precision < 0)
        q = np.sqrt(-precision[self.index])
        self.F, self.E = base.project_columns(self.index, q)
        inner = q[:, None] * self.E[self.index]
        factor = try_factorize(np.ascontiguousarray(np.eye(len(q)) - 0.5 * (inner + inner.T)))
        if factor is None:
            worst = int(self.index[np.argmax(np.diagonal(inner))])
            raise ImproperPosteriorError(
                "the posterior is improper: negative site precisions outweigh the prior (largest at point "
                f"{worst}); damp the update or restrict the sites",
                worst,
            )
        self.C: Cholesky = factor
        self.log_det = base.log_det + factor.log_det

    @cached_property
    def _curvatures(self) -> tuple[Array, Array]:
        """Eigenvalues of C, smallest first, and its eigenvectors in columns."""
        L = np.tril(self.C.lower)
        values, vectors = np.linalg.eigh(L @ L.T)
        return values, vectors

    @property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of C."""
        return float(self._curvatures[0][0])

    def flat_directions(self, limit: float) -> FlatDirections:
        """Of C's eigenvectors u: with z = q u, a = F u = (I - R+ K) z and s = E u = A+ z, since A+ = K - K R+ K,

        c = 1 - z' A+ z,    dc/dK = -a a',    dc/dtau_i = s_i^2, and s_i^2 / (1 - c) at the negative sites
        """
        values, vectors = self._curvatures
        c, u = values[values < limit], vectors[:, values < limit]
        by_site = (self.E @ u) ** 2
        by_site[self.index] /= 1.0 - c
        return FlatDirections(c, self.F @ u, by_site)

    @cached_property
    def _widening(self) -> Array:
        """G = L^-1 E', shape (|N|, n): Sigma = A+ + G'G."""
        return self.C.half_solve(np.ascontiguousarray(self.E.T))

    @cached_property
    def _lowering(self) -> Array:
        """H = F L^-T, shape (n, |N|): R = R+ - H H'."""
        return np.ascontiguousarray(self.C.half_solve(np.ascontiguousarray(self.F.T)).T)

    @cached_property
    def var(self) -> Array:
        """Those of the nonnegative sites, widened."""
        return np.asarray(self.base.var + np.einsum("ij,ij->j", self._widening, self._widening))

    @cached_property
    def unexplained(self) -> Array:
        """The diagonal of R."""
        return np.asarray(self.base.unexplained - np.einsum("ij,ij->i", self._lowering, self._lowering))

    def apply(self, U: Array) -> Array:
        """R U."""
        return self.base.apply(U) - self._lowering @ (self._lowering.T @ U)

    def project(self, b: Array) -> tuple[Array, Array]:
        """((I - R K) b, Sigma b)."""
        a, moved = self.base.project(b)
        pulled = self.C.solve(self.E.T @ b)
        return a + self.F @ pulled, moved + self.E @ pulled

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(M, H'U), since U' R U = U' R+ U - (H'U)'(H'U)."""
        M, _ = self.base.reduce(U)
        return M, self._lowering.T @ U

    @cached_property
    def covariance(self) -> Array:
        """A+ + G'G."""
        return self.base.covariance + self._widening.T @ self._widening

    def matrix(self) -> Array:
        """R+ - H H'."""
        return self.base.matrix() - self._lowering @ self._lowering.T

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """Of A+ + G'G: the Hadamard square is that of A+, twice the mixed term, and that of G'G."""
        first = np.zeros(self.prior.n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(self.prior.n)
        G = self._widening
        plain = self.base.pull_sites(d_var=d_var)[1]
        mixed = np.einsum("ij,ji->i", self.base.project((G * d_var).T)[1], G)
        own = np.einsum("ij,ij->j", G, ((G * d_var) @ G.T) @ G)
        return first, plain + 2.0 * mixed + own

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """The base's, with columns for what -H H' adds."""
        H = self._lowering
        if right is None and d_var is None and d_unexplained is None and d_log_det < 0:
            return self.base.pull_prior(np.hstack([left, np.sqrt(-d_log_det) * H]), None, d_log_det)
        lefts, rights = lowered(self.base, H, d_log_det, d_unexplained)
        if d_var is not None:
            # I - K R = (I - K R+) + Y H' with Y = K H
            Y = self.prior.times(H)
            scaled = d_var[:, None] * Y
            lefts += [2.0 * self.base.project(scaled)[0], H @ (Y.T @ scaled)]
            rights += [H, H]
        lefts, rights = [left, *lefts], [left if right is None else right, *rights]
        return self.base.pull_prior(np.hstack(lefts), np.hstack(rights), d_log_det, d_var, d_unexplained)


def lowered(
    base: Conditioning, H: Array, d_log_det: float, d_unexplained: Array | None
) -> tuple[list[Array], list[Array]]:
    """Columns (left, right) that turn the base's d_log_det R+ - R+ D R+ into that of R = R+ - H H'.

    D is diag(d_unexplained).
    """
    left, right = [-d_log_det * H], [H]
    if d_unexplained is not None:
        scaled = d_unexplained[:, None] * H
        left += [2.0 * base.apply(scaled), -(H @ (H.T @ scaled))]
        right += [H, H]
    return left, right


FEW_NEGATIVE = 300
"""Negative sites up to which flat directions of the posterior are looked for, at a column for each."""


class FewNegativeSites(Conditioning):
    """Flat directions of a conditioning that takes sites of either sign at once, by taking the negative ones apart.

    Attributes
    ----------
    precision : array (n,)
        tau.
    """

    precision: Array

    @cached_property
    def _by_parts(self) -> NegativeSites | None:
        """The same from the sites that are not negative, which says which directions are flat; None if it is dear."""
        if not 0 < int(np.sum(self.precision < 0)) <= FEW_NEGATIVE:
            return None
        return NegativeSites(self.prior.condition(np.maximum(self.precision, 0.0)), self.precision)

    @cached_property
    def smallest_curvature(self) -> float:
        """If negative sites are many an upper bound, close if one site decides: 1 / (1 + |tau_i| var_i)."""
        if self._by_parts is not None:
            return self._by_parts.smallest_curvature
        if np.all(self.precision >= 0):
            return 1.0
        return 1.0 / (1.0 + float(np.max(np.maximum(-self.precision, 0.0) * self.var)))

    def flat_directions(self, limit: float) -> FlatDirections:
        """None are given if negative sites are many."""
        if self._by_parts is not None:
            return self._by_parts.flat_directions(limit)
        return super().flat_directions(limit)
