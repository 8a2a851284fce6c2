# mypy: disable-error-code="untyped-decorator,no-untyped-call"
"""Sparse symmetric positive definite matrices by dense blocks: factor, solutions, and the inverse where the factor is.

Rows are eliminated piece by piece (`nested_dissection`). Piece J, with the later rows R that its factor reaches, is a
*front*; what earlier pieces leave of it is added up from its children (Duff and Reid 1983):

    F_JJ = L L',   Y = F_RJ F_JJ^-1,   and  -Y F_JR  goes on to the parent.

The inverse S on the pattern of the factor comes back down the tree (Takahashi, Fagan and Chen 1973):

    S_RJ = -S_RR Y,   S_JJ = F_JJ^-1 + Y' S_RR Y,

with S_RR taken from the parent's front. If the diagonal of the matrix moves, so do all of these, forwards:

    dY = (dF_RJ - Y dF_JJ) F_JJ^-1,   dS_RJ = -dS_RR Y - S_RR dY,
    dS_JJ = -F_JJ^-1 dF_JJ F_JJ^-1 + Y' dS_RR Y + dY' S_RR Y + Y' S_RR dY.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array

from cavity.numerics.arrays import Array
from cavity.numerics.cholesky import Cholesky, try_factorize
from cavity.numerics.nested_dissection import Piece, dissect

Index = NDArray[np.int64]


class Front(NamedTuple):
    """A piece and what it reaches.

    Attributes
    ----------
    own : slice
        Its places in the order of elimination.
    reached : array (r,)
        Places that follow, in increasing order.
    parent : int
        The front that they belong to or reach; -1 of a root.
    where : array (r,)
        Their places in the parent's front.
    entries, into : arrays
        Entries of the matrix that belong to the front's columns, and where they are in its (c + r, c) panel.
    """

    own: slice
    reached: Index
    parent: int
    where: Index
    entries: Index
    into: Index


class Pattern:
    """Where a sparse symmetric matrix (n, n) has entries, and in which order its rows are eliminated.

    Parameters
    ----------
    rows, columns : arrays (N,)
        Entries of one triangle, diagonal included, each once.
    places : array (n, D)
        Rows that touch are near each other.

    Attributes
    ----------
    order : array (n,)
        The rows in the order of elimination.
    fronts : list of Front
        Children before parents.
    fill : int
        Entries of the factor.
    """

    def __init__(self, rows: Index, columns: Index, places: Array) -> None:
        self.n = n = len(places)
        apart = rows != columns
        ends = np.concatenate([rows[apart], columns[apart]]), np.concatenate([columns[apart], rows[apart]])
        graph = csr_array((np.ones(len(ends[0]), dtype=np.int8), ends), shape=(n, n))
        pieces = dissect(places, graph)
        self.order = np.concatenate([piece.rows for piece in pieces])
        place = np.empty(n, dtype=np.int64)
        place[self.order] = np.arange(n)
        later, earlier = np.maximum(place[rows], place[columns]), np.minimum(place[rows], place[columns])
        self.fronts = _fronts(pieces, later, earlier)
        self.fill = sum(
            (f.own.stop - f.own.start) * (f.own.stop - f.own.start + len(f.reached)) for f in self.fronts
        )

    def factorize(self, values: Array) -> SparseCholesky | None:
        """Of the matrix with these entries (N,), in the order of the pattern's; None if it is not positive definite."""
        panels, factors = [], []
        updates: list[Array | None] = [None] * len(self.fronts)
        for number, (front, children) in enumerate(zip(self.fronts, self.children)):
            panel, rest = self._assembled(front, values, [updates[child] for child in children], children)
            for child in children:
                updates[child] = None
            c = panel.shape[1]
            factor = try_factorize(np.ascontiguousarray(panel[:c]))
            if factor is None:
                return None
            white = factor.half_solve(panel[c:].T)  # L^-1 F_JR, in Fortran's order
            if len(front.reached) and front.parent >= 0:
                updates[number] = dsyrk(-1.0, white, beta=1.0, c=rest.T, trans=1, lower=0, overwrite_c=1).T
            panels.append(white)
            factors.append(factor)
        return SparseCholesky(self, factors, panels)

    @cached_property
    def children(self) -> list[list[int]]:
        """Of each front."""
        found: list[list[int]] = [[] for _ in self.fronts]
        for number, front in enumerate(self.fronts):
            if front.parent >= 0:
                found[front.parent].append(number)
        return found

    def _assembled(
        self, front: Front, values: Array | None, updates: Sequence[Array | None], children: Sequence[int]
    ) -> tuple[Array, Array]:
        """Columns J of the front (c + r, c), and what is left of its other columns (r, r), in lower triangles."""
        c, r = front.own.stop - front.own.start, len(front.reached)
        panel, rest = np.zeros((c + r, c)), np.zeros((r, r))
        if values is not None:
            panel.reshape(-1)[front.into] = values[front.entries]
        for child, update in zip(children, updates):
            if update is not None:
                _extend(update, self.fronts[child].where, panel, rest)
        return panel, rest


