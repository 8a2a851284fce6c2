"""How good a model is, in a report: scores beside those of plain models, calibration, classes that are confused.

Nothing here is about predictions of rows that the model has seen. Scores are those of the rows held out at the fit.
For a regression on the table it was learned from, each row is predicted from the others; rows of another table as
they are. Of classes, rows held out at the fit are counted, or those of another table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPRegressor
from cavity.learning.robust_starts import is_robust
from cavity.measures.calibration import pit
from cavity.report import drawings
from cavity.report.drawings import both_widths
from cavity.report.page import Block, DataTable, Facts, Picture, Text
from cavity.tables.description import LIKELY, UNEXPECTED, draws_of
from cavity.tables.fit_report import ClassificationScores, FitReport, RegressionScores
from cavity.tables.formatting import percent
from cavity.tables.scores import counted_classes

if TYPE_CHECKING:
    import pandas as pd

    from cavity.tables import Table, TableModel

GRID, GRID_OF_DRAWS = 300, 80
"""Places along one input; fewer if each prediction is an average over draws."""


@dataclass(frozen=True)
class Shown:
    """The rows of the table that a report shows.

    Attributes
    ----------
    X : DataFrame (n, D)
    y : array (n,)
    learned_from : bool
        Whether they are what a regression was learned from, all of them and in the same order.
    seen : bool
        Whether any of them was learned from.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    learned_from: bool
    seen: bool

    @classmethod
    def of(cls, model: TableModel, table: Table) -> Shown:
        """The rows of a table, as the model sees them; refuses classes that it does not know."""
        X = model.preparation.inputs(table.frame, table.rows)
        y = model.preparation.targets(table.frame, table.rows)
        _check_classes(model, y)
        known = {row.tobytes() for member in model.estimator.members_ for row in member.rows.X}
        seen = any(row.tobytes() in known for row in np.ascontiguousarray(X.to_numpy(dtype=float)))
        return cls(X, y, _is_training(model, X, y), seen)


def _check_classes(model: TableModel, y: NDArray[Any]) -> None:
    """Refuse labels that no prediction can be right about."""
    known: Any = getattr(model.estimator, "classes_", None)
    if known is None:
        return
    unknown = sorted({str(label) for label in y[~np.isin(y, known)]})
    if unknown:
        raise ValueError(
            f"the column {model.preparation.target!r} has the class {unknown[0]!r}, which the model does not know; "
            f"it knows {', '.join(map(str, known))}"
        )


