"""The Gaussian given observations or sites, for a dense prior: what follows from one Cholesky factor.

- `ObservedConditioning`: that of A = K + diag(variance), variances >= 0; R = A^-1.
- `SiteConditioning`: that of B = I + S K S over the sites of positive precision, S = diag(sqrt(precision));
  R = S B^-1 S. Negative precisions are a low-rank change (`latent.negative_sites`).

Identities used below, none of which subtracts large numbers:

    I - R K = S B^-1 S^-1 = A^-1 diag(variance)
    Sigma_ii = (1 - (B^-1)_ii) / tau_i,    Sigma_ij = -(B^-1)_ij / (s_i s_j),    Sigma_ii = (K (I - R K))_ii

Notation: K prior covariance, P the points of positive precision, L Cholesky factors.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.latent.base import Conditioning, PriorGradient
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize
from cavity.numerics.tiles import lower_tiles, mirror_lower, symmetric_times

if TYPE_CHECKING:
    from cavity.latent.dense import DensePrior

TRUSTED = 1e-3
"""Value of tau var above which var is taken from 1 - (B^-1)_ii, which then has at least twelve digits."""

ROWS_AT_A_TIME = 256
"""Rows of a matrix that are gathered at a time."""


class DenseConditioning(Conditioning):
    """What both forms share: a factor that may be inverted, in place if it is transient."""

    prior: DensePrior

    def __init__(self, prior: DensePrior, factor: Cholesky, transient: bool) -> None:
        self.prior, self.transient = prior, transient
        self._factor: Cholesky | None = factor
        self.jitter = factor.jitter
        self._own_log_det = factor.log_det

    @property
    def factor(self) -> Cholesky:
        """The Cholesky factor; gone once a transient conditioning was inverted."""
        if self._factor is None:
            raise RuntimeError("the factor of a transient conditioning has been inverted in place")
        return self._factor

    @cached_property
    def _inverse_and_diagonal(self) -> tuple[Array, Array]:
        """The inverse in the lower triangle with zeros on the diagonal, and that diagonal."""
        if self.transient:
            inverse, self._factor = self.factor.into_inverse(), None
        else:
            inverse = Cholesky(self.factor.lower.copy()).into_inverse()
        diagonal = np.diagonal(inverse).copy()
        inverse.reshape(-1)[:: len(inverse) + 1] = 0.0
        return inverse, diagonal

    @cached_property
    def _diagonal(self) -> Array:
        """The diagonal of the inverse."""
        if self.transient or "_inverse_and_diagonal" in self.__dict__:
            return self._inverse_and_diagonal[1]
        return self.factor.inverse_diagonal()

    def _solve(self, U: Array) -> Array:
        if self._factor is not None:
            return self._factor.solve(U)
        inverse, diagonal = self._inverse_and_diagonal
        return symmetric_times(inverse, U) + (diagonal * U.T).T

    def _full_inverse(self) -> Array:
        inverse, diagonal = self._inverse_and_diagonal
        full = mirror_lower(inverse.copy())
        full.reshape(-1)[:: len(full) + 1] = diagonal
        return full

    def _pull(
        self, scale: Array | None, left: Array, right: Array | None, of_R: float, dense: Array | None
    ) -> Array:
        """For G = left right' + of_R S A^-1 S + dense, A^-1 the inverse and S = diag(scale), symmetrized."""
        inverse, diagonal = self._inverse_and_diagonal
        inverse.reshape(-1)[:: len(inverse) + 1] = diagonal
        if right is None and dense is None and of_R < 0:  # G = -of_R (u u' - A)
            F = left / np.sqrt(-of_R)
            found = -of_R * self.prior.pull_outer_minus(
                np.ascontiguousarray(F[:, 0]), self._scaled_inverse(inverse, scale, F[:, 1:])
            )
        else:
            if right is None:
                F, H = left, left
            else:
                F, H = np.hstack([0.5 * left, 0.5 * right]), np.hstack([right, left])

            def cotangent(rows: slice, columns: slice) -> Array:
                if scale is None:
                    G = inverse[rows, columns] * of_R
                else:
                    G = inverse[rows, columns] * scale[columns]
                    G *= of_R * scale[rows, None]
                G += F[rows] @ H[columns].T
                if dense is not None:
                    G += dense[rows, columns]
                return G

            found = self.prior.pull(cotangent)
        inverse.reshape(-1)[:: len(inverse) + 1] = 0.0
        return found

    @staticmethod
    def _scaled_inverse(inverse: Array, scale: Array | None, H: Array) -> Array:
        """S A^-1 S - H H' in the lower triangle."""
        if scale is None and H.shape[1] == 0:
            return inverse
        out = inverse.copy() if scale is None else inverse * scale
        if scale is not None:
            out *= scale[:, None]
        if H.shape[1]:
            out -= H @ H.T
        return out


