"""Exact inference for Gaussian noise (Rasmussen and Williams 2006, sections 2.2, 2.7 and 5.4).

    A = K + diag(noise variance),  r = y - m(X),  alpha = A^-1 r
    log p(y) = -1/2 r' alpha - 1/2 log|A| - n/2 log 2 pi          (eq. 2.30)
    d log p / dA = 1/2 (alpha alpha' - A^-1)                      (eq. 5.9)

Basis functions with weights integrated out replace A^-1 by R = A^-1 - W W' and add to log|A|
(`latent.integrated_basis`); of vague weights p/2 log 2 pi is dropped (eq. 2.45). Several targets share everything but
alpha; their log evidences add up.

Leave-one-out: with d the diagonal of R, y_i given the others is normal with mean y_i - alpha_i / d_i and variance
1 / d_i (eq. 5.12). Its gradient is one cotangent of A for all parameters, not O(n^3) for each.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.inference.base import (
    Approximation,
    Evidence,
    Gradient,
    InferenceRule,
    Status,
    UnsupportedPairError,
)
from cavity.latent.base import Capability, Conditioning, LatentPrior, Process
from cavity.latent.integrated_basis import ConditionedWithTrend, Trend
from cavity.latent.negative_sites import lowered
from cavity.latent.prior_times_sites import Conditioned
from cavity.latent.sites import Sites
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.gaussian import GaussianNoise
from cavity.likelihoods.observations import Observations
from cavity.means.basis import Basis
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import NotPositiveDefiniteError
from cavity.numerics.special import LOG_2PI
from cavity.prediction import GaussianPrediction
from cavity.runtime.errors import Setting


def weight_constant(noise: Array, weight: Array) -> float:
    """Twice the log of what factors to powers w have beyond Gaussians of variances noise / w, for one target."""
    if np.all(weight == 1.0):
        return 0.0
    return float(((1.0 - weight) * (LOG_2PI + np.log(noise)) - np.log(weight)).sum())


class Observed:
    """A prior conditioned on noisy observations: everything the results below are made of."""

    def __init__(
        self,
        prior: LatentPrior,
        observations: Observations,
        known: Conditioning | None = None,
        transient: bool = False,
    ) -> None:
        self.prior, self.n, self.y = prior, prior.n, observations.y
        self.residual = (self.y.T - prior.mean).T.reshape(self.n, -1)
        self.targets = self.residual.shape[1]
        self.noise, self.d_noise = cast(GaussianNoise, observations.likelihood).noise_variances(self.n)
        # A factor to the power w is a Gaussian of variance noise / w, up to a constant that log_evidence adds.
        self.sample_weight = observations.weights
        if np.any((self.noise == 0.0) & (self.sample_weight != 1.0)):
            raise ValueError(
                "observations without noise take no sample_weight: they are exact, whatever their weight"
            )
        self.variance = self.noise / self.sample_weight
        basis = prior.mean_function
        if known is not None:
            self.conditioning = prior.observe_more(known, self.variance)
        elif transient and not isinstance(basis, Basis):
            self.conditioning = prior.observe_values(self.variance, self.residual, transient=True)
        else:
            self.conditioning = prior.observe(self.variance, transient=transient)
        self.trend = Trend(basis, self.conditioning, self.residual) if isinstance(basis, Basis) else None
        self.alpha = self.conditioning.apply(self.residual) if self.trend is None else self.trend.alpha

    @property
    def log_evidence(self) -> float:
        """log p(y)."""
        quadratic = float(np.vdot(self.residual, self.alpha))
        log_det = self.conditioning.noisy_log_det + self.n * LOG_2PI
        if self.trend is not None:
            log_det += self.trend.log_det
            if self.prior.mean_function.vague:  # type: ignore[union-attr]
                log_det -= self.trend.root.shape[1] * LOG_2PI
        value = -0.5 * quadratic - 0.5 * self.targets * log_det
        return value + 0.5 * self.targets * weight_constant(self.noise, self.sample_weight)

    def process(self) -> Process:
        """The posterior process."""
        alpha, basis = self.alpha, None if self.trend is None else self.trend.weights
        if self.targets == 1:
            alpha = alpha[:, 0]
            basis = None if basis is None else basis.of_target(0)
        return self.prior.process(alpha, self.conditioning, basis)

    def gaussian(self) -> Conditioned | ConditionedWithTrend | None:
        """q(f) at the training inputs of one target with noise."""
        has_sites = Capability.SITES in self.prior.representation.capabilities
        if self.y.ndim != 1 or not np.all(self.variance > 0) or not has_sites:
            return None
        if self.trend is not None:
            vague = self.prior.mean_function.vague  # type: ignore[union-attr]
            return ConditionedWithTrend(
                self.trend, self.conditioning, self.residual[:, 0], self.variance, vague
            )
        return Conditioned(self.prior, Sites.of_observations(self.y, self.variance), self.conditioning)

    def evidence_gradient(self, fit: float = 1.0) -> Gradient:
        """Of the log evidence; `fit` multiplies what the residuals contribute."""
        T, w = self.targets, self.sample_weight
        F = (
            self.alpha if fit == 1.0 else np.sqrt(fit) * self.alpha
        )  # the same array: its gradient may be known
        if self.trend is not None:
            F = np.hstack([F, np.sqrt(T) * self.trend.root])
        prior, d_variance = self.conditioning.pull_observations(F, T)
        d_noise = d_variance / w
        if np.any(w != 1.0):
            d_noise = d_noise + 0.5 * T * (1.0 - w) / self.noise
        return Gradient.of(self.prior, prior, fit * self.alpha.sum(axis=1), self.d_noise @ d_noise)

    # --- leave-one-out --------------------------------------------------------------------------------------

    @cached_property
    def _left(self) -> tuple[Array, NDArray[np.bool_]]:
        """The diagonal of R, and points without which a vague weight is not known: there, it is rounding."""
        own = self.conditioning.diagonal_of_R
        if self.trend is None:
            return own, np.zeros(self.n, dtype=bool)
        d = own - np.einsum("ij,ij->i", self.trend.root, self.trend.root)
        return d, d <= self.n * np.finfo(float).eps * own

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residual means (n, T) and variances (n,) of each target given the others."""
        found = self.conditioning.leave_one_out(self.residual, self.trend)
        if found is not None:
            return found
        d, lost = self._left
        d = np.where(lost, 1.0, d)
        mean = np.where(lost[:, None], 0.0, self.residual - self.alpha / d[:, None])
        variance = np.where(lost, np.inf, 1.0 / d)
        return mean, variance if self.conditioning.apart is None else variance + self.conditioning.apart

    def leave_one_out_log_prob(self) -> tuple[float, Gradient]:
        """Sum of the log densities of left-out targets, and its gradient."""
        if self.conditioning.apart is not None:
            raise UnsupportedPairError(
                "leave-one-out learning needs a prior that predicts what it assumes of the data",
                remedy=("use ", Setting("objective", "evidence"), ", or inducing inputs of kind 'fitc'"),
            )
        d, lost = self._left
        if lost.any():
            raise NotPositiveDefiniteError(
                f"without row {int(np.flatnonzero(lost)[0])} the vague weights of the basis functions are not "
                "determined, so there is no leave-one-out density: give them a finite prior, or use the evidence"
            )
        scaled = self.alpha / d[:, None]
        value = 0.5 * float(np.sum(np.log(d[:, None]) - self.alpha * scaled - LOG_2PI))
        # dL/dalpha = -alpha/d and dL/dd = (1/d + alpha^2/d^2)/2
        return value, self.pull_left_out(-scaled, 0.5 * np.sum(1.0 / d[:, None] + scaled**2, axis=1))

    def averaged_log_prob(self) -> tuple[float, Gradient]:
        """The same with the mean of d for every row, and its gradient: generalized cross-validation as a log density.

        Over a common factor of kernel and noise its maximum is -n/2 log GCV and a constant, with
        GCV = n |(I - A) y|^2 / tr(I - A)^2 of the smoother A; the factor makes the noise variance
        |(I - A) y|^2 / tr(I - A), the estimate of Wahba (1990).
        """
        if np.ptp(self.variance) > 0.0:
            raise UnsupportedPairError(
                "generalized cross-validation needs one noise variance for all rows",
                remedy=("use ", Setting("objective", ("loo", "evidence"))),
            )
        n, T, squares = self.n, self.targets, float(np.vdot(self.alpha, self.alpha))
        d = float(np.mean(self._left[0]))
        if not d > 0.0:
            raise NotPositiveDefiniteError("no degree of freedom is left for generalized cross-validation")
        value = 0.5 * (n * T * (np.log(d) - LOG_2PI) - squares / d)
        slope = 0.5 * (T / d + squares / (n * d * d))
        return value, self.pull_left_out(-self.alpha / d, np.full(n, slope))

    def pull_left_out(self, d_alpha: Array, d_d: Array) -> Gradient:
        """Gradient of any function of alpha (n, T) and d, the diagonal of R, from its derivatives in both.

        d alpha = -R dA alpha and dd = -diag(R dA R): one cotangent of A for all parameters.
        """
        U = self._times_R(d_alpha)
        left, right = [-U], [self.alpha]
        if self.trend is not None:
            more_left, more_right = lowered(self.conditioning, self.trend.root, 0.0, d_d)
            left, right = left + more_left, right + more_right
        # the diagonal of the cotangent of A, which is also that of the noise variances
        d_noise = -np.einsum("ij,ij->i", U, self.alpha) - self._squared_R(d_d)
        prior = self.conditioning.pull_prior(np.hstack(left), np.hstack(right), 0.0, d_unexplained=d_d)
        return Gradient.of(self.prior, prior, -U.sum(axis=1), self.d_noise @ d_noise)

    def _times_R(self, U: Array) -> Array:
        out = self.conditioning.apply(U)
        return out if self.trend is None else out - self.trend.root @ (self.trend.root.T @ U)

    def _squared_R(self, g: Array) -> Array:
        """(R o R) g, of R = A^-1 - W W'."""
        out = self.conditioning.apply_squared(g)
        if self.trend is None:
            return out
        W = self.trend.root
        scaled = g[:, None] * W
        mixed = np.einsum("ij,ij->i", self.conditioning.apply(scaled), W)
        return np.asarray(out - 2.0 * mixed + np.einsum("ij,jk,ik->i", W, W.T @ scaled, W))


