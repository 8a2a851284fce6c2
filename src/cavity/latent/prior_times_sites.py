"""Sites in, marginals out: a latent prior times Gaussian sites, and the pullback of everything that comes out.

With T = diag(precision), nu the shifts, m the prior mean and R = (K + T^-1)^-1:

    alpha = (I - R K)(nu - T m),   mean = m + K alpha,   Sigma = K - K R K
    log Z = log int N(f | m, K) prod_i exp(nu_i f_i - tau_i f_i^2 / 2) df
          = -1/2 log|I + K T| + 1/2 (nu - T m)' K alpha + nu' m - 1/2 m' T m
    KL(q || prior) = 1/2 (log|I + K T| - sum_i tau_i var_i + alpha' K alpha)

Derivatives, with P = I - K R = (I + K T)^-1 and dSigma = P dK P' - Sigma dT Sigma:

    d log Z / dK = (alpha alpha' - R) / 2,   d log Z / d(nu, tau) = (mean, -(var + mean^2) / 2),
    d log Z / dm = alpha,
    d mean = P dK alpha + Sigma (dnu - dT mean) + P dm

Everything is said in the latent protocol (`latent.base`), so that one class serves every representation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cavity.latent.base import Conditioning, LatentPrior, PriorGradient, Process
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

INFORMATIVE = 0.5
"""Value of tau var above which 1 - tau var is taken from R, where nothing cancels."""


@dataclass(frozen=True)
class Pulled:
    """Cotangents of the prior's parameters, of the values (n,) of its mean, and of the sites, each (n,)."""

    prior: PriorGradient
    mean_values: Array
    shift: Array
    precision: Array


