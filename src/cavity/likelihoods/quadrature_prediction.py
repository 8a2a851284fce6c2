"""Predictions of y for likelihoods that know only `log_prob`: averages by adaptive quadrature over y."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from cavity.likelihoods.base import (
    Likelihood,
)
from cavity.likelihoods.tilted_quadrature import tilted_rule
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import (
    GAUSS_WEIGHTS,
    Index,
    PanelRule,
    adaptive_rule,
    ladder,
    partial_integrals,
    widen,
)
from cavity.numerics.special import LOG_2PI
from cavity.prediction import CategoricalPrediction, ContinuousPrediction, Prediction
from cavity.prediction.base import Seed

LOG_W0 = float(np.log(GAUSS_WEIGHTS[0]))

PREDICTIVE_DROP = 60.0
"""Nats below its peak at which a predictive density of y is cut."""

FIRST_STEPS = np.array([0.25, 1.0, 3.0, 8.0, 30.0])
"""Where y is looked for first, in steps."""

SIZES = 0.7 * 2.0 ** np.arange(-60, 61)
"""Sizes of y, or of its distance from f, that are tried where it cannot be near f; no round numbers, at which ranges
end and densities may be infinite."""


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

    def sample(self, size: int = 1, rng: Seed = None) -> Array:
        """Choose a panel by its mass, then invert the integral of its density by bisection."""
        generator = np.random.default_rng(rng)
        rule = self._rule
        w, _ = rule.density()
        mass = w.sum(axis=0)
        pick = np.empty((size, len(self)), dtype=np.intp)
        for i in range(len(self)):
            own = np.flatnonzero(rule.index == i)
            pick[:, i] = generator.choice(own, size=size, p=mass[own] / mass[own].sum())
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
