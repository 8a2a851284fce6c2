"""`cavity assess`: the check of approximations against the gold standard, on the user's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cavity.cli.shared import (
    INTERRUPTED,
    Debug,
    at_least_zero,
    check_output,
    check_size,
    command_line,
    console,
    load_table_model,
    one_sentence,
    say,
)
from cavity.cli.words import in_options

if TYPE_CHECKING:
    from cavity.assessment import Assessment
    from cavity.tables import Table, TableModel


def assess(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="Model file of cavity fit.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="The table it was learned from.", show_default=False)],
    max_time: Annotated[float, typer.Option(help="Seconds for the gold standard.")] = 60.0,
    inference: Annotated[
        list[str] | None, typer.Option(help="Inference rule to judge; may be repeated \\[default: all].")
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of rows held out to compare predictions.")] = 0.2,
    max_rows: Annotated[int | None, typer.Option(help="Use a random subset of this many rows.")] = None,
    seed: Annotated[int, typer.Option(help="For held-out rows and sampling.", callback=at_least_zero)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Also draw the comparison into this PNG or SVG.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Check Laplace, EP and variational approximations against annealed importance sampling and Markov chains.

    Hyperparameters are those of the model file, the same for all methods.

    Example: cavity assess houses.cavity houses.csv --max-time 300
    """
    with one_sentence(debug):
        check_output(report, "--report", (model, data))
        check_output(plot, "--plot", (model, data, report), (".png", ".svg", ".pdf"))
        loaded = load_table_model(model)
        table, found = assess_table(loaded, data, max_time, inference, test_size, max_rows, seed)
        console().print(found)
        if plot is not None:
            plot.parent.mkdir(parents=True, exist_ok=True)
            found.plot().savefig(plot)
            say(f"Picture: {plot}")
        if report is not None:
            from cavity.report import model_page

            page = model_page(
                loaded, table, assessment=found, command=command_line(context), words=in_options
            )
            say(f"Report: {page.write(report)}")
        if found.gold.chains.interrupted:  # which was shown
            raise typer.Exit(INTERRUPTED)


def assess_table(
    model: TableModel,
    data: Path,
    max_time: float,
    inference: list[str] | None,
    test_size: float,
    max_rows: int | None,
    seed: int,
) -> tuple[Table, Assessment]:
    """The rows of a file, as the model prepares them, split and assessed; wrong options are refused before all that."""
    import numpy as np

    import cavity
    from cavity.assessment import require_seconds
    from cavity.inference.registry import as_inference
    from cavity.likelihoods import GaussianNoise
    from cavity.tables import read_table
    from cavity.tables.description import draws_of

    if draws_of(model.estimator):
        raise ValueError(
            "this model was fitted by sampling, which is what approximations are checked against: there is nothing to "
            "assess; cavity info shows how well its chains mixed, and a model of cavity fit --inference ep can be "
            "assessed"
        )
    require_seconds(max_time)
    for rule in inference or ():
        as_inference(rule)
    if not 0.0 <= test_size < 1.0:
        raise ValueError(f"--test-size must be at least 0 and below 1, got {test_size!r}")
    table = read_table(data, max_rows, seed).with_target(model.preparation.target)
    check_size(len(table.frame))
    X = model.preparation.inputs(table.frame, table.rows)
    y = model.preparation.targets(table.frame, table.rows)
    order = np.random.default_rng(seed).permutation(len(X))
    held = np.sort(order[: round(test_size * len(X))])
    train = np.setdiff1d(order, held)
    options: dict[str, Any] = {}
    if len(held):
        options = {"X_test": X.iloc[held].to_numpy(), "y_test": y[held]}
    if not inference:
        gaussian = isinstance(getattr(model.estimator, "likelihood_", None), GaussianNoise)
        inference = ["exact"] if gaussian else ["laplace", "ep", "variational"]
    say(f"Assessing {', '.join(inference)} on {len(train)} rows; {max_time:g} seconds ...", stderr=True)
    found = cavity.assess(
        model.estimator,
        X.iloc[train].to_numpy(),
        y[train],
        inference=inference,
        max_time=max_time,
        rng=seed,
        **options,
    )
    return table, found
