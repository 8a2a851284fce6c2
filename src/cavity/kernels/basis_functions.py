"""Explicit basis functions as a covariance: k(x, x') = h(x)' B h(x') (Rasmussen and Williams, 2006, eq. 2.40).

This is how inference rules other than the exact one integrate out the weights of a `Basis`. It has no parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Given, Rows
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.means.basis import Basis


class FeatureKernel(Given):
    """k(x, x') = h(x)' B h(x') for the basis functions h of a `Basis` with a finite prior covariance B."""

    def __init__(self, basis: Basis) -> None:
        if basis.vague:
            raise ValueError(
                "FeatureKernel needs weights with a finite prior covariance; use basis.with_prior(...)"
            )
        self.basis = basis
        self._root = np.linalg.cholesky(basis.prior_covariance)
        self._set_up({})

    def __repr__(self) -> str:
        return f"FeatureKernel({self.basis!r})"

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        return (self.basis.features(X) @ self._root, X)

    def _block(self, a: Rows, b: Rows) -> Array:
        return np.asarray(a[0] @ b[0].T)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        pull = self.basis.pull_features_inputs
        return pull(a[1], G @ b[0] @ self._root.T), pull(b[1], G.T @ a[0] @ self._root.T)

    def _diag(self, a: Rows) -> Array:
        return np.asarray(np.einsum("ij,ij->i", a[0], a[0]))

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.asarray(self.basis.pull_features_inputs(a[1], 2.0 * g[:, None] * (a[0] @ self._root.T)))
