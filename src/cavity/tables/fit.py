"""From a table to a `TableModel`: hold rows out, learn, score, look for outliers, and learn from all rows.

Scores are on rows that the model has not seen. The model that is returned is then learned from all rows, starting
from the values found. `report` is made of plain numbers and texts, so that it can be stored with the model.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from cavity.estimators import GPClassifier, GPRegressor
from cavity.kernels import Periodic, Warped
from cavity.learning.robust_starts import is_robust
from cavity.likelihoods import BinaryLikelihood, as_likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.memory import MATRICES, available_memory
from cavity.sampling.mcmc import MCMC
from cavity.sampling.posterior import SamplePosterior
from cavity.tables.limits import Limits
from cavity.tables.model import TableModel
from cavity.tables.preparation import Preparation
from cavity.tables.reading import Table, TableError
from cavity.tables.scores import classification_scores, regression_scores
from cavity.tables.words import counted, in_options

if TYPE_CHECKING:
    import pandas as pd

SURPRISING = 4.0
"""Standard deviations of a leave-one-out residual beyond which noise is not Gaussian: one in 16000 rows."""

MEDIAN_OF_NORMAL = 0.6745
"""Median of the absolute value of a standard normal variable."""

LIKELY, UNEXPECTED = 0.5, 0.999
"""Outlier probability from which a row is listed: under robust noise, and under other noise, where the number is
that of the tails."""

CENTRAL = f"the central {UNEXPECTED:.1%} of predictions".replace("%", " %")
"""Where rows are expected under noise that is not robust."""

WARMUP = 0.6
"""Steps in which chains adapt, for each draw that is kept."""

ALIKE = 40
"""Letters by which two warnings are taken to say the same."""

PYTHON_REMEDIES = {
    re.compile(
        r"inference=MCMC\(draws=(\d+), extend_to=\d+\), which goes on until all checks pass"
    ): r"--draws \1",
    re.compile(r"; diagnostics\(\) and plot_trace show which of them mix badly"): "",
    re.compile(r"see runs_, and fit again with warm_start=True or more n_restarts"): (
        "fit again with more --restarts"
    ),
}
"""What helps in Python, and what does here, where it is more than the name of an option."""

FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)
"""Errors of fits without which one can do."""

UNTRIED = "Student-t noise was not tried"
"""What is not done if Ctrl-C comes before or in the trial of robust noise."""

UNSCORED = "rows held out were not scored"
"""What is not done if learning without them, under noise that was chosen with them, does not come to its end."""

SHUFFLES, SHUFFLES_OF_DRAWS = 8, 2
"""How often relevance puts inputs into random orders; less often where predictions average over draws."""

LISTED_OUTLIERS = 50


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

    def check(self) -> None:
        """Refuse what would fail later."""
        if not 0.0 <= self.test_size < 1.0:
            raise TableError(f"--test-size must be at least 0 and below 1, got {self.test_size!r}")
        if self.max_time is not None and not self.max_time >= 0.0:
            raise TableError(f"--max-time must be a number of seconds >= 0, got {self.max_time!r}")
        if self.draws is not None and self.inference != "mcmc":
            raise TableError("--draws is for --inference mcmc; other rules do not sample")
        if self.draws is not None and self.draws < 1:
            raise TableError(f"--draws must be at least 1, got {self.draws}")


def memory_estimate(rows: int) -> tuple[float, float]:
    """Bytes that an exact fit of so many rows takes, and bytes that are free."""
    return 8.0 * MATRICES["evidence"] * rows**2, available_memory()


def fit_table(
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    table: Table,
    options: Options,
    say: Callable[[str], None] = lambda _: None,
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

    Returns
    -------
    TableModel
        Also after Ctrl-C, if there is anything: the best so far, with what was not done in `report["interrupted"]`.

    Raises
    ------
    TimeoutError
        If chains were asked for under some noise, and there was no time to draw anything.
    """
    options.check()
    _check_noise(options.likelihood, preparation, y, table.rows)
    started, numbers = time.monotonic(), table.rows
    rng = np.random.default_rng(options.seed)
    train, test = _split(y, options.test_size, preparation.task, rng)
    report: dict[str, Any] = {"rows": len(X), "rows_in_file": table.total, "held_out_rows": len(test)}
    with Limits(options.max_time) as limits:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            say(f"Learning from {counted(len(train), 'row')} of {counted(X.shape[1], 'column')} ...")
            fits = 2 if len(test) and options.inference == "mcmc" else 1
            learned = _learn(preparation, X.iloc[train], y[train], options, limits, fits)
            if len(test):
                score = regression_scores if preparation.task == "regression" else classification_scores
                with limits.optional("the scores were not computed"):
                    report["scores"] = score(learned.model, X.iloc[test], y[test], y[train])
                far = 0
                if not limits.interrupted:
                    with limits.optional("far rows were not looked for among those held out"):
                        far = _far_in_all(learned.model, X.iloc[test], y[test], options)
                    say("Learning from all rows ...")
                learned, used = _from_all_rows(learned, X, y, train, limits)
                if len(used) < len(X):
                    report |= {"rows": len(used), "held_out_rows": 0}
                    X, y, numbers = X.iloc[used], y[used], table.rows[used]
                elif far and not limits.interrupted:
                    say("Choosing the noise again: rows held out are far from what the others predict ...")
                    learned = _second_look(learned, preparation, X, y, far, options, limits)
                    if is_robust(learned.model.likelihood_):
                        del report["scores"]  # they are of the noise that was not chosen
                        report["held_out_rows"] = 0
                        with limits.optional(UNSCORED):
                            learned, some = _without_held_out(learned, X.iloc[train], y[train], limits)
                            if some is not None:
                                found = score(some, X.iloc[test], y[test], y[train])
                                report |= {"scores": found, "held_out_rows": len(test)}
        model = learned.model
        if learned.choice:
            report["choice"] = learned.choice
        report["warnings"] = _distinct([*learned.warnings, *_texts(caught)])
        report["seconds"] = time.monotonic() - started
        with limits.optional("the relevance of inputs was not computed"):
            report["relevance"] = relevance(model, preparation, X, options.seed)
        if preparation.task == "regression":
            with limits.optional("outliers were not looked for"):
                report["outliers"] = outliers(model, y, numbers)
            report["robust"] = is_robust(model.likelihood_)
        if limits.interrupted:
            kept = "Interrupted: the best values so far were kept"
            report["interrupted"] = "; ".join([kept, *limits.undone]) + "."
    return TableModel(preparation, model, report)


