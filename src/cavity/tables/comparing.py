"""Compare noise models, inference rules and kernels on one table: by evidence, leave-one-out and k folds.

Three yardsticks, because they answer different questions. *Log evidence*: how probable the data are under the model, at
the hyperparameters that were learned; values of EP and of Laplace's method are estimates, and those of different rules
should not be compared to the last nat. *Leave-one-out*: mean log density of each target given the others, from one fit,
so that its hyperparameters have seen the target. *K folds*: mean log density of targets that learning has not seen;
each fold learns anew, from where learning from all rows has ended, which is one run of the optimizer.
Differences are paired by row, so that their standard error is that of the difference: of g_i = log p_best(y_i) -
log p(y_i) it is sd(g) / sqrt(n). The ranking is by k folds where they were run, else by leave-one-out, else by
evidence.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPClassifier, GPRegressor
from cavity.frames.errors import TableError
from cavity.inference.registry import as_inference
from cavity.kernels import parse
from cavity.learning.choice.kinds import Kind, kind_of, likelihood_for
from cavity.learning.choice.screening import log_density
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction
from cavity.runtime.deadlines import Deadline
from cavity.runtime.errors import InputError, Message, Setting, message_of
from cavity.runtime.interrupts import not_swallowed
from cavity.runtime.progress import Progress
from cavity.runtime.stop_reason import StopReason
from cavity.tables.description import draws_of
from cavity.tables.preparation import Preparation

if TYPE_CHECKING:
    import pandas as pd

REGRESSION = (("gaussian", "exact"), ("student-t", "ep"), ("laplace", "ep"), ("mixture", "ep"))
CLASSIFICATION = (("probit", "ep"), ("probit", "laplace"), ("logit", "laplace"))
KERNELS = ("1.0*SE(ard)", "1.0*Matern(ard, nu=2.5)")

COUNTS = (("poisson", "ep"), ("negative-binomial", "ep"))
SUITED = {
    Kind.POSITIVE: (("positive", "exact"),),
    Kind.SHARE: (("share", "exact"),),
    Kind.COUNT: COUNTS,
    Kind.FEW: (("ordinal", "ep"),),
}
"""Noise that suits a kind of target, with a rule; tried beside the usual ones."""

CLEAR, CLEAR_NATS = 2.0, 3.0
"""From where a difference is called clear: standard errors of it, or nats of log evidence (a Bayes factor of 20)."""

FOLDS, LOO, EVIDENCE = "k-fold log density", "leave-one-out log density", "log evidence"
"""Yardsticks."""

PARTS = ("likelihood", "inference", "kernel")
"""Of a candidate."""


@dataclass(frozen=True)
class Candidate:
    """One model to try."""

    likelihood: str
    inference: str
    kernel: str

    @property
    def name(self) -> str:
        """As it is written in tables."""
        return f"{self.likelihood}, {self.inference}, {self.kernel}"


@dataclass(frozen=True)
class Entry:
    """What was found for one candidate; densities are per row, in nats.

    `difference` and `standard_error` are those to the best candidate, paired by row; where the yardstick is the
    evidence, the difference is of that and has no standard error. `failure` says why there is nothing.
    """

    candidate: Candidate
    log_evidence: float = float("nan")
    loo: float = float("nan")
    held_out: float = float("nan")
    difference: float = float("nan")
    standard_error: float = float("nan")
    seconds: float = float("nan")
    converged: bool = False
    failure: Message | None = None


@dataclass(frozen=True)
class Comparison:
    """Candidates in order, best first, and what follows.

    `stopped` says why not all of the `asked` candidates are among them; None if they are.
    """

    entries: tuple[Entry, ...]
    yardstick: str
    folds: int
    rows: int
    asked: int = 0
    stopped: StopReason | None = None

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stopped is StopReason.INTERRUPTED

    @property
    def left_out(self) -> str:
        """That there are candidates that were not tried, in a sentence; empty if all were."""
        if not self.stopped:
            return ""
        why = "Interrupted" if self.interrupted else "Time was up"
        return f"{why}: {len(self.entries)} of {self.asked} candidates were tried."

    @property
    def shared(self) -> dict[str, str]:
        """The parts that all candidates have in common, where there are several candidates."""
        parts = {part: {getattr(e.candidate, part) for e in self.entries} for part in PARTS}
        return {part: values.pop() for part, values in parts.items() if len(values) == 1 < len(self.entries)}

    def short_name(self, candidate: Candidate) -> str:
        """What tells a candidate from the others: "student-t (ep)"."""
        told = [str(getattr(candidate, part)) for part in PARTS if part not in self.shared]
        return told[0] + (f" ({', '.join(told[1:])})" if told[1:] else "")

    @property
    def recommendation(self) -> str:
        """One sentence."""
        found = [e for e in self.entries if not e.failure]
        if not found:
            return "No candidate could be fitted."
        best = found[0].candidate
        text = f"Use {best.likelihood} noise with {best.inference} inference and {best.kernel}"
        if len(found) == 1:
            only = "was fitted before the end" if self.stopped else "could be fitted"
            return f"{text}: the only candidate that {only}."
        rivals = [e for e in found[1:] if not self._clear(e)]
        if not rivals:
            return f"{text}: clearly best by {self.yardstick}."
        others = [self.short_name(e.candidate) for e in rivals[:3]]
        if len(rivals) > 3:
            others.append(f"{len(rivals) - 3} more")
        listed = " and ".join([*([", ".join(others[:-1])] if others[1:] else []), others[-1]])
        return f"{text}; but {listed} cannot be told apart from it with {self.rows} rows."

    def _clear(self, entry: Entry) -> bool:
        least = CLEAR_NATS if self.yardstick == EVIDENCE else CLEAR * entry.standard_error
        return bool(entry.difference >= least)


# --- what to try --------------------------------------------------------------------------------------------


def candidates(
    preparation: Preparation,
    y: NDArray[Any],
    likelihoods: Sequence[str] = (),
    inferences: Sequence[str] = (),
    kernels: Sequence[str] = (),
) -> list[Candidate]:
    """All combinations asked for, or a sensible set: also noise that suits the kind of number that the targets are.

    Raises
    ------
    ValueError
        At a name that does not exist, or noise that targets cannot have, before anything is fitted.
    """
    for name in likelihoods:
        likelihood_for(name, y)
    for name in inferences:
        as_inference(name)
    for text in kernels:
        parse(text)
    default = KERNELS if preparation.kernel is None else (preparation.kernel,)
    usual: tuple[tuple[str, str], ...] = CLASSIFICATION
    if preparation.task == "regression":
        usual = (*SUITED.get(kind_of(y).kind, ()), *REGRESSION)
    pairs: list[tuple[str, str]] = []
    for noise in likelihoods or dict(usual):
        rules = inferences or [rule for name, rule in usual if name == noise] or ["auto"]
        pairs += [(noise, rule) for rule in rules]
    tried = [Candidate(noise, rule, k) for (noise, rule), k in product(pairs, kernels or default)]
    return list(dict.fromkeys(tried))


def compare_models(
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    tried: Sequence[Candidate],
    *,
    folds: int = 5,
    restarts: int = 1,
    seed: int = 0,
    rows: NDArray[np.intp] | None = None,
    max_time: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit every candidate and rank them.

    Parameters
    ----------
    preparation, X, y : as `cavity.tables.prepare` gives them
    tried : sequence of Candidate
    folds : int
        0 for none: leave-one-out then ranks. Of classes, every fold has the same share.
    restarts : int
        Further runs of the optimizer in each fit.
    seed : int
    rows : array of int, optional
        Numbers of the rows in the file, for messages; from 1 by default.
    max_time : float, optional
        Seconds for the whole.
    say : callable
        Told what is being done.

    Returns
    -------
    Comparison
        Also after Ctrl-C or when time is up: of the candidates that are done. One that is under way is given up: it
        cannot be compared with the others as it is.

    Raises
    ------
    TableError
        If no candidate could be fitted; the message is that of the first. If there was no time for any.
    """
    if folds == 1 or folds < 0 or folds > len(X):
        problem = f"must be 0 or between 2 and the {len(X)} rows, got {folds}"
        raise InputError(problem, parameter="folds", value=folds)
    if max_time is not None and not max_time >= 0:
        problem = f"must be a number of seconds >= 0, got {max_time!r}"
        raise InputError(problem, parameter="max_time", value=max_time)
    if restarts < 0:
        raise InputError(f"must be at least 0, got {restarts}", parameter="restarts", value=restarts)
    if not folds and any(candidate.inference == "mcmc" for candidate in tried):
        neither = ") have neither an evidence nor a leave-one-out density to be compared by"
        raise InputError(
            ("draws (", Setting("inference", "mcmc"), neither),
            remedy=("give ", Setting("folds", 2), " or more"),
        )
    if folds and preparation.task == "classification":
        labels, counts = np.unique(y, return_counts=True)
        if counts.min() < 2:
            alone = str(labels[np.argmin(counts)])
            raise TableError(
                f"the class {alone!r} has one row only, which cannot be held out and learned from",
                remedy=("use ", Setting("folds", 0), ", or leave the row out"),
            )
    fold = assign_folds(y, folds, preparation.task, seed)
    rows = np.arange(1, len(X) + 1) if rows is None else rows
    whole = preparation.task == "regression" and kind_of(y).kind in (Kind.COUNT, Kind.FEW)
    found: list[tuple[Entry, Array]] = []
    stopped: StopReason | None = None
    time_left = Deadline(max_time)
    for number, candidate in enumerate(tried, start=1):
        say(f"[{number}/{len(tried)}] {candidate.name} ...")
        try:
            with not_swallowed():
                estimator = _estimator(candidate, preparation, restarts, seed)
                entry, density = _try(candidate, estimator, X, y, fold, folds, time_left, whole)
            if entry.failure is not None:  # about a row of the whole table, which is fitted first
                entry = replace(entry, failure=entry.failure.numbered(rows))
            found.append((entry, density))
        except KeyboardInterrupt:
            if not any(not entry.failure for entry, _ in found):
                raise
            stopped = StopReason.INTERRUPTED
            break
        except TimeoutError:
            stopped = StopReason.OUT_OF_TIME
            break
    if stopped is StopReason.OUT_OF_TIME and not any(not entry.failure for entry, _ in found):
        raise TableError(
            ("no candidate was done within ", Setting("max_time", max_time)),
            remedy=("give more time, or ", Setting("folds", 0)),
        )
    if all(entry.failure for entry, _ in found):
        first, why = found[0][0].candidate, found[0][0].failure
        assert why is not None
        raise TableError((f"no candidate could be fitted; {first.name}: ", *why.clause), remedy=why.remedy)
    ranked = _ranked(found, FOLDS if folds else LOO, folds, len(X))
    return replace(ranked, asked=len(tried), stopped=stopped)


