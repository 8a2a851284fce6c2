"""What commands share.

Exit codes: 0 done, 1 the input or the model is at fault (one sentence says how), 2 the command was not understood,
3 something unexpected, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from cavity.cli.words import in_options, words_of
from cavity.runtime.errors import Described
from cavity.runtime.progress import told_in_lines

if TYPE_CHECKING:
    from rich.console import Console

    from cavity.frames.notes import Note
    from cavity.tables import OutputsModel, TableModel

AT_FAULT, UNEXPECTED, INTERRUPTED = 1, 3, 130

Debug = Annotated[bool, typer.Option("--debug", help="Show where an error happened.")]


def at_least_zero(value: int) -> int:
    """Refuse an option below zero, with the value."""
    if value < 0:
        raise typer.BadParameter(f"it must be at least 0, got {value}")
    return value


def console(*, stderr: bool = False) -> Console:
    """Where to print; texts from files are never read as markup."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(text: str, *, stderr: bool = False, style: str = "") -> None:
    """A line of text; on a terminal broken between words, but words that are longer, such as paths, stay whole."""
    out = console(stderr=stderr)
    if out.is_terminal:
        lines = (
            fill(line, out.width, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")
        )
        text = "\n".join(lines)
    out.print(text, soft_wrap=True, style=style or None)


def say_notes(notes: Sequence[Note]) -> None:
    """What was decided about a table, a line each."""
    for note in notes:
        say(note.render(in_options), style="yellow" if note.warns else "")


@contextmanager
def one_sentence(debug: bool, *, early: str = "", **options: str) -> Iterator[None]:
    """Errors as one sentence and an exit code, unless `debug` asks for the traceback; long work is told in lines.

    `early` says what ends long work early. `options` are what this command calls arguments of Python, if that is not
    what the others call them.
    """
    try:
        with told_in_lines(lambda text: say(text, stderr=True), early):
            yield
    except (typer.Exit, typer.Abort):
        raise
    except KeyboardInterrupt:
        say("Interrupted; nothing more was written.", stderr=True)
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(AT_FAULT) from None
    except (ValueError, OSError, MemoryError, np.linalg.LinAlgError) as error:
        if debug:
            raise
        say(f"Error: {_sentence(error, options)}", stderr=True, style="red")
        raise typer.Exit(AT_FAULT) from None
    except Exception as error:
        if debug:
            raise
        say(
            f"Error: something unexpected happened ({type(error).__name__}: {_sentence(error, options)}); "
            "run it again with --debug to see where",
            stderr=True,
            style="red",
        )
        raise typer.Exit(UNEXPECTED) from None


def _sentence(error: BaseException, options: Mapping[str, str]) -> str:
    if isinstance(error, Described):
        return error.message.render(words_of(**options))
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the output'}: {error.strerror}"
    return str(error) or type(error).__name__


A_WHILE = 60.0
"""Seconds of an exact fit from which on a table is called large."""


def check_size(rows: int, *, subset: bool = True) -> None:
    """Say how much memory and time an exact fit takes, if that is a lot, and refuse what cannot fit.

    What is proposed is a random subset, if the command takes one, of rows that take about a minute: time grows faster
    than memory, and rows that fit into memory may take hours. Otherwise it is another representation.
    """
    from cavity.numerics.time_estimate import learning_time, rows_within
    from cavity.runtime.durations import in_words
    from cavity.tables.fit import memory_estimate

    needed, free = memory_estimate(rows)
    seconds = learning_time(rows, "exact", 0)  # nan for few rows
    slow = seconds > A_WHILE
    fits = min(
        max(int((free / needed) ** 0.5 * rows / 2), 1), rows_within(A_WHILE, rows, seconds) if slow else rows
    )
    remedy = f"--max-rows {fits}, a random subset," if subset else "--representation inducing"
    memory = f"needs about {needed / 2**30:.1f} GiB"
    time = f" and takes about {in_words(seconds)}" if slow else ""
    if needed > free:
        short = f"but {free / 2**30:.1f} GiB are free" + (f",{time}" if time else "")
        raise ValueError(f"an exact fit of {rows} rows {memory}, {short}; use {remedy.rstrip(',')}")
    if slow:
        say(f"An exact fit of {rows} rows {memory} of memory{time} or more; {remedy} is faster.")


def check_output(
    path: Path | None, option: str, others: Sequence[Path | None] = (), endings: Sequence[str] = ()
) -> None:
    """Refuse a place where no file can be written, before any work is done; `others` are files to keep."""
    if path is None:
        return
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give {option} the name of a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is a device or a pipe; give {option} the name of a file")
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"the name of the file for {option} must end in {' or '.join(endings)}, got {path}")
    check_folder(path.absolute().parent, option, path)
    for other in others:
        if other is not None and _same_file(path, other):
            raise ValueError(
                f"{option} would overwrite {other}, which this command reads or writes itself; give {option} another "
                "name"
            )


def check_folder(folder: Path, option: str, path: Path) -> None:
    """Refuse a folder, which may not exist yet, in which `path` of an option cannot be made."""
    there = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.exists())
    if not there.is_dir():
        raise ValueError(f"{there} is not a folder, so that {option} cannot write {path}")
    if not _takes_files(there):
        raise ValueError(
            f"the folder {there} cannot be written to, so that {option} cannot write {path}; give it another place"
        )


def _takes_files(folder: Path) -> bool:
    """Whether a file can be made in a folder; permissions alone do not tell, as of /proc."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        return error.errno == errno.ENOSPC  # which may have room by then, and nothing is lost if not


def _same_file(one: Path, other: Path) -> bool:
    """Whether two names are of one file, which may not exist yet."""
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)  # of links in a circle too


def command_line(context: typer.Context) -> str:
    """The command that is running, as one would type it again; what was left at its default is left out."""
    words = ["cavity", str(context.info_name)]
    options: list[str] = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value is None or value == parameter.get_default(context) or parameter.name == "debug":
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif value is True:
            options.append(parameter.opts[0])
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                options += [parameter.opts[0], str(one)]
    return shlex.join([*words, *options])


def load_predictor(path: Path) -> TableModel | OutputsModel:
    """The model of one or several targets of a table in a file."""
    from cavity.tables import OutputsModel

    model = load_model(path)
    return model if isinstance(model, OutputsModel) else _require_table_model(path, model)


def load_table_model(path: Path) -> TableModel:
    """The model of one target of a table in a file."""
    from cavity.tables import OutputsModel

    model = load_model(path)
    if isinstance(model, OutputsModel):
        raise ValueError(
            f"{path} holds a model of several targets ({', '.join(model.names)}), which this command does not take; "
            "use cavity predict, info or report, or fit one target by itself"
        )
    return _require_table_model(path, model)


def _require_table_model(path: Path, model: Any) -> TableModel:
    from cavity.tables import TableModel

    if type(model).__name__ == "GPForecaster":
        raise ValueError(
            f"{path} holds a model of a time series; use cavity forecast, with --report for a report"
        )
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} holds a {type(model).__name__} that was saved from Python and does not know how a table becomes "
            "its inputs; load it with cavity.load, or fit from a table with cavity fit"
        )
    return model


def load_model(path: Path) -> Any:
    """Whatever a model file holds."""
    import cavity

    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a model file")
    return cavity.load(path)
