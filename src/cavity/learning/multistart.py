"""Learning hyperparameters: maximize an objective from several starts, keep the best, report them all.

Objectives: the log evidence (ML-II), leave-one-out log density, each plus the log prior of parameters that
have one (MAP). The optimizer is L-BFGS-B on unconstrained parameters inside a wide box read off the data; a
user's own bounds take the place of the box.

Starts. The first is read off the data (`cavity.learning.starts`), the second are the values the model came with, the
others are the most promising of many draws from the priors, by the objective after a few steps. Starts that a caller
knows to be good are run before these, so that they are not what a limit of time cuts off. Sums of
kernels have local optima in which two terms share one role; so, at the end, each term of the best solution is
drawn anew in turn, the others staying where they are. A start that fails numerically is recorded and skipped;
an evaluation that fails inside a run is a step too far, and the line search comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from cavity.learning.starts import Starts
from cavity.numerics.arrays import Array
from cavity.numerics.tiles import Workspace
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason

if TYPE_CHECKING:
    from cavity.gp import GP

PARTS = ("kernel", "mean", "likelihood")
"""Parts of a model, in the order of its values."""

OBJECTIVES = ("evidence", "loo")

STEPS = 500
"""Most iterations of a run."""

SCREENED_PER_START, SCREENED_PER_COSTLY_START = 8, 2
"""Draws from the priors that are tried for a few steps for each random start that is run to the end; fewer where an
evaluation is itself an iteration (every inference rule but the exact one)."""

SCREENING_STEPS = 12
"""Iterations of a trial run."""

ROUNDING_SLOPE = 1e-4
"""Slope, relative to the objective, below which a failing line search only means that rounding has been
reached."""

ROUNDING_MESSAGE = (
    "no further progress, since rounding errors dominate the objective (next to no noise, or length scales far "
    "beyond the data); a lower bound on the noise variance helps"
)
"""What an abnormal end of a line search means here."""

RELOCATIONS = 5
"""Draws that are tried for each term of a sum when it is drawn anew."""

FAILURES = 30
"""Evaluations of a run that may fail before it is given up: it is at the edge of what can be evaluated."""

WITHIN, LONGEST_PART = 0.95, 0.45
"""Where an evaluation fails or is refused, the line search is shown a parabola with its lowest point at a part of the
step, so that it comes back to there: this part of what is allowed, and never more than that of the step."""

FIRST, SHRINK, SHORTEST = 0.5, 0.15, 0.02
"""Where an inference rule limits the step (one branch of solutions, which may end): the part of its limit for the first
step, the part of a step that failed up to which others are tried after it, and the limit below which the branch is
taken to end here."""

BEFORE, NEARBY = 0.8, 0.5
"""Where it is known how far a branch goes, the part of the way to its end that a step may take, and the distance up to
which an end is taken for a plane that it cannot cross."""

BRANCHES, FIRST_BEYOND, JUST_BEYOND = 5, 0.25, 0.3
"""Times that a run is begun anew beyond the end of a branch, the longest of its first steps (it is near an edge), and
how far beyond: next to the end, branches are short."""


@dataclass(frozen=True)
class Run:
    """One run of the optimizer.

    Attributes
    ----------
    kind : str
        "data", "given", "random" or "relocated": where the start came from; or that of a start of one's own.
    theta, value
        Where it ended, and the objective there (-inf where it failed from the outset).
    start
        Where it began.
    converged : bool
    evaluations, failures : int
        Evaluations of the objective, and how many of them failed numerically.
    message : str
    memory : mapping
        What the inference rule remembers of the run, to find the same approximation again.
    beyond : array or None
        A point beyond the place where the branch of solutions ends, if it does next to the best one.
    """

    kind: str
    start: Array
    theta: Array
    value: float
    converged: bool
    evaluations: int
    failures: int
    message: str
    memory: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    beyond: Array | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Learned:
    """The outcome of learning: the best model and every run."""

    model: GP
    value: float
    runs: tuple[Run, ...]
    stopped: StopReason | None = None

    @property
    def converged(self) -> bool:
        """Whether the run that won met the optimizer's criterion."""
        return self.winner is not None and self.winner.converged

    @property
    def winner(self) -> Run | None:
        """The run whose end is the model."""
        return next((run for run in self.runs if run.value == self.value), None)


def deadline_in(seconds: float | None) -> float:
    """The deadline of an `Objective` so many seconds from now, on a clock that worker processes share."""
    return np.inf if seconds is None else time.monotonic() + seconds


