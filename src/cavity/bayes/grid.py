"""Any model with one parameter: posterior, evidence and averages by quadrature.

The posterior is likelihood times prior over its integral. That integral is taken by Gauss-Legendre panels over the
part of the prior's support in which the posterior has any mass; densities between nodes are evaluated, not
interpolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.bayes.distributions import Distribution
from cavity.numerics.arrays import Array
from cavity.prediction.base import Seed, check_levels
from cavity.prediction.continuous import invert_cdf
from cavity.runtime.errors import InputError

PANELS, NODES = 256, 16
FALL = 45.0
"""Nats below the top beyond which a log density counts as zero: exp(-45) is 3e-20."""

X, W = np.polynomial.legendre.leggauss(NODES)


class GridPosterior(Distribution):
    """The posterior of one parameter, given a prior and any likelihood.

    Parameters
    ----------
    log_likelihood : callable
        Log probability of the data for an array of parameter values; of the same shape.
    prior : Distribution
        Continuous.

    Attributes
    ----------
    log_evidence : float
        Log probability of the data before they were seen.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.bayes import Beta, GridPosterior
    >>> coin = GridPosterior(lambda p: 7 * np.log(p) + np.log1p(-p), Beta(3, 5))
    >>> round(float(coin.mean), 6), round(float(coin.probability(high=0.5)), 6)  # Beta(10, 6)
    (0.625, 0.150879)
    """

    def __init__(self, log_likelihood: Callable[[Array], Array], prior: Distribution) -> None:
        if prior.discrete or np.ndim(prior.mean):
            raise InputError(
                "must be a continuous distribution of one number", parameter="prior", value=prior
            )
        self._log_likelihood, self.prior = log_likelihood, prior
        low, high = (float(prior.quantile(p)) for p in (1e-15, 1.0 - 1e-15))
        for _ in range(6):  # narrow to where the posterior is
            edges = np.linspace(low, high, PANELS + 1)
            nodes, _ = _nodes(edges)
            log_p = self._joint(nodes)
            top = float(log_p.max())
            if not np.isfinite(top):
                raise InputError(
                    "is zero or infinite wherever the prior is not: these data contradict it",
                    parameter="log_likelihood",
                )
            alive = np.flatnonzero(log_p.max(axis=1) > top - FALL)
            first, last = max(int(alive[0]) - 1, 0), min(int(alive[-1]) + 2, PANELS)
            if last - first > PANELS // 2:
                break
            low, high = float(edges[first]), float(edges[last])
        self._edges = edges
        nodes, weights = _nodes(edges)
        self._nodes = nodes
        mass = weights * np.exp(log_p - top)
        self.log_evidence = float(top + np.log(mass.sum()))
        self._weights = mass / mass.sum()
        self._below = np.concatenate([[0.0], np.cumsum(self._weights.sum(axis=1))])

    def _joint(self, theta: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.asarray(self._log_likelihood(theta), dtype=float) + np.asarray(
                self.prior.log_prob(theta)
            )
        return np.where(np.isnan(found), -np.inf, found)

    def expectation(self, function: Callable[[Array], Array]) -> Any:
        """E[function(theta) | data]; the probability of new data, if that is what the function gives."""
        return np.sum(self._weights * np.asarray(function(self._nodes)))[()]

    def cases(self) -> Iterator[Distribution]:
        """Itself."""
        yield self

    @property
    def support(self) -> tuple[Any, Any]:
        """That of the prior."""
        return self.prior.support

    @property
    def mean(self) -> Any:
        """Posterior mean."""
        return self.expectation(lambda t: t)

    @property
    def variance(self) -> Any:
        """Posterior variance."""
        mean = self.mean
        return self.expectation(lambda t: (t - mean) ** 2)

    def log_prob(self, y: ArrayLike) -> Any:
        """Log posterior density."""
        return (self._joint(np.asarray(y, dtype=float)) - self.log_evidence)[()]

    def cdf(self, y: ArrayLike) -> Any:
        """By the panels below, and a part of one."""
        theta = np.asarray(y, dtype=float)
        inside = np.clip(theta, self._edges[0], self._edges[-1])
        k = np.clip(np.searchsorted(self._edges, inside, side="right") - 1, 0, PANELS - 1)
        start = self._edges[k]
        half = 0.5 * (inside - start)
        nodes = (start + half)[..., None] + half[..., None] * X
        part = np.sum(np.exp(np.asarray(self.log_prob(nodes))) * W, axis=-1) * half
        return np.minimum(self._below[k] + part, 1.0)[()]

    def quantile(self, q: ArrayLike) -> Any:
        """By inverting the distribution function."""
        levels = check_levels(q)
        out = np.where(levels <= 0.0, self.support[0], self.support[1]).astype(float)
        inner = (levels > 0) & (levels < 1)
        if inner.any():
            k = np.clip(np.searchsorted(self._below, levels[inner]) - 1, 0, PANELS - 1)
            middle, half = (
                0.5 * (self._edges[k] + self._edges[k + 1]),
                0.5 * (self._edges[k + 1] - self._edges[k]),
            )
            out[inner] = invert_cdf(self.cdf, levels[inner], middle, half)
        return out[()]

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """By the quantiles of uniform draws."""
        return np.asarray(self.quantile(np.random.default_rng(rng).uniform(size=size)))


def _nodes(edges: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights of each panel, shape (panels, nodes)."""
    half = 0.5 * np.diff(edges)
    return (edges[:-1] + half)[:, None] + half[:, None] * X, half[:, None] * W
