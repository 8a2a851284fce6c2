"""Inference rules: how the likelihood factors become Gaussian sites.

`GP(..., inference=...)` and the estimators take a rule by name or an object with options of one's own, such as
`EP(effort=...)`. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.inference.base import Approximation as Approximation
    from cavity.inference.base import ConvergenceWarning as ConvergenceWarning
    from cavity.inference.base import InferenceFailedError as InferenceFailedError
    from cavity.inference.base import Status as Status
    from cavity.inference.base import UnsupportedPairError as UnsupportedPairError
    from cavity.inference.ep import EP as EP
    from cavity.inference.ep import SequentialEP as SequentialEP
    from cavity.inference.exact import Exact as Exact
    from cavity.inference.exact_scale import ExactScale as ExactScale
    from cavity.inference.kronecker import Kronecker as Kronecker
    from cavity.inference.laplace import Laplace as Laplace
    from cavity.inference.least_squares import LeastSquares as LeastSquares
    from cavity.inference.variational import ScaleMixtureEM as ScaleMixtureEM
    from cavity.inference.variational import Variational as Variational
    from cavity.inference.variational.base import BestBound as BestBound
    from cavity.latent.sites import Sites as Sites
    from cavity.likelihoods.observations import Observations as Observations
    from cavity.sampling.mcmc import MCMC as MCMC

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
