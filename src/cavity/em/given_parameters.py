"""Parameters of a family that were set by hand: their names, shapes, ranges, and the family they imply."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.em.categorical import Categorical
from cavity.em.components import Components, Params
from cavity.em.covariances import FactorCovariance
from cavity.em.gaussian import Gaussian
from cavity.em.mixture_emission import MixtureEmission
from cavity.em.one_parameter_families import OneRate
from cavity.em.product import Product
from cavity.em.student_t import StudentT
from cavity.numerics.arrays import Array

SYMMETRY = 1e-8  # relative difference of a covariance and its transpose that counts as rounding

# -- parameters set by hand ----------------------------------------------------------------------------------
ATTRIBUTES = {
    "means": "means_",
    "covariances": "covars_",
    "emissionprob": "emissionprob_",
    "rates": "lambdas_",
    "weights": "weights_",
    "dofs": "dofs_",
}
"""Attributes of an HMM under which parameters of its emissions are set."""


def attribute(name: str) -> str:
    """How a user sets the parameter of this name."""
    return ATTRIBUTES.get(name, f"params_[{name!r}]")


def parameter_shapes(family: Components) -> dict[str, tuple[int, ...]]:
    """Shapes of the parameters of a family that was bound; nothing for families of one's own."""
    d, k = family.n_features, family.n_components
    if isinstance(family, Gaussian):
        shapes: dict[str, tuple[int, ...]] = {"means": (k, d)}
        if isinstance(family.structure, FactorCovariance):
            shapes |= {"loadings": (k, d, family.n_factors), "noise_variances": (k, d)}
        else:
            covariances = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
            shapes["covariances"] = covariances[family.covariance_type]
        return shapes | ({"dofs": (k,)} if isinstance(family, StudentT) else {})
    if isinstance(family, Categorical):
        return {"emissionprob": (k, int(family.n_symbols or 1))}
    if isinstance(family, MixtureEmission):
        return {"weights": (k, family.n_mix), **parameter_shapes(family._inner)}
    if isinstance(family, Product):
        return {
            f"{name}@{i}": shape
            for i, (part, _) in enumerate(family._bound)
            for name, shape in parameter_shapes(part).items()
        }
    return {family.parameter: (k, d)} if isinstance(family, OneRate) else {}


def check_parameters(family: Components, params: Params, names: frozenset[str] | None = None) -> None:
    """Refuse parameters (all, or those in `names`) of a wrong shape, or without a density."""
    for name, shape in parameter_shapes(family).items():
        if names is not None and name not in names:
            continue
        if name not in params:
            raise ValueError(f"{attribute(name)} was not set: these emissions need it, of shape {shape}")
        array = params[name]
        if array.shape != shape:
            raise ValueError(f"{attribute(name)} has shape {array.shape}, expected {shape}")
        if not np.all(np.isfinite(array)):
            raise ValueError(
                f"{attribute(name)} must be finite, and contains {array[~np.isfinite(array)][0]}"
            )
        what, _, part = name.partition("@")
        if what == "covariances":
            owner = family._bound[int(part)][0] if isinstance(family, Product) else family
            check_covariances(array, attribute(name), owner)
        else:
            _check_range(array, what, attribute(name))


def _check_range(array: Array, what: str, name: str) -> None:
    """Signs and sums of parameters other than covariances."""
    if what in ("weights", "emissionprob"):
        if np.any(array < 0) or not np.allclose(array.sum(axis=-1), 1.0):
            raise ValueError(f"{name} must be non-negative, and every row must sum to one")
    elif what in ("rates", "probabilities"):
        highest = 1.0 if what == "probabilities" else np.inf
        outside = (array < 0) | (array > highest)
        if np.any(outside):
            allowed = "between 0 and 1" if what == "probabilities" else "at least 0"
            raise ValueError(f"{name} must be {allowed}, and contains {array[outside][0]:g}")
    elif what in ("scales", "dofs", "noise_variances") and not np.all(array > 0):
        raise ValueError(f"{name} must be positive, and contains {array[~(array > 0)][0]:g}")


