"""Laplace (double exponential) noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.likelihoods.exponential_tails import ExponentialTails
from cavity.likelihoods.scale_mixture import WIDE, ScaleMixture, legendre_nodes
from cavity.numerics.arrays import Array
from cavity.numerics.quadrature import trapezoid_nodes
from cavity.numerics.special import LOG_2PI
from cavity.parameters.param import LOG


class Laplace(ExponentialTails, ScaleMixture):
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

    def clean_variances(self) -> tuple[Array, Array]:
        """Of the sd t, with density t/s^2 exp(-t^2/(2 s^2)), given that it is at most WIDE s."""
        t, h = legendre_nodes(0.0, WIDE)
        weights = h * t * np.exp(-0.5 * t**2)
        return (self.scale * t) ** 2, weights / weights.sum()

    def expected_precision(self, squared_residual: Array) -> Array:
        """1/(s |e|): infinite at zero, where the kink is."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.scale * np.sqrt(squared_residual)))

    def sample_precision(self, residual: Array, rng: np.random.Generator) -> Array:
        """Inverse Gaussian with mean 1/(s |e|) and shape 1/s^2."""
        mean = 1 / (self.scale * np.maximum(np.abs(residual), 1e-12 * self.scale))
        return np.asarray(rng.wald(mean, self.scale**-2))
