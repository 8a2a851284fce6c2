"""What likelihoods of counts share. All are log-concave and smooth in f."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    Likelihood,
    as_targets,
    refuse,
)
from cavity.likelihoods.count_prediction import CountPrediction
from cavity.numerics.arrays import Array
from cavity.prediction import Prediction


class CountLikelihood(Likelihood):
    """What models of non-negative integers share.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import CountLikelihood, Poisson
    >>> isinstance(Poisson(), CountLikelihood)
    True
    >>> prediction = Poisson().predictive(np.log([3.0]), [0.0])
    >>> prediction.mean.round(6), prediction.quantile(0.9)
    (array([3.]), array([5.]))
    """

    log_concave = True
    discrete = True

    def check(self, y: ArrayLike) -> Array:
        """Counts must be non-negative integers."""
        counts = as_targets(y, type(self).__name__)
        bad = (counts < 0) | (counts != np.floor(counts))
        problem = f"{type(self).__name__}: y must hold non-negative integers (counts)"
        refuse(counts, bad, problem, "for measurements use Gaussian or StudentT")
        return counts

    def break_points(self, y: Array) -> Array:
        """Where the mean equals the count, roughly."""
        return np.log(np.asarray(y, dtype=float) + 0.5)[None]

    @property
    def largest_count(self) -> Array | float:
        """The largest count that can occur: there is none."""
        return np.inf

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        """P(Y <= y | f)."""
        raise NotImplementedError

    def conditional_mean(self, f: Array) -> Array:
        """E[Y | f]."""
        with np.errstate(over="ignore"):
            return np.exp(f)

    def _moments(self, mean: Array, var: Array) -> tuple[Array, Array]:
        """Mean and variance of Y for f ~ N(mean, var)."""
        raise NotImplementedError

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> Prediction:
        """Distribution of a new count, averaged over f ~ N(mean, var)."""
        m: Array = np.asarray(mean, dtype=float)
        v: Array = np.broadcast_to(np.asarray(var, dtype=float), m.shape)
        return CountPrediction(self, m, v, *self._moments(m, v))


def lognormal_moments(mean: Array, var: Array) -> tuple[Array, Array]:
    """E[exp(f)] and Var[exp(f)]; inf where they exceed double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = np.exp(mean + 0.5 * var)
        second = np.where(var > 0, np.expm1(var) * first * first, 0.0)
    return first, second
