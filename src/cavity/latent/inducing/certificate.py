"""How far inducing inputs are from the model that was asked for: two ends between which the exact log evidence lies.

With A = K + S the covariance of observations, S = diag(noise variances), E = K - Q positive semi-definite, any vector v
and r = y - A v,

    1/2 y'A^-1 y = v'y - 1/2 v'A v + 1/2 r'A^-1 r,      0 <= r'A^-1 r <= r'(Q + S)^-1 r
    log|A| = log|Q + S| + log|I + (Q + S)^-1 E|,        0 <= log|I + (Q + S)^-1 E| <= sum_i log(1 + d_i / s_i)

(Artemev, Burt and van der Wilk 2021 for the quadratic form; A >= Q + S >= S and Hadamard's inequality for the
determinant.) The nearer v is to A^-1 y, the better: it comes from conjugate gradients preconditioned by Q + S, a
product with K each, in tiles that are thrown away. They end when what is left of the quadratic form is small beside
what is left of the determinant. Both ends are widened by rounding errors: those of K move v'K v by about eps k v'v, and
those of V, which whitening enlarges, the log determinant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cavity.kernels.base import Kernel, take
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.inducing.kinds import KINDS
from cavity.latent.inducing.prior import InducingPrior
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes
from cavity.numerics.special import LOG_2PI
from cavity.numerics.tiles import lower_tiles
from cavity.runtime.deadlines import Deadline

ENOUGH = 0.05
"""What may be left of the quadratic form, as a share of what is left of the determinant."""

LEAST = 1e-3
"""Nats of the quadratic form that are always good enough."""

MOST_PRODUCTS = 200
"""Products with K for one target."""

ROUNDING = 4.0 * float(np.finfo(float).eps)
"""Relative error of an entry of K."""


@dataclass(frozen=True)
class EvidenceInterval:
    """Two ends between which the log evidence lies, for all targets together.

    Attributes
    ----------
    lower, upper : float
    rows : int
        Number of observations.
    products : int
        Products with the covariance matrix that it took.
    """

    lower: float
    upper: float
    rows: int
    products: int = 0

    @property
    def gap(self) -> float:
        """Width in nats for each observation."""
        return (self.upper - self.lower) / self.rows


def certify(
    prior: InducingPrior, residual: Array, variance: Array, max_time: float | None = None
) -> EvidenceInterval:
    """An interval for log N(residual | 0, K + diag(variance)), summed over the columns of the residual (n, T).

    When time is up the interval is wider, but it holds.
    """
    time, n, targets = Deadline(max_time), prior.n, residual.shape[1]
    low = InducingConditioning(prior, KINDS["dtc"], None, variance)
    d = prior.residual
    of_determinant = 0.5 * float(np.log1p(d / variance).sum())
    enough = max(LEAST, ENOUGH * of_determinant)
    times = partial(covariance_times, prior.kernel, prior.X)
    size = float(prior.own.max())
    of_V = float(np.sqrt(size / prior.smallest_pivot) * np.sum(prior.own / variance))
    lower = upper = 0.0
    products = 0
    own = -0.5 * (n * LOG_2PI + low.noisy_log_det)
    for y in residual.T:
        v, seen, left, used = _quadratic(low, times, variance, y, enough, time)
        rounding = ROUNDING * (abs(own) + abs(seen) + left + size * float(v @ v) + of_V)
        upper += own - seen + rounding
        lower += own - of_determinant - seen - left - rounding
        products += used
    return EvidenceInterval(lower, upper, n * targets, products)


def _quadratic(
    low: InducingConditioning,
    times: partial[Array],
    variance: Array,
    y: Array,
    enough: float,
    time: Deadline,
) -> tuple[Array, float, float, int]:
    """v, v'y - 1/2 v'A v, the most that 1/2 y'A^-1 y may exceed it, and the products with K."""
    v, r, used = np.zeros_like(y), y, 0
    z = low.apply(r)
    p, rz = z, float(r @ z)
    while 0.5 * rz > enough and used < MOST_PRODUCTS and not (time.left is not None and time.left <= 0.0):
        Ap = times(p) + variance * p
        used += 1
        step = rz / float(p @ Ap)
        v, r = v + step * p, r - step * Ap
        z = low.apply(r)
        before, rz = rz, float(r @ z)
        p = z + (rz / before) * p
    if used:  # the residual itself, of which conjugate gradients carry rounding errors along
        r = y - times(v) - variance * v
        rz = float(r @ low.apply(r))
    return v, 0.5 * float(v @ (y + r)), 0.5 * rz, used + (used > 0)


def covariance_times(kernel: Kernel, X: Array, u: Array) -> Array:
    """K u for u (n,), from tiles of the lower triangle."""
    rows, out = kernel._prepare(X, np.arange(len(X))), np.zeros(len(X))
    with compiled_passes(len(X) >= COMPILED_FROM):
        for i, j in lower_tiles(len(X)):
            tile = kernel._block(take(rows, i), take(rows, j))
            below = min(j.stop, i.start) - j.start  # columns left of the diagonal block
            out[i] += tile @ u[j]
            if below > 0:
                out[j.start : j.start + below] += tile[:, :below].T @ u[i]
    return out
