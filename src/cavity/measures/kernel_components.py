"""The terms of a sum kernel: k = k_1 + ... + k_J is the covariance of f = f_1 + ... + f_J, independent a priori.

Given the data, f_j is again a Gaussian process (Plate 1999; Duvenaud 2014, section 2.4.5):

    mean_j(x)  = k_j(x, X) weights,    var_j(x) = k_j(x, x) - k_j(x, X) R k_j(X, x),

with the weights and the correction R of the whole posterior. Means of the terms and of the mean function add up to
the posterior mean; variances do not add up, since the data make the terms depend on each other. Above all they do
not tell how a constant is divided among the terms; so there is also the posterior of a term minus its average over
the places looked at, with the covariance C cov_j C, C = I - 1 1'/m.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.kernels.algebra import On, Scaled, Sum
from cavity.kernels.base import Kernel
from cavity.kernels.basis_functions import FeatureKernel
from cavity.means.functions import Zero
from cavity.numerics.arrays import Array

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(e[+-]?\d+)?")


@dataclass(frozen=True)
class Component:
    """Posterior of one term at some inputs: name, mean and standard deviation (m,)."""

    name: str
    mean: Array
    sd: Array


def additive_terms(kernel: Kernel) -> list[Kernel]:
    """The terms of a sum, also of one inside a scale or a choice of columns.

    >>> from cavity.kernels import SE, Linear
    >>> [t.label for t in additive_terms(2.0 * (SE(1.0) + Linear(1.0)))]
    ['se', 'linear']
    """
    if isinstance(kernel, Sum):
        return [inner for term in kernel.terms for inner in additive_terms(term)]
    if isinstance(kernel, Scaled | On):
        return [kernel._rebuild(kernel._params, (t,)) for t in additive_terms(kernel.kernel)]
    return [kernel]


def short_text(kernel: Kernel) -> str:
    """Text of a kernel with three digits, for people: `24.5 * SE(11.8)`."""
    if isinstance(kernel, FeatureKernel):
        return "basis functions"
    text = NUMBER.sub(lambda found: f"{float(found[0]):.3g}", repr(kernel))
    return text.replace("lengthscale=", "")


def additive_components(posterior: Any, X: ArrayLike, centered: bool = False) -> list[Component]:
    """Posterior of every term of the kernel at X, then of the mean function if there is one.

    With `centered` each is that of a term minus its average over the rows of X.

    Raises
    ------
    ValueError
        For draws, several latent functions or several targets: a term then has no single posterior.
    """
    process = posterior.process
    if not hasattr(process, "component_mean") or np.ndim(process.weights) != 1:
        raise ValueError(
            "components need one latent function and a posterior that is one Gaussian process; for draws use "
            "their mean hyperparameters: posterior.model.condition(X, y) under another inference rule"
        )
    found = []
    for k in additive_terms(process.kernel):
        variance = _centered_variance(process, k, X) if centered else process.component_variance(k, X)
        found.append(Component(short_text(k), process.component_mean(k, X), np.sqrt(variance)))
    mean = process.mean_function
    if mean is not None and not isinstance(mean, Zero):
        rest = process.mean(X) - np.sum([c.mean for c in found], axis=0)
        sd = np.zeros(len(rest))
        if process.basis is not None:
            h = mean.features(X)
            h = h - h.mean(axis=0) if centered else h
            sd = np.sqrt(np.sum(process.basis.precision.half_solve(h.T) ** 2, axis=0))
        found.append(Component("mean function", rest, sd))
    return [Component(c.name, c.mean - c.mean.mean(), c.sd) for c in found] if centered else found


def _centered_variance(process: Any, part: Kernel, X: ArrayLike) -> Array:
    """Posterior variance of f_j(x) minus the average of f_j over the rows of X, (m,)."""

    def center(A: Array) -> Array:
        return np.asarray(A - A.mean(axis=1, keepdims=True))

    prior = part(X)
    cross = center(part(process.X, X))  # linear in f_j, so that what is left of it can be centered first
    minus, plus = process.conditioning.reduce(cross)
    variance = np.diagonal(center(center(prior).T)) - np.einsum("ij,ij->j", minus, minus)
    if plus is not None:
        variance = variance + np.einsum("ij,ij->j", plus, plus)
    if process.basis is not None:
        r = process.basis.precision.half_solve(process.basis.projection.T @ cross)
        variance = variance + np.einsum("ij,ij->j", r, r)
    return np.asarray(np.maximum(variance, np.finfo(float).eps * np.diagonal(prior)))
