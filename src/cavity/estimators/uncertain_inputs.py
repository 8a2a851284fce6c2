"""Training inputs that are known with an error: `GPRegressor.fit(X, y, input_sd=...)`.

An error of size s in an input moves the observation by the slope times s (McHutchon and Rasmussen 2011): under normal
noise row i has the noise variance sigma^2 + sum_d E[slope_id^2] s_id^2. Slopes are those of the posterior, which
depends on the noise in turn. A few rounds settle it. For other noise there is the expected kernel
(`cavity.kernels.Blurred`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from cavity.estimators.inputs import checked_inputs
from cavity.kernels.jets import NoSlopeError
from cavity.likelihoods import Gaussian, KnownNoise, as_likelihood
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.estimators.regressor import GPRegressor

INPUT_ROUNDS = 4
"""Fits in turn with slopes of the last one."""


def fit_uncertain(
    model: GPRegressor, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, input_sd: ArrayLike
) -> Any:
    """Fit a regressor to inputs with these standard errors."""
    x = checked_inputs(clone(model), X, reset=True)
    sd = _checked_sd(input_sd, x)
    noise = (
        as_likelihood(model.likelihood)
        if isinstance(model.likelihood, str) and model.likelihood != "auto"
        else None
    )
    given = noise if noise is not None else model.likelihood
    if isinstance(given, str) or sample_weight is not None:
        raise InputError(
            "needs a likelihood that is given, and no sample_weight",
            parameter="input_sd",
            value=model.likelihood,
        )
    if not isinstance(given, Gaussian):
        raise InputError(
            f"is for normal noise here, got {model.likelihood!r}",
            parameter="input_sd",
            remedy="GP(1.0 * Blurred(ard, uncertain=True), likelihood), on rows of inputs and sd, is for any noise",
        )
    asked = model.likelihood
    variance = given._params["variance"]
    model.likelihood = given
    try:
        model.fit(X, y)
        for _ in range(INPUT_ROUNDS - 1):
            model.likelihood = KnownNoise(np.sum(_squared_slopes(model, x) * sd**2, axis=1), variance)
            model.fit(X, y)
    finally:
        model.likelihood = asked
    return model


def _squared_slopes(model: GPRegressor, x: Array) -> Array:
    """Expected squares of the slopes, (n, D); of a kernel without slopes the squares of those of the mean."""
    try:
        slope = model.posterior_.predict_slope(x)
    except NoSlopeError:
        return model.posterior_.mean_gradient(x) ** 2
    return np.asarray(slope.mean**2 + slope.variance)


def _checked_sd(given: ArrayLike, x: Array) -> Array:
    sd = np.asarray(given, dtype=float)
    try:
        sd = np.broadcast_to(sd, x.shape)
    except ValueError:
        raise InputError(
            f"must be a number, one for each of {x.shape[1]} columns, or of shape {x.shape}; got {sd.shape}",
            parameter="input_sd",
        ) from None
    if not (np.isfinite(sd) & (sd >= 0)).all():
        raise InputError("must hold standard deviations, not negative", parameter="input_sd")
    return sd
