"""Several targets at the command line: their part of `cavity fit`, and what is shown of such a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cavity.cli.safe_saving import exit_if_moved, keep
from cavity.cli.shared import INTERRUPTED, console, say, say_notes
from cavity.cli.words import in_options

if TYPE_CHECKING:
    from cavity.tables.outputs import OutputsModel
    from cavity.tables.training import Options


def fit_several(
    data: Path,
    targets: Sequence[str],
    how: dict[str, Any],
    options: Options,
    rank: int,
    file: Path,
    report: Path | None,
    command: str,
) -> None:
    """Learn several targets of a table and store the model; say what was found."""
    from cavity.runtime.sentences import counted
    from cavity.tables import read_table
    from cavity.tables.outputs import prepare_outputs
    from cavity.tables.outputs_fit import fit_outputs

    table = read_table(data)
    rows, columns = counted(table.total, "row"), counted(table.frame.shape[1], "column")
    say(f"Read {rows} and {columns} from {data}.")
    for note in table.notes:
        say(note)
    coding, outputs, table, X, Y = prepare_outputs(table, targets, **how)
    model = fit_outputs(coding, outputs, X, Y, options, rank, lambda text: say(text, stderr=True))
    files = [(keep(model.save, file), file)]
    show_outputs(model)
    say(f"Model: {files[0][0]}")
    if report is not None:
        from cavity.report.outputs import outputs_page

        page = outputs_page(model, table, command=command, words=in_options)
        files.append((keep(page.write, report), report))
        say(f"Report: {files[1][0]}")
    show_outputs_verdict(model)
    if model.report.interrupted:
        raise typer.Exit(INTERRUPTED)
    exit_if_moved(*files)


def show_outputs(model: OutputsModel) -> None:
    """Print what is known about a model of several targets, but for the verdict."""
    from cavity.cli.summary import number, printed_table
    from cavity.tables.formatting import short_text
    from cavity.tables.outputs_fit import score_rows

    out, report = console(), model.report
    say_notes(model.coding.notes)
    kernel = short_text(model.estimator.posterior_.kernel if not _long(model) else _model(model).kernel)
    facts = [
        ("targets", ", ".join(model.names)),
        ("rows", str(report.rows)),
        ("kernel", kernel if len(kernel) <= 160 else kernel[:156] + " ..."),
        ("log evidence", number(float(model.estimator.log_evidence_))),
        ("seconds", f"{report.seconds:.1f}"),
    ]
    out.print()
    say("The model", style="bold")
    out.print(printed_table(("", ""), facts))
    out.print()
    say("Correlations of the targets, learned", style="bold")
    rows = [
        (name, *(f"{c:+.2f}" for c in row)) for name, row in zip(model.names, model.estimator.correlations_)
    ]
    out.print(printed_table(("", *model.names), rows))
    out.print()
    held = "whole rows" if report.by_row else "single cells, whose rows may have other targets,"
    what = f", and scores: {held} were held out" if any(one.scores for one in report.each) else ""
    say(f"Targets{what}", style="bold")
    out.print(printed_table(*score_rows(model)))
    for warning in report.warnings:
        say(f"Warning: {warning.render(in_options)}", style="yellow")
    if report.interrupted:
        say("Interrupted: the best values so far were kept.", style="yellow")


def _long(model: OutputsModel) -> bool:
    return hasattr(model.estimator.posterior_, "model")


def _model(model: OutputsModel) -> Any:
    return model.estimator.posterior_.model


def show_outputs_verdict(model: OutputsModel) -> None:
    """Print the lines of the verdict; on a terminal broken between words."""
    from rich.text import Text

    from cavity.tables.outputs_fit import outputs_verdict

    out = console()
    out.print()
    for heading, sentence in outputs_verdict(model, in_options):
        out.print(Text.assemble((f"{heading}: ", "bold"), sentence), soft_wrap=not out.is_terminal)
