"""Labels 0..C-1 of several classes with a latent function each: what their likelihoods share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import MultiLatentLikelihood, as_targets, refuse
from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer


class ClassLabels(MultiLatentLikelihood):
    """Classes 0..C-1 with one latent function each.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Softmax
    >>> Softmax(3).one_hot(np.array([2.0]))
    array([[0., 0., 1.]])
    """

    discrete = True

    def _set_classes(self, n_classes: int, least: int = 2) -> None:
        require_integer(n_classes, f"{type(self).__name__}: n_classes", least)
        self.n_latent = int(n_classes)

    @property
    def n_classes(self) -> int:
        """C."""
        return self.n_latent

    def check(self, y: ArrayLike) -> Array:
        """Labels must be 0..C-1."""
        owner = type(self).__name__
        labels = as_targets(y, owner)
        bad = (labels < 0) | (labels > self.n_latent - 1) | (labels != np.floor(labels))
        problem = f"{owner}: labels must be 0..{self.n_latent - 1}"
        refuse(labels, bad, problem, "encode the classes first")
        return labels

    def one_hot(self, y: Array) -> Array:
        """0/1 indicators, shape (n, C)."""
        return np.asarray(np.eye(self.n_latent)[np.asarray(y).astype(int)])
