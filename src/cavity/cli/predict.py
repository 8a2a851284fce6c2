"""`cavity predict`: predictions for the rows of a table, from a model file alone."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer

from cavity.cli.shared import Debug, check_output, load_predictor, one_sentence, say
from cavity.runtime.atomic import replaced

NO_SD = "The sd is empty where it is infinite: noise with tails this heavy has none; the interval says what to expect"
"""What is said of a sd that cannot be written."""


def predict(
    model: Annotated[Path, typer.Argument(help="Model file of cavity fit.", show_default=False)],
    data: Annotated[
        Path, typer.Argument(help="Table: .csv, .tsv, .txt (also .gz) or .parquet.", show_default=False)
    ],
    interval: Annotated[float, typer.Option(help="Probability of the interval.")] = 0.9,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean",
            help="sd and interval without outliers, for noise that knows them: student-t, mixture, laplace.",
        ),
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column of the table to write beside the predictions; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Table to write, .csv or .tsv (also .gz) \\[default: screen]."),
    ] = None,
    digits: Annotated[
        int, typer.Option(help="Significant digits of the sd; the mean has as many decimals.", min=1, max=17)
    ] = 4,
    escape: Annotated[
        bool,
        typer.Option(
            help="Put an apostrophe before text that a spreadsheet would run as a formula (=, +, -, @)."
        ),
    ] = True,
    block_rows: Annotated[int, typer.Option(help="Rows held in memory at a time.", min=1)] = 20_000,
    debug: Debug = False,
) -> None:
    """Predict the rows of a table: mean, sd and interval (of each target), or probabilities of classes.

    Columns are matched by name, in any order. Files may be larger than memory. A sd that is infinite is left empty.

    Example: cavity predict houses.cavity new.csv --interval 0.9 --keep address -o predicted.csv
    """
    with one_sentence(debug):
        from cavity.runtime.progress import Progress
        from cavity.runtime.sentences import counted
        from cavity.tables.writing import as_cells, regression_targets

        separator = _separator(out)
        check_output(out, "--out", (model, data))
        fitted = load_predictor(model)
        rows, infinite = 0, 0
        with _opened(out) as file, Progress("predicting", 0) as progress:
            blocks = fitted.predict_file(
                data, interval, block_rows, lambda text: say(text, stderr=True), keep or (), clean=clean
            )
            for block in blocks:
                names = [str(name) for name in block if name not in (keep or ())]
                sds = block[[f"{target}sd" for target in regression_targets(names)]].to_numpy(dtype=float)
                infinite += int(np.isinf(sds).any(axis=1).sum())
                cells = as_cells(block, names, digits, escape)
                cells.to_csv(file, sep=separator, index=False, header=rows == 0)
                rows += len(block)
                progress.refresh(f"{rows} rows")
        if infinite:
            say(f"{NO_SD} ({infinite} of {counted(rows, 'row')}).", stderr=True)
        if out is not None:
            say(f"Predictions of {counted(rows, 'row')}: {out}")


def _separator(out: Path | None) -> str:
    names = {".csv": ",", ".tsv": "\t"}
    if out is None:
        return ","
    suffixes = [s.lower() for s in out.suffixes]
    kind = suffixes[-2:-1] if suffixes[-1:] == [".gz"] else suffixes[-1:]
    if not kind or kind[0] not in names:
        raise ValueError(
            f"the name of the table to write must end in .csv, .tsv, .csv.gz or .tsv.gz, got {out}"
        )
    if not out.parent.is_dir():
        raise ValueError(f"there is no folder {out.parent} for the predictions")
    return names[kind[0]]


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[IO[Any]]:
    """The screen, or a file that appears only once it is complete."""
    if out is None:
        yield sys.stdout
        return
    opened: Any = gzip.open if out.suffix.lower() == ".gz" else open
    with replaced(out) as partial, opened(partial, "wt", encoding="utf-8", newline="") as file:
        yield file
