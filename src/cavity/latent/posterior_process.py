"""The posterior process anywhere, for representations that predict from kernel values at some inputs.

    mean(x*)       = m(x*) + h(x*)' beta + k(X, x*)' weights
    cov(x*, x*')   = k(x*, x*') - k(X, x*)' R k(X, x*') + r(x*)' Q^-1 r(x*'),    r(x*) = h(x*) - H' R k(X, x*)

X are the training inputs of a dense prior (of others the inputs that stand for them), R = (K + T^-1)^-1 is that of a
`Conditioning`, and if basis functions h were integrated out, their posterior weights are N(beta, Q^-1) (Rasmussen and
Williams 2006, eq. 2.41 and 2.42). Several targets that share a kernel share
everything but the mean. Test points are visited in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import Kernel, Rows, new_inputs
from cavity.kernels.with_slopes import WithSlopes, values
from cavity.latent.base import Conditioning
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import covariance_root

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.means.basis import Basis
    from cavity.means.functions import Mean

BLOCK_DOUBLES = 4_000_000
"""Entries of the cross-covariance held at a time when predicting (32 MB)."""


class PosteriorProcess:
    """A Gaussian process conditioned on sites or observations.

    Parameters
    ----------
    kernel, rows : Kernel and its prepared training inputs
    mean_function : Mean or None
    weights : array (n,) or (n, T)
    conditioning : Conditioning
    basis : BasisWeights, optional
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        X: Array,
        mean_function: Mean | None,
        weights: Array,
        conditioning: Conditioning,
        basis: BasisWeights | None = None,
    ) -> None:
        self.kernel, self.rows, self.X = kernel, rows, X
        self.mean_function, self.weights = mean_function, weights
        self.conditioning, self.basis = conditioning, basis
        self.degenerate = conditioning.degenerate

    # --- inputs ---------------------------------------------------------------------------------------------

    def _inputs(self, X: ArrayLike) -> Array:
        return new_inputs(X, self.X.shape[1])

    def _prepare(self, X: Array) -> Rows:
        return self.kernel._prepare(X, np.full(len(X), -1))

    def _blocks(self, X: Array) -> Iterator[slice]:
        size = max(1, BLOCK_DOUBLES // max(1, len(self.X)))
        for start in range(0, len(X), size):
            yield slice(start, min(start + size, len(X)))

    def _prior_mean(self, X: Array) -> Array:
        mean = np.zeros(len(X)) if self.mean_function is None else self.mean_function(X)
        if self.basis is not None:
            extra = self._features(X) @ self.basis.shift
            mean = mean + extra if extra.ndim == 1 else mean[:, None] + extra
        return mean

    def _features(self, X: Array) -> Array:
        return cast("Basis", self.mean_function).features(X)

    # --- moments --------------------------------------------------------------------------------------------

    def mean(self, X: ArrayLike) -> Array:
        """Posterior mean of f at X, shape (m,) or (m, T)."""
        X = self._inputs(X)
        out = self._prior_mean(X)
        if self.weights.ndim == 2 and out.ndim == 1:
            out = np.repeat(out[:, None], self.weights.shape[1], axis=1)
        for block in self._blocks(X):
            out[block] += self.kernel._block(self._prepare(X[block]), self.rows) @ self.weights
        return out

    def variance(self, X: ArrayLike) -> Array:
        """Posterior variance of f at X, shape (m,).

        It is a difference of two numbers; where that is below the rounding error of the prior variance, the
        rounding error is returned, so that it is never negative.
        """
        X = self._inputs(X)
        out = np.empty(len(X))
        for block in self._blocks(X):
            a = self._prepare(X[block])
            prior = self.kernel._diag(a)
            cross = self.kernel._block(self.rows, a)
            minus, plus = self.conditioning.reduce(cross)
            value = (0.0 if self.degenerate else prior) - np.einsum("ij,ij->j", minus, minus)
            if plus is not None:
                value += np.einsum("ij,ij->j", plus, plus)
            if self.basis is not None:
                r = self._basis_root(X[block], cross)
                value += np.einsum("ij,ij->j", r, r)
            out[block] = np.maximum(value, np.finfo(float).eps * prior)
        return out

    def _basis_root(self, X: Array, cross: Array) -> Array:
        """L_Q^-1 r(x*), shape (p, m)."""
        basis = cast("BasisWeights", self.basis)
        return basis.precision.half_solve(self._features(X).T - basis.projection.T @ cross)

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariance of f among the rows of X, shape (m, m)."""
        X = self._inputs(X)
        a = self._prepare(X)
        cross = self.kernel._block(self.rows, a)
        minus, plus = self.conditioning.reduce(cross)
        cov = self.kernel._block(
            self.kernel._prepare(X, np.arange(len(X))), self.kernel._prepare(X, np.arange(len(X)))
        )
        diagonal = np.einsum("ii->i", cov)
        floor = np.finfo(float).eps * diagonal
        if self.degenerate:
            cov[:] = 0.0
        cov -= minus.T @ minus
        if plus is not None:
            cov += plus.T @ plus
        if self.basis is not None:
            r = self._basis_root(X, cross)
            cov += r.T @ r
        cov = 0.5 * (cov + cov.T)
        diagonal = np.einsum("ii->i", cov)
        np.maximum(diagonal, floor, out=diagonal)
        return cov

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws of f at X, shape (size, m) or, for several targets, (size, m, T)."""
        X = self._inputs(X)
        rng = np.random.default_rng(rng)
        mean, cov = self.mean(X), self.covariance(X)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        noise = covariance_root(cov)(rng.standard_normal((len(X), size * targets)))
        draws = noise.reshape(len(X), size, targets).transpose(1, 0, 2)
        return mean + draws[:, :, 0] if mean.ndim == 1 else mean + draws

    # --- parts ------------------------------------------------------------------------------------------------

    def of_part(self, part: Kernel) -> PosteriorProcess:
        """The process behind some terms of a sum kernel, with the mean function: what is left without the others."""
        return PosteriorProcess(
            part,
            part.prepare(self.X),
            self.X,
            self.mean_function,
            self.weights,
            self.conditioning,
            self.basis,
        )

    # --- slopes ---------------------------------------------------------------------------------------------

    def with_slopes(self) -> PosteriorProcess:
        """The same process on rows of `kernels.values` and `slopes`."""
        from cavity.means.with_slopes import with_slopes

        if isinstance(self.kernel, WithSlopes):
            return self
        kernel, X = WithSlopes(self.kernel), values(self.X)
        mean = None if self.mean_function is None else with_slopes(self.mean_function)
        rows = kernel._prepare(X, np.arange(len(X)))
        return PosteriorProcess(kernel, rows, X, mean, self.weights, self.conditioning, self.basis)

    # --- derivatives in the inputs --------------------------------------------------------------------------

    def mean_gradient(self, X: ArrayLike) -> Array:
        """d mean / dx at each row of X, shape (m, D); for several targets (m, D, T)."""
        X = self._inputs(X)
        if self.weights.ndim == 2:
            columns = [self._one_target(t).mean_gradient(X) for t in range(self.weights.shape[1])]
            return np.stack(columns, axis=-1)
        out = np.zeros(X.shape)
        if self.mean_function is not None:
            out += self.mean_function.pull_inputs(X, np.ones(len(X)))
        if self.basis is not None:
            out += cast("Basis", self.mean_function).pull_features_inputs(
                X, np.broadcast_to(self.basis.shift, (len(X), len(self.basis.shift)))
            )
        for block in self._blocks(X):
            a = self._prepare(X[block])
            K = self.kernel._block(a, self.rows)
            G = np.broadcast_to(self.weights, K.shape)
            out[block] += self.kernel._pull_inputs(a, self.rows, G, K)[0]
        return out

    def _one_target(self, t: int) -> PosteriorProcess:
        basis = self.basis
        if basis is not None:
            basis = basis.of_target(t)
        return PosteriorProcess(
            self.kernel, self.rows, self.X, self.mean_function, self.weights[:, t], self.conditioning, basis
        )

    def variance_gradient(self, X: ArrayLike) -> Array:
        """d variance / dx at each row of X, shape (m, D)."""
        X = self._inputs(X)
        out = np.empty(X.shape)
        for block in self._blocks(X):
            a = self._prepare(X[block])
            K = self.kernel._block(a, self.rows)
            G = -2.0 * self.conditioning.apply(np.ascontiguousarray(K.T)).T
            out[block] = self.kernel._pull_diag_inputs(a, np.full(len(X[block]), float(not self.degenerate)))
            if self.basis is not None:
                # r' Q^-1 r with r = h - (R H)' k: cotangent 2 Q^-1 r on h, and -2 (R H) Q^-1 r on k
                u = 2.0 * self.basis.precision.solve(
                    self._features(X[block]).T - self.basis.projection.T @ K.T
                )
                G = G - (self.basis.projection @ u).T
                out[block] += cast("Basis", self.mean_function).pull_features_inputs(X[block], u.T)
            out[block] += self.kernel._pull_inputs(a, self.rows, G, K)[0]
        return out

    # --- views of the fit -----------------------------------------------------------------------------------

    def component_mean(self, part: Kernel, X: ArrayLike) -> Array:
        """Posterior mean, at X, of the function behind one term of a sum kernel: k_j(x*, X) weights."""
        X = self._inputs(X)
        cross = part._block(part._prepare(X, np.full(len(X), -1)), part.prepare(self.X))
        return cross @ self.weights

    def component_variance(self, part: Kernel, X: ArrayLike) -> Array:
        """Posterior variance, at X, of the function behind one term of a sum kernel."""
        X = self._inputs(X)
        a = part._prepare(X, np.full(len(X), -1))
        cross = part._block(part.prepare(self.X), a)
        minus, plus = self.conditioning.reduce(cross)
        prior = part._diag(a)
        value = (0.0 if self.degenerate else prior) - np.einsum("ij,ij->j", minus, minus)
        if plus is not None:
            value += np.einsum("ij,ij->j", plus, plus)
        if self.basis is not None:
            r = self.basis.precision.half_solve(self.basis.projection.T @ cross)
            value += np.einsum("ij,ij->j", r, r)
        return cast(Array, np.maximum(value, np.finfo(float).eps * prior))

    def weight_functions(self, X: ArrayLike) -> Array:
        """d mean(x*) / dy: how much each target counts for the prediction at x*, shape (n, m) (book section
        2.6).

        h(x*) = R k(X, x*), and with explicit basis functions what their fitted weights add. For sites, the
        derivative is in the equivalent observations (shift / precision).
        """
        X = self._inputs(X)
        cross = self.kernel._block(self.rows, self._prepare(X))
        h = self.conditioning.weigh(cross)
        if self.basis is not None:
            r = self._features(X).T - self.basis.projection.T @ cross
            h = h + self.basis.projection @ self.basis.precision.solve(r)
        return h
