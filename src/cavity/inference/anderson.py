"""Anderson's extrapolation of an iteration x -> x + f(x) of sites, from differences of its past points and steps.

    f - (dX + dF) gamma,   gamma = argmin |f - dF gamma|,

takes the place of the step f: it solves the linear part of the problem within what the differences span, as GMRES does
(Walker and Ni, 2011). Climbing a variational bound (`ascent`) and sweeps of EP (`ep.acceleration`) use it, each with
safeguards of its own. Changes are compared by what they do to the posterior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cavity.numerics.arrays import Array

BLOCK = 20_000
"""Points that are taken into the least-squares problem at a time; more are reduced block by block."""


def in_posterior_units(change: Array, mean: Array, var: Array) -> Array:
    """A change (..., 2, n) of shifts and precisions, in units of the posterior's sd and variance."""
    slope = change[..., 0, :] - change[..., 1, :] * mean
    return np.stack([slope * np.sqrt(var), change[..., 1, :] * var], axis=-2)


def correction(
    step: Array,
    d_points: Sequence[Array],
    d_steps: Sequence[Array],
    mean: Array,
    var: Array,
    rank: float = 1e-10,
) -> Array:
    """(dX + dF) gamma, to be taken from the step, (2, n).

    Parameters
    ----------
    step : array (2, n)
        f at the last point: changes of shifts and precisions.
    d_points, d_steps : k arrays (2, n)
        Differences of successive points and steps.
    mean, var : arrays (n,)
        Of the posterior there.
    rank : float
        Singular values below this share of the largest count as zero.
    """
    known, aim = _least_squares(step, d_steps, mean, var)
    gamma = np.linalg.lstsq(known, aim, rcond=rank)[0]
    out = np.zeros(step.shape)
    for first in range(0, step.shape[1], BLOCK):
        at = slice(first, first + BLOCK)
        for weight, d_point, d_step in zip(gamma, d_points, d_steps):
            out[:, at] += weight * (d_point[:, at] + d_step[:, at])
    return out


def _least_squares(step: Array, d_steps: Sequence[Array], mean: Array, var: Array) -> tuple[Array, Array]:
    """The matrix dF and the right side f in units of the posterior; for many points, R and Q'f of dF = Q R."""
    n, R = step.shape[1], np.zeros((0, len(d_steps) + 1))
    for first in range(0, n, BLOCK):
        at = slice(first, min(n, first + BLOCK))
        block = np.array([*(d_step[:, at] for d_step in d_steps), step[:, at]])
        columns = in_posterior_units(block, mean[at], var[at]).reshape(len(block), -1).T
        if n <= BLOCK:
            return columns[:, :-1], columns[:, -1]
        R = np.asarray(np.linalg.qr(np.vstack([R, columns]), mode="r"))
    return R[:, :-1], R[:, -1]
