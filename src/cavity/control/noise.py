"""Noise variance of a fitted model, where it does not depend on the function."""

from __future__ import annotations

import numpy as np

from cavity.control.analytic import NotAnalyticError
from cavity.gp import Posterior


def noise_variances(posterior: Posterior) -> float:
    """Variance that noise adds to f.

    Raises
    ------
    NotAnalyticError
        If observations are not f plus noise of one variance (labels, counts, known noise of single cases).
    ValueError
        If the noise has no variance.
    """
    likelihood = posterior.model.likelihood
    name = type(likelihood).__name__
    if likelihood.n_latent > 1 or likelihood.discrete:
        raise NotAnalyticError(f"observations with {name} are not a function plus noise")
    try:
        low, high = (likelihood.predictive(np.array([f]), np.zeros(1)) for f in (0.0, 1.0))
        additive = abs(high.mean[0] - low.mean[0] - 1.0) < 1e-6 and abs(low.mean[0]) < 1e-6
        values = float(low.variance[0]), float(high.variance[0])
    except ValueError as error:
        raise NotAnalyticError(f"the noise of {name} is not the same everywhere: {error}") from None
    if not additive or abs(values[0] - values[1]) > 1e-6 * max(values):
        raise NotAnalyticError(f"observations with {name} are not a function plus noise of one variance")
    if not np.isfinite(values[0]):
        raise ValueError(f"{name} has no finite noise variance: predict f itself with noise=False")
    return values[0]
