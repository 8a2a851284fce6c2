"""Models of tables in model files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cavity.estimators import GPClassifier, GPRegressor
from cavity.io.posterior import is_float, require
from cavity.io.registry import Codec, add
from cavity.tables.columns import Column
from cavity.tables.dates import UNIT
from cavity.tables.model import TableModel
from cavity.tables.preparation import TASKS, Preparation


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


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


def _preparation(
    target: Any, task: Any, columns: Any, ignored: Any, numeric_labels: Any, notes: Any
) -> Preparation:
    require(isinstance(target, str) and task in TASKS, "a preparation has a target and a task")
    listed = isinstance(columns, tuple) and columns and all(isinstance(c, Column) for c in columns)
    require(bool(listed), "a preparation has columns")
    require(_texts(ignored) and _texts(notes) and isinstance(numeric_labels, bool), "notes must be texts")
    return Preparation(target, task, columns, ignored, numeric_labels, notes)


# --- what was found at the fit ------------------------------------------------------------------------------


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _records(**fields: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """A list of tables with exactly these entries."""

    def check(value: Any) -> bool:
        return isinstance(value, list) and all(_has(one, fields) for one in value)

    return check


def _has(value: Any, fields: Mapping[str, Callable[[Any], bool]]) -> bool:
    return (
        isinstance(value, dict) and set(value) == set(fields) and all(fields[k](v) for k, v in value.items())
    )


def _is_coverage(value: Any) -> bool:
    try:
        return isinstance(value, dict) and all(0 < float(k) < 1 and is_float(v) for k, v in value.items())
    except (TypeError, ValueError):
        return False


GUESSES = {"nlp": is_float, "guess_nlp": is_float}
SCORES: tuple[dict[str, Callable[[Any], bool]], ...] = (
    {**GUESSES, "rmse": is_float, "guess_rmse": is_float, "coverage": _is_coverage},
    {**GUESSES, **dict.fromkeys(("error", "guess_error", "information", "calibration"), is_float)},
)
"""Scores of regressions and of classifications."""

REPORT: dict[str, Callable[[Any], bool]] = {
    "rows": _is_count,
    "rows_in_file": _is_count,
    "held_out_rows": _is_count,
    "choice": _is_text,
    "interrupted": _is_text,
    "seconds": is_float,
    "robust": lambda value: isinstance(value, bool),
    "warnings": lambda value: isinstance(value, list) and all(map(_is_text, value)),
    "scores": lambda value: any(_has(value, fields) for fields in SCORES),
    "relevance": _records(column=_is_text, share=is_float, error=is_float),
    "outliers": _records(row=_is_count, value=is_float, probability=is_float),
}
"""What a report may say, so that commands that show it can rely on it."""


def _check_report(report: dict[Any, Any]) -> None:
    for name, value in report.items():
        known = name in REPORT and REPORT[name](value)
        require(known, f"{str(name)[:40]!r} is not what a fit reports; fit the model again")
    require(
        "rows" in report or not {"rows_in_file", "held_out_rows"} & set(report), "a report counts its rows"
    )


def _model(preparation: Any, estimator: Any, report: Any) -> TableModel:
    require(isinstance(preparation, Preparation) and isinstance(report, dict), "a table has a preparation")
    _check_report(report)
    kind = GPClassifier if preparation.task == "classification" else GPRegressor
    require(isinstance(estimator, kind), f"a {preparation.task} needs a {kind.__name__}")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == preparation.features, "the columns of the table and of the model differ")
    return TableModel(preparation, estimator, report)


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


add(Codec("Column", Column, _fields("name", "levels", "codes", "fill", "unit"), _column))
add(
    Codec(
        "Preparation",
        Preparation,
        _fields("target", "task", "columns", "ignored", "numeric_labels", "notes"),
        _preparation,
    )
)
add(
    Codec(
        "TableModel",
        TableModel,
        lambda model: {
            "preparation": model.preparation,
            "estimator": model.estimator,
            "report": dict(model.report),
        },
        _model,
    )
)
