"""Noise with exponential tails: Laplace (double exponential) and epsilon-insensitive.

    p(y|f) = exp(-max(|y-f| - epsilon, 0)/s) / (2 (s + epsilon));  epsilon = 0 is the Laplace density.

The tilted density consists of a normal density cut to the flat middle and two products of a normal density
with an exponential tail, which are again cut normal densities: see `cavity.numerics.special`. Each piece has its log
weight and moments in closed form without cancellation, for any ratio of cavity width to noise scale; the
pieces are then mixed.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Tilted,
    log_cavity_mass,
    require_cavity,
)
from cavity.likelihoods.predictive import NoisePrediction
from cavity.likelihoods.scale_mixture import ScaleMixture
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import trapezoid_nodes
from cavity.numerics.special import LOG_2PI, Moments, half_line, log_half_line, mix_moments, normal_interval
from cavity.parameters.param import LOG


def _excess(a: Array) -> tuple[Array, Array]:
    """E[max(x - a, 0)] for x standard normal, and the probability of x > a."""
    tail = ndtr(-a)
    return np.asarray(tail * half_line(a).mean), np.asarray(tail)


class _ExponentialTails(Likelihood):
    """Shared by both: a flat middle of half-width epsilon (possibly zero) and exponential sides."""

    log_concave = True
    smooth = False

    @property
    def _half_width(self) -> float:
        return 0.0

    def _rows(self, by_scale: Array, by_epsilon: Array) -> Array:
        """Derivatives in the flat parameters this likelihood has."""
        raise NotImplementedError

    def _log_constant(self) -> float:
        return float(-np.log(2 * (self.scale + self._half_width)))

    def log_prob(self, y: Array, f: Array) -> Array:
        """-max(|e| - epsilon, 0)/s - log 2(s + epsilon)."""
        return np.asarray(
            self._log_constant() - np.maximum(np.abs(y - f) - self._half_width, 0.0) / self.scale
        )

    def derivatives(self, y: Array, f: Array) -> Derivatives:
        """Almost everywhere: d1 = sign(e)/s outside the middle, zero inside; higher ones vanish (there are
        kinks)."""
        e = y - f
        d1 = np.where(np.abs(e) > self._half_width, np.sign(e) / self.scale, 0.0)
        zero = np.zeros_like(d1)
        return Derivatives(self.log_prob(y, f), d1, zero, zero)

    def parameter_derivatives(self, y: Array, f: Array) -> ParameterDerivatives:
        """Almost everywhere."""
        s, width = self.scale, self._half_width
        e = y - f
        outside = np.abs(e) > width
        excess = np.maximum(np.abs(e) - width, 0.0)
        norm = 1 / (s + width)
        zero = np.zeros_like(excess)
        by_f = np.where(outside, np.sign(e), 0.0)
        log_p = self._rows(excess / s**2 - norm, outside / s - norm)
        return ParameterDerivatives(log_p, self._rows(-by_f / s**2, zero), np.zeros_like(log_p))

    def break_points(self, y: Array) -> Array:
        """The kinks."""
        return np.unique(np.array([-self._half_width, self._half_width]))[:, None] + y

    def tilted(
        self,
        y: Array,
        cavity_shift: Array,
        cavity_precision: Array,
        power: float | Array = 1.0,
        order: int = 2,
    ) -> Tilted:
        """Two or three cut normal densities."""
        require_cavity(self, cavity_precision, power)
        s, width = self.scale, self._half_width
        sd = 1 / np.sqrt(cavity_precision)
        gap = (cavity_shift - cavity_precision * y) / cavity_precision  # cavity mean - y
        rate = power * sd / s
        # distances of the cavity mean from the kinks, counted towards the middle
        sides = np.stack([(width - gap) / sd, (width + gap) / sd])
        log_w = log_half_line(sides, rate)
        t = half_line(sides + rate)
        sign = np.array([[1.0], [-1.0]])
        parts = Moments(sign * (width + sd * t.mean), sd**2 * t.var, sign * sd**3 * t.c3, sd**4 * t.c4)
        if width > 0:
            log_middle, m = normal_interval(-sides[1], sides[0], 2 * width / sd)
            middle = Moments(sd * m.mean - width, sd**2 * m.var, sd**3 * m.c3, sd**4 * m.c4)
            log_w = np.concatenate([log_w, log_middle[None]])
            parts = Moments(*(np.concatenate([p, q[None]]) for p, q in zip(parts, middle)))
        top = log_w.max(axis=0)
        r = np.exp(log_w - top)
        mass = r.sum(axis=0)
        r /= mass
        moments = mix_moments(r, parts)
        normalized = top + np.log(mass) + power * self._log_constant()
        norm = 1 / (s + width)
        excess = (r[:2] * sd * t.mean).sum(axis=0)
        outside = r[:2].sum(axis=0)
        d_log_z = power * self._rows(excess / s**2 - norm, outside / s - norm)
        return Tilted(
            normalized + log_cavity_mass(cavity_shift, cavity_precision),
            normalized,
            y + moments.mean,
            moments.var,
            d_log_z,
            moments.c3,
            moments.c4,
        )

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Expected excesses of a normal variable over the two kinks."""
        s, width = self.scale, self._half_width
        sd = np.sqrt(var)
        d = y - mean
        right, left = (width - d) / sd, (width + d) / sd
        (up, p_up), (down, p_down) = _excess(right), _excess(left)
        excess = sd * (up + down)
        density = np.exp(-0.5 * right**2 - 0.5 * LOG_2PI) + np.exp(-0.5 * left**2 - 0.5 * LOG_2PI)
        norm = 1 / (s + width)
        d_flat = self._rows(excess / s**2 - norm, (p_up + p_down) / s - norm)
        value = self._log_constant() - excess / s
        # p_up - p_down from the smaller tail, so that it keeps its digits near the middle
        slope = p_up - p_down
        return ExpectedLogProb(value, slope / s, -0.5 * density / (sd * s), d_flat)

    def _tail_cdf(self, x: Array, sd: Array) -> Array:
        """P(N(0, sd^2) + L <= x) for L double exponential with scale s, from whichever tail is smaller."""
        kappa = sd / self.scale
        with np.errstate(divide="ignore", invalid="ignore"):
            a = np.where(sd > 0, -np.abs(x) / sd, np.where(x == 0, 0.0, -np.inf))
        point = 0.5 * np.exp(-np.abs(x) / self.scale)
        a_safe = np.where(np.isfinite(a), a, -1.0)
        up, down = np.exp(log_half_line(-a_safe, kappa)), np.exp(log_half_line(a_safe, kappa))
        lower = np.where(sd > 0, ndtr(a_safe) - 0.5 * up + 0.5 * down, point)
        return np.where(x <= 0, lower, 1 - lower)

    def predictive(self, mean: ArrayLike, var: ArrayLike) -> NoisePrediction:
        """Closed form."""
        s, width = self.scale, self._half_width
        inside = width / (s + width)
        noise = inside * width**2 / 3 + (1 - inside) * (width**2 + 2 * width * s + 2 * s * s)
        return NoisePrediction(self, mean, var, noise, s + width)

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """P(noise + N(0, var) <= x)."""
        raise NotImplementedError

    def sample(self, f: ArrayLike, rng: np.random.Generator) -> Array:
        """f plus noise: uniform in the middle or beyond it by an exponential distance."""
        f = np.asarray(f, dtype=float)
        s, width = self.scale, self._half_width
        sign = np.where(rng.random(f.shape) < 0.5, -1.0, 1.0)
        beyond = width + rng.exponential(s, f.shape)
        inside = width * rng.random(f.shape)
        return np.asarray(f + sign * np.where(rng.random(f.shape) < width / (s + width), inside, beyond))


