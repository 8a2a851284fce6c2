"""Noise parameters and noise variances drawn together, given a draw of f that is then dropped.

Given all noise variances v, the degrees of freedom and the scale of the noise are nearly determined, and move in small
steps only. Given f the points are independent: with residuals r = y - f, the noise parameters move on the density of
the noise itself, in which the variances are integrated out, and the variances are then drawn afresh (`scale_mixture`).

Residuals come from a draw of the prior, f0, and of the noise, e0: with A = K + diag(v) and q = y - m - f0 - e0,

    r = e0 + v A^-1 q,

which loses no digits if v is small. (The same idea moves indicators in `outlier_gibbs`.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.latent.base import Inputs
from cavity.numerics.arrays import Array
from cavity.sampling.slice_sampling import slice_update
from cavity.sampling.targets import inside

Flags = NDArray[np.bool_]


def noise_entries(model: Any) -> Flags:
    """Which entries of theta (p,) belong to the noise alone."""
    layout = model.layout
    place = model.flat.size - model.likelihood.flat.size
    alone = np.zeros(len(layout.free), dtype=bool)
    alone[layout.slot[layout.where >= place]] = True
    alone[layout.slot[layout.where < place]] = False  # tied to the kernel or the mean
    return alone


def draw_residuals(
    model: Any, X: Array | Inputs, y: Array, variances: Array, rng: np.random.Generator
) -> Array:
    """y - f for a draw of f given the data and the noise variances, shape (n,)."""
    prior = model.prior(X)
    observed = prior.observe(variances, transient=True)
    noise = np.sqrt(variances) * rng.standard_normal(len(y))
    gap = y - prior.unwhiten(rng.standard_normal(prior.white_dim)) - noise
    return np.asarray(noise + variances * observed.apply(gap))


def draw_noise_parameters(
    model: Any, theta: Array, moves: Flags, residuals: Array, rng: np.random.Generator
) -> Array:
    """Theta (p,) with the entries `moves` changed: slice sampling of the noise's density of the residuals.

    Only the likelihood is built anew at each value that is tried.
    """
    layout, noise = model.layout, model.likelihood
    theta, flat = np.array(theta, dtype=float), np.array(model.flat)
    bounds, zeros = np.array(layout.bounds).reshape(-1, 2)[moves], np.zeros(len(residuals))
    place = flat.size - noise.flat.size

    def log_density(position: Array) -> float:
        if not inside(position, bounds):
            return -np.inf
        theta[moves] = position
        try:
            with np.errstate(all="ignore"):
                natural = layout.to_natural(theta)
                flat[layout.where] = natural[layout.slot]
                there = noise.with_flat(flat[place:])
                value = np.sum(there.log_prob(residuals, zeros)) + layout.log_prior_value(
                    natural, jacobian=True
                )
        except ValueError:  # a value that overflows
            return -np.inf
        return float(value) if np.isfinite(value) else -np.inf

    theta[moves] = slice_update(log_density, theta[moves].copy(), rng)
    return theta
