"""Independent exponential durations as components or emissions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.em.components import Params, Stats, check_sign
from cavity.em.one_parameter_families import OneRate
from cavity.numerics.arrays import Array


class Exponential(OneRate):
    """Independent exponential waiting times, parameter `scales` (K, D), the means.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.em import Exponential, Mixture
    >>> waits = np.array([[1.0], [2.0], [3.0]])
    >>> Mixture(1, Exponential(pseudo_count=0.0)).fit(waits).params_["scales"]
    array([[2.]])
    """

    parameter = "scales"
    letters: ClassVar[dict[str, tuple[str, ...]]] = {"l": ("scales",)}

    def check_data(self, x: Array) -> None:
        """Not negative."""
        check_sign(x, "Exponential")

    def _pooled_mean(self, sums: Array, counts: Array) -> Array:
        """The observed mean, which moves with the units of the times; 1 where all times are zero."""
        return np.asarray(np.where(sums > 0, sums / np.where(counts > 0, counts, 1.0), 1.0))

    def log_prob(self, params: Params, x: Array, threads: int = 1) -> Array:
        """-log scale - x / scale."""
        values, seen = self._observed(x)
        scales = params["scales"]
        return np.asarray(-values @ (1.0 / scales).T - seen @ np.log(scales).T)

    def expected_log_prob(self, stats: Stats, params: Params) -> float:
        """Sum of -counts log scale - sums / scale."""
        scales = params["scales"]
        return -float(np.sum(stats["counts"] * np.log(scales) + stats["sums"] / scales))

    def log_prior(self, params: Params) -> float:
        """Inverse-gamma prior worth `pseudo_count` observations."""
        scales = params["scales"]
        return -float(self.pseudo_count * np.sum(np.log(scales) + self._pooled / scales))

    def _variance(self, params: Params) -> Array:
        return np.asarray(params["scales"] ** 2)

    def sample(self, params: Params, labels: NDArray[np.intp], rng: np.random.Generator) -> Array:
        """Exponential draws."""
        return rng.exponential(params["scales"][labels])
