"""The posterior process anywhere: new times join the training times."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.base import new_inputs
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import covariance_root

if TYPE_CHECKING:
    from cavity.latent.integrated_basis import BasisWeights
    from cavity.latent.markov.conditioning import MarkovConditioning
    from cavity.latent.markov.prior import MarkovPrior
    from cavity.means.basis import Basis


class MarkovProcess:
    """The posterior process anywhere: new times join the training times as rows at which nothing was seen."""

    def __init__(
        self,
        prior: MarkovPrior,
        weights: Array,
        conditioning: MarkovConditioning,
        basis: BasisWeights | None = None,
    ) -> None:
        self.prior, self.weights, self.conditioning, self.basis = prior, weights, conditioning, basis
        self.kernel, self.mean_function = prior.kernel, prior.mean_function

    def _joined(self, X: ArrayLike) -> tuple[Array, MarkovPrior]:
        """New inputs, and the prior at training and new times."""
        new = new_inputs(X, 1)
        return new, self.prior.at_times(np.vstack([self.prior.X, new]))

    def _covariance_times(self, joined: MarkovPrior, columns: Array) -> Array:
        """k(X*, X) times columns (n, m), shape (new, m)."""
        padded = np.zeros((joined.n, columns.shape[1]))
        padded[: self.prior.n] = columns
        return joined.times(padded)[self.prior.n :]

    def _conditioned(self, joined: MarkovPrior) -> MarkovConditioning:
        known = self.conditioning
        noise = np.full(joined.n, np.inf if known.observed else 0.0)
        noise[self.prior.order] = known.noise
        return type(known)(joined, noise, observed=known.observed)

    def _features(self, X: Array) -> Array:
        return cast("Basis", self.mean_function).features(X)

    def mean(self, X: ArrayLike) -> Array:
        """Shape (m,), or (m, T) for several targets."""
        new, joined = self._joined(X)
        columns = self.weights if self.weights.ndim == 2 else self.weights[:, None]
        out = self._covariance_times(joined, columns)
        if self.mean_function is not None:
            out = out + self.mean_function(new)[:, None]
        if self.basis is not None:
            out = out + (self._features(new) @ self.basis.shift).reshape(len(new), -1)
        return out if self.weights.ndim == 2 else out[:, 0]

    def _basis_root(self, joined: MarkovPrior, new: Array) -> Array:
        """L_Q^-1 r(x*), shape (p, m); r = h - H'R k(X, x*)."""
        basis = cast("BasisWeights", self.basis)
        return basis.precision.half_solve(
            np.ascontiguousarray((self._features(new) - self._covariance_times(joined, basis.projection)).T)
        )

    def variance(self, X: ArrayLike) -> Array:
        """Shape (m,)."""
        new, joined = self._joined(X)
        out = self._conditioned(joined).var[self.prior.n :]
        if self.basis is not None:
            out = out + np.sum(self._basis_root(joined, new) ** 2, axis=0)
        return np.asarray(np.maximum(out, np.finfo(float).eps * joined.diagonal[self.prior.n :]))

    def covariance(self, X: ArrayLike) -> Array:
        """Shape (m, m)."""
        new, joined = self._joined(X)
        n = self.prior.n
        columns = np.zeros((joined.n, len(new)))
        columns[n + np.arange(len(new)), np.arange(len(new))] = 1.0
        out = self._conditioned(joined).project(columns)[1][n:]
        if self.basis is not None:
            r = self._basis_root(joined, new)
            out = out + r.T @ r
        out = 0.5 * (out + out.T)
        diagonal = np.einsum("ii->i", out)
        np.maximum(diagonal, np.finfo(float).eps * joined.diagonal[n:], out=diagonal)
        return np.asarray(out)

    def sample(self, X: ArrayLike, size: int = 1, rng: np.random.Generator | int | None = None) -> Array:
        """Joint draws, shape (size, m) or, for several targets, (size, m, T)."""
        rng = np.random.default_rng(rng)
        mean = self.mean(X)
        targets = 1 if mean.ndim == 1 else mean.shape[1]
        noise = self._noise(X, size * targets, rng)
        draws = noise.reshape(len(mean), size, targets).transpose(1, 0, 2)
        return np.asarray(mean + draws[:, :, 0] if mean.ndim == 1 else mean + draws)

    def _noise(self, X: ArrayLike, count: int, rng: np.random.Generator) -> Array:
        """Joint draws of what is uncertain, shape (m, count): forward in time; by matrices after exact observations."""
        new, joined = self._joined(X)
        found = self._conditioned(joined).draw(count, rng)
        if found is None:
            return covariance_root(self.covariance(X))(rng.standard_normal((len(new), count)))
        found = found[self.prior.n :]
        if self.basis is not None:
            root = self._basis_root(joined, new)
            found = found + root.T @ rng.standard_normal((len(root), count))
        return found
