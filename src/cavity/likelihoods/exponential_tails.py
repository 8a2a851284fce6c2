"""What noise with exponential tails shares: Laplace (double exponential) and epsilon-insensitive.

    p(y|f) = exp(-max(|y-f| - epsilon, 0)/s) / (2 (s + epsilon));  epsilon = 0 is the Laplace density.

The tilted density consists of a normal density cut to the flat middle and two products of a normal density
with an exponential tail, which are again cut normal densities: see `cavity.numerics.special`. Each piece has its log
weight and moments in closed form without cancellation, for any ratio of cavity width to noise scale; the
pieces are then mixed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from cavity.likelihoods.base import (
    Derivatives,
    ExpectedLogProb,
    Likelihood,
    ParameterDerivatives,
    Power,
    Tilted,
    float_rows,
    require_cavity,
)
from cavity.likelihoods.noise_prediction import NoisePrediction
from cavity.numerics.arrays import Array
from cavity.numerics.special import LOG_2PI, half_line, log_half_line


def normal_excess(a: Array) -> tuple[Array, Array]:
    """E[max(x - a, 0)] for x standard normal, and the probability of x > a."""
    tail = ndtr(-a)
    return np.asarray(tail * half_line(a).mean), np.asarray(tail)


class ExponentialTails(Likelihood):
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

    def tilted(self, y: Array, shift: Array, precision: Array, power: Power = 1.0, order: int = 2) -> Tilted:
        """Two or three cut normal densities, see `exponential_tail_loops`."""
        from cavity.likelihoods.exponential_tail_loops import exponential_tails

        require_cavity(self, precision, power)
        powers = np.broadcast_to(np.asarray(power, dtype=float), y.shape)
        rows = float_rows(y, shift, precision, powers)
        out = np.empty((8, len(y)))
        exponential_tails(*rows, float(self.scale), self._half_width, self._log_constant(), out)
        return Tilted.of(np.concatenate([out[:6], self._rows(*out[6:])]))

    def expected_log_prob(self, y: Array, mean: Array, var: Array) -> ExpectedLogProb:
        """Expected excesses of a normal variable over the two kinks."""
        s, width = self.scale, self._half_width
        sd = np.sqrt(var)
        d = y - mean
        right, left = (width - d) / sd, (width + d) / sd
        (up, p_up), (down, p_down) = normal_excess(right), normal_excess(left)
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
