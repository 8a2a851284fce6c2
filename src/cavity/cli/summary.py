"""What a model of a table is and how good it is, for a terminal: tables first, the verdict last.

The last screen of a terminal is what people see. So the three lines of the verdict come last, after tables that have
`SHOWN` rows at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cavity.cli.words import in_options
from cavity.tables.approximation import approximation_of
from cavity.tables.description import (
    CENTRAL,
    CLASSES,
    LEVELS,
    NO_INFLUENCE,
    Hyperparameter,
    draws_of,
    hyperparameters,
    inference_in_words,
)
from cavity.tables.fit_report import RegressionScores
from cavity.tables.formatting import percent, plain, short_text
from cavity.tables.verdict import verdict

if TYPE_CHECKING:
    from rich.table import Table

    from cavity.sampling.posterior import SamplePosterior
    from cavity.tables import TableModel
    from cavity.tables.fit_report import FitReport, Relevance

SHOWN = 12
"""Rows of a table after which the rest is counted."""

BAR = 10
"""Length of a bar."""


def show(model: TableModel) -> None:
    """Print what is known about a model, but for the verdict."""
    from cavity.cli.shared import console, say, say_notes

    out = console()
    say_notes(model.preparation.notes)
    for title, table in _tables(model):
        out.print()
        say(title, style="bold")
        if table is not None:
            out.print(table)
    for warning in model.report.warnings:
        say(f"Warning: {warning.render(in_options)}", style="yellow")
    if model.report.interrupted:
        say(model.report.interruption, style="yellow")


def show_verdict(model: TableModel) -> None:
    """Print the three lines; on a terminal broken between words."""
    from rich.text import Text

    from cavity.cli.shared import console

    out = console()
    out.print()
    for heading, sentence in verdict(model).lines(in_options):
        line = Text.assemble((f"{heading}: ", "bold"), sentence)
        out.print(line, soft_wrap=not out.is_terminal)


def _tables(model: TableModel) -> list[tuple[str, Table | None]]:
    """Titles and tables."""
    report = model.report
    found: list[tuple[str, Table | None]] = [("The model", overview(model))]
    values = value_table(model)
    if values is not None:
        found.append(("Values learned, in the units of the table", values))
    if report.relevance:
        found.append(("Inputs, by their share of the variation of predictions", input_table(model)))
    if report.outliers is not None:
        what = "Outliers found" if report.robust else f"Rows outside {CENTRAL}"
        title = f"{what} (row 1 is the first after the header)" if report.outliers else f"{what}: none"
        found.append((title, outlier_table(model) if report.outliers else None))
    if report.scores is not None:
        rows = f"{report.held_out_rows} rows held out"
        found.append((f"Scores on {rows}, lower is better", score_table(report)))
    return found


def printed_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], most: int = SHOWN, more: str = ""
) -> Table:
    """A table for a terminal: columns of numbers to the right, rows beyond `most` counted."""
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
        table.caption = Text(f"and {len(rows) - most} more{more}")
    return table


def number(value: Any) -> str:
    """A value as text: numbers with four digits, nothing for what is not known."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return "" if value != value else plain(value)


def overview(model: TableModel) -> Table:
    """What was fitted and how it ended."""
    estimator, report, preparation = model.estimator, model.report, model.preparation
    statuses = [member.posterior.status for member in estimator.members_]
    rows: list[tuple[str, str]] = [
        ("task", f"{preparation.task} of {preparation.target}"),
        ("rows", _rows_text(report)),
        ("kernel", _kernel(estimator.members_[0].kernel)),
        ("noise model", _noise(estimator)),
        ("inference", ", ".join(dict.fromkeys(map(inference_in_words, statuses)))),
        ("log evidence", _evidence(estimator)),
        ("convergence", _convergence(estimator, statuses)),
    ]
    rows += [("approximation", message.render(in_options)) for message in approximation_of(estimator)]
    jitter = max(float(s.jitter) for s in statuses)
    if jitter > 0:
        rows.append(("jitter", f"{number(jitter)}, added to a matrix that rounding had spoilt"))
    rows += [("chains", _chains(posterior)) for posterior in draws_of(estimator)]
    rows += _calibration(report)
    rows.append(("seconds", f"{report.seconds:.1f}"))
    return printed_table(("", ""), rows, len(rows))


LONGEST_KERNEL = 160
"""Characters of a kernel that are shown: length scales of many columns are in a table of their own."""


