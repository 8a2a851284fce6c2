"""What classifiers of two classes share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from cavity.numerics.arrays import Array


class BinaryClassifierMixin(ClassifierMixin):  # type: ignore[misc]
    """Tells scikit-learn that there are two classes."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def two_classes(labels: Any, for_more: str) -> tuple[NDArray[Any], Array]:
    """The two classes, and -1 or +1 for each label; `for_more` says what takes more than two."""
    check_classification_targets(labels)
    classes, code = np.unique(labels, return_inverse=True)
    if len(classes) > 2:
        raise ValueError(f"Only binary classification is supported. y has {len(classes)} classes; {for_more}")
    if len(classes) < 2:
        raise ValueError(f"Classifier can't train when only one class is present: {classes[0]!r}")
    return classes, np.asarray(2.0 * code - 1.0, dtype=float)
