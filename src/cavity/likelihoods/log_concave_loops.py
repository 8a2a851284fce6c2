# mypy: disable-error-code=untyped-decorator
"""Compiled tilted moments of Poisson, logistic, binomial and negative binomial likelihoods.

In s = f - offset all of them are exponential families with a convex cumulant,

    log p(y|f) = A s - N L(s) + constant,     L(s) = exp(s) (Poisson)  or  log(1 + exp(s)) (logistic).

With the cavity N(m, 1/tau), power eta and M = eta N the mode solves eta A - M L'(s) = tau (s - m): one root, between m
and what the first residual allows. Around it, with t = s - mode,

    g(t) = r t - tau t^2 / 2 - M (L(mode + t) - L(mode) - L'(mode) t),    r = 0 but for how well the mode was found.

The integral is a trapezoid rule in x with t = width sinh(x): a density that is nearly normal takes about 40 nodes, and
long tails few more. The step is halved until two rules agree to `AGREE`; the finer one is then good to its square.

This module loads Numba: import it inside functions.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from cavity.numerics.arrays import Array
from cavity.numerics.scalar import exp, inlined, jit, jit_sums, log
from cavity.numerics.special import LOG_2PI, SERIES_BELOW, SERIES_TERMS

AGREE = 1e-6
"""Agreement of the rules at h and 2h, relative to the sizes of the moments."""

END = 38.0
"""Nats below the peak at which the range is cut."""

STEP = 0.125
"""First step in x, compared with twice itself: enough for a normal density."""

FIRST_REACH, REACH = 23, 128
"""Steps after which the end of the range is first looked for, 8.8 widths, and up to which: 4e6 widths."""

LEVELS = 7
"""Rules that are tried, each with half the step of the last."""

BLOCK = 16
"""Nodes of the first rule come in multiples of what vector instructions take at once."""

POISSON, LOGISTIC, FAR_POISSON, FAR_LOGISTIC = 0, 1, 2, 3
FAR = 600.0
"""Modes beyond this, where exp(-mode) underflows or exp(mode) overflows."""

NEWTON_STEPS = 100
CLOSE = 0.1
"""How far from the mode, in widths, the center of the rule may be."""


@cache
def lattice() -> tuple[Array, Array, Array]:
    """sinh(x) and cosh(x) at the nodes that each level adds, one level after the other, and where levels begin."""
    levels = [STEP * np.arange(-REACH, REACH + 1 + BLOCK)]
    for k in range(1, LEVELS):
        count = REACH * 2 ** (k - 1)
        levels.append(STEP / 2 ** (k - 1) * (np.arange(-count, count) + 0.5))
    x = np.concatenate(levels)
    return np.sinh(x), np.cosh(x), np.cumsum([0, *(len(level) for level in levels)])


@inlined
def slopes(s: float, logistic: bool) -> tuple[float, float]:
    """L'(s) and L''(s)."""
    if logistic:
        e = math.exp(-abs(s))
        larger = 1.0 / (1.0 + e)
        return (larger if s > 0.0 else e * larger), e * larger * larger
    rate = math.exp(s)
    return rate, rate


@inlined
def excess(t: Any, mode: float, p: float, q: float, kind: int) -> Any:
    """L(mode + t) - L(mode) - p t >= 0, p = L'(mode), q = 1 - p for the logistic, in a form that cannot overflow.

    Near zero, by p and q; far away (`FAR`), where one of them underflows, from mode + t itself.
    """
    if kind == LOGISTIC:
        e = exp(-abs(t))
        return (log(p + q * e) + q * t) if t > 0.0 else (log(q + p * e) - p * t)
    if kind == POISSON:
        return p * (exp(t) - 1.0 - t)
    s = mode + t
    if kind == FAR_POISSON:
        return exp(s) - p * (1.0 + t)
    return max(s, 0.0) + log(1.0 + exp(-abs(s))) - max(mode, 0.0) - p * t


@jit
def mode_from_mean(m: float, tau: float, a: float, M: float, logistic: bool) -> Any:
    """t with a - M L'(m + t) = tau t, to `CLOSE` widths, by Newton's method within a bracket."""
    slope, curvature = slopes(m, logistic)
    residual = a - M * slope
    t, low, high = 0.0, min(0.0, residual / tau), max(0.0, residual / tau)
    last = high - low
    for _ in range(NEWTON_STEPS):
        total = tau + M * curvature
        step = residual / total
        if total < math.inf and abs(step) * math.sqrt(total) < CLOSE:
            return t + step
        if residual > 0.0:
            low = t
        else:
            high = t
        # an exponential makes Newton's steps wild or all of length one: half the bracket is then better
        if not (low < t + step < high and abs(step) < 0.5 * last):
            step = 0.5 * (low + high) - t
        t, last = t + step, abs(step)
        slope, curvature = slopes(m + t, logistic)
        residual = a - M * slope - tau * t
    return t


