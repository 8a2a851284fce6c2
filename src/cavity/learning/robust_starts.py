"""Where learning with robust noise starts: at the solutions of easier models.

Optima of the evidence depend on where learning starts. The solution for Gaussian noise is a good place: its kernel
values, with the noise level of the bulk of its leave-one-out residuals, which outliers do not move. If outliers have
bent that solution itself, a model with heavy tails may stay beside it, at the Gaussian limit. Laplace noise, which is
log-concave and so has one mode only, is a step between. If the fit with Laplace noise explains nothing, a start with
values read off the data and next to no noise is tried too. A few steps from each put these starts in order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cavity.gp import GP
from cavity.inference.ep import EP
from cavity.learning.data_scale import MAD_TO_SD, DataScale, without_far
from cavity.learning.guesses import NOISE_SHARE, Reader
from cavity.learning.multistart import SearchOptions, multistart
from cavity.learning.objective import Objective, deadline_in
from cavity.learning.race import Start, screen
from cavity.learning.starts import Starts
from cavity.learning.training_rows import TrainingRows
from cavity.likelihoods import Gaussian, GaussianNoise, Laplace, Switch
from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.runtime.deadlines import Deadline
from cavity.runtime.stop_reason import StopReason

STAGE_SHARE = 0.25
"""Share of the time allowed that each stage may take: the solution of an easier model, and the trial of starts."""

TRIAL_STEPS = 6
"""Iterations after which starts are compared."""

QUIET = 0.1
"""Noise of the quiet start beside the usual one: most targets may be far more precise than their spread suggests."""

NOTHING_SEEN = 0.9
"""Share of the targets' typical deviation that is left by a model that explains nothing worth mentioning."""

LEAST_NOISE = 1e-4
"""Smallest noise to start from, in standard deviations of y."""


class Solution(NamedTuple):
    """An easier model with learned values, and the median size of its leave-one-out residuals."""

    model: GP
    residual: float


def is_robust(likelihood: Likelihood) -> bool:
    """Whether y, or what it is warped to, is f plus noise that is not Gaussian, of one kind for all rows."""
    noise = likelihood.noise
    if isinstance(noise, Switch):
        return False
    return noise.n_latent == 1 and not noise.discrete and not isinstance(noise, GaussianNoise)


def first_stages(
    model: GP,
    rows: TrainingRows,
    starts: Starts,
    how: SearchOptions,
    rng: np.random.Generator,
    limit: Deadline,
) -> list[Start]:
    """Starts of a robust model from the solutions of easier ones, the most promising first; none if none can be found.

    Easier is Gaussian noise, and for heavier than exponential tails Laplace noise, itself started there. Ctrl-C goes on
    to the caller: there is nothing to keep of the robust model yet.

    Parameters
    ----------
    model : GP
        The robust model.
    starts : Starts
        What the data say about its parameters.
    how : SearchOptions
        How the robust model is learned. Easier models have at most one restart.
    limit : Deadline
        That of learning as a whole.
    """
    found: list[Start] = []
    bulk = bulk_scale(model, rows)
    try:
        gaussian = _gaussian(model, rows, min(how.n_restarts, 1), how, rng, limit)
        found.append(Start("gaussian", carried_over(gaussian, model, bulk)))
        if not model.likelihood.log_concave:
            laplace = _laplace(model, gaussian, rows, how, rng, limit)
            found.append(Start("laplace", carried_over(laplace, model, bulk)))
            if sees_nothing(laplace, rows):
                found.append(Start("quiet", quiet_start(model, starts, bulk)))
    except np.linalg.LinAlgError:
        pass
    if len(found) < 2:
        return found
    goal = Objective(
        model, rows.X, rows.y, sample_weight=rows.weight, deadline=deadline_in(limit.part(STAGE_SHARE))
    )
    trials = screen(goal, found, starts, len(found), steps=TRIAL_STEPS)
    return [Start(trial.kind, trial.theta, trial.warm) for trial in trials]


