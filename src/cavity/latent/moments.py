"""Mean and variance of a process at any inputs, with one pullback for whatever is made of them.

With cross-covariances k = k(x, Z) to the inputs Z that the process predicts from,

    m_s(x) = m(x) + k' w_s,    v(x) = k(x, x) - k' R k,

for S columns of weights. If a scalar has derivatives a_s in m_s and c in v, its gradient in x is
sum_i G_i dk(x, z_i)/dx with G = sum_s a_s w_s - 2 c R k, plus those of m(x) and k(x, x): one block of the kernel, one
product with R and one pull, whatever the scalar is.

Values of the function at further inputs P join as rows that are known exactly, without another factorization than that
of their p x p covariance C: with B = R k(Z, P) and E = [-B; I], the posterior covariance k(x, [Z, P]) E, so that

    w_s <- [w; 0] + E C^-1 (f_s - m(P)),    R <- [[R, 0], [0, 0]] + E C^-1 E'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from cavity.kernels.base import Kernel, Rows
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky

if TYPE_CHECKING:
    from cavity.means.functions import Mean

Pullback = Callable[[Array, Array], Array]
"""(d_mean (m, S), d_variance (m,)) -> gradient in the inputs (m, D)."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and variance of f anywhere, and their pullback.

    Attributes
    ----------
    kernel : Kernel
    Z : array (n, D)
        Inputs that it predicts from.
    rows : prepared Z
    mean_function : Mean or None
    weights : array (n, S)
        One column for each mean function; variances do not depend on it.
    R : array (n, n)
    known : int
        How many of the last inputs were added as known values.
    """

    kernel: Kernel
    Z: Array
    rows: Rows
    mean_function: Mean | None
    weights: Array
    R: Array
    known: int = 0

    def _prepared(self, X: Array) -> Rows:
        return self.kernel._prepare(X, np.full(len(X), -1))

    def _parts(self, X: Array) -> tuple[Rows, Array, Array, Array, Array, Array]:
        a = self._prepared(X)
        K = self.kernel._block(a, self.rows)
        RK = K @ self.R
        mean = K @ self.weights
        if self.mean_function is not None:
            mean += self.mean_function(X)[:, None]
        prior = self.kernel._diag(a)
        variance = prior - np.einsum("ij,ij->i", K, RK)
        return a, K, RK, mean, np.maximum(variance, np.finfo(float).eps * prior), prior

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Means (m, S) and variances (m,)."""
        parts = self._parts(X)
        return parts[3], parts[4]

    def relative(self, X: Array) -> tuple[Array, Array, Array]:
        """Means, variances, and the prior variances (m,)."""
        return self._parts(X)[3:]

    def with_pull(self, X: Array) -> tuple[Array, Array, Pullback]:
        """Means (m, S), variances (m,) and the pullback of any function of them to the inputs."""
        a, K, RK, mean, variance, _ = self._parts(X)

        def pull(d_mean: Array, d_variance: Array) -> Array:
            G = d_mean @ self.weights.T - 2.0 * d_variance[:, None] * RK
            out: Array = self.kernel._pull_inputs(a, self.rows, G, K)[0]
            out = out + self.kernel._pull_diag_inputs(a, d_variance)
            if self.mean_function is not None:
                out = out + self.mean_function.pull_inputs(X, d_mean.sum(axis=1))
            return out

        return mean, variance, pull

    def covariance(self, X: Array, Y: Array) -> Array:
        """Posterior covariance of f between rows of X and of Y, shape (m, l)."""
        a, b = self._prepared(X), self._prepared(Y)
        left, right = self.kernel._block(a, self.rows), self.kernel._block(b, self.rows)
        return np.asarray(self.kernel._block(a, b) - left @ self.R @ right.T)

    def covariance_with_pull(self, X: Array, Y: Array) -> tuple[Array, Callable[[Array], Array]]:
        """Covariances (m, l) between rows of X and of Y, and the pullback (m, l) -> (m, D) to X."""
        a, b = self._prepared(X), self._prepared(Y)
        K, cross = self.kernel._block(a, self.rows), self.kernel._block(a, b)
        right = self.R @ self.kernel._block(b, self.rows).T

        def pull(d_covariance: Array) -> Array:
            first = self.kernel._pull_inputs(a, b, d_covariance, cross)[0]
            second = self.kernel._pull_inputs(a, self.rows, -d_covariance @ right.T, K)[0]
            return np.asarray(first + second)

        return cross - K @ right, pull

    def at(self, X: Array) -> tuple[Array, Array]:
        """Means (l,) of the first column and covariance matrix (l, l) at a few inputs."""
        mean = self(X)[0][:, 0]
        covariance = self.covariance(X, X)
        return mean, 0.5 * (covariance + covariance.T)

    def given(self, P: Array, draw: Callable[[Array, Array], Array]) -> Moments:
        """The process if its values at P (p, D) were known.

        `draw(mean, lower)` makes them, (S, p), from their mean (p,) and the Cholesky factor of their covariance.
        """
        mean, C = self.at(P)
        # the covariance of values that the data determine is rounding: jitter is a share of the prior's size
        floor = 1e-10 * self.kernel._diag(self._prepared(P))
        lower = Cholesky.of(C + np.diag(floor)).lower
        values = draw(mean, np.tril(lower))
        B = self.R @ self.kernel._block(self.rows, self._prepared(P))
        E = np.vstack([-B, np.eye(len(P))])
        weights = np.vstack([self.weights[:, :1], np.zeros((len(P), 1))])
        weights = weights + E @ cho_solve((lower, True), (values - mean).T)
        R = np.zeros((len(E), len(E)))
        R[: len(B), : len(B)] = self.R
        R += E @ cho_solve((lower, True), E.T)
        Z = np.vstack([self.Z, P])
        return replace(
            self,
            Z=Z,
            rows=self.kernel._prepare(Z, np.full(len(Z), -2)),
            weights=weights,
            R=0.5 * (R + R.T),
            known=self.known + len(P),
        )


def moments_of(process: Any) -> Moments:
    """Of a posterior process that predicts from kernel values and has no integrated basis functions.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.design import moments_of
    >>> from cavity.kernels import SE
    >>> posterior = GP(1.0 * SE(1.0)).condition([[0.0], [1.0]], [0.5, -0.5])
    >>> mean, variance = moments_of(posterior.process)(np.array([[0.0], [9.0]]))
    >>> mean.shape, bool(variance[0] < variance[1])
    ((2, 1), True)
    """
    if process.basis is not None:
        raise ValueError(
            "moments with a pullback are not for basis functions whose weights are integrated out"
        )
    weights = process.weights if process.weights.ndim == 2 else process.weights[:, None]
    R: NDArray[np.float64] = process.conditioning.matrix()
    return Moments(process.kernel, process.X, process.rows, process.mean_function, weights, R)