def assign_folds(y: NDArray[Any], folds: int, task: str, seed: int) -> NDArray[np.intp]:
    """Number of the fold of each row; rows of a class are spread evenly."""
    order = np.random.default_rng(seed).permutation(len(y))
    if task == "classification":
        order = order[np.argsort(np.unique(y, return_inverse=True)[1][order], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[order] = np.arange(len(y)) % max(folds, 1)
    return fold


# --- one candidate ------------------------------------------------------------------------------------------


def _estimator(candidate: Candidate, preparation: Preparation, restarts: int, seed: int) -> Any:
    kind = GPRegressor if preparation.task == "regression" else GPClassifier
    return kind(
        candidate.kernel,
        likelihood=candidate.likelihood,
        inference=candidate.inference,
        n_restarts=restarts,
        random_state=seed,
    )


def _fitted(estimator: Any, X: pd.DataFrame, y: NDArray[Any], time_left: Deadline) -> Any:
    """The estimator that has learned; a TimeoutError if it could not learn to the end."""
    estimator.set_params(max_time=time_left.left).fit(X, y)
    if time_left.left == 0.0:
        raise TimeoutError(str(StopReason.OUT_OF_TIME))
    return estimator


def _try(
    candidate: Candidate,
    estimator: Any,
    X: pd.DataFrame,
    y: NDArray[Any],
    fold: NDArray[np.intp],
    folds: int,
    time_left: Deadline,
    whole: bool,
) -> tuple[Entry, Array]:
    """The entry without its rank, and log densities by row; of whole numbers log probabilities of them."""
    started = time.monotonic()
    nothing = np.full(len(X), np.nan)
    try:
        with warnings.catch_warnings(), Progress(candidate.name, folds + 1) as progress:
            warnings.simplefilter("ignore")
            model = _fitted(estimator, X, y, time_left)
            loo = _leave_one_out(model, X, y, whole)
            held = nothing.copy()
            for k in range(folds):
                progress.advance()
                test = fold == k
                part = model.for_other_rows()
                _fitted(part, X.iloc[~test], y[~test], time_left)
                held[test] = _log_density(part, X.iloc[test], y[test], whole)
    except (ValueError, np.linalg.LinAlgError) as error:
        return Entry(candidate, failure=message_of(error), seconds=time.monotonic() - started), nothing
    several = len(model.members_) > 1  # one model per class: their evidences are of different data
    entry = Entry(
        candidate,
        float("nan") if several else float(model.log_evidence_),
        float(np.mean(loo)),
        float(np.mean(held)) if folds else float("nan"),
        seconds=time.monotonic() - started,
        converged=all(member.posterior.status.converged for member in model.members_),
    )
    return entry, held if folds else loo


def _of_targets(prediction: Prediction, y: Array, whole: bool) -> Array:
    """Log densities: of whole numbers the log probability of what is rounded to them, as counts have it."""
    return log_density(prediction, y, whole=True) if whole else np.asarray(prediction.log_prob(y))


def _log_density(model: Any, X: pd.DataFrame, y: NDArray[Any], whole: bool) -> Array:
    if isinstance(model, GPRegressor):
        return _of_targets(model.predict_dist(X), y, whole)
    log_p = model.predict_log_proba(X)
    return np.asarray(log_p[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def _leave_one_out(model: Any, X: pd.DataFrame, y: NDArray[Any], whole: bool) -> Array:
    """Log density of each target given the others; nan for draws, and for classes told apart by several models."""
    if draws_of(model):
        return np.full(len(y), np.nan)
    if isinstance(model, GPRegressor):
        return _of_targets(model.leave_one_out(), y, whole)
    if len(model.members_) > 1:
        return np.full(len(y), np.nan)
    codes = np.searchsorted(model.classes_, y).astype(float)
    targets = codes if model.model_.likelihood.n_latent > 1 else 2.0 * codes - 1.0
    return np.asarray(model.model_.leave_one_out(X.to_numpy(dtype=float), targets).log_prob(targets))


# --- ranking ------------------------------------------------------------------------------------------------


def _ranked(found: list[tuple[Entry, Array]], yardstick: str, folds: int, rows: int) -> Comparison:
    """Best first; then those that the yardstick does not apply to, then those that failed."""
    bad = [e for e, _ in found if e.failure]
    good = [(e, d) for e, d in found if not e.failure]
    measured = sorted(((e, d) for e, d in good if not np.isnan(d).any()), key=lambda pair: _rank(pair[1]))
    if not measured:
        ordered = sorted((e for e, _ in good), key=lambda e: -np.nan_to_num(e.log_evidence, nan=-np.inf))
        entries = [replace(e, difference=ordered[0].log_evidence - e.log_evidence) for e in ordered]
        return Comparison((*entries, *bad), EVIDENCE, folds, rows)
    best = measured[0][1]
    entries = [_beside(entry, best, density) for entry, density in measured]
    others = [e for e, d in good if np.isnan(d).any()]
    return Comparison((*entries, *others, *bad), yardstick, folds, rows)


def _rank(density: Array) -> tuple[int, float]:
    """Fewest rows that are called impossible first, then the largest mean of the others."""
    possible = density > -np.inf
    return int(np.sum(~possible)), -float(np.mean(density[possible])) if possible.any() else 0.0


def _beside(entry: Entry, best: Array, density: Array) -> Entry:
    """The entry with its mean difference to the best, paired by row, and the standard error of that mean."""
    with np.errstate(invalid="ignore"):
        gap = np.where(best == density, 0.0, best - density)  # both may be minus infinity
        error = float(np.std(gap, ddof=1) / np.sqrt(len(gap)))
    return replace(entry, difference=float(np.mean(gap)), standard_error=error)
