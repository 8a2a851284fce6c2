"""EM: mixtures and hidden Markov models, fast and safe.

`GaussianMixture`, `StudentTMixture` and `Mixture` (any components), `HMM` (any emissions), `GTM` (a smooth map), and
the EM iterations under them (`run_em`). See docs/em.md.
"""

from __future__ import annotations

from cavity.em.bernoulli import Bernoulli
from cavity.em.categorical import Categorical
from cavity.em.components import Components
from cavity.em.expectation_maximization import (
    DegeneracyError,
    DegeneracyWarning,
    EMResult,
    MonotonicityError,
    gradient_m_step,
    run_em,
    run_restarts,
)
from cavity.em.exponential import Exponential
from cavity.em.filtering import Forecast, OnlineFilter
from cavity.em.fisher_scores import FisherScores, TOPScores
from cavity.em.gaussian import Gaussian
from cavity.em.gaussian_mixture import GaussianMixture
from cavity.em.gtm import GTM
from cavity.em.hmm import HMM
from cavity.em.mixture import Mixture
from cavity.em.mixture_emission import MixtureEmission
from cavity.em.plugin import Plugin
from cavity.em.poisson import Poisson
from cavity.em.priors import NormalInverseWishart
from cavity.em.product import Product
from cavity.em.selection import Candidate
from cavity.em.standard_errors import StandardErrors
from cavity.em.student_t import StudentT
from cavity.em.student_t_mixture import StudentTMixture

__all__ = [
    "GTM",
    "HMM",
    "Bernoulli",
    "Candidate",
    "Categorical",
    "Components",
    "DegeneracyError",
    "DegeneracyWarning",
    "EMResult",
    "Exponential",
    "FisherScores",
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
    "TOPScores",
    "gradient_m_step",
    "run_em",
    "run_restarts",
]