def _fronts(pieces: list[Piece], later: Index, earlier: Index) -> list[Front]:
    """Symbolic elimination: what a piece reaches is what its entries and its children reach."""
    starts = np.concatenate([[0], np.cumsum([len(piece.rows) for piece in pieces])])
    order = np.argsort(earlier, kind="stable")
    bounds = np.searchsorted(earlier[order], starts)
    reached: list[Index] = []
    parent = [-1] * len(pieces)
    entries = []
    for number, piece in enumerate(pieces):
        own = order[bounds[number] : bounds[number + 1]]
        entries.append(own)
        beyond = [later[own], *(reached[child] for child in piece.children)]
        found = np.unique(np.concatenate(beyond))
        reached.append(found[found >= starts[number + 1]])
        for child in piece.children:
            parent[child] = number
    fronts = []
    for number in range(len(pieces)):
        start, stop = int(starts[number]), int(starts[number + 1])
        at, top = entries[number], parent[number]
        row = later[at] - start
        far = row >= stop - start
        row[far] = stop - start + np.searchsorted(reached[number], later[at][far])
        where = np.zeros(0, dtype=np.int64)
        if top >= 0:
            all_of_it = np.concatenate([np.arange(starts[top], starts[top + 1]), reached[top]])
            where = np.searchsorted(all_of_it, reached[number])
        fronts.append(
            Front(
                slice(start, stop),
                reached[number],
                top,
                where,
                at,
                row * (stop - start) + earlier[at] - start,
            )
        )
    return fronts


def _extend(update: Array, where: Index, panel: Array, rest: Array) -> None:
    from cavity.numerics.multifrontal_loops import extend

    extend(update, where, panel, rest)


