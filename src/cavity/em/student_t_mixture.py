"""Mixtures of Student-t components: robust against outliers."""

from __future__ import annotations

from dataclasses import dataclass

from cavity.em.components import Components
from cavity.em.gaussian_mixture import GaussianMixture
from cavity.em.student_t import StudentT
from cavity.numerics.arrays import Array


@dataclass(eq=False, repr=False, kw_only=True)
class StudentTMixture(GaussianMixture):
    """Mixture of multivariate Student-t components: robust against outliers.

    Parameters
    ----------
    dof : float, "estimate" or "shared"
        Degrees of freedom: fixed, estimated per component, or one estimate for all.
    dof_bounds : (float, float)
        Range of the estimates.
    accelerate : bool
        SQUAREM, on by default here: plain EM is slow in the degrees of freedom.
    n_components, covariance_type, ... : as for `GaussianMixture`; `covariances_` hold the scale matrices.

    Attributes
    ----------
    dofs_ : (K,)

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import StudentTMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.standard_normal((100, 1)), 8 + rng.standard_normal((100, 1)), [[60.0]]])
    >>> model = StudentTMixture(2, dof=4.0, random_state=0).fit(X)
    >>> model.means_.round(0)
    array([[0.],
           [8.]])
    """

    dof: float | str = "estimate"
    dof_bounds: tuple[float, float] = (0.5, 500.0)
    accelerate: bool = True

    def _family(self) -> Components:
        return StudentT(
            self.covariance_type, self.n_factors, self.reg_covar, self.prior, self.dof, self.dof_bounds
        )

    @property
    def dofs_(self) -> Array:
        """Degrees of freedom, (K,)."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no dofs_ before fit")
        return self.params_["dofs"]
