"""Parts of a model as short text, shares and places as people write them."""

from __future__ import annotations

import math
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


def plain(value: float, digits: int = 4) -> str:
    """A number with so many digits, written out unless it is very large or very small.

    >>> plain(45318.2, 3), plain(0.000321987), plain(1.5), plain(2.5e9), plain(3e-7), plain(0.0), plain(float("inf"))
    ('45300', '0.000322', '1.5', '2.5e+09', '3e-07', '0', 'inf')
    """
    if not math.isfinite(value) or value == 0 or not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    shown = f"{float(f'{value:.{digits - 1}e}'):.{decimals}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def percent(share: float, digits: int = 0) -> str:
    """A share in per cent.

    >>> percent(0.123), percent(0.123, 1)
    ('12 %', '12.3 %')
    """
    return f"{100 * share:.{digits}f} %"


def rounded(value: float, span: float) -> str:
    """A place within a span, with two digits of the span.

    >>> rounded(71.153, 94.0), rounded(-0.06226, 3.3), rounded(2013.7, 12.0), rounded(123456.0, 9e4)
    ('71', '-0.1', '2014', '123000')
    """
    if not (span > 0 and math.isfinite(span)):
        return f"{value:.4g}"
    digits = 1 - math.floor(math.log10(span))
    return f"{round(value, digits) + 0.0:.{max(digits, 0)}f}"
