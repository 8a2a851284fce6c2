"""Answers for likelihoods that know only `log_prob`: adaptive quadrature and safe numerical differentiation.

Integrals over f are taken in t = f - center, the center being the cavity mean or a break point, so that
narrow densities keep their digits however far away from zero they are. Derivatives in f come from
seven-point stencils at a ladder of steps; at each point the step is chosen at which neighboring rungs agree
best, so neither the scale of f nor a nearby kink needs to be known.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    LOG_2PI,
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.likelihoods.trapezoid import NORMAL_NODES, has_derivatives, normal_averages, tilted_moments
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import (
    GAUSS_WEIGHTS,
    Index,
    PanelRule,
    adaptive_rule,
    chunks,
    ladder,
    partial_integrals,
    widen,
)
from cavity.prediction.distributions import CategoricalPrediction, ContinuousPrediction, Prediction, Seed

LOG_W0 = float(np.log(GAUSS_WEIGHTS[0]))

STEPS = np.array([0.25, 1.0, 3.0, 8.0])
"""Starting panel edges around the cavity mean, in cavity standard deviations."""

BREAK_STEPS = 10.0 ** np.arange(-6.0, 1.0)
"""Starting edges around break points, relative to their distance from the cavity mean plus its sd."""

GAUSS_RANGE = 14.0
"""Standard deviations that an expectation under a normal density covers."""

RUNGS = 2.0 ** -np.arange(0, 26)
"""Steps of numerical differentiation, relative to 4 (1 + |f|)."""

PREDICTIVE_DROP = 60.0
"""Nats below its peak at which a predictive density of y is cut."""

FIRST_STEPS = np.array([0.25, 1.0, 3.0, 8.0, 30.0])
"""Where y is looked for first, in steps."""

SIZES = 0.7 * 2.0 ** np.arange(-60, 61)
"""Sizes of y, or of its distance from f, that are tried where it cannot be near f; no round numbers, at which ranges
end and densities may be infinite."""

AGREE = 1e-3
"""Relative agreement of neighboring rungs below which a step counts as short enough."""

PARAMETER_STEP = 2e-3
"""Step in a parameter, relative to its distance from the ends of its range: fourth-order differences."""


# --- derivatives --------------------------------------------------------------------------------------------


def _best(estimates: Array, noise: Array) -> Array:
    """From estimates at decreasing steps (rungs, ...) the one that agrees best with both neighbors.

    Steps that are far too long make all estimates tiny, hence close to each other: so agreement must also be
    relative to the estimate, or within the rounding noise of the rung.
    """
    with np.errstate(invalid="ignore"):
        change = np.abs(np.diff(estimates, axis=0))
    change = np.where(np.isfinite(change), change, np.inf)
    spread = np.maximum(change[:-1], change[1:])
    inner, rounding = estimates[1:-1], noise[1:-1]
    with np.errstate(invalid="ignore"):
        agree = spread <= AGREE * np.abs(inner) + 10 * rounding
    score = spread + rounding
    score = np.where(agree.any(axis=0) & ~agree, np.inf, score)
    return np.asarray(np.take_along_axis(inner, np.argmin(score, axis=0)[None], axis=0)[0])


def derivatives(likelihood: Likelihood, y: Array, f: Array) -> Derivatives:
    """Central differences of order six (d1, d2) and four (d3), with the step chosen point by point."""
    y, f = np.asarray(y, dtype=float), np.asarray(f, dtype=float)
    h = (4.0 * (1.0 + np.abs(f))) * RUNGS.reshape(-1, *(1,) * f.ndim)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        p1, m1, p2, m2, p3, m3 = (likelihood.log_prob(y, f + k * h) for k in (1, -1, 2, -2, 3, -3))
        g = likelihood.log_prob(y, f)
        odd1, odd2, odd3 = p1 - m1, p2 - m2, p3 - m3
        d1 = (45 * odd1 - 9 * odd2 + odd3) / (60 * h)
        d2 = (270 * (p1 + m1 - 2 * g) - 27 * (p2 + m2 - 2 * g) + 2 * (p3 + m3 - 2 * g)) / (180 * h**2)
        d3 = (-13 * odd1 + 8 * odd2 - odd3) / (8 * h**3)
        rounding = 2e-16 * (1 + np.abs(g) + np.abs(p1))
    return Derivatives(g, *(_best(d, 4 * rounding / h**k) for k, d in enumerate((d1, d2, d3), start=1)))


def _in_parameters(likelihood: Likelihood, evaluate: Callable[[Any], Array]) -> Array:
    """Fourth-order central differences of evaluate(likelihood) in each flat parameter: shape (P, ...)."""
    rows = []
    for i, (x, entry) in enumerate(zip(likelihood.flat, likelihood.entries)):
        low, high = entry.transform.support
        room = min(x - low, high - x)
        h = PARAMETER_STEP * (room if np.isfinite(room) else 1.0 + abs(x))
        values = []
        for k in (1, -1, 2, -2):
            flat = likelihood.flat.copy()
            flat[i] = x + k * h
            values.append(evaluate(likelihood.with_flat(flat)))
        rows.append((8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * h))
    return np.stack(rows) if rows else np.zeros((0, *np.shape(evaluate(likelihood))))


def d_log_prob(likelihood: Likelihood, y: Array, f: Array) -> Array:
    """d log p / d flat by differences, shape (P, ...)."""
    return _in_parameters(likelihood, lambda lik: lik.log_prob(y, f))


def parameter_derivatives(likelihood: Likelihood, y: Array, f: Array) -> ParameterDerivatives:
    """Differences in the parameters of log p and of its derivatives."""
    slopes = _in_parameters(likelihood, lambda lik: np.stack(lik.derivatives(y, f)[:3]))
    return ParameterDerivatives(slopes[:, 0], slopes[:, 1], slopes[:, 2])


# --- tilted moments -----------------------------------------------------------------------------------------


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
    likelihood: Likelihood, y: Array, shift: Array, precision: Array, power: float | Array
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
    power: float | Array = 1.0,
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


# --- expectations under a normal density --------------------------------------------------------------------


def expected_log_prob(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
    """A trapezoid rule where it certifies itself, adaptive panels elsewhere."""
    y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
    if not np.all(var > 0):
        raise ValueError(f"var must be positive, got {float(np.min(var))!r}")
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


# --- predictions --------------------------------------------------------------------------------------------


def predictive(likelihood: Likelihood, mean: ArrayLike, var: ArrayLike) -> Prediction:
    """A prediction over y from `log_prob` alone."""
    if likelihood.n_latent != 1:
        raise ValueError(f"{type(likelihood).__name__}: predictive must be written for several latent values")
    m: Array = np.atleast_1d(np.asarray(mean, dtype=float))
    v: Array = np.broadcast_to(np.asarray(var, dtype=float), m.shape)
    if not likelihood.discrete:
        return QuadraturePrediction(likelihood, m, v)
    values = getattr(likelihood, "values", None)
    if values is None:
        raise ValueError(
            f"{type(likelihood).__name__} is discrete: give it an attribute `values`, the increasing "
            "array of values y can take, or write predictive"
        )
    log_p = np.stack([_log_density(likelihood, np.full(len(m), float(k)), m, v) for k in values], axis=1)
    return CategoricalPrediction(np.exp(log_p), values, log_p)


def _log_density(likelihood: Likelihood, y: Array, mean: Array, var: Array) -> Array:
    """log p(y) for f ~ N(mean, var); var may be zero."""
    out = np.array(likelihood.log_prob(y, mean))
    i = np.flatnonzero(var > 0)
    if len(i) == 0:
        return out
    if type(likelihood).tilted is not Likelihood.tilted:
        out[i] = likelihood.rows(i).tilted_normalized(y[i], mean[i], var[i]).log_z
        return out
    # the log integral alone, without moments and slopes in the parameters
    tau = 1 / var[i]
    rule, center = tilted_rule(likelihood.rows(i), y[i], mean[i] * tau, tau, 1.0)
    gap = center - mean[i]
    out[i] = rule.log_integral() + 0.5 * (np.log(tau) - LOG_2PI) - 0.5 * gap * (tau * gap)
    return out


class QuadraturePrediction(ContinuousPrediction):
    """Continuous y known only through log p(y|f): all averages by quadrature over y, done once when first
    needed.

    Searches for the mass of y start at the mean of f, as suits noise around f. Where y cannot be there (a positive y
    whose logarithm is modeled by f), they start at the best of many sizes of y.
    """

    def __init__(self, likelihood: Likelihood, mean: Array, var: Array) -> None:
        self._likelihood, self._f, self._v = likelihood, mean, var

    def log_prob(self, y: ArrayLike) -> Array:
        """Log density."""
        y = np.broadcast_to(np.asarray(y, dtype=float), self._f.shape)
        return _log_density(self._likelihood, y, self._f, self._v)

    def _at(self, y: Array, index: Index) -> Array:
        """Log densities of values (k, M) for the cases `index` (M,)."""
        flat = np.broadcast_to(index, y.shape).ravel()
        log_p = _log_density(self._likelihood.rows(flat), y.ravel(), self._f[flat], self._v[flat])
        if np.isnan(log_p).any():
            i = int(np.argmax(np.isnan(log_p)))
            raise ValueError(
                f"{type(self._likelihood).__name__}: log_prob is nan at y = {float(y.ravel()[i])!r}; let it be "
                "-inf for values that y cannot take"
            )
        return log_p.reshape(y.shape)

    @cached_property
    def _start(self) -> tuple[Array, Array]:
        """A value of y from which its mass can be found, and the size of a first step, for each case."""
        start, step = self._f.copy(), np.sqrt(self._v) + 1e-3 * (1 + np.abs(self._f))
        around = ladder(start, step, FIRST_STEPS)
        lost = np.flatnonzero(np.isneginf(self._at(around, np.arange(len(start))).max(axis=0)))
        if len(lost):
            start[lost], step[lost] = self._search(lost)
        return start, step

    def _search(self, index: Index) -> tuple[Array, Array]:
        """As `_start`, where y cannot be near the mean of f: the most probable of many sizes of y and of y - f."""
        f = self._f[index]
        sizes = np.repeat(SIZES[:, None], len(f), axis=1)
        values = np.concatenate([sizes, -sizes, f + sizes, f - sizes])
        flat = np.broadcast_to(index, values.shape).ravel()
        at = np.broadcast_to(f, values.shape).ravel()
        log_p = np.asarray(self._likelihood.rows(flat).log_prob(values.ravel(), at)).reshape(values.shape)
        # the largest mass, not density: that may be infinite at an end of the range of y
        mass = np.where(np.isfinite(log_p), log_p, -np.inf) + np.log(np.tile(sizes, (4, 1)))
        best, column = np.argmax(mass, axis=0), np.arange(len(f))
        found = mass[best, column] > -np.inf
        if not found.all():
            raise ValueError(
                f"{type(self._likelihood).__name__}: no value of y with a positive density was found for "
                f"f = {float(f[np.argmin(found)])!r}, although sizes up to {SIZES[-1]:.0e} were tried; write "
                "`predictive` for this likelihood"
            )
        return values[best, column], 0.1 * SIZES[best % len(SIZES)]

    @cached_property
    def _rule(self) -> PanelRule:
        """Panels in t = y - start that resolve the density of y."""
        start, step = self._start

        def log_density(t: Array, index: Index) -> Array:
            return self._at(start[index] + t, index)

        edges = ladder(np.zeros_like(step), step, FIRST_STEPS)
        low, high = widen(log_density, edges.min(axis=0), edges.max(axis=0), drop=PREDICTIVE_DROP)
        full = np.concatenate([edges, low[None], high[None]])
        return adaptive_rule(log_density, full, drop=PREDICTIVE_DROP)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        rule = self._rule
        w, peak = rule.density()
        t = rule.nodes
        from_peak = rule.sum(w * (t - peak[rule.index]))
        d = t - (peak + from_peak)[rule.index]
        pieces = (w * d * d).sum(axis=0)
        var = np.bincount(rule.index, weights=pieces, minlength=rule.n)
        # A second moment to which the outermost decade still contributes does not converge: no variance.
        reach = np.zeros(rule.n)
        np.maximum.at(reach, rule.index, np.abs(d).max(axis=0))
        outer = np.abs(d).max(axis=0) > 0.1 * reach[rule.index]
        share = np.bincount(rule.index, weights=np.where(outer, pieces, 0.0), minlength=rule.n)
        tail = reach > 1e3 * np.sqrt(var)
        heavy = (share > 1e-3 * var) & (tail | (share > 0.5 * var) & (reach > 1e6 * self._quartile_width))
        return self._start[0] + peak + from_peak, np.where(heavy, np.inf, var)

    @cached_property
    def _quartile_width(self) -> Array:
        low, high = self.interval(0.5)
        return np.maximum(high - low, 1e-300)

    @property
    def mean(self) -> Array:
        """By quadrature."""
        return self._moments[0]

    @property
    def variance(self) -> Array:
        """By quadrature; inf where the second moment does not converge."""
        return self._moments[1]

    def __len__(self) -> int:
        return len(self._f)

    def cdf(self, y: ArrayLike) -> Array:
        """Sum over the panels left of y, and the part of the panel y is in by interpolation of its
        density."""
        y = np.broadcast_to(np.asarray(y, dtype=float), self._f.shape)
        rule = self._rule
        w, _ = rule.density()
        t = (y - self._start[0])[rule.index]
        half = np.exp(rule.log_weights[0] - LOG_W0)
        middle = 0.5 * (rule.nodes[0] + rule.nodes[-1])
        x = np.clip((t - middle) / half, -1.0, 1.0)
        fraction = partial_integrals(w / GAUSS_WEIGHTS[:, None], x)
        return np.clip(np.bincount(rule.index, weights=fraction, minlength=rule.n), 0.0, 1.0)

    def _location_and_width(self) -> tuple[Array, Array]:
        return self._start

    def sample(self, n: int = 1, rng: Seed = None) -> Array:
        """Choose a panel by its mass, then invert the integral of its density by bisection."""
        generator = np.random.default_rng(rng)
        rule = self._rule
        w, _ = rule.density()
        mass = w.sum(axis=0)
        pick = np.empty((n, len(self)), dtype=np.intp)
        for i in range(len(self)):
            own = np.flatnonzero(rule.index == i)
            pick[:, i] = generator.choice(own, size=n, p=mass[own] / mass[own].sum())
        values, target = (w / GAUSS_WEIGHTS[:, None])[:, pick.ravel()], mass[pick.ravel()]
        target = target * generator.random(pick.size)
        low, high = np.full(pick.size, -1.0), np.full(pick.size, 1.0)
        for _ in range(52):
            x = 0.5 * (low + high)
            short = partial_integrals(values, x) < target
            low, high = np.where(short, x, low), np.where(short, high, x)
        column = pick.ravel()
        half = np.exp(rule.log_weights[0, column] - LOG_W0)
        t = 0.5 * (rule.nodes[0, column] + rule.nodes[-1, column]) + half * low
        return np.asarray(self._start[0] + t.reshape(pick.shape))
