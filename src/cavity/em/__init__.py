"""EM: mixtures and hidden Markov models, fast and safe.

`GaussianMixture`, `StudentTMixture` and `Mixture` (any components), `HMM` (any emissions), `GTM` (a smooth map), and
the EM iterations under them (`run_em`). See docs/em.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.em.bernoulli import Bernoulli as Bernoulli
    from cavity.em.categorical import Categorical as Categorical
    from cavity.em.components import Components as Components
    from cavity.em.expectation_maximization import DegeneracyError as DegeneracyError
    from cavity.em.expectation_maximization import DegeneracyWarning as DegeneracyWarning
    from cavity.em.expectation_maximization import EMResult as EMResult
    from cavity.em.expectation_maximization import MonotonicityError as MonotonicityError
    from cavity.em.expectation_maximization import gradient_m_step as gradient_m_step
    from cavity.em.expectation_maximization import run_em as run_em
    from cavity.em.expectation_maximization import run_restarts as run_restarts
    from cavity.em.exponential import Exponential as Exponential
    from cavity.em.filtering import Forecast as Forecast
    from cavity.em.filtering import OnlineFilter as OnlineFilter
    from cavity.em.fisher_scores import FisherScores as FisherScores
    from cavity.em.fisher_scores import TOPScores as TOPScores
    from cavity.em.gaussian import Gaussian as Gaussian
    from cavity.em.gaussian_mixture import GaussianMixture as GaussianMixture
    from cavity.em.gtm import GTM as GTM
    from cavity.em.hmm import HMM as HMM
    from cavity.em.mixture import Mixture as Mixture
    from cavity.em.mixture_emission import MixtureEmission as MixtureEmission
    from cavity.em.plugin import Plugin as Plugin
    from cavity.em.poisson import Poisson as Poisson
    from cavity.em.priors import NormalInverseWishart as NormalInverseWishart
    from cavity.em.product import Product as Product
    from cavity.em.selection import Candidate as Candidate
    from cavity.em.standard_errors import StandardErrors as StandardErrors
    from cavity.em.student_t import StudentT as StudentT
    from cavity.em.student_t_mixture import StudentTMixture as StudentTMixture

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
