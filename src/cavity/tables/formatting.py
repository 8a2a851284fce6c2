"""Parts of a model as short text, and numbers of things."""

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
