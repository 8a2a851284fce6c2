"""Independent Poisson counts as components or emissions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from cavity.em.components import Params, Stats, check_whole
from cavity.em.one_parameter_families import OneRate, times_log
from cavity.numerics.arrays import Array


class Poisson(OneRate):
    """Independent Poisson counts, parameter `rates` (K, D).

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Mixture, Poisson
    >>> Mixture(1, Poisson(pseudo_count=0.0)).fit(np.array([[1], [2], [6]])).params_["rates"]
    array([[3.]])
    """

    parameter = "rates"
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"l": ("rates",)}

    def check_data(self, x: Array) -> None:
        """Counts: whole and not negative."""
        check_whole(x, "Poisson")

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """x log rate - rate - log x!."""
        values, seen = self._observed(x)
        rates = params["rates"]
        of_factorials = gammaln(values + 1.0).sum(axis=1)[:, None]
        return np.asarray(times_log(values, rates) - seen @ rates.T - of_factorials)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of sums log rate - counts rate."""
        rates = params["rates"]
        return float(np.sum(xlogy(stats["sums"], rates) - stats["counts"] * rates))

    def log_prior(self, params: Params) -> float:
        """Gamma prior worth `pseudo_count` observations."""
        rates = params["rates"]
        c = self.pseudo_count
        return float(np.sum(xlogy(c * self._pooled, rates) - c * rates))

    def _variance(self, params: Params) -> Array:
        return params["rates"]

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Poisson draws."""
        return rng.poisson(params["rates"][labels]).astype(float)
