# mypy: disable-error-code="call-arg"
"""What the covariance filter leaves, and products with the innovations it defines."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.latent.markov.posterior_chain import PosteriorChain
    from cavity.latent.markov.prior import MarkovPrior

CHUNK = 64
"""Steps between stored covariances, as in `passes`."""


class Filtered(NamedTuple):
    """What the covariance filter leaves, in order of time: w (n, d); s, c, q, pivots (n,).

    `kept` has every CHUNK-th predicted covariance by stretch; of a single Matern block, what w leaves out of each.
    """

    w: Array
    s: Array
    c: Array
    q: Array
    pivots: Array
    kept: list[Array]

    def innovations(self, prior: MarkovPrior | PosteriorChain, Y: Array, inverse: bool = False) -> Array:
        """V Y, R = V' diag(c) V, or V^-1 Y, for columns in order of time."""
        from cavity.latent.markov import passes

        Y = np.ascontiguousarray(Y)
        out, x = np.empty(Y.shape), np.zeros((Y.shape[1], prior.dim))
        for stretch in prior.stretches:
            A, at = prior.transitions(stretch)[0], stretch.steps
            passes.innovations(
                prior.start, A, stretch.which, x, self.w[at], self.c[at], Y[at], inverse, out[at]
            )
        return out

    def innovations_adjoint(
        self, prior: MarkovPrior | PosteriorChain, Y: Array, inverse: bool = False
    ) -> Array:
        """V'Y or V^-T Y."""
        from cavity.latent.markov import passes

        Y = np.ascontiguousarray(Y)
        out, r = np.empty(Y.shape), np.zeros((Y.shape[1], prior.dim))
        for stretch in reversed(prior.stretches):
            A, at = prior.transitions(stretch)[0], stretch.steps
            passes.innovations_adjoint(
                prior.start, A, stretch.which, r, self.w[at], self.c[at], Y[at], inverse, out[at]
            )
        return out


class White:
    """f = W u with u white and W the Cholesky factor of the covariance in order of time, of a process of mean zero.

    `jitter` was added to its diagonal. Columns are in the order of the rows, coordinates in that of time.
    """

    def __init__(self, process: MarkovPrior | PosteriorChain, exact: Filtered, jitter: float) -> None:
        self.process, self.jitter, self._exact = process, jitter, exact
        self._scale = np.sqrt(exact.c)[:, None]

    def unwhiten(self, U: Array) -> Array:
        """W U."""
        columns = (U if U.ndim == 2 else U[:, None]) / self._scale
        return self.process.unsorted(self._exact.innovations(self.process, columns, inverse=True), U)

    def unwhiten_adjoint(self, G: Array) -> Array:
        """W'G."""
        found = self._exact.innovations_adjoint(self.process, self.process.sorted(G), inverse=True)
        return np.asarray(found / self._scale).reshape(G.shape)

    def whiten(self, F: Array) -> Array:
        """W^-1 F."""
        found = self._exact.innovations(self.process, self.process.sorted(F))
        return np.asarray(found * self._scale).reshape(F.shape)


def filtered(prior: MarkovPrior, noise: Array, observed: bool) -> Filtered:
    """Run the covariance filter, in the arithmetic of the noise."""
    from cavity.latent.markov.passes import forward
    from cavity.latent.markov.transitions import initial_covariance

    n, d, dtype = len(noise), prior.dim, noise.dtype
    if prior.single is not None:
        return prior.single.filtered(noise, observed)
    P = initial_covariance(prior.system, prior.t[0]).astype(dtype)
    w, (s, c, q, g) = np.empty((n, d), dtype), np.empty((4, n), dtype)
    kept = []
    for stretch in prior.stretches:
        A, Q = prior.transitions(stretch)
        at = stretch.steps
        kept.append(np.empty((-(-len(stretch.which) // CHUNK), d, d), dtype))
        inner = noise[at], observed, not np.iscomplexobj(noise), w[at], s[at], c[at], q[at], g[at], kept[-1]
        forward(prior.start, A, Q, stretch.which, P, *inner)
    return Filtered(w, s, c, q, g, kept)
