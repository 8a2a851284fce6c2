"""Covariance functions and their algebra."""

from cavity.kernels.additive import Additive
from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.categorical import Categorical
from cavity.kernels.columns import ard
from cavity.kernels.dot import Linear, NeuralNetwork, Polynomial
from cavity.kernels.functions import register_function
from cavity.kernels.gibbs import Gibbs
from cavity.kernels.parse import parse
from cavity.kernels.radial import GammaExponential, Matern, PiecewisePolynomial, RationalQuadratic
from cavity.kernels.simple import Constant, White
from cavity.kernels.spectral import Cosine, SpectralMixture
from cavity.kernels.stationary import SE, Stationary
from cavity.kernels.warping import Normalized, Periodic, Rescaled, Warped
from cavity.kernels.wiener import IntegratedWiener, Wiener

__all__ = [
    "SE",
    "Additive",
    "Categorical",
    "Constant",
    "Cosine",
    "GammaExponential",
    "Gibbs",
    "IntegratedWiener",
    "Kernel",
    "Linear",
    "Matern",
    "NeuralNetwork",
    "Normalized",
    "On",
    "Periodic",
    "PiecewisePolynomial",
    "Polynomial",
    "Power",
    "Product",
    "RationalQuadratic",
    "Rescaled",
    "Scaled",
    "SpectralMixture",
    "Stationary",
    "Sum",
    "Warped",
    "White",
    "Wiener",
    "ard",
    "parse",
    "register_function",
]
