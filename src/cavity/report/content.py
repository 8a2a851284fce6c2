"""What a report says: from a model of a table (and its data) to sections of a page."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cavity.estimators import GPRegressor
from cavity.learning.robust_starts import is_robust
from cavity.measures.calibration import pit
from cavity.report import drawings
from cavity.report.drawings import as_svg, figure_svg
from cavity.report.page import Block, DataTable, Facts, Page, Picture, Text
from cavity.runtime.errors import Words
from cavity.tables.columns import Column, is_missing
from cavity.tables.description import CENTRAL, LIKELY, UNEXPECTED, draws_of, hyperparameters
from cavity.tables.fit_report import RegressionScores, Scores
from cavity.tables.formatting import counted, short_text

if TYPE_CHECKING:
    import pandas as pd

    from cavity.assessment import Assessment
    from cavity.tables import Table, TableModel
    from cavity.tables.comparing import Comparison
    from cavity.tables.preparation import Preparation

GRID, GRID_OF_DRAWS = 300, 80
"""Places along one input; fewer if each prediction is an average over draws."""


def model_page(
    model: TableModel,
    table: Table | None = None,
    *,
    comparison: Comparison | None = None,
    assessment: Assessment | None = None,
    command: str = "",
    words: Words = str,
) -> Page:
    """The report of a model of a table.

    Parameters
    ----------
    model : TableModel
    table : Table, optional
        Rows to show: data at a glance, predictions and calibration.
    comparison, assessment : optional
        What `cavity compare` and `cavity assess` found.
    command : str
        How to repeat it.
    words : callable
        What arguments are called in messages; as in Python by default.
    """
    preparation = model.preparation
    inputs = counted(len(preparation.columns), "input column")
    rows = counted(model.report.rows, "row")
    page = Page(
        f"Gaussian process model of {preparation.target}", f"{preparation.task} with {inputs} and {rows}"
    )
    page.add("What was asked", *_asked(model, command, words))
    if table is not None:
        page.add("The data at a glance", glance(table.frame, preparation), *_notes(preparation, words))
    page.add("The model", *_model(model))
    learned_from = False
    if table is not None:
        X = preparation.inputs(table.frame, table.rows)
        y = preparation.targets(table.frame, table.rows)
        _check_classes(model, y)
        page.add("Predictions", *_predictions(model, X, y))
        page.add("Calibration", *_calibration(model, X, y))
        learned_from = _is_training(model, X, y)
    page.add("Relevance of inputs", *_relevance(model))
    page.add("Outliers", *_outliers(model, table if learned_from else None))
    page.add("Comparison of models", *(() if comparison is None else _comparison(comparison, words)))
    page.add("Check of the approximation", *(() if assessment is None else assessment_blocks(assessment)))
    page.add("Warnings and remedies", *_warnings(model, words))
    page.add("How to repeat it", *versions(command))
    return page


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


def comparison_page(
    preparation: Preparation, comparison: Comparison, command: str, words: Words = str
) -> Page:
    """The report of a comparison alone."""
    page = Page(
        f"Models of {preparation.target}", f"{len(comparison.entries)} models, {comparison.rows} rows"
    )
    page.add("Comparison of models", *_comparison(comparison, words))
    page.add("What was decided about the columns", *_notes(preparation, words))
    page.add("How to repeat it", *versions(command))
    return page


# --- sections -----------------------------------------------------------------------------------------------


def _asked(model: TableModel, command: str, words: Words) -> list[Block]:
    p, choice = model.preparation, model.report.choice
    pairs: list[tuple[str, Any]] = [("target", p.target), ("task", p.task)]
    pairs.append(("inputs", ", ".join(c.name for c in p.columns)))
    if p.ignored:
        pairs.append(("not used", ", ".join(p.ignored)))
    if choice is not None:
        pairs.append(("noise model chosen", choice.told(words)))
    if command:
        pairs.append(("command", command))
    return [Facts(pairs)]


def glance(frame: pd.DataFrame, preparation: Preparation) -> DataTable:
    """One line per column: kind, missing values, range or most frequent levels."""
    import pandas as pd

    rows, dates = [], {column.name: column for column in preparation.columns if column.unit}
    blank = [float("nan")] * 3
    for name in [preparation.target, *(c.name for c in preparation.columns)]:
        if name not in frame:
            continue
        values = frame[name]
        numbers = pd.to_numeric(values, errors="coerce")
        role = "target" if name == preparation.target else "input"
        missing = int(values.isna().sum())
        if name in dates:
            rows.append([name, role, _span(dates[name], values), missing, *blank, ""])
        elif numbers.notna().sum() == values.notna().sum() and numbers.notna().any():
            middle = [float(numbers.min()), float(numbers.median()), float(numbers.max())]
            rows.append([name, role, "number", missing, *middle, ""])
        else:
            counts = values.astype(str).value_counts()
            common = ", ".join(f"{level} ({count})" for level, count in counts.head(3).items())
            rows.append([name, role, f"text, {len(counts)} values", missing, *blank, common])
    head = ("column", "role", "kind", "missing", "smallest", "median", "largest", "most frequent")
    return DataTable(head, rows, f"{len(frame)} rows")


def _span(column: Column, values: pd.Series) -> str:
    """The first and the last of the dates that there are."""
    present = np.flatnonzero(~is_missing(values))
    if not len(present):
        return "dates"
    times = column.encode(values.iloc[present], present + 1)[:, 0]
    first, last = (str(values.iloc[present[k]]) for k in (np.argmin(times), np.argmax(times)))
    return f"dates from {first} to {last}"


def _notes(preparation: Preparation, words: Words) -> list[Block]:
    return [Text(note.told(words), "warning" if note.warns else "") for note in preparation.notes]


def _model(model: TableModel) -> list[Block]:
    first = model.estimator.members_[0]
    kernel, noise = first.kernel, first.likelihood
    found = hyperparameters(model)
    several = any(row.problem for row in found)
    drawn = any(row.interval for row in found)
    ends = ["5 % of draws", "95 % of draws"] if drawn else []
    columns = [*(["model"] if several else []), "name", "value", *ends, "fixed", "meaning"]
    rows = [
        [
            *([r.problem] if several else []),
            r.name,
            r.value,
            *((r.interval or (float("nan"), float("nan"))) if drawn else ()),
            r.fixed,
            r.meaning,
        ]
        for r in found
    ]
    return [
        Text(_in_words(model)),
        Text(f"f ~ GP(mean, k)\nk(x, x') = {short_text(kernel)}\ny given f: {short_text(noise)}", "formula"),
        Facts(_how_it_ended(model)),
        DataTable(columns, rows, "Hyperparameters, in the units of the data"),
    ]


def _how_it_ended(model: TableModel) -> list[tuple[str, Any]]:
    estimator = model.estimator
    statuses = [member.posterior.status for member in estimator.members_]
    drawn = bool(draws_of(estimator))
    return [
        ("log evidence", "unknown: draws do not tell it" if drawn else float(estimator.log_evidence_)),
        ("inference", ", ".join(dict.fromkeys(s.label for s in statuses))),
        ("inference converged", all(s.converged for s in statuses)),
        ("jitter", max(float(s.jitter) for s in statuses)),
        ("seconds to learn", model.report.seconds),
    ]


def _in_words(model: TableModel) -> str:
    p = model.preparation
    what = (
        f"the value of {p.target} is an unknown smooth function of the inputs plus noise"
        if p.task == "regression"
        else f"the class {p.target} depends on an unknown smooth function of the inputs"
    )
    return (
        f"The model: {what}. The covariance function below says how similar the function is at two inputs; a short "
        "length scale means that a column matters at small differences, a long one that it hardly matters."
    )


def _predictions(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> list[Block]:
    blocks: list[Block] = []
    if model.report.scores is not None:
        blocks.append(Facts(_score_words(model.report.scores)))
        if model.report.choice is not None:
            blocks.append(Text("The kind of noise was chosen with all rows, those of the scores included."))
    if model.preparation.task == "classification":
        return [*blocks, _confusion(model, X, y)]
    estimator: GPRegressor = model.estimator
    if X.shape[1] == 1:
        x = X.to_numpy(dtype=float)[:, 0]
        grid = np.linspace(x.min(), x.max(), GRID_OF_DRAWS if draws_of(estimator) else GRID)
        prediction = estimator.predict_dist(_like(X, grid[:, None]))
        unit = model.preparation.units.get(X.columns[0])
        names = (X.columns[0] + (f" ({unit})" if unit else ""), model.preparation.target)
        suspicious, label = _suspicious(model, X, y), _suspicion(model)
        svg = as_svg(
            lambda ax: drawings.fit_of_one_input(ax, grid, prediction, x, y, names, suspicious, label), "fit"
        )
        return [*blocks, Picture(svg, "Predictive mean and intervals with the data.")]
    prediction, how = _unseen(model, X, y)
    suspicious, label = _suspicious(model, X, y), _suspicion(model)
    axis = "predicted from the other rows" if _is_training(model, X, y) else "predicted"
    svg = as_svg(
        lambda ax: drawings.predicted_against_observed(
            ax, y, prediction, suspicious, model.preparation.target, axis, label
        ),
        "observed",
        height=4.4,
    )
    return [*blocks, Picture(svg, f"Predicted against observed values, {how}, with 90 % intervals.")]


SCORES = {
    "rmse": "RMSE, held out",
    "guess_rmse": "RMSE of guessing the mean",
    "nlp": "negative log density per row, held out, nats",
    "guess_nlp": "the same of guessing",
    "error": "error rate, held out",
    "guess_error": "error rate of naming the most frequent class",
    "information": "information, held out, bits per row",
    "calibration": "difference of stated and observed certainty",
}


def _score_words(scores: Scores) -> list[tuple[str, Any]]:
    pairs = [(text, getattr(scores, name)) for name, text in SCORES.items() if hasattr(scores, name)]
    coverage = scores.coverage if isinstance(scores, RegressionScores) else ()
    return pairs + [(f"targets in {level:.0%} intervals", f"{share:.0%}") for level, share in coverage]


def _value(value: Any) -> Any:
    """Entries of a table that are numbers as numbers, so that they sort as such."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return str(value)


