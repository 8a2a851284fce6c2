"""What likelihoods of labels -1 and +1 share: p(y|f) depends on z = y f alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    Likelihood,
    as_targets,
    refuse,
)
from cavity.numerics.arrays import Array
from cavity.prediction import CategoricalPrediction

LABELS = np.array([-1.0, 1.0])


class BinaryLikelihood(Likelihood):
    """What all models of labels -1 and +1 share; p(y|f) depends on z = y f alone.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import BinaryLikelihood, Probit
    >>> isinstance(Probit(), BinaryLikelihood)
    True
    >>> np.exp(Probit().log_prob(np.array([1.0, -1.0]), np.array([0.5, 0.5]))).sum()  # of both labels
    np.float64(1.0)
    """

    discrete = True

    def check(self, y: ArrayLike) -> Array:
        """Labels must be -1 or +1."""
        labels = as_targets(y, type(self).__name__)
        remedy = "code the classes first (2 * y - 1 for labels 0 and 1)"
        refuse(labels, np.abs(labels) != 1, f"{type(self).__name__}: labels must be -1 or +1", remedy)
        return labels

    def break_points(self, y: Array) -> Array:
        """The decision boundary."""
        return np.zeros((1, len(y)))

    def log_probabilities(self, mean: Array, var: Array) -> Array:
        """log p(y) of both labels for f ~ N(mean, var), shape (n, 2)."""
        out = np.empty((len(mean), 2))
        spread = var > 0
        for j, label in enumerate(LABELS):
            y = np.full(len(mean), label)
            out[:, j] = self.log_prob(y, mean)
            if spread.any():
                out[spread, j] = self.tilted_normalized(y[spread], mean[spread], var[spread]).log_z
        return out

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> CategoricalPrediction:
        """Probabilities of -1 and +1, averaged over f ~ N(mean, var)."""
        m: Array = np.asarray(mean, dtype=float)
        log_p = self.log_probabilities(m, np.broadcast_to(np.asarray(var, dtype=float), m.shape))
        return CategoricalPrediction(np.exp(log_p), LABELS, log_p)

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """Labels with probability p(+1|f)."""
        f = np.asarray(f, dtype=float)
        return np.where(rng.random(f.shape) < np.exp(self.log_prob(np.ones(f.shape), f)), 1.0, -1.0)

    def outlier_probability(self, y: Array, mean: Array, var: Array) -> Array:
        """Probability of the other label: how surprising y is to f ~ N(mean, var)."""
        log_p = self.log_probabilities(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
        return np.where(np.asarray(y) > 0, np.exp(log_p[:, 0]), np.exp(log_p[:, 1]))
