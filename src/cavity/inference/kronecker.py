"""Exact inference for several outputs that were all seen at the same inputs: two small matrices instead of a large one.

With covariances B of the p outputs and K of the n inputs, and normal noise of covariance Sigma across the outputs of a
row, the targets Y (n, p) have covariance B x K + Sigma x I. Whitened by Sigma, with the decompositions

    Sigma^-1/2 B Sigma^-1/2 = U diag(lambda) U',    K = V diag(s) V',    z = V' (Y - 1 c') Sigma^-1/2 U

everything is diagonal, with weights w_ik = 1 / (s_i lambda_k + 1):

    log p = -1/2 sum w z^2 + 1/2 sum log w - n/2 log |Sigma| - n p / 2 log 2 pi

in O(n^3 + p^3) instead of O(n^3 p^3). Constants c of highest likelihood are found in the same coordinates. Noise may be
correlated across outputs at no further cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from cavity.kernels.base import Kernel
from cavity.kernels.outputs import Coregionalized
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.runtime.errors import InputError


@dataclass(frozen=True, eq=False)
class Kronecker:
    """Several outputs at the same inputs, with normal noise.

    Parameters
    ----------
    kernel : Kernel
        Of the inputs.
    table : array (p, p)
        Covariances of the outputs.
    noise : array (p, p)
        Covariances of the noise across outputs.
    X, Y : arrays (n, D), (n, p)
    constants : bool
        Whether each output has a constant mean, of highest likelihood; zero otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.inference import Kronecker
    >>> from cavity.kernels import SE
    >>> B, X, Y = np.array([[1.0, 0.8], [0.8, 1.0]]), np.array([[0.0], [1.0]]), np.array([[0.1, 0.2], [0.5, 0.4]])
    >>> found = Kronecker(SE(1.0), B, 0.05 * np.eye(2), X, Y)
    >>> round(found.log_evidence, 6), found.mean([[0.5]]).round(3)
    (-2.715747, array([[0.324, 0.324]]))
    """

    kernel: Kernel
    table: Array
    noise: Array
    X: Array
    Y: Array
    constants: bool = False

    @classmethod
    def of(
        cls, kernel: Coregionalized, noise: ArrayLike, X: Array, Y: Array, *, constants: bool = False
    ) -> Self:
        """For a kernel of several outputs; noise as variances (p,) or a covariance (p, p)."""
        given = np.asarray(noise, dtype=float)
        return cls(kernel.kernel, kernel.table, np.diag(given) if given.ndim == 1 else given, X, Y, constants)

    def __post_init__(self) -> None:
        if not np.isfinite(self.Y).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(self.Y))[0])
            raise InputError(
                f"every output must be seen at every row, but row {row} of output {column} is {self.Y[row, column]}",
                parameter="Y",
                row=row,
                remedy="use the long form, Coregionalized with Switch, which leaves such entries out",
            )

    @cached_property
    def _outputs(self) -> tuple[Array, Array, Array, float]:
        """Sigma^-1/2 U, lambda, Sigma^1/2 U and log |Sigma|."""
        lower = np.linalg.cholesky(self.noise)
        whitened = np.linalg.solve(lower, np.linalg.solve(lower, self.table).T)
        values, U = eigh(0.5 * (whitened + whitened.T))
        log_det = 2.0 * float(np.log(np.diag(lower)).sum())
        return np.linalg.solve(lower.T, U), np.maximum(values, 0.0), lower @ U, log_det

    @cached_property
    def _inputs(self) -> tuple[Array, Array, Array]:
        """K, its eigenvalues and eigenvectors."""
        K = self.kernel(self.X)
        values, V = eigh(K, driver="evd")
        return K, np.maximum(values, 0.0), V

    @cached_property
    def _weights(self) -> Array:
        """w, shape (n, p)."""
        return 1.0 / (np.multiply.outer(self._inputs[1], self._outputs[1]) + 1.0)

    @cached_property
    def constant(self) -> Array:
        """Means of the outputs, shape (p,)."""
        p = self.Y.shape[1]
        if not self.constants:
            return np.zeros(p)
        V, whiten, back = self._inputs[2], self._outputs[0], self._outputs[2]
        z, h, w = V.T @ self.Y @ whiten, V.sum(axis=0), self._weights
        return np.asarray(back @ ((w * h[:, None] * z).sum(axis=0) / (h**2 @ w)))

    @cached_property
    def _z(self) -> Array:
        return np.asarray(self._inputs[2].T @ (self.Y - self.constant) @ self._outputs[0])

    @cached_property
    def log_evidence(self) -> float:
        """log p(Y)."""
        w, (n, p) = self._weights, self.Y.shape
        fit = -0.5 * float(np.sum(w * self._z**2)) + 0.5 * float(np.log(w).sum())
        return float(fit - 0.5 * n * self._outputs[3] - 0.5 * n * p * LOG_2PI)

    @cached_property
    def weights(self) -> Array:
        """(B x K + Sigma x I)^-1 (Y - 1 c'), shape (n, p)."""
        return np.asarray(self._inputs[2] @ (self._weights * self._z) @ self._outputs[0].T)

    def gradient(self) -> tuple[Array, Array, Array]:
        """Derivatives of the log evidence in K (n, n), in B (p, p) and in Sigma (p, p)."""
        K, s, V = self._inputs
        whiten, values, _, _ = self._outputs
        w, a = self._weights, self.weights
        of_K = a @ self.table @ a.T - (V * (w @ values)) @ V.T
        of_B = a.T @ K @ a - (whiten * (s @ w)) @ whiten.T
        of_noise = a.T @ a - (whiten * w.sum(axis=0)) @ whiten.T
        return 0.5 * of_K, 0.5 * of_B, 0.5 * of_noise

    def mean(self, X: ArrayLike) -> Array:
        """Posterior means of the functions, shape (m, p)."""
        return np.asarray(self.kernel(X, self.X) @ self.weights @ self.table + self.constant)

    def covariance(self, X: ArrayLike) -> Array:
        """Posterior covariances of the outputs at each row, shape (m, p, p)."""
        _, _, V = self._inputs
        whiten = self._outputs[0]
        known = (self.kernel(X, self.X) @ V) ** 2 @ self._weights  # (m, p)
        spread = self.table @ whiten
        prior = self.kernel.diag(X)[:, None, None] * self.table
        return np.asarray(prior - np.einsum("ok,mk,qk->moq", spread, known, spread, optimize=True))
