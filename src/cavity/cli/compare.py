"""`cavity compare`: which noise model, inference rule and kernel suit a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cavity.cli.shared import Debug, console, one_sentence, say

if TYPE_CHECKING:
    from rich.table import Table

    from cavity.tables.comparing import Comparison


def add(app: typer.Typer) -> None:
    """Make it a command."""
    app.command()(compare)


def compare(
    data: Annotated[
        Path, typer.Argument(help="Table: .csv, .tsv (also .gz) or .parquet.", show_default=False)
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
    impute: Annotated[str | None, typer.Option(help="Fill in missing values: median.")] = None,
    restarts: Annotated[int, typer.Option(help="Further runs of the optimizer.")] = 1,
    max_rows: Annotated[int | None, typer.Option(help="Use a random subset of so many rows.")] = None,
    seed: Annotated[int, typer.Option(help="For folds and starts.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Rank noise models, inference rules and kernels by evidence, leave-one-out and k folds.

    Example: cavity compare houses.csv --target price

    Example: cavity compare houses.csv --target price --likelihood gaussian --likelihood student-t --folds 10
    """
    with one_sentence(debug):
        from cavity.cli.fit import _check_memory
        from cavity.tables import prepare, read_table
        from cavity.tables.comparing import candidates, compare_models

        table = read_table(data, max_rows, seed)
        _check_memory(len(table.frame))
        preparation, X, y = prepare(table, target, drop=drop or (), task=task, impute=impute)
        tried = candidates(preparation, likelihood or (), inference or (), kernel or ())
        found = compare_models(
            preparation,
            X,
            y,
            tried,
            folds=folds,
            restarts=restarts,
            seed=seed,
            say=lambda text: say(text, stderr=True),
        )
        console().print(comparison_table(found))
        say(found.recommendation)
        if report is not None:
            from cavity.report import comparison_page

            say(f"Report: {comparison_page(preparation, found, _repeat(data, target)).write(report)}")


def _repeat(data: Path, target: str) -> str:
    return f"cavity compare {data} --target {target}"


def comparison_table(found: Comparison) -> Table:
    """The ranking for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(f"Models, best first by {found.yardstick}"), title_justify="left", pad_edge=False
    )
    for name in ("noise", "inference", "kernel"):
        table.add_column(name, overflow="fold")
    for name in ("evidence", "loo", "k-fold", "behind", "se", "s"):
        table.add_column(name, justify="right")
    for e in found.entries:
        c = e.candidate
        numbers = (
            [f"{e.log_evidence:.1f}"]
            + [_text(v) for v in (e.loo, e.held_out)]
            + [f"{e.difference:.3f}", f"{e.standard_error:.3f}", f"{e.seconds:.1f}"]
        )
        if e.failure:
            numbers = ["failed", *[""] * 5]
        table.add_row(Text(c.likelihood), Text(c.inference), Text(c.kernel), *numbers)
    table.caption = Text(
        "loo, k-fold, behind: mean log density per row, in nats; se: of the difference, paired by row"
    )
    for e in found.entries:
        if e.failure:
            table.caption.append(f"\n{e.candidate.name}: {e.failure}")
    return table


def _text(value: float) -> str:
    return "" if value != value else f"{value:.3f}"
