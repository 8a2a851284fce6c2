"""`cavity reproduce`: the experiments of the source documents, beside the published numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cavity.cli.shared import AT_FAULT, INTERRUPTED, Debug, check_folder, console, one_sentence, say

if TYPE_CHECKING:
    from rich.table import Table

    from cavity.studies import Report


def reproduce(
    name: Annotated[str, typer.Argument(help="Name of a study, or 'list'.", show_default=False)],
    quick: Annotated[bool, typer.Option("--quick", help="A cut-down version, under three minutes.")] = False,
    jobs: Annotated[int, typer.Option(help="Worker processes; -1 for one on each core.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results.")] = Path("cavity-studies"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Run only this method (or other label of cells); may be given again.", show_default=False
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Run a study again and set its results beside the published ones; a stopped run goes on where it was.

    Example: cavity reproduce list

    Example: cavity reproduce sinc --quick

    Example: cavity reproduce sinc --quick --only tVar
    """
    with one_sentence(debug):
        from cavity import studies

        if name == "list":
            for one in studies.names():
                study = studies.load(one)
                say(f"{one:24} {study.title} ({study.source})")
            return
        if out.is_file():
            raise ValueError(f"{out} is a file; give --out the name of a folder")
        check_folder(out, "--out", out)
        report = studies.run(studies.load(name), quick=quick, n_jobs=jobs, out=out, only=only)
        if len(report.table):
            say(report.study.title, style="bold")
            console().print(summary_table(report))
        for remark in report.remarks:
            say(remark)
        for picture in report.pictures:
            say(f"Picture: {picture}")
        say(f"Results: {report.folder / 'summary.md'}")
        if not report.finished:
            raise typer.Exit(INTERRUPTED)
        if report.results.records and all(record["error"] for record in report.results.records):
            raise typer.Exit(AT_FAULT)


def summary_table(report: Report) -> Table:
    """Ours, published, difference."""
    from pandas.api.types import is_numeric_dtype
    from rich.table import Table
    from rich.text import Text

    frame = report.table.drop(columns=["cells"])
    if not (frame["failed"] > 0).any():
        frame = frame.drop(columns=["failed"])
    empty = [
        c for c in ("published", "difference", "target", "fold noise") if not frame[c].astype(bool).any()
    ]
    frame = frame.drop(columns=empty + [c for c in frame if frame[c].isna().all()], errors="ignore")
    table = Table(pad_edge=False)
    for column in frame:
        table.add_column(str(column), justify="right" if is_numeric_dtype(frame[column]) else "left")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value)
