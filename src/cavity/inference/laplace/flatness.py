"""Modes that are nearly flat in a direction, of which Laplace's method thinks too highly.

If a mode is about to merge with a saddle, the share c of the curvature that is left in some direction tends to zero,
and the term -1/2 log c of the log evidence to infinity: an optimizer would be drawn to where the approximation breaks
down. So directions with less than `NEARLY_FLAT` left pay

    barrier(c) = -log(c / NEARLY_FLAT)^2

which outweighs that term from 0.8 NEARLY_FLAT on, where it is 0.06 nats. It is smooth, so that optima next to such
places are found without evaluations that fail. A mode has no such directions unless the likelihood is not log-concave.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cavity.latent.base import Conditioning
from cavity.numerics.arrays import Array

NEARLY_FLAT = 0.1
"""Share of the curvature below which a direction pays."""


class Barrier(NamedTuple):
    """What nearly flat directions add to the log evidence, and its derivatives.

    Attributes
    ----------
    value : float
        At most 0.
    left, right : arrays (n, k)
        left right' is the derivative in K.
    by_precision : array (n,)
        The derivative in W.
    """

    value: float
    left: Array
    right: Array
    by_precision: Array


def barrier(curvature: Conditioning) -> Barrier:
    """Of the conditioning on the curvature at a mode."""
    c, a, by_site = curvature.flat_directions(NEARLY_FLAT)
    deficit = np.log(c / NEARLY_FLAT)
    slope = -2.0 * deficit / c
    return Barrier(-float(deficit @ deficit), -slope * a, a, by_site @ slope)
