"""Warnings after a fit: each is about something that is so, and says what can be done."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.inference.base import ConvergenceWarning, Stage
from cavity.learning.data_scale import DataScale, resolution
from cavity.learning.guesses import Reader
from cavity.learning.multistart import SearchResult
from cavity.learning.robust_starts import is_robust
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import JITTER_LADDER
from cavity.parameters.per_latent import PerLatent
from cavity.posterior import Posterior
from cavity.runtime.errors import InPython, Message, Setting
from cavity.sampling.posterior import SamplePosterior

AT_THE_FLOOR = 1e-3
"""Share by which a noise level may exceed its limit and still be at it."""

FEW_VALUES = 12
"""Different whole targets up to which they may be categories."""

MANY_ROWS, LOOKED_AT = 300, 100
"""Rows from which it is strange that all are predicted alike, and rows that are looked at for it."""

NO_DIFFERENCE = 1e-3
"""Spread of predictions, in that of the targets (of a latent function behind labels or counts: one), that is none."""

NEARLY_SINGULAR = JITTER_LADDER[3]
"""Jitter, relative to the mean prior variance, that a user should know of."""


def warnings_of(
    search: SearchResult,
    posterior: Posterior | SamplePosterior,
    X: Array,
    y: Array | None = None,
    check_evidence: bool = True,
) -> list[Message]:
    """What a user should know about a fit; of targets y that are numbers also if they are too coarse for it."""
    found = [_about_learning(search), _about_inference(posterior, X)]
    if check_evidence and search.stopped is None:
        found.append(_about_evidence(posterior))
        found.append(_about_nothing(search, posterior, X, y))
    if y is not None and y.ndim == 1 and search.runs:
        found.append(_about_ties(posterior.model.likelihood, X, y))
    return [message for message in found if message]


def _about_ties(likelihood: Likelihood, X: Array, y: Array) -> Message | None:
    """That the noise is as fine as the targets allow, which says that it would be finer still."""
    gap = resolution(y) if is_robust(likelihood) else 0.0
    floors = [g.floor for g in Reader(replace(DataScale.of(X, y), resolution=gap)).part(likelihood)]
    if not gap or not np.any(likelihood.flat <= (1.0 + AT_THE_FLOOR) * np.array(floors)):
        return None
    distinct = len(np.unique(y))
    few = distinct <= FEW_VALUES and bool(np.all(y == np.round(y)))
    other = "OrdinalProbit, whose categories are ordered, or a classifier" if few else "Gaussian noise"
    return Message(
        (
            f"the targets take {distinct} values, at least {gap:.3g} apart, and the noise is as fine as that: equal "
            f"targets would draw {type(likelihood).__name__} noise to nothing",
        ),
        remedy=(f"use {other}",),
    )


def _about_nothing(
    search: SearchResult, posterior: Posterior | SamplePosterior, X: Array, y: Array | None
) -> Message | None:
    """That all of many rows are predicted alike, as if inputs said nothing about targets."""
    if isinstance(posterior, SamplePosterior) or not search.runs or len(X) < MANY_ROWS:
        return None
    likelihood = posterior.model.likelihood
    if likelihood.n_latent > 1 or likelihood.noise is not likelihood:
        return None
    f = posterior.predict_f(X[:: max(1, len(X) // LOOKED_AT)])
    unit = 1.0 if y is None or likelihood.discrete else float(np.std(y))
    if float(np.std(f.mean)) > NO_DIFFERENCE * unit:
        return None
    return Message(
        (f"learning found nothing but noise: all of {len(X)} rows are predicted alike",),
        remedy=(
            "if inputs do say something about the targets, start from a length scale at which they do (kernel, say "
            "1.0 * SE(0.1)), give more ",
            Setting("n_restarts"),
            ", or drop columns that do not matter",
        ),
    )


def issue(messages: list[Message], about: str = "") -> None:
    """One `ConvergenceWarning` each, at the line that called `fit`; `about` names the part of the fit."""
    for message in messages:
        found = message.about(about) if about else message
        warnings.warn(ConvergenceWarning.of(found), stacklevel=3)


def _about_learning(search: SearchResult) -> Message | None:
    if search.stopped is not None:
        why = ("learning was stopped early (", *search.stopped.parts, ")")
        return Message((*why, "; the best hyperparameters so far are kept"))
    if search.winner is None or search.converged:
        return None
    return Message(
        (f"the optimizer of the hyperparameters stopped early: {search.winner.message}",),
        remedy=(
            InPython("see runs_, and "),
            "fit again with ",
            InPython("warm_start=True or "),
            "more ",
            Setting("n_restarts"),
        ),
    )


def _about_inference(posterior: Posterior | SamplePosterior, X: Array) -> Message | None:
    if isinstance(posterior, SamplePosterior):
        return posterior.notice  # also of chains that were stopped early and are long enough all the same
    model, status = posterior.model, posterior.status
    rule = type(model.inference).__name__
    if not status.converged:
        return Message(
            (f"{rule} did not converge (stage {status.label!r}): {status.message}",),
            remedy=(
                "predictions are usable but less accurate: try another inference rule or likelihood, or a shorter "
                "length scale to start from",
            ),
        )
    if status.stage is Stage.POWER_EP:
        return Message(
            (
                f"{rule} found no fixed point at full power; this is stage {status.label!r} ({status.message}), whose "
                "log evidence does not compare with that of EP",
            ),
            remedy=("try ", Setting("inference", "variational")),
        )
    if status.jitter > NEARLY_SINGULAR * float(np.mean(_variance(posterior, X))):
        return Message(
            (f"the covariance matrix is nearly singular: {status.message}",),
            remedy=("give the noise variance a lower bound, or look for repeated rows",),
        )
    return None


def _about_evidence(posterior: Posterior | SamplePosterior) -> Message | None:
    """That EP's evidence is off, if a check in passing says so."""
    if isinstance(posterior, SamplePosterior) or not posterior.status.converged:
        return None
    if posterior.model.likelihood.log_concave:  # nothing would be checked
        return None
    from cavity.assessment.evidence_check import check_evidence  # samplers take a while to load

    try:
        found = check_evidence(posterior)
    except KeyboardInterrupt:  # the fit is done: it is not to be lost
        return Message(("the check of EP's log evidence was interrupted; nothing is known of its error",))
    return None if found is None else found.message


def _variance(posterior: Posterior, X: Array) -> Array:
    kernel: Any = posterior.model.kernel
    each = kernel if isinstance(kernel, PerLatent) else [kernel]
    return np.concatenate([k.diag(X) for k in each])
