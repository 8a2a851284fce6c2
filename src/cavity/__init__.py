"""Gaussian processes with robust noise models and approximate inference that can be checked.

Everything public is loaded when first used, so that `import cavity` is quick. To add a public name, add one
import below: type checkers follow it, everybody else on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from cavity import assessment as assessment
    from cavity import bayes as bayes
    from cavity import control as control
    from cavity import datasets as datasets
    from cavity import design as design
    from cavity import em as em
    from cavity import forecasting as forecasting
    from cavity import inference as inference
    from cavity import integrals as integrals
    from cavity import io as io
    from cavity import kernels as kernels
    from cavity import learning as learning
    from cavity import likelihoods as likelihoods
    from cavity import means as means
    from cavity import parameters as parameters
    from cavity import plots as plots
    from cavity import prediction as prediction
    from cavity import sampling as sampling
    from cavity import studies as studies
    from cavity import theory as theory
    from cavity.assessment import assess as assess
    from cavity.estimators import GPLVM as GPLVM
    from cavity.estimators import BayesianGPLVM as BayesianGPLVM
    from cavity.estimators import CoregionalizedRegressor as CoregionalizedRegressor
    from cavity.estimators import GPClassifier as GPClassifier
    from cavity.estimators import GPRegressor as GPRegressor
    from cavity.estimators import GraphEncoder as GraphEncoder
    from cavity.estimators import RelevanceVectorClassifier as RelevanceVectorClassifier
    from cavity.estimators import RelevanceVectorRegressor as RelevanceVectorRegressor
    from cavity.estimators import StackedRegressor as StackedRegressor
    from cavity.estimators import SubstringCounts as SubstringCounts
    from cavity.estimators import TextEncoder as TextEncoder
    from cavity.forecasting import GPForecaster as GPForecaster
    from cavity.gp import GP as GP
    from cavity.io import load as load
    from cavity.latent.inducing import Inducing as Inducing
    from cavity.latent.latent_neighbors import LatentNeighbors as LatentNeighbors
    from cavity.latent.neighbors import Neighbors as Neighbors
    from cavity.parameters import Param as Param
    from cavity.parameters import fixed as fixed
    from cavity.posterior import Posterior as Posterior

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
