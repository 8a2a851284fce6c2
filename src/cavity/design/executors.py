"""Evaluations of a function, one after the other or several at a time by anything that has `submit`.

Results are told in the order in which they come, and each makes room for a new suggestion given what is still running.
Ctrl-C leaves what was told. A process of ours that dies is a failure of the trials that were running, and new ones are
started; other errors than failures are raised, and what still runs is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import TYPE_CHECKING, Any

from cavity.runtime.errors import InputError

if TYPE_CHECKING:
    from cavity.design.history import Trial
    from cavity.design.optimizer import Optimizer

FAILURES = (ArithmeticError, ValueError)
"""What a function raises if an evaluation fails; anything else is an error of the program."""


def evaluate(
    optimizer: Optimizer,
    function: Callable[[Mapping[str, Any]], Any],
    calls: int,
    stop: Callable[[], str],
    *,
    executor: Any = None,
    n_jobs: int = 1,
    first: Mapping[str, Any] | None = None,
) -> str:
    """Evaluate the function so many times, and say why that ended early, if it did."""
    if executor is not None or n_jobs > 1:
        pool = _Pool(executor, max(n_jobs, 1))
        return _side_by_side(optimizer, function, calls, stop, pool, first)
    for k in range(calls):
        trial = _next(optimizer, first if k == 0 else None)
        try:
            y = function(trial.x)
        except FAILURES as error:
            if isinstance(error, InputError):
                raise
            y = None
        except KeyboardInterrupt:
            return "interrupted"
        optimizer.tell(trial, y)
        why = stop()
        if why:
            return why
    return ""


def _next(optimizer: Optimizer, given: Mapping[str, Any] | None) -> Trial:
    if given is None:
        trial: Trial = optimizer.ask()
        return trial
    optimizer.space.to_unit(given)
    optimizer.history = optimizer.history.with_pending(dict(given), "given")
    return optimizer.history.trials[-1]


class _Pool:
    """What runs evaluations: an executor of the user's, a Dask client, or processes of our own."""

    def __init__(self, executor: Any, n_jobs: int) -> None:
        self.executor, self.n_jobs = executor, n_jobs

    def submit(self, function: Callable[..., Any], x: Mapping[str, Any]) -> Any:
        """Begin an evaluation."""
        if self.executor is None:  # the same processes as long as they live, new ones if one died
            from joblib.externals.loky import get_reusable_executor

            return get_reusable_executor(max_workers=self.n_jobs).submit(function, x)
        if hasattr(self.executor, "scatter"):
            # a Dask client takes functions for pure: a setting that is measured again would not be evaluated
            return self.executor.submit(function, x, pure=False)
        return self.executor.submit(function, x)

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What the result of a failed evaluation raises: also the death of a process of ours."""
        return (*FAILURES, BrokenExecutor) if self.executor is None else FAILURES


def _side_by_side(
    optimizer: Optimizer,
    function: Callable[[Mapping[str, Any]], Any],
    calls: int,
    stop: Callable[[], str],
    pool: _Pool,
    first: Mapping[str, Any] | None,
) -> str:
    running: dict[Any, Trial] = {}
    sent, why = 0, ""
    try:
        while running or (sent < calls and not why):
            while sent < calls and len(running) < pool.n_jobs and not why:
                trial = _next(optimizer, first if sent == 0 else None)
                running[pool.submit(function, trial.x)] = trial
                sent += 1
            for future in _done(running):
                trial = running.pop(future)
                try:
                    y = future.result()
                except pool.failures as error:
                    if isinstance(error, InputError):
                        raise
                    y = None
                optimizer.tell(trial, y)
                why = why or stop()
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        for future in running:
            future.cancel()
    return why


def _done(running: Mapping[Any, Any]) -> list[Any]:
    """The futures that are finished, at least one; of Dask by its own waiting."""
    futures = list(running)
    if isinstance(futures[0], Future) or not hasattr(futures[0], "client"):
        finished = wait(futures, return_when=FIRST_COMPLETED).done
        return [future for future in futures if future in finished]
    from distributed import wait as wait_dask

    finished = wait_dask(futures, return_when="FIRST_COMPLETED").done
    return [future for future in futures if future in finished]