def _check_noise(name: str, preparation: Preparation, y: NDArray[Any], rows: NDArray[np.intp]) -> None:
    """Refuse a noise model that the target cannot have, with the row of the file."""
    if name == "auto" or preparation.task == "classification":
        return
    likelihood = as_likelihood(name)
    if isinstance(likelihood, BinaryLikelihood):
        raise TableError(
            f"{name} noise is for classes, and {preparation.target!r} is a number: use another --likelihood, or "
            "--task classification"
        )
    try:
        likelihood.check(np.asarray(y, dtype=float))
    except ValueError as error:
        raise TableError(with_row_numbers(str(error), rows)) from None


def with_row_numbers(text: str, rows: NDArray[np.intp]) -> str:
    """A sentence about a row of an array, counted from 0, as one about a row of the file."""
    return re.sub(r"\bat row (\d+)", lambda found: f"in row {rows[int(found[1])]}", text)


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
        raise TableError(f"--test-size {share:g} of {n} rows is less than one row; use a larger share, or 0")
    test = np.sort(np.array(held, dtype=np.intp))
    return np.setdiff1d(np.arange(n), test), test


# --- learning -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator, its warnings, and why its noise model was chosen where that was left open."""

    model: Any
    warnings: tuple[str, ...] = ()
    choice: str = ""


def _learn(
    preparation: Preparation, X: pd.DataFrame, y: NDArray[Any], options: Options, limits: Limits, fits: int
) -> Fitted:
    """A model of some rows, in the time for one of so many fits of about the same length that are to come."""
    if preparation.task == "classification":
        likelihood = "probit" if options.likelihood == "auto" else options.likelihood
        inference = "ep" if options.inference == "auto" else _inference(options)
        chosen = _options(preparation, options, 1) | {"likelihood": likelihood, "inference": inference}
        return _fit(GPClassifier(**chosen), X, y, limits, fits)
    if options.inference == "mcmc" and options.likelihood == "auto":
        # which noise suits the data is found without sampling
        found = _learn(preparation, X, y, replace(options, inference="auto", draws=None), limits, fits + 1)
        return _with_chains(found, preparation, X, y, options, limits, fits)
    shared = _options(preparation, options, 3) | {"inference": _inference(options)}
    if options.likelihood in ("gaussian", "noiseless"):
        return _fit(GPRegressor(likelihood=options.likelihood, **shared), X, y, limits, fits)
    if options.likelihood != "auto":
        return _fit(_robust(preparation, options, options.likelihood), X, y, limits, fits)
    robust = _robust(preparation, options)
    if options.inference not in ("auto", "exact"):
        why = f"Student-t noise, because Gaussian noise needs no --inference {options.inference}."
        return replace(_fit(robust, X, y, limits, fits), choice=why)
    plain = _fit(GPRegressor(likelihood="gaussian", **shared), X, y, limits, fits)
    with limits.optional(UNTRIED):
        count = int(np.sum(far_rows(_residuals(plain.model))))
        if not count:
            none = f"Gaussian noise: no row is more than {SURPRISING:g} sd from what the others predict."
            return replace(plain, choice=none)
        if options.inference != "exact":
            return _with_robust_trial(plain, robust, X, y, count, limits, fits)
    return plain