class Exact(InferenceRule):
    """Exact inference; needs Gaussian noise.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.inference import Exact
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> model = GP(1.0 * SE(1.0), Gaussian(0.1), inference=Exact())
    >>> posterior = model.condition([[0.0], [1.0]], [0.5, -0.5])
    >>> round(posterior.log_evidence, 3)
    -2.259
    """

    name = "exact"
    integrates_basis = True

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the likelihood is Gaussian in f."""
        return isinstance(likelihood, GaussianNoise)

    def _observed(
        self,
        prior: LatentPrior,
        observations: Observations,
        known: Conditioning | None = None,
        transient: bool = False,
    ) -> Observed:
        if not self.supports(observations.likelihood):
            raise UnsupportedPairError(
                f"exact inference needs Gaussian noise, got {type(observations.likelihood).__name__}",
                remedy=("use ", Setting("inference", ("laplace", "ep", "variational", "mcmc"))),
            )
        return Observed(prior, observations, known, transient)

    def infer(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Approximation:
        """Posterior process and log evidence."""
        return self._approximation(self._observed(prior, observations))

    def extend(self, known: Conditioning, prior: LatentPrior, observations: Observations) -> Approximation:
        """As `infer`, if the leading rows of the prior are those of a conditioning that is known."""
        return self._approximation(self._observed(prior, observations, known))

    def _approximation(self, c: Observed) -> Approximation:
        jitter = c.conditioning.jitter
        message = f"jitter {jitter:.3g} was added to the diagonal" if jitter else ""
        return Approximation(
            c.process(), c.log_evidence, Status(jitter=jitter, message=message), c.gaussian()
        )

    def evidence(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Evidence:
        """Log evidence and its gradient; of a dense prior in the memory of two n x n matrices."""
        found = self._evidence_in_one(prior, observations)
        if found is not None:
            return found
        c = self._observed(prior, observations, transient=True)
        value = c.log_evidence
        return Evidence(value, c.evidence_gradient())

    @staticmethod
    def _evidence_in_one(prior: LatentPrior, observations: Observations) -> Evidence | None:
        """The same of one target by representations that have it in one go."""
        likelihood, y = observations.likelihood, observations.y
        if observations.weight is not None or y.ndim != 1 or isinstance(prior.mean_function, Basis):
            return None
        if not isinstance(likelihood, GaussianNoise):
            return None
        variance, d_variance = likelihood.noise_variances(prior.n)
        found = prior.observed_evidence(y - prior.mean, variance)
        if found is None:
            return None
        d_noise = d_variance @ (0.5 * (found.weights**2 - found.unexplained))
        return Evidence(found.log_density, Gradient.of(prior, found.prior, found.weights, d_noise))

    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> GaussianPrediction:
        """Distribution of each target given all others (without refitting the hyperparameters)."""
        c = self._observed(prior, observations)
        mean, variance = c.leave_one_out()
        mean = (mean.T + prior.mean).T
        if c.targets == 1:
            mean = mean[:, 0]
        # 1/d is the variance of an observation with this point's own effective noise; report one of weight one
        variance = variance - c.variance + c.noise
        return GaussianPrediction(
            mean, variance if mean.ndim == 1 else np.repeat(variance[:, None], mean.shape[1], 1)
        )

    def leave_one_out_log_prob(
        self, prior: LatentPrior, observations: Observations, averaged: bool = False
    ) -> tuple[float, Gradient]:
        """Sum of leave-one-out log densities and its gradient."""
        if np.any(observations.weights != 1.0):
            raise ValueError(
                "leave-one-out learning takes no sample weights other than 0 and 1; use objective='evidence'"
            )
        found = self._observed(prior, observations)
        return found.averaged_log_prob() if averaged else found.leave_one_out_log_prob()

    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Effective number of parameters, tr(K A^-1) (Rasmussen and Williams 2006, section 2.6), plus the basis
        functions that were fitted."""
        c = self._observed(prior, observations)
        return float(c.n - c.variance @ c._left[0])
