"""Numbers behind pictures, reports and tables, without matplotlib.

`calibration` probability integral transforms, quantile residuals, reliability of stated probabilities
`relevance` Sobol indices, inverse length scales, partial dependence
`evidence` the log evidence along one or two hyperparameters, and the optima that runs reached
`kernel_components` the parts of a sum of kernels
`grids` places at which a function is looked at
"""

from cavity.measures.calibration import Reliability, pit, quantile_residuals, reliability
from cavity.measures.evidence import Surface, evidence_surface, optima
from cavity.measures.kernel_components import Component, additive_components
from cavity.measures.relevance import (
    PartialDependence,
    Relevance,
    inverse_lengthscales,
    partial_dependence,
    sobol_total,
)

__all__ = [
    "Component",
    "PartialDependence",
    "Relevance",
    "Reliability",
    "Surface",
    "additive_components",
    "evidence_surface",
    "inverse_lengthscales",
    "optima",
    "partial_dependence",
    "pit",
    "quantile_residuals",
    "reliability",
    "sobol_total",
]
