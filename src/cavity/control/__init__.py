"""Control: prediction with uncertain inputs, learned dynamics, policy iteration, planning.

See docs/uncertain_inputs.md.
"""

from __future__ import annotations

from .analytic import NotAnalyticError
from .moments import GaussianMoments
from .result import OutputMoments

__all__ = ["GaussianMoments", "NotAnalyticError", "OutputMoments"]
