"""Cross-validation folds that are the same on every machine, and fits to them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.numerics.arrays import Array


def stratified_by_value(y: Array, folds: int, seed: int) -> NDArray[np.int64]:
    """Fold number of each case: every fold gets one of each run of neighbors in y (Davison and Hinkley, ch. 3.7)."""
    rng = np.random.default_rng(seed)
    order = np.argsort(y, kind="stable")
    fold = np.empty(len(y), dtype=np.int64)
    for first in range(0, len(y), folds):
        run = order[first : first + folds]
        fold[run] = rng.permutation(folds)[: len(run)]
    return fold


def stratified_by_class(y: NDArray[np.float64], folds: int, seed: int) -> NDArray[np.int64]:
    """Fold number of each case: classes are spread evenly."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(y), dtype=np.int64)
    next_fold = 0
    for label in np.unique(y):
        cases = rng.permutation(np.flatnonzero(y == label))
        fold[cases] = (next_fold + np.arange(len(cases))) % folds
        next_fold = (next_fold + len(cases)) % folds
    return fold


def standardized(train: Array, *others: Array) -> tuple[Array, ...]:
    """Columns shifted and scaled to mean 0 and variance 1 on the training cases; constant columns are left at 0."""
    mean, sd = train.mean(axis=0), train.std(axis=0)
    sd = np.where(sd > 0, sd, 1.0)
    return tuple((a - mean) / sd for a in (train, *others))


def fitted_quietly(model: Any, X: Array, y: Array) -> str:
    """Fit a model; its warnings in one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return "; ".join(dict.fromkeys(str(w.message) for w in caught))
