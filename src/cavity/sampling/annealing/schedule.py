"""Temperatures on the way from an easy distribution to the posterior.

A schedule is an increasing array beta_0 = 0, ..., beta_T = 1 of powers of the likelihood (or of its ratio to the
sites of a Gaussian start). Three ways to choose it:

- `power_schedule`: beta_t = (t/T)^4 as in Kuss (2006, section 4.3.5); large signals need a higher power;
- `next_temperature`: the largest step whose conditional effective sample size stays above a share of the runs
  (Zhou, Johansen and Aston 2016). With weights v_r = exp(d ln ratio_r) of R runs that weigh the same so far, it is

      CESS(d) = (sum_r v_r)^2 / (R sum_r v_r^2),

  a share of one, about 1 - d^2 var(ln ratio) for short steps;
- `resampled`: a schedule of one length stretched to another, so that a short pilot run can lay out a long one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from cavity.numerics.arrays import Array
from cavity.runtime.checks import require_integer, require_positive

SMALLEST_LOG_STEP = -700.0
"""Log of the smallest step in beta that is tried: ratios of 1e300 nats are met halfway."""

BISECTIONS = 60


def power_schedule(steps: int, power: float = 4.0) -> Array:
    """(t/T)^power for t = 0 ... T, shape (T + 1,).

    Examples
    --------
    >>> power_schedule(4, 2.0)
    array([0.    , 0.0625, 0.25  , 0.5625, 1.    ])
    """
    require_integer(steps, "steps", 1)
    require_positive(power, "power")
    return np.asarray(np.linspace(0.0, 1.0, steps + 1) ** power)


def as_schedule(levels: ArrayLike) -> Array:
    """Temperatures given by a user, checked."""
    beta: Array = np.asarray(levels, dtype=float)
    increasing = beta.ndim == 1 and len(beta) > 1 and bool(np.all(np.diff(beta) > 0))
    if not increasing or beta[0] != 0.0 or beta[-1] != 1.0:
        raise ValueError(f"schedule must increase from 0 to 1, got {levels!r}")
    return beta


def conditional_share(log_ratio: Array, step: float) -> float:
    """CESS / R of a step in beta, between 1/R and 1; runs of ratio zero (-inf) count as lost."""
    top = np.max(log_ratio)
    if not np.isfinite(top):
        return 1.0
    v = np.exp(step * (log_ratio - top))
    return float(v.mean() ** 2 / np.mean(v * v))


def next_temperature(log_ratio: Array, beta: float, keep: float = 0.9) -> float:
    """The largest next beta with conditional effective sample size at least `keep` times the runs."""
    known = log_ratio[np.isfinite(log_ratio)]  # the others are lost at any temperature
    left = 1.0 - beta
    if len(known) < 2 or conditional_share(known, left) >= keep:
        return 1.0
    low, high = SMALLEST_LOG_STEP, float(np.log(left))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if conditional_share(known, np.exp(middle)) >= keep else (low, middle)
    return float(min(1.0, max(beta + np.exp(low), beta * (1.0 + 1e-12))))  # never the same beta twice


def resampled(levels: Array, steps: int) -> Array:
    """A schedule with the same density of temperatures along the way, in another number of steps.

    ln beta is interpolated by a monotone cubic in t/T beyond the first level, beta itself before it.
    """
    if len(levels) == 2:
        return np.linspace(0.0, 1.0, steps + 1)
    known, wanted = np.linspace(0.0, 1.0, len(levels)), np.linspace(0.0, 1.0, steps + 1)
    first = known[1]
    smooth = PchipInterpolator(known[1:], np.log(levels[1:]))
    out = np.where(wanted < first, levels[1] * wanted / first, np.exp(smooth(np.clip(wanted, first, 1.0))))
    out[0], out[-1] = 0.0, 1.0
    keep = np.concatenate([[True], np.diff(np.maximum.accumulate(out)) > 0])
    return np.asarray(out[keep])