@jit_sums
def weigh(
    S: Any,
    C: Any,
    width: float,
    r: float,
    tau: float,
    M: float,
    mode: float,
    p: float,
    q: float,
    kind: int,
    w: Any,
) -> None:
    """w <- C exp(g(t)) at nodes t = width S; C is dS/dx. One loop for each kind, which the compiler vectorizes."""
    if kind == LOGISTIC and M == 1.0:  # exp(-log(x)) = 1/x
        for j in range(len(S)):
            t = width * S[j]
            e = exp(-abs(t))
            line, x = (q * t, p + q * e) if t > 0.0 else (-p * t, q + p * e)
            w[j] = C[j] * exp((r - 0.5 * tau * t) * t - line) / x
    elif kind == LOGISTIC:
        for j in range(len(S)):
            t = width * S[j]
            w[j] = C[j] * exp((r - 0.5 * tau * t) * t - M * excess(t, mode, p, q, LOGISTIC))
    elif kind == POISSON:
        for j in range(len(S)):
            t = width * S[j]
            w[j] = C[j] * exp((r - 0.5 * tau * t) * t - M * excess(t, mode, p, q, POISSON))
    else:
        for j in range(len(S)):
            t = width * S[j]
            w[j] = C[j] * exp((r - 0.5 * tau * t) * t - M * excess(t, mode, p, q, kind))


@jit_sums
def add_sums(w: Any, S: Any, sums: Any) -> None:
    """Adds the sums of w S^k, k = 0..4."""
    s0, s1, s2, s3, s4 = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(S)):
        square = S[j] * S[j]
        s0 += w[j]
        s1 += w[j] * S[j]
        s2 += w[j] * square
        s3 += w[j] * square * S[j]
        s4 += w[j] * square * square
    sums[0] += s0
    sums[1] += s1
    sums[2] += s2
    sums[3] += s3
    sums[4] += s4


@inlined
def central(sums: Any, out: Any) -> None:
    """Mass, mean, central moments from sums of powers about the mode, which is within a few sd of the mean."""
    mass = sums[0]
    m, m2, m3, m4 = sums[1] / mass, sums[2] / mass, sums[3] / mass, sums[4] / mass
    out[0], out[1] = mass, m
    out[2] = m2 - m * m
    out[3] = m3 - m * (3.0 * m2 - 2.0 * m * m)
    out[4] = m4 - m * (4.0 * m3 - m * (6.0 * m2 - 3.0 * m * m))


@inlined
def agree(coarse: Any, fine: Any) -> Any:
    """Whether sums of powers over twice the step give the same mass, and the same moments in terms of their sizes."""
    ratio, half = coarse[0] / fine[0], 0.5 * fine[0]
    shift = (coarse[1] - ratio * fine[1]) / half
    spread = (coarse[2] - ratio * fine[2]) / half
    fourth = (coarse[4] - ratio * fine[4]) / half
    m, m2 = fine[1] / fine[0], fine[2] / fine[0]
    var = m2 - m * m
    return (
        abs(2.0 * ratio - 1.0) < AGREE
        and abs(shift) < AGREE * math.sqrt(var)
        and abs(spread - 2.0 * m * shift) < AGREE * var
        and abs(fourth) < 10.0 * AGREE * fine[4] / fine[0]
    )


@jit
def reach(
    sign: int,
    S: Any,
    width: float,
    r: float,
    tau: float,
    M: float,
    mode: float,
    p: float,
    q: float,
    kind: int,
) -> int:
    """Steps on one side after which g has fallen by `END`; `REACH` if it has not."""
    for j in range(FIRST_REACH, REACH, 2):
        t = width * S[REACH + sign * j]
        if not (r - 0.5 * tau * t) * t - M * excess(t, mode, p, q, kind) > -END:
            return j
    return REACH


