"""The damped oscillator driven by white noise: a wave whose amplitude and phase wander (Foreman-Mackey et al. 2017).

    f'' + (w / q) f' + w^2 f = white noise,    w = 2 pi / period,  q the quality

Its covariance is the response to a unit displacement, k = exp(-zeta x) (cos(eta x) + zeta sin(eta x) / eta) with
x = w |x - x'|, zeta = 1 / (2 q) and eta^2 = 1 - zeta^2. At q = 1/2 this is the Matern kernel of smoothness 3/2 and
length scale sqrt(3) / w; below, the process creeps back without a swing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cavity.kernels.base import Correlation, Rows
from cavity.kernels.cosine import TURN
from cavity.kernels.state_space import Block, Factor, FactorKind, Quantity
from cavity.numerics.arrays import Array
from cavity.parameters.param import LOG, Transform


class DampedOscillator(Correlation):
    """Damped oscillator driven by white noise: waves of about this period that last about `quality` cycles.

    The stochastic harmonic oscillator of celerite, of variance one. It has an exact state-space form of two states.

    Parameters
    ----------
    period : float or Param
        Of the undamped oscillation, in units of the input.
    quality : float or Param
        The larger, the longer waves keep their phase; at 1/2 and below there are no waves.

    Examples
    --------
    >>> from cavity.kernels import DampedOscillator
    >>> DampedOscillator(period=4.0, quality=5.0)([[0.0], [2.0], [4.0]]).round(3)[0]
    array([ 1.   , -0.729,  0.532])
    """

    _transforms: ClassVar[dict[str, Transform]] = {"period": LOG, "quality": LOG}
    _single = ("period", "quality")
    _input_columns = 1
    _widenable = False

    def __init__(self, period: Any = 1.0, quality: Any = 5.0) -> None:
        self._set_up({"period": period, "quality": quality})

    @property
    def _frequency(self) -> float:
        return float(TURN / self.period)

    @property
    def _damping(self) -> float:
        return float(0.5 / self.quality)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        return (X,)

    def _waves(self, a: Rows, b: Rows) -> tuple[Array, tuple[Array, Array, Array]]:
        """Distances, with their sign, in radians, and the solutions of `numerics.damped_waves` there."""
        from cavity.numerics.damped_waves import damped_waves_of

        x = self._frequency * np.subtract.outer(a[0][:, 0], b[0][:, 0])
        return x, damped_waves_of(np.abs(x), self._damping)

    def _block(self, a: Rows, b: Rows) -> Array:
        c, s, _ = self._waves(a, b)[1]
        return c + self._damping * s

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        period, quality = self._quantity("period"), self._quantity("quality")
        rate = Quantity(self._frequency, -self._frequency / period.value * period.slope)
        damping = Quantity(self._damping, -self._damping / quality.value * quality.slope)
        factor = Factor(FactorKind.OSCILLATOR, 0, rate, shapes=(damping,))
        return (Block(Quantity.fixed(1.0, self.flat.size), (factor,)),)

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        x, (_, s, d) = self._waves(a, b)
        d_period = np.einsum("ij,ij,ij->", G, s, np.abs(x)) / self.period
        d_quality = -self._damping / self.quality * np.einsum("ij,ij->", G, d)
        return np.array([d_period, d_quality])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        x, (_, s, _) = self._waves(a, b)
        slope = -self._frequency * G * s * np.sign(x)
        return slope.sum(axis=1)[:, None], -slope.sum(axis=0)[:, None]
