"""Which mode Laplace's method expands around: several starts for posteriors that may have several modes, and
keeping to one branch while hyperparameters change.

A log-concave likelihood has one mode and needs one start. Otherwise EM and Newton climb from several: the
prior mean, the data themselves, a fit with broad noise, and leave-one-out predictions (in which an isolated
outlier has no say). From the highest modes so far, single observations are then believed or left out in
turn, as long as that leads to a higher one. The mode of highest posterior density is kept, the number of
distinct ones reported.

During learning the mode is continued from the last hyperparameters. If Newton's whole steps lead from the old
mode to the new one, it is the same branch. If not, the way from the old hyperparameters to the new ones is
taken in shorter and shorter strides. If that does not help either, the branch has ended, and the highest mode
there takes its place if its evidence is higher than the last one's. If not, the evaluation fails: an optimizer
never sees the objective jump downwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cavity.inference.base import InferenceFailedError, Stage
from cavity.inference.laplace.mode_search import LatentPoint, LogPosterior, Mode, NoModeError
from cavity.latent.base import ImproperPosteriorError
from cavity.likelihoods.base import Likelihood
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.parameters.param import Parametrized

STRIDES = 16
"""Pieces, at most, into which a change of hyperparameters is divided to follow a mode."""

PATIENCE = 3
"""Modes, the highest first, from which jumps find no higher one before the search ends."""

FLAT = 0.05
"""Smallest curvature below which a mode is too flat for a Gaussian at it to mean anything."""

VANISHING = 0.01
"""Smallest curvature below which a mode is not followed any further (see `flatness`)."""

SAME_VALUE, SAME_PLACE = 1e-7, 1e-4
"""Modes closer than this, in relative terms, are one."""


@dataclass(frozen=True)
class Found:
    """The mode that is kept, and how it was found."""

    mode: Mode
    stage: Stage
    iterations: int
    modes: int
    starts: int
    flat: bool = False


@dataclass(frozen=True)
class KnownMode:
    """The mode of an evaluation, with the model it belongs to."""

    f: Array
    kernel: Any
    mean_function: Any
    likelihood: Likelihood
    smallest_curvature: float
    log_evidence: float


# --- several starts -----------------------------------------------------------------------------------------


def search(problem: LogPosterior) -> Found:
    """The mode of highest density among those that the starts lead to.

    Raises
    ------
    NoModeError
        If no start leads to a mode.
    """
    if problem.likelihood.log_concave:
        mode = problem.newton(problem.prior_mean())
        return Found(mode, Stage.NEWTON, mode.iterations, 1, 1)
    starts: list[LatentPoint] = []
    for start in problem.starts():
        if np.isfinite(start.value):
            climbed = problem.em(start)
            if not _known(climbed, starts):
                starts.append(climbed)
    modes: list[Mode] = []
    total, failure = _climb_all(problem, starts, modes)
    if not modes:
        raise failure or NoModeError("every start has likelihood zero: check y against the model")
    expanded: list[Mode] = []
    patience = PATIENCE
    while patience:
        left = [m for m in modes if all(m is not e for e in expanded)]
        if not left:
            break
        best, mode = max(m.value for m in modes), max(left, key=lambda m: m.value)
        expanded.append(mode)
        reached = [problem.em(point) for point in problem.jumps(mode)]
        total += _climb_all(problem, [point for point in reached if not _known(point, modes)], modes)[0]
        patience = PATIENCE if max(m.value for m in modes) > best else patience - 1
    best_mode = max(modes, key=lambda m: m.value)
    stage = Stage.IRLS_NEWTON if isinstance(problem.likelihood, ScaleMixture) else Stage.NEWTON
    flat = problem.smallest_curvature(best_mode) < FLAT
    return Found(best_mode, stage, total, len(modes), len(starts), flat)


def _climb_all(
    problem: LogPosterior, points: list[LatentPoint], modes: list[Mode]
) -> tuple[int, NoModeError | None]:
    """Newton's method from each point; new modes are appended. Iterations, and the last failure."""
    total, failure = 0, None
    for point in sorted(points, key=lambda p: -p.value):
        try:
            mode = problem.newton(point)
        except NoModeError as error:
            failure = error
            continue
        total += mode.iterations
        if not _known(mode, modes):
            modes.append(mode)
    return total, failure