def _robust(preparation: Preparation, options: Options, likelihood: str = "student-t") -> GPRegressor:
    """An estimator with other than Gaussian noise; with fewer starts, because its runs cost ten times as much."""
    return GPRegressor(
        likelihood=likelihood, **_options(preparation, options, 1) | {"inference": _inference(options)}
    )


def _with_chains(
    found: Fitted,
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    options: Options,
    limits: Limits,
    fits: int,
) -> Fitted:
    """Draws under the noise that was found; what was found without them, where there is no time for any."""
    with limits.optional("nothing was drawn by Markov chains"):
        limits.raise_if_interrupted()
        try:
            chosen = replace(options, likelihood=found.model.likelihood)
            return replace(_learn(preparation, X, y, chosen, limits, fits), choice=found.choice)
        except TimeoutError as error:
            told = f"nothing was drawn by Markov chains: {_for_users(str(error))}"
            return replace(found, warnings=(*found.warnings, told))
    return found


def _with_robust_trial(
    plain: Fitted,
    robust: GPRegressor,
    X: pd.DataFrame,
    y: NDArray[Any],
    count: int,
    limits: Limits,
    fits: int = 1,
) -> Fitted:
    """Of Gaussian and Student-t noise that of the higher evidence, where so many rows are far off under the first."""
    far = _far_words(count)
    if limits.left == 0.0:
        why = f"Gaussian noise: {far}, but no time was left to try Student-t noise; give more --max-time."
        return replace(plain, choice=why)
    limits.raise_if_interrupted()
    try:
        tried = _fit(robust, X, y, limits, fits)
    except FAILURES as error:
        why = f"Gaussian noise: {far}, but Student-t noise could not be fitted ({_reason(error)})."
        return replace(plain, choice=why)
    gain = tried.model.log_evidence_ - plain.model.log_evidence_
    better, name = (tried, "Student-t noise") if gain > 0 else (plain, "Gaussian noise")
    why = (
        f"{name}: {far}, and the log evidence of Student-t noise is {'higher' if gain > 0 else 'lower'} by "
        f"{abs(gain):.1f}."
    )
    return replace(better, choice=why)


def _far_in_all(model: Any, X: pd.DataFrame, y: NDArray[Any], options: Options) -> int:
    """How many rows are far off, if the rows held out, X and y, are among them and the noise is Gaussian; else 0."""
    if options.likelihood != "auto" or options.inference == "exact" or not isinstance(model, GPRegressor):
        return 0
    if is_robust(model.likelihood_):
        return 0
    prediction = model.predict_dist(X)
    held_out = np.abs(y - prediction.mean) / np.sqrt(prediction.variance)
    far = far_rows(np.append(held_out, _residuals(model)))
    return int(np.sum(far)) if far[: len(y)].any() else 0


def _second_look(
    plain: Fitted,
    preparation: Preparation,
    X: pd.DataFrame,
    y: NDArray[Any],
    count: int,
    options: Options,
    limits: Limits,
) -> Fitted:
    """The choice of the noise again, with the rows that had been held out."""
    if draws_of(plain.model):  # they do not tell the evidence
        why = f"Gaussian noise, chosen without the rows held out: {_far_words(count)}; try --likelihood student-t."
        return replace(plain, choice=why)
    with limits.optional(UNTRIED):
        return _with_robust_trial(plain, _robust(preparation, options), X, y, count, limits)
    return plain


def _without_held_out(
    learned: Fitted, X: pd.DataFrame, y: NDArray[Any], limits: Limits
) -> tuple[Fitted, Any | None]:
    """The same estimator learned from the other rows, X and y, alone; None, with a warning, if that cannot be done."""
    limits.raise_if_interrupted()
    try:
        model = _fit(clone(learned.model), X, y, limits).model
        lost = "there was no time to learn without them; give more --max-time" if limits.left == 0.0 else ""
    except FAILURES as error:
        lost = f"the model could not be fitted without them ({_reason(error)})"
    limits.raise_if_interrupted()  # an estimator keeps what it has, which is not what was learned from all rows
    if not lost:
        return learned, model
    return replace(learned, warnings=(*learned.warnings, f"{UNSCORED}, because {lost}")), None