@jit
def exponential_family(
    A: Any, N: Any, constant: Any, offset: float, shift: Any, precision: Any, power: Any, logistic: bool,
    S: Any, C: Any, begin: Any, out: Any, rule: Any,
) -> None:  # fmt: skip
    """Tilted quantities in out (6, n), nan if no level is fine enough; in rule (5, n) what a further average needs:

    mode, width, level, and the steps to both ends.
    """
    sums, coarse, fine, room = np.empty(5), np.empty(5), np.empty(5), np.empty(len(S))
    for i in range(len(A)):
        tau, eta = precision[i], power[i]
        v = 1.0 / tau
        m, M, a = shift[i] * v - offset, eta * N[i], eta * A[i]
        t0 = mode_from_mean(m, tau, a, M, logistic)
        mode = m + t0
        kind = (LOGISTIC if logistic else POISSON) + (2 if abs(mode) > FAR else 0)
        p, curvature = slopes(mode, logistic)
        q = slopes(-mode, True)[0]
        r = (a - M * p) - tau * t0
        width = 1.0 / math.sqrt(tau + M * curvature)
        left = reach(-1, S, width, r, tau, M, mode, p, q, kind)
        right = reach(1, S, width, r, tau, M, mode, p, q, kind)
        first, last = REACH - left, REACH + right + 1
        last += -(last - first) % BLOCK
        here, w = S[first:last], room[: last - first]
        weigh(here, C[first:last], width, r, tau, M, mode, p, q, kind, w)
        for k in range(5):
            coarse[k], sums[k] = 0.0, 0.0
        add_sums(w[::2], here[::2], coarse)
        add_sums(w[1::2], here[1::2], sums)
        for k in range(5):
            sums[k] += coarse[k]
        certain, level, h = agree(coarse, sums), 0, STEP
        while not certain and level + 1 < LEVELS:
            level += 1
            first = begin[level] + (REACH - left) * 2 ** (level - 1)
            last = begin[level] + (REACH + right) * 2 ** (level - 1)
            here, w = S[first:last], room[: last - first]
            weigh(here, C[first:last], width, r, tau, M, mode, p, q, kind, w)
            for k in range(5):
                coarse[k] = sums[k]
            add_sums(w[::1], here[::1], sums)
            h *= 0.5
            certain = agree(coarse, sums)
        if not (certain and left < REACH and right < REACH):
            for k in range(6):
                out[k, i] = math.nan
            continue
        central(sums, fine)
        rule[0, i], rule[1, i], rule[2, i], rule[3, i], rule[4, i] = mode, width, level, left, right
        L = (max(mode, 0.0) + math.log1p(math.exp(-abs(mode)))) if logistic else p
        log_p = eta * (A[i] * mode - N[i] * L + constant[i])
        log_z = (
            log_p - 0.5 * t0 * (tau * t0) + 0.5 * (math.log(tau) - LOG_2PI) + math.log(width * h * fine[0])
        )
        out[0, i] = log_z + 0.5 * (LOG_2PI - math.log(tau)) + 0.5 * shift[i] * (shift[i] * v)
        out[1, i] = log_z
        out[2, i] = shift[i] * v + (t0 + width * fine[1])
        out[3, i] = width * width * fine[2]
        out[4, i] = width * width * width * fine[3]
        out[5, i] = width * width * width * width * fine[4]


@inlined
def log1p_minus(u: Any, log1p: Any) -> Any:
    """log(1 + u) - u by its series if the two would cancel; see `special.log1p_minus`."""
    series = 0.0
    for k in range(SERIES_TERMS, 1, -1):
        series = 1.0 / k - u * series
    return -u * u * series if abs(u) < SERIES_BELOW else log1p - u


@jit_sums
def shape_sums(
    S: Any,
    C: Any,
    mode: float,
    width: float,
    r: float,
    tau: float,
    M: float,
    y: float,
    shape: float,
    sums: Any,
) -> None:
    """Adds the sums of weight, and of weight times log(1 + u) - u, over nodes; see `shape_slopes`."""
    kind = FAR_LOGISTIC if abs(mode) > FAR else LOGISTIC
    p, q = slopes(mode, True)[0], slopes(-mode, True)[0]
    at_shape, ratio = math.log1p(y / shape), y / shape
    mass, slope = 0.0, 0.0
    for j in range(len(S)):
        t = width * S[j]
        weight = C[j] * exp((r - 0.5 * tau * t) * t - M * excess(t, mode, p, q, kind))
        s = mode + t
        e = exp(-abs(s))
        above = 1.0 / (1.0 + e)
        below = e * above
        u = (ratio * below - above) if s > 0.0 else (ratio * above - below)
        mass += weight
        slope += weight * log1p_minus(u, at_shape - log(1.0 + e) - max(s, 0.0))
    sums[0] += mass
    sums[1] += slope


@jit
def shape_slopes(
    y: Any,
    shape: float,
    mean: Any,
    precision: Any,
    power: Any,
    S: Any,
    C: Any,
    begin: Any,
    rule: Any,
    out: Any,
) -> None:
    """E[log(1 + u) - u] under the tilted density, u = (y q - shape p) / shape with p = 1 - q = L'(s), in out (n,).

    It is the derivative of a negative binomial log probability in its shape, but for what does not depend on f.
    """
    sums = np.empty(2)
    for i in range(len(y)):
        mode, width, tau = rule[0, i], rule[1, i], precision[i]
        M = power[i] * (y[i] + shape)
        r = power[i] * y[i] - M * slopes(mode, True)[0] - tau * (mode - mean[i])
        sums[0], sums[1] = 0.0, 0.0
        for level in range(int(rule[2, i]) + 1):
            k = 2 ** max(level - 1, 0)
            first = begin[level] + (REACH - int(rule[3, i])) * k
            last = begin[level] + (REACH + int(rule[4, i])) * k + (1 if level == 0 else 0)
            shape_sums(S[first:last], C[first:last], mode, width, r, tau, M, y[i], shape, sums)
        out[i] = sums[1] / sums[0]
