"""Draws of whole functions from a posterior, asked for one point at a time.

A draw f(x_1), f(x_2), ... at points that depend on earlier values is made by conditioning on these: with the posterior
covariance c(x, x') and the Cholesky factor L of c among the earlier points (one row is added at each step),

    l = L^-1 c(earlier, x),    v = c(x, x) - l'l,    f(x) = m(x) + l'e + sqrt(v) e_new,

e the standard normal numbers of the earlier steps. R functions go along side by side, each with points of its own; a
step costs O(R (n^2 + t n)) for n training points. With the corrections of `latent.dense`,
c(x, x') = k(x, x') - M'M' + P'P' + r'r' for vectors M, P, r that belong to each point alone, which are kept.
"""

from __future__ import annotations

import numpy as np

from cavity.control.uncertain_inputs.decomposition import Decomposition, NotAnalyticError, decompose
from cavity.latent.posterior_process import PosteriorProcess
from cavity.numerics.arrays import Array

LEAST_VARIANCE = 1e-13
"""Conditional variance, relative to the prior variance, below which a value is known but for rounding."""

PAIRED_ROWS = 32
"""Rows of a tile from which only the diagonal is used, for kernels that are not evaluated in pairs."""


class FunctionDraws:
    """R functions drawn from a posterior process, each evaluated at one point per step.

    Parameters
    ----------
    process : PosteriorProcess
        With one target.
    size : int
        Number R of functions.
    steps : int
        Most points at which they will be asked for; 0 forgets each value at once: a new function at each point.
    """

    def __init__(self, process: PosteriorProcess, size: int, steps: int) -> None:
        self.process = process
        self._points: list[Array] = []
        self._marks: list[tuple[Array, Array]] = []
        self._forgetful = steps == 0
        self._L = np.zeros((size, steps, steps))
        self._e = np.zeros((size, steps))
        self._parts: Decomposition | None
        try:
            self._parts = decompose(process.kernel, process.X.shape[1])
        except NotAnalyticError:
            self._parts = None

    def at(self, x: Array, rng: np.random.Generator) -> Array:
        """Value of each function at its own point, (R,) for x (R, D)."""
        if self._forgetful:
            return np.asarray(
                self.process.mean(x) + np.sqrt(self.process.variance(x)) * rng.standard_normal(len(x))
            )
        t, size = len(self._points), len(x)
        minus, plus = self._mark(x)
        prior = self.process.kernel.diag(x)
        variance = prior - np.einsum("ri,ri->r", minus, minus) + np.einsum("ri,ri->r", plus, plus)
        row = np.zeros((size, t))
        for j, (earlier, (M, P)) in enumerate(zip(self._points, self._marks)):
            c = self._paired(earlier, x) - np.einsum("ri,ri->r", M, minus) + np.einsum("ri,ri->r", P, plus)
            row[:, j] = (c - np.einsum("rk,rk->r", self._L[:, j, :j], row[:, :j])) / self._L[:, j, j]
        variance = np.maximum(variance - np.einsum("rk,rk->r", row, row), LEAST_VARIANCE * prior)
        self._points.append(x)
        self._marks.append((minus, plus))
        self._L[:, t, :t], self._L[:, t, t] = row, np.sqrt(variance)
        self._e[:, t] = rng.standard_normal(size)
        shift = np.einsum("rk,rk->r", self._L[:, t, : t + 1], self._e[:, : t + 1])
        return np.asarray(self.process.mean(x) + shift)

    def _mark(self, x: Array) -> tuple[Array, Array]:
        """What of the posterior covariance belongs to each point: vectors to subtract and to add."""
        process = self.process
        cross = process.kernel._block(process.rows, process._prepare(x))
        minus, plus = process.conditioning.reduce(cross)
        added = [np.zeros((0, len(x))) if plus is None else plus]
        if process.basis is not None:
            added.append(process._basis_root(x, cross))
        return np.ascontiguousarray(minus.T), np.ascontiguousarray(np.concatenate(added).T)

    def _paired(self, a: Array, b: Array) -> Array:
        """k(a_r, b_r) row by row, without the noise of a white part."""
        if self._parts is not None:
            d = b - a
            out = np.zeros(len(a))
            for height, metric in self._parts.bumps:
                out += height * np.exp(-0.5 * np.einsum("ri,ij,rj->r", d, metric, d))
            C = self._parts.linear
            if np.any(C):
                one = np.ones((len(a), 1))
                out += np.einsum("ri,ij,rj->r", np.hstack([one, a]), C, np.hstack([one, b]))
            return out
        kernel = self.process.kernel
        blocks = [slice(k, k + PAIRED_ROWS) for k in range(0, len(a), PAIRED_ROWS)]
        return np.concatenate([np.diagonal(kernel(a[block], b[block])) for block in blocks])
