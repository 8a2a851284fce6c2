"""Covariance functions and their algebra."""

from cavity.kernels.algebra import On, Power, Product, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.simple import Constant, White
from cavity.kernels.stationary import SE, Stationary, ard

__all__ = ["SE", "Constant", "Kernel", "On", "Power", "Product", "Scaled", "Stationary", "Sum", "White", "ard"]
