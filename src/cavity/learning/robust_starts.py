"""Where learning with robust noise starts: at the solutions of easier models.

Optima of the evidence depend on where learning starts. The solution for Gaussian noise is a good place: its kernel
values, with the noise level of the bulk of its leave-one-out residuals, which outliers do not move. Where outliers have
bent that solution itself, a model with heavy tails may stay beside it, at the Gaussian limit. Laplace noise, which is
log-concave and so has one mode only, is a step between. Where that sees no function at all, only noise, a start with
values read off the data and next to no noise may find one. Of these starts the one is run that leads further within a
few steps. The highest evidence need not predict best: where the solution for Gaussian noise is trusted, it can be the
only start (`from_gaussian`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from cavity.gp import GP
from cavity.learning.data_scale import MAD_TO_SD, without_far
from cavity.learning.guesses import NOISE_SHARE, Reader
from cavity.learning.multistart import learn
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.optimizer import maximize
from cavity.learning.starts import DataScale, Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, GaussianNoise, Laplace
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.stop_reason import StopReason

STAGE_SHARE = 0.25
"""Share of the time allowed that each stage may take: the solution of an easier model, and the trial of starts."""

TRIAL_STEPS = 6
"""Iterations after which two starts are compared."""

QUIET = 0.1
"""Noise of the quiet start beside the usual one: most targets may be far more precise than their spread suggests."""

NOTHING_SEEN = 0.9
"""Share of the targets' typical deviation that is left by a model that explains nothing worth mentioning."""

LEAST_NOISE = 1e-4
"""Smallest noise to start from, in standard deviations of y."""


def is_robust(likelihood: Likelihood) -> bool:
    """Whether y is f plus noise that is not Gaussian."""
    return likelihood.n_latent == 1 and not likelihood.discrete and not isinstance(likelihood, GaussianNoise)


def first_stages(
    model: GP, rows: TrainingRows, *, n_restarts: int, max_time: float | None, **how: Any
) -> list[tuple[str, Array]]:
    """A start of a robust model from the solution of an easier one; none where that cannot be found.

    Easier is Gaussian noise, and for heavier than exponential tails Laplace noise, itself started there (where it sees
    nothing, next to no noise too); the most promising of these. `max_time` is that of the whole fit; `how` they are
    learned: see `_stage_options`. Ctrl-C goes on to the caller: there is nothing to keep of the robust model yet.
    """
    time, options = Deadline(max_time), _stage_options(rows, **how)
    starts: list[tuple[str, Array]] = []
    try:
        share = time.part(STAGE_SHARE)
        found = _gaussian(model, rows, n_restarts=min(n_restarts, 1), max_time=share, **options)
        starts = [("gaussian", carried_over(found, model, rows.X, rows.y, rows.weight))]
        if not model.likelihood.log_concave:
            laplace = GP(model.kernel, Laplace(), model.mean, "ep").bind(rows.X.shape[1])
            also = [("gaussian", carried_over(found, laplace, rows.X, rows.y, rows.weight))]
            share = time.part(STAGE_SHARE)
            found = _solution(laplace, rows, n_restarts=0, also=also, max_time=share, **options)
            starts.append(("laplace", carried_over(found, model, rows.X, rows.y, rows.weight)))
            if sees_nothing(found, rows):
                starts.append(("quiet", quiet_start(model, rows)))
    except np.linalg.LinAlgError:
        pass
    return starts if len(starts) < 2 else [_promising(starts, model, rows, time.part(STAGE_SHARE))]


def from_gaussian(
    model: GP, rows: TrainingRows, *, n_restarts: int, max_time: float | None, **how: Any
) -> GP:
    """The robust model at the solution for Gaussian noise, which has all the restarts and a share of the time."""
    share = Deadline(max_time).part(STAGE_SHARE)
    found = _gaussian(model, rows, n_restarts=n_restarts, max_time=share, **_stage_options(rows, **how))
    return model.replace(carried_over(found, model, rows.X, rows.y, rows.weight))