class Conditioned:
    """The Gaussian q(f) proportional to N(f | m, K) times the sites.

    Parameters
    ----------
    prior : LatentPrior
    sites : Sites
    conditioning : Conditioning, optional
        That of the sites' precisions, if it is known.

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
    """

    def __init__(self, prior: LatentPrior, sites: Sites, conditioning: Conditioning | None = None) -> None:
        self.prior, self.sites = prior, sites
        self.conditioning = prior.condition(sites.precision) if conditioning is None else conditioning
        self.weights, self._moved = self.conditioning.project(self._shift)
        self.mean = prior.mean + self._moved if prior.mean.any() else self._moved

    @property
    def _shift(self) -> Array:
        """Shifts of the sites as functions of f - m; the same array if m is zero."""
        m, sites = self.prior.mean, self.sites
        return sites.shift - sites.precision * m if m.any() else sites.shift

    @property
    def jitter(self) -> float:
        """What was added to the diagonal of the factorized matrix."""
        return self.conditioning.jitter

    @property
    def var(self) -> Array:
        """Posterior variances at the training inputs, shape (n,)."""
        return self.conditioning.var

    @property
    def covariance(self) -> Array:
        """Posterior covariance of f at the training inputs, shape (n, n)."""
        return self.conditioning.covariance

    @cached_property
    def log_normalizer(self) -> float:
        """log Z."""
        m, sites = self.prior.mean, self.sites
        offset = float(sites.shift @ m - 0.5 * sites.precision @ m**2)
        return -0.5 * self.conditioning.log_det + 0.5 * float(self._shift @ self._moved) + offset

    @property
    def log_density_at_mean(self) -> float:
        """log Z minus the sites at the mean: -1/2 log|I + K T| - 1/2 alpha' K alpha, where nothing cancels."""
        return -0.5 * self.conditioning.log_det - 0.5 * float(self.weights @ self._moved)

    @property
    def kl(self) -> float:
        """KL(q || prior), in nats.

        Prior and posterior process differ through the sites alone, so this is also the divergence of the processes.
        """
        explained = float(self.sites.precision @ self.var)
        return 0.5 * (self.conditioning.log_det - explained + float(self.weights @ self._moved))

    @cached_property
    def left(self) -> Array:
        """1 - tau var, the part of a marginal's precision that is not its own site's, shape (n,)."""
        return self._left(self.var, lambda: self.conditioning.unexplained)

    def _left(self, var: Array, unexplained: Callable[[], Array]) -> Array:
        tau = self.sites.precision
        left = 1.0 - tau * var
        strong = tau * var > INFORMATIVE
        if strong.any():
            left[strong] = unexplained()[strong] / tau[strong]
        return left

    def natural_cavities(self, share: float = 1.0) -> tuple[Array, Array]:
        """(shift, precision) of each marginal without this share of its own site, each (n,); of any sign.

        precision = (1 - share tau var) / var and shift = precision mean - share alpha, since alpha = nu - tau mean: no
        difference of large numbers if sites are sharp.
        """
        precision = self._left(self.var, lambda: self.conditioning.unexplained)
        if share != 1.0:
            precision = (1.0 - share) + share * precision
        precision /= self.var
        shift = precision * self.mean
        shift -= self.weights if share == 1.0 else share * self.weights
        return shift, precision

    def cavities(self) -> tuple[Array, Array]:
        """Mean and variance of each f_i given the sites of the others, each (n,); nan if improper."""
        var, left, given = self.var, self.left, self.conditioning
        if given.spread is not None:  # which no site moves, nor its absence
            var = var - given.spread
            left = self._left(var, lambda: given.diagonal_of_R)
        cavity_var = var / np.where(left > 0, left, np.nan)
        mean = self.mean - cavity_var * self.weights
        return mean, cavity_var if given.apart is None else cavity_var + given.apart

    def process(self) -> Process:
        """The posterior process anywhere."""
        return self.prior.process(self.weights, self.conditioning)

    def sample(self, size: int, rng: np.random.Generator) -> Array:
        """Draws of f at the training inputs, shape (size, n).

        From the conditioning if it can, else by Matheron's rule: a draw of the prior, corrected by what noisy draws of
        the sites ask for. Sites that are not observations of a positive variance then take the covariance matrix.
        """
        n, tau = self.prior.n, self.sites.precision
        known = self.conditioning.draw(size, rng)
        if known is not None:
            return np.asarray(self.mean + known.T)
        if np.all(tau >= 0):
            F = (
                self.prior.unwhiten(rng.standard_normal((self.prior.white_dim, size)))
                - self.prior.mean[:, None]
            )
            noise = rng.standard_normal((n, size))
            root = np.sqrt(tau)[:, None]
            # f + Sigma (T (target - f)), T target = root * noise in expectation of zero
            correction = self.conditioning.project(root * noise - tau[:, None] * F)[1]
            return np.asarray(self.mean + (F + correction).T)
        from cavity.numerics.cholesky import covariance_root

        return np.asarray(self.mean + covariance_root(self.covariance)(rng.standard_normal((n, size))).T)

    def pull(
        self, d_log_normalizer: float = 1.0, d_mean: Array | None = None, d_var: Array | None = None
    ) -> Pulled:
        """Cotangents of (log normalizer, mean, var) pulled back to kernel, mean function and sites."""
        a, c = self.weights, d_log_normalizer
        left, right = [0.5 * c * a], [a]
        d_shift, d_m, d_precision = c * self.mean, c * a, -0.5 * c * self.mean**2
        if d_mean is not None:
            u, moved = self.conditioning.project(d_mean)
            left += [0.5 * u, 0.5 * a]
            right += [a, u]
            d_shift = d_shift + moved
            d_precision = d_precision - moved * self.mean
            d_m = d_m + u
        if d_var is not None:
            d_precision = d_precision - self.conditioning.pull_sites(d_var=d_var)[1]
        if d_mean is None and d_var is None and c > 0:  # G = c (alpha alpha' - R) / 2
            prior = self.conditioning.pull_prior(np.sqrt(0.5 * c) * a[:, None], None, -0.5 * c)
        else:
            columns = np.column_stack(left), np.column_stack(right)
            prior = self.conditioning.pull_prior(*columns, -0.5 * c, d_var)
        d_precision -= 0.5 * c * self.var  # last: some representations have it from the pull
        return Pulled(prior, d_m, d_shift, d_precision)
