"""`cavity fit`: learn a model of a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cavity.cli.forecast import fit_series
from cavity.cli.outputs import fit_several
from cavity.cli.safe_saving import exit_if_moved, keep
from cavity.cli.shared import (
    INTERRUPTED,
    Debug,
    at_least_zero,
    check_output,
    check_size,
    command_line,
    one_sentence,
    say,
)
from cavity.cli.words import in_options

FOR_SERIES = ("target", "time", "season", "likelihood", "out", "report", "debug")
"""Options of a fit that also time series have."""

FOR_SEVERAL = (
    *("target", "drop", "kernel", "likelihood", "inference", "mean", "impute", "categories", "text"),
    *("test_size", "restarts", "rank", "max_time", "seed", "out", "report", "debug"),
)
"""Options of a fit that also several targets have."""


def fit(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(
            help="Table: .csv, .tsv, .txt (also .gz) or .parquet; several of these as 'data/*.parquet'.",
            show_default=False,
        ),
    ],
    target: Annotated[
        list[str],
        typer.Option(help="Column to predict; repeated, several at once, with gaps.", show_default=False),
    ],
    drop: Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of dates or numbers: learn a time series, for cavity forecast.")
    ] = None,
    season: Annotated[
        list[str] | None,
        typer.Option(help="With --time: day, week, year, a number of steps, or none; may be repeated."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(help="Covariance function, such as '1.0*SE(ard) + Linear()'.")
    ] = None,
    likelihood: Annotated[
        str,
        typer.Option(
            help="auto, gaussian, positive, share, ordinal, heteroscedastic, student-t, laplace, mixture, "
            "epsilon-insensitive, poisson, negative-binomial, "
            "probit, logit, lapse-probit; of several targets also price=student-t,visits=poisson."
        ),
    ] = "auto",
    inference: Annotated[str, typer.Option(help="auto, exact, laplace, ep, variational, mcmc.")] = "auto",
    mean: Annotated[str | None, typer.Option(help="Prior mean: zero, constant or linear.")] = None,
    task: Annotated[
        str | None, typer.Option(help="regression or classification; read off the target.")
    ] = None,
    impute: Annotated[
        str,
        typer.Option(help="Missing inputs: median, with a column that says where, or none to refuse them."),
    ] = "median",
    categories: Annotated[str, typer.Option(help="Text columns: one-hot or kernel.")] = "one-hot",
    text: Annotated[
        list[str] | None,
        typer.Option(help="Column of free text, compared by the letters or words shared; may be repeated."),
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of rows held out for scores; 0 for none.")] = 0.2,
    restarts: Annotated[int | None, typer.Option(help="Further runs of the optimizer.")] = None,
    learn_rows: Annotated[
        int, typer.Option(help="Most rows that hyperparameters are learned from; all are conditioned on.")
    ] = 10_000,
    representation: Annotated[
        str, typer.Option(help="auto, dense, inducing, latent_neighbors or markov.")
    ] = "auto",
    inducing: Annotated[
        int | None, typer.Option(help="Inducing inputs \\[default: doubled while it pays].", min=1)
    ] = None,
    rank: Annotated[int, typer.Option(help="Of several targets: functions that they share.", min=1)] = 1,
    max_time: Annotated[
        float | None, typer.Option(help="Seconds for all of learning, after which it stops.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(help="Draws of each chain with --inference mcmc \\[default: 500].")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For held-out rows, starts and sampling.", callback=at_least_zero)
    ] = 0,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler whose workers read the Parquet files.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Model file \\[default: <data>.cavity].")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Learn a model of a table and store it in a file.

    Example: cavity fit houses.csv --target price --drop id --out houses.cavity

    Example: cavity fit flowers.csv --target species --kernel "1.0*SE(ard)"

    Example: cavity fit co2.csv --time month --target ppm

    Example: cavity fit rivers.csv --target lead --target zinc
    """
    with one_sentence(debug, early="--max-time or Ctrl-C ends it early"):
        from cavity.cli.summary import show, show_verdict
        from cavity.runtime.sentences import counted
        from cavity.tables import prepare, read_table
        from cavity.tables.fit import fit_table
        from cavity.tables.large_tables import SAMPLE_ROWS, whole_table
        from cavity.tables.training import Options

        file = _out_file(data, out)
        check_output(report, "--report", (data, file))
        if time is not None:
            _refuse_others(context, FOR_SERIES, "time series (--time)")
            if len(target) > 1:
                raise ValueError("a time series (--time) has one --target; fit a model of each")
            fit_series(data, time, target[0], season, likelihood, file, report, command_line(context))
            return
        if season:
            raise ValueError("--season is for time series; name the column of times with --time")
        _check_kernel(kernel)
        if len(target) > 1:
            _refuse_others(context, FOR_SEVERAL, "several targets")
            how = {"drop": drop or (), "impute": impute, "categories": categories, "text": text or ()}
            asked = Options(kernel, likelihood, inference, mean, test_size, restarts, seed, max_time)
            fit_several(data, target, how, asked, rank, file, report, command_line(context))
            return
        _refuse_given(context, "rank", "several targets; name them with --target, repeated")
        table = read_table(data, SAMPLE_ROWS, seed)
        rows, columns = counted(table.total, "row"), counted(table.frame.shape[1], "column")
        say(f"Read {rows} and {columns} from {data}.")
        table = table.with_target(target[0])
        for note in table.notes:
            say(note)
        if representation == "dense" or text:
            if representation not in ("auto", "dense") or table.total > len(table.frame):
                raise ValueError(
                    "--text needs all rows in one matrix: leave out --representation, or take fewer rows"
                )
            check_size(len(table.frame), subset=False)
        preparation, X, y = prepare(
            table,
            target[0],
            drop=drop or (),
            task=task,
            impute=impute,
            categories=categories,
            text=text or (),
        )
        number = "auto" if inducing is None else inducing
        size = (learn_rows, representation, number)
        options = Options(
            kernel, likelihood, inference, mean, test_size, restarts, seed, max_time, draws, *size
        )
        whole = None
        if table.total > len(table.frame):
            say(f"Learning from a random sample of {len(X)} rows; the model is conditioned on all.")
            whole = whole_table(data, preparation, scheduler)
        elif scheduler is not None:
            say(f"{rows} need no cluster: --scheduler is not used.")
        model = fit_table(preparation, X, y, table, options, lambda text: say(text, stderr=True), whole)
        files = [(keep(model.save, file), file)]
        show(model)
        if model.report.choice is not None:
            say(model.report.choice.render(in_options))
        say(f"Model: {files[0][0]}")
        if report is not None:
            from cavity.report import model_page

            page = model_page(model, table, command=command_line(context), words=in_options)
            files.append((keep(page.write, report), report))
            say(f"Report: {files[1][0]}")
        show_verdict(model)
        if model.report.interrupted:  # which was shown
            raise typer.Exit(INTERRUPTED)
        exit_if_moved(*files)


def _refuse_others(context: typer.Context, allowed: Sequence[str], what: str) -> None:
    """Refuse options that mean nothing for a time series, or for several targets."""
    for parameter in context.command.params:
        if parameter.param_type_name == "option" and parameter.name not in allowed:
            _refuse_given(context, str(parameter.name), f"{what}; leave it out", "is not for")


def _refuse_given(context: typer.Context, name: str, what: str, verb: str = "is for") -> None:
    """Refuse an option if it was given."""
    source = context.get_parameter_source(name)
    if source is not None and source.name == "COMMANDLINE":
        raise ValueError(f"--{name.replace('_', '-')} {verb} {what}")


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
