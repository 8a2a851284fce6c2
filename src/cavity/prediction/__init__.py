"""Predictive distributions: normal, continuous, mixtures, categories."""

from cavity.prediction.distributions import (
    CategoricalPrediction,
    ContinuousPrediction,
    GaussianPrediction,
    MixedPrediction,
    MixturePrediction,
    Prediction,
)

__all__ = [
    "CategoricalPrediction",
    "ContinuousPrediction",
    "GaussianPrediction",
    "MixedPrediction",
    "MixturePrediction",
    "Prediction",
]
