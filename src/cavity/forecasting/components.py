"""Trend, slope, seasons and short memory of a fitted model, each with its posterior.

A term f_j of the latent function, and any combination L f_j of its values such as a difference quotient, is Gaussian
given the data: with weights and R of the whole posterior (`latent.base`)

    mean = L k_j(., X) weights,    var = L k_j L' - L k_j(., X) R k_j(X, .) L'.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.forecasting.members import Member
from cavity.kernels import Kernel
from cavity.numerics.arrays import Array

COLUMNS = 256
"""Times that are looked at together."""

HALF_STEP = 0.5
"""A slope is the difference over one step, half of it to either side."""

SHORT = ("short", "cycle")
"""Names of terms that are shown as one: what is neither trend nor season."""


class Moments(NamedTuple):
    """Mean and variance at some times."""

    mean: Array
    var: Array


def parts_of(member: Member) -> dict[str, Kernel]:
    """The kernel of each component: terms of the same name are added."""
    kernel: Any = member.posterior.model.kernel
    found: dict[str, Kernel] = {}
    for name, term in zip(member.names, kernel.terms):
        shown = "short term" if name in SHORT else name
        found[shown] = found[shown] + term if shown in found else term
    return found


def component(member: Member, part: Kernel, t: Array) -> Moments:
    """A component at these steps, in the units of the model."""
    return _combined(member, part, [(1.0, t)])


def slope(member: Member, part: Kernel, t: Array) -> Moments:
    """The change of a component over one step around these, in the units of the model."""
    return _combined(member, part, [(1.0, t + HALF_STEP), (-1.0, t - HALF_STEP)])


def _combined(member: Member, part: Kernel, points: list[tuple[float, Array]]) -> Moments:
    """Of the sum of values of a component at several times, each with a factor."""
    process = member.posterior.process
    X, n = process.prior.X, len(points[0][1])
    mean, var = np.empty(n), np.empty(n)
    for first in range(0, n, COLUMNS):
        block = slice(first, min(first + COLUMNS, n))
        at = [(factor, t[block, None]) for factor, t in points]
        cross = np.sum([factor * part(X, where) for factor, where in at], axis=0)
        prior = np.sum([a * b * _diagonal(part, x, y) for a, x in at for b, y in at], axis=0)
        mean[block] = cross.T @ process.weights
        var[block] = prior - np.einsum("ij,ij->j", cross, process.conditioning.apply(cross))
    return Moments(mean, np.maximum(var, 0.0))


def _diagonal(part: Kernel, x: Array, y: Array) -> Array:
    """k(x_i, y_i)."""
    if x is y:
        return part.diag(x)
    return np.array([part(a[None], b[None])[0, 0] for a, b in zip(x, y)])
