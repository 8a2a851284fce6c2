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
from cavity.likelihoods.binary import BinaryLikelihood
from cavity.likelihoods.binomial import Binomial
from cavity.likelihoods.class_labels import ClassLabels
from cavity.likelihoods.counts import CountLikelihood
from cavity.likelihoods.epsilon_insensitive import EpsilonInsensitive
from cavity.likelihoods.gaussian import Gaussian, GaussianNoise, KnownNoise, Noiseless
from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian
from cavity.likelihoods.laplace import Laplace
from cavity.likelihoods.least_squares import LeastSquares
from cavity.likelihoods.logit import Logit
from cavity.likelihoods.mixture import Mixture
from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians
from cavity.likelihoods.negative_binomial import NegativeBinomial
from cavity.likelihoods.observations import Observations
from cavity.likelihoods.one_vs_rest import OneVsRest
from cavity.likelihoods.ordinal import OrdinalProbit
from cavity.likelihoods.poisson import Poisson
from cavity.likelihoods.probit import Heaviside, LapseProbit, Probit
from cavity.likelihoods.registry import as_likelihood
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.likelihoods.softmax import Softmax
from cavity.likelihoods.student_t import StudentT
from cavity.likelihoods.switch import GaussianSwitch, Switch
from cavity.likelihoods.warped_target import WarpedTarget
from cavity.likelihoods.warps import Clipped, IntervalWarp, PositiveWarp, Warp

__all__ = [
    "BinaryLikelihood",
    "Binomial",
    "ClassLabels",
    "Clipped",
    "CountLikelihood",
    "Derivatives",
    "EpsilonInsensitive",
    "ExpectedLogProb",
    "Gaussian",
    "GaussianNoise",
    "GaussianSwitch",
    "Heaviside",
    "HeteroscedasticGaussian",
    "IntervalWarp",
    "KnownNoise",
    "Laplace",
    "LapseProbit",
    "LatentDerivatives",
    "LeastSquares",
    "Likelihood",
    "Logit",
    "Mixture",
    "MixtureOfGaussians",
    "MultiLatentLikelihood",
    "NegativeBinomial",
    "Noiseless",
    "Observations",
    "OneVsRest",
    "OrdinalProbit",
    "ParameterDerivatives",
    "Poisson",
    "PositiveWarp",
    "Probit",
    "ScaleMixture",
    "Softmax",
    "StudentT",
    "Switch",
    "Tilted",
    "Warp",
    "WarpedTarget",
    "as_likelihood",
]
