"""Kernels with another variance (Rasmussen and Williams, 2006, section 4.2.4).

Rescaled     k = s(x) k_1(x, x') s(x')                       an amplitude that depends on the input
Normalized   k = k_1(x, x') / sqrt(k_1(x, x) k_1(x', x'))    variance 1 everywhere
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Rows
from cavity.kernels.wrapper import FunctionWrapper, Wrapper
from cavity.numerics.arrays import Array


class Rescaled(FunctionWrapper):
    """Vertical rescaling, k(x, x') = s(x) k_1(x, x') s(x'): an amplitude that depends on the input.

    Parameters
    ----------
    kernel : Kernel
    function : str or callable
        s: inputs (n, D) to (n, 1) or (n,); any sign.
    jacobian : callable, optional
        Inputs (n, D) to (n, 1, D). Without it derivatives in the inputs are refused.

    Examples
    --------
    >>> from cavity.kernels import SE, Rescaled
    >>> Rescaled(SE(1.0), "sqrt")([[1.0], [4.0]]).round(3)
    array([[1.   , 0.022],
           [0.022, 4.   ]])
    """

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        s = self.function(X, "Rescaled")
        if s.shape[1] != 1:
            raise ValueError(f"Rescaled: {self.function!r} must return one value per row, got {s.shape[1]}")
        return self.kernel._prepare(X, ids), s[:, 0], X

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[0], b[0])
        K *= a[1][:, None]
        K *= b[1]
        return K

    def _inner(self, a: Rows, b: Rows, G: Array) -> tuple[Array, Array]:
        return G * a[1][:, None] * b[1], self.kernel._block(a[0], b[0])

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        return self.kernel._pull(a[0], b[0], *self._inner(a, b, G))

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner_G, inner_K = self._inner(a, b, G)
        dA, dB = self.kernel._pull_inputs(a[0], b[0], inner_G, inner_K)
        W = G * inner_K
        slope_a, slope_b = (self.function.slopes(r[2], 1, "Rescaled")[:, 0] for r in (a, b))
        return dA + (W @ b[1])[:, None] * slope_a, dB + (a[1] @ W)[:, None] * slope_b

    def _diag(self, a: Rows) -> Array:
        return cast(Array, a[1] ** 2 * self.kernel._diag(a[0]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return self.kernel._pull_diag(a[0], g * a[1] ** 2)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        own = (2.0 * g * a[1] * self.kernel._diag(a[0]))[:, None] * self.function.slopes(a[2], 1, "Rescaled")[
            :, 0
        ]
        return cast(Array, own + self.kernel._pull_diag_inputs(a[0], g * a[1] ** 2))


class Normalized(Wrapper):
    """Variance 1 everywhere, k = k_1(x, x') / sqrt(k_1(x, x) k_1(x', x')).

    Parameters
    ----------
    kernel : Kernel
        Its variance must be positive at every input.

    Examples
    --------
    >>> from cavity.kernels import Linear, Normalized
    >>> Normalized(Linear())([[1.0], [2.0]]).round(3)
    array([[1.   , 0.949],
           [0.949, 1.   ]])
    """

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        rows = self.kernel._prepare(X, ids)
        variance = self.kernel._diag(rows)
        if not (variance > 0).all():
            row = int(np.argmin(variance > 0))
            raise ValueError(
                f"Normalized: the variance of {self.kernel!r} is 0 at row {row}, x = {X[row].tolist()}"
            )
        return rows, variance, 1.0 / np.sqrt(variance)

    def _block(self, a: Rows, b: Rows) -> Array:
        K = self.kernel._block(a[0], b[0])
        K *= a[2][:, None]
        K *= b[2]
        if a is b:
            np.fill_diagonal(K, 1.0)
        return K

    def _cotangents(self, a: Rows, b: Rows, G: Array) -> tuple[Array, Array, Array, Array]:
        """Cotangent of k_1(a, b), k_1(a, b) itself, and cotangents of the variances at a and b."""
        inner_K = self.kernel._block(a[0], b[0])
        inner_G = G * a[2][:, None]
        inner_G *= b[2]
        W = inner_G * inner_K
        return inner_G, inner_K, -0.5 * W.sum(axis=1) / a[1], -0.5 * W.sum(axis=0) / b[1]

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        inner_G, inner_K, ga, gb = self._cotangents(a, b, G)
        pulled = self.kernel._pull(a[0], b[0], inner_G, inner_K)
        return pulled + self.kernel._pull_diag(a[0], ga) + self.kernel._pull_diag(b[0], gb)

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        inner_G, inner_K, ga, gb = self._cotangents(a, b, G)
        dA, dB = self.kernel._pull_inputs(a[0], b[0], inner_G, inner_K)
        return dA + self.kernel._pull_diag_inputs(a[0], ga), dB + self.kernel._pull_diag_inputs(b[0], gb)

    def _diag(self, a: Rows) -> Array:
        return np.ones(len(a[1]))

    def _pull_diag(self, a: Rows, g: Array) -> Array:
        return np.zeros(self.flat.size)

    def _pull_diag_inputs(self, a: Rows, g: Array) -> Array:
        return np.zeros_like(self.kernel._pull_diag_inputs(a[0], g))
