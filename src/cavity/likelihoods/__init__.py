"""Observation models p(y | f)."""

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    LatentDerivatives,
    Likelihood,
    ParameterDerivatives,
    Tilted,
)
from cavity.likelihoods.gaussian import Gaussian, GaussianNoise, KnownNoise

__all__ = [
    "Derivatives",
    "ExpectedLogProb",
    "Gaussian",
    "GaussianNoise",
    "KnownNoise",
    "LatentDerivatives",
    "Likelihood",
    "ParameterDerivatives",
    "Tilted",
]
