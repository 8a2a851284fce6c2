"""What a model of a table is and how good it is, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cavity.cli.words import in_options
from cavity.tables.description import CENTRAL, draws_of, hyperparameters
from cavity.tables.fit_report import RegressionScores
from cavity.tables.formatting import short_text

if TYPE_CHECKING:
    from rich.table import Table

    from cavity.sampling.posterior import SamplePosterior
    from cavity.tables import TableModel
    from cavity.tables.fit_report import FitReport, Scores

SHOWN = 12
"""Rows of a table after which the rest is counted."""


def show(model: TableModel) -> None:
    """Print everything that is known about a model."""
    from cavity.cli.shared import console, say, say_notes

    out = console()
    say_notes(model.preparation.notes)
    for title, table in _tables(model):
        out.print()
        say(title, style="bold")
        if table is not None:
            out.print(table)
    for warning in model.report.warnings:
        say(f"Warning: {warning.told(in_options)}", style="yellow")
    if model.report.interrupted:
        say(model.report.interruption, style="yellow")


def _tables(model: TableModel) -> list[tuple[str, Table | None]]:
    """Titles and tables."""
    found: list[tuple[str, Table | None]] = [
        ("The model", overview(model)),
        ("Hyperparameters, in the units of the table", hyperparameter_table(model)),
    ]
    if model.report.relevance:
        title = "Relevance of inputs: share of the variance of predictions (total Sobol index)"
        found.append((title, relevance_table(model)))
    outliers = model.report.outliers
    if outliers is not None:
        what = "Outliers found" if model.report.robust else f"Rows outside {CENTRAL}"
        title = f"{what} (row 1 is the first after the header)" if outliers else f"{what}: none"
        found.append((title, outlier_table(model) if outliers else None))
    return found


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = SHOWN) -> Table:
    from rich.table import Table
    from rich.text import Text

    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(columns))
    ]
    table = Table(pad_edge=False, show_header=any(columns))
    for name, right in zip(columns, numeric):
        table.add_column(Text(name), justify="right" if right else "left", overflow="fold")
    for row in rows[:most]:
        table.add_row(*(Text(number(value)) for value in row))
    if len(rows) > most:
        table.caption = Text(f"and {len(rows) - most} more")
    return table


def number(value: Any) -> str:
    """A value as text: numbers with four digits."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4g}"


def overview(model: TableModel) -> Table:
    """What was fitted, how it ended, and scores."""
    estimator, report, preparation = model.estimator, model.report, model.preparation
    statuses = [member.posterior.status for member in estimator.members_]
    rows: list[tuple[str, str]] = [
        ("task", f"{preparation.task} of {preparation.target}"),
        ("rows", _rows_text(report)),
        ("kernel", short_text(estimator.members_[0].kernel)),
        ("noise model", _noise(estimator)),
        ("inference", ", ".join(dict.fromkeys(s.label for s in statuses))),
        ("log evidence", _evidence(estimator)),
        ("convergence", _convergence(estimator, statuses)),
        ("jitter", number(max(float(s.jitter) for s in statuses))),
    ]
    rows += [("chains", _chains(posterior)) for posterior in draws_of(estimator)]
    rows += _score_rows(report.scores)
    rows.append(("seconds", f"{report.seconds:.1f}"))
    return _table(("", ""), rows, len(rows))


def _evidence(estimator: Any) -> str:
    if draws_of(estimator):
        return "unknown: draws do not tell it"
    return number(float(estimator.log_evidence_))


def _chains(posterior: SamplePosterior) -> str:
    """How well the chains mixed, in the worst place."""
    table, trace = posterior.diagnostics(latent=True), posterior.trace
    text = f"{trace.chains} of {trace.draws} draws"
    if trace.draws < 4 or table["rhat"].isna().all():
        return text
    return f"{text}; worst R-hat {table['rhat'].max():.3f}, smallest effective size {_least_size(table):.0f}"


