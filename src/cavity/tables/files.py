"""Models of tables in model files."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

from cavity.estimators import CoregionalizedRegressor, GPClassifier, GPRegressor
from cavity.frames.coding import Coding
from cavity.frames.columns import Column
from cavity.frames.files import all_of, is_count
from cavity.frames.notes import Note
from cavity.frames.numbers import NumberStyle
from cavity.io.posterior import is_float, require
from cavity.io.registry import Codec, add
from cavity.learning.choice import Choice
from cavity.runtime.errors import Message
from cavity.tables.fit_report import (
    Baseline,
    ClassificationScores,
    FitReport,
    Outlier,
    RegressionScores,
    Relevance,
    Scores,
)
from cavity.tables.model import TableModel
from cavity.tables.outputs import Output, OutputsModel, OutputsReport
from cavity.tables.preparation import TASKS, Preparation


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


def _preparation(
    target: Any,
    task: Any,
    columns: Any,
    ignored: Any,
    numeric_labels: Any,
    notes: Any,
    target_style: Any = None,
) -> Preparation:
    require(isinstance(target, str) and task in TASKS, "a preparation has a target and a task")
    listed = isinstance(columns, tuple) and columns and all(isinstance(c, Column) for c in columns)
    require(bool(listed), "a preparation has columns")
    require(all_of(str, ignored) and isinstance(numeric_labels, bool), "columns that are not used have names")
    require(all_of(Note, notes), "notes must be notes")
    styled = target_style is None or isinstance(target_style, NumberStyle)
    require(styled, "how the target is written must be known")
    return Preparation(target, task, columns, ignored, numeric_labels, notes, target_style)


# --- what was found at the fit ------------------------------------------------------------------------------


def _regression_scores(coverage: Any, **scores: Any) -> RegressionScores:
    require(all(map(is_float, scores.values())), "scores must be numbers")
    pairs = isinstance(coverage, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(is_float, pair)) and 0 < pair[0] < 1
        for pair in coverage
    )
    require(pairs, "coverage is of intervals with a probability")
    return RegressionScores(**scores, coverage=coverage)


def _classification_scores(confusion: Any, reliability: Any, **scores: Any) -> ClassificationScores:
    require(all(map(is_float, scores.values())), "scores must be numbers")
    square = all_of(tuple, confusion) and all(len(row) == len(confusion) for row in confusion)
    require(square and all(map(is_count, sum(confusion, ()))), "rows are counted by true and by chosen class")
    groups = all_of(tuple, reliability) and all(
        len(group) == 3 and is_float(group[0]) and all(map(is_count, group[1:])) for group in reliability
    )
    require(groups, "reliability is that of groups of rows")
    return ClassificationScores(**scores, confusion=confusion, reliability=reliability)


def _relevance(column: Any, share: Any, error: Any, shape: Any, highest: Any, lowest: Any) -> Relevance:
    words = all(isinstance(word, str) for word in (column, shape, highest, lowest))
    require(words and is_float(share) and is_float(error), "relevance is that of a column")
    return Relevance(column, share, error, shape, highest, lowest)


def _outlier(row: Any, value: Any, probability: Any) -> Outlier:
    require(is_count(row) and is_float(value) and is_float(probability), "an outlier is a row of the file")
    return Outlier(row, value, probability)


def _baseline(name: Any, error: Any, nlp: Any, seconds: Any, median_error: Any) -> Baseline:
    some = all(one is None or is_float(one) for one in (nlp, median_error))
    require(
        isinstance(name, str) and is_float(error) and is_float(seconds) and some,
        "a baseline has a name and scores",
    )
    return Baseline(name, error, nlp, seconds, median_error)


def _report(**found: Any) -> FitReport:
    report = FitReport(**found)
    counts = (report.rows, report.rows_in_file, report.held_out_rows)
    require(all(map(is_count, counts)) and is_float(report.seconds), "a report counts its rows")
    require(report.choice is None or isinstance(report.choice, Choice), "a choice has reasons")
    require(all_of(Baseline, report.baselines), "baselines must be those of a fit")
    require(all_of(Message, report.warnings) and all_of(str, report.undone), "warnings must be messages")
    require(
        isinstance(report.robust, bool) and isinstance(report.interrupted, bool), "flags are true or false"
    )
    require(report.scores is None or isinstance(report.scores, Scores), "scores must be those of a fit")
    require(report.relevance is None or all_of(Relevance, report.relevance), "relevance is that of columns")
    require(report.outliers is None or all_of(Outlier, report.outliers), "outliers must be rows")
    return report


for _kind, _build in (
    (RegressionScores, _regression_scores),
    (ClassificationScores, _classification_scores),
    (Relevance, _relevance),
    (Outlier, _outlier),
    (Baseline, _baseline),
    (FitReport, _report),
):
    add(Codec(_kind.__name__, _kind, _fields(*(field.name for field in fields_of(_kind))), _build))


# --- the model ----------------------------------------------------------------------------------------------


def _model(preparation: Any, estimator: Any, report: Any) -> TableModel:
    require(isinstance(preparation, Preparation), "a table has a preparation")
    require(isinstance(report, FitReport), "the report is not that of a fit; fit the model again")
    kind = GPClassifier if preparation.task == "classification" else GPRegressor
    require(isinstance(estimator, kind), f"a {preparation.task} needs a {kind.__name__}")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == preparation.features, "the columns of the table and of the model differ")
    return TableModel(preparation, estimator, report)


add(
    Codec(
        "Preparation",
        Preparation,
        _fields("target", "task", "columns", "ignored", "numeric_labels", "notes", "target_style"),
        _preparation,
    )
)
add(Codec("TableModel", TableModel, _fields("preparation", "estimator", "report"), _model))


# --- several targets ----------------------------------------------------------------------------------------


def _output(name: Any, style: Any, noise: Any) -> Output:
    styled = style is None or isinstance(style, NumberStyle)
    require(isinstance(name, str) and isinstance(noise, str) and styled, "an output has a name and noise")
    return Output(name, style, noise)


def _outputs_report(**found: Any) -> OutputsReport:
    report = OutputsReport(**found)
    require(is_count(report.rows) and is_float(report.seconds), "a report counts its rows")
    require(all_of(FitReport, report.each) and all_of(Message, report.warnings), "every output has a report")
    require(
        isinstance(report.by_row, bool) and isinstance(report.interrupted, bool), "flags are true or false"
    )
    return report


def _outputs_model(coding: Any, outputs: Any, estimator: Any, report: Any) -> OutputsModel:
    require(isinstance(coding, Coding) and all_of(Output, outputs), "several targets have names and inputs")
    require(isinstance(estimator, CoregionalizedRegressor), "several targets need a CoregionalizedRegressor")
    require(
        isinstance(report, OutputsReport) and len(report.each) == len(outputs), "every output has a report"
    )
    require([one.name for one in outputs] == list(estimator.output_names_), "targets and outputs differ")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == coding.features, "the columns of the table and of the model differ")
    return OutputsModel(coding, outputs, estimator, report)


for _several, _made in ((Output, _output), (OutputsReport, _outputs_report), (OutputsModel, _outputs_model)):
    add(Codec(_several.__name__, _several, _fields(*(f.name for f in fields_of(_several))), _made))
