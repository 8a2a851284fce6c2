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

from cavity.kernels.products import covariance_times
from cavity.latent.base import Loss
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.inducing.kinds import KINDS
from cavity.latent.inducing.passes import Cross, ProjectIn
from cavity.latent.inducing.prior import InducingPrior
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.runtime.deadlines import Deadline

ENOUGH = 0.05
"""What may be left of the quadratic form, as a share of what is left of the determinant."""

LEAST = 1e-3
"""Nats of the quadratic form that are always good enough."""

MOST_PRODUCTS = 200
"""Products with K for one target."""

CERTIFIED_ROWS, SAMPLED_ROWS = 10_000, 500
"""Rows up to which `loss` takes a whole product with K, and rows of K that it takes of more."""

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
        v, seen, left, used = solve_quadratic(low, times, variance, y, enough, time)
        rounding = ROUNDING * (abs(own) + abs(seen) + left + size * float(v @ v) + of_V)
        upper += own - seen + rounding
        lower += own - of_determinant - seen - left - rounding
        products += used
    return EvidenceInterval(lower, upper, n * targets, products)


def loss(low: InducingConditioning, weights: Array | None, rng_seed: int = 0) -> Loss:
    """How far a bound on the evidence is from the exact evidence, from one product with K or a sample of it.

    With v = (Q + S)^-1 y, the bound is too low by at most

        1/2 sum_i log(1 + d_i / s_i) + 1/2 v'E v,

    because A^-1 >= (Q + S)^-1 - (Q + S)^-1 E (Q + S)^-1, and that of Titsias (2009) by as much more as it is lower.
    v'K v takes a row of K for every row of data; of many rows some are taken, and the gap is an estimate. Other kinds
    are no bounds: of these, and of sites, only the share of information that is lost is known.
    """
    prior, kind, tau = low.prior, low.kind, low.precision
    positive = np.maximum(tau, 0.0)
    carried = positive / (1.0 + positive * prior.residual)
    total = float(positive.sum())
    lost = 1.0 - float(carried.sum()) / total if np.isfinite(total) and total > 0 else 0.0
    if weights is None or low._variance is None or kind.share > 0 or kind.weight == 0:
        return Loss(np.nan, "none", lost)
    n, some = prior.n, np.arange(prior.n)
    if n > CERTIFIED_ROWS:
        some = np.sort(np.random.default_rng(rng_seed).choice(n, SAMPLED_ROWS, replace=False))
    X = prior.source.take(some)
    rows = Cross(prior.kernel, prior.kernel._prepare(X, some), X.shape[1], prior.compiled)
    v = weights.reshape(n, -1)
    Kv = prior.source.map_sum(ProjectIn(rows, len(some), v.shape[1]), v)[0][0]
    Ev = Kv - prior.white_rows(some) @ prior.project_in(v)
    quadratic = max(0.5 * float(np.sum(v[some] * Ev)) * n / len(some), 0.0)
    x = tau * prior.residual
    determinant = 0.5 * v.shape[1] * kind.excess(x)
    gap = (determinant + quadratic) / (n * v.shape[1])
    return Loss(gap, "certified" if len(some) == n else "sampled", lost)


def solve_quadratic(
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
