"""Posterior of the latent values f at fixed hyperparameters, in white coordinates.

White coordinates: K = L L', f = m + L u, so that u ~ N(0, I) a priori. With the curvature W of the log likelihood
(site precisions of Laplace's method or EP) and L' W L = Q diag(lambda) Q', the posterior precision in coordinates
Q'u is nearly diagonal, 1 + lambda, and

    f = m + L Q diag(1 + lambda)^(-1/2) v

has a posterior of v with nearly unit covariance: Hamiltonian trajectories of a quarter period then lead to almost
independent draws (Kuss 2006, section 4.3.3; the "metric" of its annealing experiments).

Of more rows than the representation has matrices for, f = m + A v with A the root of Sigma = (K^-1 + W)^-1 that it does
have (`whitening`): v is as white a posteriori; its prior is |I + K W|^(-1/2) N(v | 0, I) exp((f - m)'W (f - m) / 2).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from cavity.latent.base import LatentPrior
from cavity.latent.prior_times_sites import Conditioned
from cavity.likelihoods.base import Likelihood, MultiLatentLikelihood
from cavity.likelihoods.observations import Observations
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI
from cavity.sampling.targets import defined
from cavity.sampling.whitening import MatrixMap, WhiteMap, beyond_matrices, posterior_map, prior_map

METRICS = ("laplace", "ep")
"""Approximations whose site precisions can make the posterior nearly white."""


class LatentTarget:
    """Posterior of the latent values f at the training inputs, hyperparameters fixed.

    Parameters
    ----------
    prior : LatentPrior, or several of them
        n inputs and one or L latent functions; d = n or n L.
    observations : Observations
    metric : None, "laplace", "ep" or array (n,), optional
        None: white coordinates, the prior is N(0, I). Otherwise the posterior is nearly N(0, I): site precisions
        (negative ones count as zero), or the approximation to take them from; one latent function only.

    Attributes
    ----------
    jitter : float
        What was added to the diagonal of the covariance matrix before it could be factorized.
    prior_variance : array (d,)
        Prior variance of each coordinate: ones in white coordinates, 1 + lambda with a metric; nan if coordinates are
        not independent a priori.
    center : array (d,) or None
        Position of the posterior mean under the approximation that the metric was taken from.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Observations, Probit
    >>> X, y = np.linspace(0, 1, 5)[:, None], np.array([-1.0, -1.0, 1.0, 1.0, 1.0])
    >>> target = LatentTarget(GP(4.0 * SE(0.5)).bind(1).prior(X), Observations(Probit(), y))
    >>> u = np.zeros((2, 5))
    >>> np.allclose(target.latent(u), 0.0), np.allclose(target.whiten(target.latent(u + 1)), 1.0)
    (True, True)
    """

    def __init__(
        self,
        prior: LatentPrior | Any,
        observations: Observations,
        metric: str | ArrayLike | None = None,
    ) -> None:
        likelihood = observations.likelihood
        self.prior, self.observations = prior, observations
        self.likelihood, self.y = likelihood, observations.y
        self.n, self.several = prior.n, prior.n_latent > 1
        if self.several != isinstance(likelihood, MultiLatentLikelihood):
            raise ValueError(
                f"{type(likelihood).__name__} has {likelihood.n_latent} latent value(s) per observation, which the "
                f"given {type(prior).__name__} does not match"
            )
        functions = prior.functions
        self.jitter = max(p.white_jitter for p in functions)
        self.dim = sum(p.white_dim for p in functions)
        self.prior_variance = np.ones(self.dim)
        self.center: Array | None = None
        self._log_det = 0.0
        self._rotation: Array | None = None
        self._curvature: Array | None = None
        distinct = functions[:1] if prior.shared else functions
        self._maps: list[MatrixMap | WhiteMap] = []
        mean: Array | None = None
        if beyond_matrices(functions[0]):
            self._maps, mean = self._recursions(distinct, metric)
        else:
            roots = [p.white_root() for p in distinct]
            if metric is not None:
                tau, mean = self._approximation(metric)
                roots = [self._with_metric(roots[0], tau)]
            self._maps = [MatrixMap(root) for root in roots]
        self._precision = 1.0 / self.prior_variance
        self._white = self._rotation is None and self._curvature is None
        self._constant = -0.5 * (self.dim * LOG_2PI + self._log_det)
        self._tiled: tuple[int, Likelihood, Array] | None = None
        self.names = tuple(f"u[{i}]" for i in range(self.dim))
        # Likelihoods that can give the slope alone spare samplers the higher derivatives.
        self._has_slope = type(likelihood).slope is not Likelihood.slope
        if mean is not None:
            self.center = self.whiten(mean[None])[0]

    def _approximation(self, metric: str | ArrayLike) -> tuple[Array, Array | None]:
        """Site precisions >= 0, and the approximate posterior mean of f if there is one."""
        if self.several:
            raise ValueError("metric is available for one latent function only; leave it out")
        mean: Array | None = None
        if isinstance(metric, str):
            if metric not in METRICS:
                raise ValueError(f"metric must be one of {METRICS}, an array or None, got {metric!r}")
            from cavity.inference.registry import as_inference

            found = as_inference(metric).infer(self.prior, self.observations)
            assert isinstance(found.q, Conditioned)
            metric, mean = found.q.sites.precision, found.q.mean
        tau: Array = np.asarray(metric, dtype=float)
        if tau.shape != (self.n,) or not np.isfinite(tau).all():
            raise ValueError(f"metric must be {self.n} finite site precisions, got shape {tau.shape}")
        return np.maximum(tau, 0.0), mean

    def _with_metric(self, L: Array, tau: Array) -> Array:
        """A = L Q diag(1 + lambda)^(-1/2) with L' W L = Q diag(lambda) Q'."""
        half = np.sqrt(tau)[:, None] * L
        curvature, Q = np.linalg.eigh(half.T @ half)
        self.prior_variance = 1.0 + np.maximum(curvature, 0.0)
        self._log_det = float(np.log(self.prior_variance).sum())
        self._rotation = Q
        return np.asarray((L @ Q) / np.sqrt(self.prior_variance))

    def _recursions(
        self, functions: list[LatentPrior], metric: str | ArrayLike | None
    ) -> tuple[list[MatrixMap | WhiteMap], Array | None]:
        """Maps without matrices, and the approximate posterior mean of f if there is one."""
        if metric is None:
            return [prior_map(p) for p in functions], None
        self._curvature, mean = self._approximation(metric)
        conditioning = self.prior.condition(self._curvature)
        self._log_det = conditioning.log_det
        self.prior_variance = np.full(self.dim, np.nan)
        return [posterior_map(conditioning)], mean

    # --- between coordinates and latent values --------------------------------------------------------------

    def latent(self, U: Array) -> Array:
        """Latent values f, (C, n) or (C, n, L), for positions (C, d)."""
        if not self.several:
            return np.asarray(self.prior.mean + self._maps[0].apply(U))
        blocks = U.reshape(len(U), self.n, -1)
        L = blocks.shape[2]
        F = np.empty(blocks.shape)
        for c in range(L):
            F[:, :, c] = self._maps[0 if self.prior.shared else c].apply(blocks[:, :, c])
        F += self.prior.mean
        return F

    def whiten(self, F: ArrayLike) -> Array:
        """Positions (C, d) of latent values (C, n) or (C, n, L); the inverse of `latent`."""
        values: Array = np.asarray(F, dtype=float)
        if self.several:
            return np.ascontiguousarray(self.prior.whiten(values).reshape(len(values), -1))
        if self._curvature is not None:
            return cast(WhiteMap, self._maps[0]).solve(values - self.prior.mean)
        u = np.ascontiguousarray(self.prior.whiten(np.ascontiguousarray(values.T)).T)
        if self._rotation is None:
            return u
        return np.asarray((u @ self._rotation) * np.sqrt(self.prior_variance))

    def draw_prior(self, chains: int, rng: np.random.Generator) -> Array:
        """Positions drawn from the prior, (C, d)."""
        normal = rng.standard_normal((chains, self.dim))
        if self._curvature is not None:
            return self.whiten(self.prior.unwhiten(np.ascontiguousarray(normal.T)).T)
        return np.asarray(normal * np.sqrt(self.prior_variance))

    # --- densities ------------------------------------------------------------------------------------------

    def log_prior(self, U: Array) -> Array:
        """Log prior density of positions, (C,)."""
        if self._curvature is not None:
            shift = self.latent(U) - self.prior.mean
            quadratic = np.einsum("ij,ij->i", U, U) - (shift * shift) @ self._curvature
            return np.asarray(self._constant - 0.5 * quadratic)
        quadratic = np.einsum("ij,ij->i", U, U) if self._white else (U * U) @ self._precision
        return np.asarray(self._constant - 0.5 * quadratic)

    def log_likelihood(self, F: Array) -> Array:
        """sum_i w_i log p(y_i | f_i), (C,), for latent values (C, n) or (C, n, L)."""
        with np.errstate(all="ignore"):
            total = self.observations.log_prob(F)
        return np.where(np.isnan(total), -np.inf, total)

    def log_density(self, U: Array) -> Array:
        """Log prior plus log likelihood, (C,)."""
        return self.log_prior(U) + self.log_likelihood(self.latent(U))

    def value_and_gradient(self, U: Array) -> tuple[Array, Array]:
        """Log density (C,) and its gradient (C, d): one product with A, one with A'."""
        with np.errstate(all="ignore"):
            F = self.latent(U)
            value, slope = self._log_prob_and_slope(F)
            value = value + self.log_prior(U)
            gradient = self._with_prior(U, F, slope)
        return defined(value, gradient)

    def gradient(self, U: Array) -> Array:
        """The gradient alone, (C, d)."""
        F = self.latent(U)
        if self._has_slope and not self.several:
            slope = self._weighted(self.likelihood.slope(self.y, F))
        else:
            slope = self._log_prob_and_slope(F)[1]
        return self._with_prior(U, F, slope)

    def _with_prior(self, U: Array, F: Array, slope: Array) -> Array:
        """The gradient of log prior and log likelihood from the derivatives of the latter in f."""
        if self._curvature is not None:
            slope = slope + self._curvature * (F - self.prior.mean)
        gradient = self._pull(slope)
        gradient -= U * self._precision if self._rotation is not None else U
        return gradient

    def _pull(self, slope: Array) -> Array:
        """A' g for each chain, (C, d), from derivatives in f."""
        if not self.several:
            return self._maps[0].adjoint(slope)
        out = np.empty(slope.shape)
        for c in range(slope.shape[2]):
            out[:, :, c] = self._maps[0 if self.prior.shared else c].adjoint(slope[:, :, c])
        return out.reshape(len(slope), -1)

    def _weighted(self, slope: Array) -> Array:
        weighted = self.observations.weighted
        return weighted(slope.swapaxes(1, 2)).swapaxes(1, 2) if self.several else weighted(slope)

    def _log_prob_and_slope(self, F: Array) -> tuple[Array, Array]:
        """Log likelihood (C,) and its derivatives in f, of the shape of F."""
        if self.several:
            log_prob, slope = self._many_slopes(F)
        elif self._has_slope:
            log_prob, slope = self.likelihood.log_prob(self.y, F), self.likelihood.slope(self.y, F)
        else:
            found = self.likelihood.derivatives(np.broadcast_to(self.y, F.shape), F)
            log_prob, slope = found.log_prob, found.d1
        return self.observations.weighted(log_prob).sum(axis=1), self._weighted(slope)

    def _many_slopes(self, F: Array) -> tuple[Array, Array]:
        """log p(y_i | f_i), (C, n), and its derivatives (C, n, L): chains are stacked as further observations."""
        C = len(F)
        if self._tiled is None or self._tiled[0] != C:
            index = np.tile(np.arange(self.n), C)
            self._tiled = C, self.likelihood.rows(index), self.y[index]
        _, likelihood, y = self._tiled
        many = cast(MultiLatentLikelihood, likelihood).latent_derivatives(y, F.reshape(C * self.n, -1))
        return many.log_prob.reshape(C, self.n), many.gradient.reshape(F.shape)
