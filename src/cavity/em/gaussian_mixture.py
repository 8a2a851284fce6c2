"""Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from cavity.em.components import Components
from cavity.em.gaussian import Gaussian
from cavity.em.given_parameters import check_covariances
from cavity.em.mixture_base import MixtureBase
from cavity.em.mixture_problem import MixtureTheta
from cavity.em.priors import NormalInverseWishart
from cavity.numerics.arrays import Array


@dataclass(eq=False, repr=False)
class GaussianMixture(MixtureBase):
    """Gaussian mixture with full, tied, diagonal, spherical or factor-analysis covariances.

    Parameters
    ----------
    n_components : int, "bic" | "icl" | "aic", or an iterable of ints
    covariance_type : {"full", "tied", "diag", "spherical", "factor"}
    n_factors : int
        Factors for "factor": covariances W W' + diag(noise).
    reg_covar : float
        Guard against collapse relative to the variance of each feature; a penalty, not a constant added
        afterwards, so EM stays monotone and no component can drive the likelihood to infinity. See
        `cavity.em.Gaussian`.
    prior : NormalInverseWishart or None
        Prior of means and covariances (MAP).
    weights_init, means_init, covariances_init : arrays or None
        Starting values; what is not given follows from the data.
    criterion, weight_concentration, init, n_init, max_iter, tol, accelerate, ordering, allow_nan : as for `Mixture`
    n_jobs, random_state, progress : as for `Mixture`

    Attributes
    ----------
    weights_ : (K,)
    means_ : (K, D)
    covariances_ : (K, D, D) for full and factor, (D, D) tied, (K, D) diag, (K,) spherical
        Further attributes are those of `Mixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-3, 1, (200, 2)), rng.normal(3, 1, (100, 2))])
    >>> model = GaussianMixture("bic", random_state=0).fit(X)
    >>> model.n_components_, np.round(model.weights_, 2)
    (2, array([0.67, 0.33]))
    """

    covariance_type: str = "full"
    _: KW_ONLY
    n_factors: int = 1
    reg_covar: float = 1e-6
    prior: NormalInverseWishart | None = None
    weights_init: ArrayLike | None = None
    means_init: ArrayLike | None = None
    covariances_init: ArrayLike | None = None

    def _family(self) -> Components:
        return Gaussian(self.covariance_type, self.n_factors, self.reg_covar, self.prior)

    def _has_given_start(self) -> bool:
        return any(v is not None for v in (self.weights_init, self.means_init, self.covariances_init))

    def _given_start(self, family: Components, make: Callable[[], MixtureTheta]) -> MixtureTheta:
        """Starting values given by the user replace those from the data, after a check of their shapes."""
        given = (self.weights_init, self.means_init, self.covariances_init)
        if all(v is not None for v in given) and type(family) is Gaussian:
            k, d = family.n_components, family.n_features
            shape = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
            zeros = np.zeros(shape.get(self.covariance_type, (0,)))
            start = MixtureTheta(np.zeros(k), {"means": np.zeros((k, d)), "covariances": zeros})
        else:
            start = make()
        weights, params = start.weights, dict(start.params)
        if self.weights_init is not None:
            weights = _given(self.weights_init, "weights_init", weights.shape)
            if np.any(weights < 0) or not np.isclose(weights.sum(), 1.0):
                raise ValueError(f"weights_init={self.weights_init!r} must be non-negative and sum to one")
        if self.means_init is not None:
            params["means"] = _given(self.means_init, "means_init", params["means"].shape)
        if self.covariances_init is not None:
            if self.covariance_type == "factor":
                raise ValueError("covariances_init does not apply to covariance_type='factor'")
            given_covariances = _given(self.covariances_init, "covariances_init", params["covariances"].shape)
            check_covariances(given_covariances, "covariances_init", family)
            params["covariances"] = given_covariances
        return MixtureTheta(weights, params)

    @property
    def covariances_(self) -> Array:
        """Covariances in the shape of their type."""
        if "params_" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no covariances_ before fit")
        if "covariances" in self.params_:
            return self.params_["covariances"]
        assert isinstance(self.family_, Gaussian)
        return np.array(self.family_._all_matrices(self.params_))


def _given(value: ArrayLike, name: str, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=float)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, and contains {array[~np.isfinite(array)][0]}")
    return array