def _reason(error: Exception) -> str:
    """Why a fit failed, as a clause."""
    return _for_users((str(error).splitlines() or [type(error).__name__])[0].rstrip("."))


def _far_words(count: int) -> str:
    rows = "1 row is" if count == 1 else f"{count} rows are"
    return f"{rows} more than {SURPRISING:g} sd from what the others predict"


def _residuals(model: GPRegressor) -> Array:
    """Distances of the rows learned from to what the others predict, in sd."""
    loo, rows = model.leave_one_out(), model.rows_
    return np.asarray(np.abs(rows.y[rows.index] - loo.mean) / np.sqrt(loo.variance))


def _fit(model: Any, X: pd.DataFrame, y: NDArray[Any], limits: Limits, fits: int = 1) -> Fitted:
    """An estimator that has learned in the time that is left for each of so many, with the warnings of its own fit."""
    asked, left = model.max_time, limits.left
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.set_params(max_time=None if left is None else left / fits).fit(X, y)
    finally:
        model.set_params(max_time=asked)
    return Fitted(model, tuple(_texts(caught)))


def _texts(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """Warnings as sentences for users; what arithmetic mutters is nothing that a user could act on."""
    return [_for_users(str(w.message)) for w in caught if not issubclass(w.category, RuntimeWarning)]


def _inference(options: Options) -> Any:
    """The rule asked for; a sampler with the number of draws asked for, and as many steps before them as usual."""
    if options.draws is None:
        return options.inference
    return MCMC(draws=options.draws, warmup=int(np.ceil(WARMUP * options.draws)))


def _distinct(texts: Sequence[str]) -> list[str]:
    """The last of those that begin alike: the fit from all rows says it again, with numbers of its own."""
    return list({text[:ALIKE]: text for text in texts}.values())


def _for_users(warning: str) -> str:
    """A warning with remedies of the command line instead of those of Python."""
    for remedy, here in PYTHON_REMEDIES.items():
        warning = remedy.sub(here, warning)
    return in_options(warning)


def far_rows(residuals: Array) -> NDArray[np.bool_]:
    """Which residuals of rows that were not learned from, in sd, are surprising.

    Several outliers inflate the noise that was learned, and hide each other. Their sd is therefore also measured by
    the median of the residuals, which half of the rows would have to be wrong to move.
    """
    spread = min(float(np.median(residuals)) / MEDIAN_OF_NORMAL, 1.0)
    return np.asarray(residuals > SURPRISING * spread)


def _options(preparation: Preparation, options: Options, restarts: int) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "kernel": options.kernel if options.kernel is not None else preparation.kernel,
        "random_state": options.seed,
        "n_restarts": restarts if options.n_restarts is None else options.n_restarts,
        "max_time": options.max_time,
    }
    if options.mean is not None:
        chosen["mean"] = options.mean
    return chosen


def _from_all_rows(
    learned: Fitted, X: pd.DataFrame, y: NDArray[Any], train: NDArray[np.intp], limits: Limits
) -> tuple[Fitted, NDArray[np.intp]]:
    """The same estimator learned from all rows, starting from the values it has, and the rows it has learned from.

    After Ctrl-C, where that fails, and where there is no time for as many draws again, it stays as it is, learned from
    those of `train`.
    """
    model, undone = copy(learned.model), "rows held out for the scores were not learned from"
    no_time = f"{undone}, because there was no time for as many draws again; give more --max-time"
    with limits.optional(undone):
        limits.raise_if_interrupted()
        try:
            again = _fit(model.set_params(warm_start=True, n_restarts=0), X, y, limits)
        except TimeoutError:
            return replace(learned, warnings=(*learned.warnings, no_time)), train
        except FAILURES as error:
            failed = f"{undone}, because the model could not be fitted with them ({_reason(error)})"
            return replace(learned, warnings=(*learned.warnings, failed)), train
        model.set_params(warm_start=False, n_restarts=learned.model.n_restarts)
        if _cut_short(model) and not _cut_short(learned.model):
            limits.raise_if_interrupted()
            return replace(learned, warnings=(*learned.warnings, no_time)), train
        told = (*learned.warnings, *again.warnings)
        return replace(learned, model=model, warnings=told), np.arange(len(X))
    return learned, train


def _cut_short(model: Any) -> bool:
    """Whether it is made of draws that were stopped before they were enough."""
    return any(one.trace.stopped and not one.status.converged for one in draws_of(model))


# --- what the model says about the data ---------------------------------------------------------------------


