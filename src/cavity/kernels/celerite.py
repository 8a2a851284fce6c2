"""Waves that lose their phase, with a sine beside the cosine: the term of celerite (Foreman-Mackey et al. 2017).

    k = exp(-r / l) (cos(w r) + skew / (w l) sin(w r)),    w = 2 pi / period

With skew 0 it is `Matern(l, nu=0.5) * Cosine(period)`, with 1 the damped oscillator of this frequency, with -1 its
velocity; in between, a mixture of two of them, which is also its state-space form. Beyond, it is no covariance.
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
from cavity.parameters.transforms import Logit

LEAST = 1e-13
"""Share of the variance that either part of the state-space form keeps: without one it would have no slope."""


class Celerite(Correlation):
    """The general term of celerite, of variance one: a e^(-c r) cos(d r) + b e^(-c r) sin(d r) with a = 1.

    Parameters
    ----------
    period : float or Param
        2 pi / d, in units of the input.
    lengthscale : float or Param
        1 / c, over which waves lose their phase.
    skew : float or Param
        b d / c, from -1 to 1: the larger, the smoother.

    Examples
    --------
    >>> from cavity.kernels import Celerite
    >>> Celerite(period=4.0, lengthscale=3.0, skew=0.5)([[0.0], [1.0], [2.0]]).round(3)[0]
    array([ 1.   ,  0.076, -0.513])
    """

    _transforms: ClassVar[dict[str, Transform]] = {
        "period": LOG,
        "lengthscale": LOG,
        "skew": Logit(-1.0, 1.0),
    }
    _single = ("period", "lengthscale", "skew")
    _input_columns = 1
    _widenable = False

    def __init__(self, period: Any = 1.0, lengthscale: Any = 1.0, skew: Any = 0.5) -> None:
        self._set_up({"period": period, "lengthscale": lengthscale, "skew": skew})

    @property
    def _frequency(self) -> float:
        return float(TURN / self.period)

    def _prepare(self, X: Array, ids: NDArray[np.intp]) -> Rows:
        self._check_width(X.shape[1])
        return (X,)

    def _waves(self, a: Rows, b: Rows) -> tuple[Array, Array, Array]:
        """Differences, and exp(-r / l) times cos(w r) and sin(w r)."""
        d = np.subtract.outer(a[0][:, 0], b[0][:, 0])
        r = np.abs(d)
        decay = np.exp(-r / self.lengthscale)
        return d, decay * np.cos(self._frequency * r), decay * np.sin(self._frequency * r)

    @property
    def _share(self) -> float:
        return float(self.skew / (self._frequency * self.lengthscale))

    def _block(self, a: Rows, b: Rows) -> Array:
        _, c, s = self._waves(a, b)
        return np.asarray(c + self._share * s)

    def _state_space(self, states: int | None) -> tuple[Block, ...]:
        period, length, skew = (self._quantity(name) for name in ("period", "lengthscale", "skew"))
        w = self._frequency
        frequency = Quantity(w, -w / period.value * period.slope)
        decay = Quantity(1.0 / length.value, -length.slope / length.value**2)
        rate = float(np.hypot(frequency.value, decay.value))  # of the oscillator without damping
        slope = (frequency.value * frequency.slope + decay.value * decay.slope) / rate
        damping = Quantity(decay.value / rate, decay.slope / rate - decay.value / rate**2 * slope)
        sign = 1.0 if skew.value >= 0 else -1.0
        part = float(np.clip(abs(skew.value), LEAST, 1.0 - LEAST))
        wave = Factor(FactorKind.MATERN, 0, decay), Factor(FactorKind.ROTATION, 0, frequency)
        kind = FactorKind.OSCILLATOR if sign > 0 else FactorKind.VELOCITY
        moved = Factor(kind, 0, Quantity(rate, slope), shapes=(damping,))
        return (
            Block(Quantity(1.0 - part, -sign * skew.slope), wave),
            Block(Quantity(part, sign * skew.slope), (moved,)),
        )

    def _pull(self, a: Rows, b: Rows, G: Array, K: Array) -> Array:
        d, c, s = self._waves(a, b)
        r, w, share = np.abs(d), self._frequency, self._share
        by_frequency = np.einsum("ij,ij->", G, r * (share * c - s) - share / w * s)
        by_length = np.einsum("ij,ij->", G, r / self.lengthscale**2 * (c + share * s))
        by_length -= share / self.lengthscale * np.einsum("ij,ij->", G, s)
        by_skew = np.einsum("ij,ij->", G, s) / (w * self.lengthscale)
        return np.array([-w / self.period * by_frequency, by_length, by_skew])

    def _pull_inputs(self, a: Rows, b: Rows, G: Array, K: Array) -> tuple[Array, Array]:
        d, c, s = self._waves(a, b)
        w, share = self._frequency, self._share
        slope = G * np.sign(d) * (w * (share * c - s) - (c + share * s) / self.lengthscale)
        return slope.sum(axis=1)[:, None], -slope.sum(axis=0)[:, None]
