"""Observation models p(y | f)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.likelihoods.base import Derivatives as Derivatives
    from cavity.likelihoods.base import ExpectedLogProb as ExpectedLogProb
    from cavity.likelihoods.base import LatentDerivatives as LatentDerivatives
    from cavity.likelihoods.base import Likelihood as Likelihood
    from cavity.likelihoods.base import MultiLatentLikelihood as MultiLatentLikelihood
    from cavity.likelihoods.base import ParameterDerivatives as ParameterDerivatives
    from cavity.likelihoods.base import Tilted as Tilted
    from cavity.likelihoods.binary import BinaryLikelihood as BinaryLikelihood
    from cavity.likelihoods.binomial import Binomial as Binomial
    from cavity.likelihoods.class_labels import ClassLabels as ClassLabels
    from cavity.likelihoods.counts import CountLikelihood as CountLikelihood
    from cavity.likelihoods.epsilon_insensitive import EpsilonInsensitive as EpsilonInsensitive
    from cavity.likelihoods.gaussian import Gaussian as Gaussian
    from cavity.likelihoods.gaussian import GaussianNoise as GaussianNoise
    from cavity.likelihoods.gaussian import KnownNoise as KnownNoise
    from cavity.likelihoods.gaussian import Noiseless as Noiseless
    from cavity.likelihoods.heteroscedastic import HeteroscedasticGaussian as HeteroscedasticGaussian
    from cavity.likelihoods.laplace import Laplace as Laplace
    from cavity.likelihoods.least_squares import LeastSquares as LeastSquares
    from cavity.likelihoods.logit import Logit as Logit
    from cavity.likelihoods.mixture import Mixture as Mixture
    from cavity.likelihoods.mixture_of_gaussians import MixtureOfGaussians as MixtureOfGaussians
    from cavity.likelihoods.negative_binomial import NegativeBinomial as NegativeBinomial
    from cavity.likelihoods.observations import Observations as Observations
    from cavity.likelihoods.one_vs_rest import OneVsRest as OneVsRest
    from cavity.likelihoods.ordinal import OrdinalProbit as OrdinalProbit
    from cavity.likelihoods.poisson import Poisson as Poisson
    from cavity.likelihoods.probit import Heaviside as Heaviside
    from cavity.likelihoods.probit import LapseProbit as LapseProbit
    from cavity.likelihoods.probit import Probit as Probit
    from cavity.likelihoods.registry import as_likelihood as as_likelihood
    from cavity.likelihoods.scale_mixture import ScaleMixture as ScaleMixture
    from cavity.likelihoods.softmax import Softmax as Softmax
    from cavity.likelihoods.student_t import StudentT as StudentT
    from cavity.likelihoods.switch import GaussianSwitch as GaussianSwitch
    from cavity.likelihoods.switch import Switch as Switch
    from cavity.likelihoods.warped_target import WarpedTarget as WarpedTarget
    from cavity.likelihoods.warps import Clipped as Clipped
    from cavity.likelihoods.warps import IntervalWarp as IntervalWarp
    from cavity.likelihoods.warps import PositiveWarp as PositiveWarp
    from cavity.likelihoods.warps import Warp as Warp

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
