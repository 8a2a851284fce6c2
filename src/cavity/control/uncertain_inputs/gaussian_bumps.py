"""Expectations of weighted sums of Gaussian bumps under x ~ N(mu, S), with derivatives in mu and S.

A posterior mean with squared exponential kernels is a sum of groups of bumps

    b_i(x) = s exp(-(x - c_i)' Lam (x - c_i) / 2),      i = 1..n,

one group for each term of the kernel. This module has the two integrals everything else is made of (Girard 2004;
Deisenroth 2010; Kuss 2006, section 7.3). With nu_i = c_i - mu, D inputs:

single      P = Lam (I + S Lam)^-1,  u_i = P nu_i,  l_i = s |I + S Lam|^-1/2 exp(-nu_i'u_i / 2) = E b_i,
            m = sum_i w_i l_i,   q = sum_i w_i l_i u_i = E[gradient],   Cov(x, w'b) = S q.

pair        of groups g and h: L = Lam_g + Lam_h, R = I + S L, T = R^-1 S, y_i = Lam nu_i,
            Q_ij = s_g s_h |R|^-1/2 exp(-nu_i'y_i/2 - nu_j'y_j/2 + (y_i + y_j)'T(y_i + y_j)/2) = E b_i b_j,
            v = sum_ij W_ij Q_ij.

The exponent is one matrix product of augmented rows. With G = W * Q, its total t, row sums r and column sums c,

    dv/dmu = R^-T (Lam_g sum_i r_i nu_i + Lam_h sum_j c_j nu_j),
    dv/dS  = R^-T H R^-1 - t sym(L R^-1) / 2,
    H = [Lam_g (sum r_i nu_i nu_i') Lam_g + Lam_h (sum c_j nu_j nu_j') Lam_h + F + F'] / 2,  F = Lam_g N'G N Lam_h,

so that products of G with n x (D + 1) matrices are all that is needed, G is used once and thrown away, and
nothing is divided by S: singular covariances (an action without variance) are ordinary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cavity.numerics.arrays import Array
from cavity.numerics.exponential import exp_in_place

STRIPS = 4
"""A symmetric pair is evaluated in this many strips of rows, each up to its diagonal: 5/8 of the work."""


class Group(NamedTuple):
    """Bumps of one shape: centers (n, D), metric Lam (D, D), height s."""

    centers: Array
    metric: Array
    height: float


@dataclass(frozen=True)
class Pair:
    """One weighted sum over pairs of bumps, v = sum_ij W_ij Q_ij.

    Attributes
    ----------
    first, second : int
        Groups.
    left, right : arrays (n,), (n',) or None
        Weights of rank one, W = left right'.
    matrix : array (n, n') or None
        Any other W; for a symmetric pair it is stored in strips (see `folded`).
    """

    first: int
    second: int
    left: Array | None = None
    right: Array | None = None
    matrix: Array | None = None

    @property
    def symmetric(self) -> bool:
        """Whether the two groups are the same and W is symmetric, so that one triangle is enough."""
        return self.matrix is not None and self.first == self.second


def strips(n: int) -> list[slice]:
    """Rows of a symmetric pair that are evaluated together."""
    edges = np.linspace(0, n, min(STRIPS, n) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(edges)]


def folded(W: Array) -> Array:
    """The lower block triangle with what lies above it added: the same sum over symmetric pairs."""
    out = np.zeros_like(W)
    for rows in strips(len(W)):
        out[rows, : rows.start] = 2.0 * W[rows, : rows.start]
        out[rows, rows] = W[rows, rows]
    return out


@dataclass(frozen=True)
class Singles:
    """Means m (K,) and gains q (K, D) of K weighted sums, and what their derivatives need."""

    mean: Array
    gain: Array
    inner: Array
    weighted: list[Array]
    reduced: list[Array]


@dataclass(frozen=True)
class PairSums:
    """Values v (P,) and their derivatives in mu (P, D) and S (P, D, D), the latter symmetric."""

    value: Array
    d_mean: Array
    d_cov: Array


class Bumps:
    """Groups of bumps with a fixed list of weighted sums and pair sums.

    Parameters
    ----------
    groups : sequence of Group
    weights : sequence of arrays (n_g, K_g)
        For each group, the weights of K_g sums of its bumps.
    pairs : sequence of Pair
    """

    def __init__(self, groups: Sequence[Group], weights: Sequence[Array], pairs: Sequence[Pair]) -> None:
        self.groups, self.weights, self.pairs = list(groups), list(weights), list(pairs)
        D = self.groups[0].centers.shape[1]
        self.D = D
        self.eye = np.eye(D)
        self.metrics = np.stack([g.metric for g in self.groups])
        self.log_heights = np.log([g.height for g in self.groups])
        self.starts = np.concatenate([[0], np.cumsum([w.shape[1] for w in self.weights])])
        self.first = np.array([p.first for p in self.pairs], dtype=int)
        self.second = np.array([p.second for p in self.pairs], dtype=int)
        self.pair_metrics = self.metrics[self.first] + self.metrics[self.second]
        self._buffer = np.empty(max((self._size(p) for p in self.pairs), default=0))

    def _size(self, pair: Pair) -> int:
        return len(self.groups[pair.first].centers) * len(self.groups[pair.second].centers)

    def offsets(self, mu: Array) -> list[Array]:
        """nu_i = c_i - mu of each group, (n, D); groups with the same centers share the array."""
        made: dict[int, Array] = {}
        for g in self.groups:
            if id(g.centers) not in made:
                made[id(g.centers)] = g.centers - mu
        return [made[id(g.centers)] for g in self.groups]

    # --- single sums ----------------------------------------------------------------------------------------

    def singles(self, S: Array, offsets: list[Array]) -> Singles:
        """E[w'b] and E[gradient of w'b] for every column of weights."""
        R = self.eye + S @ self.metrics
        inner = self.metrics @ np.linalg.inv(R)
        inner = 0.5 * (inner + np.swapaxes(inner, 1, 2))
        log_scale = self.log_heights - 0.5 * np.linalg.slogdet(R)[1]
        means, gains, weighted, reduced = [], [], [], []
        for k, (nu, W) in enumerate(zip(offsets, self.weights)):
            u = nu @ inner[k]
            expected = np.exp(log_scale[k] - 0.5 * np.einsum("ij,ij->i", nu, u))
            wl = W * expected[:, None]
            means.append(wl.sum(axis=0))
            gains.append(wl.T @ u)
            weighted.append(wl)
            reduced.append(u)
        return Singles(np.concatenate(means), np.concatenate(gains), inner, weighted, reduced)

    def pull_singles(self, s: Singles, d_mean: Array, d_gain: Array) -> tuple[Array, Array]:
        """Adjoints of means (K,) and gains (K, D) pulled back to mu (D,) and S (D, D)."""
        d_mu, d_S = np.zeros(self.D), np.zeros((self.D, self.D))
        for k, (wl, u) in enumerate(zip(s.weighted, s.reduced)):
            own = slice(self.starts[k], self.starts[k + 1])
            mb, qb, m, q = d_mean[own], d_gain[own], s.mean[own], s.gain[own]
            # c_i = sum_k w_ik l_i (mb_k + u_i'qb_k)
            c = wl @ mb + np.einsum("ij,ij->i", u, wl @ qb)
            w = qb @ s.inner[k]
            d_mu += c @ u - m @ w
            wq = w.T @ q
            d_S += 0.5 * ((u * c[:, None]).T @ u - c.sum() * s.inner[k]) - 0.5 * (wq + wq.T)
        return d_mu, d_S

    # --- pairs ----------------------------------------------------------------------------------------------

    def pair_sums(self, S: Array, offsets: list[Array]) -> PairSums:
        """All v with their derivatives: one exponential of an n x n matrix for each pair."""
        R = self.eye + S @ self.pair_metrics
        inverse = np.linalg.inv(R)
        T = inverse @ S
        log_scale = (
            self.log_heights[self.first] + self.log_heights[self.second] - 0.5 * np.linalg.slogdet(R)[1]
        )
        y = [nu @ metric for nu, metric in zip(offsets, self.metrics)]
        own = [np.einsum("ij,ij->i", nu, yi) for nu, yi in zip(offsets, y)]
        ones = {id(nu): np.column_stack([np.ones(len(nu)), nu]) for nu in offsets}
        count, D = len(self.pairs), self.D
        value, zs, H = np.empty(count), np.empty((count, D)), np.empty((count, D, D))
        for p, pair in enumerate(self.pairs):
            g, h = pair.first, pair.second
            left = _rows(y[g], own[g], T[p], log_scale[p], True)
            right = _rows(y[h], own[h], T[p], 0.0, False)
            Ng, Nh = offsets[g], offsets[h]
            r, c, GN = self._reduce(pair, left, right, ones[id(Ng)], ones[id(Nh)])
            Lg, Lh = self.metrics[g], self.metrics[h]
            value[p] = r.sum()
            zs[p] = Lg @ (r @ Ng) + Lh @ (c @ Nh)
            F = Lg @ (Ng.T @ GN) @ Lh
            A = y[g].T @ (r[:, None] * y[g]) + y[h].T @ (c[:, None] * y[h]) + F + F.T
            H[p] = 0.5 * A
        inverse_t = np.swapaxes(inverse, 1, 2)
        LR = self.pair_metrics @ inverse
        LR = 0.5 * (LR + np.swapaxes(LR, 1, 2))
        d_mean = (inverse_t @ zs[:, :, None])[:, :, 0]
        d_cov = inverse_t @ H @ inverse - 0.5 * value[:, None, None] * LR
        return PairSums(value, d_mean, d_cov)

    def _reduce(
        self, pair: Pair, left: Array, right: Array, ones_g: Array, ones_h: Array
    ) -> tuple[Array, Array, Array]:
        """Row sums (n,), column sums (n',) of G and G N (n, D)."""
        n, m = len(left), len(right)
        if pair.left is not None and pair.right is not None:
            Q = np.matmul(left, right.T, out=self._buffer[: n * m].reshape(n, m))
            exp_in_place(Q)
            summed = Q @ (pair.right[:, None] * ones_h)
            summed *= pair.left[:, None]
            c = pair.right * (pair.left @ Q)
            return summed[:, 0], c, summed[:, 1:]
        assert pair.matrix is not None
        if not pair.symmetric:
            Q = np.matmul(left, right.T, out=self._buffer[: n * m].reshape(n, m))
            exp_in_place(Q)
            Q *= pair.matrix
            summed = Q @ ones_h
            return summed[:, 0], Q.sum(axis=0), summed[:, 1:]
        summed, c = np.empty((n, self.D + 1)), np.zeros(n)
        for rows in strips(n):
            k, end = rows.stop - rows.start, rows.stop
            Q = np.matmul(left[rows], right[:end].T, out=self._buffer[: k * end].reshape(k, end))
            exp_in_place(Q)
            Q *= pair.matrix[rows, :end]
            np.matmul(Q, ones_h[:end], out=summed[rows])
            c[:end] += Q.sum(axis=0)
        return summed[:, 0], c, summed[:, 1:]


def _rows(y: Array, own: Array, T: Array, shift: float, is_left: bool) -> Array:
    """Augmented rows [y T, e, 1] (left) or [y, 1, e] (right): their product is the exponent."""
    n, D = y.shape
    yT = y @ T
    e = 0.5 * (np.einsum("ij,ij->i", yT, y) - own) + shift
    out = np.empty((n, D + 2))
    out[:, :D], out[:, D], out[:, D + 1] = (yT, e, 1.0) if is_left else (y, 1.0, e)
    return out