def _least_size(table: Any) -> float:
    kept = table.drop(index="log_density", errors="ignore") if len(table) > 1 else table
    return float(kept[["ess_bulk", "ess_tail"]].min().min())


def _rows_text(report: FitReport) -> str:
    text = str(report.rows)
    if report.rows_in_file > report.rows:
        text += f" of {report.rows_in_file} in the file, a random subset"
    if report.held_out_rows:
        text += f"; {report.held_out_rows} held out from a second model, for the scores"
    if report.held_out_rows and report.choice is not None:
        text += " (noise chosen with all rows)"
    return text


def _noise(estimator: Any) -> str:
    members = estimator.members_
    noise = short_text(members[0].likelihood)
    return noise if len(members) == 1 else f"{noise}, {len(members)} models ({estimator.multi_class_})"


def _convergence(estimator: Any, statuses: Sequence[Any]) -> str:
    groups = [member.runs for member in estimator.members_]
    done = sum(1 for runs in groups if any(run.converged for run in runs))
    optimizer = (
        "optimizer converged" if done == len(groups) else f"optimizer converged in {done} of {len(groups)}"
    )
    if not any(groups):
        optimizer = "hyperparameters as given"
    good = sum(1 for status in statuses if status.converged)
    if draws_of(estimator):  # why they did not is a warning, with its remedy
        chains = "chains converged" if good == len(statuses) else "chains have not converged"
        return f"{optimizer}; {chains}"
    inference = (
        "inference converged"
        if good == len(statuses)
        else f"inference converged in {good} of {len(statuses)}"
    )
    messages = list(dict.fromkeys(s.message for s in statuses if s.message))
    return "; ".join([optimizer, inference, *messages])


def _score_rows(scores: Scores | None) -> list[tuple[str, str]]:
    if scores is None:
        return []
    nlp = ("held-out NLP", f"{number(scores.nlp)} nats (guessing: {number(scores.guess_nlp)})")
    if isinstance(scores, RegressionScores):
        coverage = ", ".join(f"{level:.0%}: {share:.0%}" for level, share in scores.coverage)
        guess = f"guessing the mean: {number(scores.guess_rmse)}"
        return [
            ("held-out RMSE", f"{number(scores.rmse)} ({guess})"),
            nlp,
            ("calibration", f"targets inside intervals of {coverage}"),
        ]
    guess = f"naming the most frequent class: {scores.guess_error:.1%}"
    return [
        ("held-out error", f"{scores.error:.1%} ({guess})"),
        nlp,
        ("held-out information", f"{scores.information:.3f} bits per row"),
        ("calibration", f"stated and observed certainty differ by {scores.calibration:.3f} on average"),
    ]


def hyperparameter_table(model: TableModel) -> Table | None:
    """Values in the user's units."""
    found = hyperparameters(model)
    several = any(row.problem for row in found)
    drawn = any(row.interval for row in found)
    rows = [
        (
            *([row.problem] if several else []),
            row.name + (" (fixed)" if row.fixed else ""),
            row.value,
            *([_interval(row.interval)] if drawn else []),
            row.meaning,
        )
        for row in found
    ]
    columns = (
        *(["model"] if several else []),
        "name",
        "value",
        *(["90 % of draws"] if drawn else []),
        "meaning",
    )
    return _table(columns, rows) if rows else None


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def relevance_table(model: TableModel) -> Table:
    """How much predictions depend on each column."""
    rows = [
        (one.column, f"{one.share:.3f} ± {one.error:.3f}", "#" * round(20 * min(one.share, 1.0)))
        for one in model.report.relevance or ()
    ]
    return _table(("column", "share", ""), rows)


def outlier_table(model: TableModel) -> Table:
    """Rows that are probably outliers, or beyond what is expected if the noise knows no outliers."""
    robust = model.report.robust
    rows = [
        (one.row, one.value, *([f"{one.probability:.3f}"] if robust else []))
        for one in model.report.outliers or ()
    ]
    return _table(("row", model.preparation.target, *(["probability"] if robust else [])), rows)
