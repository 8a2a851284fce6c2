"""Covariance functions and their algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.kernels.additive import Additive as Additive
    from cavity.kernels.algebra import On as On
    from cavity.kernels.algebra import Power as Power
    from cavity.kernels.algebra import Product as Product
    from cavity.kernels.algebra import Scaled as Scaled
    from cavity.kernels.algebra import Sum as Sum
    from cavity.kernels.automatic_relevance import ard as ard
    from cavity.kernels.autoregressive import Autoregressive as Autoregressive
    from cavity.kernels.base import Kernel as Kernel
    from cavity.kernels.blurred import Blurred as Blurred
    from cavity.kernels.box_averages import BoxAverages as BoxAverages
    from cavity.kernels.categorical import Categorical as Categorical
    from cavity.kernels.celerite import Celerite as Celerite
    from cavity.kernels.constant import Constant as Constant
    from cavity.kernels.cosine import Cosine as Cosine
    from cavity.kernels.damped_oscillator import DampedOscillator as DampedOscillator
    from cavity.kernels.formula import parse as parse
    from cavity.kernels.gamma_exponential import GammaExponential as GammaExponential
    from cavity.kernels.gibbs import Gibbs as Gibbs
    from cavity.kernels.graphs import RandomWalk as RandomWalk
    from cavity.kernels.graphs import WeisfeilerLehman as WeisfeilerLehman
    from cavity.kernels.graphs import encode_graphs as encode_graphs
    from cavity.kernels.input_functions import register_function as register_function
    from cavity.kernels.integrated_ou import IntegratedOU as IntegratedOU
    from cavity.kernels.invariant import Invariant as Invariant
    from cavity.kernels.linear import Linear as Linear
    from cavity.kernels.matern import Matern as Matern
    from cavity.kernels.neural_network import NeuralNetwork as NeuralNetwork
    from cavity.kernels.noise_term import NoiseTerm as NoiseTerm
    from cavity.kernels.on_circle import OnCircle as OnCircle
    from cavity.kernels.outputs import Convolved as Convolved
    from cavity.kernels.outputs import Coregionalized as Coregionalized
    from cavity.kernels.paciorek_schervish import PaciorekSchervish as PaciorekSchervish
    from cavity.kernels.periodic import Periodic as Periodic
    from cavity.kernels.piecewise_polynomial import PiecewisePolynomial as PiecewisePolynomial
    from cavity.kernels.polynomial import Polynomial as Polynomial
    from cavity.kernels.rational_quadratic import RationalQuadratic as RationalQuadratic
    from cavity.kernels.rescaling import Normalized as Normalized
    from cavity.kernels.rescaling import Rescaled as Rescaled
    from cavity.kernels.seasonal import Seasonal as Seasonal
    from cavity.kernels.spectral_mixture import SpectralMixture as SpectralMixture
    from cavity.kernels.squared_exponential import SE as SE
    from cavity.kernels.standardized import Standardized as Standardized
    from cavity.kernels.stationary import Stationary as Stationary
    from cavity.kernels.strings import Gappy as Gappy
    from cavity.kernels.strings import Mismatch as Mismatch
    from cavity.kernels.strings import Subsets as Subsets
    from cavity.kernels.strings import Substrings as Substrings
    from cavity.kernels.strings import Words as Words
    from cavity.kernels.strings import encode as encode
    from cavity.kernels.thin_plate import ThinPlate as ThinPlate
    from cavity.kernels.warping import Warped as Warped
    from cavity.kernels.white_noise import White as White
    from cavity.kernels.wiener import IntegratedWiener as IntegratedWiener
    from cavity.kernels.wiener import Wiener as Wiener
    from cavity.kernels.with_slopes import WithSlopes as WithSlopes
    from cavity.kernels.with_slopes import slopes as slopes
    from cavity.kernels.with_slopes import values as values

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
