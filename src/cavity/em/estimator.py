"""What the estimators of this package share: the options of an EM fit, and checks of data and random states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_random_state, validate_data

from cavity.em.components import Components
from cavity.em.expectation_maximization import DegeneracyWarning, Restarts, run_restarts
from cavity.em.initialization import start_kinds
from cavity.em.parallel import resolve_threads
from cavity.numerics.arrays import Array
from cavity.runtime.checks import generator


@dataclass(eq=False, repr=False, kw_only=True)
class EMEstimator(BaseEstimator):  # type: ignore[misc]
    """Options of an EM fit, described with `Mixture`; the starts, and what a fit keeps of its runs."""

    method: ClassVar[str] = "EM"
    criterion: str = "bic"
    init: str = "auto"
    n_init: int = 1
    max_iter: int = 500
    tol: float = 1e-6
    accelerate: bool = False
    ordering: str | None = "means"
    allow_nan: bool = False
    n_jobs: int | None = None
    random_state: Any = None
    progress: bool = False

    def _check_rows(self, X: Any, reset: bool) -> Array:
        """X as numbers (n, D); missing entries only if they are announced."""
        x: Array = validate_data(
            self,
            X,
            reset=reset,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        check_missing(x, self.allow_nan)
        if reset:
            check_observed(x)
        return x

    def _starts(self) -> list[tuple[str, int]]:
        """Kind and seed of every start."""
        kinds = start_kinds(self.init, self.n_init)
        seeds = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=len(kinds))
        return [(kind, int(seed)) for kind, seed in zip(kinds, seeds)]

    def _run(
        self, problem: Any, starts: list[tuple[str, int]], make: Callable[[str, int], Any]
    ) -> Restarts[Any]:
        """EM from `make(kind, seed)` of every start: threads share the rows of one, or take one each."""
        threads = resolve_threads(self.n_jobs)
        problem.threads = threads if len(starts) == 1 else 1
        restarts = run_restarts(
            problem,
            [(kind, partial(make, kind, seed)) for kind, seed in starts],
            n_jobs=threads,
            max_iter=self.max_iter,
            tol=self.tol,
            accelerate=self.accelerate,
            progress=self.progress,
        )
        problem.threads = threads
        return restarts

    def _keep(self, problem: Any, restarts: Restarts[Any], degenerate: list[int], rest: str) -> None:
        """Say how the fit went: attributes, and warnings if it did not converge or parts `rest` on no data."""
        run = restarts.best
        self.family_: Components = problem.family
        self.converged_, self.n_iter_, self.status_ = run.converged, run.n_iter, run.status
        self.history_ = np.array(run.trace)
        self.log_likelihood_ = run.objective - problem.log_prior(run.theta)
        self.runs_ = [replace(r, statistics=None) for r in restarts.runs]
        self.failed_starts_ = restarts.failures
        self.degenerate_ = degenerate
        if not run.converged and self.tol >= 0:
            warnings.warn(
                f"{self.method} {run.status}; raise max_iter, set accelerate=True or relax tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        if degenerate:
            warnings.warn(rest, DegeneracyWarning, stacklevel=4)

    def _generator(self, random_state: Any) -> np.random.Generator:
        """NumPy generator from an int, Generator or RandomState; None stands for the estimator's own."""
        random_state = self.random_state if random_state is None else random_state
        return generator(random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags


def check_missing(x: Array, allow_nan: bool) -> None:
    """Refuse NaN unless missing entries are announced."""
    if allow_nan:
        return
    missing = np.isnan(x)
    if missing.any():
        i, j = np.argwhere(missing)[0]
        raise ValueError(
            f"X contains NaN, first at row {i}, feature {j}: set allow_nan=True to integrate missing entries "
            "out, or remove them"
        )


def check_observed(x: Array) -> None:
    """Refuse training data with a feature that is missing in every row."""
    empty = np.flatnonzero(np.isnan(x).all(axis=0))
    if len(empty):
        raise ValueError(f"feature {int(empty[0])} of X is missing (NaN) in every row: remove it")