class _OutOfTime(Exception):
    """Raised inside an objective to leave the optimizer."""


class _Reach:
    """How far from the best point a line search may go: all the way, or as far as an inference rule can follow.

    Places and steps are in coordinates theta / scale: a level has the units of y, and what is far depends on them.
    A step beyond is refused without an evaluation. The limit shrinks where an evaluation fails, and grows again with
    steps that use it. Where a failure says how far the way is open, steps may not cross that end of the branch either.
    """

    def __init__(self, longest: float, first: float = np.inf, scale: Array | float = 1.0) -> None:
        self.longest, self.now, self.scale = longest, min(first, longest), scale
        self.ends: list[tuple[Array, Array]] = []

    def end_at(self, end: Array, step: Array, normal: Array | None) -> None:
        """Remember an end of the branch that was met by a step: a plane, by its normal in theta or across the step."""
        normal = step if normal is None or normal.shape != step.shape else normal * self.scale
        self.ends.append((end, normal if normal @ step > 0 else -normal))

    def towards(self, here: Array, there: Array) -> tuple[float, Array | None]:
        """The longest step from here in the direction of there, and the end of the branch that limits it, if any."""
        limit, nearest, step = self.now, None, there - here
        length = float(np.max(np.abs(step)))
        for end, normal in self.ends:
            ahead = float(step @ normal)
            if ahead <= 0 or float(np.max(np.abs(end - here))) > NEARBY:
                continue
            open_way = BEFORE * length * max(float((end - here) @ normal), 0.0) / ahead
            if open_way < limit:
                limit, nearest = open_way, end
        return limit, nearest

    def failed(self, distance: float) -> None:
        """After a failure at this distance."""
        if self.longest < np.inf:
            self.now = min(self.now, SHRINK * distance)

    def went(self, distance: float) -> None:
        """After an evaluation at this distance."""
        if distance > 0.5 * self.now:
            self.now = min(2.0 * self.now, self.longest)


