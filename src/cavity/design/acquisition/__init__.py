"""Acquisition functions: what an experiment at a point is worth.

Those of mean and variance return a `Score`, their values with derivatives in both; all minimize.
"""

from cavity.design.acquisition.confidence import (
    gp_ucb_multiplier,
    gp_ucb_regret_bound,
    information,
    lower_confidence_bound,
    multiplier_for,
)
from cavity.design.acquisition.entropy import (
    above_minimum,
    draw_minima,
    entropy_search,
    gibbon,
    max_value_entropy,
)
from cavity.design.acquisition.improvement import (
    Score,
    expected_improvement,
    log_augmented_improvement,
    log_expected_improvement,
    log_h,
    log_probability_of_improvement,
    probability_of_improvement,
)
from cavity.design.acquisition.knowledge import expected_maximum_gain, knowledge_gradient
from cavity.design.acquisition.one_shot import OneShotKnowledge, slice_means
from cavity.design.acquisition.pointwise import OfMoments, log_ei, log_noisy_ei
from cavity.design.acquisition.predictive_entropy import GivenMinimum, PredictiveEntropy, given_minimum
from cavity.design.acquisition.thompson import (
    OnDemandDraw,
    Path,
    draw_path,
    joint_draws,
    probability_of_minimum,
)

__all__ = [
    "GivenMinimum",
    "OfMoments",
    "OnDemandDraw",
    "OneShotKnowledge",
    "Path",
    "PredictiveEntropy",
    "Score",
    "above_minimum",
    "draw_minima",
    "draw_path",
    "entropy_search",
    "expected_improvement",
    "expected_maximum_gain",
    "gibbon",
    "given_minimum",
    "gp_ucb_multiplier",
    "gp_ucb_regret_bound",
    "information",
    "joint_draws",
    "knowledge_gradient",
    "log_augmented_improvement",
    "log_ei",
    "log_expected_improvement",
    "log_h",
    "log_noisy_ei",
    "log_probability_of_improvement",
    "lower_confidence_bound",
    "max_value_entropy",
    "multiplier_for",
    "probability_of_improvement",
    "probability_of_minimum",
    "slice_means",
]