class ObservedConditioning(DenseConditioning):
    """R = A^-1 with A = K + diag(variance)."""

    def __init__(self, prior: DensePrior, factor: Cholesky, variance: Array, transient: bool) -> None:
        super().__init__(prior, factor, transient)
        self.variance = variance

    @cached_property
    def log_det(self) -> float:  # type: ignore[override]
        """log |I + K T|, infinite if an observation is exact."""
        with np.errstate(divide="ignore"):
            return self._own_log_det - float(np.log(self.variance).sum())

    @property
    def noisy_log_det(self) -> float:
        """log |A|."""
        return self._own_log_det

    @cached_property
    def var(self) -> Array:
        """v - v R v, or the diagonal of K - K R K where noise dominates."""
        v, d = self.variance, self._diagonal
        explained = 1.0 - v * d
        var = v * explained
        weak = np.flatnonzero(~(explained > TRUSTED))
        if weak.size:
            cross = np.ascontiguousarray(self.prior.covariance[:, weak])
            var[weak] = self.prior.diagonal[weak] - np.einsum("ij,ij->j", cross, self._solve(cross))
        return np.maximum(var, np.finfo(float).eps * self.prior.diagonal)

    @property
    def unexplained(self) -> Array:
        """The diagonal of A^-1."""
        return self._diagonal

    def apply(self, U: Array) -> Array:
        """A^-1 U."""
        return self._solve(U)

    def project(self, b: Array) -> tuple[Array, Array]:
        """(A^-1 diag(variance) b, K times that)."""
        a = self._solve((self.variance * b.T).T)
        return a, self.prior.times(a)

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """M = L^-1 U."""
        return self.factor.half_solve(U), None

    def half_solve(self, U: Array) -> Array:
        """L^-1 U."""
        return self.factor.half_solve(U)

    @property
    def half_solve_norm(self) -> float:
        """The inverse of the smallest pivot."""
        return 1.0 / float(np.diagonal(self.factor.lower).min())

    def half_solve_transposed(self, U: Array) -> Array:
        """L^-T U."""
        return self.factor.half_solve_transposed(U)

    def matrix(self) -> Array:
        """R."""
        return self._full_inverse()

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """See the protocol; here (I - R K) D (I - K R) = R diag(variance^2 d_var) R."""
        dense = None
        if d_var is not None or d_unexplained is not None:
            d = np.zeros(self.prior.n)
            if d_var is not None:
                d += self.variance**2 * d_var
            if d_unexplained is not None:
                d -= d_unexplained
            R = self._full_inverse()
            dense = (R * d) @ R
        return PriorGradient(self._pull(None, left, right, d_log_det, dense))


