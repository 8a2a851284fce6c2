"""Theory of Gaussian processes as functions: spectra, equivalent kernels, eigenfunctions, learning curves, bounds.

Rasmussen and Williams (2006), sections 4.1, 4.3, 5.3 and chapter 7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cavity.runtime.lazy import on_first_use

_MODULES = {
    "Eigenfunctions": "cavity.theory.eigenfunctions",
    "alignment": "cavity.theory.kernel_comparison",
    "RegressionCurve": "cavity.theory.regression_curves",
    "derivatives": "cavity.theory.spectral",
    "equivalent_kernel": "cavity.theory.equivalent_kernels",
    "generalized_cross_validation": "cavity.theory.criteria",
    "gibbs_bound": "cavity.theory.pac_bayes_bounds",
    "information_criteria": "cavity.theory.criteria",
    "integrated_evidence": "cavity.theory.criteria",
    "lower_bound": "cavity.theory.learning_curves",
    "mismatched_error": "cavity.theory.learning_curves",
    "nystrom": "cavity.theory.eigenfunctions",
    "ornstein_uhlenbeck": "cavity.theory.learning_curves",
    "ornstein_uhlenbeck_design": "cavity.theory.learning_curves",
    "pac_bayes": "cavity.theory.pac_bayes_bounds",
    "regression_curve": "cavity.theory.regression_curves",
    "se_gaussian": "cavity.theory.eigenfunctions",
    "simulated": "cavity.theory.learning_curves",
    "sollich": "cavity.theory.learning_curves",
    "spectral_density": "cavity.theory.spectral",
    "step_approximation": "cavity.theory.equivalent_kernels",
    "symmetric_divergence": "cavity.theory.kernel_comparison",
    "upcrossings": "cavity.theory.spectral",
}

__all__ = list(_MODULES)

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

__getattr__, __dir__ = on_first_use(__name__, _MODULES)