def _is_training(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> bool:
    """Whether a table holds the rows that a regression was learned from, all of them and in the same order."""
    rows = getattr(model.estimator, "rows_", None)
    if rows is None or len(rows.index) != len(y) or np.any(rows.index < 0):
        return False
    same_y = np.array_equal(rows.y[rows.index], np.asarray(y, dtype=float))
    return same_y and np.array_equal(rows.X[rows.index], X.to_numpy(dtype=float))


def how_good(model: TableModel, shown: Shown | None) -> list[Block]:
    """Scores, and whether certainty is what it says."""
    report, blocks = model.report, list[Block]()
    if report.scores is not None:
        blocks.append(score_table(report))
        blocks.append(Facts(_certainty(report)))
        if report.choice is not None:
            blocks.append(Text("The kind of model was chosen with all rows, those of the scores included."))
    else:
        blocks.append(Text("No rows were held out, so that there are no scores."))
    if model.preparation.task == "classification":
        return [*blocks, *_classes(model, shown)]
    return [*blocks, _levels(model, shown)] if shown is not None else blocks


def score_table(report: FitReport) -> DataTable:
    """The model beside plain ones, on the same rows."""
    scores, nothing = report.scores, float("nan")
    caption = f"Errors on {report.held_out_rows} rows held out at the fit; smaller is better"
    if isinstance(scores, RegressionScores):
        head = ("model", "typical error (RMSE)", "median error", "log loss", "SMSE", "MSLL")
        return DataTable(head, report.regression_rows(), caption)
    assert scores is not None
    rows = [["this model", scores.error, scores.nlp]]
    rows += [[b.name, b.error, nothing if b.nlp is None else b.nlp] for b in report.baselines]
    return DataTable(("model", "share of wrong classes", "log loss"), rows, caption)


def _certainty(report: FitReport) -> list[tuple[str, Any]]:
    scores = report.scores
    if isinstance(scores, RegressionScores):
        return [
            (f"rows inside {percent(level)} intervals", percent(share)) for level, share in scores.coverage
        ]
    assert scores is not None
    return [
        ("difference of stated and observed certainty", scores.calibration),
        ("information, bits per row", scores.information),
    ]


# --- classes ------------------------------------------------------------------------------------------------


def _classes(model: TableModel, shown: Shown | None) -> list[Block]:
    """Confusion and reliability of rows that were not learned from."""
    scores = model.report.scores
    if shown is not None and not shown.seen:
        confusion, groups = counted_classes(model.estimator, shown.X, shown.y)
        which = "rows of this file"
    elif isinstance(scores, ClassificationScores) and scores.confusion:
        confusion, groups, which = scores.confusion, scores.reliability, "rows held out at the fit"
    else:
        return []
    classes = [str(c) for c in model.estimator.classes_]
    rows = [[true, *counts] for true, counts in zip(classes, confusion)]
    table = DataTable(("true class", *(f"predicted {c}" for c in classes)), rows, f"Classes, {which}")
    picture = both_widths(
        lambda ax: drawings.reliability(ax, groups),
        "calibration",
        f"Stated probability against share of right answers, {which}; larger dots for more rows. On the line the two "
        "agree; the bars hold 95 % of what a calibrated model would show.",
        width=5.0,
        height=3.6,
    )
    return [table, picture]


# --- regression ---------------------------------------------------------------------------------------------


def _levels(model: TableModel, shown: Shown) -> Picture:
    prediction, how = _unseen(model, shown)
    levels = pit(prediction, shown.y, discrete=model.estimator.likelihood_.discrete)
    return both_widths(
        lambda ax: drawings.pit_histogram(ax, *levels),
        "calibration",
        f"Calibration, {how}: bars within the band are what a calibrated model shows.",
        height=3.2,
    )


def fit_picture(model: TableModel, shown: Shown) -> Picture:
    """Predictions along the only input, with the data."""
    estimator: GPRegressor = model.estimator
    X, y = shown.X, shown.y
    x = X.to_numpy(dtype=float)[:, 0]
    grid = np.linspace(x.min(), x.max(), GRID_OF_DRAWS if draws_of(estimator) else GRID)
    prediction = estimator.predict_dist(_like(X, grid[:, None]))
    unit = model.preparation.units.get(X.columns[0])
    names = (X.columns[0] + (f" ({unit})" if unit else ""), model.preparation.target)
    suspicious, label = _suspicious(model, shown), _suspicion(model)
    return both_widths(
        lambda ax: drawings.fit_of_one_input(ax, grid, prediction, x, y, names, suspicious, label),
        "fit",
        "Prediction and intervals, with the data.",
    )


def observed_picture(model: TableModel, shown: Shown) -> Picture:
    """Predicted against observed values."""
    prediction, how = _unseen(model, shown)
    suspicious, label = _suspicious(model, shown), _suspicion(model)
    axis = "predicted from the other rows" if shown.learned_from else "predicted"
    return both_widths(
        lambda ax: drawings.predicted_against_observed(
            ax, shown.y, prediction, suspicious, model.preparation.target, axis, label
        ),
        "observed",
        f"Predicted against observed values, {how}, with 90 % intervals.",
        height=4.4,
    )


def _like(X: pd.DataFrame, values: NDArray[Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(values, columns=X.columns)


def _unseen(model: TableModel, shown: Shown) -> tuple[Any, str]:
    """Leave-one-out predictions if the table is what the model was learned from, else plain predictions."""
    estimator = model.estimator
    if shown.learned_from:
        how = "each row from the others"
        if draws_of(estimator):
            how += " (without sampling anew: at the mean of the hyperparameters drawn)"
        return estimator.leave_one_out(), how
    return estimator.predict_dist(shown.X), "rows of this file"


def _suspicious(model: TableModel, shown: Shown) -> NDArray[np.bool_]:
    """Which rows stand out, by what was found when the model was learned from these rows; else none."""
    if not shown.learned_from:
        return np.zeros(len(shown.y), dtype=bool)
    least = LIKELY if is_robust(model.estimator.likelihood_) else UNEXPECTED
    return np.asarray(model.estimator.outlier_probability_) > least


def _suspicion(model: TableModel) -> str:
    """What rows that stand out are called: only robust noise tells outliers from the tails of other rows."""
    return "probable outliers" if is_robust(model.estimator.likelihood_) else "outside the central 99.9 %"
