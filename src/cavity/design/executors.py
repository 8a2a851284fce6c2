"""Evaluations of a function, one after the other or several at a time by anything that has `submit`.

Results are told in the order in which they come, and each makes room for a new suggestion given what is still running.
Ctrl-C leaves what was told; a worker that dies is a failure of its trial, and an error of the program itself is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
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
    if executor is None and n_jobs > 1:
        from joblib.externals.loky import get_reusable_executor

        executor = get_reusable_executor(max_workers=n_jobs)
    if executor is not None:
        return _side_by_side(optimizer, function, calls, stop, executor, max(n_jobs, 1), first)
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


def _side_by_side(
    optimizer: Optimizer,
    function: Callable[[Mapping[str, Any]], Any],
    calls: int,
    stop: Callable[[], str],
    executor: Any,
    n_jobs: int,
    first: Mapping[str, Any] | None,
) -> str:
    running: dict[Any, Trial] = {}
    sent, why = 0, ""
    try:
        while running or (sent < calls and not why):
            while sent < calls and len(running) < n_jobs and not why:
                trial = _next(optimizer, first if sent == 0 else None)
                running[executor.submit(function, trial.x)] = trial
                sent += 1
            for future in _done(running):
                trial = running.pop(future)
                try:
                    y = future.result()
                except FAILURES as error:
                    if isinstance(error, InputError):
                        raise
                    y = None
                optimizer.tell(trial, y)
                why = why or stop()
    except KeyboardInterrupt:
        for future in running:
            future.cancel()
        return "interrupted"
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
