"""The latent process at the training inputs, held as a dense n x n covariance matrix.

`DensePrior` evaluates the covariance in tiles, factorizes what is conditioned on, and pulls cotangents of the
covariance back to the kernel. Conditioning takes one of two forms:

- `observe(variance)`: Gaussian observations y = f + noise, noise variances >= 0. The matrix
  A = K + diag(variance).
- `condition(sites)`: sites of any sign, B = I + S K S over the positive sites with S = diag(sqrt(precision)),
  then a low-rank correction for the negative ones.

Both give a `Correction` R with posterior covariance K - K R K, that is R = (K + diag(precision)^-1)^-1.

Notation: K prior covariance, P and N the positions of sites with positive and negative precision, L Cholesky
factors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel, take
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize, first_duplicates, try_factorize
from cavity.numerics.compiled import COMPILED_FROM, compiled_passes, outer_minus
from cavity.numerics.tiles import PARALLEL_FROM, Workspace, halve_symmetric, map_tiles, mirror_lower

if TYPE_CHECKING:
    from cavity.means.functions import Mean


SAFE_INFORMATION = 1e-3
"""Below this value of precision times posterior variance, (1 - B^-1) / precision cancels; a solve is used
instead."""


class ImproperPosteriorError(np.linalg.LinAlgError):
    """Negative site precisions outweigh the prior: the product of prior and sites cannot be normalized."""


class Correction(Protocol):
    """R with posterior covariance K - K R K, never formed unless asked for."""

    jitter: float

    def apply(self, U: Array) -> Array:
        """R U, shape of U (n,) or (n, m)."""
        ...

    def reductions(self, cross: Array) -> tuple[Array, Array | None]:
        """(M, P) with cross' R cross = M'M - P'P, for cross = K(X, X*) of shape (n, m); P is None where
        empty."""
        ...

    def lower_matrix(self) -> Array:
        """R in the lower triangle of an array of its own, shape (n, n)."""
        ...


class ObservedCorrection:
    """R = (K + diag(variance))^-1."""

    def __init__(self, factor: Cholesky, variance: Array) -> None:
        self.factor, self.variance, self.jitter = factor, variance, factor.jitter

    def apply(self, U: Array) -> Array:
        """R U."""
        return self.factor.solve(U)

    def reductions(self, cross: Array) -> tuple[Array, Array | None]:
        """M = L^-1 cross."""
        return self.factor.half_solve(cross), None

    def lower_matrix(self) -> Array:
        """R = A^-1."""
        return Cholesky(self.factor.lower.copy()).into_inverse()

    def diagonal(self) -> Array:
        """The diagonal of R."""
        return self.factor.inverse_diagonal()


class SiteCorrection:
    """R of sites of any sign.

    With T = diag(precision), T+ its positive part, A+ = (K^-1 + T+)^-1 and q = sqrt(-precision[N]):

        R+ = S B^-1 S,   B = I + S K S over P,
        R  = R+ - F C^-1 F',   F = (I - R+ K)[:, N] q,   C = I - q A+[N, N] q.

    C is positive definite exactly when the posterior is proper.
    """

    def __init__(self, prior: DensePrior, sites: Sites, memory: str | None = None) -> None:
        tau = sites.precision
        if not (np.isfinite(tau).all() and np.isfinite(sites.shift).all()):
            raise ImproperPosteriorError("sites have natural parameters that are not finite")
        self.n = len(tau)
        self.positive, self.negative = np.flatnonzero(tau > 0), np.flatnonzero(tau < 0)
        self.root = np.sqrt(tau[self.positive])
        self._all = self.positive.size == self.n
        K = prior.covariance
        KP = K if self._all else K[np.ix_(self.positive, self.positive)]
        out = None if memory is None else prior.workspace.get(memory, KP.shape)
        self.factor = factorize(lambda: self._identity_plus(KP, out), prior.explain)
        self.jitter = self.factor.jitter
        self.log_det = self.factor.log_det
        """log |I + K T|."""
        self._C: Cholesky | None = None
        if self.negative.size:
            self._correct(K, np.sqrt(-tau[self.negative]))

    def _identity_plus(self, KP: Array, out: Array | None) -> Array:
        B = np.multiply(KP, self.root, out=out)
        B *= self.root[:, None]
        B.reshape(-1)[:: len(B) + 1] += 1.0
        return B

    def _correct(self, K: Array, q: Array) -> None:
        cross = K[:, self.negative]
        VN = self._half(cross)
        A_NN = cross[self.negative] - VN.T @ VN
        C = np.eye(len(q)) - q[:, None] * A_NN * q
        factor = try_factorize(np.ascontiguousarray(C))
        if factor is None:
            worst = int(self.negative[np.argmax(q**2 * np.diagonal(A_NN))])
            raise ImproperPosteriorError(
                "the posterior is improper: negative site precisions outweigh the prior (largest at point "
                f"{worst}); damp the update or restrict the sites"
            )
        self._C, self._q, self._VN = factor, q, VN
        self.log_det += factor.log_det

    def _half(self, cross: Array) -> Array:
        """L^-1 S cross[P]."""
        picked = cross if self._all else cross[self.positive]
        root = self.root if picked.ndim == 1 else self.root[:, None]
        return self.factor.half_solve(root * picked)

    def reductions(self, cross: Array) -> tuple[Array, Array | None]:
        """M = L^-1 S cross[P]; P = L_C^-1 q (A+ restricted to rows N) of the cross-covariance."""
        M = self._half(cross)
        if self._C is None:
            return M, None
        q = self._q if cross.ndim == 1 else self._q[:, None]
        return M, self._C.half_solve(q * (cross[self.negative] - self._VN.T @ M))

    def apply(self, U: Array) -> Array:
        """R U."""
        out = np.zeros_like(U)
        root = self.root if U.ndim == 1 else self.root[:, None]
        out[self.positive] = root * self.factor.solve(root * U[self.positive])
        if self._C is not None:
            F = self._columns()
            out -= F @ self._C.solve(F.T @ U)
        return out

    def weights(self, K: Array, shift: Array) -> Array:
        """(I - R K) shift, shape (n,).

        For positive sites I - R+ K = S B^-1 S^-1, which subtracts nothing; the plain difference would lose
        as many digits as precision times prior variance has.
        """
        P = self.positive
        rest = shift.copy()
        rest[P] = 0.0
        out = rest
        if rest.any():
            KU = (K @ rest)[P]
            out[P] = -self.root * self.factor.solve(self.root * KU)
        out[P] += self.root * self.factor.solve(shift[P] / self.root)
        if self._C is not None:
            # R = R+ - F C^-1 F' and F' K shift = q (A+ shift)[N], A+ shift = K (I - R+ K) shift
            out += self._columns() @ self._C.solve(self._q * (K[self.negative] @ out))
        return out

    def marginal_variances(self, prior: DensePrior) -> Array:
        """The diagonal of K - K R K.

        That of A+ is (1 - (B^-1)_ii) / precision_i where a positive site is informative, which neither needs
        an n x n solve nor subtracts numbers of the size of the prior variance; elsewhere it takes the solve.
        Negative sites add the squared columns of L_C^-1 q A+[N, :], where A+[P, N] = S^-1 B^-1 S K[P, N].
        """
        var, information = np.empty(self.n), np.zeros(self.n)
        information[self.positive] = 1.0 - self.factor.inverse_diagonal()
        var[self.positive] = information[self.positive] / self.root**2
        rest = np.flatnonzero(~(information > SAFE_INFORMATION))
        K = prior.covariance
        M = self._half(K if rest.size == self.n else np.ascontiguousarray(K[:, rest]))
        floor = np.finfo(float).eps * prior.diagonal[rest]
        var[rest] = np.maximum(prior.diagonal[rest] - np.einsum("ij,ij->j", M, M), floor)
        if self._C is not None:
            widened = np.empty((self.negative.size, self.n))
            widened[:, self.positive] = self.factor.half_solve_transposed(self._VN).T / self.root
            widened[:, rest] = K[np.ix_(self.negative, rest)] - self._VN.T @ M
            P = self._C.half_solve(self._q[:, None] * widened)
            var += np.einsum("ij,ij->j", P, P)
        return var

    def _columns(self) -> Array:
        """F = (I - R+ K)[:, N] q, shape (n, |N|)."""
        F = np.zeros((self.n, self.negative.size))
        F[self.negative] = np.diag(self._q)
        F[self.positive] -= self.root[:, None] * self.factor.half_solve_transposed(self._VN * self._q)
        return F

    def lower_matrix(self) -> Array:
        """R = S B^-1 S scattered over all points, minus the correction."""
        inverse = Cholesky(self.factor.lower.copy()).into_inverse()
        inverse *= self.root
        inverse *= self.root[:, None]
        if self._all:
            return inverse
        R = np.zeros((self.n, self.n))
        R[np.ix_(self.positive, self.positive)] = inverse
        if self._C is not None:
            F = self._C.half_solve(self._columns().T)
            R -= F.T @ F
        return R


class DensePrior:
    """A Gaussian process at n training inputs.

    Parameters
    ----------
    kernel : Kernel
    X : array (n, D)
    mean_function : Mean, optional
        Prior mean function; zero if none.
    workspace : Workspace, optional
        Memory shared by successive evaluations on the same inputs.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: ArrayLike,
        mean_function: Mean | None = None,
        workspace: Workspace | None = None,
    ) -> None:
        self.kernel = kernel
        self.X = np.asarray(X, dtype=float)
        self.rows = kernel.prepare(self.X)
        self.n = len(self.X)
        self.mean_function = mean_function
        self.mean = np.zeros(self.n) if mean_function is None else mean_function(self.X)
        self.workspace = workspace or Workspace()
        self._filled = False

    # --- the covariance matrix ------------------------------------------------------------------------------

    @property
    def _K(self) -> Array:
        return self.workspace.get("K", (self.n, self.n))

    def _fill(self, copy: Array | None = None) -> Array:
        """Lower tiles of K, evaluated once; with `copy`, also written there while they are in cache."""
        K = self._K

        def one(rows: slice, columns: slice) -> None:
            if self._filled:
                block = K[rows, columns]
            else:
                with compiled_passes(self.n >= COMPILED_FROM):
                    block = self.kernel._block(take(self.rows, rows), take(self.rows, columns))
                K[rows, columns] = block
            if copy is not None:
                copy[rows, columns] = block

        if not (self._filled and copy is None):
            map_tiles(one, self.n)
        self._filled = True
        return K

    @property
    def lower_covariance(self) -> Array:
        """K in the tiles of the lower triangle (`linalg.lower_tiles`); elsewhere anything."""
        return self._fill()

    @cached_property
    def covariance(self) -> Array:
        """K, full and symmetric."""
        return mirror_lower(self._fill())

    @cached_property
    def diagonal(self) -> Array:
        """The diagonal of K."""
        return self.kernel._diag(self.rows)

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

    def observe(self, variance: Array) -> ObservedCorrection:
        """Condition on observations with the given noise variances, shape (n,) (zero where exact)."""

        def build() -> Array:
            A = self.workspace.get("A", (self.n, self.n))
            self._fill(copy=A)
            A.reshape(-1)[:: self.n + 1] += variance
            return A

        return ObservedCorrection(factorize(build, self.explain), variance)

    def observe_more(self, known: ObservedCorrection, variance: Array) -> ObservedCorrection:
        """As `observe`, given that of the leading k rows: its factor is extended, O(k^2 (n - k)) instead of
        O(n^3)."""
        k = len(known.variance)
        old, new = take(self.rows, slice(0, k)), take(self.rows, slice(k, self.n))
        cross = known.factor.half_solve(self.kernel._block(old, new))
        corner = self.kernel._block(new, new)
        corner.reshape(-1)[:: len(corner) + 1] += variance[k:] + known.jitter
        corner -= cross.T @ cross
        factor = try_factorize(np.ascontiguousarray(corner))
        if factor is None:  # the new rows need more jitter than the old ones did
            return self.observe(variance)
        lower = np.zeros((self.n, self.n))
        lower[:k, :k], lower[k:, :k], lower[k:, k:] = known.factor.lower, cross.T, factor.lower
        return ObservedCorrection(Cholesky(lower, known.jitter), variance)

    def condition(self, sites: Sites, memory: str | None = None) -> SiteCorrection:
        """Condition on sites of any sign.

        With `memory`, the factor lives in the workspace array of that name, until the next request for it.

        Raises
        ------
        ImproperPosteriorError
            If negative precisions outweigh the prior.
        """
        return SiteCorrection(self, sites, memory)

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
                return self.kernel._pull(take(self.rows, rows), take(self.rows, columns), G, K[rows, columns])

        return self._summed(one)

    def pull_outer_minus(self, u: Array, A: Array) -> Array:
        """As `pull` for G = u u' - A, with A in the lower triangle of a C-ordered array.

        That is the gradient of a Gaussian log evidence; kernels that can make it in one pass over K and A do.
        """
        K, whole = self._fill(), slice(0, self.n)
        compiled = self.n >= COMPILED_FROM
        if compiled and self.n < PARALLEL_FROM:
            with compiled_passes():
                found = self.kernel._pull_lower(self.rows, self.rows, (whole, whole), u, A, K)
            if found is not None:
                return 2.0 * found[0]

        def one(rows: slice, columns: slice) -> Array:
            a, b = take(self.rows, rows), take(self.rows, columns)
            with compiled_passes(compiled):
                found = self.kernel._pull_lower(a, b, (rows, columns), u, A, K) if compiled else None
                if found is not None:
                    return found[0]
                G = halve_symmetric(outer_minus(u, A, rows, columns), rows, columns)
                return self.kernel._pull(a, b, G, K[rows, columns])

        return self._summed(one)

    def _summed(self, one: Callable[[slice, slice], Array]) -> Array:
        return cast(Array, 2.0 * np.sum(map_tiles(one, self.n), axis=0))

    def pull_mean(self, g: Array) -> Array:
        """Gradient, in the mean function's natural values, of sum_i g_i m(x_i)."""
        return np.zeros(0) if self.mean_function is None else self.mean_function.pull(self.X, g)

    # --- whitening ------------------------------------------------------------------------------------------

    @cached_property
    def factor(self) -> Cholesky:
        """Cholesky factor of K itself (with jitter where needed)."""
        return factorize(lambda: self._fill().copy(), self.explain)

    def unwhiten(self, U: Array) -> Array:
        """f = mean + L U for standard normal U of shape (n,) or (n, m)."""
        mean = self.mean if U.ndim == 1 else self.mean[:, None]
        return mean + self.factor.multiply(U)
