"""Sites in, marginals out: a dense prior times Gaussian sites, and the pullback of everything that comes out.

With T = diag(precision), nu the shifts, m the prior mean and R = (K + T^-1)^-1:

    alpha = (I - R K)(nu - T m),   mean = m + K alpha,   Sigma = K - K R K
    log Z = log int N(f | m, K) prod_i exp(nu_i f_i - tau_i f_i^2 / 2) df
          = -1/2 log|I + K T| + 1/2 (nu - T m)' K alpha + nu' m - 1/2 m' T m

Derivatives, with P = I - K R = (I + K T)^-1, dSigma = P dK P' - Sigma dT Sigma:

    d log Z / dK = (alpha alpha' - R) / 2,   d log Z / d(nu, tau) = (mean, -(var + mean^2) / 2),
    d log Z / dm = alpha,
    d mean = P dK alpha + Sigma (dnu - dT mean) + P dm
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cavity.latent.dense import DensePrior
from cavity.latent.process import PosteriorProcess
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array
from cavity.numerics.tiles import mirror_lower

INFORMATIVE = 0.5
"""Value of tau v above which 1 - tau v is taken from R, where it does not cancel."""


@dataclass(frozen=True)
class Pulled:
    """Cotangents of kernel and mean parameters (natural, flat) and of the sites, each (n,) for the latter."""

    kernel: Array
    mean: Array
    shift: Array
    precision: Array


class Conditioned:
    """The Gaussian q(f) proportional to N(f | m, K) times the sites.

    Raises
    ------
    ImproperPosteriorError
        If negative precisions outweigh the prior.

    Attributes
    ----------
    mean : array (n,)
        Posterior means at the training inputs.
    weights : array (n,)
        alpha, with mean = m + K alpha.
    log_normalizer : float
    """

    def __init__(self, prior: DensePrior, sites: Sites) -> None:
        self.prior, self.sites = prior, sites
        self.correction = prior.condition(sites)
        m, K = prior.mean, prior.covariance
        shift = sites.shift - sites.precision * m
        self.weights = self.correction.weights(K, shift)
        moved = K @ self.weights
        self.mean = m + moved
        offset = float(sites.shift @ m - 0.5 * sites.precision @ m**2)
        self.log_normalizer = -0.5 * self.correction.log_det + 0.5 * float(shift @ moved) + offset

    @cached_property
    def var(self) -> Array:
        """Posterior variances at the training inputs, shape (n,)."""
        return self.correction.marginal_variances(self.prior)

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariance of f at the training inputs, shape (n, n)."""
        K = self.prior.covariance
        minus, plus = self.correction.reductions(K)
        S = K - minus.T @ minus
        if plus is not None:
            S += plus.T @ plus
        return 0.5 * (S + S.T)

    def cov_times(self, U: Array) -> Array:
        """Sigma U."""
        K = self.prior.covariance
        return K @ (U - self.correction.apply(K @ U))

    def without_own_site(self) -> tuple[Array, Array]:
        """Mean and variance of each f_i given the sites of the others, each (n,); nan where improper."""
        tau, var = self.sites.precision, self.var
        left = 1.0 - tau * var
        strong = tau * var > INFORMATIVE
        if strong.any():
            left[strong] = np.diagonal(self.correction.lower_matrix())[strong] / tau[strong]
        cavity_var = var / np.where(left > 0, left, np.nan)
        return self.mean - cavity_var * self.weights, cavity_var

    def process(self) -> PosteriorProcess:
        """The posterior process away from the training inputs."""
        prior = self.prior
        return PosteriorProcess(
            prior.kernel, prior.rows, prior.X, prior.mean_function, self.weights, self.correction
        )

    def pull(
        self, d_log_normalizer: float = 1.0, d_mean: Array | None = None, d_var: Array | None = None
    ) -> Pulled:
        """Cotangents of (log normalizer, mean, var) pulled back to kernel, mean function and sites.

        The first alone costs one inversion, `d_mean` two matrix-vector products more, `d_var` two matrix
        products.
        """
        K, a, c = self.prior.covariance, self.weights, d_log_normalizer
        left, right = [0.5 * c * a], [a]
        d_shift, d_m = c * self.mean, c * a
        d_precision = -0.5 * c * (self.var + self.mean**2)
        if d_mean is not None:
            u = d_mean - self.correction.apply(K @ d_mean)
            moved = K @ u
            left += [0.5 * u, 0.5 * a]
            right += [a, u]
            d_shift = d_shift + moved
            d_precision = d_precision - moved * self.mean
            d_m = d_m + u
        F, H = np.column_stack(left), np.column_stack(right)
        # R may live on fewer points than there are; its lower triangle is enough for tiles below the
        # diagonal.
        R = self.correction.lower_matrix()
        dense = None
        if d_var is not None:
            d_precision = d_precision - (self.covariance**2) @ d_var
            P = -K @ mirror_lower(R.copy())
            P[np.diag_indices_from(P)] += 1.0
            dense = P.T @ (d_var[:, None] * P)

        def cotangent(rows: slice, columns: slice) -> Array:
            G = R[rows, columns] * (-0.5 * c)
            G += F[rows] @ H[columns].T
            if dense is not None:
                G += dense[rows, columns]
            return G

        return Pulled(self.prior.pull(cotangent), self.prior.pull_mean(d_m), d_shift, d_precision)
