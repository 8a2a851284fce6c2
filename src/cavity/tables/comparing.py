"""Compare noise models, inference rules and kernels on one table: by evidence, leave-one-out and k folds.

Three yardsticks, because they answer different questions. *Log evidence*: how probable the data are under the model, at
the hyperparameters that were learned; values of EP and of Laplace's method are estimates, and labels of different rules
should not be compared to the last nat. *Leave-one-out*: mean log density of each target given the others, from one fit.
*K folds*: mean log density of targets that learning has not seen; differences are paired by row, so that their standard
error is that of the difference. The ranking is by k folds where they were run, else by leave-one-out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPClassifier, GPRegressor
from cavity.hyper import Array
from cavity.inference.base import UnsupportedPairError
from cavity.tables.preparation import Preparation
from cavity.tables.reading import TableError

if TYPE_CHECKING:
    import pandas as pd

REGRESSION = (("gaussian", "exact"), ("student-t", "ep"), ("laplace", "ep"), ("mixture", "ep"))
CLASSIFICATION = (("probit", "ep"), ("probit", "laplace"), ("logit", "laplace"))
KERNELS = ("1.0*SE(ard)", "1.0*Matern(ard, nu=2.5)")

CLEAR = 2.0
"""Standard errors of a difference from which it is called clear."""


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

    `difference` and `standard_error` are those to the best candidate, paired by row; `failure` says why there is
    nothing, or is empty.
    """

    candidate: Candidate
    log_evidence: float = float("nan")
    loo: float = float("nan")
    held_out: float = float("nan")
    difference: float = 0.0
    standard_error: float = 0.0
    seconds: float = float("nan")
    converged: bool = False
    failure: str = ""


@dataclass(frozen=True)
class Comparison:
    """Candidates in order, best first, and what follows."""

    entries: tuple[Entry, ...]
    yardstick: str
    folds: int
    rows: int

    @property
    def recommendation(self) -> str:
        """One sentence."""
        found = [e for e in self.entries if not e.failure]
        if not found:
            return "No candidate could be fitted."
        best = found[0].candidate
        text = f"Use {best.likelihood} noise with {best.inference} inference and {best.kernel}"
        rivals = [e for e in found[1:] if e.difference < CLEAR * e.standard_error]
        if not rivals:
            return f"{text}: clearly best by {self.yardstick}."
        others = ", ".join(e.candidate.name for e in rivals[:3])
        more = f" and {len(rivals) - 3} more" if len(rivals) > 3 else ""
        return f"{text}; but {others}{more} cannot be told apart from it with {self.rows} rows."


def candidates(
    preparation: Preparation,
    likelihoods: Sequence[str] = (),
    inferences: Sequence[str] = (),
    kernels: Sequence[str] = (),
) -> list[Candidate]:
    """All combinations asked for, or a sensible set."""
    if preparation.kernel is not None:
        default_kernels: tuple[str, ...] = (preparation.kernel,)
    else:
        default_kernels = KERNELS
    pairs = list(REGRESSION if preparation.task == "regression" else CLASSIFICATION)
    if likelihoods or inferences:
        known = dict(pairs)
        pairs = [
            (noise, rule)
            for noise in (likelihoods or tuple(known))
            for rule in (inferences or (known.get(noise, "ep"),))
        ]
    return [Candidate(noise, rule, k) for (noise, rule), k in product(pairs, kernels or default_kernels)]


