"""Covariance functions and their algebra."""

from cavity.kernels.additive import Additive
from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.automatic_relevance import ard
from cavity.kernels.autoregressive import Autoregressive
from cavity.kernels.base import Kernel
from cavity.kernels.blurred import Blurred
from cavity.kernels.box_averages import BoxAverages
from cavity.kernels.categorical import Categorical
from cavity.kernels.celerite import Celerite
from cavity.kernels.constant import Constant
from cavity.kernels.cosine import Cosine
from cavity.kernels.damped_oscillator import DampedOscillator
from cavity.kernels.gamma_exponential import GammaExponential
from cavity.kernels.gibbs import Gibbs
from cavity.kernels.graphs import RandomWalk, WeisfeilerLehman, encode_graphs
from cavity.kernels.input_functions import register_function
from cavity.kernels.integrated_ou import IntegratedOU
from cavity.kernels.invariant import Invariant
from cavity.kernels.linear import Linear
from cavity.kernels.matern import Matern
from cavity.kernels.neural_network import NeuralNetwork
from cavity.kernels.noise_term import NoiseTerm
from cavity.kernels.on_circle import OnCircle
from cavity.kernels.outputs import Convolved, Coregionalized
from cavity.kernels.paciorek_schervish import PaciorekSchervish
from cavity.kernels.parse import parse
from cavity.kernels.periodic import Periodic
from cavity.kernels.piecewise_polynomial import PiecewisePolynomial
from cavity.kernels.polynomial import Polynomial
from cavity.kernels.rational_quadratic import RationalQuadratic
from cavity.kernels.rescaling import Normalized, Rescaled
from cavity.kernels.seasonal import Seasonal
from cavity.kernels.spectral_mixture import SpectralMixture
from cavity.kernels.squared_exponential import SE
from cavity.kernels.standardized import Standardized
from cavity.kernels.stationary import Stationary
from cavity.kernels.strings import Gappy, Mismatch, Subsets, Substrings, Words, encode
from cavity.kernels.thin_plate import ThinPlate
from cavity.kernels.warping import Warped
from cavity.kernels.white_noise import White
from cavity.kernels.wiener import IntegratedWiener, Wiener
from cavity.kernels.with_slopes import WithSlopes, slopes, values

__all__ = [
    "SE",
    "Additive",
    "Autoregressive",
    "Blurred",
    "BoxAverages",
    "Categorical",
    "Celerite",
    "Constant",
    "Convolved",
    "Coregionalized",
    "Cosine",
    "DampedOscillator",
    "GammaExponential",
    "Gappy",
    "Gibbs",
    "IntegratedOU",
    "IntegratedWiener",
    "Invariant",
    "Kernel",
    "Linear",
    "Matern",
    "Mismatch",
    "NeuralNetwork",
    "NoiseTerm",
    "Normalized",
    "On",
    "OnCircle",
    "PaciorekSchervish",
    "Periodic",
    "PiecewisePolynomial",
    "Polynomial",
    "Power",
    "Product",
    "RandomWalk",
    "RationalQuadratic",
    "Rescaled",
    "Scaled",
    "Seasonal",
    "SpectralMixture",
    "Standardized",
    "Stationary",
    "Subsets",
    "Substrings",
    "Sum",
    "ThinPlate",
    "Warped",
    "WeisfeilerLehman",
    "White",
    "Wiener",
    "WithSlopes",
    "Words",
    "ard",
    "encode",
    "encode_graphs",
    "parse",
    "register_function",
    "slopes",
    "values",
]
