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
    model: Annotated[Path, typer.Argument(help="Model file of cavity fit.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="Table to show it on.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    assess: Annotated[
        float | None, typer.Option(help="Also check the approximation, for this many seconds.")
    ] = None,
    max_rows: Annotated[int | None, typer.Option(help="Show a random subset of this many rows.")] = None,
    seed: Annotated[int, typer.Option(help="For the subset and the check.", callback=at_least_zero)] = 0,
    debug: Debug = False,
) -> None:
    """Write a self-contained HTML report: data, model, predictions, calibration, relevance, outliers.

    Example: cavity report houses.cavity houses.csv -o houses.html
    """
    with one_sentence(debug, max_time="--assess"):
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
