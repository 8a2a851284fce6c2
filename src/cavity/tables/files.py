"""Models of tables in model files."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

from cavity.estimators import GPClassifier, GPRegressor
from cavity.io.posterior import is_float, require
from cavity.io.registry import Codec, add
from cavity.runtime.errors import InPython, Message, Setting
from cavity.tables.columns import Column
from cavity.tables.dates import UNIT
from cavity.tables.fit_report import (
    ClassificationScores,
    FitReport,
    Outlier,
    RegressionScores,
    Relevance,
    Scores,
)
from cavity.tables.model import TableModel
from cavity.tables.notes import Level, Note
from cavity.tables.preparation import TASKS, Preparation


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


def _column(name: Any, levels: Any, codes: Any, fill: Any, unit: Any = "") -> Column:
    require(isinstance(name, str) and isinstance(codes, bool), "a column has a name")
    dated = isinstance(unit, str) and levels is None and UNIT.fullmatch(unit) is not None
    require(unit == "" or dated, "the unit of a column must be one of dates")
    texts = isinstance(levels, tuple) and len(levels) >= 1 and all(isinstance(level, str) for level in levels)
    require(
        levels is None or (texts and list(levels) == sorted(set(levels))), "levels must be different texts"
    )
    kind = float if levels is None else str
    require(fill is None or isinstance(fill, kind), "what stands in for a missing value must suit the column")
    return Column(name, levels, codes, fill, unit)


def _preparation(
    target: Any, task: Any, columns: Any, ignored: Any, numeric_labels: Any, notes: Any
) -> Preparation:
    require(isinstance(target, str) and task in TASKS, "a preparation has a target and a task")
    listed = isinstance(columns, tuple) and columns and all(isinstance(c, Column) for c in columns)
    require(bool(listed), "a preparation has columns")
    require(
        _all_of(str, ignored) and isinstance(numeric_labels, bool), "columns that are not used have names"
    )
    require(_all_of(Note, notes), "notes must be notes")
    return Preparation(target, task, columns, ignored, numeric_labels, notes)


# --- messages -----------------------------------------------------------------------------------------------


def _are_parts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, str | Setting | InPython) for part in value)


def _setting(parameter: Any, value: Any, code: Any) -> Setting:
    require(isinstance(parameter, str) and isinstance(code, str), "a setting names an argument")
    values = value if isinstance(value, tuple) else (value,)
    plain = all(one is None or isinstance(one, str | bool | int | float) for one in values)
    require(plain, "the value of a setting must be text or a number")
    return Setting(parameter, value, code)


def _in_python(text: Any) -> InPython:
    require(isinstance(text, str), "words must be text")
    return InPython(text)


def _message(problem: Any, parameter: Any, row: Any, number: Any, remedy: Any) -> Message:
    require(_are_parts(problem) and _are_parts(remedy), "a message is made of words")
    counts = all(one is None or _is_count(one) for one in (row, number))
    require(isinstance(parameter, str) and counts, "a message names an argument and a row")
    return Message(problem, parameter, row, number, remedy)


def _note(parts: Any, level: Any) -> Note:
    require(_are_parts(parts), "a note is made of words")
    return Note(parts, Level(level))


add(Codec("Setting", Setting, _fields("parameter", "value", "code"), _setting))
add(Codec("InPython", InPython, _fields("text"), _in_python))
add(Codec("Message", Message, _fields("problem", "parameter", "row", "number", "remedy"), _message))
add(Codec("Note", Note, lambda note: {"parts": note.parts, "level": note.level.value}, _note))


# --- what was found at the fit ------------------------------------------------------------------------------


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _all_of(kind: type, value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in value)


def _regression_scores(coverage: Any, **scores: Any) -> RegressionScores:
    require(all(map(is_float, scores.values())), "scores must be numbers")
    pairs = isinstance(coverage, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(is_float, pair)) and 0 < pair[0] < 1
        for pair in coverage
    )
    require(pairs, "coverage is of intervals with a probability")
    return RegressionScores(**scores, coverage=coverage)


def _classification_scores(**scores: Any) -> ClassificationScores:
    require(all(map(is_float, scores.values())), "scores must be numbers")
    return ClassificationScores(**scores)


def _relevance(column: Any, share: Any, error: Any) -> Relevance:
    require(isinstance(column, str) and is_float(share) and is_float(error), "relevance is that of a column")
    return Relevance(column, share, error)


def _outlier(row: Any, value: Any, probability: Any) -> Outlier:
    require(_is_count(row) and is_float(value) and is_float(probability), "an outlier is a row of the file")
    return Outlier(row, value, probability)


def _report(**found: Any) -> FitReport:
    report = FitReport(**found)
    counts = (report.rows, report.rows_in_file, report.held_out_rows)
    require(all(map(_is_count, counts)) and is_float(report.seconds), "a report counts its rows")
    require(report.choice is None or isinstance(report.choice, Message), "a choice is a message")
    require(_all_of(Message, report.warnings) and _all_of(str, report.undone), "warnings must be messages")
    require(
        isinstance(report.robust, bool) and isinstance(report.interrupted, bool), "flags are true or false"
    )
    require(report.scores is None or isinstance(report.scores, Scores), "scores must be those of a fit")
    require(report.relevance is None or _all_of(Relevance, report.relevance), "relevance is that of columns")
    require(report.outliers is None or _all_of(Outlier, report.outliers), "outliers must be rows")
    return report


for _kind, _build in (
    (RegressionScores, _regression_scores),
    (ClassificationScores, _classification_scores),
    (Relevance, _relevance),
    (Outlier, _outlier),
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


add(Codec("Column", Column, _fields("name", "levels", "codes", "fill", "unit"), _column))
add(
    Codec(
        "Preparation",
        Preparation,
        _fields("target", "task", "columns", "ignored", "numeric_labels", "notes"),
        _preparation,
    )
)
add(Codec("TableModel", TableModel, _fields("preparation", "estimator", "report"), _model))
