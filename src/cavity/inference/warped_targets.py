"""Any rule for noise around f, applied to warped targets z = T(y).

log p(y) = log p(z) + sum_i w_i log T'(y_i). Noise around f depends on z - f alone and the prior on f - m, so that the
evidence of every rule depends on z - m: its derivative in z is minus that in the prior mean at the training rows.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, cast

import numpy as np

from cavity.inference.base import Approximation, Evidence, Gradient, InferenceRule
from cavity.latent.base import LatentPrior
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.warped_target import WarpedTarget
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction


class OnWarpedTargets(InferenceRule):
    """A rule that sees the warped targets and their noise.

    Parameters
    ----------
    rule : InferenceRule
        For the noise.

    Examples
    --------
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian, PositiveWarp, WarpedTarget
    >>> model = GP(1.0 * SE(1.0), WarpedTarget(Gaussian(0.1), PositiveWarp()))
    >>> model.rule.name, model.condition([[0.0], [1.0]], [0.5, 2.0]).status.converged
    ('exact', True)
    """

    def __init__(self, rule: InferenceRule) -> None:
        self.rule, self.name, self.integrates_basis = rule, rule.name, rule.integrates_basis

    @classmethod
    def if_warped(cls, rule: InferenceRule, likelihood: Likelihood) -> InferenceRule:
        """The rule as it applies to a likelihood; one that samples asks the likelihood itself."""
        return cls(rule) if isinstance(likelihood, WarpedTarget) and not rule.samples else rule

    def supports(self, likelihood: Likelihood) -> bool:
        """Whether the rule supports the noise."""
        return self.rule.supports(likelihood.noise)

    def infer(
        self,
        prior: LatentPrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        warm: Any = None,
    ) -> Approximation:
        """The posterior given z; the evidence is that of y."""
        found = self.rule.infer(prior, likelihood.noise, likelihood.latent_targets(y), sample_weight, warm)
        return replace(found, log_evidence=found.log_evidence + _volume(likelihood, y, sample_weight))

    def extend(
        self,
        known: Any,
        prior: LatentPrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
    ) -> Approximation:
        """As `Exact.extend`."""
        z = likelihood.latent_targets(y)
        found = cast(Any, self.rule).extend(known, prior, likelihood.noise, z, sample_weight)
        return cast(
            Approximation,
            replace(found, log_evidence=found.log_evidence + _volume(likelihood, y, sample_weight)),
        )

    def evidence(
        self,
        prior: LatentPrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        warm: Any = None,
    ) -> Evidence:
        """Log evidence of y and its gradient, also in the parameters of the warp."""
        z = likelihood.latent_targets(y)
        found = self.rule.evidence(_telling_means(prior), likelihood.noise, z, sample_weight, warm)
        value = found.value + _volume(likelihood, y, sample_weight)
        return Evidence(value, _with_warp(found.gradient, likelihood, y, sample_weight), found.warm)

    def leave_one_out(
        self, prior: LatentPrior, likelihood: Likelihood, y: Array, sample_weight: Array | None = None
    ) -> Prediction:
        """Of y."""
        z = likelihood.latent_targets(y)
        found = self.rule.leave_one_out(prior, likelihood.noise, z, sample_weight)
        return cast(WarpedTarget, likelihood).in_units_of_targets(found)

    def leave_one_out_log_prob(
        self,
        prior: LatentPrior,
        likelihood: Likelihood,
        y: Array,
        sample_weight: Array | None = None,
        averaged: bool = False,
    ) -> tuple[float, Gradient]:
        """Of y."""
        z = likelihood.latent_targets(y)
        found = self.rule.leave_one_out_log_prob(
            _telling_means(prior), likelihood.noise, z, sample_weight, averaged
        )
        value, gradient = found
        return value + _volume(likelihood, y, sample_weight), _with_warp(
            gradient, likelihood, y, sample_weight
        )

    def degrees_of_freedom(self, prior: LatentPrior, likelihood: Likelihood, y: Array) -> float:
        """Of the smoother of z."""
        inner = cast(Any, self.rule)
        return float(inner.degrees_of_freedom(prior, likelihood.noise, likelihood.latent_targets(y)))


def _volume(likelihood: Likelihood, y: Array, weight: Array | None) -> float:
    """sum_i w_i log dz_i/dy_i."""
    slopes = cast(WarpedTarget, likelihood).warp.log_slope(y)
    return float(np.sum(slopes if weight is None else weight * slopes))


def _telling_means(prior: LatentPrior) -> LatentPrior:
    """The prior, whose derivatives in the mean function are followed by those in its n values."""
    telling = copy(prior)
    telling.pull_mean = lambda g: np.concatenate([prior.pull_mean(g), g])  # type: ignore[method-assign]
    return telling


def _with_warp(found: Gradient, likelihood: Likelihood, y: Array, weight: Array | None) -> Gradient:
    """Derivatives in the values of the mean as derivatives in the parameters of the warp."""
    d_z, d_log = cast(WarpedTarget, likelihood).warp.parameter_slopes(y)
    n = len(y)
    d_warp = -d_z @ found.mean[-n:] + np.sum(d_log if weight is None else weight * d_log, axis=1)
    return replace(found, mean=found.mean[:-n], likelihood=np.concatenate([found.likelihood, d_warp]))
