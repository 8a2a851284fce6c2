"""White coordinates of latent values that go with the hyperparameters, and derivatives through them.

Under the prior f = m + L u, K = L L', has u ~ N(0, I) whatever the hyperparameters are. If data say much about f that
is no help: given u, a small step of a length scale moves f away from the data. With Gaussian sites
exp(nu f - tau f^2 / 2) in the place of the likelihood, u ~ N(P^-1 b, P^-1) with

    P = I + L' T L = R R',    b = L' (nu - T m),    u = R^-T (R^-1 b + v),    v ~ N(0, I),

and v is white under that posterior, of any hyperparameters (Murray and Adams, 2010, with the sites of an approximation
for the surrogate data). Whatever the sites, with |du / dv| = 1 / |R| the density is exact.

Derivatives of f' g - u'u / 2 - log |R| go backwards through these lines; that of a factor A = C C' is (Murray, 2016)

    d / dA = (M + M') / 2,    M = C^-T F(C' tril(d / dC)) C^-1,    F(S) the lower triangle of S, its diagonal halved.

Smooth kernels have covariance matrices that are singular to rounding, and the derivative of their factors is then
nothing but rounding. So K stands for the covariance plus `NUGGET` times its mean diagonal: f has that much white noise
of its own, whose sd is a ten-thousandth of the signal's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cavity.latent.base import Conditioning, LatentPrior
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky
from cavity.sampling.process_given_draw import nugget_of

NUGGET = 1e-8
"""Added to the diagonal of the covariance, relative to its mean."""


class Cotangents(NamedTuple):
    """Derivatives in the covariance matrix (n, n), the prior mean (n,) and v (n,)."""

    covariance: Array
    mean: Array
    white: Array


class WhiteCoordinates:
    """v of one latent function, given its prior and perhaps sites.

    Said in the latent protocol: `observe` gives products with L^-1 and L^-T, and L u = (K + nugget) L^-T u.
    """

    def __init__(self, prior: LatentPrior, sites: Sites | None = None) -> None:
        self.prior, self.nugget = prior, nugget_of(prior, NUGGET)
        self._given: Conditioning = prior.observe(self.nugget, transient=True)
        self._sites = sites
        self.log_volume = 0.0
        if sites is not None:
            self._factor = np.ascontiguousarray(self.adjoint(np.eye(prior.n)).T)
            self._residual = sites.shift - sites.precision * np.asarray(prior.mean)
            P = self._factor.T @ (sites.precision[:, None] * self._factor)
            P.reshape(-1)[:: len(P) + 1] += 1.0
            self._root = Cholesky.of(P)
            self._center = self._root.half_solve(self._factor.T @ self._residual)
            self.log_volume = -0.5 * self._root.log_det

    def _times(self, U: Array) -> Array:
        return self.prior.times(U) + (self.nugget * U.T).T

    def multiply(self, u: Array) -> Array:
        """L u, shape (n,)."""
        return self._times(self._given.half_solve_transposed(u))

    def adjoint(self, G: Array) -> Array:
        """L' G, shape (n,) or (n, m)."""
        found = self._given.half_solve(self._times(G))
        assert found is not None
        return found

    def solve(self, f: Array) -> Array:
        """L^-1 f, shape (n,)."""
        found = self._given.half_solve(f)
        assert found is not None
        return found

    def from_white(self, v: Array) -> Array:
        """u, shape (n,)."""
        return v if self._sites is None else self._root.half_solve_transposed(v + self._center)

    def pull(self, g: Array, u: Array) -> Cotangents:
        """Derivatives of f'g - u'u / 2 + `log_volume`, g constant; the nugget follows the mean of the diagonal."""
        d_factor, d_u = np.multiply.outer(g, u), self.adjoint(g) - u
        d_mean, d_white = g, d_u
        if self._sites is not None:
            L, R, tau = self._factor, self._root, self._sites.precision
            d_white = R.half_solve(d_u)
            d_b = R.half_solve_transposed(d_white)
            d_root = -np.multiply.outer(u, d_white) - np.multiply.outer(d_b, self._center)
            d_root.reshape(-1)[:: len(u) + 1] -= 1.0 / np.diagonal(R.lower)
            d_P = pull_factor(lambda S: np.tril(R.lower).T @ S, R.half_solve_transposed, d_root)
            d_factor += 2.0 * tau[:, None] * (L @ d_P) + np.multiply.outer(self._residual, d_b)
            d_mean = g - tau * (L @ d_b)
        M = pull_factor(self.adjoint, self._given.half_solve_transposed, d_factor)
        M.reshape(-1)[:: len(M) + 1] += NUGGET * np.trace(M) / len(M)
        return Cotangents(M, d_mean, d_white)

    def pull_kernel(self, G: Array) -> Array:
        """Gradient, in the kernel's natural values, of sum(G * K)."""
        return self._given.pull_prior(G, np.eye(len(G)), 0.0).kernel


def pull_factor(
    adjoint: Callable[[Array], Array], solve_transposed: Callable[[Array], Array], d_factor: Array
) -> Array:
    """From the cotangent of C, lower triangular, to the symmetric one of A = C C', both (n, n).

    `adjoint` is the product with C', `solve_transposed` that with C^-T.
    """
    S = np.tril(adjoint(np.tril(d_factor)))
    S.reshape(-1)[:: len(S) + 1] *= 0.5
    half = solve_transposed(S)
    M = solve_transposed(np.ascontiguousarray(half.T)).T
    return np.asarray(0.5 * (M + M.T))
