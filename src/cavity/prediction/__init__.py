"""Predictive distributions: normal, other continuous ones, mixtures, categories, and their averages."""

from cavity.prediction.average import MixedCounts, MixedPrediction, Slices, average
from cavity.prediction.base import Prediction
from cavity.prediction.by_group import GroupedPrediction
from cavity.prediction.categorical import CategoricalPrediction
from cavity.prediction.continuous import ContinuousPrediction
from cavity.prediction.gaussian import GaussianPrediction
from cavity.prediction.mixture_of_gaussians import MixturePrediction
from cavity.prediction.student_t import StudentTPrediction
from cavity.prediction.warped import WarpedPrediction

__all__ = [
    "CategoricalPrediction",
    "ContinuousPrediction",
    "GaussianPrediction",
    "GroupedPrediction",
    "MixedCounts",
    "MixedPrediction",
    "MixturePrediction",
    "Prediction",
    "Slices",
    "StudentTPrediction",
    "WarpedPrediction",
    "average",
]
