"""Mixtures and hidden Markov models in model files: settings, parameters, and how the fit went.

A family of components knows some things of the data it was fitted to (`Components.bind`): variances that guard
against collapse, pooled means, the size of an alphabet. They are stored under "bound", so that log densities, draws
and standard errors of a loaded model are those of the saved one. Shapes are checked before compiled code sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from cavity.em.baum_welch import HMMProblem, HMMTheta
from cavity.em.bernoulli import Bernoulli
from cavity.em.categorical import Categorical
from cavity.em.components import Components
from cavity.em.covariances import make_structure
from cavity.em.expectation_maximization import EMResult
from cavity.em.exponential import Exponential
from cavity.em.gaussian import Gaussian
from cavity.em.gaussian_mixture import GaussianMixture
from cavity.em.given_parameters import parameter_shapes
from cavity.em.hmm import HMM
from cavity.em.mixture import Mixture
from cavity.em.mixture_emission import MixtureEmission
from cavity.em.mixture_problem import MixtureTheta
from cavity.em.plugin import Plugin
from cavity.em.poisson import Poisson
from cavity.em.priors import NormalInverseWishart
from cavity.em.product import Product
from cavity.em.selection import Candidate
from cavity.em.student_t import StudentT
from cavity.em.student_t_mixture import StudentTMixture
from cavity.io.errors import ModelFileError
from cavity.io.parts import MAX_COUNT
from cavity.io.records import is_array, is_count, is_float, require, store
from cavity.io.registry import Codec, add, constructor_arguments

MAX_JOBS = 1024
"""Most threads that a file may ask for."""

Shape = tuple[int, ...]


# --- families of components ---------------------------------------------------------------------------------

SIZES = ("n_features", "n_components")

BOUND: dict[type[Components], tuple[str, ...]] = {
    Gaussian: ("_data_variance", "_psi", "_scale", "_strength", "_kappa", "_prior_mean"),
    StudentT: ("_data_variance", "_psi", "_scale", "_strength", "_kappa", "_prior_mean"),
    Poisson: ("_pooled",),
    Exponential: ("_pooled",),
    Bernoulli: ("_pooled",),
    Categorical: (),
    MixtureEmission: ("_inner",),
    Product: ("_bound",),
}
"""What each family learned of its data."""


def _family_fields(family: Components) -> dict[str, Any]:
    stored = dict(constructor_arguments(family))
    if family.n_components:
        names = (*SIZES, *BOUND[type(family)])
        stored["bound"] = {name: getattr(family, name) for name in names}
    return stored


def _family(kind: type[Components], bound: Any = None, **settings: Any) -> Components:
    _check_settings(settings)
    family = kind(**settings)
    if bound is not None:
        _bind(family, bound)
    return family


def _check_settings(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        small = not isinstance(value, int) or abs(value) <= MAX_COUNT
        require(small, f"{name} must be at most {MAX_COUNT}")
    for name in ("n_factors", "n_mix", "n_symbols"):
        value = settings.get(name)
        require(value is None or _is_count(value), f"{name} must be a count")
    for name in ("reg_covar", "pseudo_count", "concentration"):
        require(name not in settings or is_float(settings[name]), f"{name} must be a number")
    prior, inner = settings.get("prior"), settings.get("components")
    require(prior is None or isinstance(prior, NormalInverseWishart), "prior must be a prior")
    require(inner is None or isinstance(inner, Components), "components must be a family")


def _bind(family: Components, bound: Any) -> None:
    """Give a family what it knew of its data."""
    names = {*SIZES, *BOUND[type(family)]}
    require(isinstance(bound, dict) and set(bound) == names, "a family must know its data")
    d, k = bound["n_features"], bound["n_components"]
    require(_is_count(d) and _is_count(k) and max(d, k) <= MAX_COUNT, "a family must know its sizes")
    if isinstance(family, Gaussian):
        family.structure = make_structure(family.covariance_type, d, family.n_factors)
        _check_arrays(bound, {"_data_variance": (d,), "_psi": (d,), "_prior_mean": (d,), "_scale": (d, d)})
        require(is_float(bound["_strength"]) and is_float(bound["_kappa"]), "a prior has a strength")
    elif isinstance(family, MixtureEmission):
        inner = bound["_inner"]
        right = isinstance(inner, Components) and inner.n_features == d
        require(right and inner.n_components == k * family.n_mix, "the densities of states must fit")
    elif isinstance(family, Product):
        _check_blocks(bound["_bound"], d, k)
    elif not isinstance(family, Categorical):
        _check_arrays(bound, {"_pooled": (d,)})
    family.__dict__.update(bound)


def _check_blocks(blocks: Any, d: int, k: int) -> None:
    """Blocks of columns, each column in one of them."""
    require(isinstance(blocks, list) and len(blocks) > 0, "a product must have parts")
    used: list[int] = []
    for block in blocks:
        pair = isinstance(block, tuple) and len(block) == 2 and isinstance(block[0], Components)
        require(
            pair and isinstance(block[1], list) and all(is_count(c) for c in block[1]), "a part has columns"
        )
        require(block[0].n_components == k and block[0].n_features == len(block[1]), "parts must fit")
        used += block[1]
    require(sorted(used) == list(range(d)), "each column must be in one part")


def _check_arrays(values: Mapping[str, Any], shapes: Mapping[str, Shape]) -> None:
    for name, shape in shapes.items():
        array: Any = values.get(name)
        right = is_array(array) and array.shape == shape and bool(np.isfinite(array).all())
        require(right, f"{name} must be finite numbers of shape {shape}")


def _is_count(value: Any) -> bool:
    return is_count(value) and value >= 1


def _refuse_plugin(family: Plugin) -> dict[str, Any]:
    kinds = ", ".join(sorted({type(one).__name__ for one in family.components}))
    raise ModelFileError(
        f"Plugin components are objects of one's own ({kinds}), and a model file holds no code: pickle the model"
    )


def _no_plugin(**_: Any) -> Plugin:
    raise ModelFileError("Plugin components are not stored")


for _kind in BOUND:
    add(Codec(f"em.{_kind.__name__}", _kind, _family_fields, partial(_family, _kind)))
add(Codec("em.Plugin", Plugin, _refuse_plugin, _no_plugin))


def _prior(scale: Any, dof: Any, mean: Any, kappa: Any) -> NormalInverseWishart:
    require(is_float(dof) and is_float(kappa), "a prior counts observations")
    return NormalInverseWishart(scale, dof, mean, kappa)


add(Codec("em.NormalInverseWishart", NormalInverseWishart, constructor_arguments, _prior))


# --- parameters ---------------------------------------------------------------------------------------------


def _check_params(family: Components, params: Any, by_hand: bool) -> None:
    """Refuse parameters that are not those of the family, or have no density.

    Rates and probabilities set by hand may lie on the edge of their range, where no fit ends.
    """
    shapes = parameter_shapes(family)
    require(isinstance(params, dict) and set(params) == set(shapes), "a family must have all its parameters")
    _check_arrays(params, shapes)
    for name, array in params.items():
        what = name.split("@")[0]
        if what in ("weights", "emissionprob"):
            _check_shares(array, name)
        elif by_hand and what in ("rates", "probabilities"):
            require(bool((array >= 0).all()), f"{name} must not be negative")
        elif what not in ("means", "covariances", "loadings"):
            require(bool((array > 0).all()), f"{name} must be positive")
        if what == "probabilities":
            inside = array <= 1 if by_hand else array < 1
            require(bool(inside.all()), f"{name} must be {'at most' if by_hand else 'below'} one")
    with np.errstate(all="ignore"):
        density = family.log_prob(params, np.ascontiguousarray(family.mean(params)[:1]))
    require(not np.isnan(density).any(), "its densities are not numbers")


def _check_shares(array: Any, name: str) -> None:
    shares = bool((array >= 0).all()) and bool(np.allclose(array.sum(axis=-1), 1.0))
    require(shares, f"{name} must be shares that add up to one")


def _check_run(run: EMResult[Any]) -> None:
    require(isinstance(run.theta, MixtureTheta | HMMTheta), "a run ends at parameters")


def _check_candidate(found: Candidate) -> None:
    require(found.n >= 1, "a candidate has a size")


store(
    MixtureTheta,
    lambda theta: require(theta.weights.ndim == 1, "weights are a vector"),
    name="em.MixtureTheta",
)
store(HMMTheta, lambda theta: require(theta.transmat.ndim == 2, "transmat is a matrix"), name="em.HMMTheta")
store(EMResult, _check_run, name="em.EMResult", without=("statistics",))
store(Candidate, _check_candidate, name="em.Candidate")


# --- models -------------------------------------------------------------------------------------------------

CHECKS: dict[str, Callable[[Any], bool]] = {
    "n_features_in_": _is_count,
    "feature_names_in_": lambda v: isinstance(v, np.ndarray) and all(isinstance(name, str) for name in v),
    "n_components_": _is_count,
    "n_states_": _is_count,
    "converged_": lambda v: isinstance(v, bool),
    "n_iter_": is_count,
    "status_": lambda v: isinstance(v, str),
    "history_": lambda v: is_array(v, 1),
    "log_likelihood_": is_float,
    "lower_bound_": is_float,
    "runs_": lambda v: isinstance(v, list) and all(isinstance(run, EMResult) for run in v),
    "failed_starts_": lambda v: isinstance(v, list) and all(isinstance(text, str) for text in v),
    "failed_sizes_": lambda v: isinstance(v, list) and all(isinstance(text, str) for text in v),
    "degenerate_": lambda v: isinstance(v, list) and all(is_count(k) for k in v),
    "selection_": lambda v: isinstance(v, list) and all(isinstance(one, Candidate) for one in v),
}
"""What a fit says about itself, by name."""

THETA: dict[type, tuple[str, ...]] = {
    Mixture: ("weights_", "params_"),
    GaussianMixture: ("weights_", "params_"),
    StudentTMixture: ("weights_", "params_"),
    HMM: ("startprob_", "transmat_", "params_"),
}
"""Attributes of each model that are its parameters."""


def _model_fields(model: Any) -> dict[str, Any]:
    if isinstance(model, HMM):
        model._ready()  # fitted, or set by hand
    check_is_fitted(model)
    settings = model.get_params(deep=False)
    for name, value in settings.items():
        if isinstance(value, range):
            settings[name] = tuple(value)
    return {
        "settings": settings,
        "family": model.family_,
        "theta": {name: getattr(model, name) for name in THETA[type(model)]},
        "found": {name: getattr(model, name) for name in CHECKS if name in model.__dict__},
    }


ALIKE = ("covariance_type", "n_factors", "n_mix", "dof", "dof_bounds")
"""Settings that a family shares with its model."""


def _check_use(settings: Mapping[str, Any]) -> None:
    """Refuse settings that predictions would stumble over; a fit checks the others itself."""
    jobs, seed = settings.get("n_jobs"), settings.get("random_state")
    require(jobs is None or (_is_count(abs(jobs)) and abs(jobs) <= MAX_JOBS), "n_jobs must be a small number")
    require(seed is None or is_count(seed), "random_state must be a seed")
    require(isinstance(settings.get("allow_nan", False), bool), "allow_nan must be true or false")
    require(settings.get("algorithm", "map") in ("viterbi", "map"), "algorithm must be viterbi or map")


def _model(kind: type, settings: Any, family: Any, theta: Any, found: Any) -> Any:
    require(isinstance(settings, dict) and isinstance(found, dict), "a model has settings")
    known = set(kind().get_params(deep=False))
    require(set(settings) <= known, f"{sorted(map(str, set(settings) - known))[:3]} are no settings")
    _check_use(settings)
    model = kind(**settings)
    require(isinstance(family, Components) and family.n_components > 0, "a model has a family")
    asked = model._family()
    same = all(
        np.array_equal(np.asarray(getattr(asked, name, None)), np.asarray(getattr(family, name, None)))
        for name in ALIKE  # bounds may be arrays
    )
    require(type(asked) is type(family) and same, "the family must be the one of the settings")
    require(isinstance(theta, dict) and set(theta) == set(THETA[kind]), "a model has parameters")
    _check_params(family, theta["params_"], by_hand=kind is HMM)
    k = family.n_components
    if kind is HMM:
        _check_arrays(theta, {"startprob_": (k,), "transmat_": (k, k)})
        HMMProblem.check_probabilities(theta["startprob_"], theta["transmat_"], k)
    else:
        _check_arrays(theta, {"weights_": (k,)})
        _check_shares(theta["weights_"], "weights_")
    for name, value in found.items():
        require(name in CHECKS and CHECKS[name](value), f"{str(name)[:40]} is not what a fit finds")
    require(found.get("n_features_in_") == family.n_features, "the number of columns must be known")
    names = found.get("feature_names_in_")
    require(names is None or names.shape == (family.n_features,), "column names must be those of the columns")
    sizes = (found.get("n_components_", k), found.get("n_states_", k))
    require(sizes == (k, k), "sizes must be those of the family")
    model.family_ = family
    for name, value in {**theta, **found}.items():
        setattr(model, name, value)
    if kind is HMM and "converged_" in found:
        model._remember_estimates()
    return model


for _kind in THETA:
    add(Codec(_kind.__name__, _kind, _model_fields, partial(_model, _kind)))
