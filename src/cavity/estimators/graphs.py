"""`GraphEncoder`: graphs as rows, for the graph kernels, in pipelines of scikit-learn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from cavity.kernels.graphs import checked, encode_graphs, labels_of, room_for
from cavity.numerics.arrays import Array


class GraphEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Graphs as rows for `WeisfeilerLehman` and `RandomWalk`: codes of labels, then the adjacency's upper triangle.

    Parameters
    ----------
    labels : sequence, optional
        All labels that nodes may have; those at the fit by default. Others are refused by name.
    nodes : int, optional
        Room for the largest graph to come; that of the largest one at the fit by default. A larger one is refused with
        the room it needs.

    Attributes
    ----------
    labels_ : list
    nodes_ : int

    Examples
    --------
    >>> from cavity import GraphEncoder
    >>> GraphEncoder(labels="CNO").fit_transform([("CO", [(0, 1)]), ("N", [])])  # (labels, edges)
    array([[ 0.,  2.,  1.],
           [ 1., -1.,  0.]])
    """

    def __init__(self, labels: Sequence[Hashable] | None = None, nodes: int | None = None) -> None:
        self.labels = labels
        self.nodes = nodes

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the labels, and the room that graphs need."""
        graphs = checked(X)
        labels = labels_of(graphs) if self.labels is None else list(self.labels)
        rows = encode_graphs(graphs, labels, self.nodes)
        self.labels_, self.nodes_ = labels, room_for(rows.shape[1])
        self.n_features_in_ = 1
        return self

    def transform(self, X: Any) -> Array:
        """Rows (n, nodes (nodes + 1) / 2)."""
        check_is_fitted(self, "nodes_")
        return encode_graphs(X, self.labels_, self.nodes_)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """A name for each node and each pair of nodes."""
        pairs = zip(*np.triu_indices(self.nodes_, 1))
        names = [f"node{i}" for i in range(self.nodes_)] + [f"edge{i}_{j}" for i, j in pairs]
        return np.array(names, dtype=object)
