# mypy: disable-error-code=untyped-decorator
"""Compiled tilted moments of Gaussian scale mixtures: Student-t noise, and powers of two normal densities.

Given its precision w, a factor exp(-w (y-f)^2/2) makes the tilted density normal. For a cavity N(m, v) let

    g = 1 / (1 + w v);   f - y given w has mean (m - y) g and variance v g;   log weight  log(g)/2 - (m-y)^2 w g / 2.

So all moments of f follow from central moments of g under the posterior weights of w.

This module loads Numba: import it inside functions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cavity.numerics.scalar import exp, jit, jit_sums, one_minus_exp
from cavity.numerics.special import LOG_2PI

LOG_TINY = 38.0
"""Nats below the largest weight at which nodes are left out."""

STRIDE = 4
"""Nodes in one step of the search for the largest weight; they are less than two standard deviations of any mode."""

LARGEST_STEP = 0.24
"""Step in t up to a = 4: the trapezoid rule is then good to 1e-12."""

STEP_PER_WIDTH = 0.5
"""Step for larger a, in units of 1/sqrt(a), the width of a gamma density in log u."""


@jit_sums
def student_t(
    rows: Any,
    y: Any,
    shift: Any,
    precision: Any,
    a: float,
    q: float,
    s: float,
    df: float,
    known: Any,
    out: Any,
) -> None:
    """Tilted quantities of (1 + e^2/q)^-a, q = nu s^2, e = y - f, in the columns `rows` of out (8, n).

    (1 + e^2/q)^-a = 1/Gamma(a) integral u^(a-1) exp(-u (1 + e^2/q)) du, so w = 2 u / q; with k = 2 v / q and
    D = (m-y)^2 / q the integral over f leaves

        g = 1 / (1 + k u),     weight(u) = u^a exp(-u - D u g) sqrt(g)   in log u.

    The trapezoid rule runs over t with log u = c + t - exp(-t): below c = log(a / (1 + D + k)) - 1, where the weight
    falls like u^a alone, steps grow exponentially, so that few degrees of freedom cost no more than many. Modes of the
    weight, of which far outliers have two, all lie above c.

    `known` holds the constants of log Z and of its derivatives in s and df: log constant, power, power times d/d df of
    the log constant, digamma(a). The first has what Stirling's formula leaves of log Gamma(a): the rest,
    a log a - a, is taken from a c here, so that log Z has an error of a eps, not of log Gamma(a) eps.
    """
    constant, power, d_constant, digamma_a = known
    h = min(LARGEST_STEP, STEP_PER_WIDTH / math.sqrt(a))
    highest = math.log(a + math.sqrt(2.0 * LOG_TINY * a) + LOG_TINY) + 1.0
    low = -math.log((LOG_TINY + 0.5 * math.log1p(a)) / a + 1.0)
    widest = 0.0
    for i in rows:
        v = 1.0 / precision[i]
        gap = shift[i] * v - y[i]
        widest = max(widest, (gap * gap + 2.0 * v) / q)
    most = int((highest - low + 1.0 - math.log(a / (1.0 + widest))) / h) + STRIDE + 1
    # nodes shared by all points: log u - c, u / exp(c), and the log weight that does not depend on the point
    room = np.empty((5, most))
    bent, grown, base, log_w, g = room[0], room[1], room[2], room[3], room[4]
    for j in range(most):
        slope = exp(-(low + h * j))
        bent[j] = low + h * j - slope
        grown[j] = exp(bent[j])
        base[j] = a * bent[j] + math.log(h * (1.0 + slope))
    for i in rows:
        v = 1.0 / precision[i]
        gap = shift[i] * v - y[i]
        D, k = gap * gap / q, 2.0 * v / q
        C = a / (1.0 + D + k) * math.exp(-1.0)
        c = math.log(C)
        count = min(most, int((highest - low - c) / h) + STRIDE)
        for j in range(count):
            u = C * grown[j]
            g[j] = 1.0 / (1.0 + k * u)
            log_w[j] = base[j] - u * (1.0 + D * g[j])
        top, peak = log_w[0], 0
        for j in range(0, count, STRIDE):
            if log_w[j] > top:
                top, peak = log_w[j], j
        end = top + 0.5 * math.log(g[peak]) - LOG_TINY
        first, last = 0, count
        while log_w[first + STRIDE] < end:
            first += STRIDE
        while log_w[last - 1 - STRIDE] < end:
            last -= STRIDE
        # views that begin at the first node: indices from zero on are what the compiler vectorizes
        lw, gs, us, xs = log_w[first:last], g[first:last], grown[first:last], bent[first:last]
        mass, g1, ug, ugg, log_u = 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(len(lw)):
            weight = exp(lw[j] - top) * math.sqrt(gs[j])
            lw[j] = weight
            mass += weight
            g1 += weight * gs[j]
            wug = weight * (us[j] * gs[j])
            ug += wug
            ugg += wug * gs[j]
            log_u += weight * xs[j]
        g1 /= mass
        g2, g3, g4, g2g = 0.0, 0.0, 0.0, 0.0
        for j in range(len(lw)):
            d = gs[j] - g1
            d2 = lw[j] * d * d
            g2 += d2
            g3 += d2 * d
            g4 += d2 * d * d
            g2g += d2 * gs[j]
        g2, g3, g4, g2g = g2 / mass, g3 / mass, g4 / mass, g2g / mass
        tail = C * (0.5 * k * ug + D * ugg) / (a * mass)  # E[x/(1+x)], x = e^2/q
        log_z = constant - a * math.log1p(D + k) + top + math.log(mass)
        gap2 = gap * gap
        out[0, i] = log_z + 0.5 * (LOG_2PI + math.log(v)) + 0.5 * shift[i] * (shift[i] * v)
        out[1, i] = log_z
        out[2, i] = y[i] + gap * g1
        out[3, i] = v * g1 + gap2 * g2
        out[4, i] = gap * (3.0 * v * g2 + gap2 * g3)
        out[5, i] = 3.0 * v * v * (g1 * g1 + g2) + gap2 * (6.0 * v * g2g + gap2 * g4)
        out[6, i] = (2.0 * a * tail - power) / s
        # E[log(1+x)] = digamma(a) - E[log u]
        out[7, i] = d_constant - 0.5 * power * (digamma_a - c - log_u / mass) + a * tail / df


@jit_sums
def expected_log1p(mean_square: Any, var: Any, out: Any) -> None:
    """E[log(1 + x^2)] for x ~ N(m, v), given m^2 and v, and its derivatives in both, in out (3, n).

    log(1 + x^2) = integral (1 - exp(-u x^2)) exp(-u) d log u, and with g = 1 / (1 + 2 u v)

        E[exp(-u x^2)] = sqrt(g) exp(-u m^2 g).

    The rule is that of `student_t` with a = 1: 1 - exp(-u x^2) is proportional to u below c.
    """
    h = LARGEST_STEP
    low, high = -math.log(LOG_TINY + 1.0), math.log(LOG_TINY + 4.0) + 1.0
    widest = 0.0
    for i in range(len(var)):
        widest = max(widest, mean_square[i] + 2.0 * var[i])
    most = int((high - low + 1.0 + math.log1p(widest)) / h) + 2
    room = np.empty((2, most))
    grown, weight = room[0], room[1]
    for j in range(most):
        slope = exp(-(low + h * j))
        grown[j] = exp(low + h * j - slope)
        weight[j] = h * (1.0 + slope)
    for i in range(len(var)):
        d2, v = mean_square[i], var[i]
        C = math.exp(-1.0) / (1.0 + d2 + 2.0 * v)
        count = min(most, int((high - low - math.log(C)) / h) + 2)
        value, by_square, by_var = 0.0, 0.0, 0.0
        for j in range(count):
            u = C * grown[j]
            g = 1.0 / (1.0 + 2.0 * u * v)
            root, ug = math.sqrt(g), u * g
            w = weight[j] * exp(-u)
            # 1 - sqrt(g) exp(-z) = (1 - sqrt(g)) + sqrt(g) (1 - exp(-z)), both without cancellation
            value += w * (2.0 * ug * v / (1.0 + root) + root * one_minus_exp(d2 * ug))
            slope = w * root * exp(-d2 * ug) * ug
            by_square += slope
            by_var += slope * (1.0 - 2.0 * ug * d2)
        out[0, i], out[1, i], out[2, i] = value, by_square, by_var


@jit
def two_normals(
    y: Any, shift: Any, precision: Any, power: Any, fraction: float, scale: float, inflation: float, out: Any
) -> None:
    """Tilted quantities of (pi_0 N(e | 0, s_0^2) + pi_1 N(e | 0, s_1^2))^k for whole k, in out (9, n).

    The k-th power is a mixture of k + 1 normal factors: j of k observations are outliers,

        binom(k, j) N_0^(k-j) N_1^j,    w_j = (k-j) / s_0^2 + j / s_1^2.

    Cavities may be improper; natural parameters are then centered at y, and log weights are completed squares.
    """
    w_0, w_1 = 1.0 / (scale * scale), 1.0 / (scale * inflation * (scale * inflation))
    log_0 = math.log1p(-fraction) + 0.5 * (math.log(w_0) - LOG_2PI)
    log_1 = math.log(fraction) + 0.5 * (math.log(w_1) - LOG_2PI)
    most = 2
    for i in range(len(y)):
        most = max(most, int(power[i]) + 1)
    log_r, v = np.empty(most), np.empty(most)
    for i in range(len(y)):
        k, tau = int(power[i]), precision[i]
        proper = tau > 0.0
        centered = shift[i] - tau * y[i]
        gap = centered / tau
        log_binomial, top = 0.0, -math.inf
        for j in range(k + 1):
            w = (k - j) * w_0 + j * w_1
            v[j] = 1.0 / (w + tau)
            exponent = (
                -0.5 * (w * v[j]) * (gap * (tau * gap)) if proper else 0.5 * centered * (centered * v[j])
            )
            log_r[j] = log_binomial + (k - j) * log_0 + j * log_1 + 0.5 * math.log(v[j]) + exponent
            top = max(top, log_r[j])
            log_binomial += math.log((k - j) / (j + 1.0))
        mass, mean = 0.0, 0.0
        for j in range(k + 1):
            r = math.exp(log_r[j] - top)
            log_r[j] = r
            mass += r
            mean += r * v[j]
        mean *= centered / mass
        var, c3, c4, outliers, squares, wide = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(k + 1):
            r, m = log_r[j] / mass, centered * v[j]
            d = m - mean
            d2 = d * d
            var += r * (v[j] + d2)
            c3 += r * d * (3.0 * v[j] + d2)
            c4 += r * (3.0 * v[j] * v[j] + d2 * (6.0 * v[j] + d2))
            second = r * (v[j] + m * m)
            outliers += r * j
            squares += second * ((k - j) * w_0 + j * w_1)
            wide += second * (j * w_1)
        log_sum = top + math.log(mass)
        if proper:
            out[1, i] = log_sum + 0.5 * math.log(tau)
            out[0, i] = log_sum + 0.5 * LOG_2PI + 0.5 * shift[i] * (shift[i] / tau)
        else:
            out[1, i] = math.nan
            out[0, i] = log_sum + 0.5 * LOG_2PI + (shift[i] - 0.5 * tau * y[i]) * y[i]
        out[2, i] = y[i] + mean
        out[3, i] = var
        out[4, i] = c3
        out[5, i] = c4
        out[6, i] = outliers / fraction - (k - outliers) / (1.0 - fraction)
        out[7, i] = (squares - k) / scale
        out[8, i] = (wide - outliers) / inflation
