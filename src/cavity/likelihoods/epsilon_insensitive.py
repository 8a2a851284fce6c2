"""Epsilon-insensitive noise: the likelihood behind support vector regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import log_ndtr, ndtr

from cavity.likelihoods.exponential_tails import ExponentialTails, normal_excess
from cavity.numerics.arrays import Array
from cavity.numerics.special import log_half_line
from cavity.parameters.param import LOG
from cavity.parameters.units import Unit


class EpsilonInsensitive(ExponentialTails):
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
    _units: ClassVar = {"epsilon": Unit.NOISE_SD}

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
        high, low = (normal_excess(-(x + sign * width) / sd)[0] for sign in (1, -1))
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
