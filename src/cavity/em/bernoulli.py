"""Independent zeros and ones as components or emissions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from cavity.em.components import Params, Stats
from cavity.em.one_parameter_families import OneRate, times_log
from cavity.em.transforms import UNIT_INTERVAL
from cavity.numerics.arrays import Array


def _times_log_rest(values: Array, p: Array) -> Array:
    """Sum over j of x_ij log(1 - p_kj), (n, K), with 0 log 0 = 0."""
    if np.all(p < 1):
        return np.asarray(values @ np.log1p(-p).T)
    return np.stack([xlog1py(values, -row).sum(axis=1) for row in p], axis=1)


class Bernoulli(OneRate):
    """Independent binary features, parameter `probabilities` (K, D) of a one.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Bernoulli, Mixture
    >>> X = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]])
    >>> Mixture(2, Bernoulli(pseudo_count=0.1), random_state=0).fit(X).predict(X)
    array([1, 1, 0, 0])
    """

    parameter = "probabilities"
    constraint = UNIT_INTERVAL
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"e": ("probabilities",)}

    def check_data(self, x: Array) -> None:
        """Zeros and ones."""
        seen = x[~np.isnan(x)]
        if not np.all((seen == 0) | (seen == 1)):
            bad = seen[(seen != 0) & (seen != 1)][0]
            raise ValueError(f"Bernoulli components need zeros and ones, X contains {bad:g}")

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """x log p + (1 - x) log(1 - p)."""
        values, seen = self._observed(x)
        p = params["probabilities"]
        return np.asarray(times_log(values, p) + _times_log_rest(seen - values, p))

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of sums log p + (counts - sums) log(1 - p)."""
        p = params["probabilities"]
        zeros = stats["counts"] - stats["sums"]
        return float(np.sum(xlogy(stats["sums"], p) + xlog1py(zeros, -p)))

    def log_prior(self, params: Params) -> float:
        """Beta prior worth `pseudo_count` observations."""
        p = params["probabilities"]
        ones, zeros = self.pseudo_count * self._pooled, self.pseudo_count * (1.0 - self._pooled)
        return float(np.sum(xlogy(ones, p) + xlog1py(zeros, -p)))

    def _inside(self, values: Array) -> NDArray[np.bool_]:
        return np.asarray((values > 0) & (values < 1))

    def _variance(self, params: Params) -> Array:
        p = params["probabilities"]
        return np.asarray(p * (1.0 - p))

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Bernoulli draws."""
        p = params["probabilities"][labels]
        return (rng.random(p.shape) < p).astype(float)
