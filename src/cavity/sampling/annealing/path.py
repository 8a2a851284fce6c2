"""A path of distributions of f from a Gaussian to the posterior, in coordinates in which each is nearly white.

    p_beta(f)  proportional to  N(f | m, K) s(f) [p(y | f) / s(f)]^beta,   s(f) = prod_i exp(nu_i f_i - tau_i f_i^2 / 2)

for beta from 0 to 1. Without sites (s = 1) the start is the prior and the likelihood is tempered; with the sites of EP
or Laplace's method the start is their Gaussian, whose mass Z_0 is known in closed form, and ln Z = ln Z_0 + ln of the
ratio of masses (geometric bridge; Neal 2001). Sample weights are powers of the likelihood factors.

Coordinates: with K = L L' and I + L' T L = C C' (T = diag(tau)) the start is f = mu + A v, A = L C^-T, v ~ N(0, I).
With curvatures W that the likelihood adds on the way and A' W A = Q diag(lambda) Q', positions are z = Q' v, and a
Gaussian that stands for p_beta has precision 1 + beta lambda, coordinate by coordinate: the metric of the moves. Its
mean moves from 0 to a given end point e as beta (1 + lambda) e / (1 + beta lambda), which is exact if the
likelihood is Gaussian.

Of more rows than the representation has matrices for, A is the root of the start's covariance that it does have
(`whitening`), and the metric is that of the start.
"""

from __future__ import annotations

import numpy as np

from cavity.latent.base import ImproperPosteriorError, LatentPrior
from cavity.latent.sites import Sites
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.sampling.whitening import MatrixMap, WhiteMap, beyond_matrices, posterior_map, prior_map


class Bridge:
    """The path p_beta, evaluated for R runs at once.

    Parameters
    ----------
    prior : LatentPrior
    observations : Observations
        With one latent value each.
    sites : Sites, optional
        Of the Gaussian at which the path starts; the prior if there are none.
    curvature : array (n,), optional
        W >= 0 of the metric; none: the metric of the start at all temperatures.
    end : array (n,), optional
        Latent values near which the posterior is expected; the mean of the start by default.

    Attributes
    ----------
    log_mass : float
        ln Z_0 of prior times sites.
    dim : int
        d, the number of white coordinates of the prior.
    """

    def __init__(
        self,
        prior: LatentPrior,
        observations: Observations,
        sites: Sites | None = None,
        curvature: Array | None = None,
        end: Array | None = None,
    ) -> None:
        self.prior, self.observations = prior, observations
        self.n, self.dim, self.jitter = prior.n, prior.white_dim, prior.white_jitter
        self.sites = sites
        self._C: Cholesky | None = None
        self._rotation: Array | None = None
        self.mean, self.log_mass = prior.mean, 0.0
        self._white_mean, self.curvature = np.zeros(self.dim), np.zeros(self.dim)
        self._map = self._by_recursions() if beyond_matrices(prior) else self._by_matrices(curvature)
        self._end = np.zeros(self.dim) if end is None else self.position(end[None])[0]

    def _by_recursions(self) -> WhiteMap:
        if self.sites is None:
            return prior_map(self.prior)
        start = self.prior.given(self.sites)
        self.mean, self.log_mass = start.mean, start.log_normalizer
        return posterior_map(start.conditioning)

    def _by_matrices(self, curvature: Array | None) -> MatrixMap:
        L = self.prior.white_root()
        self._start(L)
        A = L if self._C is None else self._C.half_solve(np.ascontiguousarray(L.T)).T
        if curvature is not None:
            half = np.sqrt(np.maximum(curvature, 0.0))[:, None] * A
            values, self._rotation = np.linalg.eigh(half.T @ half)
            self.curvature = np.maximum(values, 0.0)
            A = A @ self._rotation
        return MatrixMap(A)

    def _start(self, L: Array) -> None:
        """Mean, factor C and log mass of the Gaussian start."""
        m = self.prior.mean
        if self.sites is None:
            return
        nu, tau = self.sites.shift, self.sites.precision
        precision = L.T @ (tau[:, None] * L)
        precision.reshape(-1)[:: self.dim + 1] += 1.0
        self._C = try_factorize(precision)
        if self._C is None:
            raise ImproperPosteriorError("the sites of the start outweigh the prior: it cannot be normalized")
        h = L.T @ (nu - tau * m)
        self._white_mean = self._C.solve(h)
        self.mean = m + L @ self._white_mean
        offset = float(nu @ m - 0.5 * tau @ m**2)
        self.log_mass = -0.5 * self._C.log_det + 0.5 * float(h @ self._white_mean) + offset

    # --- coordinates ------------------------------------------------------------------------------------------

    def latent(self, Z: Array) -> Array:
        """Latent values (R, n) of positions (R, d)."""
        return np.asarray(self.mean + self._map.apply(Z))

    def position(self, F: Array) -> Array:
        """Positions (R, d) of latent values (R, n)."""
        if isinstance(self._map, WhiteMap):
            return self._map.solve(F - self.mean)
        V = self.prior.whiten(np.ascontiguousarray(F.T)) - self._white_mean[:, None]
        if self._C is not None:
            V = np.tril(self._C.lower).T @ V
        if self._rotation is not None:
            V = self._rotation.T @ V
        return np.ascontiguousarray(V.T)

    def metric(self, beta: float) -> tuple[Array, Array]:
        """Center and square roots of the precisions of the Gaussian that stands for p_beta, each (d,)."""
        precision = 1.0 + beta * self.curvature
        return beta * (1.0 + self.curvature) / precision * self._end, np.sqrt(precision)

    # --- the ratio of likelihood and sites --------------------------------------------------------------------

    def log_ratio(self, F: Array) -> Array:
        """ln p(y | f) - ln s(f), shape (R,); -inf if the likelihood is zero or not defined."""
        with np.errstate(all="ignore"):
            seen = self.observations
            terms = seen.weighted(seen.likelihood.log_prob(seen.y, F))
            if self.sites is not None:
                terms = terms - F * (self.sites.shift - 0.5 * self.sites.precision * F)
            total = terms.sum(axis=1)
        return np.where(np.isnan(total), -np.inf, total)

    def pulled_slope(self, F: Array) -> Array:
        """Gradient of the log ratio in the position, shape (R, d)."""
        with np.errstate(all="ignore"):
            seen = self.observations
            slope = seen.weighted(seen.likelihood.slope(np.broadcast_to(seen.y, F.shape), F))
            if self.sites is not None:
                slope = slope - (self.sites.shift - self.sites.precision * F)
            return self._map.adjoint(slope)


def largest_curvature(observations: Observations, places: Array) -> Array:
    """Largest -d2 log p / df2 over places (k, n) and at the likelihood's own break points, shape (n,), never negative.

    One for the probit, a quarter for the logit, the inverse of the smallest noise variance for mixtures.
    """
    likelihood, y = observations.likelihood, observations.y
    f = np.concatenate([places, likelihood.break_points(y)])
    with np.errstate(all="ignore"):
        d2 = likelihood.derivatives(np.broadcast_to(y, f.shape), f).d2
    W = np.max(np.where(np.isfinite(d2), -d2, 0.0), axis=0)
    return observations.weighted(np.maximum(W, 0.0))
