"""Trend, slope, seasons and short memory of a fitted model, each with its posterior.

Terms of the latent function are functionals of the state (`latent.markov.parts`), and so are their changes over a step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cavity.forecasting.members import Member
from cavity.numerics.arrays import Array

HALF_STEP = 0.5
"""A slope is the difference over one step, half of it to either side."""

SHORT = ("short", "cycle")
"""Names of terms that are shown as one: what is neither trend nor season."""

TREND, SLOPE, SHORT_TERM = "trend", "slope", "short term"


class Moments(NamedTuple):
    """Mean and variance at some times."""

    mean: Array
    var: Array


def _picks(member: Member) -> dict[str, Array]:
    """Which entries of the state make up each component: the first of every block of its terms."""
    kernel: Any = member.posterior.model.kernel
    found: dict[str, Array] = {}
    start, size = 0, kernel.state_space().size
    for name, term in zip(member.names, kernel.terms):
        pick = found.setdefault(SHORT_TERM if name in SHORT else name, np.zeros(size))
        for block in term.state_space().blocks:
            pick[start] = 1.0
            start += block.size
    return found


def components(member: Member, t: Array) -> dict[str, Moments]:
    """Every component at these steps, and the change of the trend over a step around them, in units of the model."""
    from cavity.latent.markov.parts import part_moments

    picks = _picks(member)
    times, where = np.unique(np.concatenate([t, t - HALF_STEP, t + HALF_STEP]), return_inverse=True)
    at, before, after = where.reshape(3, -1)
    order = np.argsort(before, kind="stable")
    found = part_moments(
        member.posterior.process, np.array([*picks.values()]), times, before[order], after[order]
    )
    moments = {
        name: Moments(mean[at], np.maximum(var[at], 0.0))
        for name, mean, var in zip(picks, found.mean, found.var)
    }
    trend, (change, change_var) = [*picks].index(TREND), np.empty((2, len(t)))
    change[order], change_var[order] = found.change[trend], np.maximum(found.change_var[trend], 0.0)
    return {TREND: moments.pop(TREND), SLOPE: Moments(change, change_var), **moments}
