# mypy: disable-error-code="untyped-decorator"
"""Compiled loops of `multifrontal`: parts of fronts into others."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.numerics.scalar import jit


@jit
def extend(update: Any, where: Any, panel: Any, rest: Any) -> None:
    """Add the lower triangle of an update (r, r) to the rows and columns `where` of a front."""
    c = panel.shape[1]
    for i in range(len(where)):
        row = where[i]
        for j in range(i + 1):
            column = where[j]
            if column < c:
                panel[row, column] += update[i, j]
            else:
                rest[row - c, column - c] += update[i, j]


@jit
def taken(S: Any, where: Any) -> Any:
    """Rows and columns `where` of a symmetric matrix."""
    r = len(where)
    out = np.empty((r, r))
    for i in range(r):
        for j in range(r):
            out[i, j] = S[where[i], where[j]]
    return out