def _known(point: LatentPoint | Mode, modes: Sequence[LatentPoint | Mode]) -> bool:
    return any(_same(point.value, point.f, other.value, other.f) for other in modes)


def _same(value: float, f: Array, other_value: float, other_f: Array) -> bool:
    near = abs(value - other_value) <= SAME_VALUE * (1.0 + abs(value))
    size = np.linalg.norm(f) + np.linalg.norm(other_f)
    return bool(near and np.linalg.norm(f - other_f) <= SAME_PLACE * size)


# --- one branch while hyperparameters change ----------------------------------------------------------------


def tracked(problem: LogPosterior, last: KnownMode | None) -> Found:
    """The mode continued from the last evaluation, or by a search if there is none.

    Raises
    ------
    InferenceFailedError
        If the branch cannot be followed, and no mode here has a higher evidence than the last one.
    """
    if last is None or len(last.f) != problem.prior.n:
        return search(problem)
    if problem.likelihood.log_concave:
        return _warm(problem, last.f)
    try:
        found = _follow(problem, last)
        _require_curvature(problem, found.mode, last)
    except InferenceFailedError:
        found = search(problem)
        if not problem.log_evidence(found.mode) > last.log_evidence:
            raise
    return found


def known(problem: LogPosterior, mode: Mode, log_evidence: float) -> KnownMode:
    """What to remember of a mode."""
    prior, left = problem.prior, problem.smallest_curvature(mode)
    return KnownMode(mode.f, prior.kernel, prior.mean_function, problem.likelihood, left, log_evidence)


def _require_curvature(problem: LogPosterior, mode: Mode, last: KnownMode) -> None:
    left = problem.smallest_curvature(mode)
    if left < min(VANISHING, last.smallest_curvature):
        raise InferenceFailedError(
            f"the mode is about to vanish: {left:.1g} of the curvature is left in one direction, and the "
            "evidence of a mode that flattens out means nothing"
        )


def _warm(problem: LogPosterior, f: Array) -> Found:
    """The only mode there is, from a step taken at the old one (or from the prior mean if that is better)."""
    start = problem.prior_mean()
    near = problem.near(f)
    mode = problem.newton(near if near.value > start.value else start)
    return Found(mode, Stage.NEWTON, mode.iterations + 1, 1, 1)


def _continued(problem: LogPosterior, f: Array) -> Mode | None:
    """The mode that whole Newton steps reach from f, or None if they do not."""
    try:
        return problem.newton(problem.near(f), whole_steps=True)
    except (ImproperPosteriorError, NoModeError):
        return None


def _follow(problem: LogPosterior, last: KnownMode) -> Found:
    """The branch of the last mode at the new hyperparameters."""
    strides, evaluations = 1, 0
    while strides <= STRIDES:
        f = last.f
        for k in range(1, strides + 1):
            at = problem if k == strides else _between(problem, last, k / strides)
            mode = _continued(at, f)
            if mode is None:
                break
            f = mode.f
            evaluations += mode.iterations
            if k == strides:
                return Found(mode, Stage.NEWTON, evaluations, 1, 1)
        strides *= 4
    raise InferenceFailedError(
        "the mode of the posterior cannot be followed to these hyperparameters: its branch ends on the way, "
        "and no mode here has a higher evidence"
    )


def _between(problem: LogPosterior, last: KnownMode, share: float) -> LogPosterior:
    """The problem at hyperparameters between the last and the present ones."""
    prior = problem.prior
    return problem.at(
        _interpolate(last.kernel, prior.kernel, share),
        None if prior.mean_function is None else _interpolate(last.mean_function, prior.mean_function, share),
        _interpolate(last.likelihood, problem.likelihood, share),
    )


def _interpolate(old: Parametrized, new: Parametrized, share: float) -> Parametrized:
    """A part whose unconstrained values lie between those of two others of the same structure."""
    return new.replace((1 - share) * old.theta + share * new.theta)
