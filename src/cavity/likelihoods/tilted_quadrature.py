"""Tilted moments and expectations of likelihoods that know only `log_prob`, by adaptive quadrature.

Integrals over f are taken in t = f - center, the center being the cavity mean or a break point, so that narrow
densities keep their digits however far away from zero they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cavity.likelihoods.base import (
    ExpectedLogProb,
    Likelihood,
    Power,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.likelihoods.tilted_trapezoid import NORMAL_NODES, has_derivatives, normal_averages, tilted_moments
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import (
    Index,
    PanelRule,
    adaptive_rule,
    chunks,
    ladder,
    widen,
)
from cavity.numerics.special import LOG_2PI
from cavity.runtime.checks import require_positive

STEPS = np.array([0.25, 1.0, 3.0, 8.0])
"""Starting panel edges around the cavity mean, in cavity standard deviations."""

BREAK_STEPS = 10.0 ** np.arange(-6.0, 1.0)
"""Starting edges around break points, relative to their distance from the cavity mean plus its sd."""

GAUSS_RANGE = 14.0
"""Standard deviations that an expectation under a normal density covers."""


def _starting_edges(cavity_mean: Array, width: Array, breaks: Array) -> Array:
    """Ladders around the cavity mean and around every break point."""
    parts = [ladder(cavity_mean, width, STEPS)]
    for b in breaks:
        parts.append(ladder(b, np.abs(b - cavity_mean) + width, BREAK_STEPS))
    return np.concatenate(parts)


def _center(
    likelihood: Likelihood, y: Array, candidates: Array, shift: Array, tau: Array, power: Array
) -> Array:
    """That candidate at which the tilted density is largest: t = f - center then keeps its digits."""
    log_p = np.stack([likelihood.log_prob(y, c) for c in candidates])
    g = power * log_p + (shift - 0.5 * tau * candidates) * candidates
    return np.asarray(np.take_along_axis(candidates, np.argmax(g, axis=0)[None], axis=0)[0])


def tilted_rule(
    likelihood: Likelihood, y: Array, shift: Array, precision: Array, power: Power
) -> tuple[PanelRule, Array]:
    """Panels for p(y|f)^power exp(shift f - precision f^2/2), and the center that t = f - center refers
    to."""
    proper = precision > 0
    breaks = np.atleast_2d(likelihood.break_points(y))
    tau = np.where(proper, precision, 1.0)
    cavity_mean = np.where(proper, shift / tau, breaks[0] if len(breaks) else 0.0)
    width = np.where(proper, 1 / np.sqrt(tau), 1.0)
    powers = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
    center = _center(likelihood, y, np.concatenate([cavity_mean[None], breaks]), shift, precision, powers)
    slope = np.where(proper, precision * (cavity_mean - center), shift - precision * center)

    def log_density(t: Array, index: Index) -> Array:
        log_p = likelihood.rows(index).log_prob(y[index], center[index] + t)
        g = powers[index] * log_p + (slope[index] - 0.5 * precision[index] * t) * t
        if np.isnan(g).any():
            raise ValueError(f"{type(likelihood).__name__}.log_prob returned nan; it must be finite or -inf")
        return g

    edges = _starting_edges(cavity_mean - center, width, breaks - center)
    low, high = widen(log_density, edges.min(axis=0), edges.max(axis=0))
    return adaptive_rule(log_density, np.concatenate([edges, low[None], high[None]])), center


def tilted(
    likelihood: Likelihood,
    y: Array,
    shift: Array,
    precision: Array,
    power: Power = 1.0,
    order: int = 2,
) -> Tilted:
    """Moments by a trapezoid rule where it certifies itself, by adaptive panels elsewhere."""
    y, shift, precision = (np.asarray(a, dtype=float) for a in (y, shift, precision))
    require_cavity(likelihood, precision, power)
    powers = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
    center, log_mass, mean, var, c3, c4 = np.empty((6, len(y)))
    d_log_z = np.empty((likelihood.flat.size, len(y)))
    rest = np.ones(len(y), dtype=bool)
    for block in chunks(len(y), 128):
        # blocks that stay in cache; the panels below are shared by all points left over
        rows = np.arange(len(y))[block]
        quick = tilted_moments(likelihood.rows(rows), y[rows], shift[rows], precision[rows], powers[rows])
        if quick is None:
            break
        i = rows[quick.points]
        rest[i] = False
        center[i], log_mass[i], mean[i], var[i] = quick.nodes.center, quick.log_mass, quick.mean, quick.var
        c3[i], c4[i] = quick.c3, quick.c4
        if len(d_log_z):
            slopes = likelihood.rows(i).parameter_slopes(y[i], quick.nodes.center + quick.nodes.t)
            d_log_z[:, i] = powers[i] * (quick.weights * slopes).sum(axis=1)
    if rest.any():
        i = np.flatnonzero(rest)
        center[i], log_mass[i], mean[i], var[i], c3[i], c4[i], d_log_z[:, i] = _by_panels(
            likelihood.rows(i), y[i], shift[i], precision[i], powers[i]
        )
    proper = precision > 0
    tau = np.where(proper, precision, np.nan)
    gap = center - shift / tau
    normalized = log_mass + 0.5 * (np.log(tau) - LOG_2PI) - 0.5 * gap * (tau * gap)
    direct = log_mass + (shift - 0.5 * precision * center) * center
    log_z = np.where(proper, normalized + log_cavity_mass(shift, precision), direct)
    higher = (c3, c4) if order > 2 else (None, None)
    return Tilted(log_z, normalized, center + mean, var, d_log_z, *higher)


def closed_or_panels(
    likelihood: Likelihood,
    closed: Callable[[Array, Array, Array, Array, int], Tilted],
    where: NDArray[np.bool_],
    y: Array,
    shift: Array,
    precision: Array,
    power: Array,
    order: int,
) -> Tilted:
    """Closed forms `where` there are any, panels elsewhere: a few weighted rows do not slow down all others."""
    if where.all():
        return closed(y, shift, precision, power, order)
    if not where.any():
        return tilted(likelihood, y, shift, precision, power, order)
    i, j = np.flatnonzero(where), np.flatnonzero(~where)
    parts = (
        (i, closed(y[i], shift[i], precision[i], power[i], order)),
        (j, tilted(likelihood.rows(j), y[j], shift[j], precision[j], power[j], order)),
    )
    merged: list[Any] = []
    for name in Tilted.__dataclass_fields__:
        pieces = [(rows, getattr(part, name)) for rows, part in parts]
        if any(piece is None for _, piece in pieces):
            merged.append(None)
            continue
        full = np.empty((*pieces[0][1].shape[:-1], len(y)))
        for rows, piece in pieces:
            full[..., rows] = piece
        merged.append(full)
    return Tilted(*merged)


def _by_panels(
    likelihood: Likelihood, y: Array, shift: Array, precision: Array, power: Array
) -> tuple[Array, Array, Array, Array, Array, Array, Array]:
    """Center, log integral in t = f - center, mean of t, central moments and d log Z, by adaptive panels."""
    rule, center = tilted_rule(likelihood, y, shift, precision, power)
    w, peak = rule.density()
    t = rule.nodes
    from_peak = rule.sum(w * (t - peak[rule.index]))
    d = (t - peak[rule.index]) - from_peak[rule.index]
    d2 = d * d
    var, c3, c4 = (rule.sum(w * p) for p in (d2, d2 * d, d2 * d2))
    slopes = likelihood.rows(rule.index).parameter_slopes(y[rule.index], center[rule.index] + t)
    # Nodes where p underflows have weight zero and may have infinite slopes.
    d_log_z = power * rule.sum(np.where(w > 0, w * np.where(w > 0, slopes, 0.0), 0.0))
    return center, rule.log_integral(), peak + from_peak, var, c3, c4, d_log_z


def expected_log_prob(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """A trapezoid rule where it certifies itself, adaptive panels elsewhere."""
    y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
    require_positive(var, "var")
    value, d_mean, d_var = np.empty((3, len(y)))
    d_flat = np.empty((likelihood.flat.size, len(y)))
    rest = np.ones(len(y), dtype=bool)
    blocks = [(count, block) for count in NORMAL_NODES for block in chunks(len(y), count)]
    for count, block in blocks:
        rows = np.arange(len(y))[block][rest[block]]
        quick = normal_averages(likelihood.rows(rows), y[rows], mean[rows], np.sqrt(var[rows]), count)
        if quick is None:
            break
        i = rows[quick.points]
        rest[i] = False
        value[i], d_mean[i], d_var[i] = quick.value, quick.d1, 0.5 * quick.d2
        if len(d_flat):
            d_flat[:, i] = (quick.weights * likelihood.rows(i).parameter_slopes(y[i], quick.f)).sum(axis=1)
    if rest.any():
        i = np.flatnonzero(rest)
        e = _expected_by_panels(likelihood.rows(i), y[i], mean[i], var[i])
        value[i], d_mean[i], d_var[i], d_flat[:, i] = e
    return ExpectedLogProb(value, d_mean, d_var, d_flat)


def _expected_by_panels(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """Panels for N(f|mean, var) log p(y|f).

    Without derivatives of log p: dE/dmean = E[(f - mean) log p]/var, dE/dvar = E[((f - mean)^2/var - 1) log
    p]/(2 var), which hold across kinks too; log p at the mean is taken off first.
    """
    sd = np.sqrt(var)
    base = likelihood.log_prob(y, mean)
    base = np.where(np.isfinite(base), base, 0.0)

    def gain(x: Array, index: Index) -> Array:
        return likelihood.rows(index).log_prob(y[index], mean[index] + sd[index] * x) - base[index]

    def log_function(x: Array, index: Index) -> Array:
        with np.errstate(divide="ignore"):
            return np.log(np.abs(gain(x, index))) - 0.5 * x * x

    breaks = np.atleast_2d(likelihood.break_points(y))
    edges = [ladder(np.zeros_like(sd), np.ones_like(sd), np.array([0.5, 2.0, 6.0]))]
    for b in breaks:
        x = np.clip((b - mean) / sd, -GAUSS_RANGE, GAUSS_RANGE)
        edges.append(np.clip(ladder(x, np.abs(x) + 1, BREAK_STEPS), -GAUSS_RANGE, GAUSS_RANGE))
    full = np.concatenate([*edges, np.full((1, len(sd)), -GAUSS_RANGE), np.full((1, len(sd)), GAUSS_RANGE)])
    with np.errstate(divide="ignore"):
        floor = np.log(1e-13 * np.abs(base))  # what is lost there is below the rounding of log p at the mean
    rule = adaptive_rule(log_function, full, lambda x, index: np.sign(gain(x, index)), floor)
    x, i = rule.nodes, rule.index
    weights = np.exp(rule.log_weights - 0.5 * x * x - 0.5 * LOG_2PI)
    h = gain(x, i)
    slopes = likelihood.rows(i).parameter_slopes(y[i], mean[i] + sd[i] * x)
    covered = rule.sum(weights)  # panels where log p hardly differs from its value at the mean were dropped
    value = base + rule.sum(weights * h)
    if has_derivatives(likelihood):
        # Known derivatives: dE/dmean = E[d1] and dE/dvar = E[d2]/2 subtract nothing.
        here, there = (
            likelihood.derivatives(y, mean),
            likelihood.rows(i).derivatives(y[i], mean[i] + sd[i] * x),
        )
        d_mean = here.d1 + rule.sum(weights * (there.d1 - here.d1[i]))
        d_var = 0.5 * (here.d2 + rule.sum(weights * (there.d2 - here.d2[i])))
    else:
        d_mean = rule.sum(weights * h * x) / sd
        d_var = rule.sum(weights * h * (x * x - 1)) / (2 * var)
    at_mean = likelihood.parameter_slopes(y, mean)
    d_flat = rule.sum(weights * slopes) + (1 - covered) * at_mean
    return ExpectedLogProb(value, d_mean, d_var, d_flat)
