"""The EM driver: one loop for mixtures, hidden Markov models and anything else with an E- and an M-step.

Notation (Bilmes, TR-97-021): theta are the parameters, Q(theta, theta_old) is the expected complete-data
log-likelihood, and the objective is the observed-data log-likelihood, plus the log prior for MAP estimates.
EM never lowers the objective, nor does generalized EM, whose M-step only has to *raise* Q. The driver holds
the model to it: a fall beyond rounding stops the run with the name of the step that caused it.

SQUAREM (Varadhan and Roland, Scand. J. Stat. 35, 2008) extrapolates two EM steps in unconstrained
coordinates. It is used here in its monotone form: an extrapolated point that is not at least as good as the
EM point is shortened, and finally replaced by it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from cavity.em.checks import is_number, is_whole

Params = TypeVar("Params")
Vector = NDArray[np.float64]

# Summation errors of n terms grow about like sqrt(n) eps; 1e-10 of the magnitude leaves room for the
# conditioning of a covariance at 1e-6 of its largest eigenvalue.
ROUNDING = 1e-10
MAX_SHORTENINGS = 5  # halvings of a SQUAREM step before the plain EM point is taken


class MonotonicityError(ArithmeticError):
    """An EM step lowered its objective by more than rounding: its E- and M-step do not fit together."""


class DegeneracyError(ValueError):
    """A component collapsed (singular covariance, no data) and no prior holds it."""


class DegeneracyWarning(UserWarning):
    """A fit rests on its guard or prior rather than on data in some component."""


class EMProblem(Protocol[Params]):
    """What the driver needs to know about a model.

    `e_step(theta)` returns the objective at theta (log-likelihood plus log prior) and the expected
    statistics; `m_step(statistics, theta)` returns the next theta. `pack` and `unpack` map theta to a vector
    without constraints and back (`like` fixes reference entries and structural zeros), and are needed for
    SQUAREM only. `n_data` is the (weighted) number of observations.
    """

    n_data: float

    def e_step(self, theta: Params) -> tuple[float, Any]:
        """Objective and expected statistics."""
        ...

    def m_step(self, statistics: Any, theta: Params) -> Params:
        """Next parameters."""
        ...

    def pack(self, theta: Params, like: Params) -> Vector:
        """Unconstrained vector."""
        ...

    def unpack(self, vector: Vector, like: Params) -> Params:
        """Inverse of `pack`."""
        ...


@dataclass(frozen=True)
class EMResult(Generic[Params]):
    """Outcome of one run.

    Attributes
    ----------
    theta : the best parameters (the last ones, as the objective cannot fall).
    objective : float, log-likelihood plus log prior at `theta`.
    trace : list of float, the objective at the start and after every step.
    n_iter : int, EM steps taken (an accelerated cycle counts its two).
    converged : bool.
    status : str, in words: why the run ended.
    start : str, kind of starting point ("k-means++", "random", "given").
    statistics : the expected statistics at `theta`, from the last E-step.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import GaussianMixture
    >>> X = np.random.default_rng(0).normal([[-4.0]] * 50 + [[4.0]] * 50)
    >>> runs = GaussianMixture(2, n_init=2, random_state=0).fit(X).runs_
    >>> [run.start for run in runs], all(run.converged for run in runs)
    (['k-means++', 'random'], True)
    """

    theta: Params
    objective: float
    trace: list[float]
    n_iter: int
    converged: bool
    status: str
    start: str = "given"
    statistics: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Restarts(Generic[Params]):
    """All runs from several starting points; failed starts are kept as messages."""

    best: EMResult[Params]
    runs: list[EMResult[Params]]
    failures: list[str] = field(default_factory=list)


def run_em(
    problem: EMProblem[Params],
    theta: Params,
    *,
    max_iter: int = 500,
    tol: float = 1e-6,
    accelerate: bool = False,
    progress: bool = False,
    start: str = "given",
) -> EMResult[Params]:
    """Run EM from `theta` until the objective gains less than `tol` per datum in a step.

    Parameters
    ----------
    problem : EMProblem
    theta : starting parameters
    max_iter : int
        Largest number of EM steps.
    tol : float
        Gain per (weighted) datum below which the run has converged. 0 runs until rounding stops the gain; a
        negative value always runs `max_iter` steps.
    accelerate : bool
        SQUAREM extrapolation.
    progress : bool
        Show a progress bar (needs rich).
    start : str
        Kind of starting point, for the record.

    Examples
    --------
    >>> from cavity.em import run_em
    >>> import numpy as np
    >>> class Share:
    ...     n_data = 4
    ...     def e_step(self, theta):
    ...         r = theta * np.array([0.9, 0.8, 0.1, 0.2])
    ...         other = (1 - theta) * np.array([0.2, 0.1, 0.7, 0.9])
    ...         return float(np.log(r + other).sum()), r / (r + other)
    ...     def m_step(self, statistics, theta):
    ...         return float(statistics.mean())
    >>> run_em(Share(), 0.3).converged
    True
    """
    if not (is_whole(max_iter) and max_iter >= 0):
        raise ValueError(f"max_iter={max_iter!r} must be a non-negative integer")
    if not is_number(tol):
        raise ValueError(
            f"tol={tol!r} must be a number: the gain in log-likelihood per datum at which to stop"
        )
    objective, statistics = problem.e_step(theta)
    _require_finite(objective, "the starting point")
    trace = [objective]
    steps = 0
    converged = False
    em_point: Params | None = None  # where plain EM would be, while theta is an extrapolated point
    with _progress_bar(progress, max_iter) as advance:
        while steps < max_iter and not converged:
            before = objective
            if accelerate and steps + 2 <= max_iter:
                try:
                    cycle = _squarem_cycle(problem, theta, objective, statistics, steps)
                except MonotonicityError:
                    if em_point is None:
                        raise
                    # The extrapolated point lied about its objective (rounding in extreme parameters).
                    theta, em_point = em_point, None
                    objective, statistics = problem.e_step(theta)
                    trace[-1] = objective
                    continue
                theta, objective, statistics, middle, em_point = cycle
                trace.append(middle)
                taken = 2
            else:
                theta, objective, statistics = _em_step(problem, theta, objective, statistics, steps + 1)
                taken = 1
            steps += taken
            trace.append(objective)
            converged = tol >= 0 and (objective - before) / taken <= tol * problem.n_data
            advance(taken, objective)
    gain = (trace[-1] - trace[-2]) / problem.n_data if len(trace) > 1 else math.nan
    if converged:
        status = f"converged after {steps} steps: the last gain was {gain:.2g} per datum (tol {tol:g})"
    else:
        status = f"stopped at max_iter={max_iter} with a gain of {gain:.2g} per datum (tol {tol:g})"
    return EMResult(theta, objective, trace, steps, converged, status, start, statistics)


def _em_step(
    problem: EMProblem[Params],
    theta: Params,
    objective: float,
    statistics: Any,
    number: int,
) -> tuple[Params, float, Any]:
    """One M-step followed by the E-step that evaluates it, with the monotonicity check."""
    theta = problem.m_step(statistics, theta)
    new, statistics = problem.e_step(theta)
    _require_finite(new, f"EM step {number}")
    allowed = ROUNDING * (abs(objective) + problem.n_data)
    if new < objective - allowed:
        raise MonotonicityError(
            f"EM step {number} lowered the objective from {objective:.12g} to {new:.12g} (rounding allows "
            f"{allowed:.1e}): the M-step does not raise the expected log-likelihood of its E-step"
        )
    return theta, new, statistics


def _squarem_cycle(
    problem: EMProblem[Params], theta: Params, objective: float, statistics: Any, steps: int
) -> tuple[Params, float, Any, float, Params | None]:
    """Two EM steps and an extrapolation.

    Returns theta, its objective and statistics, the middle objective, and the EM point if theta is not it.
    """
    theta1, objective1, statistics1 = _em_step(problem, theta, objective, statistics, steps + 1)
    theta2 = problem.m_step(statistics1, theta1)
    p0, p1, p2 = (problem.pack(t, theta2) for t in (theta, theta1, theta2))
    r = p1 - p0
    v = (p2 - p1) - r
    length = float(np.sqrt(v @ v))
    alpha = -float(np.sqrt(r @ r)) / length if length > 0 else -1.0
    for _ in range(MAX_SHORTENINGS):
        if alpha >= -1.0:  # alpha = -1 is the plain EM point
            break
        candidate = _try_point(problem, p0 - 2 * alpha * r + alpha**2 * v, theta2)
        if candidate is not None and candidate[1] >= objective1:
            return (*candidate, objective1, theta2)
        alpha = (alpha - 1.0) / 2.0
    theta2, objective2, statistics2 = _em_step(problem, theta1, objective1, statistics1, steps + 2)
    return theta2, objective2, statistics2, objective1, None


def _try_point(problem: EMProblem[Params], vector: Vector, like: Params) -> tuple[Params, float, Any] | None:
    """E-step at an extrapolated point, or None where it leaves the range of representable parameters."""
    if not np.all(np.isfinite(vector)):
        return None
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            theta = problem.unpack(vector, like)
            if hasattr(problem, "project"):
                theta = problem.project(theta)
            objective, statistics = problem.e_step(theta)
    except (ValueError, np.linalg.LinAlgError):
        return None
    return (theta, objective, statistics) if math.isfinite(objective) else None


def _require_finite(objective: float, where: str) -> None:
    """Stop with a clear message when the objective is not a number to compare."""
    if not math.isfinite(objective):
        raise DegeneracyError(
            f"the log-likelihood is {objective} at {where}: some observation has zero probability under "
            "every component, or a component has collapsed; use a prior (reg_covar > 0), fewer components or "
            "other starts"
        )


def run_restarts(
    problem: EMProblem[Params],
    starts: Sequence[tuple[str, Callable[[], Params]]],
    *,
    n_jobs: int | None = None,
    **controls: Any,
) -> Restarts[Params]:
    """Run EM from every start through joblib and keep the best; every run is reported.

    Parameters
    ----------
    problem : EMProblem
    starts : sequence of (kind, callable that makes starting parameters)
    n_jobs : int or None
        joblib workers (threads: the heavy work releases the interpreter lock).
    controls : keyword arguments of `run_em`

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import run_restarts
    >>> class Share:
    ...     n_data = 4
    ...     def e_step(self, theta):
    ...         r = theta * np.array([0.9, 0.8, 0.1, 0.2])
    ...         other = (1 - theta) * np.array([0.2, 0.1, 0.7, 0.9])
    ...         return float(np.log(r + other).sum()), r / (r + other)
    ...     def m_step(self, statistics, theta):
    ...         return float(statistics.mean())
    >>> found = run_restarts(Share(), [("low", lambda: 0.1), ("high", lambda: 0.9)])
    >>> round(found.best.theta, 2)
    0.51
    """
    if not starts:
        raise ValueError("n_init must be at least 1: no starting point was given")

    def attempt(kind: str, make: Callable[[], Params]) -> EMResult[Params] | str:
        try:
            return run_em(problem, make(), start=kind, **controls)
        except (DegeneracyError, np.linalg.LinAlgError) as error:
            return f"start {kind!r}: {error}"

    if len(starts) == 1 or n_jobs in (None, 1):
        outcomes = [attempt(kind, make) for kind, make in starts]
    else:
        from joblib import Parallel, delayed

        outcomes = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(attempt)(kind, make) for kind, make in starts
        )
    runs = [o for o in outcomes if not isinstance(o, str)]
    failures = [o for o in outcomes if isinstance(o, str)]
    if not runs:
        raise DegeneracyError("no start succeeded; " + failures[0])
    return Restarts(max(runs, key=lambda r: r.objective), runs, failures)


def gradient_m_step(
    q: Callable[[Vector], float],
    gradient: Callable[[Vector], Vector],
    x: Vector,
    *,
    steps: int = 1,
    initial_step: float = 1.0,
) -> Vector:
    """Generalized M-step: ascend Q from `x` by gradient steps that are accepted only if they raise it.

    Each step starts at twice the last accepted length and is halved until Armijo's condition holds, so
    Q(new) >= Q(x) always: all that generalized EM needs.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import gradient_m_step
    >>> x = np.array([3.0])
    >>> for _ in range(20):
    ...     x = gradient_m_step(lambda x: -float(x @ x), lambda x: -2 * x, x)
    >>> bool(np.abs(x[0]) < 1e-3)
    True
    """
    value = q(x)
    length = initial_step
    for _ in range(steps):
        g = gradient(x)
        slope = float(g @ g)
        if not slope > 0.0:
            break
        while True:
            candidate = x + length * g
            new = q(candidate)
            if math.isfinite(new) and new >= value + 1e-4 * length * slope:
                x, value = candidate, new
                length *= 2.0
                break
            length *= 0.5
            if length * math.sqrt(slope) < 1e-15 * (1.0 + float(np.max(np.abs(x)))):
                return x  # no representable step raises Q: x is stationary
    return x


@contextmanager
def _progress_bar(show: bool, total: int) -> Iterator[Callable[[int, float], None]]:
    """A context giving `advance(steps, objective)`: a rich progress bar or nothing."""
    if not show:
        yield lambda steps, objective: None
        return
    from rich.progress import Progress  # imported here, since it is rarely wanted

    with Progress(transient=True) as bar:
        task = bar.add_task("EM", total=total)
        yield lambda steps, objective: bar.update(
            task, advance=steps, description=f"EM  log-likelihood {objective:.6g}"
        )
