"""What a user may ask of a fit, the estimator that follows from it, and one fit of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPClassifier, GPRegressor
from cavity.frames.dates import cycles
from cavity.learning.choice import Choice
from cavity.learning.large_data import LEARN_ROWS
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError, Message, Setting, message_of
from cavity.runtime.interrupts import Interrupts
from cavity.sampling.mcmc import MCMC
from cavity.tables.preparation import Preparation

if TYPE_CHECKING:
    import pandas as pd

WARMUP = 0.6
"""Steps in which chains adapt, for each draw that is kept."""

GAUSSIAN_RESTARTS, OTHER_RESTARTS = 3, 1
"""Further runs of the optimizer: fewer under other noise than Gaussian, whose runs cost ten times as much."""

FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)
"""Errors of fits without which one can do."""

Say = Callable[[str], None]
"""Told, in sentences, what is being done."""


@dataclass(frozen=True)
class Options:
    """What a user may ask of a fit."""

    kernel: str | None = None
    likelihood: str = "auto"
    inference: str = "auto"
    mean: str | None = None
    test_size: float = 0.2
    n_restarts: int | None = None
    seed: int = 0
    max_time: float | None = None
    draws: int | None = None
    learn_rows: int = LEARN_ROWS
    representation: str = "auto"
    n_inducing: int | str = "auto"

    @property
    def samples(self) -> bool:
        """Whether Markov chains are asked for."""
        return self.inference == "mcmc"

    def check(self) -> None:
        """Refuse what would fail later."""
        if not 0.0 <= self.test_size < 1.0:
            problem = f"must be at least 0 and below 1, got {self.test_size!r}"
            raise InputError(problem, parameter="test_size", value=self.test_size)
        if self.max_time is not None and not self.max_time >= 0.0:
            problem = f"must be a number of seconds >= 0, got {self.max_time!r}"
            raise InputError(problem, parameter="max_time", value=self.max_time)
        if self.draws is not None and not self.samples:
            needed = ("is for ", Setting("inference", "mcmc"), "; other rules do not sample")
            raise InputError(needed, parameter="draws", value=self.draws)
        if self.draws is not None and self.draws < 1:
            raise InputError(f"must be at least 1, got {self.draws}", parameter="draws", value=self.draws)


@dataclass(frozen=True)
class Training:
    """Rows to learn from, and what was asked.

    Attributes
    ----------
    X : DataFrame (n, D)
    y : array (n,)
    """

    preparation: Preparation
    X: pd.DataFrame
    y: NDArray[Any]
    options: Options

    def estimator(self, likelihood: str, inference: Any = None) -> Any:
        """An estimator with this noise that has not learned; `inference` instead of the rule that was asked for."""
        options = self.options
        fewer = likelihood not in ("gaussian", "noiseless")
        restarts = OTHER_RESTARTS if fewer else GAUSSIAN_RESTARTS
        suited = self.preparation.kernel or ("auto" if options.likelihood == "auto" else None)
        chosen: dict[str, Any] = {
            "kernel": suited if options.kernel is None else options.kernel,
            "likelihood": likelihood,
            "inference": self._rule if inference is None else inference,
            "random_state": options.seed,
            "n_restarts": restarts if options.n_restarts is None else options.n_restarts,
            "max_time": options.max_time,
            "learn_rows": options.learn_rows,
            "representation": self._representation,
            "n_inducing": options.n_inducing,
        }
        if self.preparation.task == "regression" and options.likelihood == "auto":
            chosen["seasons"] = cycles(self.preparation.units)
        if options.mean is not None:
            chosen["mean"] = options.mean
        return (GPRegressor if self.preparation.task == "regression" else GPClassifier)(**chosen)

    @property
    def _representation(self) -> str:
        """Texts have no inducing inputs between them."""
        return "dense" if self.preparation.coding.has_text else self.options.representation

    @property
    def is_open(self) -> bool:
        """Whether the kernel or the noise is to be chosen."""
        options = self.options
        numbers = self.preparation.task == "regression"
        plain = options.kernel is None and self.preparation.kernel is None
        return options.likelihood == "auto" and (numbers or plain)

    @property
    def _rule(self) -> Any:
        """The rule asked for; a sampler with the number of draws asked for, and as many steps before them as usual."""
        options = self.options
        if options.draws is not None:
            return MCMC(n_draws=options.draws, warmup=int(np.ceil(WARMUP * options.draws)))
        if options.inference == "auto" and self.preparation.task == "classification":
            return "ep"
        return options.inference


@dataclass(frozen=True)
class Fitted:
    """An estimator that has learned.

    Attributes
    ----------
    model : GPRegressor or GPClassifier
    warnings : tuple of Message
        Those of its fit.
    interrupted : bool
        Whether Ctrl-C ended learning or sampling; the best values, or the draws, until then are kept.
    choice : Choice or None
        Why it is this kind of model, if that was left open.
    undone : tuple of str
        What was left out because of Ctrl-C, in clauses.
    """

    model: Any
    warnings: tuple[Message, ...] = ()
    interrupted: bool = False
    choice: Choice | None = None
    undone: tuple[str, ...] = ()


def fitted(model: Any, X: pd.DataFrame, y: NDArray[Any] | pd.DataFrame, time: Deadline) -> Fitted:
    """The estimator, after it has learned in the time that is left.

    RuntimeWarnings of arithmetic are dropped: users cannot act on them.
    """
    asked = model.max_time
    try:
        with warnings.catch_warnings(record=True) as caught, Interrupts() as seen:
            warnings.simplefilter("always")
            model.set_params(max_time=time.left).fit(X, y)
    finally:
        model.set_params(max_time=asked)
    found = [w.message for w in caught if not issubclass(w.category, RuntimeWarning)]
    messages = tuple(dict.fromkeys(message_of(w if isinstance(w, Warning) else str(w)) for w in found))
    return Fitted(model, messages, seen.interrupted, getattr(model, "choice_", None))
