"""Parameters with names, transforms, priors, bounds and ties; `cavity.parameters.priors` has the priors."""

from cavity.parameters.param import Param, Parametrized, fixed
from cavity.parameters.units import Unit

__all__ = ["Param", "Parametrized", "Unit", "fixed"]
