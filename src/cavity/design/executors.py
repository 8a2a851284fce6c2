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
        self.executor, self.n_jobs, self.own = executor, n_jobs, executor is None
        self.sent_to: dict[Any, Any] = {}

    def submit(self, function: Callable[..., Any], x: Mapping[str, Any]) -> Any:
        """Begin an evaluation; processes of ours of which one died since the last one are replaced."""
        try:
            future = self._send(function, x)
        except BrokenExecutor:
            if not self.own:
                raise
            self.close()
            future = self._send(function, x)
        self.sent_to[future] = self.executor
        return future

    def _send(self, function: Callable[..., Any], x: Mapping[str, Any]) -> Any:
        if self.executor is None:  # not the processes that joblib keeps for itself: it does not share them
            from joblib.externals.loky import ProcessPoolExecutor

            self.executor = ProcessPoolExecutor(max_workers=self.n_jobs)
        if hasattr(self.executor, "scatter"):
            # a Dask client takes functions for pure: a setting that is measured again would not be evaluated
            return self.executor.submit(function, x, pure=False)
        return self.executor.submit(function, x)

    def result(self, future: Any) -> Any:
        """What an evaluation gave, None if it failed; processes of ours that died are replaced."""
        executor = self.sent_to.pop(future)
        try:
            return future.result()
        except BrokenExecutor:
            if not self.own:
                raise
            if executor is self.executor:
                self.close()
        except FAILURES as error:
            if isinstance(error, InputError):
                raise
        return None

    def close(self) -> None:
        """End processes of ours."""
        if self.own and self.executor is not None:
            self.executor.shutdown(wait=False, kill_workers=True)
            self.executor = None


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
                optimizer.tell(trial, pool.result(future))
                why = why or stop()
    except KeyboardInterrupt:
        return "interrupted"
    finally:
        for future in running:
            future.cancel()
        pool.close()
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
