"""The latent process held as a dense n x n covariance matrix: exact for every kernel, O(n^3) time and O(n^2) memory.

`DensePrior` evaluates the covariance in tiles, factorizes what is conditioned on (`latent.dense_conditioning`), and
pulls cotangents of the covariance back to the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dtrmm

from cavity.kernels.base import Kernel, take
from cavity.latent.base import (
    Capability,
    Conditioning,
    ImproperPosteriorError,
    Inputs,
    LatentPrior,
    Representation,
)
from cavity.latent.dense_conditioning import ObservedConditioning, SiteConditioning
from cavity.latent.negative_sites import NegativeSites
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize, first_duplicates, try_factorize
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes, outer_minus
from cavity.numerics.tiles import (
    PARALLEL_FROM,
    halve_symmetric,
    map_tiles,
    mirror_lower,
    symmetric_times,
)

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.multi_latent import SeveralPrior
    from cavity.means.functions import Mean


class Dense(Representation):
    """A dense covariance matrix: every kernel, every inference rule, up to some thousand rows."""

    name: ClassVar[str] = "dense"
    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __init__(self) -> None:
        self._set_up({}, ())

    def __repr__(self) -> str:
        return "Dense()"

    def prior(self, kernel: Kernel, mean_function: Mean | None, inputs: Inputs) -> DensePrior:
        """The process at the inputs."""
        return DensePrior(kernel, inputs, mean_function)

    def several(self, kernel: Any, mean_functions: Any, inputs: Inputs, n_latent: int) -> SeveralPrior:
        """Several independent processes at the inputs."""
        from cavity.latent.dense_multi_latent import SeveralDense

        return SeveralDense(kernel, inputs, n_latent, mean_functions)


class DensePrior(LatentPrior):
    """A Gaussian process at n training inputs.

    Parameters
    ----------
    kernel : Kernel
    inputs : Inputs or array (n, D)
    mean_function : Mean, optional
        Prior mean function; zero if none.
    """

    representation = Dense()

    def __init__(self, kernel: Kernel, inputs: Inputs | ArrayLike, mean_function: Mean | None = None) -> None:
        super().__init__(kernel, inputs if isinstance(inputs, Inputs) else Inputs(inputs), mean_function)
        kernel._check_width(self.X.shape[1])
        self._prepared = kernel._prepare(self.X, np.arange(self.n))  # the inputs were checked before
        self._token = object()  # marks what this prior has filled

    # --- the covariance matrix ------------------------------------------------------------------------------

    def _array(self, name: str) -> Array:
        """Shared memory of the fit, shape (n, n)."""
        return self.inputs.scratch.get(name, (self.n, self.n))

    def _fill(self, copy: Array | None = None) -> Array:
        """Lower tiles of K, evaluated once; with `copy`, also written there while they are in cache."""
        scratch = self.inputs.scratch
        K, known = self._array("K"), scratch.owner is self._token

        def one(rows: slice, columns: slice) -> None:
            if known:
                block = K[rows, columns]
            else:
                with compiled_passes(self.n >= COMPILED_FROM):
                    block = self.kernel._block(take(self._prepared, rows), take(self._prepared, columns))
                K[rows, columns] = block
            if copy is not None:
                copy[rows, columns] = block

        if not (known and copy is None):
            map_tiles(one, self.n)
        if not known:
            scratch.owner, scratch.mirrored = self._token, False
        return K

    @property
    def covariance(self) -> Array:
        """K, full and symmetric."""
        K = self._fill()
        if not self.inputs.scratch.mirrored:
            mirror_lower(K)
            self.inputs.scratch.mirrored = True
        return K

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return self.kernel._diag(self._prepared)

    def times(self, U: Array) -> Array:
        """K U."""
        return symmetric_times(self._fill(), U)

    def explain(self) -> str:
        """Why the covariance matrix may not be positive definite, for error messages."""
        count, pairs = first_duplicates(self.X)
        hints = []
        if count:
            shown = ", ".join(f"{i} and {j}" for i, j in pairs)
            hints.append(
                f"{count} input rows repeat earlier ones (rows {shown}): give the noise variance a lower "
                "bound"
            )
        hints.append(
            "length scales far longer than the data's extent, or no noise at all, make it nearly singular"
        )
        return "Likely reasons: " + "; ".join(hints) + "."

    # --- conditioning ---------------------------------------------------------------------------------------

    def observe(self, variance: Array, *, transient: bool = False) -> ObservedConditioning:
        """Given observations with these noise variances, shape (n,)."""

        def build() -> Array:
            A = self._array("A") if transient else np.empty((self.n, self.n))
            self._fill(copy=A)
            A.reshape(-1)[:: self.n + 1] += variance
            return A

        return ObservedConditioning(self, factorize(build, self.explain), variance, transient)

    def observe_more(self, known: Conditioning, variance: Array) -> Conditioning:
        """The factor of the leading k rows is extended: O(k^2 (n - k)) instead of O(n^3)."""
        if not isinstance(known, ObservedConditioning) or known.transient:
            return self.observe(variance)
        k = len(known.variance)
        old, new = take(self._prepared, slice(0, k)), take(self._prepared, slice(k, self.n))
        cross = known.factor.half_solve(self.kernel._block(old, new))
        corner = self.kernel._block(new, new)
        diagonal = corner.reshape(-1)[:: len(corner) + 1]
        diagonal += variance[k:]
        diagonal *= 1.0 + known.factor.fraction
        corner -= cross.T @ cross
        factor = try_factorize(np.ascontiguousarray(corner))
        if factor is None:  # the new rows need more jitter than the old ones did
            return self.observe(variance)
        lower = np.zeros((self.n, self.n))
        lower[:k, :k], lower[k:, :k], lower[k:, k:] = known.factor.lower, cross.T, factor.lower
        return ObservedConditioning(
            self, Cholesky(lower, known.jitter, known.factor.fraction), variance, False
        )

    def condition(self, precision: Array, *, transient: bool = False) -> Conditioning:
        """Given sites of these precisions, of any sign, shape (n,)."""
        if not np.isfinite(precision).all():
            raise ImproperPosteriorError("sites have precisions that are not finite")
        positive = SiteConditioning(self, precision, transient)
        return NegativeSites(positive, precision) if (precision < 0).any() else positive

    # --- pulling back ---------------------------------------------------------------------------------------

    def pull(self, cotangent: Callable[[slice, slice], Array]) -> Array:
        """Gradient, in the kernel's natural values, of sum_ij G_ij K_ij for a symmetric G given by tiles.

        Parameters
        ----------
        cotangent : callable
            `cotangent(rows, columns)` gives a fresh tile of G; above the diagonal it may hold anything
            finite.
        """
        K = self._fill()

        def one(rows: slice, columns: slice) -> Array:
            with compiled_passes(self.n >= COMPILED_FROM):
                G = halve_symmetric(cotangent(rows, columns), rows, columns)
                a, b = take(self._prepared, rows), take(self._prepared, columns)
                return self.kernel._pull(a, b, G, K[rows, columns])

        return self._summed(one)

    def pull_outer_minus(self, u: Array, A: Array) -> Array:
        """As `pull` for G = u u' - A, with A in the lower triangle of a C-ordered array.

        That is the gradient of a Gaussian log evidence; kernels that can make it in one pass over K and A do.
        """
        K, whole, prepared = self._fill(), slice(0, self.n), self._prepared
        compiled = self.n >= COMPILED_FROM
        if compiled and self.n < PARALLEL_FROM:
            with compiled_passes():
                found = self.kernel._pull_lower(prepared, prepared, (whole, whole), u, A, K)
            if found is not None:
                return 2.0 * found[0]

        def one(rows: slice, columns: slice) -> Array:
            a, b = take(prepared, rows), take(prepared, columns)
            with compiled_passes(compiled):
                found = self.kernel._pull_lower(a, b, (rows, columns), u, A, K) if compiled else None
                if found is not None:
                    return found[0]
                G = halve_symmetric(outer_minus(u, A, rows, columns), rows, columns)
                return self.kernel._pull(a, b, G, K[rows, columns])

        return self._summed(one)

    def _summed(self, one: Callable[[slice, slice], Array]) -> Array:
        return cast(Array, 2.0 * np.sum(map_tiles(one, self.n), axis=0))

    # --- whitening ------------------------------------------------------------------------------------------

    @cached_property
    def factor(self) -> Cholesky:
        """Cholesky factor W of K itself (with jitter if needed)."""
        return factorize(lambda: self._fill().copy(), self.explain)

    def covariance_matrix(self) -> Array:
        """K, a copy."""
        return self.covariance.copy()

    def white_root(self) -> Array:
        """W, lower triangular."""
        return np.tril(self.factor.lower)

    def unwhiten(self, U: Array) -> Array:
        """m + W U."""
        mean = self.mean if U.ndim == 1 else self.mean[:, None]
        return mean + self.factor.multiply(U)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W' G."""
        flat = G.reshape(self.n, -1)
        return cast(Array, dtrmm(1.0, self.factor.lower.T, flat, lower=0).reshape(G.shape))

    def whiten(self, F: Array) -> Array:
        """W^-1 (F - m)."""
        mean = self.mean if F.ndim == 1 else self.mean[:, None]
        return self.factor.half_solve(F - mean)

    @property
    def white_jitter(self) -> float:
        """What was added to the diagonal of K."""
        return self.factor.jitter

    def process(
        self, weights: Array, conditioning: Conditioning, basis: BasisWeights | None = None
    ) -> PosteriorProcess:
        """The posterior process anywhere."""
        return PosteriorProcess(
            self.kernel,
            self._prepared,
            self.X,
            self.mean_function,
            weights,
            conditioning.for_process(),
            basis,
        )
