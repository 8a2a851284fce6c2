"""scikit-learn estimators: that library's contract around the models of this one. Names are loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.estimators.bayesian_latent_variables import BayesianGPLVM as BayesianGPLVM
    from cavity.estimators.classifier import GPClassifier as GPClassifier
    from cavity.estimators.graphs import GraphEncoder as GraphEncoder
    from cavity.estimators.latent_variables import GPLVM as GPLVM
    from cavity.estimators.outputs import CoregionalizedRegressor as CoregionalizedRegressor
    from cavity.estimators.regressor import GPRegressor as GPRegressor
    from cavity.estimators.relevance_vector_classes import (
        RelevanceVectorClassifier as RelevanceVectorClassifier,
    )
    from cavity.estimators.relevance_vectors import RelevanceVectorRegressor as RelevanceVectorRegressor
    from cavity.estimators.stacking import StackedRegressor as StackedRegressor
    from cavity.estimators.substring_counts import SubstringCounts as SubstringCounts
    from cavity.estimators.text import TextEncoder as TextEncoder

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
