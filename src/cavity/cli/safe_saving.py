"""What took long to learn is not lost because a disk is full: it goes elsewhere, or waits in memory for a place."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import typer

from cavity.cli.shared import AT_FAULT, say
from cavity.runtime.errors import InputError

Write = Callable[[Path], object]


def keep(write: Write, file: Path) -> Path:
    """Write a file where it was asked for, else somewhere else, and say where.

    The other places are the folder for temporary files, the home and the current folder. If none takes it, a user at a
    terminal is asked for another name, or for room on the disk; meanwhile the model is in memory.

    Raises
    ------
    InputError
        If there is no place and nobody to ask.
    """
    try:
        write(file)
        return file
    except OSError as error:
        say(f"Error: {_reason(error, file)}", stderr=True, style="red")
    for place in _elsewhere(file):
        try:
            write(place)
        except OSError:
            continue
        say(f"It was written to {place} instead.", stderr=True)
        return place
    while sys.stdin.isatty():
        name = typer.prompt(
            "Nothing is lost yet. Another file name, or Enter to try again", default=str(file), err=True
        )
        try:
            write(Path(name))
            return Path(name)
        except OSError as error:
            say(f"Error: {_reason(error, Path(name))}", stderr=True, style="red")
    raise InputError(
        f"{file} could not be written, nor any other place", remedy="make room, and run it again"
    )


def exit_if_moved(*files: tuple[Path, Path]) -> None:
    """End with the code of a fault, and with sentences, if files (as kept, as asked for) are somewhere else."""
    moved = [(kept, file) for kept, file in files if kept != file]
    for kept, file in moved:
        say(f"{file} could not be written, see above; it is in {kept}.", stderr=True, style="red")
    if moved:
        raise typer.Exit(AT_FAULT)


def _elsewhere(file: Path) -> Iterator[Path]:
    """New names in other folders; no file there is overwritten."""
    for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        if folder.is_dir() and folder.resolve() != file.resolve().parent:
            place = folder / file.name
            count = 1
            while place.exists():
                place = folder / f"{file.stem}-{count}{file.suffix}"
                count += 1
            yield place


def _reason(error: OSError, file: Path) -> str:
    return f"{error.filename or os.fspath(file)}: {error.strerror or error}"
