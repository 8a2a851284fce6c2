"""`cavity assess`: the check of approximations against the gold standard, on the user's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cavity.cli.shared import Debug, console, load_table_model, one_sentence, say

if TYPE_CHECKING:
    from cavity.assessment import Assessment
    from cavity.tables import TableModel


def add(app: typer.Typer) -> None:
    """Make it a command."""
    app.command()(assess)


def assess(
    model: Annotated[Path, typer.Argument(help="Model file of cavity fit.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="The table it was learned from.", show_default=False)],
    budget: Annotated[str, typer.Option(help="Time for the gold standard: 30s, 5min, 1h.")] = "1min",
    method: Annotated[
        list[str] | None, typer.Option(help="Inference rule to judge; may be repeated [default: all].")
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of rows held out to compare predictions.")] = 0.2,
    max_rows: Annotated[int | None, typer.Option(help="Use a random subset of so many rows.")] = None,
    seed: Annotated[int, typer.Option(help="For held-out rows and sampling.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Also draw the comparison into this PNG or SVG.")] = None,
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report to this file.")] = None,
    debug: Debug = False,
) -> None:
    """Check Laplace, EP and variational approximations against annealed importance sampling and Markov chains.

    Hyperparameters are those of the model file, the same for all methods.

    Example: cavity assess houses.cavity houses.csv --budget 5min
    """
    with one_sentence(debug):
        loaded = load_table_model(model)
        found = assess_table(loaded, data, budget, method, test_size, max_rows, seed)
        console().print(found)
        if plot is not None:
            found.plot().savefig(plot)
            say(f"Picture: {plot}")
        if report is not None:
            from cavity.report import model_page

            page = model_page(
                loaded, assessment=found, command=f"cavity assess {model} {data} --budget {budget}"
            )
            say(f"Report: {page.write(report)}")


def assess_table(
    model: TableModel,
    data: Path,
    budget: str,
    methods: list[str] | None,
    test_size: float,
    max_rows: int | None,
    seed: int,
) -> Assessment:
    """The rows of a file, as the model prepares them, split and assessed."""
    import numpy as np

    import cavity
    from cavity.likelihoods import GaussianNoise
    from cavity.tables import read_table

    table = read_table(data, max_rows, seed)
    X = model.preparation.inputs(table.frame, table.rows)
    y = model.preparation.targets(table.frame, table.rows)
    order = np.random.default_rng(seed).permutation(len(X))
    held = order[: round(test_size * len(X))]
    train = np.setdiff1d(order, held)
    options: dict[str, Any] = {}
    if len(held):
        options = {"X_test": X.iloc[held].to_numpy(), "y_test": y[held]}
    if methods is None:
        gaussian = isinstance(getattr(model.estimator, "likelihood_", None), GaussianNoise)
        methods = ["exact"] if gaussian else ["laplace", "ep", "variational"]
    say(f"Assessing {', '.join(methods)} on {len(train)} rows; budget {budget} ...", stderr=True)
    return cavity.assess(
        model.estimator,
        X.iloc[train].to_numpy(),
        y[train],
        methods=methods,
        budget=budget,
        seed=seed,
        **options,
    )
