"""Posterior means and their derivatives at many points at once: the first-order version, S = 0.

One stacked evaluation for all outputs, O(B n D) for B points each: this is what a search over many action sequences
uses. Notation as in `bumps`; groups are padded with weights of zero to a common number of centers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cavity.control.uncertain_inputs.decomposition import AnalyticOutput
from cavity.numerics.arrays import Array
from cavity.numerics.exponential import exp_in_place


@dataclass(frozen=True)
class MeanCache:
    """Points (B, D) and weighted bumps (G, B, n)."""

    x: Array
    weighted: Array


class MeanOnly:
    """Means of E outputs at points, with derivatives in the points.

    Parameters
    ----------
    outputs : sequence of AnalyticOutput
    weights : sequence of arrays (B, n), optional
        For each output weights of its bumps in place of `alpha`, others at each of B points: then every point has a
        function of its own.
    """

    def __init__(self, outputs: Sequence[AnalyticOutput], weights: Sequence[Array] | None = None) -> None:
        self.D, self.E = outputs[0].D, len(outputs)
        trend = np.stack([o.trend for o in outputs])
        self.constant, self.slope = trend[:, 0], np.ascontiguousarray(trend[:, 1:].T)
        parts = [(a, o, s, metric) for a, o in enumerate(outputs) for s, metric in o.bumps]
        self.owner = np.array([a for a, *_ in parts], dtype=int)
        n = max((len(o.X) for _, o, _, _ in parts), default=0)
        self.center = outputs[0].X.mean(axis=0)
        given = [o.alpha[None] for o in outputs] if weights is None else list(weights)
        self.centers = np.zeros((len(parts), n, self.D))
        self.weights = np.zeros((len(parts), len(given[0]), n))
        for g, (a, o, s, _) in enumerate(parts):
            self.centers[g, : len(o.X)] = o.X - self.center
            self.weights[g, :, : len(o.X)] = s * given[a]
        self.metrics = np.stack([m for *_, m in parts]) if parts else np.zeros((0, self.D, self.D))
        self.scaled = self.centers @ self.metrics
        self.own = np.einsum("gnd,gnd->gn", self.scaled, self.centers)
        self.one_each = len(parts) == self.E and bool(np.all(self.owner == np.arange(self.E)))

    def forward(self, x: Array) -> tuple[Array, MeanCache]:
        """Means (B, E) at x (B, D)."""
        y = x - self.center
        moved = y @ self.metrics
        # -|x - c|^2 / 2 in the metric of each group
        exponent = moved @ np.swapaxes(self.centers, 1, 2)
        exponent -= 0.5 * self.own[:, None, :]
        exponent -= 0.5 * np.einsum("gbd,bd->gb", moved, y)[:, :, None]
        weighted = exp_in_place(exponent)
        weighted *= self.weights
        mean = self._by_output(weighted.sum(axis=2)) + x @ self.slope + self.constant
        return mean, MeanCache(x, weighted)

    def _by_output(self, values: Array) -> Array:
        if self.one_each:
            return np.asarray(values.T)
        out = np.zeros((values.shape[1], self.E))
        np.add.at(out.T, self.owner, values)
        return out

    def pull(self, cache: MeanCache, d_mean: Array) -> Array:
        """d x (B, D) from adjoints of the means (B, E)."""
        moved = cache.weighted @ self.scaled  # sum_i w_i b_i Lam c_i
        total = cache.weighted.sum(axis=2)
        y = cache.x - self.center
        gradient = moved - total[:, :, None] * (y @ self.metrics)
        pulled = np.einsum("bg,gbd->bd", d_mean[:, self.owner], gradient)
        return np.asarray(pulled + d_mean @ self.slope.T)
