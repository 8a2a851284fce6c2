"""What learning maximizes: log evidence or leave-one-out log density, plus the log priors of parameters."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.numerics.tiles import Workspace

if TYPE_CHECKING:
    from cavity.gp import GP

OBJECTIVES = ("evidence", "loo")
"""Names of objectives: log evidence, leave-one-out log density."""


class OutOfTime(Exception):
    """Raised inside an objective to leave the optimizer."""


def deadline_in(seconds: float | None) -> float:
    """The deadline of an `Objective` so many seconds from now, on a clock that worker processes share."""
    return np.inf if seconds is None else time.monotonic() + seconds


@dataclass
class Objective:
    """A function of `theta` that counts its evaluations and remembers the best point.

    `best` (value, theta) is that of the present run, and `memory` what the inference rule remembered there.
    `best_ever` is that of all runs that this process knows of. After a failure, `reached` and `normal` say how far
    from the best point, and up to what surface, the inference rule could follow its solution, if it knows
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

    @property
    def time_is_up(self) -> bool:
        """Whether the deadline is past."""
        return time.monotonic() > self.deadline

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Value and gradient (p,), to be maximized; (-inf, zeros) if the evaluation fails."""
        if self.best_ever is not None and self.time_is_up:
            raise OutOfTime
        self.evaluations += 1
        self.reached = self.normal = None
        try:
            value, gradient = self._evaluate(theta)
        except (np.linalg.LinAlgError, FloatingPointError, OverflowError) as error:
            self.last_error = str(error)
            self.reached, self.normal = getattr(error, "reached", None), getattr(error, "normal", None)
            value, gradient = -np.inf, np.zeros(len(theta))
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            self.failures += 1
            return -np.inf, np.zeros(len(theta))
        self._note(value, theta)
        return value, gradient

    def _evaluate(self, theta: Array) -> tuple[float, Array]:
        """The model's value and gradient with the prior's, starting from what the rule remembers of this run."""
        try:
            model = self.model.replace(theta)
        except ValueError as error:  # a value left the range of floating-point numbers
            raise OverflowError(str(error)) from None
        method = model.evidence if self.kind == "evidence" else model.leave_one_out_log_prob
        value, gradient = method(self.X, self.y, self.sample_weight, self._workspace)
        log_prior, d_log_prior = model.log_prior()
        return value + log_prior, gradient + d_log_prior

    def _note(self, value: float, theta: Array) -> None:
        """Remember a point if it is the best."""
        if self.best is not None and value <= self.best[0]:
            return
        self.best = (value, np.array(theta, dtype=float))
        own = getattr(self.model.inference, "name", "")
        self.memory = {k: v for k, v in self._workspace.memory.items() if own and k.startswith(own)}
        if self.best_ever is None or value > self.best_ever[0]:
            self.best_ever = self.best

    def __getstate__(self) -> dict[str, Any]:
        """Without the n x n arrays: a copy in another process has its own."""
        return {**self.__dict__, "_workspace": Workspace()}
