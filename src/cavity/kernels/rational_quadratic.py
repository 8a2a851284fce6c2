"""The rational quadratic kernel: a mixture of squared exponentials over length scales.

Rasmussen and Williams (2006), eq. 4.19.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp
from cavity.parameters.param import LOG, Transform

SMALL_RATIO = 0.02
"""Below this r2 / (2 alpha) the derivative in alpha is summed as a series (ten terms reach round-off)."""


class RationalQuadratic(Stationary):
    """Rational quadratic, k = (1 + r2 / (2 alpha))^-alpha: a mixture of length scales.

    Small alpha: many scales at once; alpha -> infinity: the squared exponential.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    alpha : float or Param
        Shape, without unit.

    Examples
    --------
    >>> from cavity.kernels import RationalQuadratic
    >>> RationalQuadratic(1.0, alpha=0.5)([[0.0], [1.0]]).round(3)
    array([[1.   , 0.707],
           [0.707, 1.   ]])
    """

    _nearest_markov = "Matern(lengthscale, nu=2.5) + Matern(5 * lengthscale, nu=2.5)"
    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "alpha": LOG}
    _homogeneous = True

    def __init__(self, lengthscale: Any = 1.0, alpha: Any = 1.0, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings, alpha=alpha)

    def _check(self) -> None:
        super()._check()
        if np.ndim(self.alpha):
            raise ValueError(f"RationalQuadratic: alpha must be a single number, got {self.alpha!r}")

    def _radial(self, r2: Array, dims: int) -> Array:
        r2 *= 0.5 / self.alpha
        np.log1p(r2, out=r2)
        r2 *= -self.alpha
        return kernel_exp(r2)

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        r2 *= -1.0 / self.alpha
        r2 -= 2.0
        return np.divide(K, r2, out=r2)  # -k / (2 + r2 / alpha)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        if self._params["alpha"].fixed:
            return np.append(super()._pull(a, b, G, K), 0.0)
        t, near = self._distances(a, b)
        t *= 0.5 / self.alpha
        W = G * K
        d_alpha = _alpha_moment(t, W)
        t += 1.0
        W /= t
        W *= -0.5
        return np.append(self._pull_metric(a[0], b[0], W, near), d_alpha)


def _alpha_moment(t: Array, W: Array) -> float:
    """sum of W d log k / d alpha, that is of W [t / (1 + t) - log(1 + t)], t = r2 / (2 alpha).

    For a tile of small t, where the two would cancel, by the series sum_{m >= 2} (-1)^(m+1) (m-1)/m t^m.
    """
    if t.size and t.max() < SMALL_RATIO:
        series = np.zeros_like(t)
        for m in range(11, 1, -1):
            series *= t
            series += (-1.0) ** (m + 1) * (m - 1) / m
        series *= t
        series *= t
        return float(np.vdot(W, series))
    work = t + 1.0  # one work array for both: memory asked for and given back costs more than the arithmetic
    ratio = float(np.vdot(W, np.divide(t, work, out=work)))
    return ratio - float(np.vdot(W, np.log1p(t, out=work)))
