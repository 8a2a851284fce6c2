# mypy: disable-error-code=untyped-decorator
"""Compiled tilted moments of noise with exponential tails: Laplace and epsilon-insensitive.

    p(y|f)^eta ~ exp(-eta max(|y-f| - epsilon, 0) / s)

In units of the cavity's sd a side is exp(-rate t) phi(t + delta) on t >= 0, with t the distance beyond its kink, and
the middle a cut normal density: each has its log weight and moments without cancellation (`numerics.scalar`).

This module loads Numba: import it inside functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cavity.numerics.scalar import exp, half_line, jit, jit_sums, log_half_line
from cavity.numerics.special import INTERVAL_CUT, INTERVAL_WEIGHTS, INTERVAL_X, LOG_2PI


@jit_sums
def normal_interval(a: float, length: float) -> tuple[float, float, float, float, float]:
    """log(Phi(a + length) - Phi(a)), mean and central moments of x - a in between; see `special.normal_interval`."""
    flip = 2.0 * a + length < 0.0
    z = -(a + length) if flip else a
    peak, right = max(-z, 0.0), max(z, 0.0)
    fall = INTERVAL_CUT * INTERVAL_CUT / (right + math.sqrt(right * right + INTERVAL_CUT * INTERVAL_CUT))
    low, high = max(-peak, -INTERVAL_CUT), min(fall, length - peak)
    half = 0.5 * (high - low)
    density = np.empty(len(INTERVAL_X))
    mass, mean = 0.0, 0.0
    for j in range(len(INTERVAL_X)):
        d = low + half * (1.0 + INTERVAL_X[j])
        density[j] = exp(-d * (right + 0.5 * d)) * INTERVAL_WEIGHTS[j]
        mass += density[j]
        mean += density[j] * d
    mean /= mass
    var, c3, c4 = 0.0, 0.0, 0.0
    for j in range(len(INTERVAL_X)):
        d = low + half * (1.0 + INTERVAL_X[j]) - mean
        d2 = density[j] * d * d
        var += d2
        c3 += d2 * d
        c4 += d2 * d * d
    mean += peak
    log_mass = math.log(mass * half) - 0.5 * right * right - 0.5 * LOG_2PI
    return log_mass, (length - mean if flip else mean), var / mass, (-c3 if flip else c3) / mass, c4 / mass


@jit
def exponential_tails(
    y: Any, shift: Any, precision: Any, power: Any, s: float, epsilon: float, log_constant: float, out: Any
) -> None:
    """Tilted quantities in out (8, n); the last two rows are d log Z / d s and d log Z / d epsilon."""
    norm = 1.0 / (s + epsilon)
    for i in range(len(y)):
        tau = precision[i]
        v = 1.0 / tau
        sd = math.sqrt(v)
        gap = (shift[i] - tau * y[i]) * v  # cavity mean - y
        rate = power[i] * sd / s
        # distances of the cavity mean from the kinks, counted towards the middle
        right, left = (epsilon - gap) / sd, (epsilon + gap) / sd
        log_up, log_down = log_half_line(right, rate), log_half_line(left, rate)
        t, var_up, c3_up, c4_up = half_line(right + rate)
        b, var_down, c3_down, c4_down = half_line(left + rate)
        log_middle, m, var_middle, c3_middle, c4_middle = -math.inf, 0.0, 0.0, 0.0, 0.0
        if epsilon > 0.0:
            log_middle, m, var_middle, c3_middle, c4_middle = normal_interval(-left, 2.0 * epsilon / sd)
        top = max(log_up, log_down, log_middle)
        up, down, inside = math.exp(log_up - top), math.exp(log_down - top), math.exp(log_middle - top)
        mass = up + down + inside
        up, down, inside = up / mass, down / mass, inside / mass
        # means in units of the cavity's sd, as distances from y
        width = epsilon / sd
        x, z, m = width + t, -(width + b), m - width
        mean = up * x + down * z + inside * m
        x, z, m = x - mean, z - mean, m - mean
        x2, z2, m2 = x * x, z * z, m * m
        var = up * (var_up + x2) + down * (var_down + z2) + inside * (var_middle + m2)
        c3 = (
            up * (c3_up + x * (3.0 * var_up + x2))
            + down * (-c3_down + z * (3.0 * var_down + z2))
            + inside * (c3_middle + m * (3.0 * var_middle + m2))
        )
        c4 = (
            up * (c4_up + 4.0 * x * c3_up + x2 * (6.0 * var_up + x2))
            + down * (c4_down - 4.0 * z * c3_down + z2 * (6.0 * var_down + z2))
            + inside * (c4_middle + 4.0 * m * c3_middle + m2 * (6.0 * var_middle + m2))
        )
        log_z = top + math.log(mass) + power[i] * log_constant
        out[0, i] = log_z + 0.5 * (LOG_2PI - math.log(tau)) + 0.5 * shift[i] * (shift[i] * v)
        out[1, i] = log_z
        out[2, i] = y[i] + sd * mean
        out[3, i] = v * var
        out[4, i] = v * sd * c3
        out[5, i] = v * v * c4
        out[6, i] = power[i] * (sd * (up * t + down * b) / (s * s) - norm)
        out[7, i] = power[i] * ((up + down) / s - norm)
