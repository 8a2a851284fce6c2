"""Sites or observations on a process held at inducing inputs.

Given d and the kind's share a of it in the prior, with one_i = 1 + a tau_i d_i, S_i = tau_i / one_i, B = I + V S V':

    log|I + K T| = log|B| + sum_i log one_i                    proper if all one_i > 0 and B is positive definite
    R = S - S V' B^-1 V S,   I - R K = one^-1 - S V' B^-1 V one^-1
    Sigma = diag(a d / one) + one^-1 V' B^-1 V one^-1

for sites of either sign. Observations of noise variances v are sites of precision 1 / v, where S = 1 / (v + a d) and
one^-1 = v S also exist if v is zero. What the kind adds to log_det and var is in `kinds`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from cavity.latent.base import Conditioning, FlatDirections, ImproperPosteriorError, PriorGradient
from cavity.latent.inducing.blocks import (
    add_weighted_gram,
    inverse_transposed,
    row_products,
    times_inverse,
)
from cavity.latent.inducing.kinds import Kind
from cavity.latent.inducing.pullback import Pullback
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.numerics.tiles import mirror_lower

if TYPE_CHECKING:
    from cavity.latent.inducing.prior import InducingPrior


MOST_NEGATIVE, FLATTEST = 1000, 10
"""Negative sites up to which all directions are looked at; of more, so many of the flattest."""


class InducingConditioning(Conditioning):
    """Given sites of precisions tau, or observations with noise variances.

    Parameters
    ----------
    prior : InducingPrior
    kind : Kind
    precision : array (n,), optional
        tau, of any sign.
    variance : array (n,), optional
        1 / tau, nonnegative.
    """

    prior: InducingPrior

    def __init__(
        self,
        prior: InducingPrior,
        kind: Kind,
        precision: Array | None,
        variance: Array | None = None,
        transient: bool = False,
    ) -> None:
        self.transient = transient
        self.prior, self.kind, self.jitter = prior, kind, prior.jitter
        if precision is None:
            assert variance is not None
            with np.errstate(divide="ignore"):
                precision = 1.0 / variance
        self.precision, self._variance = precision, variance
        self.S, self.share_left = np.empty(prior.n), np.empty(prior.n)
        B = np.zeros((prior.m, prior.m))
        B.reshape(-1)[:: prior.m + 1] = 1.0
        keep = prior.keeps
        for rows, V in prior.white_tiles():
            self._weigh(rows)
            add_weighted_gram(B, V, self.S[rows], keep)
        factor = try_factorize(B)
        if factor is None:
            worst = int(np.argmin(precision * prior.diagonal))
            raise ImproperPosteriorError(
                "the posterior is improper: negative site precisions outweigh the prior (largest at point "
                f"{worst}); damp the update or restrict the sites",
                worst,
            )
        self.B: Cholesky = factor
        d = prior.residual
        if kind.apart > 0:
            self.apart = kind.apart * d
        if kind.weight > 0:
            self.spread = kind.spread(precision * d, d)

    def _weigh(self, rows: slice) -> None:
        """S and 1 / one of a block."""
        d, kind, tau = self.prior.residual_of(rows), self.kind, self.precision[rows]
        if self._variance is not None:
            v = self._variance[rows]
            self.S[rows] = 1.0 / (v + kind.share * d)
            self.share_left[rows] = v * self.S[rows]
            return
        one = 1.0 + kind.share * tau * d
        excess = 1.0 + kind.curve * tau * d
        if not (np.all(one > 0.0) and np.all(excess > 0.0)):
            worst = rows.start + int(np.argmin(np.minimum(one, excess)))
            raise ImproperPosteriorError(
                f"the posterior is improper: the negative precision of the site of point {worst} outweighs the "
                "variance that it has given the inducing inputs; damp the update or restrict the sites",
                worst,
            )
        self.share_left[rows] = 1.0 / one
        self.S[rows] = tau / one

    # --- scalars --------------------------------------------------------------------------------------------

    @cached_property
    def log_det(self) -> float:  # type: ignore[override]
        """log |I + K T| and the kind's excess, infinite if an observation is exact."""
        with np.errstate(divide="ignore"):
            own = self.B.log_det - float(np.log(self.share_left).sum())
        return own + self._excess

    @cached_property
    def noisy_log_det(self) -> float:
        """log |K + diag(variance)| and the kind's excess."""
        return self.B.log_det - float(np.log(self.S).sum()) + self._excess

    @property
    def _excess(self) -> float:
        return self.kind.excess(self.precision * self.prior.residual) if self.kind.weight > 0 else 0.0

    @cached_property
    def _curvatures(self) -> tuple[Array, Array]:
        """Smallest eigenvalues c of C = I - q A+[N, N] q, and eigenvectors in columns (n, k), zero but in N, times q.

        N are the negative sites, q the roots of minus their precisions, A+ the covariance without them.
        """
        prior, N = self.prior, np.flatnonzero(self.precision < 0)
        if N.size == 0:
            return np.ones(1), np.zeros((prior.n, 1))
        q, seen = np.sqrt(-self.precision[N]), np.empty((N.size, prior.m))
        for rows, V in prior.white_tiles():
            first, last = np.searchsorted(N, [rows.start, rows.stop])
            seen[first:last] = V[N[first:last] - rows.start] * q[first:last, None]
        seen = times_inverse(self._without_negative._B_root, seen)
        own = self.kind.share * prior.residual[N] * q**2
        if N.size > MOST_NEGATIVE:
            lost, u = eigsh(
                LinearOperator(
                    (N.size,) * 2, lambda x: own * np.ravel(x) + seen @ (seen.T @ np.ravel(x)), dtype=float
                ),
                k=FLATTEST,
                which="LA",
                v0=np.ones(N.size),
            )
        else:
            lost, u = np.linalg.eigh(seen @ seen.T + np.diag(own))
        z = np.zeros((prior.n, len(lost)))
        z[N] = q[:, None] * u
        return 1.0 - lost, z

    @cached_property
    def _without_negative(self) -> InducingConditioning:
        """Given the sites of positive precision alone."""
        return InducingConditioning(self.prior, self.kind, np.maximum(self.precision, 0.0))

    @property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of C."""
        return float(self._curvatures[0].min())

    def flat_directions(self, limit: float) -> FlatDirections:
        """As of `negative_sites`, for the eigenvectors of C."""
        tau = self.precision
        if -float(np.minimum(tau, 0.0) @ self.var) < 1.0 - limit:  # the trace of I - C is at most this
            return super().flat_directions(limit)
        values, vectors = self._curvatures
        c, z = values[values < limit], vectors[:, values < limit]
        a, s = self._without_negative.project(z)
        by_site = s**2
        by_site[tau < 0] /= 1.0 - c
        return FlatDirections(c, a, by_site)

    # --- diagonals ------------------------------------------------------------------------------------------

    @cached_property
    def _B_root(self) -> Array:
        """L_B^-T, upper triangular."""
        return inverse_transposed(self.B)

    @cached_property
    def explained(self) -> Array:
        """V_i' B^-1 V_i, the posterior variance of the part of f_i that is a function of u, shape (n,)."""
        prior, out = self.prior, np.empty(self.prior.n)
        keep = prior.keeps
        for rows, V in prior.white_tiles():
            U = times_inverse(self._B_root, V.copy() if keep else V)
            out[rows] = row_products(U, U)
        return out

    @cached_property
    def var(self) -> Array:
        """share d / one + V'B^-1 V / one^2, and the spread."""
        left = self.share_left
        own = self.explained * left**2
        if self.kind.share > 0:
            own += self.kind.share * self.prior.residual * left
        return own if self.spread is None else own + self.spread

    @cached_property
    def diagonal_of_R(self) -> Array:
        """S - S^2 V'B^-1 V."""
        return self.S * (1.0 - self.S * self.explained)

    @property
    def unexplained(self) -> Array:
        """tau (1 - tau var)."""
        own = self.diagonal_of_R
        return own if self.spread is None else own - self.precision**2 * self.spread

    # --- products -------------------------------------------------------------------------------------------

    def _smooth(self, U: Array) -> Array:
        """V' B^-1 V U, shape (n, k)."""
        return self.prior.project_out(self.B.solve(self.prior.project_in(U)))

    def apply(self, U: Array) -> Array:
        """S U - S V'B^-1 V S U."""
        flat = U.reshape(self.prior.n, -1)
        S = self.S[:, None]
        return np.asarray(S * (flat - self._smooth(S * flat))).reshape(U.shape)

    def project(self, b: Array) -> tuple[Array, Array]:
        """(b / one - S g, (g + share d b) / one) with g = V'B^-1 V b / one."""
        flat = b.reshape(self.prior.n, -1)
        scaled = self.share_left[:, None] * flat
        g = self._smooth(scaled)
        weights = scaled - self.S[:, None] * g
        if self.kind.share > 0:
            g += (self.kind.share * self.prior.residual)[:, None] * flat
        g *= self.share_left[:, None]
        return weights.reshape(b.shape), g.reshape(b.shape)

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(S+^1/2 U, (L_B^-1 V S U, S-^1/2 U)), since R = S - S V'B^-1 V S."""
        seen = self.B.half_solve(self.prior.project_in(self.S[:, None] * U))
        root, negative = np.sqrt(np.abs(self.S))[:, None] * U, self.S < 0
        if not negative.any():
            return root, seen
        return root[~negative], np.vstack([seen, root[negative]])

    @cached_property
    def covariance(self) -> Array:
        """Sigma with the spread on its diagonal."""
        self.prior.require_covariance()
        S = self.project(np.eye(self.prior.n))[1]
        if self.spread is not None:
            S[np.diag_indices_from(S)] += self.spread
        return 0.5 * (S + S.T)

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var and what the spread adds), by passes over the rows."""
        n, d, left = self.prior.n, self.prior.residual, self.share_left
        first = np.zeros(n) if d_mean is None else self.project(d_mean)[1]
        if d_var is None:
            return first, np.zeros(n)
        own, seen = self.kind.share * d * left, self.explained * left**2
        second = own * (own + 2.0 * seen) * d_var + left**2 * self._sandwiched(d_var * left**2)
        if self.spread is not None and self.kind.curve > 0:
            second += self.kind.curve * self.kind.spread_slope(self.precision * d) * d**2 * d_var
        return first, second

    def gram(self, weight: Array) -> Array:
        """V diag(weight) V', full."""
        C, keep = np.zeros((self.prior.m, self.prior.m)), self.prior.keeps
        for rows, V in self.prior.white_tiles():
            add_weighted_gram(C, V, weight[rows], keep)
        return mirror_lower(C)

    def between(self, C: Array) -> Array:
        """B^-1 C B^-1 for a symmetric C."""
        half = self.B.solve(C)
        return self.B.solve(np.ascontiguousarray(half.T))

    def _sandwiched(self, weight: Array) -> Array:
        """V_i' B^-1 V diag(weight) V' B^-1 V_i, shape (n,)."""
        middle, out = self.between(self.gram(weight)), np.empty(self.prior.n)
        for rows, V in self.prior.white_tiles():
            out[rows] = row_products(V @ middle, V)
        return out

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """V'L_B^-T z / one and independent parts: direct, for sites of any sign."""
        prior = self.prior
        out = prior.project_out(self.B.half_solve_transposed(rng.standard_normal((prior.m, size))))
        out *= self.share_left[:, None]
        rest = self.kind.share * prior.residual * self.share_left
        if self.spread is not None:
            rest = rest + self.spread
        if np.any(rest > 0):
            out += np.sqrt(rest)[:, None] * rng.standard_normal((prior.n, size))
        return out

    def for_process(self) -> AtInducingInputs:
        """K_uu^-1 - L^-T B^-1 L^-1, for predictions from the inducing inputs."""
        return AtInducingInputs(self)

    # --- pulling back ---------------------------------------------------------------------------------------

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """See the protocol, and the formulas above."""
        right = left if right is None else right
        pullback = Pullback(self, left, right, d_log_det, d_var, d_unexplained)
        gradient = pullback.gradient()
        if self.transient or not pullback.collapsed:
            self.__dict__.setdefault("explained", pullback.explained)
        return gradient


