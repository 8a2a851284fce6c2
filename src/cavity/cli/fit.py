"""`cavity fit`: learn a model of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cavity.cli.shared import (
    INTERRUPTED,
    Debug,
    at_least_zero,
    check_memory,
    check_output,
    command_line,
    one_sentence,
    say,
)
from cavity.cli.words import in_options


def fit(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="Table: .csv, .tsv, .txt (also .gz) or .parquet.", show_default=False)
    ],
    target: Annotated[str, typer.Option(help="Column to predict.", show_default=False)],
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Covariance function, such as '1.0*SE(ard) + Linear()'.")
    ] = None,
    likelihood: Annotated[
        str,
        typer.Option(
            help="auto, gaussian, student-t, laplace, mixture, epsilon-insensitive, poisson, negative-binomial, "
            "probit, logit, lapse-probit."
        ),
    ] = "auto",
    inference: Annotated[str, typer.Option(help="auto, exact, laplace, ep, variational, mcmc.")] = "auto",
    mean: Annotated[str | None, typer.Option(help="Prior mean: zero, constant or linear.")] = None,
    task: Annotated[
        str | None, typer.Option(help="regression or classification; read off the target.")
    ] = None,
    impute: Annotated[str | None, typer.Option(help="Fill in missing values: median.")] = None,
    categories: Annotated[str, typer.Option(help="Text columns: one-hot or kernel.")] = "one-hot",
    test_size: Annotated[float, typer.Option(help="Share of rows held out for scores; 0 for none.")] = 0.2,
    restarts: Annotated[int | None, typer.Option(help="Further runs of the optimizer.")] = None,
    max_rows: Annotated[int | None, typer.Option(help="Learn from a random subset of so many rows.")] = None,
    max_time: Annotated[
        float | None, typer.Option(help="Seconds for all of learning, after which it stops.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each chain with --inference mcmc \\[default: 500].")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For held-out rows, starts and sampling.", callback=at_least_zero)
    ] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file \\[default: <data>.cavity].")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Learn a model of a table and store it in a file.

    Example: cavity fit houses.csv --target price --drop id --out houses.cavity

    Example: cavity fit flowers.csv --target species --kernel "1.0*SE(ard)"
    """
    with one_sentence(debug):
        from cavity.cli.summary import show
        from cavity.tables import prepare, read_table
        from cavity.tables.fit import fit_table
        from cavity.tables.formatting import counted
        from cavity.tables.training import Options

        file = _out_file(data, out)
        check_output(report, "--report", (data, file))
        _check_kernel(kernel)
        table = read_table(data, max_rows, seed)
        part = f", a random subset of {table.total}" if table.total > len(table.frame) else ""
        rows, columns = counted(len(table.frame), "row"), counted(table.frame.shape[1], "column")
        say(f"Read {rows}{part} and {columns} from {data}.")
        for note in table.notes:
            say(note)
        check_memory(len(table.frame))
        preparation, X, y = prepare(
            table, target, drop=drop or (), task=task, impute=impute, categories=categories
        )
        options = Options(kernel, likelihood, inference, mean, test_size, restarts, seed, max_time, draws)
        model = fit_table(preparation, X, y, table, options, lambda text: say(text, stderr=True))
        model.save(file)
        show(model)
        if model.report.choice is not None:
            say(model.report.choice.told(in_options))
        say(f"Model: {file}")
        if report is not None:
            from cavity.report import model_page

            page = model_page(model, table, command=command_line(context), words=in_options)
            say(f"Report: {page.write(report)}")
        if model.report.interrupted:  # which was shown
            raise typer.Exit(INTERRUPTED)


def _out_file(data: Path, out: Path | None) -> Path:
    """Where the model goes; refused before any work if that is no place for a file."""
    name = data.stem if data.suffix.lower() == ".gz" else data.name
    file = data.with_name(Path(name).stem + ".cavity") if out is None else out
    if file.is_dir():
        raise ValueError(f"{file} is a folder; give --out the name of a file, such as model.cavity")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent} for the model file")
    check_output(file, "--out", (data,))
    return file


def _check_kernel(kernel: str | None) -> None:
    """Read the kernel before the data: a misspelled name is noticed at once."""
    if kernel is not None:
        from cavity.kernels import parse

        parse(kernel)
