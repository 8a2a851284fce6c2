"""Warnings after a fit: each is about something that is so, and says what can be done."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from cavity.gp import Posterior
from cavity.inference.base import ConvergenceWarning
from cavity.latent.several import PerLatent
from cavity.learning.multistart import SearchResult
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER

NEARLY_SINGULAR = JITTER_LADDER[3]
"""Jitter, relative to the mean prior variance, that a user should know of."""


def warnings_of(search: SearchResult, posterior: Posterior, X: Array) -> list[str]:
    """What a user should know about a fit, in sentences."""
    return [text for text in (_about_learning(search), _about_inference(posterior, X)) if text]


def issue(texts: list[str], about: str = "", stacklevel: int = 3) -> None:
    """One `ConvergenceWarning` each, at the line that called `fit`; `about` names the part of the fit."""
    for text in texts:
        warnings.warn(f"{about}: {text}" if about else text, ConvergenceWarning, stacklevel=stacklevel)


def _about_learning(search: SearchResult) -> str:
    if search.stopped:
        return f"learning was stopped early ({search.stopped}); the best hyperparameters so far are kept"
    if search.winner is None or search.converged:
        return ""
    return (
        f"the optimizer of the hyperparameters stopped early: {search.winner.message}; see runs_, and fit "
        "again with warm_start=True or more n_restarts"
    )


def _about_inference(posterior: Posterior, X: Array) -> str:
    model, status = posterior.model, posterior.status
    rule = type(model.inference).__name__
    if status.stage.startswith("mcmc"):
        return status.message  # also of chains that were stopped early and are long enough all the same
    if not status.converged:
        return (
            f"{rule} did not converge (stage {status.stage!r}): {status.message}; predictions are usable but "
            "less accurate: try another inference rule or likelihood, or a shorter length scale to start from"
        )
    if status.stage.startswith("power ep"):
        return (
            f"{rule} found no fixed point at full power; this is stage {status.stage!r} ({status.message}), "
            "whose log evidence does not compare with that of EP: try inference='variational'"
        )
    if status.jitter > NEARLY_SINGULAR * float(np.mean(_variance(posterior, X))):
        return (
            f"the covariance matrix is nearly singular: {status.message}; give the noise variance a lower "
            "bound, or look for repeated rows"
        )
    return ""


def _variance(posterior: Posterior, X: Array) -> Array:
    kernel: Any = posterior.model.kernel
    each = kernel if isinstance(kernel, PerLatent) else [kernel]
    return np.concatenate([k.diag(X) for k in each])
