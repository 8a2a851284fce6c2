"""A Gaussian process at n training inputs, held at m inducing inputs.

Rows are visited in blocks: a tile of K_fu is evaluated, whitened to V' = K_fu L^-T and thrown away, which costs less
than to read it from memory. The whitened tiles are kept for rules that ask again and again for other sites, up to
`KEPT_DOUBLES`; beyond, memory does not grow with n except for vectors.

Notation: L Cholesky factor of K_uu, V = L^-1 K_uf, d = diag(K_ff) - diag(V'V).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cavity.kernels.base import Kernel, Rows, row_blocks
from cavity.latent.base import (
    Capability,
    CapabilityError,
    Conditioning,
    ImproperPosteriorError,
    Inputs,
    LatentPrior,
)
from cavity.latent.inducing.blocks import (
    BLOCK,
    inverse_transposed,
    row_products,
    times_inverse,
)
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError, factorize
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes

if TYPE_CHECKING:
    from cavity.latent.inducing.representation import Inducing
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.means.functions import Mean

NUGGET = 1e-12
"""What is always added to the diagonal of K_uu, relative to its mean: about the error of its entries, and always the
same, so that evidences compare. No d_i is below about this share of k_ii."""

KEPT_DOUBLES = 2**25
"""Entries of V that are kept between conditionings (256 MB)."""

SMALLEST_NOISE = 1e-12
"""Least variance of an observation given u, as a share of the prior variance."""


class InducingPrior(LatentPrior):
    """f ~ N(m, V'V + share D) at n training inputs.

    Parameters
    ----------
    representation : Inducing
    Z : array (m, D)
        The inducing inputs.
    kernel, inputs, mean_function
    """

    cheap_squares = False

    def __init__(
        self, representation: Inducing, Z: Array, kernel: Kernel, inputs: Inputs, mean_function: Mean | None
    ) -> None:
        super().__init__(kernel, inputs, mean_function)
        kernel._check_width(self.X.shape[1])
        self.representation: Inducing = representation
        self.Z, self.m, self.kind = Z, len(Z), representation.site_kind
        self.inducing_rows = kernel._prepare(Z, np.full(self.m, -1))
        with compiled_passes(self.compiled):
            self.K_uu = kernel._block(self.inducing_rows, self.inducing_rows)
        self.relative_nugget = NUGGET
        nugget = NUGGET * float(np.mean(np.diagonal(self.K_uu)))

        def build() -> Array:
            K = self.K_uu.copy()
            K.reshape(-1)[:: self.m + 1] += nugget
            return K

        factor = factorize(build, lambda: "Likely reason: inducing inputs that repeat each other.")
        self.jitter = factor.jitter
        self.root = inverse_transposed(factor)
        """L^-T, upper triangular."""
        self.smallest_pivot = 1.0 / float(np.max(row_products(self.root, self.root)))
        """The least variance of an inducing value given the others."""
        self._token = object()
        self._known = np.zeros(self.n, dtype=bool)
        self._residual = np.empty(self.n)

    @property
    def compiled(self) -> bool:
        """Whether kernels use compiled passes."""
        return self.n >= COMPILED_FROM

    # --- blocks of rows -------------------------------------------------------------------------------------

    def blocks(self) -> list[slice]:
        """Rows that are visited at a time."""
        return row_blocks(self.n, BLOCK)

    def prepared(self, rows: slice) -> Rows:
        """Prepared training inputs of a block."""
        return self.kernel._prepare(self.X[rows], np.arange(rows.start, rows.stop))

    def tiles(self) -> Iterator[tuple[slice, Rows, Array]]:
        """(rows, prepared rows, K_fu of these rows), a fresh C-ordered array each."""
        for rows in self.blocks():
            a = self.prepared(rows)
            with compiled_passes(self.compiled):
                K = self.kernel._block(a, self.inducing_rows)
            yield rows, a, K

    def white_tiles(self) -> Iterator[tuple[slice, Array]]:
        """(rows, V' of these rows); the array may be overwritten unless `keeps`."""
        scratch = self.inputs.scratch
        if scratch.owner is self._token:
            for rows in self.blocks():
                yield rows, scratch.get("V", (self.n, self.m))[rows]
            return
        kept = scratch.get("V", (self.n, self.m)) if self.keeps else None
        scratch.owner = None  # until all of it is written
        for rows, a, K in self.tiles():
            V = times_inverse(self.root, K)
            self._note(rows, a, V)
            if kept is not None:
                kept[rows] = V
                V = kept[rows]
            yield rows, V
        if kept is not None:
            scratch.owner = self._token

    def kept(self, rows: slice) -> Array | None:
        """V' of a block, if it is kept."""
        scratch = self.inputs.scratch
        return scratch.get("V", (self.n, self.m))[rows] if scratch.owner is self._token else None

    @property
    def keeps(self) -> bool:
        """Whether V is kept."""
        return self.n * self.m <= KEPT_DOUBLES

    def _note(self, rows: slice, a: Rows, V: Array) -> None:
        """d of a block, not less than the rounding error of what it is a difference of."""
        if not self._known[rows.start]:
            own = self.kernel._diag(a)
            self._residual[rows] = np.maximum(own - row_products(V, V), np.finfo(float).eps * own)
            self._known[rows] = True

    def seen(self, rows: slice) -> Array:
        """q of a block, whose d is known."""
        return self.own[rows] - self._residual[rows]

    def residual_of(self, rows: slice) -> Array:
        """d of a block that `white_tiles` has just visited."""
        return self._residual[rows]

    @property
    def residual(self) -> Array:
        """d, shape (n,)."""
        if not self._known.all():
            for _ in self.white_tiles():
                pass
        return self._residual

    def project_in(self, U: Array) -> Array:
        """V U, shape (m, k), for U (n, k)."""
        out = np.zeros((self.m, U.shape[1]))
        if self.inputs.scratch.owner is self._token:
            for rows, V in self.white_tiles():
                out += V.T @ U[rows]
            return out
        for rows, _, K in self.tiles():
            out += K.T @ U[rows]
        return self.root.T @ out

    def project_out(self, W: Array) -> Array:
        """V' W, shape (n, k), for W (m, k)."""
        out = np.empty((self.n, W.shape[1]))
        if self.inputs.scratch.owner is self._token:
            for rows, V in self.white_tiles():
                out[rows] = V @ W
            return out
        W = self.root @ W
        for rows, _, K in self.tiles():
            out[rows] = K @ W
        return out

    # --- the protocol ---------------------------------------------------------------------------------------

    @cached_property
    def own(self) -> Array:
        """k_ii."""
        return np.concatenate([self.kernel._diag(self.prepared(rows)) for rows in self.blocks()])

    @cached_property
    def diagonal(self) -> Array:
        """Prior variances: those of the kernel, or of Q if f is a function of u."""
        return self.own - (1.0 - self.kind.share - self.kind.weight) * self.residual

    def condition(self, precision: Array, *, transient: bool = False) -> Conditioning:
        """Given sites of these precisions, of any sign, shape (n,)."""
        if not np.isfinite(precision).all():
            raise ImproperPosteriorError("sites have precisions that are not finite")
        return InducingConditioning(self, self.kind, precision, None, transient)

    def observe(self, variance: Array, *, transient: bool = False) -> Conditioning:
        """Given observations with these noise variances, shape (n,)."""
        kind = self.representation.observation_kind
        if np.min(variance) <= 0.0:
            given_u = variance + kind.share * (self.residual if kind.share > 0 else 0.0)
            if np.any(given_u <= SMALLEST_NOISE * self.own):
                raise NotPositiveDefiniteError(
                    f"{self.m} inducing inputs cannot represent observations without noise (row "
                    f"{int(np.argmin(given_u))}): give the noise a variance, or use representation='dense'"
                )
            if kind.weight > 0:
                raise NotPositiveDefiniteError(
                    "observations without noise have no lower bound by inducing inputs: give the noise a variance"
                )
        return InducingConditioning(self, kind, None, variance, transient)

    def times(self, U: Array) -> Array:
        """(V'V + share D) U."""
        flat = U.reshape(self.n, -1)
        out = self.project_out(self.project_in(flat))
        if self.kind.share > 0:
            out += self.kind.share * self.residual[:, None] * flat
        return out.reshape(U.shape)

    @property
    def white_dim(self) -> int:
        """m for u, and n for what the prior has beyond it."""
        return self.m + (self.n if self.kind.share > 0 else 0)

    def unwhiten(self, U: Array) -> Array:
        """m + W U, W = [V', sqrt(share D)]."""
        flat = U.reshape(self.white_dim, -1)
        out = self.project_out(flat[: self.m])
        if self.kind.share > 0:
            out += np.sqrt(self.kind.share * self.residual)[:, None] * flat[self.m :]
        out += self.mean[:, None]
        return out.reshape(self.n, *U.shape[1:])

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        flat = G.reshape(self.n, -1)
        out = self.project_in(flat)
        if self.kind.share > 0:
            out = np.vstack([out, np.sqrt(self.kind.share * self.residual)[:, None] * flat])
        return out.reshape(self.white_dim, *G.shape[1:])

    def whiten(self, F: Array) -> Array:
        """Refused: there are more coordinates than values, or too few."""
        raise CapabilityError(self.representation.name, Capability.WHITENING)

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K_uu beyond the nugget."""
        return self.jitter

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> PosteriorProcess:
        """The posterior process anywhere: its mean is m + k(., Z) K_uu^-1 K_uf weights."""
        induced = self.root @ self.project_in(weights.reshape(self.n, -1))
        if basis is not None:
            basis = replace(basis, projection=self.root @ self.project_in(basis.projection))
        return PosteriorProcess(
            self.kernel,
            self.inducing_rows,
            self.Z,
            self.mean_function,
            induced.reshape(self.m, *weights.shape[1:]),
            conditioning.for_process(),
            basis,
        )