def _easier(model: GP, likelihood: Likelihood, rule: Any, rows: TrainingRows) -> GP:
    """The same kernel and mean with other noise; matrices are dense unless rows of the representation cost nothing."""
    representation = model.representation if model.representation.linear_cost else "dense"
    return GP(model.kernel, likelihood, model.mean, rule, representation).bind(rows.X.shape[1])


def _gaussian(
    model: GP,
    rows: TrainingRows,
    n_restarts: int,
    how: SearchOptions,
    rng: np.random.Generator,
    limit: Deadline,
) -> Solution:
    """The same kernel and mean with Gaussian noise, learned."""
    easier = _easier(model, Gaussian(), "exact", rows)
    return _solution(easier, rows, replace(how, n_restarts=n_restarts), rng, limit)


def _laplace(
    model: GP,
    gaussian: Solution,
    rows: TrainingRows,
    how: SearchOptions,
    rng: np.random.Generator,
    limit: Deadline,
) -> Solution:
    """The same with Laplace noise, started from the solution for Gaussian noise too."""
    easier = _easier(model, Laplace(), EP().for_search(), rows)
    also = [Start("gaussian", carried_over(gaussian, easier, bulk_scale(easier, rows)))]
    return _solution(easier, rows, replace(how, n_restarts=0), rng, limit, also)


def _solution(
    easier: GP,
    rows: TrainingRows,
    how: SearchOptions,
    rng: np.random.Generator,
    limit: Deadline,
    also: list[Start] | None = None,
) -> Solution:
    """An easier model with learned values. The values of its noise are nobody's choice."""
    how = replace(how, given=[part for part in how.given if part != "likelihood"])
    found = multistart(easier, rows, how, also=also or [], rng=rng, max_time=limit.part(STAGE_SHARE))
    if found.stopped is StopReason.INTERRUPTED:  # the robust model has nothing to keep yet
        raise KeyboardInterrupt
    loo = found.model.leave_one_out(rows.X, rows.y, rows.weight)
    return Solution(found.model, float(np.median(np.abs(rows.y - loo.mean))))


def bulk_scale(model: GP, rows: TrainingRows) -> DataScale:
    """Typical sizes in the data; without far targets if the noise of the model is to explain those."""
    bulk, reach = (rows.y, 0.0) if model.likelihood.log_concave else without_far(rows.y)
    return replace(DataScale.of(rows.X, bulk, None, rows.weight), reach=reach)


def carried_over(found: Solution, model: GP, scale: DataScale) -> Array:
    """Theta with the kernel and mean of an easier model, and the noise level of the bulk of its residuals."""
    return _with_noise(found.model, model, scale, MAD_TO_SD * found.residual)


def sees_nothing(found: Solution, rows: TrainingRows) -> bool:
    """Whether residuals, each row left out in turn, are as large as the deviations of the targets."""
    deviation = float(np.median(np.abs(rows.y - np.median(rows.y))))
    return found.residual >= NOTHING_SEEN * deviation


def quiet_start(model: GP, starts: Starts, scale: DataScale) -> Array:
    """Theta with values of kernel and mean read off the data, and next to no noise."""
    noise = QUIET * np.sqrt(NOISE_SHARE) * scale.y_sd
    return _with_noise(model.replace(starts.first), model, scale, noise)


def _with_noise(found: GP, model: GP, scale: DataScale, noise: float) -> Array:
    """Theta of a model with the values of another one's kernel and mean, and noise of this standard deviation."""
    noise = max(noise, LEAST_NOISE * scale.y_sd)
    guesses = Reader(replace(scale, y_sd=noise / np.sqrt(NOISE_SHARE))).part(model.likelihood)
    kernel_and_mean = found.flat[: -found.likelihood.flat.size]
    flat = np.concatenate([kernel_and_mean, [g.center for g in guesses]])
    layout = model.layout
    return layout.to_unconstrained(flat[layout.lead])
