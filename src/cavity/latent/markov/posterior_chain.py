# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""The posterior given sites of either sign as a Gaussian Markov process of its own: joint draws and white coordinates.

Backwards in time, Z holds what the sites from the next time on say of the state there. With Q = L L' and
I + L'Z L = M M', the next state given the present one, and the sites, has

    x_{k+1} = (A - C Z A) x_k + G e,    G = L M^-T,   C = G G',   e ~ N(0, I),

and what is said of the present state is A'Z (A - C Z A), to which its own site is added. The posterior is proper if and
only if all these M exist. No pseudo-observations are drawn, so precisions may be negative.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.latent.base import ImproperPosteriorError
from cavity.latent.markov.filtered import CHUNK, Filtered, White
from cavity.latent.markov.passes import compiled, dot, forward, product, product_transposed
from cavity.latent.markov.times import Stretch
from cavity.latent.markov.transitions import initial_covariance
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER, NotPositiveDefiniteError

if TYPE_CHECKING:
    from cavity.latent.markov.prior import MarkovPrior

SINGULAR = 4.0 * float(np.finfo(float).eps)
"""Share of the variance below which what a value adds to those before it is rounding."""


@compiled
def _root(n, P, L):
    """L with L L' = P (n, n), columns of directions without variance zero."""
    for j in range(n):
        for i in range(j, n):
            total = P[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if i == j:
                pivot = np.sqrt(total) if total > 1e-15 * P[j, j] else 0.0
                L[j, j] = pivot
            else:
                L[i, j] = total / pivot if pivot > 0 else 0.0


@compiled
def _noise_root(L, Z, G):
    """G = L M^-T with M M' = I + L'Z L; False if there is none."""
    d = len(L)
    ZL, inner, M = np.empty((d, d)), np.empty((d, d)), np.zeros((d, d))
    product(Z, L, ZL)
    product_transposed(L, ZL, inner)
    for j in range(d):
        for i in range(j, d):
            total = 0.5 * (inner[i, j] + inner[j, i]) + (1.0 if i == j else 0.0)
            for k in range(j):
                total -= M[i, k] * M[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                M[j, j] = np.sqrt(total)
            else:
                M[i, j] = total / M[j, j]
    for i in range(d):  # G M' = L, row by row
        for j in range(d):
            total = L[i, j]
            for k in range(j):
                total -= G[i, k] * M[j, k]
            G[i, j] = total / M[j, j]
    return True


@compiled
def _posterior_steps(start, A, Q, which, tau, Z, moved, roots):
    """Fill the steps (n, d, d) that lead from each time on, and roots of their noise; the number that failed, or -1.

    Z (d, d) comes from the future and goes to the past.
    """
    d = len(Z)
    full, L, moves, said = np.zeros((d, d)), np.zeros((d, d)), np.empty((d, d)), np.empty((d, d))
    for k in range(len(which) - 1, -1, -1):
        u = which[k]
        if u < 0:
            for i in range(d):
                for j in range(d):
                    moved[k, i, j], roots[k, i, j] = 1.0 if i == j else 0.0, 0.0
        else:
            for b in range(len(start) - 1):
                lo, n = start[b], start[b + 1] - start[b]
                _root(n, Q[u, b], moves)
                for i in range(n):
                    for j in range(n):
                        full[lo + i, lo + j] = A[u, b, i, j]
                        L[lo + i, lo + j] = moves[i, j] if j <= i else 0.0
            if not _noise_root(L, Z, roots[k]):
                return k
            product(Z, full, said)
            product_transposed(roots[k], said, moves)
            product(roots[k], moves, moved[k])
            for i in range(d):
                for j in range(d):
                    moved[k, i, j] = full[i, j] - moved[k, i, j]
            product(Z, moved[k], said)
            product_transposed(full, said, moves)
            for i in range(d):
                for j in range(d):
                    Z[i, j] = 0.5 * (moves[i, j] + moves[j, i])
        for b in range(len(start) - 1):
            for e in range(len(start) - 1):
                Z[start[b], start[e]] += tau[k]
    return -1


@compiled
def _simulate(moved, roots, first, normal, out):
    """Draws (n, m) of the first entry of the state from normal numbers (n, m, d); `first` is a root of the start."""
    n, m = out.shape
    x, new = np.empty(len(first)), np.empty(len(first))
    for j in range(m):
        for i in range(len(x)):
            x[i] = dot(first[i], normal[0, j])
        for k in range(n):
            out[k, j] = x[0]
            if k + 1 < n:
                for i in range(len(x)):
                    new[i] = dot(moved[k, i], x) + dot(roots[k, i], normal[k + 1, j])
                x, new = new, x


class PosteriorChain:
    """The posterior of a prior and sites of these precisions (n,), in order of time; its mean is zero.

    States are such that the first entry is f.

    Raises
    ------
    ImproperPosteriorError
    """

    def __init__(self, prior: MarkovPrior, precision: Array) -> None:
        self.n, self.dim = prior.n, prior.dim
        self.by_time, self.unsorted, self.sorted = prior.by_time, prior.unsorted, prior.sorted
        self.start = np.array([0, prior.dim])
        d = prior.dim
        moved, roots = np.empty((self.n, d, d)), np.empty((self.n, d, d))
        which, Z = np.arange(self.n), np.zeros((d, d))
        for stretch in reversed(prior.stretches):
            A, Q = prior.transitions(stretch)
            at = stretch.steps
            failed = _posterior_steps(
                prior.start, A, Q, stretch.which, precision[at], Z, moved[at], roots[at]
            )
            if failed >= 0:
                raise ImproperPosteriorError(
                    "the posterior is improper: negative site precisions outweigh the prior",
                    int(prior.order[stretch.first + failed]),
                )
            which[at][stretch.which < 0] = -1
        P, L, first = initial_covariance(prior.system, prior.t[0]), np.zeros((d, d)), np.empty((d, d))
        _root(d, P, L)
        if not _noise_root(L, Z, first):
            raise ImproperPosteriorError(
                "the posterior is improper: negative site precisions outweigh the prior"
            )
        others = prior.start[1:-1]
        for matrices in (moved, roots, first[None]):  # f is the sum of the first entries of all blocks
            matrices[:, 0] += matrices[:, others].sum(axis=1)
        moved[:, :, others] -= moved[:, :, :1]
        self._moved, self._roots, self._first, self._others = moved, roots, first, others
        self.stretches = [Stretch(0, which, np.zeros(0), np.zeros(0))]

    def transitions(self, stretch: Stretch) -> tuple[Array, Array]:
        """A (n, 1, d, d), and a root of Q like it."""
        return self._moved[:, None], self._roots[:, None]

    @property
    def matrices(self) -> tuple[Array, Array, Array]:
        """A and a root of Q of the steps, (n, d, d) each, and a root (d, d) of the first covariance."""
        return self._moved, self._roots, self._first

    def picks(self, picks: Array) -> Array:
        """Functionals (G, d) of the states of the prior as functionals of these."""
        found = picks.copy()
        found[:, self._others] -= picks[:, :1]
        return found

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Joint draws (n, size), in the order of the rows."""
        out = np.empty((self.n, size))
        _simulate(self._moved, self._roots, self._first, rng.standard_normal((self.n, size, self.dim)), out)
        return self.unsorted(out, out)

    def white(self) -> White:
        """Coordinates in which it is white."""
        A, roots = self.transitions(self.stretches[0])
        Q = roots @ roots.transpose(0, 1, 3, 2)
        d, n, which = self.dim, self.n, self.stretches[0].which
        scale = float(np.mean(np.einsum("ij,ij->i", self._first[:1], self._first[:1])))
        for fraction in JITTER_LADDER:
            w, (s, c, q, g) = np.empty((n, d)), np.empty((4, n))
            kept = [np.empty((-(-n // CHUNK), d, d))]
            P = self._first @ self._first.T
            forward(
                self.start, A, Q, which, P, np.full(n, fraction * scale), True, False, w, s, c, q, g, kept[0]
            )
            if np.all(g > SINGULAR * scale):
                return White(self, Filtered(w, s, c, q, g, kept), fraction * scale)
        raise NotPositiveDefiniteError(
            "the posterior covariance is singular: are inputs repeated without noise?"
        )