def _kernel(kernel: Any) -> str:
    text = short_text(kernel)
    return text if len(text) <= LONGEST_KERNEL else text[: LONGEST_KERNEL - 4] + " ..."


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
        text += " (kind of model chosen with all rows)"
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
    messages = list(dict.fromkeys(s.message for s in statuses if s.message and not s.converged))
    return "; ".join([optimizer, inference, *messages])


def _calibration(report: FitReport) -> list[tuple[str, str]]:
    """Whether certainty is what it says."""
    scores = report.scores
    if scores is None:
        return []
    if isinstance(scores, RegressionScores):
        held = ", ".join(f"{percent(level)}: {percent(share)}" for level, share in scores.coverage)
        return [("calibration", f"held-out rows inside intervals of {held}")]
    return [("calibration", f"stated and observed certainty differ by {scores.calibration:.3f} on average")]


def score_table(report: FitReport) -> Table:
    """The model beside plain ones, on the same rows."""
    scores = report.scores
    unknown = float("nan")
    if isinstance(scores, RegressionScores):
        head = ("", "RMSE", "median error", "log loss", "SMSE", "MSLL")
        return printed_table(head, report.regression_rows())
    assert scores is not None
    others = [(b.name, percent(b.error, 1), unknown if b.nlp is None else b.nlp) for b in report.baselines]
    return printed_table(
        ("", "wrong", "log loss"), [("this model", percent(scores.error, 1), scores.nlp), *others]
    )


def value_table(model: TableModel) -> Table | None:
    """Hyperparameters, but for those of single columns, which are in the table of inputs."""
    found = [one for one in hyperparameters(model) if not _is_reach(one)]
    several = any(row.problem for row in found)
    drawn = any(row.interval for row in found)
    rows = [
        (
            *([row.problem] if several else []),
            row.in_words + (" (fixed)" if row.fixed else ""),
            row.value,
            *([_interval(row.interval)] if drawn else []),
            row.meaning,
        )
        for row in found
    ]
    head = (
        *(["model"] if several else []),
        "name",
        "value",
        *(["90 % of draws"] if drawn else []),
        "meaning",
    )
    return printed_table(head, rows) if rows else None


def _is_reach(one: Hyperparameter) -> bool:
    """Whether it says over which distance a column matters, which is in the table of inputs."""
    return bool(one.column) and one.kind == "lengthscale" and not one.of_noise_level


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def input_table(model: TableModel) -> Table:
    """How much, how and over which distance predictions depend on each column."""
    reach = _reaches(model)
    rows = []
    for one in model.report.relevance or ():
        idle = one.share < NO_INFLUENCE
        share = (
            "no influence"
            if idle
            else f"{'#' * max(round(BAR * min(one.share, 1.0)), 1):{BAR}} {percent(one.share):>5}"
        )
        rows.append(
            (one.column, share, "" if idle else short_effect(one), "" if idle else reach.get(one.column, ""))
        )
    idle_rows = sum(1 for one in (model.report.relevance or ())[SHOWN:] if one.share < NO_INFLUENCE)
    more = f", {idle_rows} of them without influence" if idle_rows else ""
    return printed_table(("input", "share", "prediction", "matters over"), rows, SHOWN, more)


def _reaches(model: TableModel) -> dict[str, str]:
    """Over which distance a column matters, if one length scale says so."""
    found: dict[str, list[Hyperparameter]] = {}
    for one in hyperparameters(model):
        if _is_reach(one):
            found.setdefault(one.column, []).append(one)
    texts = {name: listed[0] for name, listed in found.items() if len(listed) == 1}
    return {
        name: one.meaning.removeprefix("matters over ")
        + (f" ({_interval(one.interval)})" if one.interval else "")
        for name, one in texts.items()
    }


def short_effect(one: Relevance) -> str:
    """How predictions go along an input, in two words."""
    return {
        "rises": "rises",
        "falls": "falls",
        "peak": f"highest near {one.highest}",
        "dip": f"lowest near {one.lowest}",
        "varies": "up and down",
        LEVELS: f"highest for {one.highest}",
        CLASSES: f"towards {one.highest}",
    }.get(one.shape, "")


def outlier_table(model: TableModel) -> Table:
    """Rows that are probably outliers, or beyond what is expected if the noise knows no outliers."""
    robust = model.report.robust
    rows = [
        (one.row, one.value, *([f"{one.probability:.3f}"] if robust else []))
        for one in model.report.outliers or ()
    ]
    return printed_table(("row", model.preparation.target, *(["probability"] if robust else [])), rows)
