"""The rational quadratic kernel: a mixture of squared exponentials over length scales.

Rasmussen and Williams (2006), eq. 4.19.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp
from cavity.parameters.param import LOG, Transform

SMALL_RATIO = 0.02
"""Below this r2 / (2 alpha) the derivative in alpha is summed as a series (ten terms reach round-off)."""


MARKOV_SCALES = 5
"""Squared exponentials that stand for their mixture in the approximate state-space form."""


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
    _approximately_markov = True
    _single = ("alpha",)

    def __init__(self, lengthscale: Any = 1.0, alpha: Any = 1.0, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings, alpha=alpha)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        """Gauss's rule for the mixture, k = E[exp(-x r2 / (2 alpha))] with x ~ Gamma(alpha, 1)."""
        if states is None or np.size(self.lengthscale) != 1 or "loadings" in self._params:
            raise NoStateSpaceError(self)
        length, alpha = self._quantity("lengthscale"), self._quantity("alpha")
        found = []
        for x, dx, weight, d_weight in zip(*gamma_rule(alpha.value, MARKOV_SCALES)):
            rate = np.sqrt(x / alpha.value) / length.value
            relative = 0.5 * (dx / x - 1.0 / alpha.value)
            slope = rate * (relative * alpha.slope - length.slope / length.value)
            factor = Factor(FactorKind.GAUSSIAN, states, Quantity(rate, slope))
            found.append(Block(Quantity(weight, d_weight * alpha.slope), (factor,)))
        return tuple(found)

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


def gamma_rule(shape: float, count: int) -> tuple[Array, Array, Array, Array]:
    """Gauss's rule for expectations under a Gamma(shape, 1) distribution: nodes, their slopes in the shape, weights,
    and theirs, by the eigenvectors of Jacobi's matrix (Golub and Welsch 1969)."""
    i = np.arange(count)
    off = np.sqrt(i[1:] * (i[1:] + shape - 1.0))
    jacobi = np.diag(2.0 * i + shape) + np.diag(off, 1) + np.diag(off, -1)
    slope = np.eye(count) + np.diag(0.5 * i[1:] / off, 1) + np.diag(0.5 * i[1:] / off, -1)
    nodes, V = np.linalg.eigh(jacobi)
    change = V.T @ slope @ V
    apart = np.subtract.outer(nodes, nodes).T
    np.fill_diagonal(apart, np.inf)
    d_first = V[0] @ (change / apart)
    return nodes, np.diag(change).copy(), V[0] ** 2, 2.0 * V[0] * d_first


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
