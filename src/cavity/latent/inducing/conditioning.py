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

from cavity.latent.base import Conditioning, FlatDirections, ImproperPosteriorError, Loss, PriorGradient
from cavity.latent.inducing.blocks import inverse_transposed, times_inverse
from cavity.latent.inducing.kinds import Kind
from cavity.latent.inducing.pullback import Pullback
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.numerics.tiles import mirror_lower
from cavity.runtime.errors import InputError

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
        site = precision if variance is None else variance
        if prior.residual_known:
            self._weigh(site)
            B = prior.gram(self.S)
        else:
            B = prior.first_gram(kind, site, variance is not None)
            self._weigh(site)
        B.reshape(-1)[:: prior.m + 1] += 1.0
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

    def _weigh(self, site: Array) -> None:
        """S and 1 / one, of proper sites."""
        d, kind = self.prior.residual, self.kind
        if self._variance is None:
            least = 1.0 + np.minimum(kind.share * site * d, kind.curve * site * d)
            if not np.all(least > 0.0):
                worst = int(np.argmin(least))
                raise ImproperPosteriorError(
                    f"the posterior is improper: the negative precision of the site of point {worst} outweighs the "
                    "variance that it has given the inducing inputs; damp the update or restrict the sites",
                    worst,
                )
        self.S, self.share_left = kind.weigh(site, d, self._variance is not None)

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
        q = np.sqrt(-self.precision[N])
        seen = times_inverse(self._without_negative._B_root, prior.white_rows(N) * q[:, None])
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
        return self.prior.explained(self._B_root)

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
        return mirror_lower(self.prior.gram(weight))

    def between(self, C: Array) -> Array:
        """B^-1 C B^-1 for a symmetric C."""
        half = self.B.solve(C)
        return self.B.solve(np.ascontiguousarray(half.T))

    def _sandwiched(self, weight: Array) -> Array:
        """V_i' B^-1 V diag(weight) V' B^-1 V_i, shape (n,)."""
        return self.prior.sandwiched(self.between(self.gram(weight)))

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

    def white(self) -> PosteriorWhitening:
        """Coordinates of u and of what each row has beyond it, in which N(0, Sigma) is white."""
        return PosteriorWhitening(self)

    def for_process(self) -> AtInducingInputs:
        """K_uu^-1 - L^-T B^-1 L^-1, for predictions from the inducing inputs."""
        return AtInducingInputs(self.prior.root, self.B, not self.kind.predicts_prior, self)

    def loss(self, weights: Array | None = None) -> Loss:
        """What is lost by the inducing inputs: see `certificate.loss`."""
        from cavity.latent.inducing.certificate import loss

        return loss(self, weights)

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


class PosteriorWhitening:
    """W = [V'L_B^-T / one, sqrt(share d / one)] of a conditioning, without the second part if f is a function of u."""

    def __init__(self, given: InducingConditioning) -> None:
        self._given, self._prior = given, given.prior
        self._left = given.share_left[:, None]
        self._own = np.sqrt(given.kind.share * given.prior.residual * given.share_left)[:, None]

    def unwhiten(self, U: Array) -> Array:
        """W U."""
        given, m = self._given, self._prior.m
        out = self._left * self._prior.project_out(given.B.half_solve_transposed(U[:m]))
        return out + self._own * U[m:] if given.kind.share > 0 else out

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        seen = self._given.B.half_solve(self._prior.project_in(self._left * G))
        return np.vstack([seen, self._own * G]) if self._given.kind.share > 0 else seen

    def whiten(self, F: Array) -> Array:
        """Those of the white coordinates of the prior, in which the posterior precision is C C', times C'."""
        prior, given = self._prior, self._given
        U = prior.whiten(F + prior.mean[:, None])
        seen = np.tril(given.B.lower).T @ U[: prior.m]
        if given.kind.share == 0:
            return np.asarray(seen)
        root = np.sqrt(given.kind.share * prior.residual)[:, None]
        pulled = root * given.precision[:, None] * prior.project_out(U[: prior.m])
        return np.vstack([seen, U[prior.m :] / np.sqrt(self._left) + np.sqrt(self._left) * pulled])


class AtInducingInputs(Conditioning):
    """R among the inducing inputs: K_uu^-1 - L^-T B^-1 L^-1, or without the first term for a subset of regressors.

    Parameters
    ----------
    root : array (m, m)
        L^-T, upper triangular.
    B : Cholesky
    given : InducingConditioning, optional
        What it came from. Predictions need no more than `root` and `B`, in whose place no row is kept.
    """

    def __init__(
        self, root: Array, B: Cholesky, degenerate: bool, given: InducingConditioning | None = None
    ) -> None:
        self.root, self.B, self.degenerate, self._given = root, B, degenerate, given
        if given is not None:
            self.prior, self.jitter, self.log_det = given.prior, given.jitter, given.log_det

    @property
    def given(self) -> InducingConditioning:
        """Sites or observations of the training rows."""
        if self._given is None:
            raise InputError("the training rows of this posterior were not kept: it makes predictions only")
        return self._given

    def for_rows(self) -> InducingConditioning:
        """R among the training rows."""
        return self.given

    def without_rows(self) -> AtInducingInputs:
        """All that predictions need."""
        return AtInducingInputs(self.root, self.B, self.degenerate)

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
        white = self.root.T @ U
        return white[:0] if self.degenerate else white, self.B.half_solve(white)

    def apply(self, U: Array) -> Array:
        """(K_uu^-1 - L^-T B^-1 L^-1) U."""
        white = self.root.T @ U
        known = self.B.solve(white)
        return np.asarray(self.root @ (-known if self.degenerate else white - known))

    def matrix(self) -> Array:
        """R, shape (m, m)."""
        R = self.apply(np.eye(len(self.root)))
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

    def loss(self, weights: Array | None = None) -> Loss:
        """As of the training rows."""
        return self.given.loss(weights)