def _stage_options(
    rows: TrainingRows,
    *,
    given: Collection[str],
    data_driven: bool,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> dict[str, Any]:
    """How an easier model is learned."""
    return {
        "sample_weight": rows.weight,
        "given": [part for part in given if part != "likelihood"],
        "data_driven": data_driven,
        "random_state": rng,
        "n_jobs": n_jobs,
    }


def _gaussian(model: GP, rows: TrainingRows, **options: Any) -> GP:
    """The same kernel and mean with Gaussian noise, learned."""
    return _solution(GP(model.kernel, Gaussian(), model.mean, "exact").bind(rows.X.shape[1]), rows, **options)


def _promising(
    starts: list[tuple[str, Array]], model: GP, rows: TrainingRows, max_time: float | None
) -> tuple[str, Array]:
    """Of several starts the one that leads to the highest evidence within a few steps, or before time is up."""
    goal = Objective(model, rows.X, rows.y, sample_weight=rows.weight, deadline=deadline_in(max_time))
    all_ = Starts.of(model, rows.X, rows.y, rows.weight)
    values = [maximize(goal, theta, all_.box, all_.scale, kind, TRIAL_STEPS).value for kind, theta in starts]
    return starts[int(np.argmax(values))]


def _solution(model: GP, rows: TrainingRows, **options: Any) -> GP:
    learned = learn(model, rows.X, rows.y, **options)
    if learned.stopped is StopReason.INTERRUPTED:  # the robust model has nothing to keep yet
        raise KeyboardInterrupt
    return learned.model


def carried_over(found: GP, model: GP, X: Array, y: Array, weight: Array | None = None) -> Array:
    """Theta with the values of another model's kernel and mean, and the noise level of the bulk of its residuals."""
    loo = found.leave_one_out(X, y, weight)
    noise = MAD_TO_SD * float(np.median(np.abs(y - loo.mean)))
    return _with_noise(found, model, _bulk_scale(model, X, y, weight), noise)


def sees_nothing(found: GP, rows: TrainingRows) -> bool:
    """Whether the residuals of a model, each row left out in turn, are as large as the deviations of the targets."""
    residual = rows.y - found.leave_one_out(rows.X, rows.y, rows.weight).mean
    deviation = rows.y - np.median(rows.y)
    return bool(np.median(np.abs(residual)) >= NOTHING_SEEN * np.median(np.abs(deviation)))


def quiet_start(model: GP, rows: TrainingRows) -> Array:
    """Theta with values of kernel and mean read off the data, and next to no noise."""
    first = Starts.of(model, rows.X, rows.y, rows.weight).first
    scale = _bulk_scale(model, rows.X, rows.y, rows.weight)
    return _with_noise(model.replace(first), model, scale, QUIET * np.sqrt(NOISE_SHARE) * scale.y_sd)


def _bulk_scale(model: GP, X: Array, y: Array, weight: Array | None) -> DataScale:
    """Typical sizes in the data, far targets aside where the noise is to explain those."""
    bulk, reach = (y, 0.0) if model.likelihood.log_concave else without_far(y)
    return replace(DataScale.of(X, bulk, None, weight), reach=reach)


def _with_noise(found: GP, model: GP, scale: DataScale, noise: float) -> Array:
    """Theta of a model with the values of another one's kernel and mean, and noise of this standard deviation."""
    noise = max(noise, LEAST_NOISE * scale.y_sd)
    guesses = Reader(replace(scale, y_sd=noise / np.sqrt(NOISE_SHARE))).part(model.likelihood)
    kernel_and_mean = found.flat[: -found.likelihood.flat.size]
    flat = np.concatenate([kernel_and_mean, [g.center for g in guesses]])
    layout = model.layout
    return layout.to_unconstrained(flat[layout.lead])
