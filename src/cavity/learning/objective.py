"""What learning maximizes: log evidence, leave-one-out density or generalized cross-validation, plus log priors."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.inference.base import InferenceFailedError
from cavity.numerics.arrays import Array
from cavity.runtime.progress import beat

if TYPE_CHECKING:
    from cavity.gp import GP
    from cavity.inference.base import TrainingData

OBJECTIVES = ("evidence", "loo", "gcv")
"""Names of objectives: log evidence, leave-one-out log density, generalized cross-validation."""


class OutOfTime(Exception):
    """Raised inside an objective to leave the optimizer."""


def deadline_in(seconds: float | None) -> float:
    """The deadline of an `Objective` so many seconds from now, on a clock that worker processes share."""
    return np.inf if seconds is None else time.monotonic() + seconds


@dataclass
class Objective:
    """A function of `theta` that counts its evaluations and remembers the best point.

    `first` is the value at which the present run began, `best` (value, theta) is its best, and `best_warm` what the
    inference rule knew there.
    `best_ever` is that of all runs that this process knows of. After a failure, `reached` says how far from the
    best point the inference rule could follow its solution, if it knows (`InferenceFailedError`). A run ends if a step
    improves the objective by less than the part `enough` of it.
    """

    model: GP
    X: Array
    y: Array
    kind: str = "evidence"
    sample_weight: Array | None = None
    deadline: float = np.inf
    enough: float = 1e-10
    evaluations: int = 0
    failures: int = 0
    last_error: str = ""
    reached: float | None = None
    first: float = np.nan
    best: tuple[float, Array] | None = None
    best_ever: tuple[float, Array] | None = None
    best_warm: Any = None
    _warm: Any = None
    _data: TrainingData | None = field(default=None, repr=False)

    def reset(self, warm: Any = None) -> None:
        """Forget what belongs to one run: counts, the best point, and what the inference rule knows but `warm`."""
        self.best, self.evaluations, self.failures, self.last_error = None, 0, 0, ""
        self.best_warm = self._warm = warm

    def on_rows(self, rows: NDArray[np.intp]) -> Objective:
        """The same objective of some rows only, as if time could be up before its first evaluation."""
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        model = self.model.with_likelihood(self.model.likelihood.rows(rows))
        unknown = (-np.inf, model.theta)
        return Objective(
            model,
            self.X[rows],
            self.y[rows],
            self.kind,
            weight,
            self.deadline,
            self.enough,
            best_ever=unknown,
        )

    @property
    def iterates(self) -> bool:
        """Whether an evaluation is itself an iteration: under every inference rule but the exact one."""
        return self.model.inference.name != "exact"

    @property
    def longest_step(self) -> float:
        """How far (largest change of a parameter, in its unit steps) the inference rule can follow its solution."""
        return float(self.model.inference.step_limit(self.model.likelihood))

    @property
    def time_is_up(self) -> bool:
        """Whether the deadline is past."""
        return time.monotonic() > self.deadline

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient (p,), to be maximized; (-inf, zeros) if the evaluation fails."""
        if self.best_ever is not None and self.time_is_up:
            raise OutOfTime
        self.evaluations += 1
        self.reached = None
        try:
            value, gradient = self._evaluate(theta)
            beat()
        except (ValueError, FloatingPointError, OverflowError) as error:  # LinAlgError is a ValueError
            if self.best_ever is None and not isinstance(error, np.linalg.LinAlgError | ArithmeticError):
                raise  # nothing can be evaluated: the user should see why
            self.last_error = str(error)
            self.reached = error.reached if isinstance(error, InferenceFailedError) else None
            value, gradient = -np.inf, np.zeros(len(theta))
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self.failures += 1
            return -np.inf, np.zeros(len(theta))
        if self.best is None:
            self.first = value
        self._note(value, theta)
        return value, gradient

    def value(self, theta: Array) -> float:
        """At one point by itself, as a run of its own; -inf if the evaluation fails or time is up."""
        self.reset()
        try:
            return self(theta)[0]
        except OutOfTime:
            return -np.inf

    def _evaluate(self, theta: Array) -> tuple[float, Array]:
        """The model's value and gradient with the prior's, starting from what the rule remembers of this run."""
        try:
            model = self.model.replace(theta)
        except ValueError as error:  # a value left the range of floating-point numbers
            raise OverflowError(str(error)) from None
        if self._data is None:
            self._data = self.model.training(self.X, self.y, self.sample_weight)[1]
        if self.kind == "evidence":
            value, gradient, self._warm = model.evidence_of(self._data, self._warm)
        else:
            value, gradient = model.leave_one_out_log_prob_of(self._data, averaged=self.kind == "gcv")
        log_prior, d_log_prior = model.log_prior()
        return value + log_prior, gradient + d_log_prior

    def _note(self, value: float, theta: Array) -> None:
        """Remember a point if it is the best; what the rule knows of another one is forgotten.

        An optimizer returns to its best point: a trial that strayed must not take the following ones along.
        """
        if self.best is not None and value <= self.best[0]:
            self._warm = self.best_warm
            return
        self.best = (value, np.array(theta, dtype=float))
        self.best_warm = self._warm
        if self.best_ever is None or value > self.best_ever[0]:
            self.best_ever = self.best
