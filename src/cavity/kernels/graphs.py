"""Kernels on graphs with labelled nodes: neighbourhoods or walks that two graphs share.

A graph is a row: the codes of its nodes' labels, padded with -1, then the upper triangle of its adjacency, row by row
(`encode_graphs`, or `cavity.GraphEncoder` in a pipeline). Room for N nodes takes N (N + 1) / 2 columns.

    WeisfeilerLehman   k = sum_h weights_h sum_c N_hc(x) N_hc(x')    N_hc: how many nodes look like c to depth h
    RandomWalk         walks of all lengths t through equal labels, each counting decay^t (`walks`)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.strings import END, Decaying, StringKernel, WeightedCounts
from cavity.numerics.arrays import Array
from cavity.runtime.errors import InputError

Graph = tuple[Sequence[Hashable], Iterable[tuple[int, int]]]
"""Labels of the nodes, and edges as pairs of node numbers from 0 on."""


def encode_graphs(
    graphs: Iterable[Graph], labels: Sequence[Hashable] | None = None, nodes: int | None = None
) -> Array:
    """Graphs as rows: codes of the labels, padded with -1, then the upper triangle of the adjacency.

    Parameters
    ----------
    graphs : iterable of (labels, edges)
        The label of each node, and undirected edges as pairs of node numbers from 0 on.
    labels : sequence, optional
        All labels, each coded by its place; those of these graphs, sorted by their text, by default.
    nodes : int, optional
        Room for nodes; those of the largest graph by default.

    Examples
    --------
    >>> from cavity.kernels import encode_graphs
    >>> encode_graphs([("CCO", [(0, 1), (1, 2)]), ("CO", [(0, 1)])])  # edges 01, 02, 12 in the last three columns
    array([[ 0.,  0.,  1.,  1.,  0.,  1.],
           [ 0.,  1., -1.,  1.,  0.,  0.]])
    """
    listed = checked(graphs)
    known = labels_of(listed) if labels is None else list(labels)
    code = {label: float(i) for i, label in enumerate(known)}
    largest = max((len(held) for held, _ in listed), default=1)
    room = largest if nodes is None else nodes
    if largest > room:
        raise InputError(
            f"has {largest} nodes, and there is room for {room}",
            parameter="graphs",
            row=int(np.argmax([len(held) for held, _ in listed])),
            remedy=f"fit with nodes={largest} or more",
        )
    out = np.zeros((len(listed), room * (room + 1) // 2))
    out[:, :room] = END
    for row, (held, edges) in enumerate(listed):
        for place, label in enumerate(held):
            if label not in code:
                raise InputError(
                    f"has a node with the label {label!r}, which is none of {known}",
                    parameter="graphs",
                    row=row,
                    remedy="give labels=[...] with all labels to come",
                )
            out[row, place] = code[label]
        for i, j in edges:
            out[row, room + i * (2 * room - i - 1) // 2 + j - i - 1] = 1.0
    return out


def labels_of(graphs: Iterable[Graph]) -> list[Hashable]:
    """All labels, sorted by their text."""
    return sorted(
        {label for held, _ in graphs for label in held}, key=lambda label: (str(label), repr(label))
    )


def checked(graphs: Iterable[Any]) -> list[tuple[list[Hashable], list[tuple[int, int]]]]:
    """Labels and edges i < j of each graph."""
    return [_graph(graph, row) for row, graph in enumerate(graphs)]


def _graph(graph: Any, row: int) -> tuple[list[Hashable], list[tuple[int, int]]]:
    """Labels and edges i < j, checked."""
    try:
        held, edges = graph
        held, pairs = list(held), [(index(i), index(j)) for i, j in edges]
        hash(tuple(held))
    except (TypeError, ValueError):
        raise InputError(
            f"must be pairs (labels, edges), got {graph!r}", parameter="graphs", row=row
        ) from None
    if not held:
        raise InputError("has a graph without nodes", parameter="graphs", row=row, remedy="leave the row out")
    for i, j in pairs:
        if i == j or min(i, j) < 0 or max(i, j) >= len(held):
            raise InputError(
                f"has the edge {(i, j)} in a graph of {len(held)} nodes",
                parameter="graphs",
                row=row,
                remedy="number nodes from 0 on, and leave out edges from a node to itself",
            )
    return held, [(min(pair), max(pair)) for pair in pairs]


def room_for(columns: int) -> int:
    """N of N (N + 1) / 2 columns; 0 if there is none."""
    room = (int(np.sqrt(8 * columns + 1)) - 1) // 2
    return room if room * (room + 1) // 2 == columns else 0


def decode(X: Array) -> tuple[Array, Array]:
    """Labels (n, N) and adjacencies (n, N, N) of rows."""
    room = room_for(X.shape[1])
    A = np.zeros((len(X), room, room))
    first, second = np.triu_indices(room, 1)
    A[:, first, second] = A[:, second, first] = X[:, room:]
    return X[:, :room], A


class GraphKernel(StringKernel):
    """What kernels on rows of graphs share: they know such rows."""

    def _require_rows(self, X: Array) -> None:
        """Refuse what is no row of a graph."""
        name, remedy = type(self).__name__, "make rows by cavity.kernels.encode_graphs or cavity.GraphEncoder"
        room = room_for(X.shape[1])
        if room == 0:
            raise InputError(
                f"{name} takes N (N + 1) / 2 columns for N nodes, got {X.shape[1]}",
                parameter="X",
                remedy=remedy,
            )
        labels, edges = X[:, :room], X[:, room:]
        there = labels >= 0
        first, second = np.triu_indices(room, 1)
        good = ((np.round(labels) == labels) & (labels >= END)).all(axis=1)
        good &= (there[:, :-1] >= there[:, 1:]).all(axis=1) & np.isin(edges, (0.0, 1.0)).all(axis=1)
        good &= ~((edges > 0) & ~(there[:, first] & there[:, second])).any(axis=1) & there[:, 0]
        if not good.all():
            row = int(np.argmin(good))
            what = "a graph without nodes" if not there[row].any() else "no graph"
            raise InputError(f"{name}: row {row} is {what}", parameter="X", row=row, remedy=remedy)


class WeisfeilerLehman(GraphKernel, WeightedCounts):
    """Nodes with equal neighbourhoods, to each depth: k = sum_h weights_h k_h, with a learned weight for each depth.

    Depth 0 counts labels; at each further depth a node's label is the one before, with the labels of its neighbours.

    Parameters
    ----------
    weights : array (depths,)
        Variance of depths 0, 1, ...
    normalized : bool
        Whether the counts of each depth are divided by the roots of those of each graph with itself, so that weights
        are variances.

    Examples
    --------
    >>> from cavity.kernels import WeisfeilerLehman, encode_graphs
    >>> rows = encode_graphs([("CCO", [(0, 1), (1, 2)]), ("CO", [(0, 1)])])
    >>> WeisfeilerLehman([1.0, 1.0], normalized=False)(rows)  # O beside one C is in both
    array([[8., 4.],
           [4., 4.]])
    """

    def __init__(self, weights: Any = (1.0, 1.0, 1.0), normalized: bool = True) -> None:
        self.normalized = bool(normalized)
        self._set_up({"weights": weights})
        if np.ndim(self.weights) != 1 or np.size(self.weights) == 0:
            raise ValueError(
                f"WeisfeilerLehman: weights must be a vector with one for each depth, got {self.weights!r}"
            )

    def _arguments(self) -> list[str]:
        return [*super()._arguments(), *([] if self.normalized else ["normalized=False"])]

    def _kind(self) -> tuple[Any, ...]:
        return int(np.size(self.weights)), self.normalized

    def _numbers(self, A: Array, B: Array) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        labels, adjacency = decode(np.vstack([A, B]))
        there, edge = labels >= 0, adjacency > 0
        number = np.full(labels.shape, -1, dtype=np.intp)
        found, signature = [], labels[there][:, None]
        for depth in range(int(np.size(self.weights))):
            if depth > 0:  # its own label and the sorted ones of its neighbours
                around = np.sort(np.where(edge, number[:, None, :], -1), axis=2)
                signature = np.concatenate([number[:, :, None], around], axis=2)[there]
            number = number.copy()
            number[there] = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
            found.append((number[: len(A)], number[len(A) :]))
        return found


class RandomWalk(GraphKernel, Decaying):
    """Walks that two graphs share, node by node of equal label, those of t steps counting decay^t.

    Each step is divided by the roots of the degrees of its two nodes, so that the sum converges for all graphs.

    Parameters
    ----------
    decay : float or Param
        Between 0 and 1, learned.

    Examples
    --------
    >>> from cavity.kernels import RandomWalk, encode_graphs
    >>> triangle = encode_graphs([("aaa", [(0, 1), (1, 2), (0, 2)])])
    >>> RandomWalk(0.5)(triangle).round(9)  # 9 pairs of nodes, times 1 / (1 - 0.5)
    array([[18.]])
    """

    def __init__(self, decay: Any = 0.5) -> None:
        self._set_up({"decay": decay})

    def _kind(self) -> tuple[Any, ...]:
        return (float(self.decay),)

    @staticmethod
    def _steps(X: Array) -> tuple[Array, Array]:
        """Labels, and D^-1/2 A D^-1/2."""
        labels, A = decode(X)
        root = np.sqrt(np.maximum(A.sum(axis=2), 1.0))
        return np.ascontiguousarray(labels), A / root[:, :, None] / root[:, None, :]

    def _of_pairs(self, A: Array, B: Array) -> Array:
        from cavity.kernels.walks import walk_pairs

        return np.asarray(walk_pairs(*self._steps(A), *self._steps(B), float(self.decay), False))

    def _of_self(self, A: Array) -> Array:
        from cavity.kernels.walks import walk_pairs

        own = self._steps(A)
        return np.asarray(walk_pairs(*own, *own, float(self.decay), True)[:, :, 0])
