"""A kernel on cliques of rows: compiled if it is a sum of radial functions, else clique by clique."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Kernel, row_blocks, take
from cavity.kernels.radial_sum import RadialSum
from cavity.numerics.arrays import Array
from cavity.numerics.threads import n_threads

CHUNK = 4096
"""Cliques of one call: some milliseconds of work."""

GIVEN_DOUBLES = 4_000_000
"""Covariances that are held at a time if they are not compiled (32 MB)."""

NOTHING = np.empty((0, 1, 1))


class Conditionals(NamedTuple):
    """Of each row given its neighbors.

    Attributes
    ----------
    variance : array (q,)
        v.
    residual : array (q, P)
        e.
    """

    variance: Array
    residual: Array


class EvidenceGradient(NamedTuple):
    """Of sum_i [-e_i'e_i / v_i + d log v_i].

    Attributes
    ----------
    kernel : array (p,)
        In its natural values.
    noise : array (n,)
        In the noise variances of all rows.
    """

    kernel: Array
    noise: Array


class Cliques:
    """A kernel at rows X (n, D) that are visited with their neighbors."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel, self.n = kernel, len(X)
        self.form = RadialSum.of(kernel, X.shape[1])
        if self.form is None:
            self.rows = kernel._prepare(X, np.arange(len(X)))
            self.Z = np.empty((len(X), 0))
            self.terms: Any = (np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
        else:
            self.Z, self.terms = self.form.coordinates(X), self.form.terms

    def conditionals(
        self,
        points: NDArray[np.int64],
        neighbors: NDArray[np.int64],
        noise: Array,
        Y: Array,
        weights: Array | None = None,
    ) -> Conditionals:
        """v and e of q points with neighbors (q, k), noise (n,), targets (n, P); b is written into `weights` (q, k)."""
        from cavity.latent.neighbors.cliques import conditionals

        unwanted = np.empty((0, neighbors.shape[1]))

        def part(at: slice) -> Any:
            given = self._given(points[at], neighbors[at])
            b = unwanted if weights is None else weights[at]
            return conditionals(self.Z, self.terms, given, points[at], neighbors[at], noise, Y, b)

        found = self._in_parts(len(points), neighbors.shape[1], part)
        return Conditionals(np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found]))

    def evidence_and_gradient(
        self,
        points: NDArray[np.int64],
        neighbors: NDArray[np.int64],
        noise: Array,
        Y: Array,
        d_log_det: float,
        weights: Array,
    ) -> tuple[Conditionals, EvidenceGradient]:
        """`conditionals` and the gradient in one pass."""
        unused = np.empty((0, neighbors.shape[1] + 1))
        return self._with_gradient(points, neighbors, noise, Y, unused, d_log_det, weights)

    def pull_precision(
        self,
        points: NDArray[np.int64],
        neighbors: NDArray[np.int64],
        noise: Array,
        local: Array,
        d_log_det: float,
    ) -> EvidenceGradient:
        """Gradient of the product of a matrix P with the precision matrix sum_i w w' / v, and of d_log_det sum log v.

        P is held fixed; `local` (q, k + 1) is P w of each clique.
        """
        unused = np.empty(neighbors.shape)
        return self._with_gradient(
            points, neighbors, noise, np.empty((len(noise), 0)), local, d_log_det, unused
        )[1]

    def _with_gradient(
        self,
        points: NDArray[np.int64],
        neighbors: NDArray[np.int64],
        noise: Array,
        Y: Array,
        local: Array,
        d_log_det: float,
        weights: Array,
    ) -> tuple[Conditionals, EvidenceGradient]:
        from cavity.latent.neighbors.cliques import evidence_and_gradient

        m = neighbors.shape[1] + 1

        def part(at: slice) -> Any:
            given = self._given(points[at], neighbors[at])
            G = np.empty((len(given), m, m))
            where = points[at], neighbors[at]
            found = evidence_and_gradient(
                self.Z, self.terms, given, *where, noise, Y, local[at], d_log_det, weights[at], G
            )
            return (*found[:2], self._pulled(*where, given, G, found[2:5]), found[5])

        found = self._in_parts(len(points), m - 1, part)
        known = Conditionals(np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found]))
        return known, EvidenceGradient(sum(f[2] for f in found), sum(f[3] for f in found))

    def _in_parts(self, q: int, k: int, part: Callable[[slice], Any]) -> list[Any]:
        """Results of parts of the points in their order, whatever the number of threads."""
        compiled = self.form is not None
        size = CHUNK if compiled else max(8, min(CHUNK, GIVEN_DOUBLES // (k + 1) ** 2))
        parts = row_blocks(q, size)
        workers = min(n_threads(), len(parts)) if compiled else 1
        if workers <= 1:
            return [part(at) for at in parts]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(part, parts))

    # --- kernels that are not compiled ----------------------------------------------------------------------

    def _members(self, points: NDArray[np.int64], neighbors: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of each clique (q, k + 1); its own row stands in for missing ones, which are forgotten later."""
        own = points[:, None]
        return np.hstack([np.where(neighbors >= 0, neighbors, own), own])

    def _given(self, points: NDArray[np.int64], neighbors: NDArray[np.int64]) -> Array:
        if self.form is not None:
            return NOTHING
        members = self._members(points, neighbors)
        out = np.empty((*members.shape, members.shape[1]))
        for K, clique in zip(out, members):
            a = take(self.rows, clique)
            K[:] = self.kernel._block(a, a)
        return out

    def _pulled(
        self,
        points: NDArray[np.int64],
        neighbors: NDArray[np.int64],
        given: Array,
        G: Array,
        sums: tuple[Array, Array, Array],
    ) -> Array:
        if self.form is not None:
            return self.form.pull(*sums)
        total = np.zeros(self.kernel.flat.size)
        for clique, cotangent, K in zip(self._members(points, neighbors), G, given):
            a = take(self.rows, clique)
            total += self.kernel._pull(a, a, cotangent, K)
        return total