def relevance(model: Any, preparation: Preparation, X: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """Share of the variance of predictions that is due to each column of the table, with its error; largest first.

    The total Sobol index of `cavity.plots.relevance_of`, with the 0/1 columns of a text column taken together.
    """
    from cavity.plots import relevance_of

    place = {name: i for i, name in enumerate(X.columns)}
    groups = [[place[feature] for feature in column.features] for column in preparation.columns]
    shuffles = SHUFFLES_OF_DRAWS if draws_of(model) else SHUFFLES
    share = relevance_of(model, X.to_numpy(), shuffles=shuffles, seed=seed, groups=groups)
    found = [
        {"column": column.name, "share": float(value), "error": float(error)}
        for column, value, error in zip(preparation.columns, share.value, share.error)
    ]
    return sorted(found, key=lambda one: -one["share"])


def draws_of(estimator: Any) -> list[SamplePosterior]:
    """The posteriors of an estimator that are made of draws."""
    found = [member.posterior for member in estimator.members_]
    return [posterior for posterior in found if isinstance(posterior, SamplePosterior)]


def outliers(model: GPRegressor, y: Array, rows: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Rows that are probably outliers, the most probable first."""
    probability = model.outlier_probability_
    least = LIKELY if is_robust(model.likelihood_) else UNEXPECTED
    order = np.argsort(-probability, kind="stable")
    chosen = [int(i) for i in order if probability[i] > least][:LISTED_OUTLIERS]
    return [{"row": int(rows[i]), "value": float(y[i]), "probability": float(probability[i])} for i in chosen]


def hyperparameters(model: TableModel) -> list[dict[str, Any]]:
    """Every hyperparameter with its value, the column it belongs to, and what it means in the user's units.

    Of draws, the value is that of their mean (in the units that were sampled), and `interval` holds 90 % of them.
    """
    estimator, preparation = model.estimator, model.preparation
    found = []
    for member in estimator.members_:
        one, drawn = member.model, _intervals(member.posterior)
        described = dict(_column_names(one.kernel, preparation.features))
        for entry, value in zip(one.entries, one.flat):
            found.append(
                {
                    "problem": member.name,
                    "name": entry.name,
                    "value": float(value),
                    "fixed": bool(entry.fixed),
                    "interval": drawn.get(entry.name),
                    "meaning": _meaning(entry.name, float(value), preparation, described.get(entry.name)),
                }
            )
    return found


def _intervals(posterior: Any) -> dict[str, tuple[float, float]]:
    """Central interval of 90 % of the draws of each hyperparameter; nothing where none were drawn."""
    if not isinstance(posterior, SamplePosterior) or not posterior.trace.dim:
        return {}
    low, high = np.quantile(posterior.natural, [0.05, 0.95], axis=(0, 1))
    return {n: (float(a), float(b)) for n, a, b in zip(posterior.draws.model.names, low, high)}


def _meaning(name: str, value: float, preparation: Preparation, feature: str | None) -> str:
    kind = name.split(".")[-1].split("[")[0]
    if feature is not None:
        if kind not in ("lengthscale", "period"):
            return f"for {feature}"
        unit = preparation.units.get(feature)
        return f"in units of {feature}" if unit is None else f"in {unit.split()[0]}, of {feature}"
    if kind == "variance" and preparation.task == "regression" and value >= 0:
        return f"sd {np.sqrt(value):.4g} in units of {preparation.target}"
    if kind in ("scale", "value") and preparation.task == "regression":
        return f"in units of {preparation.target}"
    return ""


def _column_names(kernel: Any, features: Sequence[str]) -> list[tuple[str, str]]:
    """(parameter, input column) of each value that belongs to one column."""
    numbered = list(kernel._paths()) if hasattr(kernel, "_paths") else []
    found: list[tuple[str, str]] = []
    paths = iter(numbered)

    def walk(node: Any, names: Sequence[str]) -> None:
        for name, param in node._params.items():
            path = next(paths)
            if name not in node._columnwise:
                continue
            if np.ndim(param.value) == 1 and len(param.value) == len(names):
                found.extend((f"{path}[{i}]", feature) for i, feature in enumerate(names))
            elif np.ndim(param.value) == 0 and len(names) == 1:
                found.append((path, names[0]))
        dims = getattr(node, "dims", None)
        inner: Sequence[str] = (
            [names[d] for d in dims] if dims is not None and all(isinstance(d, int) for d in dims) else names
        )
        if isinstance(node, Periodic | Warped):
            inner = ()  # other inputs: on a circle, or of a function
        for part in node._parts:
            walk(part, inner)

    walk(kernel, features)
    return found
