"""The gamma-exponential kernel exp(-r^gamma) (Rasmussen and Williams, 2006, eq. 4.18)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from cavity.kernels.base import Rows
from cavity.kernels.distances import Pairs
from cavity.kernels.stationary import Stationary
from cavity.numerics.arrays import Array
from cavity.parameters.param import IDENTITY, Logit, Param, Transform


class GammaExponential(Stationary):
    """Gamma-exponential, k = exp(-r^gamma) with 0 < gamma <= 2 (Rasmussen and Williams, eq. 4.18).

    Between the rough exponential (gamma = 1) and the smooth limit gamma = 2. Functions are not differentiable
    if gamma < 2.

    Parameters
    ----------
    lengthscale, loadings : see `Stationary`.
    gamma : float or Param
        Exponent, without unit, below 2; exactly 2 only as `fixed(2.0)`.

    Examples
    --------
    >>> from cavity.kernels import GammaExponential
    >>> GammaExponential(1.0, gamma=1.0)([[0.0], [1.0]]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    """

    _transforms: ClassVar[dict[str, Transform]] = {**Stationary._transforms, "gamma": Logit(0.0, 2.0)}
    _kink = True
    _homogeneous = True

    def __init__(self, lengthscale: Any = 1.0, gamma: Any = 1.0, *, loadings: Any = None) -> None:
        if isinstance(gamma, Param) and gamma.fixed and np.ndim(gamma.value) == 0 and gamma.value == 2.0:
            # the end of the interval has no unconstrained coordinate, and as a fixed value needs none
            self._transforms = {**type(self)._transforms, "gamma": IDENTITY}  # type: ignore[misc]
        self._set_up_metric(lengthscale, loadings, gamma=gamma)

    def _check(self) -> None:
        super()._check()
        param = self._params["gamma"]
        if np.ndim(param.value) or not 0.0 < param.value <= 2.0 or (param.value == 2.0 and not param.fixed):
            raise ValueError(
                f"GammaExponential: gamma must be between 0 and 2 (2 only if fixed), got {param.value!r}"
            )

    def _radial(self, r2: Array, dims: int) -> Array:
        with np.errstate(divide="ignore"):  # log 0 = -inf, and exp brings it back to 0
            np.log(r2, out=r2)
        r2 *= 0.5 * self.gamma
        np.exp(r2, out=r2)
        np.negative(r2, out=r2)
        return np.exp(r2, out=r2)

    def _radial_slope(self, r2: Array, K: Array, dims: int) -> Array:
        raise NotImplementedError  # _weighted does it together with the derivative in gamma

    def _weighted(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None, float]:
        """H = G dg/dr2 with dg/dr2 = -(gamma/2) r^gamma / r2 k, the near pairs, and d/d gamma."""
        r2, near = self._distances(a, b)
        log_r2 = np.log(r2, out=np.full_like(r2, -np.inf), where=r2 > 0)
        H = np.multiply(log_r2, 0.5 * self.gamma)
        np.exp(H, out=H)
        H *= K
        H *= G
        log_r2[r2 == 0] = 0.0  # r^gamma log r is 0 there
        d_gamma = -0.5 * float(np.vdot(H, log_r2))
        np.divide(H, r2, out=H, where=r2 > 0)
        if self.gamma == 2.0:
            np.copyto(H, G * K, where=r2 == 0)  # the one case with a finite slope at 0, -1
        H *= -0.5 * self.gamma
        return H, near, d_gamma

    def _weights(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Pairs | None]:
        return self._weighted(a, b, G, K)[:2]

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        H, near, d_gamma = self._weighted(a, b, G, K)
        return np.append(self._pull_metric(a[0], b[0], H, near), d_gamma)
