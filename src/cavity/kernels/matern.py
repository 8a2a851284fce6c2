"""The Matern kernel: functions of a chosen smoothness (Rasmussen and Williams, 2006, eq. 4.14 to 4.17).

Distances are Euclidean: with a 1-norm the family is not positive definite in more than one dimension.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.bessel import log_matern, log_matern_slope, order_derivative
from cavity.kernels.state_space import Block, Factor, FactorKind, NoStateSpaceError, Quantity
from cavity.kernels.stationary import Stationary, over
from cavity.numerics.arrays import Array
from cavity.numerics.compiled import kernel_exp
from cavity.parameters.param import LOG, Transform

MAX_ORDER = 4
"""Derivatives of the smoothest process that is given in state-space form."""


class Matern(Stationary):
    """Matern, k = 2^(1-nu) / Gamma(nu) t^nu K_nu(t), t = sqrt(2 nu) r: functions of chosen smoothness.

    A sample has as many derivatives as there are integers below nu. Closed forms for nu = 1/2, exp(-r) (the
    Ornstein-Uhlenbeck process); 3/2, (1 + t) exp(-t); 5/2, (1 + t + t^2/3) exp(-t). Any other nu > 0 goes
    through a Bessel function and is some fifty times slower; nu -> infinity is the squared exponential.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    nu : float or Param
        Smoothness, without unit. Kept fixed unless given as `Param(value)`; it is then learned with a
        derivative by a five-point rule (see `bessel.order_derivative`).

    Examples
    --------
    >>> from cavity.kernels import Matern
    >>> round(float(Matern(2.0, nu=2.5)([[0.0]], [[1.0]])[0, 0]), 6)
    0.828649
    """

    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "nu": LOG}
    _fixed_by_default = ("nu",)
    _kink = True
    _single = ("nu",)

    def __init__(self, lengthscale: Any = 1.0, nu: Any = 1.5, *, loadings: Any = None) -> None:
        self._set_up_metric(lengthscale, loadings, nu=nu)

    @property
    def _homogeneous(self) -> bool:  # type: ignore[override]
        return self.nu in (0.5, 1.5, 2.5)

    def _radial(self, r2: Array, dims: int) -> Array:
        t = np.sqrt(r2, out=r2)
        t *= np.sqrt(2.0 * self.nu)
        if not self._homogeneous:
            return np.exp(log_matern(self.nu, t))
        if self.nu == 0.5:
            np.negative(t, out=t)
            return kernel_exp(t)
        factor = t * (1.0 / 3.0) if self.nu == 2.5 else None
        if factor is not None:
            factor += 1.0
            factor *= t
            factor += 1.0
        else:
            factor = t + 1.0
        np.negative(t, out=t)
        kernel_exp(t)
        t *= factor
        return t

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        t = np.sqrt(r2, out=r2)
        if self.nu == 0.5:  # -k / (2 r)
            out = over(K, t)
            out *= -0.5
            return out
        t *= np.sqrt(2.0 * self.nu)
        if self.nu == 1.5:  # -(3/2) exp(-t)
            t += 1.0
            np.divide(K, t, out=t)
            t *= -1.5
            return t
        if self.nu == 2.5:  # -(5/6) (1 + t) exp(-t)
            t += 1.0  # u = 1 + t, and 1 + t + t^2/3 = (u^2 + u + 1) / 3
            out = t + 1.0
            out *= t
            out += 1.0
            np.divide(t, out, out=out)
            out *= K
            out *= -2.5
            return out
        return -np.exp(log_matern_slope(self.nu, t))

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        order, learned = self.nu - 0.5, not self._params["nu"].fixed
        if (
            order not in range(MAX_ORDER + 1)
            or learned
            or np.size(self.lengthscale) != 1
            or "loadings" in self._params
        ):
            half = min(max(round(self.nu - 0.5), 0), MAX_ORDER) + 0.5
            raise NoStateSpaceError(self, f"Matern(lengthscale, nu={half}), one length scale and nu fixed")
        length, size = self._quantity("lengthscale"), self.flat.size
        rate = np.sqrt(2.0 * self.nu) / length.value
        return (
            Block(
                Quantity.fixed(1.0, size),
                (Factor(FactorKind.MATERN, int(order), Quantity(rate, -rate / length.value * length.slope)),),
            ),
        )

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        d_order = 0.0
        if not self._params["nu"].fixed:
            weights = order_derivative(self.nu, np.sqrt(self._distances(a, b)[0]))
            weights *= K
            d_order = float(np.einsum("ij,ij->", G, weights))
        return np.append(super()._pull(a, b, G, K), d_order)
