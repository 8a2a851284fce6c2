"""One run of the optimizer: L-BFGS-B from one start, in unconstrained parameters, inside a box.

An evaluation that fails inside a run is a step too far: the line search is shown a value that brings it back. Some
inference rules limit the step (`cavity.learning.step_limit`). If the branch of solutions that a rule follows ends next
to the best point, the run ends there, and `follow` begins another one beyond that end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from cavity.learning.objective import Objective, OutOfTime
from cavity.learning.recognition import Ended, Optimum, Watch
from cavity.learning.step_limit import (
    FAILED_STEP_FRACTION,
    SHORTEST_STEP,
    WAY_TO_END_FRACTION,
    StepLimit,
    distance,
)
from cavity.numerics.arrays import Array
from cavity.runtime.stop_reason import StopReason

STEPS = 500
"""Most iterations of a run."""

ROUNDING_SLOPE = 1e-4
"""Slope, relative to the objective, below which a failing line search only means that rounding has been reached."""

ROUNDING_MESSAGE = (
    "no further progress, since rounding errors dominate the objective (next to no noise, or length scales far "
    "beyond the data); a lower bound on the noise variance helps"
)
"""What an abnormal end of a line search means here."""

FAILURES = 30
"""Evaluations of a run that may fail before it is given up: it is at the edge of what can be evaluated."""

ALLOWED_FRACTION = 0.95
"""A step that is too long is brought back to this fraction of the longest step allowed."""

LONGEST_RETURN = 0.45
"""A step that failed or is too long is brought back to at most this fraction of itself."""

BRANCHES = 5
"""Times that a run is begun anew beyond the end of a branch."""

FIRST_STEP = 1.0
"""Limit of the first steps if an evaluation is itself an iteration, which takes long from far away."""

FIRST_STEP_BEYOND = 0.25
"""Limit of the first steps of such a run, which begins near an edge."""

JUST_BEYOND = 0.3
"""How far beyond the end of a branch another run begins: next to the end, branches are short."""


@dataclass(frozen=True)
class Run:
    """One run of the optimizer.

    Attributes
    ----------
    kind : str
        Where the start came from: "data", "given", "random", "relocated", or the name of a caller's own start.
    start, theta : array (p,)
        Where the run began and ended.
    value : float
        The objective at the end; -inf if it failed from the outset.
    converged : bool
    evaluations, failures : int
        Evaluations of the objective, and how many of them failed numerically.
    message : str
        How it ended. A run that was stopped because it headed for the optimum of an earlier one ends there, in this
        record.
    given_up : bool
        Whether it was stopped because another run had ended, or would end, as high.
    warm : object
        What the inference rule remembers of the run, to find the same approximation again, or that of the optimum it
        headed for.
    beyond : array (p,) or None
        A point beyond the place where the branch of solutions ends, if it ends next to the best point.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity import GP
    >>> from cavity.kernels import SE
    >>> from cavity.likelihoods import Gaussian
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> found = GP(1.0 * SE(1.0), Gaussian(0.1)).learn(X, y, n_restarts=1, rng=0)
    >>> [run.kind for run in found.runs]
    ['data', 'given']
    """

    kind: str
    start: Array
    theta: Array
    value: float
    converged: bool
    evaluations: int
    failures: int
    message: str
    given_up: bool = False
    warm: Any = field(default=None, repr=False, compare=False)
    beyond: Array | None = field(default=None, repr=False, compare=False)


class _Point(NamedTuple):
    """A point that was evaluated: coordinates u, the function to be minimized, and its gradient in u."""

    u: Array
    value: float
    gradient: Array


@dataclass
class _Descent:
    """The function that L-BFGS-B minimizes, minus the objective in u = theta / scale, with the state of the run."""

    objective: Objective
    scale: Array
    limit: StepLimit
    watch: Watch
    best: _Point | None = None
    last_failed: bool = False
    beyond: Array | None = None

    def __call__(self, u: Array) -> tuple[float, Array]:
        """Value and gradient in u, shape (p,); a parabola that leads back if u is too far or cannot be evaluated."""
        length = 0.0
        if self.best is not None:
            length = distance(self.best.u, u)
            limit, end = self.limit.towards(self.best.u, u)
            if length > limit:
                if end is not None and limit < SHORTEST_STEP:
                    raise self._branch_ends(self.best, end.place, u)
                self.last_failed = True
                return _parabola(self.best, u, ALLOWED_FRACTION * limit / length)
        value, gradient = self.objective(u * self.scale)
        self.last_failed = value == -np.inf
        if self.last_failed:
            return self._after_failure(u, length)
        self.limit.grow(length)
        point = _Point(u.copy(), -value, -gradient * self.scale)
        if self.best is None or point.value <= self.best.value:
            self.best = point
            self.watch(u * self.scale, value, gradient)
        return point.value, point.gradient

    def _after_failure(self, u: Array, length: float) -> tuple[float, Array]:
        """What the line search is shown at a point that could not be evaluated; raises if the run ends there."""
        best, objective = self.best, self.objective
        if best is None:
            raise np.linalg.LinAlgError(objective.last_error or "the objective is not finite at the start")
        if objective.failures > FAILURES:
            raise np.linalg.LinAlgError(f"too many evaluations fail: {objective.last_error}")
        if objective.reached is None:
            if not self.limit.shrink(length):
                raise self._branch_ends(best, u, u)
            return _parabola(best, u, FAILED_STEP_FRACTION)
        step = u - best.u
        end = self.limit.add_end(best.u + objective.reached * step, step)
        part = WAY_TO_END_FRACTION * objective.reached
        if not self.limit.stay_before_end(part * length):
            raise self._branch_ends(best, end.place, u)
        return _parabola(best, u, part)

    def _branch_ends(self, best: _Point, end: Array, u: Array) -> np.linalg.LinAlgError:
        """The error that ends the run at the end of its branch; notes a point beyond."""
        self.beyond = (end + JUST_BEYOND * (u - best.u) / distance(best.u, u)) * self.scale
        return np.linalg.LinAlgError(f"the branch of solutions ends here: {self.objective.last_error}")


def _parabola(best: _Point, u: Array, part: float) -> tuple[float, Array]:
    """Value and gradient at u of a parabola along the step, whose lowest point is that part of the way to u.

    It has the value and slope of the best point there, and is higher than that at u.
    """
    fall, part = abs(float(best.gradient @ (u - best.u))), min(part, LONGEST_RETURN)
    rise = fall * (0.5 / part - 1.0) + 1e-9 * (1.0 + abs(best.value))
    return best.value + rise, -best.gradient * (1.0 / part - 1.0)


def maximize(
    objective: Objective,
    start: Array,
    box: Array,
    scale: Array,
    kind: str,
    steps: int = STEPS,
    first: float = np.inf,
    known: Sequence[Optimum] = (),
    warm: Any = None,
) -> Run:
    """Run L-BFGS-B from one start.

    Parameters
    ----------
    start : array (p,)
        In theta; brought into the box.
    box : array (p, 2)
        Limits of theta.
    scale : array (p,)
        Size of a unit step of each coordinate.
    kind : str
        Where the start comes from, for the record.
    steps : int
        Most iterations.
    first : float
        Limit of the first steps.
    known : sequence of Optimum
        Where earlier runs ended: if this one heads there, or trails, it is stopped.
    warm : object
        What the inference rule knows at the start, if the run goes on from another one.
    """
    objective.reset(warm)
    if objective.iterates:
        first = min(first, FIRST_STEP)
    start = np.clip(start, box[:, 0], box[:, 1])
    watch = Watch(known, gives_up=objective.longest_step == np.inf)
    descent = _Descent(objective, scale, StepLimit(objective.longest_step, first), watch)
    converged, given_up, end = False, False, None
    try:
        converged, message = _minimize(descent, start / scale, box / scale[:, None], steps)
    except np.linalg.LinAlgError as error:
        message = str(error)
    except OutOfTime:
        message = f"stopped: {StopReason.OUT_OF_TIME}"
    except Ended as ended:
        message, given_up, end = str(ended), True, ended.at
    value, theta = objective.best if objective.best is not None else (-np.inf, start)
    if end is not None:
        value, theta = end.value, end.theta
    counts = objective.evaluations, objective.failures
    warm = objective.best_warm if end is not None or not given_up else None
    return Run(kind, start, theta, value, converged, *counts, message, given_up, warm, descent.beyond)


def _minimize(descent: _Descent, start: Array, box: Array, steps: int) -> tuple[bool, str]:
    """Whether L-BFGS-B converged, and how it ended."""
    from scipy.optimize import minimize

    found = minimize(
        descent,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=cast(Any, box),
        options={
            "maxiter": steps,
            "maxfun": 10 * steps,
            "maxcor": 20,
            "ftol": descent.objective.enough,
            "gtol": 1e-5,
        },
    )
    if (
        descent.last_failed
    ):  # the line search gave up among failing evaluations; to the optimizer it is the end
        reason = descent.objective.last_error or "steps lead farther than the inference rule can follow"
        return False, f"evaluations next to the best point fail: {reason}"
    return bool(found.success) or _is_flat(found, box), _ending(found.status, steps)


def _ending(status: int, steps: int) -> str:
    """How L-BFGS-B ended, in words; a status of neither kind is an abnormal end of a line search."""
    if status == 0:
        return "converged"
    if status == 1:
        return f"it was still improving after {steps} iterations, the most that are made"
    return ROUNDING_MESSAGE


def _is_flat(found: Any, box: Array) -> bool:
    """Whether a run that ended in an abnormal line search is at an optimum within rounding all the same."""
    outward = ((found.x <= box[:, 0]) & (found.jac > 0)) | ((found.x >= box[:, 1]) & (found.jac < 0))
    slope = np.max(np.abs(np.where(outward, 0.0, found.jac)), initial=0.0)
    return bool(slope <= ROUNDING_SLOPE * (1.0 + abs(found.fun)))


def follow(
    objective: Objective,
    start: Array,
    box: Array,
    scale: Array,
    kind: str,
    steps: int = STEPS,
    known: Sequence[Optimum] = (),
    warm: Any = None,
) -> list[Run]:
    """A run, and if its branch of solutions ends another one from beyond that end, and so on."""
    runs = [maximize(objective, start, box, scale, kind, steps, known=known, warm=warm)]
    for _ in range(BRANCHES):
        beyond = runs[-1].beyond
        if beyond is None:
            break
        runs.append(maximize(objective, beyond, box, scale, kind, steps, FIRST_STEP_BEYOND, known))
    return runs