class SiteConditioning(DenseConditioning):
    """Sites of nonnegative precision (negative ones are taken for zero): R = S B^-1 S over P."""

    def __init__(self, prior: DensePrior, precision: Array, transient: bool) -> None:
        self.precision = precision
        self.P: NDArray[np.intp] = np.flatnonzero(precision > 0)
        self.all = self.P.size == prior.n
        self.root = np.sqrt(precision[self.P])
        self._shared = transient
        transient = transient and self.all  # else there is little to gain
        super().__init__(
            prior, factorize(lambda: self._identity_plus(prior, transient), prior.explain), transient
        )
        self.log_det = self._own_log_det

    def _identity_plus(self, prior: DensePrior, transient: bool) -> Array:
        """B in the lower triangle."""
        K, root, n = prior._fill(), self.root, len(self.P)
        if self.all:
            B = prior._array("B") if transient else np.empty((n, n))
            for rows, columns in lower_tiles(n):
                tile = np.multiply(K[rows, columns], root[columns], out=B[rows, columns])
                tile *= root[rows, None]
        else:
            B = K.take(self.P, 0).take(self.P, 1)  # several times faster than K[np.ix_(P, P)]
            B *= root
            B *= root[:, None]
        B.reshape(-1)[:: n + 1] += 1.0
        return B

    def _scaled(self, U: Array) -> Array:
        """S U over P."""
        picked = U if self.all else U[self.P]
        return np.asarray((self.root * picked.T).T)

    def _scatter(self, U: Array) -> Array:
        """S U for U over P, zero elsewhere."""
        if self.all:
            return np.asarray((self.root * U.T).T)
        out = np.zeros((self.prior.n, *U.shape[1:]))
        out[self.P] = (self.root * U.T).T
        return out

    # --- points without a site of their own -----------------------------------------------------------------

    @cached_property
    def _aside(self) -> NDArray[np.intp]:
        """Points without a site, C."""
        return np.flatnonzero(~(self.precision > 0))

    @cached_property
    def _towards_aside(self) -> Array:
        """M = L^-1 S K[P, C], with which Sigma[C, C] = K[C, C] - M'M."""
        rows = self.prior.covariance.take(self._aside, 0).take(self.P, 1)
        rows *= self.root
        return self.factor.half_solve(rows.T)

    def project_columns(self, index: NDArray[np.intp], scale: Array) -> tuple[Array, Array]:
        """For points without a site: -S L^-T M and S^-1 L^-T M over P, e and K[C, C] - M'M over C."""
        if self.all or self.P.size == 0 or (self.precision[index] > 0).any():
            return super().project_columns(index, scale)
        C, M, n, k = self._aside, self._towards_aside, self.prior.n, len(index)
        chosen = M[:, np.searchsorted(C, index)] * scale
        half = self.factor.half_solve_transposed(chosen)
        kept, moved = np.zeros((n, k)), np.empty((n, k))
        kept[index, np.arange(k)] = scale
        kept[self.P] = -self.root[:, None] * half
        moved[self.P] = half / self.root[:, None]
        moved[C] = self.prior.covariance[np.ix_(C, index)] * scale - M.T @ chosen
        return kept, moved

    # --- diagonals ------------------------------------------------------------------------------------------

    @cached_property
    def var(self) -> Array:
        """(1 - (B^-1)_ii) / tau_i where a site is informative, which subtracts nothing large; else as it takes."""
        prior, n = self.prior, self.prior.n
        var, explained = np.empty(n), np.zeros(n)
        explained[self.P] = 1.0 - self._diagonal
        var[self.P] = explained[self.P] / self.root**2
        if not self.all and self.P.size:
            M, C = self._towards_aside, self._aside
            var[C] = prior.diagonal[C] - np.einsum("ij,ij->j", M, M)
            explained[C] = 1.0
        weak = np.flatnonzero(~(explained > TRUSTED))
        if weak.size and self.all and "_inverse_and_diagonal" in self.__dict__:
            var[weak] = self._weak_variances(weak)
        elif weak.size:
            cross = np.ascontiguousarray(prior.covariance[:, weak])
            M, _ = self.reduce(cross)
            var[weak] = prior.diagonal[weak] - np.einsum("ij,ij->j", M, M)
        return np.maximum(var, np.finfo(float).eps * prior.diagonal)

    def _weak_variances(self, index: NDArray[np.intp]) -> Array:
        """Sigma_ii = (K S B^-1 S^-1)_ii by one product of rows each, from the inverse.

        All entries of row i of B^-1 off the diagonal are proportional to s_i, to relative precision.
        """
        K, (inverse, diagonal) = self.prior.covariance, self._inverse_and_diagonal
        out, columns = np.empty(len(index)), np.arange(self.prior.n)
        for start in range(0, len(index), ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
            i = index[part]
            rows = np.where(columns <= i[:, None], inverse[i], inverse[:, i].T)
            rows *= self.root
            out[part] = (
                np.einsum("ij,ij->i", K[i], rows) / self.root[i] + self.prior.diagonal[i] * diagonal[i]
            )
        return out

    @cached_property
    def unexplained(self) -> Array:
        """tau_i (B^-1)_ii."""
        out = np.zeros(self.prior.n)
        out[self.P] = self.root**2 * self._diagonal
        return out

    # --- products -------------------------------------------------------------------------------------------

    def apply(self, U: Array) -> Array:
        """S B^-1 S U."""
        return self._scatter(self._solve(self._scaled(U)))

    def project(self, b: Array) -> tuple[Array, Array]:
        """(S B^-1 S^-1 b, K times that); points without a site keep their b and move the others."""
        P = self.P
        if self.all:
            a = self._scatter(self._solve((b.T / self.root).T))
        else:
            a = b.copy()
            a[P] = 0.0
            inner = (b[P].T / self.root).T
            if a.any():
                inner = inner - self._scaled(self.prior.times(a))
            a[P] = (self.root * self._solve(inner).T).T
        return a, self.prior.times(a)

    def reduce(self, U: Array) -> tuple[Array, Array | None]:
        """M = L^-1 S U."""
        return self.factor.half_solve(self._scaled(U)), None

    @cached_property
    def covariance(self) -> Array:
        """Sigma, from B^-1 or, if some points have no site, as K - K R K."""
        if self.all:
            inverse, _ = self._inverse_and_diagonal
            S = mirror_lower(inverse.copy())
            S /= -self.root
            S /= self.root[:, None]
            S.reshape(-1)[:: len(S) + 1] = self.var
            return S
        K = self.prior.covariance
        M, _ = self.reduce(K)
        S = K - M.T @ M
        return 0.5 * (S + S.T)

    def matrix(self) -> Array:
        """R."""
        inverse = self._full_inverse()
        inverse *= self.root
        inverse *= self.root[:, None]
        if self.all:
            return inverse
        R = np.zeros((self.prior.n, self.prior.n))
        if self.P.size:
            place, C = np.searchsorted(self.P, np.arange(self.prior.n)), self._aside
            R = inverse.take(place, 0, mode="clip").take(place, 1, mode="clip")
            R[C] = 0.0
            R[:, C] = 0.0
        return R

    @cached_property
    def _squares(self) -> Array:
        """Squares of the off-diagonal entries of B^-1, or of all of K if there are no sites; lower triangle."""
        source = self._inverse_and_diagonal[0] if self.all else self.prior._fill()
        squares = self.prior._array("squares") if self._shared else np.empty_like(source)
        for rows, columns in lower_tiles(self.prior.n):
            tile = source[rows, columns]
            np.multiply(tile, tile, out=squares[rows, columns])
        return squares

    def pull_sites(self, d_mean: Array | None = None, d_var: Array | None = None) -> tuple[Array, Array]:
        """(Sigma d_mean, (Sigma o Sigma) d_var), each by one product with a known matrix."""
        first, second = np.zeros(self.prior.n), np.zeros(self.prior.n)
        if self.P.size == 0:
            first = first if d_mean is None else self.prior.times(d_mean)
            return first, second if d_var is None else symmetric_times(self._squares, d_var)
        if not self.all:
            return super().pull_sites(d_mean, d_var)
        if d_mean is not None:
            off = symmetric_times(self._inverse_and_diagonal[0], d_mean / self.root)
            first = self.var * d_mean - off / self.root
        if d_var is not None:
            tau = self.precision
            second = self.var**2 * d_var + symmetric_times(self._squares, d_var / tau) / tau
        return first, second

    # --- pulling back ---------------------------------------------------------------------------------------

    def pull_prior(
        self,
        left: Array,
        right: Array | None,
        d_log_det: float,
        d_var: Array | None = None,
        d_unexplained: Array | None = None,
    ) -> PriorGradient:
        """See the protocol; here (I - R K) D (I - K R) = S B^-1 diag(d_var / tau) B^-1 S if all points have sites."""
        if not self.all:
            if right is None and d_var is None and d_unexplained is None and d_log_det < 0:
                F = left / np.sqrt(-d_log_det)
                A = self._scaled_inverse(self.matrix(), None, F[:, 1:])
                found = self.prior.pull_outer_minus(np.ascontiguousarray(F[:, 0]), A)
                return PriorGradient(-d_log_det * found)
            return PriorGradient(self._pull_scattered(left, right, d_log_det, d_var, d_unexplained))
        dense = None
        if d_var is not None or d_unexplained is not None:
            d = np.zeros(self.prior.n)
            if d_var is not None:
                d += d_var / self.precision
            if d_unexplained is not None:
                d -= self.precision * d_unexplained
            inverse = self._full_inverse()
            dense = (inverse * d) @ inverse
            dense *= self.root
            dense *= self.root[:, None]
        return PriorGradient(self._pull(self.root, left, right, d_log_det, dense))

    def _pull_scattered(
        self, left: Array, right: Array | None, of_R: float, d_var: Array | None, d_unexplained: Array | None
    ) -> Array:
        F, H = (
            (left, left)
            if right is None
            else (np.hstack([0.5 * left, 0.5 * right]), np.hstack([right, left]))
        )
        R = self.matrix()
        dense = of_R * R
        if d_unexplained is not None:
            dense -= (R * d_unexplained) @ R
        if d_var is not None:
            rest = -self.prior.covariance @ R
            rest[np.diag_indices_from(rest)] += 1.0
            dense += rest.T @ (d_var[:, None] * rest)
        return self.prior.pull(lambda rows, columns: dense[rows, columns] + F[rows] @ H[columns].T)
