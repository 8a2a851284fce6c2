"""From a table to a `TableModel`: learn from all rows, score rows that a second model has not seen, describe.

The kind of model is chosen once (`cavity.learning.choice`), and the model that is returned is learned from all rows.
Scores are those of the same estimator learned without the rows held out; if its kind was chosen, these rows had a part
in that.

Ctrl-C during learning or sampling keeps the best values, or the draws, so far; nothing more is learned then. Later it
ends the description of the model, which is kept with what there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.frames.errors import TableError
from cavity.learning.choice.kinds import likelihood_for
from cavity.learning.robust_starts import is_robust
from cavity.likelihoods import BinaryLikelihood
from cavity.numerics.memory import MATRICES, available_memory
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError, Message, NoDrawsInTimeError, Setting, message_of
from cavity.runtime.interrupts import not_swallowed
from cavity.runtime.sentences import counted
from cavity.tables.baselines import baselines, for_plain_models
from cavity.tables.description import draws_of, outliers, relevance
from cavity.tables.fit_report import FitReport
from cavity.tables.large_tables import WholeTable
from cavity.tables.model import TableModel
from cavity.tables.preparation import Preparation
from cavity.tables.reading import Table
from cavity.tables.scores import classification_scores, regression_scores
from cavity.tables.training import FAILURES, Fitted, Options, Say, Training, fitted

if TYPE_CHECKING:
    import pandas as pd

SHARE_OF_LEARNING = 2 / 3
"""Of the time that is given, for learning from all rows; the rest is for learning without those held out."""

SHARE_OF_CHAINS = 1 / 2
"""The same of chains, which take as long without a few rows."""

SHARE_OF_CHOICE = 1 / 3
"""Of the time that is given, for choosing the noise before chains are run."""

NO_CHAINS = "nothing was drawn by Markov chains"
NOT_ALL_KINDS = "not all kinds of model were tried"
UNSCORED = "rows held out were not scored"


def memory_estimate(rows: int) -> tuple[float, float]:
    """Bytes that an exact fit of so many rows takes, and bytes that are free."""
    return 8.0 * MATRICES["evidence"] * rows**2, available_memory()


def fit_table(
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    table: Table,
    options: Options,
    say: Say = lambda _: None,
    whole: WholeTable | None = None,
) -> TableModel:
    """Learn a model of a table.

    Parameters
    ----------
    preparation, X, y : as `cavity.tables.prepare` gives them
    table : Table
        For row numbers.
    options : Options
    say : callable
        Told, in sentences, what is being done.
    whole : WholeTable, optional
        All rows, if X and y are a sample of them; the model is then conditioned on all.

    Returns
    -------
    TableModel
        Also after Ctrl-C, if there is anything: the best so far, with what was not done in its report.

    Raises
    ------
    NoDrawsInTimeError
        If chains were asked for under some noise, and there was no time to draw anything.
    """
    options.check()
    train, test = _split(y, options.test_size, preparation.task, np.random.default_rng(options.seed))
    if whole is not None and options.representation == "auto":
        options = replace(options, representation="inducing")  # which takes rows in blocks
    training, limit = Training(preparation, X, y, options), Deadline(options.max_time)
    started = time.monotonic()
    say(f"Learning from {counted(len(X), 'row')} of {counted(X.shape[1], 'column')} ...")
    with row_numbers(table.rows):
        _check_noise(options.likelihood, preparation, y)
        learned = _learn(training, limit, bool(len(test)), say)
    everything = learned.model if whole is None else _on_all_rows(learned.model, whole, say)
    report = FitReport(
        len(X) if whole is None else len(whole.y),
        table.total,
        choice=learned.choice,
        warnings=learned.warnings,
        seconds=time.monotonic() - started,
        robust=preparation.task == "regression" and is_robust(learned.model.likelihood_),
        interrupted=learned.interrupted,
        undone=(*learned.undone, *([UNSCORED] if learned.interrupted and len(test) else [])),
    )
    steps = _steps(learned, training, train, test, limit, table.rows, say)
    return TableModel(preparation, everything, _described(report, steps))


def _on_all_rows(model: Any, whole: WholeTable, say: Say) -> Any:
    """The estimator with the values it has learned from a sample, given all rows."""
    say(f"Conditioning on {counted(len(whole.y), 'row')} ...")
    return copy(model).condition_on(whole.rows, whole.y)


@contextmanager
def row_numbers(rows: NDArray[np.intp]) -> Iterator[None]:
    """Errors about a row of the data name the row of the file instead."""
    try:
        yield
    except InputError as error:
        raise type(error).of(error.message.numbered(rows)) from error


def _check_noise(name: str, preparation: Preparation, y: NDArray[Any]) -> None:
    """Refuse a noise model that the target cannot have."""
    if name == "auto" or preparation.task == "classification":
        return
    likelihood = likelihood_for(name, np.asarray(y, dtype=float))
    if isinstance(likelihood, BinaryLikelihood):
        raise TableError(
            f"{name} noise is for classes, and {preparation.target!r} is a number",
            remedy=("use another ", Setting("likelihood"), ", or ", Setting("task", "classification")),
        )
    likelihood.check(np.asarray(y, dtype=float))


def _split(
    y: NDArray[Any], share: float, task: str, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from and rows to hold out; the same share of each class, which keeps one row at least."""
    n = len(y)
    if share == 0.0:
        return np.arange(n), np.arange(0)
    groups = [np.arange(n)] if task == "regression" else [np.flatnonzero(y == c) for c in np.unique(y)]
    held: list[int] = []
    for rows in groups:
        count = min(round(share * len(rows)), len(rows) - 1)
        held.extend(rng.choice(rows, count, replace=False).tolist())
    if not held:
        raise TableError(
            (Setting("test_size", share), f" of {n} rows is less than one row"),
            remedy="use a larger share, or 0",
        )
    test = np.sort(np.array(held, dtype=np.intp))
    return np.setdiff1d(np.arange(n), test), test


