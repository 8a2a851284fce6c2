"""The command line: one file for each command.

A command is a function in a module of its own with an `add(app)`; add a module to `COMMANDS` and it is there. What
commands share (errors in one sentence, exit codes, the `--debug` option, consoles) is in `shared`.
"""

from __future__ import annotations

from importlib import import_module

import typer

COMMANDS = ("demo", "fit", "predict", "compare", "assess", "report", "info", "reproduce")
"""Modules of this package, in the order of `cavity --help`."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Gaussian processes with robust noise models and approximate inference that can be checked.",
)


@app.callback()
def _main() -> None:
    """Gaussian processes with robust noise models and approximate inference that can be checked."""


for _name in COMMANDS:
    import_module(f"cavity.cli.{_name}").add(app)


def main() -> None:
    """Entry point."""
    app()
