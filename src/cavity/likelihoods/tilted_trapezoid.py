"""The fast path of the quadrature fallback: one trapezoid rule per point, used only where it certifies
itself.

For an integrand that is analytic in a strip and vanishes at both ends, halving the step squares the error. So
the rule is compared with itself at twice the step (every other node): where the two agree to `AGREE`, the
finer one is good to about its square, and the point is done. All other points are left to the adaptive
panels.

Where to put the nodes: around the mode, found by Newton's method, for log-concave likelihoods; over the whole
stretch between cavity mean and y for noise that declares its finest width, since all modes lie between the
two.

Notation: g(t) = eta log p(y | c + t) + (cavity in t), c the center, h the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cavity.likelihoods.base import Likelihood
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI

AGREE = 1e-6
"""Agreement of the rules at h and 2h, relative to the sizes of the moments."""

STEP = 0.3
"""Step in units of the density's narrowest width."""

REACH = 9.0
"""Half-range in widths around a mode: 40 nats of a normal density."""

REACHES = np.array([9.0, 13.0, 20.0, 30.0, 45.0])
"""Half-ranges that are tried on either side of the mode of a skew density."""

END = 38.0
"""Nats below the peak that both ends must have reached."""

MAX_NODES = 401
"""Longer stretches go to the adaptive panels."""

NEWTON_STEPS = 12


class Nodes(NamedTuple):
    """Nodes t (J, n) around a center (n,), J odd, and their spacing (n,)."""

    center: Array
    t: Array
    h: Array


def has_derivatives(likelihood: Likelihood) -> bool:
    """Whether derivatives in f are known in closed form."""
    return likelihood.smooth and type(likelihood).derivatives is not Likelihood.derivatives


def place_nodes(
    likelihood: Likelihood, y: Array, shift: Array, tau: Array, power: Array
) -> tuple[NDArray[np.intp], Nodes] | None:
    """Nodes for the points this rule can serve, and which these are; None where it serves none."""
    if not likelihood.smooth:
        return None
    proper = np.flatnonzero(tau > 0)
    if likelihood.finest_width is not None:
        return _between(likelihood.finest_width, proper, y, shift, tau, power)
    if likelihood.log_concave and has_derivatives(likelihood):
        return _around_mode(likelihood, proper, y, shift, tau, power)
    return None


def _between(
    width: float, index: NDArray[np.intp], y: Array, shift: Array, tau: Array, power: Array
) -> tuple[NDArray[np.intp], Nodes] | None:
    """From beyond the cavity mean to beyond y, in steps of the narrowest possible width."""
    mean, target = shift[index] / tau[index], y[index]
    sd = 1 / np.sqrt(tau[index])
    narrow = 1 / np.sqrt(tau[index] + power[index] / width**2)
    # Outside the stretch the cavity alone makes the density fall.
    low, high = np.minimum(mean, target) - REACH * sd, np.maximum(mean, target) + REACH * sd
    # Beyond y, on the side away from the cavity, and beyond the mean, on the other, both factors fall.
    count = np.ceil((high - low) / (STEP * narrow))
    serve = np.isfinite(count) & (count < MAX_NODES)
    if not serve.any():
        return None
    J = int(count[serve].max()) | 1
    middle, half = 0.5 * (low + high)[serve], 0.5 * (high - low)[serve]
    x = np.linspace(-1.0, 1.0, J)[:, None]
    return index[serve], Nodes(middle, half * x, 2 * half / (J - 1))


def _around_mode(
    likelihood: Likelihood, index: NDArray[np.intp], y: Array, shift: Array, tau: Array, power: Array
) -> tuple[NDArray[np.intp], Nodes] | None:
    """Newton's method from the cavity mean; the mode need only be found roughly."""
    here = likelihood.rows(index)
    y, shift, tau, power = y[index], shift[index], tau[index], power[index]
    f = shift / tau
    for _ in range(NEWTON_STEPS):
        with np.errstate(all="ignore"):
            d = here.derivatives(y, f)
            curvature = tau - power * d.d2
            step = (power * d.d1 + shift - tau * f) / curvature
            f = f + step
        if np.all(np.abs(step) * np.sqrt(curvature) < 1e-3):
            break
    with np.errstate(all="ignore"):
        curvature = tau - power * here.derivatives(y, f).d2
        width = 1 / np.sqrt(curvature)
        serve = np.isfinite(f) & np.isfinite(width) & (np.abs(step) < 0.3 * width)
    if not serve.any():
        return None
    center, w = f[serve], width[serve]
    here, y, tau, eta = here.rows(np.flatnonzero(serve)), y[serve], tau[serve], power[serve]
    slope = shift[serve] - tau * center
    ends = []
    for sign in (-1.0, 1.0):
        t = sign * w * REACHES[:, None]
        with np.errstate(all="ignore"):
            g = eta * (here.log_prob(y, center + t) - here.log_prob(y, center)) + (slope - 0.5 * tau * t) * t
        # the first reach that is far enough; where none is, the last, and the point will not pass
        enough = np.where(g < -END, np.arange(len(REACHES))[:, None], len(REACHES) - 1).min(axis=0)
        ends.append(sign * w * REACHES[enough])
    J = int(np.ceil(np.max((ends[1] - ends[0]) / (STEP * w)))) | 1
    J = J if J % 4 == 1 else J + 2  # so that every other node ends at both ends too
    h = (ends[1] - ends[0]) / (J - 1)
    return index[serve], Nodes(center, ends[0] + h * np.arange(J)[:, None], h)


