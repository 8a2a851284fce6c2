"""Parts of a model as short text, numbers of things, and sentences about Python as those about the command line."""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?")
"""Numbers in the text of a kernel."""

PRIOR = re.compile(r"Param\((\[[^\]]*\]|[^(),]*), prior=\w+\([^()]*\)\)")
"""A value with its prior."""


def short_text(part: Any) -> str:
    """A kernel or a likelihood as text, numbers with four digits, without priors.

    >>> from cavity.parameters import Param
    >>> from cavity.kernels import SE
    >>> from cavity.parameters.priors import LogNormal
    >>> short_text(Param(1.23456, prior=LogNormal(0.0, 1.0)) * SE(2.0))
    '1.235 * SE(lengthscale=2)'
    """
    values = PRIOR.sub(r"\1", repr(part))
    return NUMBER.sub(lambda found: f"{float(found.group()):.4g}", values)


def counted(n: int, what: str) -> str:
    """A number of things.

    >>> counted(1, "row"), counted(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what}" + ("" if n == 1 else "s")


OPTIONS = {
    "n_restarts": "--restarts",
    "max_rows": "--max-rows",
    "max_time": "--max-time",
    "inference": "--inference",
    "likelihood": "--likelihood",
    "mean": "--mean",
    "interval": "--interval",
    "task": "--task",
    "impute": "--impute",
    "categories": "--categories",
    "budget": "--budget",
    "jobs": "--jobs",
}
"""Arguments in Python, and what they are called here."""

GIVEN = re.compile(rf"(?:\bset )?(?<!-)\b({'|'.join(OPTIONS)})=['\"]?([\w.-]+)['\"]?")
DEMANDED = re.compile(rf"^({'|'.join(OPTIONS)})(?= must )")
NAMED = re.compile(rf"\b({'|'.join(name for name in OPTIONS if '_' in name)})\b")


def in_options(text: str) -> str:
    """A sentence about arguments in Python as one about options of the command line.

    >>> in_options('exact inference needs Gaussian noise; use inference="ep"')
    'exact inference needs Gaussian noise; use --inference ep'
    """
    text = text.replace(" (impute='median')", "")
    text = GIVEN.sub(lambda found: f"{_use(found.group())}{OPTIONS[found[1]]} {found[2]}", text)
    text = DEMANDED.sub(lambda found: OPTIONS[found[1]], text)
    return NAMED.sub(lambda found: OPTIONS[found[1]], text)  # other names are also words


def _use(words: str) -> str:
    return "use " if words.startswith("set ") else ""
