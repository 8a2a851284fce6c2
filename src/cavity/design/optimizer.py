"""`Optimizer`, which is asked for experiments and told their outcomes, and `minimize`, which does both.

Both are thin: a history and `suggest`. The optimizer may keep its history in a file (`Optimizer.open`), to which every
ask and every tell adds a line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from cavity.design.history import History, Status, Trial
from cavity.design.log import RunLog
from cavity.design.space import Space
from cavity.design.suggestion import Estimate, Options, Study, Suggestion, suggest
from cavity.runtime.errors import InputError


def as_space(space: Space | Mapping[str, Any] | Sequence[Any]) -> Space:
    """A space from itself, from a mapping of names to inputs, or from a list of bounds."""
    return space if isinstance(space, Space) else Space(space)


class Optimizer:
    """Ask for an experiment, tell its outcome.

    Parameters
    ----------
    space : Space, mapping or sequence
        Inputs by name, or bounds.
    goal : {"minimize", "maximize"}
    seed : int
        The same seed and outcomes give the same suggestions.
    options : see `Options`
        `noise`, `acquisition`, `n_initial`, `limits`, `confirm`, `fixed`.

    Attributes
    ----------
    history : History

    Examples
    --------
    >>> from cavity.design import Optimizer
    >>> optimizer = Optimizer({"temp": (20.0, 90.0), "catalyst": ["A", "B"]}, goal="maximize")
    >>> for _ in range(8):
    ...     trial = optimizer.ask()
    ...     optimizer.tell(trial, -((trial.x["temp"] - 50.0) ** 2))
    >>> optimizer.recommendation.trial is not None
    True
    """

    def __init__(
        self,
        space: Space | Mapping[str, Any] | Sequence[Any],
        goal: str = "minimize",
        *,
        seed: int = 0,
        history: History | None = None,
        **options: Any,
    ) -> None:
        self.space, self.seed = as_space(space), seed
        self.options = Options(goal=goal, **options)
        self.history = history or History()
        self.history.check(self.space)
        self._log: RunLog | None = None

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        space: Space | Mapping[str, Any] | Sequence[Any] | None = None,
        goal: str = "minimize",
        *,
        seed: int = 0,
        **options: Any,
    ) -> Optimizer:
        """With its history in a file, made anew or resumed; without a space it must exist.

        A file of another space or goal is refused. A last line that was cut off is dropped.
        """
        given = None if space is None else as_space(space)
        log = RunLog.open(path, given, Options(goal=goal, **options), seed)
        new = cls(log.space, log.options.goal, seed=log.seed, history=log.history)
        new.options, new._log = log.options, log
        return new

    @property
    def dropped_line(self) -> bool:
        """Whether the last line of its file was cut off, and dropped."""
        return self._log is not None and self._log.dropped

    def ask(self, n: int | None = None) -> Any:
        """The next trial, or a list of n to be done at the same time."""
        found = suggest(self.history, self.space, self.options, self.seed, 1 if n is None else n)
        trials = [self._asked(one) for one in found]
        return trials[0] if n is None else trials

    def _asked(self, one: Suggestion) -> Trial:
        self.history = self.history.with_pending(one.x, one.why)
        trial = self.history.trials[-1]
        if self._log is not None:
            self._log.asked(trial)
        return trial

    def tell(
        self,
        trial: Trial | int | Mapping[str, Any],
        y: Any,
        *,
        noise_sd: float | None = None,
        outcomes: Mapping[str, Any] | None = None,
        failed: bool = False,
    ) -> None:
        """Note an outcome: of a trial that was asked for, its id, or any setting.

        An outcome of nan or None, and `failed=True`, is a failure. An outcome told before is replaced.
        """
        if isinstance(trial, Mapping):
            self.space.to_unit(trial)
            self.history = self.history.with_pending(dict(trial), "given")
            id = self.history.trials[-1].id
            if self._log is not None:
                self._log.asked(self.history.trials[-1])
        else:
            id = trial.id if isinstance(trial, Trial) else trial
        self.history = self.history.completed(id, y, noise_sd=noise_sd, outcomes=outcomes, failed=failed)
        if self._log is not None:
            self._log.write_outcome(self.history[id])

    @property
    def study(self) -> Study:
        """What the outcomes say so far."""
        return Study(self.history, self.space, self.options)

    @property
    def recommendation(self) -> Estimate | None:
        """The best setting tried, by the posterior mean, with its standard deviation."""
        return self.study.recommendation


def minimize(
    fun: Callable[..., Any],
    bounds: Space | Mapping[str, Any] | Sequence[Any],
    *,
    n_calls: int = 50,
    noise: str = "auto",
    seed: int = 0,
    x0: Sequence[Any] | Mapping[str, Any] | None = None,
    tol: float | None = None,
    callback: Callable[[OptimizeResult], Any] | None = None,
    executor: Any = None,
    n_jobs: int = 1,
    **options: Any,
) -> OptimizeResult:
    """Minimize a function that is dear to evaluate.

    Parameters
    ----------
    fun : callable
        Of an array (D,) if `bounds` are a sequence, of a dictionary if they are a mapping or a `Space`. It may return
        nan or raise an `ArithmeticError` or `ValueError` for a failure.
    bounds : sequence of (low, high), mapping of names to inputs, or Space
    n_calls : int
        Evaluations.
    noise : {"auto", "none", "gaussian", "student-t", "mixture"}
        "none" for a simulation that gives the same value twice.
    x0 : setting, optional
        Where to begin.
    tol : float, optional
        Stop when the function can hardly be better anywhere by more than this (`Study.gap`).
    callback : callable, optional
        Told the result so far after each evaluation; returning True, or raising StopIteration, stops.
    executor : object with `submit`, optional
        Runs `n_jobs` evaluations at a time, for instance a `concurrent.futures.ThreadPoolExecutor` or a Dask client.
    options : see `Options`
        `acquisition`, `n_initial`, `limits`, `confirm`, `fixed`.

    Returns
    -------
    OptimizeResult
        `x`, `fun` (the posterior mean at x), `fun_sd`, `nfev`, `success`, `message`, `history`, `study`, `x_iters`,
        `func_vals`. After Ctrl-C, what there is.

    Examples
    --------
    >>> from cavity.design import minimize
    >>> result = minimize(lambda x: (x[0] - 0.3) ** 2, [(0.0, 1.0)], n_calls=12, noise="none")
    >>> abs(float(result.x[0]) - 0.3) < 0.01
    True
    """
    from cavity.design.executors import evaluate

    named = isinstance(bounds, Space | Mapping)
    space = as_space(bounds)
    if n_calls < 1:
        raise InputError(f"must be a whole number >= 1, got {n_calls!r}", parameter="n_calls")
    optimizer = Optimizer(space, "minimize", seed=seed, noise=noise, **options)
    shaped = _Shaped(fun, space, named)
    first = None if x0 is None else (dict(x0) if isinstance(x0, Mapping) else dict(zip(space.names, x0)))

    def stop() -> str:
        if tol is not None and optimizer.study.gap < tol:
            return f"the function can hardly be better anywhere by more than {tol:g}"
        if callback is not None:
            try:
                if callback(_result(optimizer, named, "", True)):
                    return "stopped by the callback"
            except StopIteration:
                return "stopped by the callback"
        return ""

    message = evaluate(optimizer, shaped, n_calls, stop, executor=executor, n_jobs=n_jobs, first=first)
    return _result(optimizer, named, message, not message.startswith("interrupted"))


class _Shaped:
    """The function of a dictionary, whatever form the user's takes its argument in; can be sent to processes."""

    def __init__(self, fun: Callable[..., Any], space: Space, named: bool) -> None:
        self.fun, self.names, self.named = fun, space.names, named

    def __call__(self, x: Mapping[str, Any]) -> Any:
        if self.named:
            return self.fun(dict(x))
        values = [x[name] for name in self.names]
        try:
            return self.fun(np.array(values, dtype=float))
        except (TypeError, ValueError) as error:
            if all(isinstance(v, int | float) for v in values):
                raise
            raise InputError(
                f"give names to inputs that are no numbers, as in {{'a': [...]}}: {error}"
            ) from None


def _result(optimizer: Optimizer, named: bool, message: str, success: bool) -> OptimizeResult:
    study = optimizer.study
    best = study.recommendation
    told = [trial for trial in optimizer.history if trial.status is not Status.PENDING]

    def shaped(x: Mapping[str, Any]) -> Any:
        return dict(x) if named else np.array(list(x.values()), dtype=float)

    fields = {
        "x": None if best is None else shaped(best.x),
        "fun": np.nan if best is None else best.mean,
        "fun_sd": np.nan if best is None else best.sd,
        "nfev": len(told),
        "nit": len(told),
        "success": success and best is not None,
        "status": 0 if success and best is not None else 1,
        "message": message or ("all evaluations failed" if best is None else "all evaluations were made"),
        "x_iters": [shaped(t.x) for t in told],
        "func_vals": np.array([np.nan if t.y is None else t.y for t in told]),
        "history": optimizer.history,
        "study": study,
    }
    result: OptimizeResult = OptimizeResult()
    result.update(fields)
    return result