# --- learning from all rows ---------------------------------------------------------------------------------


def _learn(training: Training, limit: Deadline, scored: bool, say: Say) -> Fitted:
    """The model of all rows, in its share of the time."""
    options = training.options
    share = (SHARE_OF_CHAINS if options.samples else SHARE_OF_LEARNING) if scored else 1.0
    likelihood = options.likelihood
    if likelihood == "auto" and training.preparation.task == "classification":
        likelihood = "probit"
    if options.samples and training.is_open:
        return _chains_under_chosen_model(training, likelihood, limit, scored, say)
    found = fitted(training.estimator(likelihood), training.X, training.y, Deadline(limit.part(share)))
    if found.interrupted and training.is_open:
        return replace(found, undone=(NOT_ALL_KINDS,))
    return found


def _chains_under_chosen_model(
    training: Training, likelihood: str, limit: Deadline, scored: bool, say: Say
) -> Fitted:
    """Draws under the model that optimization chooses; what that has learned, if nothing can be drawn."""
    time = Deadline(limit.part(SHARE_OF_CHOICE))
    found = fitted(training.estimator(likelihood, "auto"), training.X, training.y, time)
    if found.interrupted:
        return replace(found, undone=(NOT_ALL_KINDS, NO_CHAINS))
    left = Deadline(limit.left)
    chains = training.estimator(likelihood).set_params(kernel=found.model.kernel_)
    if training.preparation.task == "regression":
        chains.set_params(likelihood=found.model.likelihood_)
    say("Drawing by Markov chains ...")
    try:
        drawn = fitted(
            chains, training.X, training.y, Deadline(left.part(SHARE_OF_CHAINS if scored else 1.0))
        )
    except NoDrawsInTimeError as error:
        why = Message((f"{NO_CHAINS}: ", *error.message.clause), remedy=error.message.remedy)
        return replace(found, warnings=(*found.warnings, why))
    except KeyboardInterrupt:
        return replace(found, interrupted=True, undone=(NO_CHAINS,))
    return replace(drawn, choice=found.choice)


# --- describing what was learned ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A part of the description: what it adds to the report, and what is said if Ctrl-C comes before it is done."""

    run: Callable[[FitReport], FitReport]
    undone: str


def _steps(
    learned: Fitted,
    training: Training,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    limit: Deadline,
    numbers: NDArray[np.intp],
    say: Say,
) -> list[Step]:
    """The parts of the description, in order."""
    model, X, y = learned.model, training.X, training.y

    def scores(report: FitReport) -> FitReport:
        say(f"Learning without the {counted(len(test), 'row')} held out, for the scores ...")
        return _scored(report, learned, training, train, test, limit)

    def inputs(report: FitReport) -> FitReport:
        return replace(report, relevance=relevance(model, training.preparation, X, training.options.seed))

    def rows(report: FitReport) -> FitReport:
        return replace(report, outliers=outliers(model, y, numbers))

    steps = [Step(scores, UNSCORED)] if len(test) and not learned.interrupted else []
    steps.append(Step(inputs, "the relevance of inputs was not computed"))
    if training.preparation.task == "regression":
        steps.append(Step(rows, "outliers were not looked for"))
    return steps


def _described(report: FitReport, steps: list[Step]) -> FitReport:
    """The report with what each step finds; Ctrl-C ends them, and what was learned is kept."""
    for k, step in enumerate(steps):
        try:
            report = step.run(report)
        except KeyboardInterrupt:
            left_out = tuple(later.undone for later in steps[k:])
            return replace(report, interrupted=True, undone=(*report.undone, *left_out))
    return report


def _scored(
    report: FitReport,
    learned: Fitted,
    training: Training,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    limit: Deadline,
) -> FitReport:
    """The report with scores of the rows held out, or with a warning that says why there are none.

    The estimator learns from the other rows, from the values it has: that is faster, and its values are then those of
    the other rows. If time is up before, they are not, and there are no scores.
    """
    X, y = training.X, training.y
    try:
        with not_swallowed():
            found = fitted(
                learned.model.for_other_rows(), X.iloc[train], y[train], Deadline(limit.left)
            ).model
    except NoDrawsInTimeError:
        return _unscored(report, _no_time())
    except FAILURES as error:
        reason = message_of(error)
        remedy = ("; ", *reason.remedy) if reason.remedy else ()
        failed = ("the model could not be fitted without them (", *reason.clause, *remedy, ")")
        return _unscored(report, Message(failed))
    if limit.left == 0.0 and not draws_of(found):
        return _unscored(report, _no_time())
    score = regression_scores if training.preparation.task == "regression" else classification_scores
    return replace(
        report,
        scores=score(found, X.iloc[test], y[test], y[train]),
        baselines=baselines(
            training.preparation.task, for_plain_models(training.preparation.coding, X), y, train, test
        ),
        held_out_rows=len(test),
    )


def _no_time() -> Message:
    return Message(("there was no time to learn without them",), remedy=("give more ", Setting("max_time")))


def _unscored(report: FitReport, why: Message) -> FitReport:
    message = Message((f"{UNSCORED}, because ", *why.clause), remedy=why.remedy)
    return replace(report, warnings=(*report.warnings, message))
