"""The command line: one file for each command.

A command is the function of a module that has its name. Add a module to `COMMANDS`, and it is a command. What commands
share (errors in one sentence, exit codes, the `--debug` option, consoles) is in `shared`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated

import typer

from cavity.runtime.lazy import defer

COMMANDS = (
    "demo",
    "fit",
    "predict",
    "forecast",
    "suggest",
    "optimize",
    "compare",
    "assess",
    "report",
    "info",
    "reproduce",
)
"""Modules of this package, in the order of `cavity --help`."""

SELDOM_USED = ("scipy.stats", "pandas", "numpy.f2py", "numpy.testing")
"""What scikit-learn and SciPy import, and most commands need late or never."""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Gaussian processes with robust noise models and approximate inference that can be checked.",
)


def _show_version(asked: bool) -> None:
    if asked:
        from cavity import __version__

        typer.echo(f"cavity {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Gaussian processes with robust noise models and approximate inference that can be checked."""


for _name in COMMANDS:
    app.command()(getattr(import_module(f"cavity.cli.{_name}"), _name))


def main() -> None:
    """Entry point."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that knows few characters shows what it can
            stream.reconfigure(errors="backslashreplace")
    defer(*SELDOM_USED)
    app(prog_name="cavity")
