"""The collapsed bound of a sparse process whose inputs are uncertain (Titsias and Lawrence, 2010).

Inputs x_i ~ N(m_i, diag s_i), inducing inputs u, kernel c exp(-1/2 sum_q (x_q - x'_q)^2 / l_q^2). Expected kernels

    psi1_ij  = c   prod_q (1 + s/l^2)^-1/2  exp(-(m - u_j)^2 / 2 (l^2 + s))
    psi2_jk  = sum_i c^2 prod_q (1 + 2s/l^2)^-1/2 exp(-(u_j - u_k)^2 / 4 l^2 - (m - (u_j + u_k)/2)^2 / (l^2 + 2s))

take the place of K_xu and K_ux K_xu in the bound of Titsias (2009). All sums over coordinates are matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.special import LOG_2PI

NUGGET = 1e-10
"""Added to the diagonal of K_uu, in units of c."""

ROWS_AT_A_TIME = 64
"""Of psi2, which has m^2 numbers for each row."""


@dataclass(frozen=True)
class ArdSE:
    """c and the squared length scales (q,)."""

    variance: float
    squares: Array

    def __call__(self, x: Array, z: Array) -> Array:
        """The kernel itself."""
        root = np.sqrt(self.squares)
        return np.asarray(self.variance * np.exp(-0.5 * _distances(x / root, z / root)))


def _distances(x: Array, z: Array) -> Array:
    out = np.sum(x**2, axis=1)[:, None] - 2.0 * x @ z.T + np.sum(z**2, axis=1)
    return np.asarray(np.maximum(out, 0.0))


@dataclass
class Gradient:
    """Derivatives of a bound."""

    mean: Array
    spread: Array
    inducing: Array
    squares: Array
    variance: float
    precision: float


def psi1(k: ArdSE, m: Array, s: Array, u: Array) -> Array:
    """(n, m)."""
    a = k.squares + s
    scaled = 0.5 / a
    exponent = (m**2 * scaled).sum(axis=1)[:, None] - 2.0 * (m * scaled) @ u.T + scaled @ (u**2).T
    front = -0.5 * np.sum(np.log1p(s / k.squares), axis=1)
    return np.asarray(k.variance * np.exp(front[:, None] - np.maximum(exponent, 0.0)))


def pull_psi1(k: ArdSE, m: Array, s: Array, u: Array, W: Array, out: Gradient) -> None:
    """Add derivatives, from W = cotangent times psi1."""
    a = k.squares + s
    w0, w1, w2 = W.sum(axis=1)[:, None], W @ u, W @ u**2
    e1, e2 = m * w0 - w1, m**2 * w0 - 2.0 * m * w1 + w2  # sums of W (m - u) and W (m - u)^2
    out.mean -= e1 / a
    out.spread += 0.5 * (e2 / a**2 - w0 / a)
    out.inducing += W.T @ (m / a) - u * (W.T @ (1.0 / a))
    out.squares += 0.5 * np.sum(w0 * s / (k.squares * a) + e2 / a**2, axis=0)
    out.variance += float(W.sum()) / k.variance


def _pairs(k: ArdSE, u: Array) -> tuple[Array, Array]:
    """Middles of pairs (m^2, q), and the part of log psi2 that belongs to pairs alone."""
    middle = 0.5 * (u[:, None, :] + u).reshape(-1, u.shape[1])
    apart = (u[:, None, :] - u).reshape(-1, u.shape[1])
    return middle, -0.25 * np.sum(apart**2 / k.squares, axis=1)


def _psi2_rows(k: ArdSE, m: Array, s: Array, middle: Array, apart: Array) -> Array:
    b = k.squares + 2.0 * s
    exponent = (m**2 / b).sum(axis=1)[:, None] - 2.0 * (m / b) @ middle.T + (1.0 / b) @ (middle**2).T
    front = 2.0 * np.log(k.variance) - 0.5 * np.sum(np.log1p(2.0 * s / k.squares), axis=1)
    return np.asarray(np.exp(front[:, None] + apart - np.maximum(exponent, 0.0)))


def psi2(k: ArdSE, m: Array, s: Array, u: Array) -> Array:
    """(m, m), summed over rows."""
    middle, apart = _pairs(k, u)
    total = np.zeros(len(middle))
    for i in range(0, len(m), ROWS_AT_A_TIME):
        at = slice(i, i + ROWS_AT_A_TIME)
        total += _psi2_rows(k, m[at], s[at], middle, apart).sum(axis=0)
    return total.reshape(len(u), len(u))


def pull_psi2(k: ArdSE, m: Array, s: Array, u: Array, G: Array, out: Gradient) -> None:
    """Add derivatives, from the cotangent of psi2."""
    middle, apart = _pairs(k, u)
    count, q = u.shape
    d_middle, total = np.zeros((count * count, q)), np.zeros(count * count)
    for i in range(0, len(m), ROWS_AT_A_TIME):
        at = slice(i, i + ROWS_AT_A_TIME)
        mi, si = m[at], s[at]
        b = k.squares + 2.0 * si
        W = _psi2_rows(k, mi, si, middle, apart) * G.ravel()
        w0, w1, w2 = W.sum(axis=1)[:, None], W @ middle, W @ middle**2
        e1, e2 = mi * w0 - w1, mi**2 * w0 - 2.0 * mi * w1 + w2
        out.mean[at] -= 2.0 * e1 / b
        out.spread[at] += 2.0 * e2 / b**2 - w0 / b
        out.squares += np.sum(w0 * si / (k.squares * b) + e2 / b**2, axis=0)
        d_middle += 2.0 * (W.T @ (mi / b) - middle * (W.T @ (1.0 / b)))
        total += W.sum(axis=0)
    by_pair = d_middle.reshape(count, count, q)
    out.inducing += 0.5 * (by_pair.sum(axis=1) + by_pair.sum(axis=0))
    pulled = total.reshape(count, count)
    difference = u * pulled.sum(axis=1)[:, None] - pulled @ u + u * pulled.sum(axis=0)[:, None] - pulled.T @ u
    out.inducing -= 0.5 * difference / k.squares
    gaps = np.einsum("jk,jkq->q", pulled, (u[:, None, :] - u) ** 2)
    out.squares += 0.25 * gaps / k.squares**2
    out.variance += 2.0 * float(total.sum()) / k.variance


@dataclass(frozen=True)
class Bound:
    """Value and gradient of the bound of one group of columns, and what predictions need."""

    value: float
    weights: Array
    reduction: Array


def collapsed(k: ArdSE, m: Array, s: Array, u: Array, precision: float, Y: Array, out: Gradient) -> Bound:
    """The bound on log p(Y) for columns Y (n, D), without the divergence of the inputs; derivatives are added to `out`.

    F = nD/2 log(b / 2 pi) + D/2 log|K_uu| - D/2 log|C| - b/2 |Y|^2 + b^2/2 tr(Y' psi1 C^-1 psi1' Y)
        - bD/2 n c + bD/2 tr(K_uu^-1 psi2),   C = K_uu + b psi2.
    """
    (n, D), b = Y.shape, precision
    Kuu = k(u, u)
    noisy = Kuu + NUGGET * k.variance * np.eye(len(u))
    P1, P2 = psi1(k, m, s, u), psi2(k, m, s, u)
    prior, posterior = factorize(lambda: noisy.copy()), factorize(lambda: noisy + b * P2)
    right = P1.T @ Y
    Q = posterior.solve(right)
    inverse, C = _inverse(prior), _inverse(posterior)
    explained, trace = float(np.vdot(right, Q)), float(np.vdot(inverse, P2))
    value = 0.5 * n * D * (np.log(b) - LOG_2PI) + 0.5 * D * (prior.log_det - posterior.log_det)
    value += 0.5 * (b**2 * explained - b * float(np.vdot(Y, Y)) + b * D * (trace - n * k.variance))
    d_C = -0.5 * (D * C + b**2 * (Q @ Q.T))
    d_P2 = b * d_C + 0.5 * b * D * inverse
    d_K = d_C + 0.5 * D * inverse - 0.5 * b * D * inverse @ P2 @ inverse
    out.precision += 0.5 * n * D / b + b * explained - 0.5 * float(np.vdot(Y, Y))
    out.precision += 0.5 * D * (trace - n * k.variance) + float(np.vdot(d_C, P2))
    out.variance += -0.5 * b * D * n
    pull_psi1(k, m, s, u, b**2 * (Y @ Q.T) * P1, out)
    pull_psi2(k, m, s, u, d_P2, out)
    W = d_K * Kuu
    out.inducing -= (2.0 * (u * W.sum(axis=1)[:, None] - W @ u)) / k.squares
    out.squares += 0.5 * np.einsum("jk,jkq->q", W, (u[:, None, :] - u) ** 2) / k.squares**2
    out.variance += float(W.sum()) / k.variance + NUGGET * float(np.trace(d_K))
    return Bound(float(value), b * Q, inverse - C)


def _inverse(factor: Cholesky) -> Array:
    return np.asarray(factor.solve(np.eye(len(factor.lower))))


def divergence(m: Array, s: Array) -> float:
    """KL of N(m, diag s) from N(0, I), all rows."""
    return 0.5 * float(np.sum(s + m**2 - np.log(s) - 1.0))
