"""Inference rules by name, each loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cavity.inference.base import InferenceRule
from cavity.inference.function_by_function import FunctionByFunction
from cavity.inference.warped_targets import OnWarpedTargets
from cavity.likelihoods.base import Likelihood
from cavity.runtime.errors import InputError

RULES = {
    "exact": ("cavity.inference.exact", "Exact"),
    "exact-scale": ("cavity.inference.exact_scale", "ExactScale"),
    "laplace": ("cavity.inference.laplace.rule", "Laplace"),
    "ep": ("cavity.inference.ep", "EP"),
    "variational": ("cavity.inference.variational.rule", "Variational"),
    "scale-mixture-em": ("cavity.inference.variational.scale_mixture_em", "ScaleMixtureEM"),
    "least-squares": ("cavity.inference.least_squares", "LeastSquares"),
    "mcmc": ("cavity.sampling.mcmc", "MCMC"),
}
"""Name -> module and class."""

PREFERENCE = ("exact", "least-squares", "ep", "laplace", "variational")
"""What "auto" tries in turn: the first rule that supports the likelihood."""


def _rule(name: str) -> InferenceRule:
    module, attribute = RULES[name]
    rule: InferenceRule = getattr(import_module(module), attribute)()
    return rule


def adapted(rule: InferenceRule, likelihood: Likelihood) -> InferenceRule:
    """The rule as it applies to a likelihood: function by function, or to warped targets."""
    return OnWarpedTargets.if_warped(FunctionByFunction.if_separable(rule, likelihood), likelihood)


def as_inference(spec: Any = None, likelihood: Likelihood | None = None) -> InferenceRule:
    """An inference rule from what a user gave.

    Parameters
    ----------
    spec : object, str or None
        A rule, which is returned as it is; a name ("exact", "laplace", "ep", "variational", "mcmc"); or "auto" (the
        same as None): exact for Gaussian noise, EP where the likelihood has one latent function, Laplace's
        method otherwise.
    likelihood : Likelihood, optional
        What "auto" chooses for.
    """
    if spec is None:
        spec = "auto"
    if not isinstance(spec, str):
        if not isinstance(spec, InferenceRule):
            raise _unknown("a rule", spec)
        return spec
    if spec == "auto":
        for name in PREFERENCE:
            try:
                rule = _rule(name)
            except (ImportError, AttributeError):  # a rule that this installation does not have
                continue
            if likelihood is None or adapted(rule, likelihood).supports(likelihood):
                return rule
        raise ValueError(f"no inference rule supports {type(likelihood).__name__}")
    if spec not in RULES:
        raise _unknown("'auto'", spec)
    return _rule(spec)


def _unknown(other: str, spec: Any) -> InputError:
    names = ", ".join(map(repr, RULES))
    return InputError(f"must be {other} or one of {names}, got {spec!r}", parameter="inference", value=spec)
