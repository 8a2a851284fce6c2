"""Anderson's extrapolation of an iteration x -> x + f(x) of sites, from differences of its past points and steps.

    f - (dX + dF) gamma,   gamma = argmin |f - dF gamma|,

takes the place of the step f: it solves the linear part of the problem within what the differences span, as GMRES does
(Walker and Ni, 2011). Climbing a variational bound (`ascent`) and sweeps of EP (`ep.acceleration`) use it, each with
safeguards of its own. Changes are compared by what they do to the posterior.
"""

from __future__ import annotations

import numpy as np

from cavity.numerics.arrays import Array


def in_posterior_units(change: Array, mean: Array, var: Array) -> Array:
    """A change (..., 2, n) of shifts and precisions, in units of the posterior's sd and variance."""
    slope = change[..., 0, :] - change[..., 1, :] * mean
    return np.stack([slope * np.sqrt(var), change[..., 1, :] * var], axis=-2)


def correction(
    step: Array, d_points: Array, d_steps: Array, mean: Array, var: Array, rank: float = 1e-10
) -> Array:
    """(dX + dF) gamma, to be taken from the step, (2, n).

    Parameters
    ----------
    step : array (2, n)
        f at the last point: changes of shifts and precisions.
    d_points, d_steps : arrays (k, 2, n)
        Differences of successive points and steps.
    mean, var : arrays (n,)
        Of the posterior there.
    rank : float
        Singular values below this share of the largest count as zero.
    """
    known = in_posterior_units(d_steps, mean, var).reshape(len(d_steps), -1).T
    gamma = np.linalg.lstsq(known, in_posterior_units(step, mean, var).ravel(), rcond=rank)[0]
    return np.asarray(np.tensordot(gamma, d_points + d_steps, axes=1))
