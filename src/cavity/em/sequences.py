"""Sequences of observations: one array with lengths, or a list of arrays or data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_sequence_list(X: Any) -> bool:
    """A list of two-dimensional arrays or data frames (a nested list of numbers is one array)."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all((isinstance(x, np.ndarray) and x.ndim == 2) or _is_frame(x) for x in X)
    )


def _is_frame(x: Any) -> bool:
    return hasattr(x, "iloc") and hasattr(x, "columns")


def joined(sequences: Any) -> Any:
    """All sequences as one array, or as one data frame if all of them are."""
    if not all(_is_frame(x) for x in sequences):
        return np.concatenate([np.asarray(x) for x in sequences])
    import pandas as pd

    names = list(sequences[0].columns)
    for s, frame in enumerate(sequences):
        if list(frame.columns) != names:
            raise ValueError(f"sequence {s} has the columns {list(frame.columns)}, sequence 0 has {names}")
    return pd.concat(sequences, ignore_index=True)


def refuse_lengths_as_y(y: Any, X: Any) -> None:
    """y is ignored as in scikit-learn, but lengths given in its place must not be lost silently."""
    if not hasattr(y, "__len__") or isinstance(y, str):
        return
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(y) != n_rows:
        raise ValueError(
            f"the second argument has {len(y)} entries for {n_rows} rows; pass sequence lengths by "
            "name: lengths=..."
        )


def sequence_starts(lengths: Any, n_rows: int) -> NDArray[np.int64]:
    """First row of every sequence and the number of rows, from lengths (None: one sequence)."""
    if lengths is None:
        return np.array([0, n_rows], dtype=np.int64)
    array = np.asarray(lengths)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"lengths={lengths!r} must be a non-empty list of whole numbers")
    if array.min() < 1:
        raise ValueError(
            f"lengths[{int(np.argmin(array))}]={int(array.min())}: empty sequences must be removed"
        )
    if int(array.sum()) != n_rows:
        raise ValueError(f"lengths add up to {int(array.sum())}, but X has {n_rows} rows")
    return np.concatenate([[0], np.cumsum(array)]).astype(np.int64)
