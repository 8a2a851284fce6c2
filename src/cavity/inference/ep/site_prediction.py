"""Sites at new hyperparameters, predicted from those at the points that an optimizer has visited.

Along one branch of fixed points sites are smooth functions of the hyperparameters theta. With the known points at
distances d_j from the one the branch is followed from, in directions e_j, and a step s,

    sites(theta + s) ~ sites(theta) + sum_j c_j (sites_j - sites(theta)) / d_j,
    c = argmin |s - sum_j c_j e_j|^2 + CURVATURE^2 sum_j c_j^2 d_j^2 :

linear in the step where earlier points span it; the penalty weighs the curvature met on the way to a far point against
the part of the step that no point explains.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

KEPT = 20
"""Points that are remembered."""

CURVATURE = 0.3
"""Error of a prediction over a distance of one, relative to no prediction at all."""


@dataclass(frozen=True)
class KnownSites:
    """Sites (2, n), shift and precision, at the last points visited, theta (p,)."""

    thetas: tuple[Array, ...] = ()
    sites: tuple[Array, ...] = ()

    def and_one(self, theta: Array, sites: Sites) -> KnownSites:
        """With one more point; the oldest is forgotten."""
        return KnownSites(
            (*self.thetas[1 - KEPT :], theta),
            (*self.sites[1 - KEPT :], np.array([sites.shift, sites.precision])),
        )

    def predict(self, theta: Array, near: Array, sites: Sites) -> Sites:
        """Sites at theta, from those at a point near it."""
        step = theta - near
        apart = np.array([known - near for known in self.thetas]).reshape(-1, len(theta))
        distance = np.linalg.norm(apart, axis=1)
        used = np.flatnonzero(distance > 0)
        if used.size == 0 or not step.any():
            return sites
        distance = distance[used]
        E = apart[used] / distance[:, None]
        gram = E @ E.T + np.diag((CURVATURE * distance) ** 2)
        gram[np.diag_indices_from(gram)] += 1e-12
        c = np.linalg.solve(gram, E @ step) / distance
        at = np.array([sites.shift, sites.precision])
        moved = at + sum(c_j * (self.sites[j] - at) for c_j, j in zip(c, used))
        return Sites(moved[0], moved[1])
