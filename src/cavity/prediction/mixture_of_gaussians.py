"""Mixtures of normals: Student-t noise cut into pieces, outlier models, averages over draws."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr, ndtri

from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.prediction.base import Seed, check_levels
from cavity.prediction.continuous import ContinuousPrediction

BLOCK_NUMBERS = 1_000_000
"""Numbers (components times cases) that are inverted at a time."""


def _log_cdf_and_slope(x: Array, m: Array, sd: Array, w: Array) -> tuple[Array, Array]:
    """log F and its derivative at x (n,), for mixtures of normals (J, n); a component without width is a step."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        gap = x - m
        step = np.where(gap >= 0, np.inf, -np.inf)
        z = np.where(sd > 0, gap / sd, step)
        F = np.einsum("ij,ij->j", w, ndtr(z))
        f = np.einsum("ij,ij->j", w, np.where(sd > 0, np.exp(-0.5 * z * z) / sd, 0.0)) / np.sqrt(2 * np.pi)
        return np.log(F), f / F


class MixturePrediction(ContinuousPrediction):
    """Mixtures of normals.

    Parameters
    ----------
    log_weights : array (J,) or (J, n)
        Log weights; they should add up to one.
    means, variances : arrays broadcastable to (J, n)
    variance : array (n,), optional
        The variance where it is known otherwise (infinite for a heavy-tailed mixture cut into finitely many
        pieces).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.prediction import MixturePrediction
    >>> prediction = MixturePrediction(np.log([0.9, 0.1]), [[0.0], [0.0]], [[1.0], [100.0]])
    >>> prediction.variance, prediction.quantile(0.975).round(3)
    (array([10.9]), array([6.745]))
    """

    def __init__(
        self,
        log_weights: ArrayLike,
        means: ArrayLike,
        variances: ArrayLike,
        variance: ArrayLike | None = None,
    ) -> None:
        log_w: Array = np.asarray(log_weights, dtype=float)
        if log_w.ndim == 1:
            log_w = log_w[:, None]
        m, v, lw = np.broadcast_arrays(
            np.asarray(means, dtype=float), np.asarray(variances, dtype=float), log_w
        )
        self._log_w, self._m, self._sd = lw, m, np.sqrt(v)
        w = np.exp(lw)
        self._mean: Array = np.asarray(np.sum(w * m, axis=0) / np.sum(w, axis=0))
        if variance is None:
            self._variance: Array = np.asarray(
                np.sum(w * (v + (m - self._mean) ** 2), axis=0) / np.sum(w, axis=0)
            )
        else:
            self._variance = np.broadcast_to(np.asarray(variance, dtype=float), self._mean.shape)

    def _z(self, y: ArrayLike) -> Array:
        e = np.asarray(y, dtype=float) - self._m
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self._sd > 0, e / self._sd, np.where(e >= 0, np.inf, -np.inf))

    def log_prob(self, y: ArrayLike) -> Array:
        """Log of the weighted sum of normal densities."""
        z = self._z(y)
        return np.asarray(logsumexp(self._log_w - 0.5 * z * z - np.log(self._sd) - 0.5 * LOG_2PI, axis=0))

    def cdf(self, y: ArrayLike) -> Array:
        """Weighted sum of normal distribution functions."""
        return np.asarray(np.sum(np.exp(self._log_w) * ndtr(self._z(y)), axis=0))

    def survival(self, y: ArrayLike) -> Array:
        """Weighted sum of upper tails."""
        return np.asarray(np.sum(np.exp(self._log_w) * ndtr(-self._z(y)), axis=0))

    def _location_and_width(self) -> tuple[Array, Array]:
        spread = self._sd + np.abs(self._m - self._mean)
        best = np.argmax(self._log_w, axis=0)[None]
        return self._mean, np.maximum(np.take_along_axis(spread, best, axis=0)[0], 1e-300)

    def quantile(self, q: ArrayLike) -> Array:
        """By Newton's method on log F, all levels and cases at once, in blocks.

        Where all components are below their quantile F is below the level, and where all are above it F is above;
        so the smallest and the largest of the components' quantiles are a bracket. Steps that leave it are bisections.
        """
        levels = check_levels(q)
        J, n = self._m.shape
        out = np.empty((levels.size, n))
        block = max(1, BLOCK_NUMBERS // J)
        for k, p in enumerate(levels.ravel()):
            if p in (0.0, 1.0):
                out[k] = -np.inf if p == 0.0 else np.inf
        inner = np.flatnonzero((levels.ravel() > 0) & (levels.ravel() < 1))
        case = np.tile(np.arange(n), len(inner))
        level = np.repeat(levels.ravel()[inner], n)
        found = np.empty(len(case))
        for start in range(0, len(case), block):
            some = slice(start, start + block)
            found[some] = self._newton(case[some], level[some])
        out[inner] = found.reshape(len(inner), n)
        return out.reshape(levels.shape + (n,))

    def _newton(self, case: NDArray[np.intp], level: Array) -> Array:
        """Quantiles of some cases, each at a level of its own; above one half by the mirrored mixture."""
        sign = np.where(level <= 0.5, 1.0, -1.0)
        tail = np.where(level <= 0.5, level, 1.0 - level)
        m, sd, w = sign * self._m[:, case], self._sd[:, case], np.exp(self._log_w[:, case])
        ends = np.where(w > 0, m + sd * ndtri(tail), np.nan)
        low, high = np.nanmin(ends, axis=0), np.nanmax(ends, axis=0)
        x = 0.5 * (low + high)
        left = np.arange(len(case))  # those not found yet
        for _ in range(200):
            log_F, slope = _log_cdf_and_slope(x[left], m[:, left], sd[:, left], w[:, left])
            gap = log_F - np.log(tail[left])
            low[left] = np.where(gap < 0, x[left], low[left])
            high[left] = np.where(gap < 0, high[left], x[left])
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                new = x[left] - gap / slope
            inside = (new > low[left]) & (new < high[left])
            new = np.where(inside, new, 0.5 * (low[left] + high[left]))
            moved = np.abs(new - x[left])
            x[left] = np.where(gap == 0, x[left], new)
            smallest = 4e-15 * np.abs(new) + 1e-300
            done = (gap == 0) | (moved <= smallest) | (high[left] - low[left] <= smallest)
            left = left[~done]
            if not len(left):
                break
        return np.asarray(sign * x)

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Choose a component, then draw from it."""
        generator = np.random.default_rng(rng)
        cumulative = np.cumsum(np.exp(self._log_w), axis=0)
        u = generator.random((size, len(self))) * cumulative[-1]
        which = np.empty((size, len(self)), dtype=np.intp)
        for i, (c, u_col) in enumerate(zip(cumulative.T, u.T)):
            which[:, i] = (c[:, None] < u_col[None]).sum(axis=0)
        columns = np.arange(len(self))
        z = generator.standard_normal((size, len(self)))
        return np.asarray(self._m[which, columns] + self._sd[which, columns] * z)
