"""Several independent latent functions with dense covariances: classes, or a level and a log noise.

One kernel is shared by all functions, or each has its own. The posterior covariance of (f_1(x), .., f_L(x)) is an
L x L block for every x:

    mean_c(x*)    = m_c(x*) + k_c(X, x*)' a_c
    cov_cd(x*)    = k_c(x*, x*) [c = d] - k_c(X, x*)' R_cd k_d(X, x*)

R = (K + W^-1)^-1 is known to a `SeveralConditioning`, never formed. There are three, for the kinds of curvature W,
which is an L x L matrix at each point:

- `SeparateConditioning` (`separate_functions`): W diagonal, sites of each function alone, conditioned for itself.
- `SoftmaxConditioning`: W = D - D R1 (R1'D R1)^-1 R1'D with D diagonal, R1 stacked identities; then, with E_c =
  (K_c + D_c^-1)^-1, R = E - E R1 (sum_c E_c)^-1 R1' E (book eq. 3.47). O(L n^3) time, O(L n^2) memory.
- `BlockConditioning`: any symmetric W, indefinite ones too; with K_c = L_c L_c', M = I + L' W L is positive
  definite exactly if the posterior is proper. O((L n)^3) time: for few functions.

Shapes: latent values (n, L), blocks (n, L, L).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.blas import dsymm

from cavity.kernels.base import Kernel
from cavity.latent.base import ImproperPosteriorError, Inputs, Loss, PriorGradient
from cavity.latent.dense import Dense, DensePrior
from cavity.latent.multi_latent import SeveralConditioning
from cavity.latent.separate_functions import SeparateFunctions
from cavity.latent.several_process import Expansion, SeveralPosteriorProcess, cross_products
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, factorize, try_factorize
from cavity.numerics.tiles import mirror_lower
from cavity.parameters.per_latent import PerLatent

INVERSE_ITERATIONS = 20
"""Enough for an eigenvalue that stands out, the only case of interest."""

# --- the prior ----------------------------------------------------------------------------------------------


class SeveralDense(SeparateFunctions):
    """The same with dense covariances, for likelihoods that couple the functions too."""

    functions: list[DensePrior]  # type: ignore[assignment]

    def __init__(
        self,
        kernel: Kernel | PerLatent,
        inputs: Inputs | ArrayLike,
        n_latent: int,
        mean_function: PerLatent | None = None,
    ) -> None:
        given = inputs if isinstance(inputs, Inputs) else Inputs(inputs)
        super().__init__(Dense(), kernel, given, n_latent, mean_function)

    def unwhiten(self, U: Array) -> Array:
        """f = mean + L U for standard normal U of shape (S, n, L)."""
        moved = [p.factor.multiply(U[:, :, c].T).T for c, p in enumerate(self.functions)]
        return np.asarray(self.mean + np.stack(moved, axis=-1))

    def whiten(self, F: Array) -> Array:
        """U with mean + L U = F, shapes (S, n, L)."""
        centered = F - self.mean
        white = [p.whiten(np.ascontiguousarray(centered[:, :, c].T)).T for c, p in enumerate(self.functions)]
        return np.ascontiguousarray(np.stack(white, axis=-1))

    @property
    def white_jitter(self) -> float:
        """The largest amount added to the diagonal of a covariance matrix for L."""
        return max(p.white_jitter for p in self.functions)

    def at(self, kernel: Any, mean_function: Any) -> SeveralDense:
        """The same rows with other hyperparameters, in memory of its own."""
        return SeveralDense(kernel, self.X, self.n_latent, mean_function)

    def rows(self, index: Any) -> SeveralDense:
        """The same processes at some of the rows."""
        return SeveralDense(self.kernel, self.X[index], self.n_latent, self.mean_function)

    def condition(self, W: Array) -> BlockConditioning:
        """Given a curvature of any symmetric blocks, shape (n, L, L)."""
        return BlockConditioning(self, W)

    def condition_softmax(self, D: Array) -> SoftmaxConditioning:
        """Given the curvature D - D R1 (R1'D R1)^-1 R1'D of a softmax, shape (n, L)."""
        return SoftmaxConditioning(self, D)

    def downward(self, W: Array) -> tuple[Array, Array]:
        """(da, K da), shapes (n, L), for the eigenvector of the smallest eigenvalue of I + L' W L."""
        from scipy.linalg import eigh

        _, vectors = eigh(BlockConditioning.whitened(self, W), subset_by_index=[0, 0], lower=True)
        u = vectors[:, 0].reshape(self.n_latent, -1)
        factors = [p.factor for p in self.functions]
        da = np.column_stack([F.half_solve_transposed(x) for F, x in zip(factors, u)])
        return da, np.column_stack([F.multiply(x[:, None])[:, 0] for F, x in zip(factors, u)])

    def process(self, weights: Array, conditioning: SeveralConditioning) -> SeveralPosteriorProcess:
        """The posterior processes anywhere, given weights (n, L)."""
        known = {id(p): Expansion(p.kernel, p._prepared, self.X) for p in self.functions}
        each = [known[id(p)] for p in self.functions]
        return SeveralPosteriorProcess(each, self.mean_function, weights, conditioning)

    def pull(self, cotangent: Callable[[int, slice, slice], Array]) -> Array:
        """Gradient, in the natural values of the kernels, of sum_c sum_ij G^c_ij K^c_ij.

        `cotangent(c, rows, columns)` gives a fresh tile of the symmetric G^c.
        """
        if not self.shared:
            pieces = [
                p.pull(lambda rows, columns, c=c: cotangent(c, rows, columns))  # type: ignore[misc]
                for c, p in enumerate(self.functions)
            ]
            return np.concatenate(pieces)

        def total(rows: slice, columns: slice) -> Array:
            G = cotangent(0, rows, columns)
            for c in range(1, self.n_latent):
                G += cotangent(c, rows, columns)
            return G

        return self.functions[0].pull(total)


# --- corrections --------------------------------------------------------------------------------------------


class DenseConditioning(ABC):
    """What follows from R_cc of every function, whatever the curvature."""

    prior: SeveralDense

    @abstractmethod
    def into_matrices(self) -> list[Array]:
        """R_cc of every function, in lower triangles; the conditioning may be gone afterwards."""

    def pull_prior(self, left: Array, right: Array, d_log_det: float) -> PriorGradient:
        """See the protocol; may use up the conditioning."""
        R = self.into_matrices()

        def cotangent(c: int, rows: slice, columns: slice) -> Array:
            G: Array = R[c][rows, columns] * d_log_det
            G += 0.5 * np.outer(left[rows, c], right[columns, c])
            G += 0.5 * np.outer(right[rows, c], left[columns, c])
            return G

        return PriorGradient(self.prior.pull(cotangent))

    def loss(self) -> Loss:
        """Nothing."""
        return Loss()

    def marginal_blocks(self) -> Array:
        """Posterior covariance blocks at the training inputs, shape (n, L, L), with all their digits."""
        prior = self.prior
        process = prior.process(np.zeros((prior.n, prior.n_latent)), cast(SeveralConditioning, self))
        return process.blocks(prior.X)


class SoftmaxConditioning(DenseConditioning):
    """R for W = D - D R1 (R1'D R1)^-1 R1'D.

    Parameters
    ----------
    D : array (n, L)
        Positive; rows add up to the sample weights.
    """

    def __init__(self, prior: SeveralDense, D: Array) -> None:
        self.prior, self.D, self.jitter = prior, D, 0.0
        self.curvature = D
        self._information = np.empty_like(D)
        self.E: list[Array] = []
        """E_c, in lower triangles."""
        self.log_det = 0.0
        total = np.zeros((prior.n, prior.n))
        for function, d in zip(prior.functions, D.T):
            root = np.sqrt(d)

            def build(K: Array = function.covariance, root: Array = root) -> Array:
                B = K * root
                B *= root[:, None]
                B.reshape(-1)[:: len(B) + 1] += 1.0
                return B

            factor = factorize(build, function.explain)
            self.log_det += factor.log_det
            self.jitter = max(self.jitter, factor.jitter)
            E = factor.into_inverse()
            self._information[:, len(self.E)] = 1.0 - np.diagonal(E)
            E *= root
            E *= root[:, None]
            total += E
            self.E.append(E)
        self.M = factorize(total.copy)
        # |I + K W| = prod_c |B_c| |sum_c E_c| / |R1'D R1|; the book's Algorithm 3.3 lacks |sum_c E_c|.
        self.log_det += self.M.log_det - float(np.log(D.sum(axis=1)).sum())

    @property
    def smallest_curvature(self) -> float:
        """A softmax is log-concave."""
        return 1.0

    def _times_E(self, c: int, U: Array) -> Array:
        """E_c U for U (n, m), reading the lower triangle."""
        return np.asarray(dsymm(1.0, self.E[c].T, U, lower=0))

    def project(self, b: Array) -> tuple[Array, Array]:
        """(I - R K) b and K times that."""
        Kb = self.prior.times(b)
        EKb = np.column_stack([self._times_E(c, Kb[:, [c]])[:, 0] for c in range(b.shape[1])])
        z = self.M.solve(EKb.sum(axis=1))
        back = np.column_stack([self._times_E(c, z[:, None])[:, 0] for c in range(b.shape[1])])
        a = b - EKb + back
        return a, self.prior.times(a)

    def reduce(self, cross: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """U_c = E_c k_c and V_c = L_M^-1 E_c k_c."""
        U = [self._times_E(c, k) for c, k in enumerate(cross)]
        return U, [self.M.half_solve(u) for u in U]

    @cached_property
    def _Q(self) -> list[Array]:
        """L_M^-1 E_c, of every function."""
        return [self.M.half_solve(mirror_lower(E)) for E in self.E]

    def training_blocks(self) -> Array:
        """Posterior covariance blocks at the training inputs, shape (n, L, L), for gradients.

        The variance of a function whose D is tiny has few digits; its weight in a gradient is as tiny.
        """
        functions = self.prior.functions
        blocks = cross_products([Q @ p.covariance for Q, p in zip(self._Q, functions)])
        for c, p in enumerate(functions):
            blocks[:, c, c] += np.clip(self._information[:, c] / self.D[:, c], 0.0, p.diagonal)
        return blocks

    def into_matrices(self) -> list[Array]:
        """R_cc of every function, in lower triangles; overwrites E."""
        for E, Q in zip(self.E, self._Q):
            E -= Q.T @ Q
        return self.E


class BlockConditioning(DenseConditioning):
    """R for any symmetric W, through M = I + L' W L with K = L L'.

    Parameters
    ----------
    W : array (n, L, L)

    Raises
    ------
    ImproperPosteriorError
        If K^-1 + W is not positive definite.
    """

    def __init__(self, prior: SeveralDense, W: Array) -> None:
        self.prior, self.W, self.curvature = prior, W, W
        self.jitter = max(p.factor.jitter for p in prior.functions)
        self.factors = [p.factor for p in prior.functions]
        factor = try_factorize(self.whitened(prior, W))
        if factor is None:
            raise ImproperPosteriorError(
                "the posterior is improper: negative curvature of the likelihood outweighs the prior"
            )
        self.M: Cholesky = factor
        self.log_det = factor.log_det

    @cached_property
    def smallest_curvature(self) -> float:
        """The smallest eigenvalue of M if it is below one, by inverse iteration."""
        n = len(self.M.lower)
        x, size = np.ones(n) / np.sqrt(n), 1.0
        for _ in range(INVERSE_ITERATIONS):
            x = self.M.solve(x)
            size = float(np.linalg.norm(x))
            x /= size
        return min(1.0, 1.0 / size)

    @staticmethod
    def whitened(prior: SeveralDense, W: Array) -> Array:
        """I + L' W L, shape (L n, L n), function by function."""
        n, L = prior.n, prior.n_latent
        roots = [np.tril(p.factor.lower) for p in prior.functions]
        M = np.empty((L * n, L * n))
        for c in range(L):
            for d in range(c + 1):
                M[c * n : (c + 1) * n, d * n : (d + 1) * n] = roots[c].T @ (W[:, c, d, None] * roots[d])
        M.reshape(-1)[:: L * n + 1] += 1.0
        return M

    def project(self, b: Array) -> tuple[Array, Array]:
        """K^-1 Sigma b and Sigma b, by whitened coordinates."""
        n = self.prior.n
        rotated = [np.tril(F.lower).T @ x for F, x in zip(self.factors, b.T)]
        u = self.M.solve(np.concatenate(rotated)).reshape(-1, n)
        a = np.column_stack([F.half_solve_transposed(x) for F, x in zip(self.factors, u)])
        return a, np.column_stack([F.multiply(x[:, None])[:, 0] for F, x in zip(self.factors, u)])

    def reduce(self, cross: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """U_c = K_c^-1 k_c and V_c = L_M^-1 (0, .., L_c^-1 k_c, .., 0)."""
        n, L = self.prior.n, self.prior.n_latent
        U, V = [], []
        for c, k in enumerate(cross):
            whitened = self.factors[c].half_solve(k)
            U.append(self.factors[c].half_solve_transposed(whitened))
            padded = np.zeros((L * n, k.shape[1]))
            padded[c * n : (c + 1) * n] = whitened
            V.append(self.M.half_solve(padded))
        return U, V

    @cached_property
    def _Sigma(self) -> Array:
        """Posterior covariance L M^-1 L' of all functions at all training inputs, shape (L, n, L, n)."""
        n, L = self.prior.n, self.prior.n_latent
        half = np.vstack([self.M.half_solve(x).T for x in self._roots()])
        return (half @ half.T).reshape(L, n, L, n)

    def _roots(self) -> Iterator[Array]:
        """L_c' in the rows of its function, zero elsewhere, shape (L n, n)."""
        n, L = self.prior.n, self.prior.n_latent
        for c, F in enumerate(self.factors):
            padded = np.zeros((L * n, n))
            padded[c * n : (c + 1) * n] = np.tril(F.lower).T
            yield padded

    def training_blocks(self) -> Array:
        """Posterior covariance blocks at the training inputs, shape (n, L, L)."""
        return np.array(np.einsum("cidi->icd", self._Sigma))

    def into_matrices(self) -> list[Array]:
        """R_cc of every function."""
        return [self.matrix(c, c) for c in range(self.prior.n_latent)]

    def matrix(self, c: int, d: int) -> Array:
        """R_cd = W_cd - sum_ef W_ce Sigma_ef W_fd, of two functions: no inverse of K, which may have few digits."""
        left, right = self.W[:, c, :].T, self.W[:, :, d].T
        R = -np.einsum("di,diej,ej->ij", left, self._Sigma, right, optimize=True)
        R[np.diag_indices_from(R)] += self.W[:, c, d]
        return np.asarray(R)
