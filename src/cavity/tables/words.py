"""Parts of a model as short text, for tables and reports."""

from __future__ import annotations

import re
from typing import Any

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?:e[-+]?\d+)?")
"""Numbers in the text of a kernel."""

PRIOR = re.compile(r"Param\((\[[^\]]*\]|[^(),]*), prior=\w+\([^()]*\)\)")
"""A value with its prior."""


def short_text(part: Any) -> str:
    """A kernel or a likelihood as text, numbers with four digits, without priors.

    >>> from cavity.hyper import Param
    >>> from cavity.kernels import SE
    >>> from cavity.priors import LogNormal
    >>> short_text(Param(1.23456, prior=LogNormal(0.0, 1.0)) * SE(2.0))
    '1.235 * SE(lengthscale=2)'
    """
    values = PRIOR.sub(r"\1", repr(part))
    return NUMBER.sub(lambda found: f"{float(found.group()):.4g}", values)
