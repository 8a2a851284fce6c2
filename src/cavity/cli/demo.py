"""`cavity demo`: the demonstration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cavity.cli.shared import Debug, at_least_zero, check_folder, console, one_sentence, say

if TYPE_CHECKING:
    from rich.table import Table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for picture and report.")] = Path("cavity-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data.", callback=at_least_zero)] = 3,
    max_time: Annotated[float, typer.Option(help="Seconds for the check against sampling.")] = 20.0,
    debug: Debug = False,
) -> None:
    """Fit data with gross errors, once with Gaussian and once with robust noise; compare and check.

    Example: cavity demo --out cavity-demo
    """
    with one_sentence(debug):
        from cavity.assessment import require_seconds
        from cavity.demo import N_OUTLIERS, N_TRAIN, run, verdict

        require_seconds(max_time)
        if out.exists() and not out.is_dir():
            raise ValueError(f"{out} is not a folder; give --out another name")
        check_folder(out, "--out", out)
        say(f"{N_TRAIN} points of a curve, {N_OUTLIERS} of them gross errors, and two noise models.")
        result = run(out, seed, max_time, lambda text: say(text, stderr=True))
        console().print(result.assessment)
        say("")
        say("The same kernel, the same data, two noise models", style="bold")
        console().print(table(result.rows))
        say(verdict(result.rows))
        say(f"Picture: {result.picture.resolve()}")
        say(f"Report: {result.report.resolve()}")


SHORT = {"log evidence": "evidence", "outliers found": "outliers", "seconds": "s"}
"""Names of columns, if those of the report would need more than 80 characters in a line."""


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The comparison for a terminal."""
    from rich.table import Table

    found = Table(pad_edge=False)
    for column in rows[0]:
        found.add_column(
            SHORT.get(column, column), justify="left" if column == "model" else "right", no_wrap=True
        )
    for row in rows:
        found.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    return found
