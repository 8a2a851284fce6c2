"""EM: mixtures and hidden Markov models, fast and safe.

`GaussianMixture`, `StudentTMixture` and `Mixture` (any components), `HMM` (any emissions), and the engine
under them (`run_em`). See docs/em.md.
"""

from __future__ import annotations

from cavity.em.components import Bernoulli, Categorical, Components, Exponential, Plugin, Poisson
from cavity.em.emissions import MixtureEmission, Product
from cavity.em.engine import (
    DegeneracyError,
    DegeneracyWarning,
    EMResult,
    MonotonicityError,
    gradient_m_step,
    run_em,
    run_restarts,
)
from cavity.em.filtering import Forecast, OnlineFilter
from cavity.em.gaussian import Gaussian
from cavity.em.hmm import HMM
from cavity.em.mixture import GaussianMixture, Mixture, StudentTMixture
from cavity.em.priors import NormalInverseWishart
from cavity.em.selection import Candidate
from cavity.em.standard_errors import StandardErrors
from cavity.em.student import StudentT

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