def check_covariances(array: Array, name: str, family: Components) -> None:
    """Refuse variances that are not positive, and matrices that are not symmetric and positive definite, by index."""
    inner = family._inner if isinstance(family, MixtureEmission) else family
    assert isinstance(inner, Gaussian)
    if inner.structure.diagonal:
        if not np.all(array > 0):
            raise ValueError(f"{name} must be positive, and contains {array[~(array > 0)][0]:g}")
        return
    matrices = array.reshape(-1, *array.shape[-2:])
    asymmetry = np.abs(matrices - np.swapaxes(matrices, 1, 2))
    if np.any(asymmetry > SYMMETRY * np.abs(matrices).max()):
        k, i, j = (int(n) for n in np.unravel_index(np.argmax(asymmetry), matrices.shape))
        raise ValueError(
            f"{name}{_place(family, array, k)} must be a symmetric matrix, and has {matrices[k, i, j]:g} at row {i}, "
            f"column {j}, but {matrices[k, j, i]:g} at row {j}, column {i}; use (C + C.T) / 2 if that is meant"
        )
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        lowest = np.linalg.eigvalsh(matrices)[:, 0]
        k = int(np.argmin(lowest))
        raise ValueError(
            f"{name}{_place(family, array, k)} must be a positive definite matrix, and its smallest eigenvalue is "
            f"{lowest[k]:.3g}; check its entries, or add a small multiple of the identity matrix"
        ) from None


def _place(family: Components, array: Array, k: int) -> str:
    """Index of the k-th of several matrices, as a user would write it."""
    if array.ndim == 2:
        return ""
    return f"[{k // family.n_mix}, {k % family.n_mix}]" if isinstance(family, MixtureEmission) else f"[{k}]"


def sized_family(family: Components, params: Params) -> tuple[Components, int]:
    """The family with the alphabets of parameters set by hand, and the number of features they describe."""
    if isinstance(family, Product):
        parts = family._families()
        sized = [(sized_family(f, family._part(params, i))[0], c) for i, (f, c) in enumerate(parts)]
        return Product(sized), sum(len(columns) for _, columns in parts)
    if isinstance(family, MixtureEmission):
        inner = {name: v for name, v in params.items() if name != "weights"}
        component, d = sized_family(family.components or Gaussian(), inner)
        return MixtureEmission(family.n_mix, component, family.concentration), d
    if isinstance(family, Categorical):
        n_symbols = _columns(params, "emissionprob", "states and symbols")
        return Categorical(family.n_symbols or n_symbols, family.concentration), 1
    if isinstance(family, Gaussian):
        return family, _columns(params, "means", "states and features")
    name = family.parameter if isinstance(family, OneRate) else next(iter(params), "params")
    return family, _columns(params, name, "states and features")


def _columns(params: Params, name: str, axes: str) -> int:
    if name not in params:
        raise ValueError(f"{attribute(name)} was not set: these emissions need it")
    if params[name].ndim != 2:
        raise ValueError(f"{attribute(name)} has shape {params[name].shape}, expected two axes: {axes}")
    return int(params[name].shape[1])


def covariances_given(value: Any, family: Gaussian, state_axes: int) -> Array:
    """Covariances in the shape of their structure, from that shape or from matrices as `covars_` tells them.

    `state_axes` is 1, or 2 for mixtures within states, whose densities follow each other in the result.
    """
    array, kind = np.asarray(value, dtype=float), family.covariance_type
    if kind == "factor":
        raise ValueError(
            "covars_ cannot be set for covariance_type='factor': set params_ with the entries 'means' (K, D), "
            "'loadings' (K, D, n_factors) and 'noise_variances' (K, D)"
        )
    if kind == "tied":
        if array.ndim == 2:
            return array
        matrices = array.reshape(-1, *array.shape[-2:])
        if not np.all(matrices == matrices[:1]):
            raise ValueError("covars_ differ between states, but covariance_type='tied' has one for all")
        return np.asarray(matrices[0])
    if array.ndim >= state_axes:
        array = array.reshape(-1, *array.shape[state_axes:])
    if kind == "full" or array.ndim != 3 or array.shape[1] != array.shape[2]:
        return array
    diagonals = np.diagonal(array, axis1=1, axis2=2)
    if not np.array_equal(array, diagonals[:, :, None] * np.eye(array.shape[1])):
        raise ValueError(f"covars_ have entries off the diagonal, but covariance_type={kind!r} has none")
    if kind == "diag":
        return np.asarray(diagonals)
    if not np.all(diagonals == diagonals[:, :1]):
        raise ValueError(
            "covars_ have several variances, but covariance_type='spherical' has one per density"
        )
    return np.asarray(diagonals[:, 0])
