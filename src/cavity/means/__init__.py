"""Mean functions of a Gaussian process, and explicit basis functions whose weights are integrated out."""

from cavity.means.basis import Basis
from cavity.means.basis_features import Harmonics, Monomials, Powers
from cavity.means.functions import Constant, FunctionMean, Linear, Mean, Polynomial, Sum, Zero, as_mean
from cavity.means.with_slopes import with_slopes

__all__ = [
    "Basis",
    "Constant",
    "FunctionMean",
    "Harmonics",
    "Linear",
    "Mean",
    "Monomials",
    "Polynomial",
    "Powers",
    "Sum",
    "Zero",
    "as_mean",
    "with_slopes",
]
