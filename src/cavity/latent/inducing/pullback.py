"""Cotangents of what sites on inducing inputs make, pulled back to kernel and inducing inputs by passes over the rows.

For a cotangent G of K = V'V + share D, and h of d, with t = share diag(G) + h and N = G - diag(t),

    d / dK_uf = 2 L^-T V N,    d / dK_uu = -L^-T V N V' L^-1,    d / dk_ii = t_i.

Since V R = B^-1 V S and V (I - R K) = B^-1 V / one, no product with an n x n matrix is left. For the G of
`Conditioning.pull_prior`, symmetrized, with omega = d_var / one^2 - S^2 d_unexplained and C = V omega V':

    V G    = V left right' + B^-1 (d_log_det V S + V omega - C B^-1 V S)
    V G V' = V left (V right)' + d_log_det (I - B^-1) + B^-1 C B^-1
    G_ii   = left_i right_i + d_log_det R_ii + omega_i (1 - 2 S_i e_i) + S_i^2 V_i' B^-1 C B^-1 V_i

with e_i = V_i'B^-1 V_i. In blocks of rows, transposed: a tile of K_fu is whitened, multiplied by m x m matrices and
handed to the kernel with its cotangent. Of collapsed bounds N is left right' and a multiple of R - S, so that one
product with B^-1 - I does, and if K_uu is well conditioned one product of K_fu with L^-T (B^-1 - I) L^-1 without any
triangle.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.latent.base import PriorGradient
from cavity.latent.inducing.blocks import (
    add_product,
    add_weighted_gram,
    row_products,
    times_inverse,
    times_inverse_transposed,
)
from cavity.latent.inducing.passes import White
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.numerics.compiled import compiled_passes
from cavity.numerics.tiles import mirror_lower
from cavity.rows.base import Arrays, Pass

if TYPE_CHECKING:
    from cavity.latent.inducing.conditioning import InducingConditioning
    from cavity.latent.inducing.prior import InducingPrior


TOLERATED = 1e-7
"""Relative error of a cotangent up to which one product does for two."""


class Pullback:
    """One gradient; the arguments are those of `Conditioning.pull_prior`.

    Attributes
    ----------
    explained : array (n,)
        V_i'B^-1 V_i, which comes with the gradient.
    collapsed : bool
        Whether t is a multiple of S, as of collapsed bounds.
    well_conditioned : bool
        Whether products with K_uu^-1 lose few enough digits; of sites of high precision they must lose fewer.
    """

    def __init__(
        self,
        given: InducingConditioning,
        left: Array,
        right: Array,
        d_log_det: float,
        d_var: Array | None,
        d_unexplained: Array | None,
    ) -> None:
        self.given, self.left, self.right, self.c = given, left, right, d_log_det
        prior, kind = given.prior, given.kind
        F = prior.project_in(np.hstack([left, right]))
        F_left, F_right = F[:, : left.shape[1]], F[:, left.shape[1] :]
        self.P_left, self.P_right = prior.root @ F_left, prior.root @ F_right
        self.B_inverse = mirror_lower(Cholesky(given.B.lower.copy()).into_inverse())
        self.inner = 0.5 * (F_left @ F_right.T + F_right @ F_left.T) - self.c * self.B_inverse
        _add_to_diagonal(self.inner, self.c)
        # cotangents of d through the kind's excess and spread
        x, slope = given.precision * prior.residual, np.zeros(prior.n)
        self.omega: Array | None = None
        self.middle: Array | None = None
        if d_var is not None or d_unexplained is not None:
            slope = np.zeros(prior.n) if d_var is None else d_var.copy()
            self.omega = slope * given.share_left**2
            if d_unexplained is not None:
                self.omega -= d_unexplained * given.S**2
                slope -= d_unexplained * given.precision**2
            self.middle = given.between(given.gram(self.omega))
            self.inner += self.middle
        self.of_d = slope * kind.spread_slope(x) + self.c * given.precision * kind.excess_slope(x)
        self.collapsed = self.omega is None and kind.share == 0 and kind.curve == 0 and self.c != 0
        self.well_conditioned = self._well_conditioned()

    def gradient(self) -> PriorGradient:
        """In kernel and inducing inputs."""
        given, prior = self.given, self.given.prior
        vectors = [given.S, self.of_d, self.left, self.right]
        if self.collapsed:
            task: CotangentPass = CollapsedPass(
                *self._shared, self.c, self._joined, self._matrix, self.well_conditioned
            )
            vectors.append(prior.own - prior.residual)
        else:
            task = GeneralPass(*self._shared, self.c, given.kind.share, self.B_inverse, self.middle)
            vectors += [] if self.omega is None else [self.omega]
        whitened = () if (self.collapsed and self.well_conditioned) or prior.kept is None else (prior.kept,)
        sums, (self.explained, self.of_d) = prior.source.map_sum(task, *vectors, *whitened)
        if self.collapsed:
            L = np.tril(given.B.lower)
            self.inner -= self._joined * (L @ L.T)
            _add_to_diagonal(self.inner, self._joined)
        else:
            self.inner -= mirror_lower(sums[2])
        half = times_inverse_transposed(prior.root, -self.inner)
        G_uu = times_inverse_transposed(prior.root, np.ascontiguousarray(half.T))
        return of_inducing_inputs(prior, sums[0], sums[1], G_uu)

    @property
    def _shared(self) -> tuple[White, bool, Array, Array]:
        prior = self.given.prior
        return prior.tiles, prior.representation.learn, self.P_left, self.P_right

    def _well_conditioned(self) -> bool:
        size = float(np.mean(np.diagonal(self.given.prior.K_uu)))
        lost = np.finfo(float).eps * size / self.given.prior.smallest_pivot
        return bool(lost * max(1.0, size * float(np.max(np.abs(self.given.S)))) < TOLERATED)

    @property
    def _joined(self) -> float:
        """t / S if f is a function of u but for a collapsed bound."""
        return self.c * self.given.kind.weight

    @cached_property
    def _matrix(self) -> Array:
        """2 (d_log_det B^-1 - t / S), between L^-T and L^-1 if these are well conditioned."""
        A = 2.0 * self.c * self.B_inverse
        _add_to_diagonal(A, -2.0 * self._joined)
        if not self.well_conditioned:
            return A
        half = times_inverse_transposed(self.given.prior.root, A)
        return times_inverse_transposed(self.given.prior.root, np.ascontiguousarray(half.T))


def of_inducing_inputs(
    prior: InducingPrior, of_kernel: Array, of_inputs: Array, G_uu: Array
) -> PriorGradient:
    """What the rows add to the gradient, and a symmetric cotangent of K_uu, whose nugget follows its diagonal."""
    kernel, Z = prior.kernel, prior.inducing_rows
    nugget = np.full(prior.m, prior.relative_nugget * float(np.trace(G_uu)) / prior.m)
    with compiled_passes(prior.compiled):
        of_kernel = of_kernel + kernel._pull(Z, Z, G_uu, prior.K_uu) + kernel._pull_diag(Z, nugget)
        if not prior.representation.learn:
            return PriorGradient(of_kernel)
        of_inputs = of_inputs + sum(kernel._pull_inputs(Z, Z, G_uu, prior.K_uu))
        of_inputs += kernel._pull_diag_inputs(Z, nugget)
    return PriorGradient(of_kernel, of_inputs.ravel())


# --- the transposed cotangent of K_uf, in blocks of rows ----------------------------------------------------


@dataclass(frozen=True)
class CotangentPass(Pass):
    """The gradient of sum(G * K_fu) + sum_i t_i k_ii in kernel and inducing inputs, and V diag(t) V' if it is needed.

    Given of each row: S, t, left, right, what a subclass takes, and V' if it is kept. Found of each: e and t.
    """

    tiles: White
    learn: bool
    P_left: Array
    P_right: Array

    def start(self) -> Arrays:
        """Of the kernel, of the inducing inputs (empty if they are not learned), and V diag(t) V'."""
        m = len(self.tiles.root)
        width = self.tiles.inducing_width if self.learn else 0
        outer = (m, m) if isinstance(self, GeneralPass) else (0, 0)
        return np.zeros(self.tiles.kernel.flat.size), np.zeros((m, width)), np.zeros(outer)

    def add(self, sums: Arrays, X: Array, rows: slice, *given: Array) -> Arrays:
        """A block."""
        S, t, left, right = given[:4]
        tiles, kernel = self.tiles, self.tiles.kernel
        a, K = tiles.tile(X, rows)
        G, e, t = self.cotangent(K, S, t, left, right, given[4:], sums[2])
        add_product(G, right, self.P_left)
        add_product(G, left, self.P_right)
        with compiled_passes(tiles.compiled):
            sums[0][...] += kernel._pull(a, tiles.inducing, G, K) + kernel._pull_diag(a, t)
            if self.learn:
                sums[1][...] += kernel._pull_inputs(a, tiles.inducing, G, K)[1]
        return e, t

    @abstractmethod
    def cotangent(
        self, K: Array, S: Array, t: Array, left: Array, right: Array, more: Arrays, outer: Array
    ) -> tuple[Array, Array, Array]:
        """G without what left and right add, e and t of a block."""

    def whitened(self, K: Array, more: Arrays) -> tuple[Array, bool]:
        """V' of a block, and whether it must be kept."""
        return (more[-1], True) if more else (times_inverse(self.tiles.root, K.copy()), False)


