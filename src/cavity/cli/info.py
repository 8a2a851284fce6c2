"""`cavity info`: what is in a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cavity.cli.shared import Debug, load_model, one_sentence, say


def add(app: typer.Typer) -> None:
    """Make it a command."""
    app.command()(info)


def info(
    model: Annotated[Path, typer.Argument(help="Model file.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Show what is in a model file: data, model, hyperparameters, scores, outliers.

    Example: cavity info houses.cavity
    """
    with one_sentence(debug):
        from cavity.cli.summary import show
        from cavity.io import header
        from cavity.tables import TableModel

        loaded = load_model(model)
        written = header(model)
        by = written["written_by"]
        say(
            f"{model}: format {written['version']}, written by cavity {by.get('cavity', 'unknown')}, "
            f"{model.stat().st_size / 1024:.1f} kB."
        )
        if isinstance(loaded, TableModel):
            show(loaded)
        else:
            for line in _describe(loaded):
                say(line)


def _describe(model: Any) -> list[str]:
    """A model that was saved from Python."""
    inner = getattr(model, "model_", None) or getattr(model, "model", None) or model
    lines = [f"{type(model).__name__} saved from Python."]
    for one in inner if isinstance(inner, tuple) else (inner,):
        lines += [f"kernel: {one.kernel!r}", f"noise model: {one.likelihood!r}", f"mean: {one.mean!r}"]
    evidence = getattr(model, "log_evidence_", getattr(model, "log_evidence", None))
    if evidence is not None:
        lines.append(f"log evidence: {evidence:.4g}")
    return lines