class Laplace(_ExponentialTails, ScaleMixture):
    """Double exponential noise, p(y|f) = exp(-|y-f|/s) / (2 s).

    Parameters
    ----------
    scale : float or Param
        Mean absolute deviation s, in units of y; the variance is 2 s^2.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import Laplace
    >>> Laplace(1.0).log_prob(np.array([0.0, 1.0]), np.zeros(2)).round(2)
    array([-0.69, -1.69])
    """

    _transforms: ClassVar = {"scale": LOG}

    def __init__(self, scale: Any = 1.0) -> None:
        self._set_up({"scale": scale})

    def _rows(self, by_scale: Array, by_epsilon: Array) -> Array:
        return np.asarray(by_scale)[None]

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """P(noise + N(0, var) <= x)."""
        return self._tail_cdf(x, np.sqrt(var))

    def scale_mixture(self) -> tuple[Array, Array]:
        """The variance is exponential with mean 2 s^2: trapezoid nodes in its logarithm.

        Good for residuals between 1e-6 and 100 scales; the kink itself is not a finite mixture.
        """
        x, h = trapezoid_nodes(np.array([-34.0]), np.array([9.0]), 260)
        v = 2 * self.scale**2 * np.exp(x[:, 0])
        log_c = x[:, 0] - np.exp(x[:, 0]) + np.log(h[0]) - 0.5 * (LOG_2PI + np.log(v))
        return 1 / v, log_c

    def expected_precision(self, squared_residual: Array) -> Array:
        """1/(s |e|): infinite at zero, where the kink is."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.scale * np.sqrt(squared_residual)))

    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """Inverse Gaussian with mean 1/(s |e|) and shape 1/s^2."""
        mean = 1 / (self.scale * np.maximum(np.abs(residual), 1e-12 * self.scale))
        return np.asarray(rng.wald(mean, self.scale**-2))


class EpsilonInsensitive(_ExponentialTails):
    """The likelihood behind support vector regression: flat within epsilon, exponential beyond.

    Parameters
    ----------
    scale : float or Param
        Decay length s of the tails, in units of y.
    epsilon : float or Param
        Half-width of the flat middle, in units of y.

    Examples
    --------
    >>> import numpy as np
    >>> from cavity.likelihoods import EpsilonInsensitive
    >>> noise = EpsilonInsensitive(scale=1.0, epsilon=0.5)
    >>> noise.log_prob(np.array([0.0, 0.4, 2.0]), np.zeros(3)).round(2)
    array([-1.1, -1.1, -2.6])
    """

    _transforms: ClassVar = {"scale": LOG, "epsilon": LOG}

    def __init__(self, scale: Any = 1.0, epsilon: Any = 0.1) -> None:
        self._set_up({"scale": scale, "epsilon": epsilon})

    @property
    def _half_width(self) -> float:
        return float(self.epsilon)

    def _rows(self, by_scale: Array, by_epsilon: Array) -> Array:
        return np.stack([np.asarray(by_scale), np.asarray(by_epsilon)])

    def noise_cdf(self, x: Array, var: Array) -> Array:
        """Average over the uniform middle and the two shifted tails."""
        s, width = self.scale, self._half_width
        sd = np.sqrt(var)
        x = -np.abs(x0 := x)
        inside = width / (s + width)
        uniform = _uniform_cdf(x, width, sd)
        right, left = (
            _shifted_exponential_cdf(x - width, sd, s),
            _shifted_exponential_survival(-x - width, sd, s),
        )
        lower = inside * uniform + (1 - inside) * 0.5 * (right + left)
        return np.asarray(np.where(x0 <= 0, lower, 1 - lower))


def _uniform_cdf(x: Array, width: float, sd: Array) -> Array:
    """P(U + N(0, sd^2) <= x) for U uniform on [-width, width]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # the integral of Phi up to z is z Phi(z) + phi(z) = E[max(x + z, 0)]
        high, low = (_excess(-(x + sign * width) / sd)[0] for sign in (1, -1))
        smooth = sd * (high - low) / (2 * width)
    return np.where(sd > 0, smooth, np.clip((x + width) / (2 * width), 0, 1))


def _shifted_exponential_cdf(x: Array, sd: Array, scale: float) -> Array:
    """P(E + N(0, sd^2) <= x) for E exponential with mean `scale`."""
    sharp = np.where(x > 0, -np.expm1(-np.maximum(x, 0.0) / scale), 0.0)
    safe = np.where(sd > 0, sd, 1.0)
    a = x / safe
    return np.where(sd > 0, ndtr(a) - np.exp(np.minimum(log_half_line(-a, safe / scale), log_ndtr(a))), sharp)


def _shifted_exponential_survival(x: Array, sd: Array, scale: float) -> Array:
    """P(E + N(0, sd^2) > x), which keeps its digits far in the tail."""
    sharp = np.exp(-np.maximum(x, 0.0) / scale)
    safe = np.where(sd > 0, sd, 1.0)
    a = x / safe
    return np.where(
        sd > 0, ndtr(-a) + np.exp(np.minimum(log_half_line(-a, safe / scale), log_ndtr(a))), sharp
    )