@dataclass
class Objective:
    """What is maximized, as a function of `theta`; counts evaluations and remembers the best point.

    `best` is that of the present run, with what the inference rule remembered there in `memory`; `best_ever` is
    that of all runs that this process knows of. `reached` and `normal` say, after a failure, how far from the best
    point and up to what surface the inference rule could follow its solution, where it knows
    (`InferenceFailedError`).
    """

    model: GP
    X: Array
    y: Array
    kind: str = "evidence"
    sample_weight: Array | None = None
    deadline: float = np.inf
    evaluations: int = 0
    failures: int = 0
    last_error: str = ""
    reached: float | None = None
    normal: Array | None = None
    best: tuple[float, Array] | None = None
    best_ever: tuple[float, Array] | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    _workspace: Workspace = field(default_factory=Workspace)

    def reset(self) -> None:
        """Forget what belongs to one run: counts, the best point, and the inference rule's memory."""
        self.best, self.evaluations, self.failures, self.last_error = None, 0, 0, ""
        self.memory = {}
        self._workspace.memory.clear()

    @property
    def longest_step(self) -> float:
        """How far (largest change of a parameter, in its unit steps) the inference rule can follow its solution."""
        limit = getattr(self.model.inference, "longest_step", None)
        return np.inf if limit is None else float(limit(self.model.likelihood))

    def _remembered(self) -> dict[str, Any]:
        """What the inference rule remembers of this run, now."""
        own = getattr(self.model.inference, "name", "")
        return {key: value for key, value in self._workspace.memory.items() if own and key.startswith(own)}

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient, to be maximized; (-inf, zeros) where the evaluation fails."""
        if self.best_ever is not None and time.monotonic() > self.deadline:
            raise _OutOfTime
        self.evaluations += 1
        self.reached = self.normal = None
        try:
            try:
                model = self.model.replace(theta)
            except ValueError as error:  # a value left the range of floating-point numbers
                raise OverflowError(str(error)) from None
            method = model.evidence if self.kind == "evidence" else model.leave_one_out_log_prob
            value, gradient = method(self.X, self.y, self.sample_weight, self._workspace)
            prior, d_prior = model.log_prior()
            value, gradient = value + prior, gradient + d_prior
        except (np.linalg.LinAlgError, FloatingPointError, OverflowError) as error:
            self.last_error = str(error)
            self.reached, self.normal = getattr(error, "reached", None), getattr(error, "normal", None)
            value = -np.inf
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self.failures += 1
            return -np.inf, np.zeros(len(theta))
        if self.best is None or value > self.best[0]:
            self.best = (value, np.array(theta, dtype=float))
            self.memory = self._remembered()
            if self.best_ever is None or value > self.best_ever[0]:
                self.best_ever = self.best
        return value, gradient

    def __getstate__(self) -> dict[str, Any]:
        """Without the n x n arrays: a copy in another process has its own."""
        return {**self.__dict__, "_workspace": Workspace()}


def maximize(
    objective: Objective,
    start: Array,
    box: Array,
    scale: Array,
    kind: str,
    steps: int = STEPS,
    first: float = np.inf,
) -> Run:
    """Run L-BFGS-B from one start, in coordinates theta / scale, inside the box; `first` limits the first steps."""
    from scipy.optimize import minimize

    objective.reset()
    start = np.clip(start, box[:, 0], box[:, 1])
    message, converged = "", False

    failed = [False]  # whether the last evaluation failed
    lowest: list[tuple[float, Array, Array]] = []  # value, place and gradient of the best evaluation
    reach = _Reach(objective.longest_step, min(first, FIRST * objective.longest_step), scale)
    beyond: Array | None = None

    def worse(u: Array, part: float) -> tuple[float, Array]:
        """A parabola from the best place whose lowest point is that part of the way to u, and higher at u."""
        f, place, slope = lowest[0]
        fall, part = abs(float(slope @ (u - place))), min(part, LONGEST_PART)
        rise = fall * (0.5 / part - 1.0) + 1e-9 * (1.0 + abs(f))
        return f + rise, -slope * (1.0 / part - 1.0)

    def ends_here(end: Array, u: Array) -> np.linalg.LinAlgError:
        nonlocal beyond
        step = u - lowest[0][1]
        beyond = (end + JUST_BEYOND * step / np.max(np.abs(step))) * scale
        return np.linalg.LinAlgError(f"the branch of solutions ends here: {objective.last_error}")

    def negative(u: Array) -> tuple[float, Array]:
        distance = 0.0
        if lowest:
            here = lowest[0][1]
            distance = float(np.max(np.abs(u - here)))
            limit, end = reach.towards(here, u)
            if distance > limit:
                if end is not None and limit < SHORTEST:
                    raise ends_here(end, u)
                failed[0] = True
                return worse(u, WITHIN * limit / distance)
        value, gradient = objective(u * scale)
        failed[0] = value == -np.inf
        if failed[0]:
            if not lowest:
                raise np.linalg.LinAlgError(
                    objective.last_error or "the objective is not finite at the start"
                )
            if objective.failures > FAILURES:
                raise np.linalg.LinAlgError(f"too many evaluations fail: {objective.last_error}")
            if objective.reached is not None:
                end = here + objective.reached * (u - here)
                reach.end_at(end, u - here, objective.normal)
                part = BEFORE * objective.reached
                reach.now = max(min(reach.now, part * distance), SHORTEST)
                if part * distance < SHORTEST:
                    raise ends_here(end, u)
            else:
                part = SHRINK
                reach.failed(distance)
                if reach.now < SHORTEST:
                    raise ends_here(u, u)
            return worse(u, part)
        reach.went(distance)
        if not lowest or -value <= lowest[0][0]:
            lowest[:] = [(-value, u.copy(), -gradient * scale)]
        return -value, -gradient * scale

    try:
        found = minimize(
            negative,
            start / scale,
            jac=True,
            method="L-BFGS-B",
            bounds=cast(Any, box / scale[:, None]),
            options={"maxiter": steps, "maxfun": 10 * steps, "maxcor": 20, "ftol": 1e-10, "gtol": 1e-5},
        )
        converged = bool(found.success) or _flat(found, box / scale[:, None])
        message = ROUNDING_MESSAGE if "ABNORMAL" in str(found.message) else str(found.message)
        if failed[0]:  # the line search gave up among failing evaluations; the optimizer takes it for the end
            reason = objective.last_error or "steps lead farther than the inference rule can follow"
            message, converged = f"evaluations next to the best point fail: {reason}", False
    except np.linalg.LinAlgError as error:
        message = str(error)
    except _OutOfTime:
        message = f"stopped: {StopReason.OUT_OF_TIME}"
    value, theta = objective.best if objective.best is not None else (-np.inf, start)
    counts = objective.evaluations, objective.failures
    return Run(kind, start, theta, value, converged, *counts, message, objective.memory, beyond)


def follow(
    objective: Objective, start: Array, box: Array, scale: Array, kind: str, steps: int = STEPS
) -> list[Run]:
    """A run, and where its branch of solutions ended another one from beyond that end, on a branch of its own."""
    runs = [maximize(objective, start, box, scale, kind, steps)]
    for _ in range(BRANCHES):
        beyond = runs[-1].beyond
        if beyond is None:
            break
        runs.append(maximize(objective, beyond, box, scale, kind, steps, FIRST_BEYOND))
    return runs


def _flat(found: Any, box: Array) -> bool:
    """Whether a run that ended in an abnormal line search is at an optimum within rounding all the same."""
    outward = ((found.x <= box[:, 0]) & (found.jac > 0)) | ((found.x >= box[:, 1]) & (found.jac < 0))
    return bool(
        np.max(np.abs(np.where(outward, 0.0, found.jac)), initial=0.0)
        <= ROUNDING_SLOPE * (1.0 + abs(found.fun))
    )


Task = tuple[str, Array]
"""Kind and start of a run."""


def _execute(
    goal: Objective,
    tasks: Iterable[Task],
    box: Array,
    scale: Array,
    n_jobs: int | None,
    steps: int = STEPS,
) -> Iterator[Run]:
    """Runs, one after the other or through joblib (which may be backed by processes, threads or a
    cluster)."""
    if n_jobs in (None, 1):
        for kind, start in tasks:
            yield from follow(goal, start, box, scale, kind, steps)
        return
    from joblib import Parallel, delayed

    work: Callable[..., Any] = delayed(follow)
    listed = [work(goal, start, box, scale, kind, steps) for kind, start in tasks]
    for runs in Parallel(n_jobs=n_jobs, return_as="generator")(listed):
        best = max(runs, key=lambda run: run.value)
        if np.isfinite(best.value) and (goal.best_ever is None or best.value > goal.best_ever[0]):
            goal.best_ever = (
                best.value,
                best.theta,
            )  # tasks that are sent out from now on know that there is something
        yield from runs


def learn(
    model: GP,
    X: Array,
    y: Array,
    *,
    objective: str = "evidence",
    n_restarts: int = 3,
    sample_weight: Array | None = None,
    given: Collection[str] = PARTS,
    data_driven: bool = True,
    also: Sequence[tuple[str, Array]] = (),
    random_state: np.random.Generator | int | None = None,
    n_jobs: int | None = None,
    max_time: float | None = None,
    show_progress: bool | None = None,
) -> Learned:
    """Maximize an objective over the free parameters of a model.

    Parameters
    ----------
    model : GP
        Bound to the columns of X.
    objective : {"evidence", "loo"}
    n_restarts : int
        Runs beside the first, data-driven one.
    given : collection of str
        Parts of the model, of "kernel", "mean" and "likelihood", whose own values are worth a run because a user chose
        them; the others start from the data. Empty for none.
    data_driven : bool
        Whether the first start is read off the data; otherwise it is the model's own values, and the data come in only
        where the objective cannot be evaluated at those.
    also : sequence of (kind, theta)
        Further starts, run before all others and in addition to `n_restarts`.
    max_time : float, optional
        Seconds after which the best so far is returned.

    Returns
    -------
    Learned
        Also after Ctrl-C or when time is up: the best of what was reached.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(map(repr, OBJECTIVES))}, got {objective!r}")
    if isinstance(n_restarts, bool) or not isinstance(n_restarts, int | np.integer) or n_restarts < 0:
        raise ValueError(f"n_restarts must be an integer >= 0, got {n_restarts!r}")
    if max_time is not None and not max_time >= 0:
        raise ValueError(f"max_time must be a number of seconds >= 0, got {max_time!r}")
    rng = np.random.default_rng(random_state)
    deadline = deadline_in(max_time)
    goal = Objective(model, X, y, objective, sample_weight, deadline)
    if model.theta.size == 0:
        value, _ = goal(model.theta)
        return Learned(model, value, ())
    starts = Starts.of(model, X, y, sample_weight)
    from_data = starts.first
    if not data_driven:
        starts = replace(starts, first=model.theta)
    relocate = n_restarts > 0 and len(starts.blocks) > 1
    total = 1 + n_restarts + len(also) + (len(starts.blocks) if relocate else 0)
    runs: list[Run] = []
    stopped: StopReason | None = None
    try:
        with Progress("learning hyperparameters", total, show_progress) as progress:
            search = _Search(goal, starts, rng, n_jobs, progress)
            for run in search.starts(n_restarts, given, also):
                runs.append(run)
                progress.advance(_best_so_far(runs))
            if not (data_driven or any(np.isfinite(run.value) for run in runs)):
                runs += search._execute([("data", from_data)])
            if relocate:
                for run in search.relocations(runs):
                    runs.append(run)
                    progress.advance(_best_so_far(runs))
    except KeyboardInterrupt:
        stopped = StopReason.INTERRUPTED
        if goal.best_ever is not None:
            value, theta = goal.best_ever
            runs.append(
                Run(str(stopped), theta, theta, value, False, goal.evaluations, goal.failures, str(stopped))
            )
        if not any(np.isfinite(run.value) for run in runs):
            raise
    if time.monotonic() > deadline:
        stopped = stopped or StopReason.OUT_OF_TIME
    usable = [run for run in runs if np.isfinite(run.value)]
    if not usable:
        reasons = "; ".join(dict.fromkeys(run.message for run in runs))
        raise np.linalg.LinAlgError(f"the {objective} could not be evaluated at any start: {reasons}")
    best = max(usable, key=lambda run: run.value)
    return Learned(model.replace(best.theta), best.value, tuple(runs), stopped)


