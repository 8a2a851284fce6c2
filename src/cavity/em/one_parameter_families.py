"""What families with one parameter per component and feature share: Poisson, exponential, Bernoulli."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from cavity.em.checks import is_number
from cavity.em.components import DEAD, Components, Params, Stats, keep
from cavity.em.expectation_maximization import DegeneracyError
from cavity.em.transforms import POSITIVE, Coordinates
from cavity.numerics.arrays import Array


class IndependentFeatures(Components):
    """Families whose features are independent given the component: missing entries simply drop out."""

    def _observed(self, x: Array) -> tuple[Array, Array]:
        """x with zeros for NaN, and the mask of observed entries."""
        seen = ~np.isnan(x)
        return np.where(seen, x, 0.0), seen.astype(float)

    def covariance(self, params: Params) -> Array:
        """Diagonal covariances."""
        v = self._variance(params)
        return np.asarray(v[:, :, None] * np.eye(v.shape[1]))

    @abstractmethod
    def _variance(self, params: Params) -> Array: ...


class OneRate(IndependentFeatures):
    """One positive or unit-interval parameter per component and feature, estimated by a weighted mean.

    Parameters
    ----------
    pseudo_count : float
        Observations at the pooled mean added to every estimate (a conjugate prior). They keep a component of
        nothing but zeros inside the parameter space; 0 is maximum likelihood.
    """

    parameter: ClassVar[str]
    constraint: ClassVar[Coordinates] = POSITIVE
    nonnegative: ClassVar[bool] = True

    def __init__(self, pseudo_count: float = 1e-3) -> None:
        self.pseudo_count = pseudo_count

    def _resolve(self, x: Array, weights: Array) -> None:
        if not (is_number(self.pseudo_count) and 0 <= self.pseudo_count < np.inf):
            raise ValueError(
                f"pseudo_count={self.pseudo_count!r} must be a finite number and must not be negative"
            )
        values, seen = self._observed(x)
        self._pooled = self._pooled_mean(weights @ values, weights @ seen)

    def _pooled_mean(self, sums: Array, counts: Array) -> Array:
        """Half a success in one trial more than seen: inside the parameter space whatever the data."""
        return np.asarray((sums + 0.5) / (counts + 1.0))

    def _inside(self, values: Array) -> NDArray[np.bool_]:
        return np.asarray(values > 0)

    def accumulate(self, params: Params, x: Array, resp: Array, threads: int = 1) -> Stats:
        """Weighted sums and counts of observed entries, (K, D) each."""
        values, seen = self._observed(x)
        return {"sums": resp.T @ values, "counts": resp.T @ seen}

    def maximize(self, stats: Stats, params: Params, update: frozenset[str] | None = None) -> Params:
        """Weighted means, with `pseudo_count` observations at the pooled mean."""
        c = self.pseudo_count
        sums, counts = stats["sums"] + c * self._pooled, stats["counts"] + c
        live = counts > DEAD
        fallback = params.get(self.parameter, np.broadcast_to(self._pooled, sums.shape))
        value = np.where(live, sums / np.where(live, counts, 1.0), fallback)
        if not np.all(self._inside(value)):
            k, j = np.argwhere(~self._inside(value))[0]
            raise DegeneracyError(
                f"{self.parameter}[{k}, {j}] is {value[k, j]:g}, on the edge of its "
                "range; set pseudo_count > 0"
            )
        return keep({self.parameter: value}, params, update)

    def from_responsibilities(self, x: Array, resp: Array, rng: np.random.Generator) -> Params:
        """Weighted means."""
        stats = self.accumulate({}, x, resp)
        return self.maximize(stats, {})

    def coordinates(self) -> dict[str, Coordinates]:
        """Log parameters, or log odds."""
        return {self.parameter: self.constraint}

    def mean(self, params: Params) -> Array:
        """The parameter is the mean."""
        return params[self.parameter]


def times_log(values: Array, p: Array) -> Array:
    """Sum over j of x_ij log p_kj, (n, K), with 0 log 0 = 0."""
    if np.all(p > 0):
        return np.asarray(values @ np.log(p).T)
    return np.stack([xlogy(values, row).sum(axis=1) for row in p], axis=1)
