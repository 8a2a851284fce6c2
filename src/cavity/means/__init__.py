"""Mean functions of a Gaussian process, and explicit basis functions whose weights are integrated out."""

from cavity.means.features import Harmonics, Powers
from cavity.means.functions import Basis, Constant, FunctionMean, Linear, Mean, Polynomial, Sum, Zero, as_mean

__all__ = [
    "Basis",
    "Constant",
    "FunctionMean",
    "Harmonics",
    "Linear",
    "Mean",
    "Polynomial",
    "Powers",
    "Sum",
    "Zero",
    "as_mean",
]
