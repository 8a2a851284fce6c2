"""Predictions as cells of a text file: as many digits as mean something, nothing infinite, no formulas.

Digits are counted from the sd: with four of them a sd of 0.012345 is written 0.01235, and a mean beside it with as many
decimals. Probabilities have six significant digits. What is not finite is an empty cell. A spreadsheet takes a text
that begins with =, +, -, @ or a tab for a formula and runs it; such a text gets an apostrophe before it, which
spreadsheets take for the mark of text. Numbers are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.frames.numbers import WRITTEN
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

DIGITS = 4
"""Significant digits of the sd."""

PROBABILITY_DIGITS = 6

MOST_DIGITS = 17
"""More do not change a floating-point number."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of text that spreadsheets may run."""

REGRESSION = ("mean", "sd", "lower", "upper")


def as_cells(block: pd.DataFrame, predicted: Iterable[str], digits: int, escape: bool) -> pd.DataFrame:
    """A table of predictions as text; `predicted` are its columns that are predictions, the others are kept ones."""
    names = list(predicted)
    out = block.copy()
    targets = regression_targets(names)
    for target in targets:
        rows = _decimals(block, target, digits)
        for name in (target + part for part in REGRESSION):
            out[name] = [_fixed(value, places) for value, places in zip(block[name], rows)]
    if not targets:
        for name in names[1:]:
            out[name] = [f"{value:.{max(digits, PROBABILITY_DIGITS)}g}" for value in block[name]]
    if escape:
        kept = [str(name) for name in out if name not in names]
        for name in [*kept, *([] if targets else names[:1])]:
            out[name] = [escaped(value) for value in out[name]]
        out.columns = [escaped(name) for name in out.columns]
    return out


def regression_targets(names: Sequence[str]) -> list[str]:
    """How the columns of each target begin, if all are mean, sd and interval: one that is empty, or "price " and so on.

    >>> regression_targets(["mean", "sd", "lower", "upper"]), regression_targets(["color", "p(red)"])
    ([''], [])
    """
    found = [name.removesuffix(REGRESSION[0]) for name in names if name.endswith(REGRESSION[0])]
    return found if [target + part for target in found for part in REGRESSION] == list(names) else []


def escaped(value: Any) -> Any:
    """A text that is no formula to a spreadsheet; numbers and anything else as they are.

    >>> escaped("=1+1"), escaped("-1.5"), escaped("Oslo"), escaped("-x")
    ("'=1+1", '-1.5', 'Oslo', "'-x")
    """
    risky = isinstance(value, str) and value.startswith(FORMULA) and not _is_number(value)
    return f"'{value}" if risky else value


def _is_number(text: str) -> bool:
    if WRITTEN.fullmatch(text):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text


def _decimals(block: pd.DataFrame, target: str, digits: int) -> Array:
    """Places behind the decimal point for each row; those of the sd, else of the interval's half width."""
    sd = block[target + "sd"].to_numpy(dtype=float)
    half = (block[target + "upper"] - block[target + "lower"]).to_numpy(dtype=float) / 2
    scale = np.where(np.isfinite(sd) & (sd > 0), sd, half)
    known = np.isfinite(scale) & (scale > 0)
    size = np.floor(np.log10(np.where(known, scale, 1.0)))
    return np.where(known, digits - 1 - size, np.nan)


def _fixed(value: float, places: float) -> str:
    """A number with so many decimals, or in scientific notation if these are very many."""
    if not np.isfinite(value):
        return ""
    if np.isnan(places):
        return repr(float(value))
    size = 0 if value == 0 else int(np.floor(np.log10(abs(value))))
    significant = max(size + int(places) + 1, 1)
    if significant >= MOST_DIGITS:
        return repr(float(value))
    if -5 < size < 16:
        return f"{value:.{max(significant - 1 - size, 0)}f}"
    return f"{value:.{significant - 1}e}"
