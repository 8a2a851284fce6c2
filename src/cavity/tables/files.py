"""Models of tables in model files."""

from __future__ import annotations

from typing import Any

from cavity.estimators import GPClassifier, GPRegressor
from cavity.io.posterior import require
from cavity.io.registry import Codec, add
from cavity.tables.columns import Column
from cavity.tables.model import TableModel
from cavity.tables.preparation import TASKS, Preparation


def _column(name: Any, levels: Any, codes: Any, fill: Any) -> Column:
    require(isinstance(name, str) and isinstance(codes, bool), "a column has a name")
    texts = isinstance(levels, tuple) and len(levels) >= 1 and all(isinstance(level, str) for level in levels)
    require(
        levels is None or (texts and list(levels) == sorted(set(levels))), "levels must be different texts"
    )
    kind = float if levels is None else str
    require(fill is None or isinstance(fill, kind), "what stands in for a missing value must suit the column")
    return Column(name, levels, codes, fill)


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


def _model(preparation: Any, estimator: Any, report: Any) -> TableModel:
    require(isinstance(preparation, Preparation) and isinstance(report, dict), "a table has a preparation")
    kind = GPClassifier if preparation.task == "classification" else GPRegressor
    require(isinstance(estimator, kind), f"a {preparation.task} needs a {kind.__name__}")
    names = list(getattr(estimator, "feature_names_in_", []))
    require(names == preparation.features, "the columns of the table and of the model differ")
    return TableModel(preparation, estimator, report)


def _fields(*names: str) -> Any:
    return lambda value: {name: getattr(value, name) for name in names}


add(Codec("Column", Column, _fields("name", "levels", "codes", "fill"), _column))
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
