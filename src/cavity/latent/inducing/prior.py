"""A Gaussian process at n training inputs, held at m inducing inputs.

Rows are visited in blocks (`cavity.rows`), wherever they are: a tile of K_fu is evaluated, whitened to V' = K_fu L^-T
and thrown away, which costs less than to read it from memory. Of rows in memory the whitened tiles are kept for rules
that ask again and again for other sites, up to `KEPT_DOUBLES`; beyond, memory does not grow with n except for vectors.

Notation: L Cholesky factor of K_uu, V = L^-1 K_uf, d = diag(K_ff) - diag(V'V).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from cavity.kernels.base import Kernel
from cavity.latent.base import (
    Conditioning,
    ImproperPosteriorError,
    Inputs,
    LatentPrior,
)
from cavity.latent.inducing.blocks import inverse_transposed, row_products, times_inverse
from cavity.latent.inducing.conditioning import InducingConditioning
from cavity.latent.inducing.kinds import Kind
from cavity.latent.inducing.passes import (
    Explained,
    FirstGram,
    Gram,
    Kept,
    Own,
    ProjectIn,
    ProjectOut,
    Residual,
    Sandwiched,
    White,
)
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError, factorize
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes
from cavity.rows.base import ArrayRows, RowSource

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
        kernel._check_width(self.source.shape[1])
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
        self._residual: Array | None = None

    @property
    def compiled(self) -> bool:
        """Whether kernels use compiled passes."""
        return self.n >= COMPILED_FROM

    @cached_property
    def inverse_root(self) -> Array:
        """L', upper triangular."""
        return np.asarray(solve_triangular(self.root, np.eye(self.m)))

    # --- passes over the rows --------------------------------------------------------------------------------

    @cached_property
    def tiles(self) -> White:
        """What evaluates tiles of K_fu and V'."""
        return White(self.kernel, self.inducing_rows, self.Z.shape[1], self.compiled, self.root)

    @property
    def keeps(self) -> bool:
        """Whether V is kept."""
        return self.source.in_memory and self.n * self.m <= KEPT_DOUBLES

    @property
    def kept(self) -> Array | None:
        """V' (n, m), if it is kept and known."""
        scratch = self.inputs.scratch
        return scratch.get("V", (self.n, self.m)) if scratch.owner is self._token else None

    @contextmanager
    def keeping(self) -> Iterator[tuple[Array, ...]]:
        """The array for V' (n, m), if it is kept, which then holds V' of this prior; none else."""
        scratch = self.inputs.scratch
        scratch.owner = None  # until all of it is written
        yield (scratch.get("V", (self.n, self.m)),) if self.keeps else ()
        if self.keeps:
            scratch.owner = self._token

    @property
    def at_hand(self) -> tuple[RowSource, White | Kept]:
        """Where passes that need V' find it: what is kept, or the inputs."""
        kept = self.kept
        return (self.source, self.tiles) if kept is None else (ArrayRows(kept), Kept())

    def gram(self, weight: Array) -> Array:
        """V diag(weight) V' in the lower triangle, for weights (n,) of any sign."""
        source, tiles = self._white()
        return source.map_sum(Gram(tiles, self.m), weight)[0][0]

    def explained(self, R: Array) -> Array:
        """|R'V_i|^2, shape (n,), for an upper triangle R."""
        source, tiles = self._white()
        return source.map_sum(Explained(tiles, R))[1][0]

    def sandwiched(self, M: Array) -> Array:
        """V_i'M V_i, shape (n,)."""
        source, tiles = self._white()
        return source.map_sum(Sandwiched(tiles, M))[1][0]

    def _white(self) -> tuple[RowSource, White | Kept]:
        """As `at_hand`, after V' was made if it is to be kept."""
        if self.keeps and self.kept is None:
            self._find_residual()
        return self.at_hand

    def white_rows(self, index: NDArray[np.intp]) -> Array:
        """V' of some rows, in increasing order."""
        kept = self.kept
        if kept is not None:
            return kept[index]
        a = self.kernel._prepare(self.source.take(index), index)
        with compiled_passes(self.compiled):
            return times_inverse(self.root, self.kernel._block(a, self.inducing_rows))

    def first_gram(self, kind: Kind, site: Array, observed: bool) -> Array:
        """V S V' in the lower triangle, and d in the same pass, if it is not known; see `Kind.weigh`."""
        with self.keeping() as kept:
            (B,), found = self.source.map_sum(FirstGram(self.tiles, kind, observed), site, *kept)
        self._residual, self.own = found
        return B

    @property
    def residual_known(self) -> bool:
        """Whether d is known."""
        return self._residual is not None

    @property
    def residual(self) -> Array:
        """d, shape (n,)."""
        if self._residual is None:
            self._find_residual()
        assert self._residual is not None
        return self._residual

    def _find_residual(self) -> None:
        with self.keeping() as kept:
            self._residual, self.own = self.source.map_sum(Residual(self.tiles), *kept)[1]

    def project_in(self, U: Array) -> Array:
        """V U, shape (m, k), for U (n, k)."""
        source, tiles = self.at_hand
        if isinstance(tiles, Kept):
            return source.map_sum(ProjectIn(tiles, self.m, U.shape[1]), U)[0][0]
        return self.root.T @ source.map_sum(ProjectIn(tiles.cross, self.m, U.shape[1]), U)[0][0]

    def project_out(self, W: Array) -> Array:
        """V' W, shape (n, k), for W (m, k)."""
        source, tiles = self.at_hand
        if isinstance(tiles, Kept):
            return source.map_sum(ProjectOut(tiles, W))[1][0]
        return source.map_sum(ProjectOut(tiles.cross, self.root @ W))[1][0]

    # --- the protocol ---------------------------------------------------------------------------------------

    @cached_property
    def own(self) -> Array:
        """k_ii."""
        return self.source.map_sum(Own(self.kernel))[1][0]

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
        kind = self.representation.observation_kind(self.source.in_memory)
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
        """W'K^-1 (F - m); without own variances of the rows the u whose values are nearest."""
        flat = F.reshape(self.n, -1) - self.mean[:, None]
        given = self.exactly_known
        u = given.B.solve(self.project_in(given.S[:, None] * flat))
        if self.kind.share > 0:
            root = np.sqrt(self.kind.share * self.residual)[:, None]
            u = np.vstack([u, (flat - self.project_out(u)) / root])
        return u.reshape(self.white_dim, *F.shape[1:])

    @cached_property
    def exactly_known(self) -> InducingConditioning:
        """Given the latent values; if they are functions of u alone, but for `SMALLEST_NOISE`."""
        variance = np.zeros(self.n) if self.kind.share > 0 else SMALLEST_NOISE * self.own
        return InducingConditioning(self, replace(self.kind, weight=0.0), None, variance)

    def given_values(self, F: Array) -> PosteriorProcess:
        """The process given latent values (n, g)."""
        given = self.exactly_known
        return self.process(given.apply(F - self.mean[:, None]), given)

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
