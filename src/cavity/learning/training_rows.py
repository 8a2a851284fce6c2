"""Rows as they enter a model: no rows of weight zero, equal ones once.

A row of weight w is a likelihood factor to the power w, so w equal rows and one row of weight w are the same
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from cavity.kernels import Blurred, Kernel, White
from cavity.numerics.arrays import Array

LARGEST = 1e60
"""Largest size of targets whose fourth powers are floating-point numbers."""

SMALLEST = 1e-60
"""The same for the smallest size, also for a noise level far below it."""


MERGED_ROWS = 100_000
"""Rows up to which equal ones are looked for: finding them saves time where a row costs much."""


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a fit. They are put in a canonical order if weights or repeats make that necessary.

    Attributes
    ----------
    X, y : arrays
    weight : array (n,) or None
        None if all are one.
    index : array of int (n_given,)
        Row of X that stands for each row given; -1 for rows left out.
    own : array (n_given,) or None
        Weight of each row given, if rows are merged.
    source : array of int (n,) or None
        A row given that each row of X stands for; None if they are the same.
    """

    X: Array
    y: Array
    weight: Array | None
    index: NDArray[np.intp]
    own: Array | None = None
    source: NDArray[np.intp] | None = None

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array,
        weight: Array | None,
        *,
        merge: bool = True,
    ) -> Self:
        """Copies of rows of checked data; equal ones are merged if there are at most `MERGED_ROWS`."""
        n = len(X)
        kept = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
        if len(kept) == 0:
            raise ValueError("sample_weight is zero for every row: nothing is left to fit")
        X, y = X[kept], y[kept]
        given = None if weight is None else weight[kept]
        merge = merge and n <= MERGED_ROWS and (weight is not None or _has_repeats(X, y))
        index = np.full(n, -1, dtype=np.intp)
        index[kept] = np.arange(len(kept))
        if not merge:
            plain = given is None or bool(np.all(given == 1.0))
            return cls(X, y, None if plain else given, index, None, None if len(kept) == n else kept)
        own = np.zeros(n)
        own[kept] = 1.0 if given is None else given
        _, first, inverse = np.unique(np.column_stack([X, y]), axis=0, return_index=True, return_inverse=True)
        inverse = inverse.reshape(-1)
        index[kept] = inverse
        total = cast(Array, np.bincount(inverse, weights=own[kept]))
        return cls(X[first], y[first], None if np.all(total == 1.0) else total, index, own, kept[first])

    def and_more(self, X: Array, y: Array) -> Self:
        """With further rows of weight one, which are not merged with earlier ones."""
        m, n = len(X), len(self.X)
        weight = None if self.weight is None else np.concatenate([self.weight, np.ones(m)])
        own = None if self.own is None else np.concatenate([self.own, np.ones(m)])
        index = np.concatenate([self.index, n + np.arange(m)])
        return type(self)(np.vstack([self.X, X]), np.concatenate([self.y, y]), weight, index, own)


def _has_repeats(X: Array, y: Array) -> bool:
    if X.shape[1] == 1 and y.ndim == 1:
        order = np.lexsort((y, X[:, 0]))
        return bool(np.any((np.diff(X[order, 0]) == 0) & (np.diff(y[order]) == 0)))
    both = np.ascontiguousarray(np.column_stack([X, y])) + 0.0  # so that -0 is 0
    return len({row.tobytes() for row in both}) < len(both)


def contains_white(kernel: Kernel) -> bool:
    """Whether a kernel has noise that belongs to a case, so that equal rows are not interchangeable with
    one."""
    own = isinstance(kernel, White) or (isinstance(kernel, Blurred) and kernel.uncertain)
    return own or any(contains_white(cast(Kernel, part)) for part in kernel.parts)


def require_usual_units(y: Array) -> None:
    """Refuse targets that are so large or small that variances and fourth moments could not be computed."""
    size = float(np.max(np.abs(y), initial=0.0))
    if size > LARGEST or 0.0 < size < SMALLEST:
        raise ValueError(
            f"the largest target is {size:.3g} in size, and variances can be computed from {SMALLEST:g} to {LARGEST:g} "
            "only: give y in other units"
        )


def require_numbers(data: Any, name: str) -> None:
    """Refuse text and dates, naming the column and a value, before they are converted to numbers."""
    if hasattr(data, "columns"):
        for column in data.columns:
            _require_numbers(np.asarray(data[column]), f"column {column!r} of {name}")
    elif isinstance(data, list | tuple | np.ndarray):
        try:
            array = np.asarray(data)
        except ValueError:  # ragged: the check of shapes says so
            return
        _require_numbers(array, name)


def _require_numbers(array: NDArray[Any], what: str) -> None:
    if array.dtype.kind in "mM":
        raise ValueError(f"{what} holds dates or durations; convert them to numbers, for instance to days")
    if array.dtype.kind not in "OUS":
        return
    for value in array.ravel():
        if isinstance(value, str | bytes):
            try:
                float(value)
            except ValueError:
                raise ValueError(
                    f"{what} holds text, for instance {str(value)!r}; encode it as numbers, "
                    "for instance with sklearn.preprocessing.OrdinalEncoder"
                ) from None
