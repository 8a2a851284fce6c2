"""Annealing from the posterior back to the start: the upper side of the log evidence, on simulated data.

`reverse_annealing` runs from exact draws of the posterior, which exist where the data were simulated from the model:
E[-ln w] is then above ln Z as E[ln w] of the usual direction is below (Grosse, Ghahramani and Adams 2015). On real data
there is no exact draw, and no such claim.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.numerics.arrays import Array
from cavity.numerics.threads import threads_for
from cavity.sampling.annealing.moves import State
from cavity.sampling.annealing.runs import Kernel, weight_statistics
from cavity.sampling.annealing.setup import Problem, Report, check_arguments, schedule_functions
from cavity.sampling.trace import ProgressLike


@dataclass(frozen=True)
class ReverseResult:
    """Annealing from the posterior back to the start.

    Attributes
    ----------
    upper : float
        Mean of -ln w: above ln Z in expectation.
    standard_error : float
        Of `upper`, over runs. Runs from one and the same exact draw share its luck, which this does not contain.
    log_evidence : float
        -ln mean w, a consistent estimate.
    log_weights : array (R,)
    sd_log_weights, acceptance, time : float
    schedule : array (T + 1,)
    start : str
        Where the way back ends.
    """

    upper: float
    standard_error: float
    log_evidence: float
    log_weights: Array
    sd_log_weights: float
    acceptance: float
    schedule: Array
    start: str
    time: float


def reverse_annealing(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    f_exact: ArrayLike,
    *,
    runs: int = 16,
    steps: int = 1000,
    schedule: str | float | ArrayLike = "adaptive",
    start: str = "prior",
    moves: str = "hmc",
    leapfrogs: int = 8,
    metric: str = "auto",
    sample_weight: ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
    progress: ProgressLike = None,
) -> ReverseResult:
    """The upper side of the log evidence, from exact draws of the posterior: for simulated data only.

    Where y was simulated as y ~ p(y | f) with f drawn from the prior at X, that f is an exact draw of p(f | y), and
    annealing from it back to the start gives ln w with E[-ln w] >= ln Z (over data and draws). Together with the usual
    direction the evidence is bracketed. Values of f that are not exact draws give nothing of the kind.

    Parameters
    ----------
    f_exact : array (n,) or (S, n)
        Exact draws; runs take them in turn.

    The other parameters are those of `annealed_importance_sampling`.
    """
    check_arguments(runs, steps, start, moves, leapfrogs, 1, metric, None, None)
    rng = np.random.default_rng(seed)
    with threads_for(len(np.asarray(y))):
        problem = Problem(model, X, y, sample_weight, Kernel(moves, leapfrogs), metric)
        F = np.atleast_2d(np.asarray(f_exact, dtype=float))
        if F.ndim != 2 or F.shape[1] != problem.prior.n or not np.isfinite(F).all():
            raise ValueError(
                f"f_exact must hold {problem.prior.n} finite values per draw, got shape {F.shape}"
            )
        way = problem.first_way(start, runs, rng)
        levels = schedule_functions(schedule)[0](way.pilot, steps)
        began = time.perf_counter()
        state = State.at(way.bridge, way.bridge.position(F[np.arange(runs) % len(F)]))
        log_w, accepted = np.zeros(runs), np.ones(max(1, len(levels) - 2))
        with Report(progress, "annealing in reverse", len(levels) - 1) as report:
            for t in range(len(levels) - 1, 0, -1):
                log_w = log_w + (levels[t - 1] - levels[t]) * state.log_ratio
                if t > 1:
                    state, accepted[t - 2] = way.pilot.kernel.move(
                        way.bridge, state, float(levels[t - 1]), rng
                    )
                report.advance()
    log_mean, _, _, sd = weight_statistics(log_w)
    mass = way.bridge.log_mass
    return ReverseResult(
        mass - float(log_w.mean()),
        sd / np.sqrt(runs),
        mass - log_mean,
        log_w,
        sd,
        float(accepted.mean()),
        levels,
        way.start,
        time.perf_counter() - began,
    )
