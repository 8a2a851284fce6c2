"""Models of tables in model files."""

from __future__ import annotations

import cavity.estimators.files  # noqa: F401  # which registers what a model is made of
from cavity.estimators import CoregionalizedRegressor, GPClassifier, GPRegressor
from cavity.io.records import require, store
from cavity.tables.fit_report import (
    Baseline,
    ClassificationScores,
    FitReport,
    Outlier,
    RegressionScores,
    Relevance,
)
from cavity.tables.model import TableModel
from cavity.tables.outputs import Output, OutputsModel, OutputsReport
from cavity.tables.preparation import TASKS, Preparation


def _check_preparation(made: Preparation) -> None:
    require(made.task in TASKS and len(made.columns) > 0, "a preparation has a task and columns")


store(Preparation, _check_preparation)


# --- what was found at the fit ------------------------------------------------------------------------------


def _check_coverage(scores: RegressionScores) -> None:
    require(all(0 < level < 1 for level, _ in scores.coverage), "coverage is of intervals with a probability")


def _check_confusion(scores: ClassificationScores) -> None:
    square = all(len(row) == len(scores.confusion) for row in scores.confusion)
    require(square, "rows are counted by true and by chosen class")


store(RegressionScores, _check_coverage)
store(ClassificationScores, _check_confusion)
for _kind in (Relevance, Outlier, Baseline, FitReport):
    store(_kind)


# --- the model ----------------------------------------------------------------------------------------------


def _check_model(model: TableModel) -> None:
    task, estimator = model.preparation.task, model.estimator
    kind = GPClassifier if task == "classification" else GPRegressor
    require(isinstance(estimator, kind), f"a {task} needs a {kind.__name__}")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == model.preparation.features, "the columns of the table and of the model differ")


store(TableModel, _check_model)


# --- several targets ----------------------------------------------------------------------------------------


def _check_outputs(model: OutputsModel) -> None:
    estimator = model.estimator
    require(isinstance(estimator, CoregionalizedRegressor), "several targets need a CoregionalizedRegressor")
    require(len(model.report.each) == len(model.outputs), "every output has a report")
    require(model.names == list(estimator.output_names_), "targets and outputs differ")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == model.coding.features, "the columns of the table and of the model differ")


store(Output)
store(OutputsReport)
store(OutputsModel, _check_outputs)