class TrapezoidMoments(NamedTuple):
    """For some `points`: log integral in t, moments, and the weights (J, n) for further averages."""

    points: NDArray[np.intp]
    nodes: Nodes
    log_mass: Array
    mean: Array
    var: Array
    c3: Array
    c4: Array
    weights: Array


def tilted_moments(
    likelihood: Likelihood, y: Array, shift: Array, tau: Array, power: Array
) -> TrapezoidMoments | None:
    """Moments of all points for which the rule certifies itself."""
    placed = place_nodes(likelihood, y, shift, tau, power)
    if placed is None:
        return None
    index, nodes = placed
    center, t, h = nodes
    here, eta, tau_, shift_ = likelihood.rows(index), power[index], tau[index], shift[index]
    with np.errstate(all="ignore"):
        g = eta * here.log_prob(y[index], center + t) + ((shift_ - tau_ * center) - 0.5 * tau_ * t) * t
    top = g.max(axis=0)
    ok = np.isfinite(top) & (g[0] < top - END) & (g[-1] < top - END)
    with np.errstate(all="ignore"):
        w = np.exp(g - top)
    fine, coarse = _moments(w, t), _moments(w[::2], t[::2])
    with np.errstate(all="ignore"):
        sd = np.sqrt(fine[2])
        ok &= np.abs(2 * coarse[0] / fine[0] - 1) < AGREE
        ok &= np.abs(coarse[1] - fine[1]) < AGREE * sd
        ok &= np.abs(coarse[2] / fine[2] - 1) < AGREE
        ok &= np.abs(coarse[4] / fine[4] - 1) < 10 * AGREE
    mass, mean, var, c3, c4 = (a[ok] for a in fine)
    chosen = Nodes(center[ok], t[:, ok], h[ok])
    weights = w[:, ok] / mass
    return TrapezoidMoments(index[ok], chosen, np.log(mass * h[ok]) + top[ok], mean, var, c3, c4, weights)


def _moments(w: Array, t: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Sum of weights, mean and central moments."""
    with np.errstate(all="ignore"):
        mass = w.sum(axis=0)
        p = w / mass
        mean = (p * t).sum(axis=0)
        d = t - mean
        d2 = d * d
        return mass, mean, (p * d2).sum(axis=0), (p * d2 * d).sum(axis=0), (p * d2 * d2).sum(axis=0)


NORMAL_NODES = (65, 257)
"""Sizes of the rule for expectations under a normal density, tried in turn."""


class NormalAverages(NamedTuple):
    """For some `points`: averages of log p, d1 and d2 under the normal density, and the nodes f (J, n)."""

    points: NDArray[np.intp]
    value: Array
    d1: Array
    d2: Array
    f: Array
    weights: Array


def normal_averages(
    likelihood: Likelihood, y: Array, mean: Array, sd: Array, count: int
) -> NormalAverages | None:
    """E[log p], E[d1], E[d2] under N(mean, sd^2) where the trapezoid rule certifies itself."""
    if not has_derivatives(likelihood):
        return None
    x = np.linspace(-9.0, 9.0, count)[:, None]
    w = np.exp(-0.5 * x * x - 0.5 * LOG_2PI) * (x[1] - x[0])
    f = mean + sd * x
    with np.errstate(all="ignore"):
        log_p, d1, d2, _ = likelihood.derivatives(y, f)
        ok = np.ones(len(y), dtype=bool)
        out = []
        for values in (log_p, sd * d1, sd * sd * d2):
            fine, coarse = (w * values).sum(axis=0), 2 * (w[::2] * values[::2]).sum(axis=0)
            size = 1e-300 + (w * np.abs(values)).sum(axis=0)
            ends = w[0] * (np.abs(values[0]) + np.abs(values[-1]))
            # squared by the finer rule; the ends must be negligible
            ok &= np.isfinite(fine) & (np.abs(fine - coarse) < AGREE * size) & (ends < 1e-14 * size)
            out.append(fine)
    index = np.flatnonzero(ok)
    value, first, second = (a[index] for a in out)
    s = sd[index]
    return NormalAverages(
        index, value, first / s, second / (s * s), f[:, index], np.broadcast_to(w, f[:, index].shape)
    )
