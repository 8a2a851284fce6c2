"""Explicit basis functions whose weights are integrated out, for Gaussian noise under any representation.

With h(x)' beta, beta ~ N(b, B), added to the process (Rasmussen and Williams 2006, section 2.7), R = (K + V)^-1 becomes

    R - R H Q^-1 H' R = R - W W',    Q = B^-1 + H' R H,

and vague weights are the limit B^-1 -> 0. Q is never formed if R has a factor, R = L^-T L^-1: with B^-1 = P' P, the
triangle of the QR factorization of [P; L^-1 H] is its Cholesky factor, at the root of its condition number (inputs far
from the origin make h nearly dependent), and V, the lower rows of the orthogonal factor, give W = L^-T V.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cavity.latent.base import Conditioning
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, NotPositiveDefiniteError, factorize
from cavity.numerics.special import LOG_2PI

CLEAR_OF_ROUNDING = 100.0
"""What tells basis functions apart must exceed their rounding errors by this factor."""


@dataclass(frozen=True)
class BasisWeights:
    """Posterior of the weights of explicit basis functions.

    Attributes
    ----------
    mean : array (p,) or (p, T)
        Posterior mean of the weights, as a whole (not the difference from the prior mean).
    shift : array (p,) or (p, T)
        Its difference from the prior mean.
    precision : Cholesky
        Factor of the posterior precision Q.
    projection : array (n, p)
        R H.
    """

    mean: Array
    shift: Array
    precision: Cholesky
    projection: Array

    def of_target(self, t: int) -> BasisWeights:
        """Those of one of several targets."""
        return BasisWeights(self.mean[:, t], self.shift[:, t], self.precision, self.projection)

    @property
    def covariance(self) -> Array:
        """Posterior covariance of the weights, shape (p, p)."""
        return self.precision.solve(np.eye(len(self.precision.lower)))

    @property
    def sd(self) -> Array:
        """Posterior standard deviations of the weights, shape (p,)."""
        return np.sqrt(np.diagonal(self.covariance))


class Trend:
    """Basis functions integrated out of observations.

    Parameters
    ----------
    basis : Basis
    conditioning : Conditioning
        On the observations.
    residual : array (n, T)
        Observations minus the prior mean, which includes h' b.

    Attributes
    ----------
    features : array (n, p)
        H.
    weights : BasisWeights
        Of all targets.
    alpha : array (n, T)
        (R - W W') residual.
    root : array (n, p)
        W.
    log_det : float
        log |Q| - log |B^-1|; log |Q| in the vague limit.
    """

    def __init__(self, basis: Basis, conditioning: Conditioning, residual: Array) -> None:
        self.features = H = basis.features(conditioning.prior.X)
        whitened = conditioning.half_solve(H)
        if whitened is None:
            Q, W, projection = _by_normal_equations(basis, conditioning, H)
            self.alpha = conditioning.apply(residual) - W @ (W.T @ residual)
            shift = Q.half_solve_transposed(W.T @ residual)
        else:
            Q, V = _orthogonalize(basis, conditioning, H, whitened)
            white = conditioning.half_solve(residual)
            assert white is not None
            seen = V.T @ white
            shift = Q.half_solve_transposed(seen)
            projection = conditioning.half_solve_transposed(whitened)
            W = conditioning.half_solve_transposed(V)
            self.alpha = conditioning.half_solve_transposed(white - V @ seen)
        self.root = W
        self.weights = BasisWeights(basis.prior_mean[:, None] + shift, shift, Q, projection)
        self.log_det = Q.log_det
        if not basis.vague:
            self.log_det -= 2.0 * float(np.log(np.diagonal(basis.prior_root)).sum())


def _by_normal_equations(basis: Basis, conditioning: Conditioning, H: Array) -> tuple[Cholesky, Array, Array]:
    """Factor of Q, W = R H L_Q^-T, and R H."""
    projection = conditioning.apply(H)
    Q = basis.prior_root.T @ basis.prior_root + H.T @ projection
    factor = factorize((0.5 * (Q + Q.T)).copy)
    return factor, np.ascontiguousarray(factor.half_solve(np.ascontiguousarray(projection.T)).T), projection


def _orthogonalize(
    basis: Basis, conditioning: Conditioning, H: Array, whitened: Array
) -> tuple[Cholesky, Array]:
    """Factor of Q = P'P + M'M for M = L^-1 H, and V with M = V times its transpose."""
    prior = basis.prior_root
    stacked = np.vstack([prior, whitened])
    V, R = np.linalg.qr(stacked)
    own, size = np.diagonal(R), np.linalg.norm(H, axis=0)
    # What is left of a column after the ones before it must exceed rounding: of the factorization, and of the
    # features themselves, which whitening enlarges.
    rounding = len(stacked) * np.linalg.norm(stacked, axis=0)
    rounding += CLEAR_OF_ROUNDING * size * conditioning.half_solve_norm
    if len(own) < len(size) or np.any(np.abs(own) <= np.finfo(float).eps * rounding):
        weights = "a vague prior" if basis.vague else "a prior too wide to tell them apart"
        raise NotPositiveDefiniteError(
            f"the {len(size)} basis functions are linearly dependent on these {len(H)} inputs, and their "
            f"weights have {weights}: use fewer basis functions, center the inputs, or give the weights a "
            "smaller prior variance"
        )
    sign = np.where(own < 0, -1.0, 1.0)
    return Cholesky(np.ascontiguousarray(R.T * sign)), V[len(prior) :] * sign


class ConditionedWithTrend:
    """q(f) at the training inputs, given one target with noise of variances v, basis functions integrated out.

    With r the residual, v = diag(variance) and alpha = (R - W W') r, f has mean y - v alpha and covariance
    Sigma + v W W' v, and

        KL(q || prior) = 1/2 (log|K + v| + log|Q| - log|B^-1| - log|v| - sum_i var_i / v_i + alpha' (r - v alpha)).

    The divergence from vague weights is infinite: the constant that the evidence drops is dropped here too.

    Attributes
    ----------
    mean : array (n,)
    """

    def __init__(
        self, trend: Trend, conditioning: Conditioning, residual: Array, variance: Array, vague: bool
    ) -> None:
        self.trend, self.conditioning, self.variance, self.vague = trend, conditioning, variance, vague
        self._explained = residual - variance * trend.alpha[:, 0]
        self.mean = conditioning.prior.mean + self._explained

    @cached_property
    def var(self) -> Array:
        """Posterior variances at the training inputs, shape (n,)."""
        W = self.trend.root
        return np.asarray(self.conditioning.var + self.variance**2 * np.einsum("ij,ij->i", W, W))

    @property
    def kl(self) -> float:
        """KL(q || prior), in nats."""
        log_det = self.conditioning.noisy_log_det + self.trend.log_det
        if self.vague:
            log_det -= self.trend.root.shape[1] * LOG_2PI
        of_noise = float(np.sum(np.log(self.variance) + self.var / self.variance))
        return 0.5 * (log_det - of_noise + float(self.trend.alpha[:, 0] @ self._explained))
