"""Estimators in model files: their parameters, and what a fit found.

What an inference rule remembered of a run of the optimizer (`Run.memory`) is not stored; nothing needs it after the
fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

import cavity.frames.files  # noqa: F401  # which registers codings and messages
from cavity.estimators.classifier import GPClassifier
from cavity.estimators.fitted_regressor import ROW_FORMS
from cavity.estimators.members import Member
from cavity.estimators.multiclass import STRATEGIES, Binary, OneModel, Strategy
from cavity.estimators.outputs import CoregionalizedRegressor
from cavity.estimators.regressor import GPRegressor
from cavity.estimators.stacking import SCORE, WEIGHTS, StackedRegressor
from cavity.frames.coding import Coding
from cavity.gp import GP
from cavity.inference.kronecker import Kronecker
from cavity.io.errors import ModelFileError
from cavity.io.records import is_array, require, store, typed
from cavity.io.registry import Codec, add
from cavity.kernels import Kernel
from cavity.learning.choice import Candidate, Choice
from cavity.learning.multistart import SearchResult
from cavity.learning.optimizer import Run
from cavity.learning.training_rows import TrainingRows
from cavity.numerics.arrays import Array
from cavity.posterior import Posterior
from cavity.sampling.posterior import SamplePosterior

# --- what estimators are made of ----------------------------------------------------------------------------


def _check_rows(rows: TrainingRows) -> None:
    n, given = len(rows.X), len(rows.index)
    require(rows.X.ndim == 2 and len(rows.y) == n, "rows must have inputs and targets")
    require(rows.weight is None or rows.weight.shape == (n,), "weights must be numbers")
    require(_is_index(rows.index, -1, n), "index must hold row numbers")
    require(rows.own is None or rows.own.shape == (given,), "own must be weights")
    fits = rows.source is None or (_is_index(rows.source, 0, given) and len(rows.source) == n)
    require(fits, "source must hold row numbers")


def _is_index(rows: NDArray[np.intp], least: int, below: int) -> bool:
    return rows.ndim == 1 and bool(((rows >= least) & (rows < below)).all())


def _check_run(run: Run) -> None:
    require(run.start.ndim == run.theta.ndim == 1, "a run has a start and an end")


store(TrainingRows, _check_rows)
store(Run, _check_run, without=("warm", "beyond"))
store(SearchResult, known={"GP": GP})
store(Member, known={"Posterior": Posterior | SamplePosterior})


# --- the kind of model that was chosen ----------------------------------------------------------------------


store(Candidate)
store(Choice)


# --- estimators ---------------------------------------------------------------------------------------------

Table = dict[str, Any]

COLUMNS = ("n_features_in_", "feature_names_in_", "coding_")


def _new(
    kind: type, parameters: Table, columns: Table, model_key: tuple[Any, ...], choice: Choice | None
) -> Any:
    """An estimator with its parameters and what it knows of the columns."""
    known = set(kind().get_params(deep=False))
    require(set(parameters) <= known, f"{sorted(map(str, set(parameters) - known))[:3]} are no parameters")
    model = kind(**parameters)
    _set_columns(model, columns)
    model._model_key = model_key
    if choice is not None:
        model.choice_ = choice
    return model


def _set_columns(model: Any, columns: Table) -> None:
    """What an estimator knows of the columns of its inputs."""
    require(set(columns) <= set(COLUMNS), "columns must be known")
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
    check_is_fitted(model, "members_")
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


@typed
def _regressor(
    parameters: Table,
    columns: Table,
    model_key: tuple[Any, ...],
    choice: Choice | None,
    member: Member,
    without_own_row: Any,
    inflation: float | None,
    form: str = "inputs",
) -> GPRegressor:
    model: GPRegressor = _new(GPRegressor, parameters, columns, model_key, choice)
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
    if inflation is not None:
        model.inflation_ = inflation
    return model


def _outputs_fields(model: CoregionalizedRegressor) -> dict[str, Any]:
    check_is_fitted(model, "posterior_")
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


@typed
def _outputs(
    parameters: Table,
    columns: Table,
    names: list[str],
    posterior: Posterior | None,
    complete: Table | None,
    table: Array,
) -> Any:
    known = set(CoregionalizedRegressor().get_params(deep=False))
    require(set(parameters) <= known, "there are parameters that the estimator does not have")
    model = CoregionalizedRegressor(**parameters)
    _set_columns(model, columns)
    p = len(names)
    require(p >= 2, "there are several outputs")
    require(table.shape == (p, p), "there is a covariance for each pair of outputs")
    model.output_names_, model.table_ = list(names), table
    if complete is None:
        if posterior is None:
            raise ModelFileError("a fitted model has a posterior")
        model.posterior_ = posterior
    else:
        require(set(complete) == set(COMPLETE), "a Kronecker model is whole")
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


@typed
def _classifier(
    parameters: Table,
    columns: Table,
    model_key: tuple[Any, ...],
    choice: Choice | None,
    classes: NDArray[Any],
    strategy: str,
    members: list[Member],
) -> GPClassifier:
    model: GPClassifier = _new(GPClassifier, parameters, columns, model_key, choice)
    known: dict[str, type[Strategy]] = {Binary.name: Binary, **STRATEGIES}
    require(strategy in known, f"{strategy[:40]!r} is no strategy")
    require(classes.ndim == 1 and len(classes) >= 2, "a classifier has two or more classes")
    chosen = known[strategy]()
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
    check_is_fitted(model, "weights_")
    return {
        "columns": _columns(model),
        "names": list(model.named_estimators_),
        "members": list(model.estimators_),
        "weights": model.weights_,
        "by": model.weights,
        "scores": model.comparison_[SCORE].to_numpy(),
    }


@typed
def _stacked(
    columns: Table, names: list[str], members: list[GPRegressor], weights: Array, by: str, scores: Array
) -> StackedRegressor:
    n = len(members)
    require(n > 0 and len(set(names)) == len(names) == n, "each member has a name of its own")
    shares = weights.shape == (n,) and bool((weights >= 0).all())
    require(shares and abs(float(weights.sum()) - 1.0) < 1e-9, "weights must add up to one")
    require(scores.shape == (n + 1,), "each member has a score")
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
