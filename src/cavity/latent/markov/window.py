"""What an approximate state-space form costs: log evidence of a window of rows, approximate minus exact.

The largest error of the covariance says little: at a signal 1e5 times the noise, forms whose covariance is right to
2e-4 have been 70 nats off. So the cost is measured on the user's own rows, at the noise or the sites that were found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.latent.base import ImproperPosteriorError, Inputs, LatentPrior, Loss
from cavity.latent.dense import Dense
from cavity.latent.sites import Sites
from cavity.numerics.arrays import Array

if TYPE_CHECKING:
    from cavity.latent.markov.conditioning import MarkovConditioning

WINDOW = 500
"""Consecutive rows, from the middle of the data."""


def nats_on_a_window(found: MarkovConditioning, weights: Array | None) -> Loss:
    """The loss by row, from weights alpha (n,) or (n, T) of the posterior mean m + K alpha; not known without them."""
    if weights is None:
        return Loss(np.nan, "none")
    prior, n = found.prior, found.prior.n
    first = max(0, (n - WINDOW) // 2)
    rows = np.sort(prior.order[first : first + WINDOW])
    columns = weights.reshape(n, -1)
    noise = np.empty(n)
    noise[prior.order] = found.noise
    moved = prior.times(columns)
    target = (moved + noise[:, None] * columns) if found.observed else (columns + noise[:, None] * moved)
    mine = prior.representation.prior(prior.kernel, None, prior.representation.prepare(prior.X[rows]))
    exact = Dense().prior(prior.kernel, None, Inputs(prior.X[rows]))
    try:
        values = [_log_evidence(p, noise[rows], target[rows], found.observed) for p in (mine, exact)]
    except (ImproperPosteriorError, np.linalg.LinAlgError):  # the sites of a window may outweigh its prior
        return Loss(np.nan, "none")
    return Loss(abs(values[0] - values[1]) / len(rows), "window")


def _log_evidence(prior: LatentPrior, noise: Array, target: Array, observed: bool) -> float:
    """Of residuals with noise variances, or of shifts of sites with precisions, up to a constant."""
    if not observed:
        return sum(float(prior.given(Sites(column.copy(), noise)).log_normalizer) for column in target.T)
    found = prior.observe(noise)
    quadratic = float(np.vdot(target, found.apply(np.ascontiguousarray(target))))
    return float(-0.5 * (target.shape[1] * found.noisy_log_det + quadratic))