class SparseCholesky:
    """The factor of a matrix A with a `Pattern`."""

    def __init__(self, pattern: Pattern, factors: list[Cholesky], white: list[Array]) -> None:
        self.pattern, self._factors, self._white = pattern, factors, white

    @property
    def log_det(self) -> float:
        """log |A|."""
        return float(sum(factor.log_det for factor in self._factors))

    # --- solutions ------------------------------------------------------------------------------------------

    def half_solve(self, U: Array) -> Array:
        """L^-1 P U, (n, k) for U (n, k), with A = P' L L' P; parts of U that are zero cost nothing."""
        x: Array = U[self.pattern.order]
        for front, factor, white in zip(self.pattern.fronts, self._factors, self._white):
            part = x[front.own]
            if part.any():
                x[front.own] = part = factor.half_solve(part)
                if len(front.reached):
                    x[front.reached] -= white.T @ part
        return x

    def half_solve_transposed(self, U: Array) -> Array:
        """P' L^-T U."""
        x = U.copy()
        for front, factor, white in zip(
            reversed(self.pattern.fronts), reversed(self._factors), reversed(self._white)
        ):
            part = x[front.own]
            if len(front.reached):
                part = part - white @ x[front.reached]
            x[front.own] = factor.half_solve_transposed(part)
        out = np.empty_like(x)
        out[self.pattern.order] = x
        return out

    def solve(self, U: Array) -> Array:
        """A^-1 U for U (n, k)."""
        return self.half_solve_transposed(self.half_solve(U))

    def multiply_transposed(self, U: Array) -> Array:
        """L' P U."""
        x: Array = U[self.pattern.order]
        out: Array = np.empty(U.shape)
        for front, factor, white in zip(self.pattern.fronts, self._factors, self._white):
            own = np.tril(factor.lower).T @ x[front.own]
            out[front.own] = own + white @ x[front.reached] if len(front.reached) else own
        return out

    # --- the inverse on the pattern -------------------------------------------------------------------------

    @cached_property
    def _blocks(self) -> list[tuple[Array, Array]]:
        """(F_JJ^-1, Y) of each front."""
        found = []
        for factor, white in zip(self._factors, self._white):
            inverse = factor.solve(np.eye(len(factor.lower)))
            found.append((inverse, np.ascontiguousarray(factor.half_solve_transposed(white).T)))
        return found

    def selected(self) -> Array:
        """Entries of A^-1 where the pattern has entries, (N,)."""
        out = np.empty(self._size)
        kept: dict[int, Array] = {}
        for number in range(len(self.pattern.fronts) - 1, -1, -1):
            front, (inverse, Y) = self.pattern.fronts[number], self._blocks[number]
            S_RR = _taken(kept, front)
            S_RJ = -(S_RR @ Y)
            S = _joined(inverse - Y.T @ S_RJ, S_RJ, S_RR)
            self._keep(kept, number, S)
            out[front.entries] = S[:, : len(inverse)].reshape(-1)[front.into]
        return out

    def selected_along(self, diagonal: Array) -> Array:
        """Entries of -A^-1 diag(d) A^-1 where the pattern has entries: how `selected` moves with the diagonal (n,)."""
        pattern, changes = self.pattern, self._changes(diagonal)
        out = np.empty(self._size)
        kept: dict[int, Array] = {}
        moved: dict[int, Array] = {}
        for number in range(len(pattern.fronts) - 1, -1, -1):
            front, (inverse, Y) = pattern.fronts[number], self._blocks[number]
            dF_JJ, dY = changes[number]
            S_RR, dS_RR = _taken(kept, front), _taken(moved, front)
            S_RJ = -(S_RR @ Y)
            dS_RJ = -(dS_RR @ Y) - S_RR @ dY
            mixed = dY.T @ S_RJ
            dS_JJ = -inverse @ dF_JJ @ inverse + Y.T @ (dS_RR @ Y) - mixed - mixed.T
            dS = _joined(dS_JJ, dS_RJ, dS_RR)
            self._keep(kept, number, _joined(inverse - Y.T @ S_RJ, S_RJ, S_RR))
            self._keep(moved, number, dS)
            out[front.entries] = dS[:, : len(inverse)].reshape(-1)[front.into]
        return out

    def _changes(self, diagonal: Array) -> list[tuple[Array, Array]]:
        """(dF_JJ, dY) of each front."""
        pattern, d = self.pattern, diagonal[self.pattern.order]
        updates: list[Array | None] = [None] * len(pattern.fronts)
        found = []
        for number, (front, children) in enumerate(zip(pattern.fronts, pattern.children)):
            panel, rest = pattern._assembled(front, None, [updates[child] for child in children], children)
            for child in children:
                updates[child] = None
            inverse, Y = self._blocks[number]
            c = len(inverse)
            dF = np.tril(panel[:c]) + np.tril(panel[:c], -1).T
            dF[np.diag_indices(c)] += d[front.own]
            own = panel[c:] - Y @ dF
            if len(front.reached) and front.parent >= 0:  # -(dF_RJ Y' + Y dF_JR - Y dF_JJ Y')
                half = (panel[c:] - 0.5 * Y @ dF) @ Y.T
                updates[number] = rest - half - half.T
            found.append((dF, own @ inverse))
        return found

    @property
    def _size(self) -> int:
        return sum(len(front.entries) for front in self.pattern.fronts)

    def _keep(self, kept: dict[int, Array], number: int, S: Array) -> None:
        """For the children, until the last of them has been here."""
        if self.pattern.children[number]:
            kept[number] = S
        parent = self.pattern.fronts[number].parent
        if parent >= 0 and self.pattern.children[parent][0] == number:
            del kept[parent]


def _taken(kept: dict[int, Array], front: Front) -> Array:
    """Rows and columns R of the parent's front."""
    from cavity.numerics.multifrontal_loops import taken

    if front.parent < 0:
        return np.zeros((0, 0))
    found: Any = taken(kept[front.parent], front.where)
    return np.asarray(found)


def _joined(S_JJ: Array, S_RJ: Array, S_RR: Array) -> Array:
    c = len(S_JJ)
    S = np.empty((c + len(S_RR),) * 2)
    S[:c, :c], S[c:, :c], S[:c, c:], S[c:, c:] = S_JJ, S_RJ, S_RJ.T, S_RR
    return S