class AtInducingInputs(Conditioning):
    """R among the inducing inputs: K_uu^-1 - L^-T B^-1 L^-1, or without the first term for a subset of regressors."""

    def __init__(self, given: InducingConditioning) -> None:
        self.given, self.prior, self.jitter = given, given.prior, given.jitter
        self.log_det = given.log_det
        self.degenerate = not given.kind.predicts_prior

    @property
    def var(self) -> Array:
        """Those of the training rows."""
        return self.given.var

    @property
    def unexplained(self) -> Array:
        """Those of the training rows."""
        return self.given.unexplained

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """(L^-1 U, L_B^-1 L^-1 U)."""
        white = self.given.prior.root.T @ U
        return white[:0] if self.degenerate else white, self.given.B.half_solve(white)

    def apply(self, U: Array) -> Array:
        """(K_uu^-1 - L^-T B^-1 L^-1) U."""
        root = self.given.prior.root
        white = root.T @ U
        known = self.given.B.solve(white)
        return np.asarray(root @ (-known if self.degenerate else white - known))

    def matrix(self) -> Array:
        """R, shape (m, m)."""
        R = self.apply(np.eye(len(self.given.prior.root)))
        return 0.5 * (R + R.T)

    def weigh(self, U: Array) -> Array:
        """How much each target counts for predictions, shape (n, k), for U = k(Z, x*)."""
        given = self.given
        seen = given.B.solve(given.prior.root.T @ U)
        return np.asarray(given.S[:, None] * given.prior.project_out(seen))

    def project(self, b: Array) -> tuple[Array, Array]:
        """As of the training rows."""
        return self.given.project(b)

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """As of the training rows."""
        return self.given.pull_prior(left, right, d_log_det, d_var, d_unexplained)
