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

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.kernels.base import Rows
from cavity.latent.base import PriorGradient
from cavity.latent.inducing.blocks import (
    add_product,
    add_weighted_gram,
    row_products,
    times_inverse,
    times_inverse_transposed,
)
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.numerics.compiled import compiled_passes
from cavity.numerics.tiles import mirror_lower

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
        V_i'B^-1 V_i, which comes with it.
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
        self.explained = np.empty(prior.n)
        self.collapsed = self.omega is None and kind.share == 0 and kind.curve == 0 and self.c != 0
        self.well_conditioned = self._well_conditioned()

    def gradient(self) -> PriorGradient:
        """In kernel and inducing inputs."""
        given, prior = self.given, self.given.prior
        total = Accumulated(prior)
        with compiled_passes(prior.compiled):
            for rows, a, K in prior.tiles():
                G = self._collapsed(rows, K) if self.collapsed else self._general(rows, K)
                add_product(G, self.right[rows], self.P_left)
                add_product(G, self.left[rows], self.P_right)
                total.add(a, K, G, self.of_d[rows])
        if self.collapsed:
            L = np.tril(given.B.lower)
            self.inner -= self._joined * (L @ L.T)
            _add_to_diagonal(self.inner, self._joined)
        else:
            self.inner -= mirror_lower(self._outer)
        half = times_inverse_transposed(prior.root, -self.inner)
        return total.finish(times_inverse_transposed(prior.root, np.ascontiguousarray(half.T)))

    def _well_conditioned(self) -> bool:
        size = float(np.mean(np.diagonal(self.given.prior.K_uu)))
        lost = np.finfo(float).eps * size / self.given.prior.smallest_pivot
        return bool(lost * max(1.0, size * float(np.max(np.abs(self.given.S)))) < TOLERATED)

    # --- the transposed cotangent of K_uf in a block of rows ------------------------------------------------

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

    def _collapsed(self, rows: slice, K: Array) -> Array:
        """2 S K_fu L^-T (d_log_det B^-1 - t / S) L^-1."""
        prior, S = self.given.prior, self.given.S[rows, None]
        V = K if self.well_conditioned else self._whitened(rows, K)
        G = V @ self._matrix
        self.explained[rows] = (0.5 * row_products(G, V) + self._joined * prior.seen(rows)) / self.c
        G *= S
        return G if self.well_conditioned else times_inverse_transposed(prior.root, G)

    def _whitened(self, rows: slice, K: Array) -> Array:
        """V' of a block."""
        prior = self.given.prior
        kept = prior.kept(rows)
        return times_inverse(prior.root, K.copy()) if kept is None else kept

    @cached_property
    def _outer(self) -> Array:
        """V diag(t) V', summed up block by block, in the lower triangle."""
        return np.zeros_like(self.B_inverse)

    def _general(self, rows: slice, K: Array) -> Array:
        """2 (S (V'(d_log_det B^-1 - B^-1 C B^-1)) + omega V'B^-1 - t V') L^-1."""
        given, prior = self.given, self.given.prior
        S = given.S[rows]
        V = self._whitened(rows, K)
        G = V @ self.B_inverse
        self.explained[rows] = e = row_products(G, V)
        own = row_products(self.left[rows], self.right[rows]) + self.c * S * (1.0 - S * e)
        if self.omega is None or self.middle is None:
            G *= self.c * S[:, None]
        else:
            omega, between = self.omega[rows], V @ self.middle
            own += omega * (1.0 - 2.0 * S * e) + S**2 * row_products(between, V)
            G *= (self.c * S + omega)[:, None]
            between *= S[:, None]
            G -= between
        self.of_d[rows] += given.kind.share * own
        t = self.of_d[rows]
        if np.any(t):
            G -= V * t[:, None]
            add_weighted_gram(self._outer, V, t, prior.keeps)
        G *= 2.0
        return times_inverse_transposed(prior.root, G)


class Accumulated:
    """The gradient of sum(G * K_fu) + sum(G_uu * K_uu) + sum_i g_i k_ii, block by block."""

    def __init__(self, prior: InducingPrior) -> None:
        self.prior, self.Z = prior, prior.inducing_rows
        self.kernel = np.zeros(prior.kernel.flat.size)
        self.inputs = np.zeros(prior.Z.shape) if prior.representation.learn else None

    def add(self, a: Rows, K: Array, G: Array, g: Array) -> None:
        """A block: prepared rows, K_fu, its cotangent, and that of k_ii."""
        kernel = self.prior.kernel
        self.kernel += kernel._pull(a, self.Z, G, K) + kernel._pull_diag(a, g)
        if self.inputs is not None:
            self.inputs += kernel._pull_inputs(a, self.Z, G, K)[1]

    def finish(self, G_uu: Array) -> PriorGradient:
        """With a symmetric cotangent of K_uu, whose nugget follows its diagonal."""
        prior, kernel, Z = self.prior, self.prior.kernel, self.Z
        nugget = np.full(prior.m, prior.relative_nugget * float(np.trace(G_uu)) / prior.m)
        self.kernel += kernel._pull(Z, Z, G_uu, prior.K_uu) + kernel._pull_diag(Z, nugget)
        if self.inputs is None:
            return PriorGradient(self.kernel)
        self.inputs += sum(kernel._pull_inputs(Z, Z, G_uu, prior.K_uu))
        self.inputs += kernel._pull_diag_inputs(Z, nugget)
        return PriorGradient(self.kernel, self.inputs.ravel())


def _add_to_diagonal(A: Array, value: float) -> None:
    A.reshape(-1)[:: len(A) + 1] += value
