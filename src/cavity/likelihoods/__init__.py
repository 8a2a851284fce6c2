"""Observation models p(y | f)."""

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    LatentDerivatives,
    Likelihood,
    MultiLatentLikelihood,
    ParameterDerivatives,
    Tilted,
)
from cavity.likelihoods.classification import BinaryLikelihood, Heaviside, LapseProbit, Logit, Probit
from cavity.likelihoods.counts import Binomial, CountLikelihood, NegativeBinomial, Poisson
from cavity.likelihoods.gaussian import Gaussian, GaussianNoise, KnownNoise, Noiseless
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.laplace import EpsilonInsensitive, Laplace
from cavity.likelihoods.mixture import Mixture, MixtureOfGaussians
from cavity.likelihoods.ordinal import OrdinalProbit
from cavity.likelihoods.registry import as_likelihood
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.likelihoods.softmax import Softmax
from cavity.likelihoods.student_t import StudentT

__all__ = [
    "BinaryLikelihood",
    "Binomial",
    "CountLikelihood",
    "Derivatives",
    "EpsilonInsensitive",
    "ExpectedLogProb",
    "Gaussian",
    "GaussianNoise",
    "Heaviside",
    "HeteroscedasticGaussian",
    "KnownNoise",
    "Laplace",
    "LapseProbit",
    "LatentDerivatives",
    "Likelihood",
    "Logit",
    "Mixture",
    "MixtureOfGaussians",
    "MultiLatentLikelihood",
    "NegativeBinomial",
    "Noiseless",
    "OrdinalProbit",
    "ParameterDerivatives",
    "Poisson",
    "Probit",
    "ScaleMixture",
    "Softmax",
    "StudentT",
    "Tilted",
    "as_likelihood",
]
