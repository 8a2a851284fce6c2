"""Bayesian basics: conjugate families, intervals, tests, decisions, Gaussians, Laplace's method, linear models.

No Gaussian process is needed here. Every distribution answers what a `Prediction` answers (mean, variance, quantiles,
intervals, log densities, draws), and modes, highest-density regions and decisions besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.bayes.conjugate import Beta as Beta
    from cavity.bayes.conjugate import Dirichlet as Dirichlet
    from cavity.bayes.conjugate import Gamma as Gamma
    from cavity.bayes.conjugate import ImproperPriorError as ImproperPriorError
    from cavity.bayes.conjugate import NormalInverseGamma as NormalInverseGamma
    from cavity.bayes.conjugate import NormalInverseWishart as NormalInverseWishart
    from cavity.bayes.decisions import bayes_risk as bayes_risk
    from cavity.bayes.decisions import best_action as best_action
    from cavity.bayes.decisions import best_actions as best_actions
    from cavity.bayes.decisions import best_hypothesis as best_hypothesis
    from cavity.bayes.decisions import dominates as dominates
    from cavity.bayes.decisions import expectation as expectation
    from cavity.bayes.decisions import risk as risk
    from cavity.bayes.distributions import Distribution as Distribution
    from cavity.bayes.distributions import Mixture as Mixture
    from cavity.bayes.distributions import binomial as binomial
    from cavity.bayes.distributions import from_scipy as from_scipy
    from cavity.bayes.distributions import normal as normal
    from cavity.bayes.distributions import student_t as student_t
    from cavity.bayes.gaussian import Gaussian as Gaussian
    from cavity.bayes.grid import GridPosterior as GridPosterior
    from cavity.bayes.hypothesis_tests import binomial_test as binomial_test
    from cavity.bayes.hypothesis_tests import simulated_p_value as simulated_p_value
    from cavity.bayes.laplace_method import laplace as laplace
    from cavity.bayes.linear_models import BayesianLinearRegression as BayesianLinearRegression
    from cavity.bayes.linear_models import BayesianLogisticRegression as BayesianLogisticRegression
    from cavity.bayes.model_comparison import bayes_rule as bayes_rule
    from cavity.bayes.model_comparison import compare_models as compare_models
    from cavity.bayes.objective_priors import jeffreys as jeffreys
    from cavity.bayes.objective_priors import maximum_entropy as maximum_entropy
    from cavity.bayes.objective_priors import maximum_entropy_weights as maximum_entropy_weights
    from cavity.bayes.truncation import truncate as truncate

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
