"""Knowledge gradient over a continuous space, with one maximization instead of nested ones (Balandat et al., 2020).

An observation at x moves the mean along m + b Z, b = k(., x) / sqrt(v(x) + noise). With nodes Z_s, s = 1..S,

    KG(x) + min m >= max over x'_1..x'_S of  -mean_s (m(x'_s) + b(x'_s) Z_s),

where each x'_s is the best place if Z_s comes true. All are maximized together: the value is below KG whatever the
inner points are, and reaches it (but for the nodes) at the joint optimum. Nodes are the means of Z in S slices of equal
probability: by Jensen's inequality, they keep the value below KG too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import norm

from cavity.latent.moments import Moments
from cavity.numerics.arrays import Array


def slice_means(count: int) -> Array:
    """Means of a standard normal variable in slices of equal probability, (count,).

    Examples
    --------
    >>> from cavity.design.acquisition import slice_means
    >>> slice_means(2).round(6)
    array([-0.797885,  0.797885])
    """
    edges = norm.pdf(ndtri(np.linspace(0.0, 1.0, count + 1)))
    return np.asarray(count * (edges[:-1] - edges[1:]))


@dataclass(frozen=True, eq=False)
class OneShotKnowledge:
    """The one-shot value of points with their inner points.

    Attributes
    ----------
    moments : Moments
    nodes : array (S,)
    least : float
        The least mean known so far.
    noise : float
        Variance of the observation's noise, in the units of the moments.
    """

    moments: Moments
    nodes: Array
    least: float
    noise: float = 0.0

    def __call__(self, X: Array, inner: Array) -> tuple[Array, Array, Array]:
        """Values (m,) at points (m, D) with inner points (m, S, D), and gradients in both."""
        m, S, D = inner.shape
        flat, own = (
            inner.reshape(m * S, D),
            np.repeat(np.eye(m), S, axis=0),
        )  # (m S, m): whose inner point it is
        mean, _, pull_mean = self.moments.with_pull(flat)
        _, variance, pull_variance = self.moments.with_pull(X)
        total = variance + self.noise
        cross, pull_inner = self.moments.covariance_with_pull(flat, X)
        _, pull_outer = self.moments.covariance_with_pull(X, flat)
        own_cross = np.sum(cross * own, axis=1).reshape(m, S)
        slope = own_cross / np.sqrt(total)[:, None]
        value = self.least - np.mean(mean[:, 0].reshape(m, S) + slope * self.nodes, axis=1)
        by_mean = np.zeros_like(mean)
        by_mean[:, 0] = -1.0 / S
        by_cross = own * (-np.tile(self.nodes, m) / S / np.repeat(np.sqrt(total), S))[:, None]
        by_variance = np.mean(slope * self.nodes, axis=1) / (2.0 * total)
        to_inner = pull_mean(by_mean, np.zeros(m * S)) + pull_inner(by_cross)
        to_outer = pull_outer(by_cross.T) + pull_variance(np.zeros((m, mean.shape[1])), by_variance)
        return value, to_outer, to_inner.reshape(m, S, D)

    def best_of(self, X: Array, points: Array) -> tuple[Array, Array]:
        """Values (m,) if inner points are chosen among some points (k, D), and which those are, (m, S)."""
        mean = self.moments(points)[0][:, 0]
        total = self.moments(X)[1] + self.noise
        slope = self.moments.covariance(X, points) / np.sqrt(total)[:, None]
        value = np.empty((len(X), len(self.nodes)))
        which = np.empty((len(X), len(self.nodes)), dtype=int)
        for s, z in enumerate(self.nodes):
            after = mean + slope * z
            which[:, s] = np.argmin(after, axis=1)
            value[:, s] = after[np.arange(len(X)), which[:, s]]
        return self.least - value.mean(axis=1), which
