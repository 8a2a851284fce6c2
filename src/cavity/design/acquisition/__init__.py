"""Acquisition functions: what an experiment at a point is worth.

Those of mean and variance return a `Score`, their values with derivatives in both; all minimize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.design.acquisition.confidence import gp_ucb_multiplier as gp_ucb_multiplier
    from cavity.design.acquisition.confidence import gp_ucb_regret_bound as gp_ucb_regret_bound
    from cavity.design.acquisition.confidence import information as information
    from cavity.design.acquisition.confidence import lower_confidence_bound as lower_confidence_bound
    from cavity.design.acquisition.confidence import multiplier_for as multiplier_for
    from cavity.design.acquisition.entropy import above_minimum as above_minimum
    from cavity.design.acquisition.entropy import draw_minima as draw_minima
    from cavity.design.acquisition.entropy import entropy_search as entropy_search
    from cavity.design.acquisition.entropy import gibbon as gibbon
    from cavity.design.acquisition.entropy import max_value_entropy as max_value_entropy
    from cavity.design.acquisition.improvement import Score as Score
    from cavity.design.acquisition.improvement import expected_improvement as expected_improvement
    from cavity.design.acquisition.improvement import log_augmented_improvement as log_augmented_improvement
    from cavity.design.acquisition.improvement import log_expected_improvement as log_expected_improvement
    from cavity.design.acquisition.improvement import log_h as log_h
    from cavity.design.acquisition.improvement import (
        log_probability_of_improvement as log_probability_of_improvement,
    )
    from cavity.design.acquisition.improvement import probability_of_improvement as probability_of_improvement
    from cavity.design.acquisition.knowledge import expected_maximum_gain as expected_maximum_gain
    from cavity.design.acquisition.knowledge import knowledge_gradient as knowledge_gradient
    from cavity.design.acquisition.one_shot import OneShotKnowledge as OneShotKnowledge
    from cavity.design.acquisition.one_shot import slice_means as slice_means
    from cavity.design.acquisition.pointwise import OfMoments as OfMoments
    from cavity.design.acquisition.pointwise import log_ei as log_ei
    from cavity.design.acquisition.pointwise import log_noisy_ei as log_noisy_ei
    from cavity.design.acquisition.predictive_entropy import GivenMinimum as GivenMinimum
    from cavity.design.acquisition.predictive_entropy import PredictiveEntropy as PredictiveEntropy
    from cavity.design.acquisition.predictive_entropy import given_minimum as given_minimum
    from cavity.design.acquisition.thompson import OnDemandDraw as OnDemandDraw
    from cavity.design.acquisition.thompson import Path as Path
    from cavity.design.acquisition.thompson import draw_path as draw_path
    from cavity.design.acquisition.thompson import joint_draws as joint_draws
    from cavity.design.acquisition.thompson import probability_of_minimum as probability_of_minimum

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
