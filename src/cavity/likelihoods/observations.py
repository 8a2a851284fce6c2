"""Observations of a latent function: targets, the likelihood that ties them to f, and their weights.

    p(y | f) = prod_i p(y_i | f_i)^w_i

With a prior they are all that an inference rule is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array


@dataclass(frozen=True, eq=False)
class Observations:
    """Targets under a likelihood.

    Attributes
    ----------
    likelihood : Likelihood
    y : array (n,) or (n, T)
    weight : array (n,) or None
        Powers of the likelihood factors; None if all are one.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.inference import Observations
    >>> from cavity.likelihoods import Probit
    >>> seen = Observations(Probit(), np.array([1.0, -1.0]), np.array([1.0, 2.0]))
    >>> float(seen.log_prob(np.zeros(2)).round(6)), len(seen.rows([1]))
    (-2.079442, 1)
    """

    likelihood: Likelihood
    y: Array
    weight: Array | None = None

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def weights(self) -> Array:
        """The weights, ones if none were given; shape (n,)."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def weighted(self, values: Array) -> Array:
        """Values (..., n) times the weights."""
        return values if self.weight is None else values * self.weight

    def log_prob(self, f: Array) -> Array:
        """sum_i w_i log p(y_i | f_i): a number, or (C,) for latent values of C chains."""
        return np.asarray(self.weighted(self.likelihood.log_prob(self.y, f)).sum(axis=-1))

    def rows(self, index: Any) -> Observations:
        """Some of them."""
        weight = None if self.weight is None else self.weight[index]
        return Observations(self.likelihood.rows(index), self.y[index], weight)

    def under(self, likelihood: Likelihood, y: Array | None = None) -> Observations:
        """The same rows with another likelihood, and other targets if they are given."""
        return replace(self, likelihood=likelihood, y=self.y if y is None else y)
