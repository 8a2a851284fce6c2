"""`cavity demo`: the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cavity.cli.shared import Debug, one_sentence


def add(app: typer.Typer) -> None:
    """Make it a command."""
    app.command()(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path("cavity-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data.")] = 3,
    debug: Debug = False,
) -> None:
    """Fit data with gross errors, once with Gaussian and once with robust noise, and compare.

    Example: cavity demo --out cavity-demo
    """
    with one_sentence(debug):
        _demo(out, seed)


def _demo(out: Path, seed: int) -> None:
    from rich.console import Console
    from rich.table import Table

    from cavity.demo import N_OUTLIERS, N_TRAIN, run

    console = Console()
    console.print(f"Fitting {N_TRAIN} points, {N_OUTLIERS} of them gross errors, with two noise models ...")
    result = run(out, seed)
    table = Table(title="The same kernel, the same data, two noise models", pad_edge=False)
    for column in result["rows"][0]:
        table.add_column(column, justify="left" if column == "model" else "right")
    for row in result["rows"]:
        table.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)
    console.print("Log loss and RMSE are on clean test data: lower is better.")
    console.print(f"Picture: {result['picture'].resolve()}")
