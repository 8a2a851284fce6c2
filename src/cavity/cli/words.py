"""Messages in the words of the command line: options instead of arguments of Python."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial

from cavity.runtime.errors import InPython, Setting, Words, either

SAME_NAME = (
    *("max_rows", "max_time", "inference", "likelihood", "mean", "kernel", "draws", "test_size", "seed"),
    *("interval", "keep", "task", "impute", "categories", "drop", "target", "folds", "restarts"),
    *("jobs", "clean", "text", "rank", "horizon", "learn_rows", "representation", "scheduler"),
)
"""Arguments whose options have their name."""

OPTIONS = {name: f"--{name.replace('_', '-')}" for name in SAME_NAME} | {
    "n_restarts": "--restarts",
    "random_state": "--seed",
    "n_jobs": "--jobs",
    "seasons": "--season",
    "n_inducing": "--inducing",
}
"""Arguments in Python, and the options that set them."""


def in_options(part: Setting | InPython, options: Mapping[str, str] = OPTIONS) -> str:
    """A part of a message for users of the command line.

    >>> in_options(Setting("inference", ("ep", "laplace")))
    '--inference ep or laplace'
    >>> in_options(Setting("warm_start", True))  # which has no option
    'warm_start=True'
    """
    if isinstance(part, InPython):
        return ""
    if part.parameter not in options:
        return str(part)
    values = [shlex.quote(f"{value:g}" if isinstance(value, float) else str(value)) for value in part.values]
    return f"{options[part.parameter]} {either(values)}" if values else options[part.parameter]


def words_of(**own: str) -> Words:
    """The words of a command that has options of its own for some arguments."""
    return partial(in_options, options=OPTIONS | own)
