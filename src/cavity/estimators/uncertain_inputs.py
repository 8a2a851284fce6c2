"""Training inputs that are known with an error: `GPRegressor.fit(X, y, input_sd=...)`.

A row saw f(x + e) with an unknown error e ~ N(0, diag(s^2)) of its input. Given f, that has the mean E_e f(x + e),
which is f blurred by the error, and the variance Var_e f(x + e), about the squared slope times s^2 (McHutchon and
Rasmussen 2011). Blurred functions have a closed kernel if that of f is a squared exponential (`Blurred`); other
kernels are taken as they are, which is right to first order. The variance belongs to the row: it is a term of the
kernel, so that every noise model and rule takes it, robust ones too. It is averaged over the posterior of f, which
depends on it in turn; a few rounds settle it.

"expected" instead takes the mean and covariance of what is seen under the prior of f (Girard 2004; Dallaire et al.
2009), in one fit: a variance that is the same for steep and for flat stretches. `cavity.assessment.latent_inputs`
samples the inputs, the standard for both.

Rows of the model hold x, s, and the standard deviation r of what the error of the input adds.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from cavity.estimators.inputs import checked_inputs
from cavity.kernels import SE, Blurred, Kernel, Linear, White, ard
from cavity.kernels.algebra import On, Scaled, Sum
from cavity.means import Constant, Zero
from cavity.numerics.arrays import Array
from cavity.parameters.param import fixed
from cavity.runtime.checks import require_deviations, require_one_of
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.estimators.regressor import GPRegressor

METHODS = ("slopes", "expected")

ROUNDS = 5
"""Fits in turn, each with what the last one says of the errors' effect."""

POINTS_AT_ONCE = 256
"""Points whose covariances are held at a time."""


def exact_rows(X: Array) -> Array:
    """Rows of the model at inputs that are known."""
    return np.hstack([X, np.zeros((len(X), X.shape[1] + 1))])


def fit_uncertain(
    model: GPRegressor,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    input_sd: ArrayLike,
    method: str = "slopes",
) -> Any:
    """Fit a regressor to inputs with these standard errors."""
    require_one_of(method, "input_errors", METHODS)
    asked, warm = model.kernel, model.warm_start
    if isinstance(asked, str) or (isinstance(model.likelihood, str) and model.likelihood == "auto"):
        raise InputError("needs a kernel and a likelihood that are given, not 'auto'", parameter="input_sd")
    if not (isinstance(model.mean, Constant | Zero) or model.mean in ("constant", "zero")):
        raise InputError(
            "is for a constant mean, or none",
            parameter="input_sd",
            value=model.mean,
            remedy="add a Linear kernel",
        )
    if asked is not None and not isinstance(asked, Kernel):
        raise InputError("is for one latent function", parameter="input_sd", value=asked)
    trial = clone(model)
    x = checked_inputs(trial, X, reset=True)
    sd, D = _checked_sd(input_sd, x), x.shape[1]
    kernel = (1.0 * SE(ard) if asked is None else asked).bind(D, getattr(trial, "feature_names_in_", None))
    rows = np.hstack([x, sd, np.zeros((len(x), 1))])
    uncertain = method == "expected"
    wide = with_input_errors(kernel, list(range(D)), D, uncertain)
    if not uncertain:
        wide = wide + (White(fixed(1.0)) * Linear(fixed(1.0), bias=0)).on(2 * D)
    model.kernel = wide
    try:
        with warnings.catch_warnings():  # the last round reports
            warnings.simplefilter("ignore")
            for _ in range(0 if uncertain else ROUNDS - 1):
                model.fit(rows, y, sample_weight)
                rows[:, -1] = np.sqrt(spread_by_errors(model.posterior_, x, sd))
                model.warm_start = True
        model.fit(rows, y, sample_weight)
    finally:
        model.kernel, model.warm_start = asked, warm
    checked_inputs(model, X, reset=True)  # columns are those of X again
    model._form = "uncertain"
    return model


def with_input_errors(kernel: Kernel, dims: Sequence[int], D: int, uncertain: bool) -> Kernel:
    """The kernel of what is seen at inputs with errors, on rows of inputs and standard deviations."""
    if isinstance(kernel, Sum):
        return Sum(*(with_input_errors(cast(Kernel, part), dims, D, uncertain) for part in kernel.parts))
    if isinstance(kernel, Scaled):
        return Scaled(kernel._params["variance"], with_input_errors(kernel.kernel, dims, D, uncertain))
    if isinstance(kernel, On):
        return with_input_errors(kernel.kernel, [dims[d] for d in kernel.dims], D, uncertain)
    if type(kernel) is SE and "loadings" not in kernel._params:
        columns = [*dims, *(D + d for d in dims)]
        return Blurred(kernel._params["lengthscale"], uncertain=uncertain).on(columns)
    if uncertain:
        raise InputError(
            f"'expected' is for sums of squared exponentials, got {kernel!r}",
            parameter="input_errors",
            remedy="'slopes' takes every kernel",
        )
    return kernel.on(list(dims))


def spread_by_errors(posterior: Any, x: Array, sd: Array) -> Array:
    """Var_e f(x + e), averaged over the posterior of f, (n,): by points that are exact for quadratic functions."""
    nodes, weights = _sigma_points(x.shape[1])
    out, size = np.empty(len(x)), max(1, POINTS_AT_ONCE // len(nodes))
    for start in range(0, len(x), size):
        block = slice(start, start + size)
        at = exact_rows((x[block, None, :] + sd[block, None, :] * nodes).reshape(-1, x.shape[1]))
        n = len(at) // len(nodes)
        mean = posterior.mean(at).reshape(n, -1)
        among = posterior.covariance(at).reshape(n, len(nodes), n, len(nodes))
        own = among[np.arange(n), :, np.arange(n), :]
        of_mean = mean**2 @ weights - (mean @ weights) ** 2
        of_f = np.einsum("iaa,a->i", own, weights) - np.einsum("iab,a,b->i", own, weights, weights)
        out[block] = np.maximum(of_mean + of_f, 0.0)
    return out


def _sigma_points(D: int) -> tuple[Array, Array]:
    """Points (m, D) and positive weights with the moments of N(0, I) up to the third, for D < 3 nearly the fifth."""
    center = max(3 - D, 0)
    reach = np.sqrt(D + center) * np.eye(D)
    nodes, each = np.vstack([reach, -reach]), 0.5 / (D + center)
    if not center:
        return nodes, np.full(2 * D, each)
    return np.vstack([np.zeros((1, D)), nodes]), np.array([center / (D + center), *[each] * (2 * D)])


def _checked_sd(given: ArrayLike, x: Array) -> Array:
    sd = np.asarray(given, dtype=float)
    try:
        sd = np.broadcast_to(sd, x.shape)
    except ValueError:
        raise InputError(
            f"must be a number, one for each of {x.shape[1]} columns, or of shape {x.shape}; got {sd.shape}",
            parameter="input_sd",
        ) from None
    return require_deviations(sd, "input_sd")
