"""Estimators in model files: their parameters, and what a fit found.

What an inference rule remembered of a run of the optimizer (`Run.memory`) is not stored; nothing needs it after the
fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from cavity.estimators.classifier import GPClassifier
from cavity.estimators.fitted_regressor import ROW_FORMS
from cavity.estimators.members import Member
from cavity.estimators.multiclass import STRATEGIES, Binary, OneModel, Strategy
from cavity.estimators.outputs import CoregionalizedRegressor
from cavity.estimators.regressor import GPRegressor
from cavity.estimators.stacking import SCORE, WEIGHTS, StackedRegressor
from cavity.frames.coding import Coding
from cavity.frames.files import all_of
from cavity.gp import GP
from cavity.inference.kronecker import Kronecker
from cavity.io.posterior import is_array, is_float, require
from cavity.io.registry import Codec, add
from cavity.kernels import Kernel
from cavity.learning.choice import Candidate, Choice
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.training_rows import TrainingRows
from cavity.posterior import Posterior
from cavity.runtime.errors import Message
from cavity.runtime.stop_reason import StopReason
from cavity.sampling.posterior import SamplePosterior

# --- what estimators are made of ----------------------------------------------------------------------------

POSTERIORS = (Posterior, SamplePosterior)

ROWS = ("X", "y", "weight", "index", "own", "source")


def _rows(**fields: Any) -> TrainingRows:
    rows = TrainingRows(**fields)
    n = len(rows.X)
    require(
        is_array(rows.X, 2) and is_array(rows.y) and len(rows.y) == n, "rows must have inputs and targets"
    )
    require(
        rows.weight is None or (is_array(rows.weight, 1) and len(rows.weight) == n), "weights must be numbers"
    )
    require(_is_index(rows.index, -1, n), "index must hold row numbers")
    require(
        rows.own is None or (is_array(rows.own, 1) and len(rows.own) == len(rows.index)),
        "own must be weights",
    )
    fits = rows.source is None or (_is_index(rows.source, 0, len(rows.index)) and len(rows.source) == n)
    require(fits, "source must hold row numbers")
    return rows


def _is_index(value: Any, least: int, below: int) -> bool:
    right = isinstance(value, np.ndarray) and value.dtype == np.intp and value.ndim == 1
    return right and bool(((value >= least) & (value < below)).all())


RUN = ("kind", "start", "theta", "value", "converged", "evaluations", "failures", "message")


def _run(**fields: Any) -> Run:
    run = Run(**{name: fields[name] for name in RUN}, given_up=fields.get("given_up", False))
    require(isinstance(run.kind, str) and isinstance(run.message, str), "a run has a kind and a message")
    require(
        is_array(run.start, 1) and is_array(run.theta, 1) and is_float(run.value),
        "a run has a start and an end",
    )
    require(
        isinstance(run.converged, bool) and isinstance(run.given_up, bool), "a run converged or was given up"
    )
    require(
        isinstance(run.evaluations, int) and isinstance(run.failures, int), "a run counts its evaluations"
    )
    return run


def _search(model: Any, value: Any, runs: Any, stopped: Any) -> SearchResult:
    require(isinstance(model, GP) and is_float(value), "learning gave a model")
    require(all_of(Run, runs), "learning has runs")
    return SearchResult(model, value, runs, StopReason.of(stopped))


def _member(name: Any, search: Any, posterior: Any, rows: Any) -> Member:
    kinds = (
        isinstance(search, SearchResult)
        and isinstance(posterior, POSTERIORS)
        and isinstance(rows, TrainingRows)
    )
    require(isinstance(name, str) and kinds, "a member has a name, a model, a posterior and rows")
    return Member(name, search, posterior, rows)


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


add(Codec("TrainingRows", TrainingRows, _fields(*ROWS), _rows))
add(Codec("Run", Run, _fields(*RUN, "given_up"), _run))


def _search_fields(search: SearchResult) -> dict[str, Any]:
    stopped = None if search.stopped is None else search.stopped.value
    return {"model": search.model, "value": search.value, "runs": search.runs, "stopped": stopped}


add(Codec("SearchResult", SearchResult, _search_fields, _search))
add(Codec("Member", Member, _fields("name", "search", "posterior", "rows"), _member))


# --- the kind of model that was chosen ----------------------------------------------------------------------


def _candidate(name: Any, log_density: Any, chosen: Any) -> Candidate:
    numbers = is_float(log_density) and isinstance(chosen, bool)
    require(isinstance(name, str) and numbers, "a candidate has a name and a density")
    return Candidate(name, log_density, chosen)


def _choice(chosen: Any, reasons: Any, candidates: Any, override: Any) -> Choice:
    sentences = isinstance(chosen, Message) and isinstance(override, Message) and all_of(Message, reasons)
    require(sentences and all_of(Candidate, candidates), "a choice is made of messages and candidates")
    return Choice(chosen, reasons, candidates, override)


add(Codec("Candidate", Candidate, _fields("name", "log_density", "chosen"), _candidate))
add(Codec("Choice", Choice, _fields("chosen", "reasons", "candidates", "override"), _choice))


# --- estimators ---------------------------------------------------------------------------------------------

COLUMNS = ("n_features_in_", "feature_names_in_", "coding_")


def _new(kind: type, parameters: Any, columns: Any, model_key: Any, choice: Any) -> Any:
    """An estimator with its parameters and what it knows of the columns."""
    require(isinstance(parameters, dict), "parameters must be a table")
    known = set(kind().get_params(deep=False))
    require(set(parameters) <= known, f"{sorted(map(str, set(parameters) - known))[:3]} are no parameters")
    require(isinstance(model_key, tuple), "what tells the model from others must be known")
    model = kind(**parameters)
    _set_columns(model, columns)
    model._model_key = model_key
    require(choice is None or isinstance(choice, Choice), "a choice has reasons")
    if choice is not None:
        model.choice_ = choice
    return model


def _set_columns(model: Any, columns: Any) -> None:
    """What an estimator knows of the columns of its inputs."""
    require(isinstance(columns, dict) and set(columns) <= set(COLUMNS), "columns must be known")
    require(isinstance(columns.get("n_features_in_"), int), "the number of columns must be known")
    names = columns.get("feature_names_in_")
    if names is not None:
        right = (
            isinstance(names, np.ndarray) and names.dtype == object and all(isinstance(n, str) for n in names)
        )
        require(right and len(names) == columns["n_features_in_"], "column names must be texts")
    coding = columns.get("coding_")
    fits = isinstance(coding, Coding) and len(coding.given) == columns["n_features_in_"]
    require(coding is None or fits, "a coding is of the columns given")
    for name, value in {"coding_": None, **columns}.items():
        setattr(model, name, value)


def _columns(model: Any) -> dict[str, Any]:
    return {name: getattr(model, name) for name in COLUMNS if hasattr(model, name)}


def _common(model: Any) -> dict[str, Any]:
    return {
        "parameters": model.get_params(deep=False),
        "columns": _columns(model),
        "model_key": model._model_key,
        "choice": getattr(model, "choice_", None),
    }


def _regressor_fields(model: GPRegressor) -> dict[str, Any]:
    return {
        **_common(model),
        "member": model.members_[0],
        "without_own_row": model._cavities,
        "inflation": getattr(model, "inflation_", None),
        "form": model._form,
    }


def _regressor(
    parameters: Any,
    columns: Any,
    model_key: Any,
    choice: Any,
    member: Any,
    without_own_row: Any,
    inflation: Any,
    form: Any = "inputs",
) -> GPRegressor:
    model: GPRegressor = _new(GPRegressor, parameters, columns, model_key, choice)
    require(isinstance(member, Member), "a regressor has a fitted model")
    rows = member.rows
    require(form in ROW_FORMS, "rows of the model must be of a known form")
    model._form = form
    _check_data(member.posterior, rows, model)
    if without_own_row is not None:
        pair = isinstance(without_own_row, tuple) and len(without_own_row) == 2
        used = int(np.sum(rows.index >= 0))
        fits = pair and all(is_array(part, 1) and len(part) == used for part in without_own_row)
        require(fits, "what is left without a row must be known for each")
    model._adopt(member)
    model._cavities = without_own_row
    require(inflation is None or is_float(inflation), "inflation must be a number")
    if inflation is not None:
        model.inflation_ = inflation
    return model


def _outputs_fields(model: CoregionalizedRegressor) -> dict[str, Any]:
    found = model.posterior_
    return {
        "parameters": model.get_params(deep=False),
        "columns": _columns(model),
        "names": list(model.output_names_),
        "posterior": found if isinstance(found, Posterior) else None,
        "complete": None
        if isinstance(found, Posterior)
        else {name: getattr(found, name) for name in COMPLETE},
        "table": model.table_,
    }


COMPLETE = ("kernel", "table", "noise", "X", "Y", "constants")


def _outputs(parameters: Any, columns: Any, names: Any, posterior: Any, complete: Any, table: Any) -> Any:
    require(isinstance(parameters, dict), "parameters must be a table")
    known = set(CoregionalizedRegressor().get_params(deep=False))
    require(set(parameters) <= known, "there are parameters that the estimator does not have")
    model = CoregionalizedRegressor(**parameters)
    _set_columns(model, columns)
    require(
        isinstance(names, list) and len(names) >= 2 and all(isinstance(n, str) for n in names),
        "outputs have names",
    )
    p = len(names)
    require(is_array(table, 2) and table.shape == (p, p), "there is a covariance for each pair of outputs")
    model.output_names_, model.table_ = list(names), table
    if complete is None:
        require(isinstance(posterior, Posterior), "a fitted model has a posterior")
        model.posterior_ = posterior
    else:
        require(isinstance(complete, dict) and set(complete) == set(COMPLETE), "a Kronecker model is whole")
        shapes = [is_array(complete[name], 2) for name in ("table", "noise", "X", "Y")]
        fits = all(shapes) and complete["table"].shape == complete["noise"].shape == (p, p)
        rows = fits and complete["Y"].shape == (len(complete["X"]), p)
        require(rows and isinstance(complete["kernel"], Kernel), "a Kronecker model has a kernel and rows")
        require(isinstance(complete["constants"], bool), "outputs have constants or not")
        model.posterior_ = Kronecker(**complete)
        model.noise_covariance_ = complete["noise"]
    model.log_evidence_ = model.posterior_.log_evidence
    return model


def _check_data(posterior: Any, rows: TrainingRows, model: Any) -> None:
    width = model.n_features_in_ if model.coding_ is None else len(model.coding_.features)
    form = ROW_FORMS[getattr(model, "_form", "inputs")]
    right = rows.X.shape[1] == form(np.zeros((1, width))).shape[1]
    same = np.array_equal(posterior.data.X, rows.X) and np.array_equal(posterior.data.y, rows.y)
    require(right and same, "rows and posterior must have the same data")


def _classifier_fields(model: GPClassifier) -> dict[str, Any]:
    return {
        **_common(model),
        "classes": model.classes_,
        "strategy": model._strategy_.name,
        "members": list(model.members_),
    }


def _classifier(
    parameters: Any, columns: Any, model_key: Any, choice: Any, classes: Any, strategy: Any, members: Any
) -> GPClassifier:
    model: GPClassifier = _new(GPClassifier, parameters, columns, model_key, choice)
    known: dict[str, type[Strategy]] = {Binary.name: Binary, **STRATEGIES}
    require(isinstance(strategy, str) and strategy in known, f"{str(strategy)[:40]!r} is no strategy")
    labels = isinstance(classes, np.ndarray) and classes.ndim == 1 and len(classes) >= 2
    require(labels, "a classifier has two or more classes")
    chosen = known[strategy]()
    require(
        isinstance(members, list) and all(isinstance(m, Member) for m in members), "members must be members"
    )
    wanted = len(chosen.problems(np.arange(len(classes)), classes))
    require(len(members) == wanted, f"{strategy} of {len(classes)} classes has {wanted} members")
    for member in members:
        _check_data(member.posterior, member.rows, model)
        latents = member.posterior.model.likelihood.n_latent
        wanted = len(classes) if isinstance(chosen, OneModel) else 1
        require(latents == wanted, "classes and latent functions differ")
    require((strategy == Binary.name) == (len(classes) == 2), f"{strategy} is not for {len(classes)} classes")
    model.classes_ = classes
    model._adopt(chosen, members)
    return model


def _stacked_fields(model: StackedRegressor) -> dict[str, Any]:
    return {
        "columns": _columns(model),
        "names": list(model.named_estimators_),
        "members": list(model.estimators_),
        "weights": model.weights_,
        "by": model.weights,
        "scores": model.comparison_[SCORE].to_numpy(),
    }


def _stacked(columns: Any, names: Any, members: Any, weights: Any, by: Any, scores: Any) -> StackedRegressor:
    right = isinstance(members, list) and all(isinstance(m, GPRegressor) for m in members)
    require(right and len(members) > 0, "members must be regressors")
    texts = isinstance(names, list) and all(isinstance(n, str) for n in names)
    require(texts and len(set(names)) == len(members) == len(names), "each member has a name of its own")
    shares = is_array(weights, 1) and len(weights) == len(members) and bool((weights >= 0).all())
    require(shares and abs(float(weights.sum()) - 1.0) < 1e-9, "weights must add up to one")
    require(is_array(scores, 1) and len(scores) == len(members) + 1, "each member has a score")
    require(by in WEIGHTS, "weights must follow left-out rows or the evidence")
    model = StackedRegressor([(name, clone(member)) for name, member in zip(names, members)], weights=by)
    _set_columns(model, columns)
    same = all(m.n_features_in_ == model.n_features_in_ for m in members)
    require(same, "members must have the same columns")
    model._adopt(names, members, weights, scores)
    return model


add(Codec("GPRegressor", GPRegressor, _regressor_fields, _regressor))
add(Codec("CoregionalizedRegressor", CoregionalizedRegressor, _outputs_fields, _outputs))
add(Codec("GPClassifier", GPClassifier, _classifier_fields, _classifier))
add(Codec("StackedRegressor", StackedRegressor, _stacked_fields, _stacked))
