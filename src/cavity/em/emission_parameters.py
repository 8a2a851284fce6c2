"""Emission parameters of a hidden Markov model under the names that hmmlearn's users know."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.em.components import Components, Params
from cavity.em.gaussian import Gaussian
from cavity.em.given_parameters import covariances_given
from cavity.em.mixture_emission import MixtureEmission
from cavity.numerics.arrays import Array


def _entry(name: str, attribute: str, meaning: str) -> property:
    """An attribute that reads and sets one entry of `params_`."""
    return property(
        lambda model: model._parameter(name, attribute),
        lambda model, value: model._set_parameter(name, value),
        doc=meaning,
    )


class EmissionParameters:
    """Parameters of a hidden Markov model, fitted or set by hand.

    The emission parameters live in `params_` under the names of their family; the attributes here read and set them
    in the shapes that users know.
    """

    startprob_: Array
    transmat_: Array
    params_: Params
    family_: Components

    def _family(self) -> Components:
        raise NotImplementedError

    def _ready(self) -> None:
        raise NotImplementedError

    def _parameter(self, name: str, attribute: str) -> Array:
        values = self.__dict__.get("params_", {})
        if name not in values:
            raise AttributeError(
                f"{type(self).__name__} has no {attribute}: not fitted, or not in these emissions"
            )
        return np.asarray(values[name])

    def _set_parameter(self, name: str, value: ArrayLike) -> None:
        self.params_ = {**self.__dict__.get("params_", {}), name: np.array(value, dtype=float)}

    def _by_state(self, array: Array) -> Array:
        """Inner parameters of a mixture within states as (K, M, ...)."""
        weights = self.__dict__["params_"].get("weights")
        return array if weights is None else array.reshape(*weights.shape, *array.shape[1:])

    @property
    def means_(self) -> Array:
        """Means, (K, D), or (K, M, D) for a mixture within states."""
        return self._by_state(self._parameter("means", "means_"))

    @means_.setter
    def means_(self, value: ArrayLike) -> None:
        array = np.asarray(value, dtype=float)
        if isinstance(self._family(), MixtureEmission) and array.ndim == 3:
            array = array.reshape(-1, array.shape[-1])
        self._set_parameter("means", array)

    @property
    def covars_(self) -> Array:
        """Covariances as matrices, (K, D, D), or (K, M, D, D); scale matrices for Student-t emissions.

        They can be set as such matrices, or in the shape of their type: (D, D) tied, (K, D) diag, (K,) spherical.
        """
        self._parameter("means", "covars_")
        self._ready()
        family = self.family_._inner if isinstance(self.family_, MixtureEmission) else self.family_
        assert isinstance(family, Gaussian)
        inner = {name: v for name, v in self.params_.items() if name != "weights"}
        return self._by_state(np.array(family._all_matrices(inner)))

    @covars_.setter
    def covars_(self, value: ArrayLike) -> None:
        family, state_axes = self._family(), 1
        if isinstance(family, MixtureEmission):
            family, state_axes = family.components or Gaussian(), 2
        if not isinstance(family, Gaussian):
            raise ValueError(f"covars_ cannot be set: {type(family).__name__} emissions have no covariances")
        self._set_parameter("covariances", covariances_given(value, family, state_axes))

    emissionprob_ = _entry("emissionprob", "emissionprob_", "Probabilities of symbols, (K, S).")
    lambdas_ = _entry("rates", "lambdas_", "Poisson rates, (K, D).")
    weights_ = _entry("weights", "weights_", "Weights within states, (K, M).")
    dofs_ = _entry("dofs", "dofs_", "Degrees of freedom, (K,).")
