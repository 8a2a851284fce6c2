"""EM: mixtures and hidden Markov models, fast and safe.

`GaussianMixture`, `StudentTMixture` and `Mixture` (any components), `HMM` (any emissions), and the engine
under them (`run_em`). See docs/em.md.
"""

from __future__ import annotations

from .components import Bernoulli, Categorical, Components, Exponential, Plugin, Poisson
from .emissions import MixtureEmission, Product
from .engine import (
    DegeneracyError,
    DegeneracyWarning,
    EMResult,
    MonotonicityError,
    gradient_m_step,
    run_em,
    run_restarts,
)
from .filtering import Forecast, OnlineFilter
from .gaussian import Gaussian
from .hmm import HMM
from .mixture import GaussianMixture, Mixture, StudentTMixture
from .priors import NormalInverseWishart
from .selection import Candidate
from .standard_errors import StandardErrors
from .student import StudentT

__all__ = [
    "HMM",
    "Bernoulli",
    "Candidate",
    "Categorical",
    "Components",
    "DegeneracyError",
    "DegeneracyWarning",
    "EMResult",
    "Exponential",
    "Forecast",
    "Gaussian",
    "GaussianMixture",
    "Mixture",
    "MixtureEmission",
    "MonotonicityError",
    "NormalInverseWishart",
    "OnlineFilter",
    "Plugin",
    "Poisson",
    "Product",
    "StandardErrors",
    "StudentT",
    "StudentTMixture",
    "gradient_m_step",
    "run_em",
    "run_restarts",
]
