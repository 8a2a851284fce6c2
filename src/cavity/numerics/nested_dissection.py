"""An order of elimination for sparse symmetric matrices whose rows are places in few dimensions.

Nested dissection (George 1973): places are halved along the column in which they extend furthest; rows that touch the
other side, as few as cover all entries between the halves (a matching finds them, Konig 1931), are the *separator* and
are eliminated last; both halves, which no longer touch, are dissected in turn. The factor then fills in within a piece
and between it and separators above it only, and every piece is one dense block.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from cavity.numerics.arrays import Array

Index = NDArray[np.int64]

LEAF = 96
"""Rows of a piece that is not halved again: blocks of this size are multiplied at nearly full speed."""


class Piece(NamedTuple):
    """Rows that are eliminated together.

    Attributes
    ----------
    rows : array (c,)
    children : tuple of int
        Pieces whose separator it is.
    """

    rows: Index
    children: tuple[int, ...]


def dissect(places: Array, graph: csr_array, leaf: int = LEAF) -> list[Piece]:
    """Pieces in an order in which children come before what separates them.

    Parameters
    ----------
    places : array (n, D)
    graph : sparse (n, n)
        Symmetric; its entries say which rows touch.
    """
    pieces: list[Piece] = []

    def add(rows: Index) -> int | None:
        """The number of the piece that was added last: the top of this part."""
        if len(rows) == 0:
            return None
        parts = None if len(rows) <= leaf else _halve(places, graph, rows)
        children: tuple[int, ...] = ()
        if parts is not None:
            left, right, rows = parts
            children = tuple(top for half in (left, right) if (top := add(half)) is not None)
        pieces.append(Piece(rows, children))
        return len(pieces) - 1

    add(np.arange(len(places)))
    return pieces


def _halve(places: Array, graph: csr_array, rows: Index) -> tuple[Index, Index, Index] | None:
    """Two halves and what separates them; None if that would be nearly all."""
    own = places[rows]
    along = own[:, int(np.argmax(np.ptp(own, axis=0)))]
    upper = np.zeros(len(rows), dtype=bool)
    upper[np.argsort(along, kind="stable")[len(rows) // 2 :]] = True
    inner = graph[rows][:, rows]
    between = csr_array(inner[~upper][:, upper])
    low, high = _cover(between)
    lower_rows, upper_rows = rows[~upper], rows[upper]
    separator = np.concatenate([lower_rows[low], upper_rows[high]])
    if len(separator) > 0.8 * len(rows):
        return None
    return lower_rows[~low], upper_rows[~high], separator


def _cover(between: csr_array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The fewest rows and columns that hold all entries: from unmatched rows, follow entries and matches in turn."""
    match = maximum_bipartite_matching(between, perm_type="column")  # the column of each row, or -1
    partner: Any = np.full(between.shape[1], -1)
    partner[match[match >= 0]] = np.flatnonzero(match >= 0)
    reached, seen = match < 0, np.zeros(between.shape[1], dtype=bool)
    front = np.flatnonzero(reached)
    while front.size:
        columns = np.unique(between[front].indices)
        columns = columns[~seen[columns]]
        seen[columns] = True
        front = partner[columns]  # all are matched, or the matching would not be largest
        front = front[~reached[front]]
        reached[front] = True
    return ~reached, seen