def _like(X: pd.DataFrame, values: NDArray[Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(values, columns=X.columns)


def _unseen(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> tuple[Any, str]:
    """Leave-one-out predictions if the table is what the model was learned from, else plain predictions."""
    estimator = model.estimator
    if _is_training(model, X, y):
        how = "each row from the others"
        if draws_of(estimator):
            how += " (without sampling anew: at the mean of the hyperparameters drawn)"
        return estimator.leave_one_out(), how
    return estimator.predict_dist(X), "rows of this file"


def _suspicious(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows stand out, by what was found when the model was learned from these rows; else none."""
    if not _is_training(model, X, y):
        return np.zeros(len(y), dtype=bool)
    least = LIKELY if is_robust(model.estimator.likelihood_) else UNEXPECTED
    return np.asarray(model.estimator.outlier_probability_) > least


def _suspicion(model: TableModel) -> str:
    """What rows that stand out are called: only robust noise tells outliers from the tails of other rows."""
    return "probable outliers" if is_robust(model.estimator.likelihood_) else "outside the central 99.9 %"


def _is_training(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> bool:
    """Whether a table holds the rows that a regression was learned from, all of them and in the same order."""
    rows = getattr(model.estimator, "rows_", None)
    if rows is None or len(rows.index) != len(y) or np.any(rows.index < 0):
        return False
    same_y = np.array_equal(rows.y[rows.index], np.asarray(y, dtype=float))
    return same_y and np.array_equal(rows.X[rows.index], X.to_numpy(dtype=float))


def _confusion(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> DataTable:
    classes = model.estimator.classes_
    chosen = model.estimator.predict(X)
    rows = [[str(c), *(int(np.sum((y == c) & (chosen == d))) for d in classes)] for c in classes]
    return DataTable(
        ("true class", *(f"predicted {d}" for d in classes)),
        rows,
        "Rows by true and predicted class (rows learned from are included)",
    )


def _calibration(model: TableModel, X: pd.DataFrame, y: NDArray[Any]) -> list[Block]:
    if model.preparation.task == "classification":
        log_p = model.estimator.predict_log_proba(X)
        choice = np.argmax(log_p, axis=1)
        certainty = np.exp(log_p[np.arange(len(y)), choice])
        right = model.estimator.classes_[choice] == y
        svg = as_svg(
            lambda ax: drawings.reliability(ax, certainty, right), "calibration", width=5.0, height=4.0
        )
        return [
            Picture(
                svg,
                "Stated probability against share of right answers, larger dots for more rows; rows learned from are "
                "included, which flatters. On the line the two agree; the bars hold 95 % of what a calibrated model "
                "would show.",
            )
        ]
    prediction, how = _unseen(model, X, y)
    levels = pit(prediction, y, discrete=model.estimator.likelihood_.discrete)
    svg = as_svg(lambda ax: drawings.pit_histogram(ax, *levels), "calibration", height=3.2)
    return [Picture(svg, f"Calibration, {how}: bars within the band are what a calibrated model shows.")]


def _relevance(model: TableModel) -> list[Block]:
    found = model.report.relevance or ()
    if not found:
        return []
    names, values = [one.column for one in found], [one.share for one in found]
    height = 1.0 + 0.28 * min(len(names), 20)
    svg = as_svg(
        lambda ax: drawings.bars(ax, names[:20], values[:20], "share of the variance of predictions"),
        "relevance",
        height=height,
    )
    caption = (
        "Share of the variance of predictions that is due to a column, alone or together with others (total Sobol "
        "index)."
    )
    table = DataTable(("column", "share"), [list(pair) for pair in zip(names, values)])
    return [Picture(svg, caption), *([table] if len(names) > 20 else [])]


def _outliers(model: TableModel, learned_from: Table | None) -> list[Block]:
    """The rows listed at the fit; with their inputs if the table they are from is at hand."""
    found, robust = model.report.outliers, model.report.robust
    if found is None:
        return []
    if not found:
        none = "probably an outlier under this noise model" if robust else f"outside {CENTRAL}"
        return [Text(f"No row is {none}.", "good")]
    # other noise than robust one knows no outliers, only tails, and some rows are always in them
    columns = ["row", model.preparation.target, *(["probability"] if robust else [])]
    rows: list[list[Any]] = [[one.row, one.value, *([one.probability] if robust else [])] for one in found]
    if learned_from is not None:
        inputs = [c.name for c in model.preparation.columns][:6]
        place = {int(number): k for k, number in enumerate(learned_from.rows)}
        for row in rows:
            k = place.get(int(row[0]))
            row.extend("" if k is None else _value(learned_from.frame[name].iloc[k]) for name in inputs)
        columns += inputs
    what = "Probable outliers" if robust else f"Rows outside {CENTRAL}"
    where = "" if learned_from is not None else ", rows of the table the model was learned from"
    return [
        Text("Rows that the other rows make improbable; row 1 is the first after the header."),
        DataTable(columns, rows, f"{what}{where}", filterable=True),
    ]


def _comparison(found: Comparison, words: Words) -> list[Block]:
    columns = (
        "noise",
        "inference",
        "kernel",
        "log evidence",
        "leave-one-out",
        "k-fold",
        "behind",
        "se",
        "seconds",
    )
    rows = []
    for e in found.entries:
        note = e.failure.told(words) if e.failure else "" if e.converged else "did not converge"
        model = [e.candidate.likelihood, e.candidate.inference, e.candidate.kernel]
        numbers = [e.log_evidence, e.loo, e.held_out, e.difference, e.standard_error, e.seconds]
        rows.append([*model, *numbers, note])
    caption = f"Best first by {found.yardstick}; densities are means per row, in nats"
    told = [Text(found.left_out, "warning")] if found.left_out else []
    return [
        Text(found.recommendation, "good"),
        *told,
        DataTable((*columns, "note"), rows, caption, filterable=True),
    ]


def assessment_blocks(found: Assessment) -> list[Block]:
    """Verdicts, numbers and a picture."""
    from cavity.assessment.verdict import gold_words, label

    frame = found.frame
    shown = (
        "log_evidence",
        "evidence_error",
        "mean_error",
        "sd_error",
        "total_variation",
        "log_loss",
        "k_hat",
    )
    present = [c for c in (*shown, "seconds") if c in frame]
    rows = [[label(str(name)), *(float(row[c]) for c in present)] for name, row in frame.iterrows()]
    blocks: list[Block] = [Text(gold_words(found.gold), "good" if found.certified else "warning")]
    blocks += [Text(sentence) for sentence in found.verdicts.values()]
    columns = ["method", *(c.replace("_", " ") for c in present)]
    blocks.append(DataTable(columns, rows, "Errors against annealed importance sampling and Markov chains"))
    if any(not method.failure for method in found.methods):
        words = "Posterior means, sds and predictive probabilities of each approximation against those of the chains."
        blocks.append(Picture(figure_svg(found.plot, "assessment"), words))
    return blocks


def _warnings(model: TableModel, words: Words) -> list[Block]:
    texts = [f"{warning.told(words).rstrip('.')}." for warning in model.report.warnings]
    if model.report.interrupted:
        texts.append(model.report.interruption)
    return [Text(text, "warning") for text in texts] or [Text("None.", "good")]


def versions(command: str = "") -> list[Block]:
    """The command and the versions of what ran it."""
    import scipy

    import cavity

    pairs: list[tuple[str, Any]] = [("command", command)] if command else []
    pairs += [
        ("cavity", cavity.__version__),
        ("numpy", np.__version__),
        ("scipy", scipy.__version__),
        ("python", platform.python_version()),
    ]
    return [Facts(pairs)]
