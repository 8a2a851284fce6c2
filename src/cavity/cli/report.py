"""`cavity report`: everything about a model in one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cavity.cli.shared import (
    INTERRUPTED,
    Debug,
    at_least_zero,
    check_output,
    command_line,
    load_predictor,
    one_sentence,
    say,
)
from cavity.cli.words import in_options


def report(
    context: typer.Context,
    model: Annotated[
        Path, typer.Argument(help="Model file of cavity fit, or log of cavity optimize.", show_default=False)
    ],
    data: Annotated[
        Path | None, typer.Argument(help="Table to show the model on.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    assess: Annotated[
        float | None, typer.Option(help="Also check the approximation, for this many seconds.")
    ] = None,
    max_rows: Annotated[int | None, typer.Option(help="Show a random subset of this many rows.")] = None,
    seed: Annotated[int, typer.Option(help="For the subset and the check.", callback=at_least_zero)] = 0,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML report: data, model, predictions, calibration, relevance, outliers.

    Of a run of cavity optimize: the best so far, what can still be gained, what the inputs do.

    Example: cavity report houses.cavity houses.csv -o houses.html
    """
    with one_sentence(debug, max_time="--assess"):
        if data is None:
            _study(model, out, command_line(context))
            return
        from cavity.cli.assess import assess_table
        from cavity.report import model_page
        from cavity.report.outputs import outputs_page
        from cavity.tables import OutputsModel, read_table

        check_output(out, "--out", (model, data))
        loaded = load_predictor(model)
        if isinstance(loaded, OutputsModel):
            if assess is not None:
                raise ValueError("--assess is not for a model of several targets; leave it out")
            shown = outputs_page(
                loaded, read_table(data, max_rows, seed), command=command_line(context), words=in_options
            )
            say(f"Report: {shown.write(out)}")
            return
        found = None
        if assess is None:
            table = read_table(data, max_rows, seed).with_target(loaded.preparation.target)
        else:
            table, found = assess_table(loaded, data, assess, None, 0.2, max_rows, seed)
        page = model_page(loaded, table, assessment=found, command=command_line(context), words=in_options)
        say(f"Report: {page.write(out)}")
        if found is not None and found.gold.chains.interrupted:
            raise typer.Exit(INTERRUPTED)


def _study(path: Path, out: Path, command: str) -> None:
    """The report of the log of a run."""
    from cavity.design import Study, read_log
    from cavity.design.log import is_log
    from cavity.report import study_page

    check_output(out, "--out", (path,))
    if not is_log(path):
        raise ValueError(
            f"{path} is no log of cavity optimize: give a model and a table, as in report MODEL TABLE"
        )
    log = read_log(path)
    if log.dropped:
        say(f"The last line of {path} is not complete and is left out.", style="yellow")
    study = Study(log.history, log.space, log.options)
    say(f"Report: {study_page(study, 'outcome', command=command).write(out)}")
