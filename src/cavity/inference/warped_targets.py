"""Any rule for noise around f, applied to warped targets z = T(y).

log p(y) = log p(z) + sum_i w_i log T'(y_i). Noise around f depends on z - f alone and the prior on f - m, so that the
evidence of every rule depends on z - m: its derivative in z is minus that in the prior mean at the training rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from cavity.inference.base import Approximation, Evidence, Gradient, InferenceRule
from cavity.latent.base import LatentPrior
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.warped_target import WarpedTarget
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

    def infer(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Approximation:
        """The posterior given z; the evidence is that of y."""
        return _of_y(self.rule.infer(prior, _warped(observations), warm), observations)

    def extend(self, known: Any, prior: LatentPrior, observations: Observations) -> Approximation:
        """As `Exact.extend`."""
        return _of_y(cast(Any, self.rule).extend(known, prior, _warped(observations)), observations)

    def evidence(self, prior: LatentPrior, observations: Observations, warm: Any = None) -> Evidence:
        """Log evidence of y and its gradient, also in the parameters of the warp."""
        found = self.rule.evidence(prior, _warped(observations), warm)
        return Evidence(
            found.value + _volume(observations), _with_warp(found.gradient, observations), found.warm
        )

    def leave_one_out(self, prior: LatentPrior, observations: Observations) -> Prediction:
        """Of y."""
        found = self.rule.leave_one_out(prior, _warped(observations))
        return cast(WarpedTarget, observations.likelihood).in_units_of_targets(found)

    def leave_one_out_log_prob(
        self, prior: LatentPrior, observations: Observations, averaged: bool = False
    ) -> tuple[float, Gradient]:
        """Of y."""
        value, gradient = self.rule.leave_one_out_log_prob(prior, _warped(observations), averaged)
        return value + _volume(observations), _with_warp(gradient, observations)

    def degrees_of_freedom(self, prior: LatentPrior, observations: Observations) -> float:
        """Of the smoother of z."""
        return self.rule.degrees_of_freedom(prior, _warped(observations))


def _warped(observations: Observations) -> Observations:
    """z, under the noise."""
    likelihood = observations.likelihood
    return observations.under(likelihood.noise, likelihood.latent_targets(observations.y))


def _of_y(found: Approximation, observations: Observations) -> Approximation:
    return replace(found, log_evidence=found.log_evidence + _volume(observations))


def _volume(observations: Observations) -> float:
    """sum_i w_i log dz_i/dy_i."""
    slopes = cast(WarpedTarget, observations.likelihood).warp.log_slope(observations.y)
    return float(np.sum(observations.weighted(slopes)))


def _with_warp(found: Gradient, observations: Observations) -> Gradient:
    """With derivatives in the parameters of the warp, from those in the values of the mean."""
    d_z, d_log = cast(WarpedTarget, observations.likelihood).warp.parameter_slopes(observations.y)
    d_warp = -d_z @ found.mean_values + np.sum(observations.weighted(d_log), axis=1)
    return replace(found, likelihood=np.concatenate([found.likelihood, d_warp]))