def compare_models(
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    tried: Sequence[Candidate],
    *,
    folds: int = 5,
    restarts: int = 1,
    seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Fit every candidate and rank them.

    Parameters
    ----------
    preparation, X, y : as `cavity.tables.prepare` gives them
    tried : sequence of Candidate
    folds : int
        0 for none: leave-one-out then ranks.
    say : callable
        Told what is being done.
    """
    if folds == 1 or folds < 0 or folds > len(X):
        raise TableError(f"--folds must be 0 or between 2 and the {len(X)} rows, got {folds}")
    fold = np.random.default_rng(seed).permutation(len(X)) % max(folds, 1)
    found = []
    for number, candidate in enumerate(tried, start=1):
        say(f"[{number}/{len(tried)}] {candidate.name} ...")
        found.append(_try(candidate, preparation, X, y, fold, folds, restarts, seed))
    return _ranked(found, "k-fold log density" if folds else "leave-one-out log density", folds, len(X))


def _estimator(candidate: Candidate, preparation: Preparation, restarts: int, seed: int) -> Any:
    kind = GPRegressor if preparation.task == "regression" else GPClassifier
    return kind(
        candidate.kernel,
        likelihood=candidate.likelihood,
        inference=candidate.inference,
        n_restarts=restarts,
        random_state=seed,
    )


def _try(
    candidate: Candidate,
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    fold: NDArray[np.intp],
    folds: int,
    restarts: int,
    seed: int,
) -> tuple[Entry, Array]:
    """The entry without its rank, and log densities by row."""
    started = time.monotonic()
    nothing = np.full(len(X), np.nan)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = _estimator(candidate, preparation, restarts, seed).fit(X, y)
            loo = _leave_one_out(model, y)
            held = nothing.copy()
            for k in range(folds):
                test = fold == k
                part = _estimator(candidate, preparation, restarts, seed).fit(X.iloc[~test], y[~test])
                held[test] = _log_density(part, X.iloc[test], y[test])
    except (UnsupportedPairError, ValueError, np.linalg.LinAlgError) as error:
        return Entry(candidate, failure=str(error).splitlines()[0]), nothing
    posterior = model.posterior_ if not isinstance(model.posterior_, tuple) else model.posterior_[0]
    entry = Entry(
        candidate,
        float(model.log_evidence_),
        float(np.mean(loo)),
        float(np.mean(held)) if folds else float("nan"),
        seconds=time.monotonic() - started,
        converged=bool(posterior.status.converged),
    )
    return entry, held if folds else loo


def _log_density(model: Any, X: pd.DataFrame, y: NDArray[Any]) -> Array:
    if isinstance(model, GPRegressor):
        return np.asarray(model.predict_dist(X).log_prob(y))
    unknown = set(np.unique(y).tolist()) - set(model.classes_.tolist())
    if unknown:
        raise ValueError(
            f"a fold has no row of class {sorted(map(str, unknown))[0]!r} to learn from: use fewer folds"
        )
    log_p = model.predict_log_proba(X)
    return np.asarray(log_p[np.arange(len(y)), np.searchsorted(model.classes_, y)])


def _leave_one_out(model: Any, y: NDArray[Any]) -> Array:
    """Log density of each target given the others; nan where the estimator has no such thing."""
    loo = getattr(model, "leave_one_out", None)
    if loo is None or not isinstance(model, GPRegressor):
        return np.full(len(y), np.nan)
    return np.asarray(loo().log_prob(y))


def _ranked(found: list[tuple[Entry, Array]], yardstick: str, folds: int, rows: int) -> Comparison:
    from dataclasses import replace

    good = [(e, d) for e, d in found if not e.failure]
    bad = [e for e, _ in found if e.failure]
    if all(np.isnan(d).all() for _, d in good):
        yardstick = "log evidence"
        ordered = [e for e, _ in sorted(good, key=lambda pair: -pair[0].log_evidence)]
        entries = [replace(e, difference=ordered[0].log_evidence - e.log_evidence) for e in ordered]
        return Comparison((*entries, *bad), yardstick, folds, rows)
    good.sort(key=lambda pair: -float(np.nanmean(pair[1])))
    entries = []
    for entry, density in good:
        gap = good[0][1] - density
        entries.append(
            replace(
                entry,
                difference=float(np.mean(gap)),
                standard_error=float(np.std(gap, ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0,
            )
        )
    return Comparison((*entries, *bad), yardstick, folds, rows)