def _best_so_far(runs: Sequence[Run]) -> str:
    return f"(best so far {max(run.value for run in runs):.6g})"


def _belongs(model: GP, parts: Collection[str]) -> NDArray[np.bool_]:
    """Which entries of `theta` are parameters of these parts, shape (p,); tied ones belong to the first."""
    sizes = [part.flat.size for part in (model.kernel, model.mean, model.likelihood)]
    marks = np.repeat([name in parts for name in PARTS], sizes)
    return np.asarray(marks[model.layout.lead])


@dataclass
class _Search:
    """Where the runs of one fit start."""

    goal: Objective
    from_: Starts
    rng: np.random.Generator
    n_jobs: int | None
    progress: Progress

    def _execute(self, tasks: Iterable[Task], steps: int = STEPS) -> Iterator[Run]:
        return _execute(self.goal, tasks, self.from_.box, self.from_.scale, self.n_jobs, steps)

    def starts(self, n_restarts: int, given: Collection[str], also: Sequence[Task] = ()) -> Iterator[Run]:
        """Those of `also`, which are known to be good, the data-driven start, the values given, promising draws."""
        first = self.from_.first
        theta = np.where(_belongs(self.goal.model, given), self.goal.model.theta, first)
        usual: list[Task] = [("data", first)]
        if n_restarts > 0 and np.max(np.abs(theta - first) / self.from_.scale) > 0.1:
            usual.append(("given", theta))
        left = n_restarts + 1 - len(usual)
        tasks = [*also, *usual]
        if left == 0 or self.n_jobs in (None, 1):
            yield from self._execute(tasks)
            tasks = []
        if left:
            exact = self.goal.model.inference.name == "exact"
            tried = SCREENED_PER_START if exact else SCREENED_PER_COSTLY_START
            draws = [self.from_.draw(self.rng) for _ in range(tried * left)]
            tasks += [("random", start) for start in self._screen(draws, left)]
            yield from self._execute(tasks)

    def relocations(self, runs: Sequence[Run]) -> Iterator[Run]:
        """From the best solution, each term of the kernel's sum drawn anew; improvements are built upon."""
        best = max(runs, key=lambda run: run.value)
        if not np.isfinite(best.value):
            return
        for block in self.from_.blocks:
            draws = []
            for _ in range(RELOCATIONS):
                theta = best.theta.copy()
                theta[block] = self.from_.draw(self.rng, widen=2.0)[block]
                draws.append(theta)
            for run in self._execute([("relocated", start) for start in self._screen(draws, 1)]):
                yield run
                if run.value > best.value:
                    best = run

    def _screen(self, draws: Sequence[Array], keep: int) -> list[Array]:
        """The most promising of some draws: best objective after a few steps from each."""
        trials = []
        for trial in self._execute([("trial", draw) for draw in draws], SCREENING_STEPS):
            trials.append(trial)
            self.progress.refresh(f"(trial {len(trials)} of {len(draws)})")
        ranked = sorted((t for t in trials if np.isfinite(t.value)), key=lambda t: -t.value)
        chosen: list[Array] = []
        for trial in ranked:
            # Trials on their way to the same optimum look alike; prefer different ones.
            if all(np.max(np.abs(trial.theta - other) / self.from_.scale) > 0.5 for other in chosen):
                chosen.append(trial.theta)
            if len(chosen) == keep:
                break
        return chosen
