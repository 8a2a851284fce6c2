"""`ValueGP`: a Gaussian process that interpolates values at support points, with expectations in closed form.

The prior covariance is s^2 prod_d b_d(x_d, x'_d) with the bumps of `factors`, the noise sd of the values is sigma_v.
With Q_v = K + sigma_v^2 I and beta = Q_v^-1 v, the value is V(s) = k(s)'beta (7.35), and for s' ~ N(m, diag(v))

    E V(s') = l'beta,    l_i = s^2 prod_d E b_d(s'_d, c_id)                                             (7.23), (7.37).

On a grid of support points K = s^2 K_1 x ... x K_D is a Kronecker product: solving, the evidence and expectations
then cost hardly more than the work of one column, and hundred thousands of support points are possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize

from cavity.control.value_iteration.factors import Factor, Line
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_positive

SHORTEST, LONGEST = 0.3, 10.0
"""Bounds of a length scale in units of the spacing of support points: the first values are one spike, from which the
evidence would run to zero or infinity."""

LARGEST_SCORE = 10.0
"""Largest value in prior standard deviations: a spike among zeros must not be taken for noise."""

BLOCK = 4_000_000
"""Numbers in a block of expectations, 32 MB."""

LEARNING_STEPS = 25
"""Iterations of the optimizer in one fit: each begins where the last one ended."""


class Support:
    """Support points and how the columns of the state enter.

    Parameters
    ----------
    axes : sequence of arrays
        Coordinates in each column, for a grid; or
    points : array (m, D)
        Any points.
    factors : sequence of Factor
        One for each column.

    Attributes
    ----------
    points : array (m, D)
    shape : tuple of int
        Of the grid, or (m,).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.value_iteration import Support
    >>> grid = Support.grid([np.linspace(-1, 1, 19), np.linspace(-2, 2, 19)])
    >>> grid.points.shape, grid.spacing.round(3).tolist()
    ((361, 2), [0.111, 0.222])
    """

    def __init__(self, points: ArrayLike, factors: Sequence[Factor] | None = None) -> None:
        self.points: Array = np.array(points, dtype=float)
        if self.points.ndim != 2 or not len(self.points) or not np.isfinite(self.points).all():
            raise ValueError(f"points must be a finite matrix (m, D), got shape {self.points.shape}")
        self.axes: list[Array] | None = None
        self.shape: tuple[int, ...] = (len(self.points),)
        D = self.points.shape[1]
        self.factors: list[Factor] = [Line() for _ in range(D)] if factors is None else list(factors)
        if len(self.factors) != D:
            raise ValueError(f"factors must be one for each of {D} columns, got {len(self.factors)}")

    @classmethod
    def grid(cls, axes: Sequence[ArrayLike], factors: Sequence[Factor] | None = None) -> Support:
        """All combinations of coordinates, the last column changing fastest."""
        lines = [np.array(axis, dtype=float) for axis in axes]
        if not lines or any(a.ndim != 1 or len(a) < 2 or len(np.unique(a)) < len(a) for a in lines):
            raise ValueError(
                "axes must be vectors of at least two different coordinates, one for each column"
            )
        mesh = np.meshgrid(*lines, indexing="ij")
        support = cls(np.stack([part.ravel() for part in mesh], axis=1), factors)
        support.axes, support.shape = lines, tuple(len(a) for a in lines)
        return support

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def spacing(self) -> Array:
        """Typical distance of neighbors in each column, shape (D,)."""
        if self.axes is not None:
            return np.array([np.diff(np.sort(a)).mean() for a in self.axes])
        m, D = self.points.shape
        spread = np.sqrt(12.0) * self.points.std(axis=0)  # the width of a uniform distribution
        return np.asarray(np.maximum(spread, 1e-12) / m ** (1.0 / D))

    @cached_property
    def columns(self) -> list[tuple[Array, Any]]:
        """Different coordinates of each column, and which of them each point has."""
        return [np.unique(self.points[:, d], return_inverse=True) for d in range(self.points.shape[1])]


class ValueGP:
    """Values at support points and everything in between.

    Parameters
    ----------
    support : Support
    values : array (m,)
    lengths : array (D,), optional
        Length scales; two spacings of the support points by default.
    signal : float, optional
        Prior sd s of the values; by default their root mean square.
    noise : float
        sigma_v: how well values are to be met.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.control.value_iteration import Support, ValueGP
    >>> grid = Support.grid([np.linspace(-2, 2, 21)])
    >>> value = ValueGP(grid, np.cos(grid.points[:, 0]), lengths=[1.0])
    >>> value.expected(np.array([[0.5]]), np.array([[0.01]])).round(3)  # cos(0.5) exp(-0.01 / 2)
    array([0.873])
    """

    def __init__(
        self,
        support: Support,
        values: ArrayLike,
        lengths: ArrayLike | None = None,
        signal: float | None = None,
        noise: float = 0.01,
    ) -> None:
        self.support = support
        self.values: Array = np.array(values, dtype=float)
        if self.values.shape != (len(support),) or not np.isfinite(self.values).all():
            raise ValueError(f"values must be {len(support)} finite numbers, got shape {self.values.shape}")
        self.lengths: Array = 2.0 * support.spacing if lengths is None else np.array(lengths, dtype=float)
        if self.lengths.shape != support.spacing.shape or not (self.lengths > 0).all():
            raise ValueError(f"lengths must be {len(support.spacing)} positive numbers, got {lengths!r}")
        require_positive(noise, "noise")
        rms = float(np.sqrt(np.mean(self.values**2)))
        self.signal, self.noise = float(signal or rms or 1.0), float(noise)

    def with_values(self, values: ArrayLike) -> ValueGP:
        """The same Gaussian process with other values."""
        return ValueGP(self.support, values, self.lengths, self.signal, self.noise)

    # --- solving --------------------------------------------------------------------------------------------

    @cached_property
    def _correlations(self) -> list[tuple[Array, Array]]:
        """Bumps between support points and their derivatives in log length scales: by axis, or by column."""
        support = self.support
        axes = support.axes if support.axes is not None else list(support.points.T)
        return [f.correlation(a, a, width) for f, a, width in zip(support.factors, axes, self.lengths)]

    @cached_property
    def spectrum(self) -> tuple[list[Array], list[Array], Array]:
        """On a grid: eigenvectors and eigenvalues of each axis, and the eigenvalues of Q_v on the grid."""
        values, vectors = zip(*(eigh(K) for K, _ in self._correlations))
        total = np.full(self.support.shape, self.signal**2)
        for d, own in enumerate(values):
            total = total * _along(np.maximum(own, 0.0), d, total.ndim)
        return list(vectors), list(values), total + self.noise**2

    @cached_property
    def _factor(self) -> Any:
        """Not on a grid: the Cholesky factor of Q_v."""
        K = np.full((len(self.support),) * 2, self.signal**2)
        for own, _ in self._correlations:
            K *= own
        K[np.diag_indices_from(K)] += self.noise**2
        return cho_factor(K, lower=True)

    def solve(self, B: Array) -> Array:
        """Q_v^-1 B for B of shape (m,) or (m, k)."""
        if self.support.axes is None:
            return np.asarray(cho_solve(self._factor, B))
        vectors, _, total = self.spectrum
        T = B.reshape(self.support.shape + B.shape[1:])
        for d, U in enumerate(vectors):
            T = _apply(U.T, T, d)
        T = T / total.reshape(total.shape + (1,) * (B.ndim - 1))
        for d, U in enumerate(vectors):
            T = _apply(U, T, d)
        return np.asarray(T.reshape(B.shape))

    @cached_property
    def beta(self) -> Array:
        """Q_v^-1 v, shape (m,)."""
        return self.solve(self.values)

    # --- expectations ---------------------------------------------------------------------------------------

    def rows(self, mean: Array, variance: Array) -> Array:
        """The vectors l of (7.37), shape (B, m), for s' ~ N(mean (B, D), diag(variance (B, D)))."""
        W = np.full((len(mean), len(self.support)), self.signal**2)
        for d, (c, which) in enumerate(self.support.columns):
            f = self.support.factors[d].expected(mean[:, d], variance[:, d], c, float(self.lengths[d]))
            W *= f[:, which.ravel()]
        return W

    def expected(self, mean: Array, variance: Array) -> Array:
        """E V(s'), shape (B,)."""
        parts = [self._expected(mean[i], variance[i]) for i in self._blocks(len(mean))]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _blocks(self, B: int) -> list[slice]:
        shape = self.support.shape
        width = max(int(np.prod(shape[1:])), 1) if self.support.axes is not None else 3 * shape[0]
        step = max(1, BLOCK // width)
        return [slice(i, min(i + step, B)) for i in range(0, B, step)]

    def _expected(self, mean: Array, variance: Array) -> Array:
        if self.support.axes is None:
            return np.asarray(self.rows(mean, variance) @ self.beta)
        return contract(self.coefficients, self._on_axes(mean, variance))

    def _on_axes(self, mean: Array, variance: Array) -> list[Array]:
        """Expected bumps (B, n_d) of the first columns, as many as `mean` has, at the coordinates of a grid."""
        assert self.support.axes is not None
        columns = zip(self.support.factors, self.support.axes, self.lengths, mean.T, variance.T)
        return [f.expected(m, v, axis, float(width)) for f, axis, width, m, v in columns]

    @cached_property
    def coefficients(self) -> Array:
        """s^2 beta on the grid."""
        return np.ascontiguousarray(self.signal**2 * self.beta.reshape(self.support.shape))

    def derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        """E V(s') (B,), and its derivatives in mean and variance, each (B, D)."""
        parts = [self._derivatives(mean[i], variance[i]) for i in self._blocks(len(mean))]
        if not parts:
            return np.zeros(0), np.zeros(mean.shape), np.zeros(mean.shape)
        E, m, v = (np.concatenate(part) for part in zip(*parts))
        return E, m, v

    def _derivatives(self, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
        support, D = self.support, mean.shape[1]
        on_grid = support.axes is not None
        factors = []
        for d, f in enumerate(support.factors):
            c, which = support.columns[d] if support.axes is None else (support.axes[d], None)
            three = f.derivatives(mean[:, d], variance[:, d], c, float(self.lengths[d]))
            factors.append(three if which is None else tuple(part[:, which.ravel()] for part in three))

        def total(chosen: list[Array]) -> Array:
            if on_grid:
                return contract(self.coefficients, chosen)
            W = chosen[0].copy()
            for part in chosen[1:]:
                W *= part
            return np.asarray(W @ (self.signal**2 * self.beta))

        plain = [three[0] for three in factors]
        d_mean, d_variance = np.empty(mean.shape), np.empty(mean.shape)
        for d in range(D):
            for order, out in ((1, d_mean), (2, d_variance)):
                out[:, d] = total([*plain[:d], factors[d][order], *plain[d + 1 :]])
        return total(plain), d_mean, d_variance

    def remainder(self, mean: Array, variance: Array) -> Array:
        """On a grid, the first columns integrated out: coefficients (B, ...) of the bumps in the other columns.

        `mean` and `variance` have as many columns as are integrated out. The maximum over actions of an expected
        Q-function then needs the columns of the state once, not for each action.
        """
        if self.support.axes is None:
            raise ValueError("only a grid of support points can be reduced; make it with Support.grid")
        left = self.support.shape[mean.shape[1] :]
        return _partial(self.coefficients, self._on_axes(mean, variance)).reshape(len(mean), *left)

    def __call__(self, states: ArrayLike) -> Array:
        """V(s) for states (..., D): zero outside the ends of bounded columns."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        return self.expected(flat, np.zeros(flat.shape)).reshape(s.shape[:-1])

    def variance(self, states: ArrayLike) -> Array:
        """Variance of V(s) given the values at the support points, shape (...)."""
        s = np.asarray(states, dtype=float)
        flat = s.reshape(-1, s.shape[-1])
        W = self.rows(flat, np.zeros(flat.shape))
        left = self.signal**2 - np.sum(W * self.solve(W.T).T, axis=1)
        return np.asarray(np.maximum(left, 0.0).reshape(s.shape[:-1]))  # negative only by rounding

    # --- learning -------------------------------------------------------------------------------------------

    def evidence(self) -> tuple[float, Array]:
        """Log evidence of the values, and its derivatives in the logs of signal and length scales."""
        v, beta, m = self.values, self.beta, len(self.support)
        slopes = np.empty(1 + len(self.lengths))
        if self.support.axes is not None:
            vectors, own, total = self.spectrum
            log_det = float(np.log(total).sum())
            kernel = total - self.noise**2
            slopes[0] = v @ beta - self.noise**2 * (beta @ beta) - float((kernel / total).sum())
            T = beta.reshape(self.support.shape)
            for d, (_, slope) in enumerate(self._correlations):
                S = T
                for e, (K, _) in enumerate(self._correlations):
                    S = _apply(slope if e == d else K, S, e)
                turned = np.einsum("ij,ik,kj->j", vectors[d], slope, vectors[d])
                rest = np.full(self.support.shape, self.signal**2)
                for e, values in enumerate(own):
                    rest = rest * _along(turned if e == d else np.maximum(values, 0.0), e, rest.ndim)
                slopes[1 + d] = 0.5 * (self.signal**2 * np.sum(T * S) - (rest / total).sum())
        else:
            L = self._factor[0]
            log_det = 2.0 * float(np.log(np.diagonal(L)).sum())
            inverse = cho_solve(self._factor, np.eye(m))
            G = beta[:, None] * beta - inverse  # twice the derivative in K
            K = np.full((m, m), self.signal**2)
            for own_K, _ in self._correlations:
                K *= own_K
            slopes[0] = np.sum(G * K)
            G *= K
            for d, (K_d, slope) in enumerate(self._correlations):
                ratio = np.divide(slope, K_d, out=np.zeros_like(slope), where=K_d > 0)
                slopes[1 + d] = 0.5 * np.sum(G * ratio)
        value = -0.5 * (v @ beta) - 0.5 * log_det - 0.5 * m * np.log(2.0 * np.pi)
        return float(value), slopes

    def fit(self, steps: int = LEARNING_STEPS) -> ValueGP:
        """The same values with signal and length scales by evidence maximization (ML-II), the noise as it is.

        It starts from the present ones; length scales stay within 0.3 and 10 spacings of the support points.
        """
        if not self.values.any():
            return self
        least = float(np.abs(self.values).max()) / LARGEST_SCORE
        low = np.append(np.log(least), np.log(SHORTEST * self.support.spacing))
        high = np.append(np.log(100.0 * least), np.log(LONGEST * self.support.spacing))

        def at(theta: Array) -> ValueGP:
            return ValueGP(self.support, self.values, np.exp(theta[1:]), float(np.exp(theta[0])), self.noise)

        def negative(theta: Array) -> tuple[float, Array]:
            value, slope = at(theta).evidence()
            return -value, -slope

        start = np.clip(np.log(np.append(self.signal, self.lengths)), low, high)
        found = minimize(
            negative, start, jac=True, method="L-BFGS-B", bounds=list(zip(low, high)),
            options={"maxiter": steps},
        )  # fmt: skip
        return at(found.x)


def _along(vector: Array, axis: int, ndim: int) -> Array:
    """A vector that broadcasts along one axis of a grid."""
    shape = [1] * ndim
    shape[axis] = -1
    return vector.reshape(shape)


def _apply(A: Array, T: Array, axis: int) -> Array:
    """A applied to one axis of a tensor."""
    return np.moveaxis(np.tensordot(A, T, axes=(1, axis)), 0, axis)


def _partial(coefficients: Array, factors: Sequence[Array]) -> Array:
    """The first axes of a grid contracted with factors (B, n_d), shape (B, number of all others)."""
    B, shape = len(factors[0]), coefficients.shape
    # the first axis for all points at once by a matrix product, the others point by point
    T = factors[0] @ coefficients.reshape(shape[0], -1)
    for d in range(1, len(factors)):
        T = np.matmul(factors[d][:, None, :], T.reshape(B, shape[d], -1))[:, 0]
    return np.asarray(T)


def contract(coefficients: Array, factors: Sequence[Array]) -> Array:
    """sum over a grid of coefficients times the product of factors (B, n_d), shape (B,)."""
    return _partial(coefficients, factors).reshape(len(factors[0]))
