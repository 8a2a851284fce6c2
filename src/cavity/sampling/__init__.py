"""Markov chain Monte Carlo and importance sampling: samplers, diagnostics, posteriors made of draws.

Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.sampling import diagnostics as diagnostics
    from cavity.sampling.annealing.ais import AISResult as AISResult
    from cavity.sampling.annealing.ais import annealed_importance_sampling as annealed_importance_sampling
    from cavity.sampling.draws import Draws as Draws
    from cavity.sampling.elliptical_slice import elliptical_slice_sampling as elliptical_slice_sampling
    from cavity.sampling.hmc import HMCOptions as HMCOptions
    from cavity.sampling.hmc import hamiltonian as hamiltonian
    from cavity.sampling.hyperparameter_target import HyperparameterTarget as HyperparameterTarget
    from cavity.sampling.importance_sampling import importance as importance
    from cavity.sampling.mcmc import MCMC as MCMC
    from cavity.sampling.metropolis_hastings import metropolis as metropolis
    from cavity.sampling.posterior import SamplePosterior as SamplePosterior
    from cavity.sampling.psis import importance_evidence as importance_evidence
    from cavity.sampling.targets import FunctionTarget as FunctionTarget
    from cavity.sampling.trace import Trace as Trace

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
