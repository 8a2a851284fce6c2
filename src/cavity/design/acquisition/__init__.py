"""Acquisition functions: what an experiment at a point is worth."""

from cavity.design.acquisition.improvement import (
    Score,
    expected_improvement,
    log_expected_improvement,
    log_h,
    log_probability_of_improvement,
    probability_of_improvement,
)

__all__ = [
    "Score",
    "expected_improvement",
    "log_expected_improvement",
    "log_h",
    "log_probability_of_improvement",
    "probability_of_improvement",
]
