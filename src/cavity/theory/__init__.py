"""Theory of Gaussian processes as functions: spectra, equivalent kernels, eigenfunctions, learning curves, bounds.

Rasmussen and Williams (2006), sections 4.1, 4.3, 5.3 and chapter 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

if TYPE_CHECKING:
    from cavity.theory.criteria import generalized_cross_validation as generalized_cross_validation
    from cavity.theory.criteria import information_criteria as information_criteria
    from cavity.theory.criteria import integrated_evidence as integrated_evidence
    from cavity.theory.eigenfunctions import Eigenfunctions as Eigenfunctions
    from cavity.theory.eigenfunctions import nystrom as nystrom
    from cavity.theory.eigenfunctions import se_gaussian as se_gaussian
    from cavity.theory.equivalent_kernels import equivalent_kernel as equivalent_kernel
    from cavity.theory.equivalent_kernels import step_approximation as step_approximation
    from cavity.theory.kernel_comparison import alignment as alignment
    from cavity.theory.kernel_comparison import symmetric_divergence as symmetric_divergence
    from cavity.theory.learning_curves import lower_bound as lower_bound
    from cavity.theory.learning_curves import mismatched_error as mismatched_error
    from cavity.theory.learning_curves import ornstein_uhlenbeck as ornstein_uhlenbeck
    from cavity.theory.learning_curves import ornstein_uhlenbeck_design as ornstein_uhlenbeck_design
    from cavity.theory.learning_curves import simulated as simulated
    from cavity.theory.learning_curves import sollich as sollich
    from cavity.theory.pac_bayes_bounds import gibbs_bound as gibbs_bound
    from cavity.theory.pac_bayes_bounds import pac_bayes as pac_bayes
    from cavity.theory.regression_curves import RegressionCurve as RegressionCurve
    from cavity.theory.regression_curves import regression_curve as regression_curve
    from cavity.theory.spectral import derivatives as derivatives
    from cavity.theory.spectral import spectral_density as spectral_density
    from cavity.theory.spectral import upcrossings as upcrossings

_MODULES, __getattr__, __dir__ = on_first_use(__name__)
__all__ = list(_MODULES)
