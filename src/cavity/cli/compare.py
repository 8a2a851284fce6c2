"""`cavity compare`: which noise model, inference rule and kernel suit a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from cavity.cli.shared import (
    INTERRUPTED,
    Debug,
    at_least_zero,
    check_output,
    check_size,
    command_line,
    console,
    one_sentence,
    say,
    say_notes,
)
from cavity.cli.words import in_options

if TYPE_CHECKING:
    from rich.table import Table

    from cavity.tables.comparing import Comparison


def compare(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="Table: .csv, .tsv, .txt (also .gz) or .parquet.", show_default=False)
    ],
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)],
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    likelihood: Annotated[list[str] | None, typer.Option(help="Noise model to try; may be repeated.")] = None,
    inference: Annotated[
        list[str] | None, typer.Option(help="Inference rule to try; may be repeated.")
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Covariance function to try; may be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of cross-validation; 0 for none.")] = 5,
    task: Annotated[
        str | None, typer.Option(help="regression or classification; read off the target.")
    ] = None,
    impute: Annotated[
        str,
        typer.Option(help="Missing inputs: median, with a column that says where, or none to refuse them."),
    ] = "median",
    restarts: Annotated[int, typer.Option(help="Further runs of the optimizer.")] = 1,
    max_rows: Annotated[int | None, typer.Option(help="Use a random subset of so many rows.")] = None,
    max_time: Annotated[
        float | None, typer.Option(help="Seconds for all candidates; those that are done by then are ranked.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For folds and starts.", callback=at_least_zero)] = 0,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Rank noise models, inference rules and kernels by evidence, leave-one-out and k folds.

    Example: cavity compare houses.csv --target price

    Example: cavity compare houses.csv --target price --likelihood gaussian --likelihood student-t --folds 10
    """
    with one_sentence(debug, early="--max-time or Ctrl-C ends it early"):
        from cavity.tables import prepare, read_table
        from cavity.tables.comparing import candidates, compare_models

        check_output(report, "--report", (data,))
        table = read_table(data, max_rows, seed).with_target(target)
        for note in table.notes:
            say(note)
        check_size(len(table.frame))
        preparation, X, y = prepare(table, target, drop=drop or (), task=task, impute=impute)
        say_notes(preparation.notes)
        tried = candidates(preparation, y, likelihood or (), inference or (), kernel or ())
        found = compare_models(
            preparation,
            X,
            y,
            tried,
            folds=folds,
            restarts=restarts,
            seed=seed,
            rows=table.rows,
            max_time=max_time,
            say=lambda text: say(text, stderr=True),
        )
        say(title(found), style="bold")
        console().print(comparison_table(found))
        for line in remarks(found):
            say(line)
        say(found.recommendation)
        if report is not None:
            from cavity.report import comparison_page

            page = comparison_page(preparation, found, command_line(context), in_options)
            say(f"Report: {page.write(report)}")
        if found.left_out:
            say(found.left_out, stderr=True)
        if found.interrupted:
            raise typer.Exit(INTERRUPTED)


def title(found: Comparison) -> str:
    """What the order is by, and what all candidates share."""
    shared = f"; all with {', '.join(found.shared.values())}" if found.shared else ""
    return f"Models, best first by {found.yardstick}{shared}"


def comparison_table(found: Comparison) -> Table:
    """The ranking for a terminal, without what all candidates share; kernels by number, since they are long."""
    from rich.table import Table
    from rich.text import Text

    table = Table(pad_edge=False)
    told = [part for part in HEADS if part not in found.shared]
    for part in told:
        table.add_column(HEADS[part], overflow="fold")
    for name in ("evidence", "loo", "k-fold", "behind", "se", "s"):
        table.add_column(name, justify="right", no_wrap=True)
    for e in found.entries:
        numbers = ["failed", *[""] * 5]
        if not e.failure:
            densities = [number(v) for v in (e.loo, e.held_out, e.difference, e.standard_error)]
            numbers = [
                "" if np.isnan(e.log_evidence) else f"{e.log_evidence:.1f}",
                *densities,
                f"{e.seconds:.1f}",
            ]
        parts = {
            "likelihood": e.candidate.likelihood,
            "inference": e.candidate.inference,
            "kernel": str(kernels(found)[e.candidate.kernel]),
        }
        table.add_row(*(Text(parts[part]) for part in told), *numbers)
    return table


HEADS = {"likelihood": "noise", "inference": "inference", "kernel": "k"}


def kernels(found: Comparison) -> dict[str, int]:
    """Numbers of the kernels, from 1, in the order of the ranking."""
    return {kernel: i for i, kernel in enumerate(dict.fromkeys(e.candidate.kernel for e in found.entries), 1)}


def remarks(found: Comparison) -> list[str]:
    """What the columns mean, and what went wrong."""
    rows = "mean log density per row" if found.yardstick != "log evidence" else "difference of log evidence"
    lines = [
        f"loo, k-fold: mean log density per row, in nats; behind: {rows}, less than the best; se: its error"
    ]
    if "kernel" not in found.shared:
        listed = "; ".join(f"{i} is {kernel}" for kernel, i in kernels(found).items())
        lines.insert(0, f"k, the kernel: {listed}")
    for e in found.entries:
        name = found.short_name(e.candidate)
        if e.failure:
            lines.append(f"{name} failed: {e.failure.render(in_options)}")
        elif not e.converged:
            lines.append(f"{name}: inference did not converge")
    return lines


def number(value: float) -> str:
    """Three digits after the point, two where the number is long; nothing where there is none."""
    return "" if np.isnan(value) else f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"
