"""Decisions from class probabilities: expected loss, the reject option, the error-reject curve.

With the loss L(c, d) of deciding d where c is true, the expected loss of d at x is sum_c L(c, d) p(c | x), and
the decision of smallest expected loss is taken (book, section 3.1). Declining to decide costs r: it is the
better choice where every decision has an expected loss above r. For 0/1 loss that is Chow's rule: decide for
the most probable class where its probability is at least 1 - r.
"""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cavity.numerics.arrays import Array

Indices = NDArray[np.intp]


class ErrorRejectCurve(NamedTuple):
    """What is gained by declining the least certain cases; from deciding all cases to deciding one.

    Attributes
    ----------
    threshold : array (k,)
        Cases are decided where the largest class probability is at least this, increasing.
    rejected : array (k,)
        Share of cases declined.
    error : array (k,)
        Share of wrong decisions among the decided cases.
    """

    threshold: Array
    rejected: Array
    error: Array


def check_loss(loss: ArrayLike | None, n_classes: int) -> Array:
    """A loss matrix (C, C), rows the true class, columns the decision; 0/1 loss where none is given."""
    if loss is None:
        return 1.0 - np.eye(n_classes)
    matrix: Array = np.asarray(loss, dtype=float)
    if matrix.shape != (n_classes, n_classes):
        raise ValueError(
            f"loss must have shape ({n_classes}, {n_classes}), loss[true class, decision] in the order of "
            f"classes_, got {matrix.shape}"
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"loss must hold finite numbers, got {loss!r}")
    return matrix


def decide(probabilities: Array, loss: Array) -> tuple[Indices, Array]:
    """The decision of smallest expected loss for each row, and that loss."""
    expected = probabilities @ loss
    choice = np.argmin(expected, axis=1)
    return choice, np.take_along_axis(expected, choice[:, None], axis=1)[:, 0]


def with_rejects(labels: NDArray[Any], rejected: NDArray[np.bool_], reject_label: Any) -> NDArray[Any]:
    """Labels with a mark in the place of declined decisions; of type object where the mark needs it."""
    if reject_label is None or not np.can_cast(np.asarray(reject_label).dtype, labels.dtype, "same_kind"):
        out = labels.astype(object)
    else:
        out = labels.astype(np.result_type(labels.dtype, np.asarray(reject_label).dtype))
    out[rejected] = reject_label
    return out


def check_reject(reject: Any) -> float:
    """The loss of declining."""
    if isinstance(reject, bool) or not isinstance(reject, numbers.Real) or not np.isfinite(float(reject)):
        raise ValueError(
            f"reject must be the loss of declining to decide, a number (0.1: decline where the expected loss "
            f"of every decision exceeds 0.1), got {reject!r}"
        )
    return float(reject)


def error_reject_curve(probabilities: Array, truth: Indices) -> ErrorRejectCurve:
    """The curve for probabilities (n, C) and true classes 0..C-1; ties in certainty are declined together."""
    certainty = probabilities.max(axis=1)
    wrong = probabilities.argmax(axis=1) != truth
    order = np.argsort(certainty, kind="stable")
    thresholds, first = np.unique(certainty[order], return_index=True)
    n = len(certainty)
    wrong_from = np.cumsum(wrong[order][::-1])[::-1]
    return ErrorRejectCurve(thresholds, first / n, wrong_from[first] / (n - first))