@dataclass(frozen=True)
class CollapsedPass(CotangentPass):
    """2 S K_fu L^-T (d_log_det B^-1 - t / S) L^-1. Also given: q."""

    c: float
    joined: float
    matrix: Array
    well_conditioned: bool

    def cotangent(
        self, K: Array, S: Array, t: Array, left: Array, right: Array, more: Arrays, outer: Array
    ) -> tuple[Array, Array, Array]:
        """One product."""
        V = K if self.well_conditioned else self.whitened(K, more[1:])[0]
        G = V @ self.matrix
        e = (0.5 * row_products(G, V) + self.joined * more[0]) / self.c
        G *= S[:, None]
        return (G if self.well_conditioned else times_inverse_transposed(self.tiles.root, G)), e, t


@dataclass(frozen=True)
class GeneralPass(CotangentPass):
    """2 (S (V'(d_log_det B^-1 - B^-1 C B^-1)) + omega V'B^-1 - t V') L^-1. Also given: omega, if there is a C."""

    c: float
    share: float
    B_inverse: Array
    middle: Array | None

    def cotangent(
        self, K: Array, S: Array, t: Array, left: Array, right: Array, more: Arrays, outer: Array
    ) -> tuple[Array, Array, Array]:
        """One product with B^-1, and one with B^-1 C B^-1."""
        V, keep = self.whitened(K, more if self.middle is None else more[1:])
        G = V @ self.B_inverse
        e = row_products(G, V)
        own = row_products(left, right) + self.c * S * (1.0 - S * e)
        if self.middle is None:
            G *= self.c * S[:, None]
        else:
            omega, between = more[0], V @ self.middle
            own += omega * (1.0 - 2.0 * S * e) + S**2 * row_products(between, V)
            G *= (self.c * S + omega)[:, None]
            between *= S[:, None]
            G -= between
        t = t + self.share * own
        if np.any(t):
            G -= V * t[:, None]
            add_weighted_gram(outer, V, t, keep)
        G *= 2.0
        return times_inverse_transposed(self.tiles.root, G), e, t


def _add_to_diagonal(A: Array, value: float) -> None:
    A.reshape(-1)[:: len(A) + 1] += value
