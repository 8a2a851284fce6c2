"""The parts of this library in model files: parameters, priors, kernels, means, likelihoods.

Most are stored as the arguments of their constructors, found by name; a few need a word of their own. Counts that a
constructor turns into memory (degrees, orders, classes) are bounded, so that a file cannot ask for more than it
brings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import cavity.kernels
from cavity import likelihoods, means
from cavity.gp import WeightedFeatures
from cavity.io.errors import ModelFileError
from cavity.io.records import typed
from cavity.io.registry import Codec, add, constructor_arguments, field_values
from cavity.kernels.automatic_relevance import Ard
from cavity.kernels.basis_functions import FeatureKernel
from cavity.kernels.input_functions import NamedFunction, as_function
from cavity.latent.committee import Committee
from cavity.latent.dense import Dense
from cavity.latent.inducing import Inducing
from cavity.latent.latent_neighbors import LatentNeighbors
from cavity.latent.markov import Markov
from cavity.latent.neighbors import Neighbors
from cavity.latent.sites import Sites
from cavity.means import basis_features as basis
from cavity.means.with_slopes import FeatureSlopes, MeanWithSlopes
from cavity.numerics.arrays import Array
from cavity.parameters import priors, transforms
from cavity.parameters.param import Param
from cavity.parameters.per_latent import PerLatent

MAX_COUNT = 10_000
"""Largest degree, order, exponent or number of classes or latent functions in a file."""


def _store(
    prefix: str,
    kind: type,
    *,
    arguments: Callable[[Any], Mapping[str, Any]] = constructor_arguments,
    build: Callable[..., Any] | None = None,
    without: tuple[str, ...] = (),
) -> None:
    """Register a class of parts, leaving out arguments that only restate others."""

    def listed(part: Any) -> Mapping[str, Any]:
        return {name: value for name, value in arguments(part).items() if name not in without}

    add(Codec(f"{prefix}.{kind.__name__}", kind, listed, _bounded(build or kind)))


def _bounded(build: Callable[..., Any]) -> Callable[..., Any]:
    """The same constructor, for whole numbers that are not too large."""

    def checked(*parts: Any, **fields: Any) -> Any:
        for name, value in fields.items():
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_COUNT:
                raise ModelFileError(
                    f"{name} = {str(value)[:40]} is more than the {MAX_COUNT} that files may have"
                )
        return build(*parts, **fields)

    return checked


# --- parameters ---------------------------------------------------------------------------------------------


@typed
def _param(
    value: float | Array,
    fixed: bool = False,
    prior: priors.Density | None = None,
    bounds: Any = None,
    tie: str | None = None,
    transform: transforms.Transform | None = None,
) -> Param:
    return Param(value, fixed, prior, bounds, tie, transform)


def _param_fields(param: Param) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "value": param.value,
        "fixed": param.fixed,
        "prior": param.prior,
        "bounds": param.bounds,
        "tie": param.tie,
        "transform": None if param.transform == param.default else param.transform,
    }
    return {name: field for name, field in fields.items() if name == "value" or field not in (None, False)}


add(Codec("Param", Param, _param_fields, _param))
for _kept in (Dense, Committee, Markov):
    add(Codec(f"representation.{_kept.__name__}", _kept, constructor_arguments, _kept))


def _inducing_fields(part: Inducing) -> dict[str, Any]:
    inputs = part.params["inputs"] if part.learn and part.inputs is not None else part.inputs
    return {"m": part.m, "kind": part.kind, "inputs": inputs, "learn": part.learn, "seed": part.seed}


@typed
def _inducing(inputs: Param | Array | None = None, **fields: Any) -> Inducing:
    given: Any = inputs.value if isinstance(inputs, Param) else inputs
    if np.ndim(given) not in (0, 2):
        raise ValueError("inducing inputs must be a matrix of numbers")
    return Inducing(inputs=inputs, **fields)


def _neighbor_fields(part: Neighbors) -> dict[str, Any]:
    return {"k": part.k, "scales": part.scales, "follow": part.follows, "seed": part.seed}


add(Codec("representation.Neighbors", Neighbors, _neighbor_fields, Neighbors))
add(
    Codec(
        "representation.LatentNeighbors",
        LatentNeighbors,
        lambda part: {**_neighbor_fields(part), "nugget": part.nugget},
        LatentNeighbors,
    )
)
add(Codec("representation.Inducing", Inducing, _inducing_fields, _inducing))
add(Codec("ard", Ard, lambda ard: {"start": ard.start}, Ard))
add(Codec("Transform", transforms.Transform, lambda _: {}, transforms.Transform))
add(Codec("Log", transforms.Log, constructor_arguments, transforms.Log))
add(Codec("Logit", transforms.Logit, constructor_arguments, transforms.Logit))

for _prior in vars(priors).values():
    if isinstance(_prior, type) and issubclass(_prior, priors.Density) and _prior is not priors.Density:
        _store("priors", _prior)


# --- kernels ------------------------------------------------------------------------------------------------


def _dot_product(part: Any) -> dict[str, Any]:
    return {"bias": 0.0, **constructor_arguments(part)}  # no bias is written as a bias of zero


def _additive(part: Any) -> dict[str, Any]:
    inner = part.parts[0] if part._shared else list(part.parts)
    return {"kernel": inner, "order": part.order, "variances": part.params["variances"]}


@typed
def _categorical(levels: tuple[Any, ...] | None = None, **fields: Any) -> Any:
    return cavity.kernels.Categorical(levels, **fields)


def _function_fields(function: NamedFunction) -> dict[str, Any]:
    if function.name is not None:
        return {"name": function.name}
    return {"function": function.function, "jacobian": function.jacobian}


@typed
def _named_function(name: str | None = None, function: Any = None, jacobian: Any = None) -> NamedFunction:
    return as_function(function if name is None else name, jacobian, "a kernel of the file")


add(Codec("kernels.function", NamedFunction, _function_fields, _named_function))

SPECIAL: dict[str, dict[str, Any]] = {
    "Linear": {"arguments": _dot_product},
    "Polynomial": {"arguments": _dot_product},
    "NeuralNetwork": {"arguments": _dot_product},
    "Additive": {"arguments": _additive},
    "Categorical": {"build": _categorical},
}

for _name in cavity.kernels.__all__:
    _kernel = getattr(cavity.kernels, _name)
    abstract = (cavity.kernels.Kernel, cavity.kernels.Stationary)
    if isinstance(_kernel, type) and _kernel not in abstract:
        _store("kernels", _kernel, **SPECIAL.get(_name, {}))
_store("kernels", FeatureKernel)
add(Codec("PerLatent", PerLatent, lambda part: {"parts": list(part.parts)}, PerLatent))


# --- means --------------------------------------------------------------------------------------------------


def _basis_fields(part: means.Basis) -> dict[str, Any]:
    fields: dict[str, Any] = {"functions": list(part.functions)}
    if not part.vague:
        fields |= {"prior_mean": part._mean, "prior_covariance": part._covariance}
    return fields | {"offset": part.offset, "columns": part.n_dims}


@typed
def _basis(offset: means.Mean | None = None, columns: int | None = None, **fields: Any) -> means.Basis:
    new = means.Basis(**fields)._with_offset(offset)
    return new if columns is None else new.bind(columns)


def _function_mean(part: means.FunctionMean) -> dict[str, Any]:
    return {"function": part._function.function, "jacobian": part._function.jacobian_function}


for _mean in (means.Zero, means.Constant, means.Linear, means.Polynomial, means.Sum, MeanWithSlopes):
    _store("means", _mean)
_store("means", means.Basis, arguments=_basis_fields, build=_basis)
_store("means", means.FunctionMean, arguments=_function_mean)
add(Codec("means.WeightedFeatures", WeightedFeatures, constructor_arguments, WeightedFeatures))
_store("basis", basis.Powers)
_store("basis", basis.Monomials)
_store("basis", basis.Harmonics)
_store("basis", basis.OutputLevels)
_store("basis", FeatureSlopes, arguments=field_values)
add(Codec("basis.UserFunction", basis.UserFunction, field_values, basis.UserFunction))


# --- likelihoods --------------------------------------------------------------------------------------------

RESTATED = {
    "Mixture": ("weights",),
    "MixtureOfGaussians": ("outlier_scale",),
    "OrdinalProbit": ("thresholds",),
}
"""Arguments that are another way to give the parameters."""

FAMILIES = (
    likelihoods.Likelihood,
    likelihoods.MultiLatentLikelihood,
    likelihoods.BinaryLikelihood,
    likelihoods.ClassLabels,
    likelihoods.CountLikelihood,
    likelihoods.GaussianNoise,
    likelihoods.ScaleMixture,
    likelihoods.Warp,
)
"""Classes that others derive from; there are no objects of them."""

SWITCHES = (likelihoods.Switch, likelihoods.GaussianSwitch)


@typed
def _switch(keys: list[Any], parts: list[Any], by: Any) -> likelihoods.Switch:
    if not isinstance(by, int) or len(keys) != len(parts):
        raise ValueError("a switch has a likelihood for each of its keys, and the number of a column")
    return likelihoods.Switch(dict(zip(keys, parts)), by)


for _kind in SWITCHES:  # rows find their groups again when the model meets them
    _store(
        "likelihoods",
        _kind,
        arguments=lambda part: {"keys": list(part.keys), "parts": list(part.likelihoods), "by": part.by},
        build=_switch,
    )

for _name in likelihoods.__all__:
    _likelihood = getattr(likelihoods, _name)
    if isinstance(_likelihood, type) and issubclass(_likelihood, likelihoods.Likelihood | likelihoods.Warp):
        if _likelihood in (*FAMILIES, *SWITCHES):
            continue
        _store("likelihoods", _likelihood, without=RESTATED.get(_name, ()))


@typed
def _sites(shift: Array, precision: Array) -> Sites:
    if shift.ndim != 1 or precision.ndim != 1:
        raise ValueError("sites must be vectors")
    return Sites(shift, precision)


add(Codec("Sites", Sites, field_values, _sites))
